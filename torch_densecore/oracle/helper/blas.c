/* BLAS imports with real arguments: reads the arguments, picks the rule of the profile, computes, logs. A request that
 * has no rule, or touches memory that is not the guest's, is left to Python, which raises the error. */
#include <stdlib.h>
#include "blas.h"
#include "runtime.h"

struct call {
  struct runtime *r;
  void *uc;
  int is_double;
};

static uint64_t argument(const struct call *c, int index) {
  if (index < 8) return getx(c->r, c->uc, index);
  uint64_t v;
  memcpy(&v, at(c->r, get_reg(c->r, c->uc, c->r->sp) + 8 * (uint64_t)(index - 8)), 8);
  return v;
}
static int32_t integer(const struct call *c, int index) {
  int32_t v;
  memcpy(&v, at(c->r, argument(c, index)), 4);
  return v;
}
static int32_t letter(const struct call *c, int index) {
  int32_t v = *at(c->r, argument(c, index));
  return v >= 'a' ? v - 'a' + 'A' : v;
}
static double scalar(const struct call *c, int index) {
  const uint8_t *p = at(c->r, argument(c, index));
  float f;
  double d;
  if (c->is_double) memcpy(&d, p, 8); else memcpy(&f, p, 4);
  return c->is_double ? d : f;
}
/* host address of a matrix or vector; NULL if it is not all in the guest's memory. The first element of a vector with a
 * negative step is its last in memory. */
static void *matrix(const struct call *c, int index, int64_t rows, int64_t columns, int64_t lead) {
  uint64_t a = argument(c, index), size = c->is_double ? 8 : 4;
  if (rows <= 0 || columns <= 0) return at(c->r, a);
  return valid(c->r, a, (uint64_t)(lead * (columns - 1) + rows) * size) ? at(c->r, a) : NULL;
}
static void *vector(const struct call *c, int index, int64_t count, int64_t step) {
  int64_t reach = (count > 0 ? count - 1 : 0) * (step < 0 ? -step : step), size = c->is_double ? 8 : 4;
  uint8_t *p = matrix(c, index, 1, reach + 1, 1);
  return p && step < 0 ? p + reach * size : p;
}

/* the rule for a product, or -1; `found` is 0 if the profile has none */
static int rule_of(const struct call *c, int routine, int trans, int64_t product, int *found) {
  const struct blas *b = c->r->blas;
  *found = 1;
  if (!product) return -1;
  for (int i = 0; i < b->count[c->is_double][routine]; i++) {
    const struct rule *rule = &b->rules[c->is_double][routine][i];
    if (product >= rule->minimum_product && (!rule->trans || rule->trans == (trans == 'N' ? 'N' : 'T'))) return i;
  }
  *found = 0;
  return -1;
}
static int log_request(struct blas *b, const struct request *request) {
  if (b->logged == b->room) {
    int64_t room = b->room ? 2 * b->room : 256;
    struct request *log = realloc(b->log, sizeof *log * (size_t)room);
    if (!log) return 0;
    b->log = log;
    b->room = room;
  }
  b->log[b->logged++] = *request;
  return 1;
}

static const struct order CHAIN = {1, 1, 1};
static int is_chain(const struct order *o) { return o->lanes == 1 && o->accumulators == 1 && o->fused_tail; }

/* c = alpha op(a) op(b) + beta c in one order */
static void multiply(int is_double, const struct order *o, const struct request *q, const void *a, const void *b,
                     void *c, long n) {
  int ta = q->trans_a != 'N', tb = q->trans_b != 'N';
  long m = q->m, k = q->k, lda = q->lda, ldb = q->ldb, ldc = q->ldc;
  float alpha = (float)q->alpha, beta = (float)q->beta;
  if (is_double && is_chain(o)) double_chain(ta, tb, m, n, k, q->alpha, a, lda, b, ldb, q->beta, c, ldc);
  else if (is_double) double_ordered(o, ta, tb, m, n, k, q->alpha, a, lda, b, ldb, q->beta, c, ldc);
  else if (is_chain(o)) single_chain(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  else single_ordered(o, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* The whole product. The caller has set the matrices' shapes in `q`; a rule may treat an odd last column apart. */
static void product(const struct call *c, const struct rule *rule, const struct request *q, const void *a,
                    const void *b, void *out) {
  const struct order *order = rule ? &rule->order : &CHAIN;
  if (q->m <= 0 || q->n <= 0) return;
  if (!rule || !rule->odd_last_column.accumulators || q->n % 2 == 0) {
    multiply(c->is_double, order, q, a, b, out, q->n);
    return;
  }
  long last = q->n - 1, size = c->is_double ? 8 : 4;
  if (last) multiply(c->is_double, order, q, a, b, out, last);
  multiply(c->is_double, &rule->odd_last_column, q, a, (const char *)b + last * (q->trans_b == 'N' ? q->ldb : 1) * size,
           (char *)out + last * q->ldc * size, 1);
}

static const struct rule *rule_at(const struct call *c, int routine, int index) {
  return index < 0 ? NULL : &c->r->blas->rules[c->is_double][routine][index];
}
static int known(const struct call *c, int routine, int index) {
  const struct rule *rule = rule_at(c, routine, index);
  return rule ? rule->index : -1;
}
static struct call call_of(struct runtime *r, void *uc, const struct entry *e) {
  return (struct call){r, uc, e->wide != NULL};
}

static int run_gemm(struct runtime *r, void *uc, const struct entry *e) {
  struct call c = call_of(r, uc, e);
  struct request q = {
    .routine = GEMM, .is_double = c.is_double, .trans_a = letter(&c, 0), .trans_b = letter(&c, 1), .m = integer(&c, 2),
    .n = integer(&c, 3), .k = integer(&c, 4), .lda = integer(&c, 7), .ldb = integer(&c, 9), .ldc = integer(&c, 12),
    .alpha = scalar(&c, 5), .beta = scalar(&c, 10),
  };
  int found, rule = rule_of(&c, GEMM, q.trans_a, (int64_t)q.m * q.n * q.k, &found);
  int na = q.trans_a == 'N', nb = q.trans_b == 'N';
  void *a = matrix(&c, 6, na ? q.m : q.k, na ? q.k : q.m, q.lda);
  void *b = matrix(&c, 8, nb ? q.k : q.n, nb ? q.n : q.k, q.ldb);
  void *out = matrix(&c, 11, q.m, q.n, q.ldc);
  q.rule = known(&c, GEMM, rule);
  if (!found || !a || !b || !out || !log_request(r->blas, &q)) return 0;
  product(&c, rule_at(&c, GEMM, rule), &q, a, b, out);
  return 1;
}

/* gathers a strided vector, or spreads it again */
static void gather(const struct call *c, void *dense, void *strided, int64_t n, int64_t step, int back) {
  size_t size = c->is_double ? 8 : 4;
  for (int64_t i = 0; i < n; i++) {
    char *d = (char *)dense + i * (int64_t)size, *s = (char *)strided + i * step * (int64_t)size;
    memcpy(back ? s : d, back ? d : s, size);
  }
}

static int run_gemv(struct runtime *r, void *uc, const struct entry *e) {
  struct call c = call_of(r, uc, e);
  struct request q = {
    .routine = GEMV, .is_double = c.is_double, .trans_a = letter(&c, 0), .trans_b = 'N', .m = integer(&c, 1),
    .n = integer(&c, 2), .lda = integer(&c, 5), .ldb = integer(&c, 7), .ldc = integer(&c, 10),
    .alpha = scalar(&c, 3), .beta = scalar(&c, 8),
  };
  int64_t rows = q.trans_a == 'N' ? q.m : q.n, columns = q.trans_a == 'N' ? q.n : q.m;
  int found, rule = rule_of(&c, GEMV, q.trans_a, (int64_t)q.m * q.n, &found);
  void *a = matrix(&c, 4, q.m, q.n, q.lda), *x = vector(&c, 6, columns, q.ldb), *y = vector(&c, 9, rows, q.ldc);
  q.rule = known(&c, GEMV, rule);
  if (!found || !a || !x || !y || !log_request(r->blas, &q)) return 0;
  if (rows <= 0) return 1;
  int64_t inner = columns > 0 ? columns : 0;
  char *dense = malloc((size_t)(8 * (inner + rows) + 8)), *result = dense + 8 * inner;
  gather(&c, dense, x, inner, q.ldb, 0);
  gather(&c, result, y, rows, q.ldc, 0);
  struct request p = q;
  p.m = (int32_t)rows, p.n = 1, p.k = (int32_t)inner, p.ldb = (int32_t)(inner ? inner : 1), p.ldc = (int32_t)rows;
  product(&c, rule_at(&c, GEMV, rule), &p, a, dense, result);
  gather(&c, result, y, rows, q.ldc, 1);
  free(dense);
  return 1;
}

static int dot(const struct call *c, struct request q, void *x, void *y) {
  int found, rule = rule_of(c, DOT, 0, q.n, &found);
  q.rule = known(c, DOT, rule);
  if (!found || !x || !y || !log_request(c->r->blas, &q)) return 0;
  int64_t n = q.n > 0 ? q.n : 0;
  char *left = malloc((size_t)(16 * n + 16)), *right = left + 8 * n;
  gather(c, left, x, n, q.ldb, 0);
  gather(c, right, y, n, q.ldc, 0);
  struct request p = {.trans_a = 'T', .trans_b = 'N', .m = 1, .n = 1, .k = (int32_t)n, .alpha = 1};
  p.lda = p.ldb = (int32_t)(n ? n : 1), p.ldc = 1;
  double total;
  product(c, rule_at(c, DOT, rule), &p, left, right, &total);
  free(left);
  float single;
  memcpy(&single, &total, 4);
  if (c->is_double) setd(c->r, c->uc, 0, total); else setf(c->r, c->uc, 0, single);
  return 1;
}
static int run_dot(struct runtime *r, void *uc, const struct entry *e) {
  struct call c = call_of(r, uc, e);
  struct request q = {
    .routine = DOT, .is_double = c.is_double, .n = integer(&c, 0), .ldb = integer(&c, 2), .ldc = integer(&c, 4),
  };
  return dot(&c, q, vector(&c, 1, q.n, q.ldb), vector(&c, 3, q.n, q.ldc));
}
static int run_cblas_dot(struct runtime *r, void *uc, const struct entry *e) {
  struct call c = call_of(r, uc, e);
  struct request q = {.routine = DOT, .is_double = c.is_double};
  q.n = (int32_t)argument(&c, 0), q.ldb = (int32_t)argument(&c, 2), q.ldc = (int32_t)argument(&c, 4);
  return dot(&c, q, vector(&c, 1, q.n, q.ldb), vector(&c, 3, q.n, q.ldc));
}

static int run_axpy(struct runtime *r, void *uc, const struct entry *e) {
  struct call c = call_of(r, uc, e);
  struct request q = {
    .routine = AXPY, .is_double = c.is_double, .rule = -1, .n = integer(&c, 0), .ldb = integer(&c, 3),
    .ldc = integer(&c, 5), .alpha = scalar(&c, 1),
  };
  void *x = vector(&c, 2, q.n, q.ldb), *y = vector(&c, 4, q.n, q.ldc);
  if (!x || !y || !log_request(r->blas, &q)) return 0;
  if (c.is_double)
    for (int64_t i = 0; i < q.n; i++) {
      double *o = (double *)y + i * q.ldc;
      *o = __builtin_fma(q.alpha, ((double *)x)[i * q.ldb], *o);
    }
  else
    for (int64_t i = 0; i < q.n; i++) {
      float *o = (float *)y + i * q.ldc;
      *o = __builtin_fmaf((float)q.alpha, ((float *)x)[i * q.ldb], *o);
    }
  return 1;
}
static int run_scal(struct runtime *r, void *uc, const struct entry *e) {
  struct call c = call_of(r, uc, e);
  struct request q = {
    .routine = SCAL, .is_double = c.is_double, .rule = -1, .n = integer(&c, 0), .ldb = integer(&c, 3),
    .alpha = scalar(&c, 1),
  };
  void *x = vector(&c, 2, q.n, q.ldb);
  if (!x || !log_request(r->blas, &q)) return 0;
  for (int64_t i = 0; i < q.n; i++)
    if (c.is_double) ((double *)x)[i * q.ldb] *= q.alpha; else ((float *)x)[i * q.ldb] *= (float)q.alpha;
  return 1;
}
static int run_copy(struct runtime *r, void *uc, const struct entry *e) {
  struct call c = call_of(r, uc, e);
  struct request q = {
    .routine = COPY, .is_double = c.is_double, .rule = -1, .n = integer(&c, 0), .ldb = integer(&c, 2),
    .ldc = integer(&c, 4),
  };
  void *x = vector(&c, 1, q.n, q.ldb), *y = vector(&c, 3, q.n, q.ldc);
  if (!x || !y || !log_request(r->blas, &q)) return 0;
  int64_t size = c.is_double ? 8 : 4;
  for (int64_t i = 0; i < q.n; i++)
    memcpy((char *)y + i * q.ldc * size, (char *)x + i * q.ldb * size, (size_t)size);
  return 1;
}

#define BOTH(NAME, RUN) {"_s" NAME, RUN, 0, 0}, {"_d" NAME, RUN, (void *)1, 0} /* `wide` marks double */
const struct entry blas_entries[] = {
  BOTH("gemm_", run_gemm), BOTH("gemv_", run_gemv), BOTH("dot_", run_dot), BOTH("axpy_", run_axpy),
  BOTH("scal_", run_scal), BOTH("copy_", run_copy), {"_cblas_sdot", run_cblas_dot, 0, 0},
  {"_cblas_ddot", run_cblas_dot, (void *)1, 0},
  {0, 0, 0, 0},
};
