// Kernels led by indices or keys, and losses: embedding, loss, sorting.
#include "embedding/embedding.h"
#include "inputs.h"
#include "loss/Loss.h"
#include "loss/LossNLL.h"
#include "report.h"
#include "sorting/sort.h"

namespace digest {
namespace {

void embedding(Line& line) {
  uint64_t seed = 0;
  for (const int64_t width : {1, 3, 16, 33}) {
    for (const int64_t rows : {1, 50, 2500}) {
      const int64_t count = 400;
      const auto grad = floats(++seed, count * width);
      const auto index = integers(++seed, count, rows);
      std::vector<int64_t> frequency(rows);
      for (const int64_t i : index) ++frequency[i];
      for (const bool scaled : {false, true}) {
        std::vector<float> table(rows * width);
        densecore::embedding_dense_backward(densecore::Profile{}, grad.data(), index.data(), count, rows / 2, scaled ? frequency.data() : nullptr,
                                            table.data(), rows, width);
        line.add(table);
      }
    }
  }
}

template <class Index, class Kernel>
void nll(Line& line, const Kernel& kernel) {
  uint64_t seed = 0;
  for (const int64_t batch : {1, 7, 300, 5000}) {
    for (const int64_t positions : {1, 6}) {
      const int64_t classes = 11;
      const auto log_probability = floats(++seed, batch * classes * positions), weight = floats(++seed, classes, Kind::kUnit);
      const auto target = integers<Index>(++seed, batch * positions, classes);
      for (const float* w : {static_cast<const float*>(nullptr), weight.data()}) {
        for (const bool mean : {false, true}) {
          const densecore::NllResult result =
              kernel(densecore::NllInput<Index>{log_probability.data(), target.data(), w, batch, classes, positions, 3, mean});
          line.add_value(result.loss);
          line.add_value(result.total_weight);
          line.add_value(static_cast<int32_t>(result.valid));
        }
      }
    }
  }
}

void cross_entropy(Line& line) {
  for (const int64_t n : {0, 1, 3, 4, 8, 17, 1031}) {
    auto x = floats(n, n, Kind::kUnit), target = floats(n + 1, n, Kind::kUnit);
    for (int64_t i = 0; i < n; i += 5) x[i] = target[n - 1 - i] = static_cast<float>(i % 2);  // the ends of the range
    std::vector<float> out(n);
    line.add_value(static_cast<int32_t>(densecore::binary_cross_entropy_terms(x.data(), target.data(), n, out.data())));
    line.add(out);
  }
}

constexpr int64_t kRowLengths[] = {1, 2, 3, 5, 6, 16, 17, 31, 100, 1000, 5001};

// Few different keys, so that ties decide.
template <class T>
std::vector<T> keys(uint64_t seed, int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    auto x = values<T>(seed, count, Kind::kMixed);
    for (int64_t i = 0; i < count; ++i) {
      if (i % 2) x[i] = static_cast<T>(static_cast<int64_t>(word(seed, i) % 9) - 4);
    }
    return x;
  } else {
    return integers<T>(seed, count, 40);
  }
}

template <class T>
void sorting(Report& report, densecore::KeyType type, const char* variant) {
  report.line("sort_rows", variant, [&](Line& line) {
    for (const int64_t n : kRowLengths) {
      for (const bool descending : {false, true}) {
        auto values = keys<T>(n, 3 * n);
        std::vector<int64_t> indices(3 * n);
        densecore::sort_rows(type, values.data(), indices.data(), 3, n, descending);
        line.add(values);
        line.add(indices);
      }
    }
  });
  report.line("topk_rows", variant, [&](Line& line) {
    for (const int64_t n : kRowLengths) {
      const auto source = keys<T>(n, 3 * n);
      for (const int64_t k : {int64_t{0}, int64_t{1}, n / 100, n / 3, n}) {
        for (const int choice : {0, 1, 2, 3}) {
          std::vector<T> values(3 * k);
          std::vector<int64_t> indices(3 * k);
          densecore::topk_rows(type, source.data(), 3, n, k, choice & 1, choice & 2, values.data(), indices.data());
          line.add(values);
          line.add(indices);
        }
      }
    }
  });
}

}  // namespace

void lookups(Report& report) {
  report.line("embedding_dense_backward", "float32", embedding);
  report.line("binary_cross_entropy_terms", "float32", cross_entropy);
  report.line("nll_loss", "float32", [](Line& line) { nll<int64_t>(line, densecore::nll_loss); });
  report.line("nll_loss_byte", "float32", [](Line& line) { nll<uint8_t>(line, densecore::nll_loss_byte); });
  using densecore::KeyType;
  sorting<float>(report, KeyType::kF32, "float32");
  sorting<double>(report, KeyType::kF64, "float64");
  sorting<uint8_t>(report, KeyType::kU8, "uint8");
  sorting<int8_t>(report, KeyType::kI8, "int8");
  sorting<int16_t>(report, KeyType::kI16, "int16");
  sorting<int32_t>(report, KeyType::kI32, "int32");
  sorting<int64_t>(report, KeyType::kI64, "int64");
}

}  // namespace digest
