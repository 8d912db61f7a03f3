#pragma once

namespace densecore {

// Makes the numerics run their chunks on torch's intra-op threads; called once, when the module loads.
void use_torch_threads();

}  // namespace densecore
