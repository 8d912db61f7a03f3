// Host threads for the numerics' tasks, as many as asked for: what at::parallel_for is inside torch.
#pragma once

namespace digest {

void use_threads(int count);

}  // namespace digest
