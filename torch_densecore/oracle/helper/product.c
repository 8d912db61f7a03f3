/* Matrix products in the orders of the BLAS model, in single and double. */
#include <stdlib.h>
#include <string.h>
#include "blas.h"
#if defined __FMA__
#include <immintrin.h>
#endif

/* The chain's vectors: the widest that the host has; without fused vector instructions, what the compiler makes. */
#if defined __AVX512F__
#define VECTOR_BYTES 64
#elif defined __FMA__
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef float single_vector __attribute__((vector_size(VECTOR_BYTES)));
typedef double double_vector __attribute__((vector_size(VECTOR_BYTES)));
#define VLOAD(p) ({ V loaded; memcpy(&loaded, p, sizeof loaded); loaded; })
#define VSTORE(p, v) ({ V stored = v; memcpy(p, &stored, sizeof stored); })
#define VSET(x) ((x) - (V){}) /* minus zero stays minus zero */

#define T float
#define V single_vector
#define VL (VECTOR_BYTES / 4)
#define NAME(suffix) single_##suffix
#define FMA __builtin_fmaf
#if defined __AVX512F__
#define VFMA(a, b, c) (V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#elif defined __FMA__
#define VFMA(a, b, c) (V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#else
#define VFMA(a, b, c)                                                                     \
  ({                                                                                      \
    V fused = c;                                                                          \
    for (int lane = 0; lane < VL; lane++) fused[lane] = FMA((a)[lane], (b)[lane], (c)[lane]); \
    fused;                                                                                \
  })
#endif
#include "product.h"
#undef T
#undef V
#undef VL
#undef NAME
#undef FMA

#define T double
#define V double_vector
#define VL (VECTOR_BYTES / 8)
#define NAME(suffix) double_##suffix
#define FMA __builtin_fma
#if defined __AVX512F__
#undef VFMA
#define VFMA(a, b, c) (V)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#elif defined __FMA__
#undef VFMA
#define VFMA(a, b, c) (V)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#endif
#include "product.h"
