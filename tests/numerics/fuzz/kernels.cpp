// libFuzzer: sizes, strides, keys and values of any kind into the kernels whose loops depend on them. Buffers have exactly the size
// that the arguments claim, so AddressSanitizer sees a step too far; results that can be checked without the arithmetic are.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "attention/flash_attention.h"
#include "blas/gemm.h"
#include "blas/gemv.h"
#include "embedding/embedding.h"
#include "norm/layer_norm_kernel.h"
#include "parallel.h"
#include "pointwise/activation.h"
#include "pointwise/convert.h"
#include "random/random.h"
#include "reduce/SumKernel.h"
#include "softmax/SoftMaxKernel.h"
#include "sorting/sort.h"

namespace {

using namespace densecore;

#define REQUIRE(condition)                                             \
  do {                                                                 \
    if (!(condition)) {                                                \
      std::fprintf(stderr, "violated in %s: %s\n", __func__, #condition); \
      std::abort();                                                    \
    }                                                                  \
  } while (0)

// Numbers out of the fuzzer's bytes; zeros once they are used up.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  int64_t below(int64_t limit) {
    uint16_t word = 0;
    take(&word, sizeof(word));
    return word % limit;
  }
  template <class T>
  std::vector<T> array(int64_t count) {
    std::vector<T> values(count);
    const size_t used = take(values.data(), values.size() * sizeof(T));
    for (size_t i = used / sizeof(T); i < values.size(); ++i) values[i] = static_cast<T>(i % 7);
    return values;
  }

 private:
  size_t take(void* to, size_t bytes) {
    const size_t n = bytes < size_ ? bytes : size_;
    if (n) std::memcpy(to, data_, n);
    data_ += n;
    size_ -= n;
    return n;
  }
  const uint8_t* data_;
  size_t size_;
};

// An array that ends where its allocation ends, also for vectors that hold more.
template <class T>
std::unique_ptr<T[]> exact(const std::vector<T>& values) {
  std::unique_ptr<T[]> copy(new T[values.size()]);
  std::copy(values.begin(), values.end(), copy.get());
  return copy;
}

Profile profile_of(Input& in) {
  Profile profile;
  profile.threads = 1 + static_cast<int>(in.below(16));
  return profile;
}

template <class T>
void sort_keys(Input& in, KeyType type) {
  const int64_t rows = in.below(4), n = 1 + in.below(300), k = in.below(n + 1);
  const bool descending = in.below(2), sorted = in.below(2);
  const auto keys = in.array<T>(rows * n);
  auto values = exact(keys);
  std::unique_ptr<int64_t[]> places(new int64_t[rows * n]);
  sort_rows(type, values.get(), places.get(), rows, n, descending);
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<bool> seen(n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t place = places[r * n + i];
      REQUIRE(place >= 0 && place < n && !seen[place]);
      seen[place] = true;
      REQUIRE(std::memcmp(&keys[r * n + place], &values[r * n + i], sizeof(T)) == 0);
    }
  }
  std::unique_ptr<T[]> top(new T[rows * k]);
  std::unique_ptr<int64_t[]> top_places(new int64_t[rows * k]);
  topk_rows(type, keys.data(), rows, n, k, descending, sorted, top.get(), top_places.get());
  for (int64_t i = 0; i < rows * k; ++i) REQUIRE(top_places[i] >= 0 && top_places[i] < n);
}

void sorting(Input& in) {
  switch (in.below(4)) {
    case 0: return sort_keys<float>(in, KeyType::kF32);
    case 1: return sort_keys<double>(in, KeyType::kF64);
    case 2: return sort_keys<uint8_t>(in, KeyType::kU8);
    default: return sort_keys<int64_t>(in, KeyType::kI64);
  }
}

void gemm(Input& in) {
  const char transa = "NT"[in.below(2)], transb = "NT"[in.below(2)];
  const int64_t m = in.below(40), n = in.below(40), k = in.below(70);
  const int64_t a_rows = transa == 'N' ? m : k, a_columns = transa == 'N' ? k : m;
  const int64_t b_rows = transb == 'N' ? k : n, b_columns = transb == 'N' ? n : k;
  const int64_t lda = a_rows + in.below(3) + 1, ldb = b_rows + in.below(3) + 1, ldc = m + in.below(3) + 1;
  const auto a = exact(in.array<float>(a_columns ? (a_columns - 1) * lda + a_rows : 0));
  const auto b = exact(in.array<float>(b_columns ? (b_columns - 1) * ldb + b_rows : 0));
  const auto c = exact(in.array<float>(n ? (n - 1) * ldc + m : 0));
  const float beta = in.below(2) ? 0.5f : 0.0f;
  gemm_parallel(profile_of(in), GemmCall{transa, transb, m, n, k, 1.5f, a.get(), lda, b.get(), ldb, beta, c.get(), 1, ldc, c.get(), ldc});
}

void gemv_and_dot(Input& in) {
  const char trans = "NT"[in.below(2)];
  const int64_t m = 1 + in.below(60), n = 1 + in.below(60), lda = m + in.below(3), incx = in.below(3), incy = 1 + in.below(2);
  const int64_t length = trans == 'N' ? n : m, outputs = trans == 'N' ? m : n;
  const auto a = exact(in.array<float>((n - 1) * lda + m)), x = exact(in.array<float>((length - 1) * incx + 1));
  const auto y = exact(in.array<float>((outputs - 1) * incy + 1));
  gemv(profile_of(in), GemvCall{trans, m, n, 1.0f, a.get(), lda, x.get(), incx, in.below(2) ? 1.0f : 0.0f, y.get(), incy});
  sdot(profile_of(in), (length + 1) / 2, x.get(), incx, x.get(), incx);
}

void softmax(Input& in) {
  const SoftmaxShape s{in.below(5), 1 + in.below(70), 1 + in.below(40)};
  const auto x = exact(in.array<float>(s.outer * s.dim * s.inner));
  std::unique_ptr<float[]> y(new float[s.outer * s.dim * s.inner]), gradient(new float[s.outer * s.dim * s.inner]);
  if (in.below(2)) {
    softmax_columns(profile_of(in), x.get(), s, y.get());
    softmax_columns_backward(x.get(), y.get(), s, gradient.get());
    log_softmax_columns(profile_of(in), x.get(), s, y.get());
  } else {
    softmax_rows(x.get(), s.outer * s.inner, s.dim, y.get());
    softmax_rows_backward(x.get(), y.get(), s.outer * s.inner, s.dim, gradient.get());
    log_softmax_rows(x.get(), s.outer * s.inner, s.dim, y.get());
  }
}

void layer_norm_both_ways(Input& in) {
  const int64_t m = 1 + in.below(20), n = 1 + in.below(150);
  const auto x = exact(in.array<float>(m * n)), gamma = exact(in.array<float>(n));
  std::unique_ptr<float[]> y(new float[m * n]), mean(new float[m]), rstd(new float[m]), dgamma(new float[n]), dbeta(new float[n]);
  layer_norm(x.get(), gamma.get(), nullptr, m, n, 1e-5f, y.get(), mean.get(), rstd.get());
  layer_norm_backward(profile_of(in), x.get(), x.get(), mean.get(), rstd.get(), gamma.get(), m, n, y.get(), dgamma.get(), dbeta.get());
}

void attention(Input& in) {
  AttentionShape s{1 + in.below(2), 1 + in.below(3), 1, 1 + in.below(80), 1 + in.below(80), 1 + in.below(40), 0.3f, in.below(2) != 0, {}};
  const auto rows = [&](int64_t length) { return exact(in.array<float>(s.batch * s.heads * length * s.head_size)); };
  const auto query = rows(s.queries), key = rows(s.keys), value = rows(s.keys), out = rows(s.queries), grad = rows(s.queries);
  const auto mask = exact(in.array<float>(s.queries * s.keys));
  if (in.below(2)) s.mask = {mask.get(), 0, 0, s.keys, 1};
  std::unique_ptr<float[]> lse(new float[s.batch * s.heads * s.queries]());
  const auto view = [&]<class T>(T* data, int64_t length) {
    return HeadRows<T>{data, s.heads * length * s.head_size, length * s.head_size, s.head_size};
  };
  const auto readable = [&](const std::unique_ptr<float[]>& data, int64_t length) { return view(static_cast<const float*>(data.get()), length); };
  const HeadRows<float> sums{lse.get(), s.heads * s.queries, s.queries, 1};
  const Profile profile = profile_of(in);
  flash_attention(profile, s, AttentionForward{readable(query, s.queries), readable(key, s.keys), readable(value, s.keys), view(out.get(), s.queries), sums});
  const auto grad_query = rows(s.queries), grad_key = rows(s.keys), grad_value = rows(s.keys);
  const HeadRows<const float> const_sums{lse.get(), s.heads * s.queries, s.queries, 1};
  flash_attention_backward(profile, s,
                           AttentionBackward{readable(grad, s.queries), readable(query, s.queries), readable(key, s.keys), readable(value, s.keys),
                                             readable(out, s.queries), const_sums, view(grad_query.get(), s.queries), view(grad_key.get(), s.keys),
                                             view(grad_value.get(), s.keys)});
}

void embedding(Input& in) {
  const int64_t rows = 1 + in.below(3000), width = 1 + in.below(20), count = in.below(60);
  auto index = in.array<int64_t>(count);
  for (int64_t& i : index) i = static_cast<int64_t>(static_cast<uint64_t>(i) % static_cast<uint64_t>(rows));
  const auto places = exact(index);
  const auto grad = exact(in.array<float>(count * width));
  const auto table = exact(std::vector<float>(rows * width));
  embedding_dense_backward(profile_of(in), grad.get(), places.get(), count, in.below(rows) - 1, nullptr, table.get(), rows, width);
}

void elementwise(Input& in) {
  const int64_t n = in.below(200), step = 1 + in.below(3);
  const auto x = exact(in.array<float>(n ? (n - 1) * step + 1 : 0));
  std::unique_ptr<float[]> y(new float[n]);
  std::unique_ptr<int16_t[]> integers(new int16_t[n]);
  char* data[] = {reinterpret_cast<char*>(y.get()), reinterpret_cast<char*>(x.get())};
  const int64_t strides[] = {4, 4 * step, 0, 0};
  const Profile profile = profile_of(in);
  for (const auto& kernel : {gelu_erf_f32, silu_f32, mish_f32, erf_f32, exp_f32, tanh_f32, log_f32, sin_f32, tan_f32, atanh_f32}) {
    kernel(Loop2d{data, strides, n, 1}, profile);
  }
  char* converted[] = {reinterpret_cast<char*>(integers.get()), reinterpret_cast<char*>(x.get())};
  const int64_t narrow[] = {2, 4 * step, 0, 0};
  convert_f32(Loop2d{converted, narrow, n, 1}, IntegerType::kI16);
}

void sums(Input& in) {
  const int64_t n = 1 + in.below(100), m = 1 + in.below(40);
  const bool columns = in.below(2);
  const auto x = exact(in.array<float>(n * m));
  const auto out = exact(std::vector<float>(m));
  char* data[] = {reinterpret_cast<char*>(out.get()), reinterpret_cast<char*>(x.get())};
  const int64_t along_rows[] = {0, 4, 4, 4 * n}, along_columns[] = {0, 4 * m, 4, 4};
  (in.below(2) ? sum_loop : nansum_loop)(data, columns ? along_columns : along_rows, n, m);
}

void draws(Input& in) {
  RandomState state{};
  const auto words = in.array<uint32_t>(20);
  for (int i = 0; i < kMtWords; ++i) state.words[i] = words[i % 20] + i;
  state.left = 1;
  for (int i = 0; i < 4; ++i) {
    const int64_t n = in.below(700);
    std::unique_ptr<float[]> y(new float[n]);
    std::unique_ptr<double[]> z(new double[n]);
    uniform_f32(state, 0, 1, y.get(), n);
    for (int64_t k = 0; k < n; ++k) REQUIRE(y[k] >= 0 && y[k] < 1);
    if (n >= 16) normal_fill_f32(state, 0, 1, y.get(), n);
    normal_serial(state, 0, 1, z.get(), n);
    exponential_f32(state, 1, y.get(), n);
    REQUIRE(state.left >= 1 && state.left <= kMtWords + 1 && state.next <= kMtWords);
  }
}

using Target = void(Input&);
constexpr Target* kTargets[] = {sorting, gemm, gemv_and_dot, softmax, layer_norm_both_ways, attention, embedding, elementwise, sums, draws};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return -1;
  Input in(data + 1, size - 1);
  kTargets[data[0] % std::size(kTargets)](in);
  return 0;
}
