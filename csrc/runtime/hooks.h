#pragma once

namespace densecore {

// Registers the device's hooks with ATen; called once, when the module loads.
void register_hooks();

}  // namespace densecore
