#include "inputs.h"
#include "reduce/ReduceOpsKernel.h"
#include "report.h"
#include "variant/sum.h"
#include "variants.h"

#define DIGEST_NAMED(kernel) #kernel, densecore::kernel

namespace digest {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65, 129, 517};

struct LoopShape {
  int64_t size0, size1;
  int64_t strides[4];  // output and input along size0, then along size1; elements
};

// Reduced along size0, contiguous and not; reduced along size1; columns side by side; nothing reduced.
std::vector<LoopShape> loop_shapes() {
  std::vector<LoopShape> shapes;
  for (const int64_t n : kSizes) {
    for (const int64_t m : {1, 2, 5, 21, 70}) {
      shapes.push_back({n, m, {0, 1, 1, n}});
      shapes.push_back({n, m, {0, 2, 1, 2 * n}});
      shapes.push_back({n, m, {0, m, 1, 1}});
      shapes.push_back({m, n, {1, 1, 0, m}});
      shapes.push_back({n, m, {1, 1, n, n}});
    }
  }
  shapes.push_back({70001, 1, {0, 1, 1, 70001}});
  shapes.push_back({3, 20011, {0, 20011, 1, 1}});
  return shapes;
}

template <class Kernel>
void reduce_loop(Line& line, const Kernel& kernel, Kind kind) {
  uint64_t seed = 0;
  for (const LoopShape& s : loop_shapes()) {
    const auto in = floats(++seed, 2 * s.size0 * s.size1, kind);
    auto out = floats(1, s.size0 * s.size1, Kind::kNearOne);
    char* data[] = {reinterpret_cast<char*>(out.data()), reinterpret_cast<char*>(const_cast<float*>(in.data()))};
    int64_t strides[4];
    for (int i = 0; i < 4; ++i) strides[i] = s.strides[i] * kFloat;
    kernel(data, strides, s.size0, s.size1);
    line.add(out);
  }
}

template <class Kernel>
void reduce_loops(Line& line, const Kernel& kernel, Kind kind) {
  reduce_loop(line, kernel, kind);
  reduce_loop(line, kernel, Kind::kMixed);
}

void loop_lines(Report& report, const char* name, const densecore::Dispatched<densecore::ReduceLoopFn>& kernel, Kind kind) {
  report.line(name, "float32", [&](Line& line) { reduce_loops(line, kernel, kind); });
}

void variant_sum_lines(Report& report, const char* suffix, bool skip_nan) {
  variant_lines(
      report, "sum_loop",
      [skip_nan](Line& line, const densecore::Profile& profile) {
        reduce_loops(line, [&](auto... loop) { densecore::variant::sum_loop(profile, skip_nan, loop...); }, Kind::kModerate);
      },
      suffix);
}

void extremes(Report& report, const char* name, const densecore::Dispatched<densecore::ExtremeRangeFn>& kernel) {
  report.line(name, "float32", [&](Line& line) {
    uint64_t seed = 0;
    for (const Kind kind : {Kind::kModerate, Kind::kMixed}) {
      for (const int64_t n : kSizes) line.add_value(kernel(floats(++seed, n, kind).data(), n));
    }
    const std::vector<float> zeros = {-0.0f, 0.0f, -0.0f, -0.0f, 0.0f};
    for (int first = 0; first < 4; ++first) line.add_value(kernel(zeros.data() + first, 2));
  });
}

void joins(Report& report, const char* name, const densecore::Dispatched<densecore::ExtremeJoinFn>& kernel) {
  report.line(name, "float32", [&](Line& line) {
    for (int count = 1; count <= 12; ++count) {
      line.add_value(kernel(floats(count, count).data(), count));
      line.add_value(kernel(floats(count, count, Kind::kMixed).data(), count));
    }
    const std::vector<float> zeros = {-0.0f, 0.0f, -0.0f};
    line.add_value(kernel(zeros.data(), 2));
    line.add_value(kernel(zeros.data() + 1, 2));
  });
}

// ---- norms and variances: blocks of outputs, ranges of one output --------------------------------------------------------------

using densecore::Norm;
using densecore::NormOp;
constexpr NormOp kNorms[] = {{Norm::kZero, 0}, {Norm::kOne, 0}, {Norm::kTwo, 0},      {Norm::kMax, 0},
                             {Norm::kMin, 0},  {Norm::kPower, 3.0f}, {Norm::kPower, 0.5f}, {Norm::kPower, 1.7f}};
constexpr densecore::VarianceOp kVariances[] = {{1, false}, {0, true}, {1, true}};

// f(pointers, outputs, dims) for blocks of neighbours and of arrays apart, with one and two reduced dimensions.
template <class F>
void each_block(Kind kind, const F& f) {
  uint64_t seed = 0;
  for (const int64_t n : kSizes) {
    for (const int outputs : {1, 3, 16}) {
      for (const bool neighbours : {true, false}) {
        const auto data = floats(++seed, 3 * n * 16 + 64, kind);
        const char* in[densecore::kReduceBlock];
        for (int k = 0; k < outputs; ++k) in[k] = reinterpret_cast<const char*>(data.data() + (neighbours ? k : 3 * k * n));
        const int64_t one = neighbours ? 16 * kFloat : kFloat;
        const int64_t sizes[] = {n, 3}, strides[] = {one, n * one};
        f(in, outputs, densecore::ReducedDims{1, sizes, strides});
        f(in, outputs, densecore::ReducedDims{2, sizes, strides});
      }
    }
  }
}

// f(in, dims, begin, end) for ranges that begin and end inside a row.
template <class F>
void each_range(Kind kind, const F& f) {
  for (const int64_t n : {5, 64, 1031}) {
    const auto data = floats(n, 3 * n, kind);
    const int64_t sizes[] = {n, 3}, strides[] = {kFloat, n * kFloat};
    const densecore::ReducedDims dims{2, sizes, strides};
    const char* in = reinterpret_cast<const char*>(data.data());
    f(in, dims, int64_t{0}, 3 * n);
    f(in, dims, n / 2, 2 * n + 1);
    f(in, dims, n, n + 1);
  }
}

void norms(Report& report) {
  report.line("norm_block", "float32", [](Line& line) {
    for (const NormOp op : kNorms) {
      each_block(op.kind == Norm::kPower ? Kind::kModerate : Kind::kMixed, [&](const char* const* in, int outputs, densecore::ReducedDims dims) {
        std::vector<float> result(outputs);
        densecore::norm_block(op, in, outputs, dims, result.data());
        line.add(result);
      });
    }
  });
  report.line("norm_range", "float32", [](Line& line) {
    for (const NormOp op : kNorms) {
      each_range(Kind::kModerate, [&](const char* in, densecore::ReducedDims dims, int64_t begin, int64_t end) {
        line.add_value(densecore::norm_range(op, in, dims, begin, end));
      });
    }
  });
  report.line("norm_join", "float32", [](Line& line) {
    for (const NormOp op : kNorms) {
      for (int count = 1; count <= 12; ++count) line.add_value(densecore::norm_join(op, floats(count, count, Kind::kUnit).data(), count));
    }
  });
  report.line("norm_two_rows", "float32", [](Line& line) {
    for (const Kind kind : {Kind::kModerate, Kind::kMixed}) {
      for (const int64_t n : kSizes) {
        const auto data = floats(n, 9 * n, kind);
        std::vector<const float*> rows;
        for (int64_t r = 0; r < 9; ++r) rows.push_back(data.data() + r * n);
        for (const int64_t count : {1, 2, 9}) {
          std::vector<float> result(count);
          densecore::norm_two_rows(rows.data(), count, n, result.data());
          line.add(result);
        }
      }
    }
  });
}

void add_variance(Line& line, const densecore::Variance& v) {
  line.add_value(v.variance);
  line.add_value(v.mean);
}

void variances(Report& report) {
  report.line("welford_block", "float32", [](Line& line) {
    for (const auto op : kVariances) {
      each_block(Kind::kModerate, [&](const char* const* in, int outputs, densecore::ReducedDims dims) {
        std::vector<densecore::Variance> result(outputs);
        densecore::welford_block(op, in, outputs, dims, result.data());
        for (const auto& v : result) add_variance(line, v);
      });
    }
  });
  report.line("welford_range", "float32", [](Line& line) {
    each_range(Kind::kModerate, [&](const char* in, densecore::ReducedDims dims, int64_t begin, int64_t end) {
      const densecore::Welford w = densecore::welford_range(in, dims, begin, end);
      line.add_value(w.mean);
      line.add_value(w.m2);
      line.add_value(w.n);
    });
  });
  report.line("welford_join", "float32", [](Line& line) {
    for (const auto op : kVariances) {
      for (int count = 1; count <= 8; ++count) {
        std::vector<densecore::Welford> ranges;
        const auto x = values<double>(count, 2 * count, Kind::kUnit);
        for (int i = 0; i < count; ++i) ranges.push_back({x[2 * i], 100 * x[2 * i + 1], i % 3 == 2 ? 0.0 : 100.0 + i});
        add_variance(line, densecore::welford_join(op, ranges.data(), count));
      }
    }
  });
  report.line("squared_deviations", "float32", [](Line& line) {
    for (const int64_t n : kSizes) {
      const auto x = floats(n, 10 * n);
      const int64_t strides[] = {kFloat, 2 * n * kFloat};
      line.add_value(densecore::squared_deviations(reinterpret_cast<const char*>(x.data()), strides, n, 5, 0.1));
    }
  });
}

}  // namespace

void reductions(Report& report) {
  loop_lines(report, DIGEST_NAMED(sum_loop), Kind::kModerate);
  loop_lines(report, DIGEST_NAMED(nansum_loop), Kind::kModerate);
  variant_sum_lines(report, "", false);
  variant_sum_lines(report, "/nansum", true);
  loop_lines(report, DIGEST_NAMED(prod_loop), Kind::kNearOne);
  loop_lines(report, DIGEST_NAMED(max_values_loop), Kind::kModerate);
  loop_lines(report, DIGEST_NAMED(min_values_loop), Kind::kModerate);
  extremes(report, DIGEST_NAMED(max_range));
  extremes(report, DIGEST_NAMED(min_range));
  joins(report, DIGEST_NAMED(max_join));
  joins(report, DIGEST_NAMED(min_join));
  norms(report);
  variances(report);
}

}  // namespace digest
