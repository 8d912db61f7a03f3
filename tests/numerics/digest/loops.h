// Runs an elementwise kernel as at::TensorIterator would: sizes at lane and chunk edges, the layouts that kernels tell apart.
#pragma once

#include <cstdint>
#include <vector>

#include "inputs.h"
#include "parallel.h"
#include "pointwise/loop2d.h"
#include "profile.h"
#include "report.h"

namespace digest {

// kRows: 3 rows of n that lie apart. kOneValue: the last of several inputs is a single value.
enum class Layout { kContiguous, kStrided, kRows, kOneValue };

struct LoopCase {
  int64_t n;
  Layout layout;
  int threads;
};

inline std::vector<LoopCase> loop_cases(int inputs) {
  std::vector<LoopCase> cases;
  for (const int64_t n : {0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 31, 32, 33, 47, 63, 64, 65, 100, 127, 128, 129, 257, 1031}) {
    cases.push_back({n, Layout::kContiguous, 4});
  }
  for (const int64_t n : {1, 3, 8, 17, 263}) cases.push_back({n, Layout::kStrided, 4});
  for (const int64_t n : {1, 6, 21, 70}) cases.push_back({n, Layout::kRows, 4});
  if (inputs > 1) {
    for (const int64_t n : {1, 5, 21, 70}) cases.push_back({n, Layout::kOneValue, 4});
  }
  for (const int threads : {1, 2, 3}) cases.push_back({65541, Layout::kContiguous, threads});  // chunks of 65541, 32771 and 21847
  return cases;
}

// Stride in elements of input k, and the distance of its rows.
inline int64_t element_stride(const LoopCase& c, int k, int inputs) {
  if (c.layout == Layout::kOneValue && k == inputs - 1) return 0;
  return c.layout == Layout::kStrided ? 2 : 1;
}

// `kernel(loop, profile)` with `inputs` inputs of In and an output of Out, whose results are added to the line.
template <class In, class Out = In, class Kernel>
void run_loops(Line& line, int inputs, const Kernel& kernel, int lanes = 4) {
  uint64_t seed = 0;
  for (const LoopCase& c : loop_cases(inputs)) {
    const int64_t rows = c.layout == Layout::kRows ? 3 : 1;
    const int64_t row_stride = rows == 1 ? 0 : c.n + 5;
    std::vector<std::vector<In>> data;
    for (int k = 0; k < inputs; ++k) {
      data.push_back(values<In>(++seed, rows * (c.n + 5) + c.n, Kind::kMixed));
    }
    std::vector<Out> out(rows * c.n);
    densecore::Profile profile;
    profile.threads = c.threads;
    profile.lanes = lanes;
    densecore::parallel_for(profile, 0, c.n, densecore::kGrainSize, [&](int64_t begin, int64_t end) {
      std::vector<char*> pointers{reinterpret_cast<char*>(out.data() + begin)};
      std::vector<int64_t> strides{static_cast<int64_t>(sizeof(Out))};
      for (int k = 0; k < inputs; ++k) {
        strides.push_back(element_stride(c, k, inputs) * static_cast<int64_t>(sizeof(In)));
        pointers.push_back(reinterpret_cast<char*>(data[k].data()) + begin * strides.back());
      }
      strides.push_back(c.n * static_cast<int64_t>(sizeof(Out)));
      for (int k = 0; k < inputs; ++k) strides.push_back(row_stride * static_cast<int64_t>(sizeof(In)));
      kernel(densecore::Loop2d{pointers.data(), strides.data(), end - begin, rows}, profile);
    });
    line.add(out);
  }
}

// A line for 4 lanes, the current releases, and one for 8, the releases before 2.6.
template <class T, class Kernel>
void loop_lines(Report& report, const char* name, int inputs, const Kernel& kernel) {
  const bool is_float = sizeof(T) == 4;
  report.line(name, is_float ? "float32" : "float64", [&](Line& line) { run_loops<T>(line, inputs, kernel); });
  report.line(name, is_float ? "float32/8-lanes" : "float64/8-lanes", [&](Line& line) { run_loops<T>(line, inputs, kernel, 8); });
}

}  // namespace digest

// The kernel's own name labels its lines. The arguments after `inputs` are the kernel's arguments after the profile.
#define DIGEST_LOOP(report, T, kernel, inputs, ...)                                                                 \
  ::digest::loop_lines<T>(report, #kernel, inputs, [](const densecore::Loop2d& loop, const densecore::Profile& p) { \
    densecore::kernel(loop, p __VA_OPT__(, ) __VA_ARGS__);                                                          \
  })
