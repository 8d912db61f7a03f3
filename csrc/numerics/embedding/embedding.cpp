// A table row is the sum of its gradients in the order of the indices, whichever thread adds them: ATen divides the rows of the
// table among threads, each of which walks through all indices (ATen/native/Embedding.cpp).
#include "embedding.h"

#include "../lanes.h"
#include "../parallel.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr int64_t kRowsPerTask = 1000;  // ATen's grain

DENSECORE_INLINE void add_row(const float* grad, float* row, int64_t width) {
  using V = F32<kWidth>;
  int64_t j = 0;
  for (; j + kWidth <= width; j += kWidth) store(row + j, load<V>(row + j) + load<V>(grad + j));
  for (; j < width; ++j) row[j] += grad[j];
}

DENSECORE_INLINE void add_scaled_row(const float* grad, float scale, float* row, int64_t width) {
  for (int64_t j = 0; j < width; ++j) row[j] = fma(grad[j], scale, row[j]);
}

}  // namespace

void embedding_dense_backward(const Profile& profile, const float* grad, const int64_t* index, int64_t count, int64_t padding,
                              const int64_t* frequency, float* table, int64_t rows, int64_t width) {
  parallel_for(profile, 0, rows, kRowsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = index[i];
      if (row == padding || row < begin || row >= end) continue;
      if (frequency == nullptr) {
        add_row(grad + i * width, table + row * width, width);
      } else {
        const float scale = static_cast<float>(1.0 / static_cast<double>(frequency[row]));
        add_scaled_row(grad + i * width, scale, table + row * width, width);
      }
    }
  });
}

}  // namespace densecore::DENSECORE_ISA
