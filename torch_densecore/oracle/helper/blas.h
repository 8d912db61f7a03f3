/* The BLAS model's tables and log, filled and read by oracle/native_blas.py, which has the same structures. */
#pragma once
#include <stdint.h>

enum { ROUTINES = 3, RULES = 16, LANES = 4, ACCUMULATORS = 8 };
enum routine { GEMM, GEMV, DOT, AXPY, SCAL, COPY };

/* A family of dot products along k: see `about` in profiles/blas. No accumulators: no such order. */
struct order { int32_t lanes, accumulators, fused_tail; };

struct rule {
  int64_t minimum_product;
  int32_t trans; /* 'N', 'T', or 0 for any */
  int32_t index; /* in the profile's table */
  struct order order, odd_last_column;
};

/* One call; vectors' steps are in ldb and ldc. */
struct request {
  int32_t routine, is_double, rule, trans_a, trans_b, m, n, k, lda, ldb, ldc, unused;
  double alpha, beta;
};

struct blas {
  struct rule rules[2][ROUTINES][RULES]; /* single, double */
  int32_t count[2][ROUTINES];
  int64_t logged, room;
  struct request *log;
};

#define DECLARE(T, PREFIX)                                                                                             \
  void PREFIX##_chain(int ta, int tb, long m, long n, long k, T alpha, const T *a, long lda, const T *b, long ldb,     \
                      T beta, T *c, long ldc);                                                                         \
  void PREFIX##_ordered(const struct order *order, int ta, int tb, long m, long n, long k, T alpha, const T *a,        \
                        long lda, const T *b, long ldb, T beta, T *c, long ldc);
DECLARE(float, single)
DECLARE(double, double)
