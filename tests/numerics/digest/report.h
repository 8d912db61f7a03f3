// One line of the hash file for every kernel and dtype.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace digest {

template <class T>
T canonical_nan() {
  const uint64_t word = sizeof(T) == 4 ? 0x7fc00000 : uint64_t{0x7ff8} << 48;
  T nan;
  std::memcpy(&nan, &word, sizeof(T));  // little endian
  return nan;
}

// XXH64 of all results of a kernel, in order; every NaN counts as the same one.
class Line {
 public:
  Line(std::string name, std::string variant) : name_(std::move(name)), variant_(std::move(variant)) {}

  template <class T>
  void add(const T* results, int64_t count) {
    static_assert(std::is_arithmetic_v<T>);
    std::vector<T> canonical(results, results + count);
    if constexpr (std::is_floating_point_v<T>) {
      for (T& x : canonical) {
        if (x != x) x = canonical_nan<T>();
      }
    }
    XXH64_update(&state_, canonical.data(), canonical.size() * sizeof(T));
    elements_ += count;
  }
  template <class T>
  void add(const std::vector<T>& results) { add(results.data(), static_cast<int64_t>(results.size())); }
  template <class T>
  void add_value(T result) { add(&result, 1); }

  void print() const {
    std::printf("%s %s %lld %016llx\n", name_.c_str(), variant_.c_str(), static_cast<long long>(elements_),
                static_cast<unsigned long long>(XXH64_digest(&state_)));
  }

 private:
  struct State : XXH64_state_t {
    State() : XXH64_state_t() { XXH64_reset(this, 0); }
  };

  std::string name_, variant_;
  State state_;
  int64_t elements_ = 0;
};

// Prints the lines as they are done; `only` is a prefix of the names wanted.
class Report {
 public:
  explicit Report(std::string only) : only_(std::move(only)) {}

  // fill(line) runs the kernel and adds its results.
  template <class Fill>
  void line(const std::string& name, const std::string& variant, const Fill& fill) {
    if (name.compare(0, only_.size(), only_) != 0) return;
    Line line(name, variant);
    fill(line);
    line.print();
    std::fflush(stdout);
  }

 private:
  std::string only_;
};

void pointwise(Report& report);
void activations(Report& report);
void reductions(Report& report);
void blas(Report& report);
void rows(Report& report);
void attention(Report& report);
void random_numbers(Report& report);
void lookups(Report& report);

}  // namespace digest
