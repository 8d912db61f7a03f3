#pragma once

namespace densecore {

// Registers what makes ops that ask for the device take a CPU tensor's branch; called once, when the module loads.
void register_cpu_branches();

}  // namespace densecore
