// How many threads of the host a runner would use: a hint for dividing work that every division computes alike.
#pragma once

namespace densecore {

// 1 until a source is set; the binding layer sets torch's.
int host_threads();
void set_host_threads_source(int (*source)());

// Lets another thread go on, while this one waits for what that thread has begun.
void yield_to_other_threads();

}  // namespace densecore
