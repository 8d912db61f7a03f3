// The path of the module that is running ("transformer.h.3.mlp"), forward or backward. Python's module hooks report the forward;
// a backward op belongs to the module in whose forward its autograd node was made.
#pragma once

#include <string>

namespace densecore {

// Switches the bookkeeping on or off for the process; users nest. While it is off, every path is "".
void track_modules(bool on);
// The innermost module that now runs on this thread, "" for none.
void set_module_path(const std::string& path);
// The module that the op running on this thread belongs to, "" outside of modules.
const std::string& current_module_path();

}  // namespace densecore
