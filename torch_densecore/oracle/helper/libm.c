/* The libm model: correctly rounded results (expf: Apple's published algorithm), evaluated in long double, and again in
 * quadruple precision when the long double value lies too close to a rounding boundary. */
#include <math.h>
#include "runtime.h"
#ifdef HAVE_QUADMATH
#include <quadmath.h>
typedef __float128 quad;
#else
typedef long double quad;
#endif

typedef long double (*l1_fn)(long double); typedef quad (*q1_fn)(quad);
typedef long double (*l2_fn)(long double, long double); typedef quad (*q2_fn)(quad, quad);

static const long double EPS = 0x1p-59L; /* covers the error of every long double function used */
#ifdef HAVE_QUADMATH
static const quad QEPS = 0x1p-108Q;
#endif
static int same_f(float a, float b) { return a == b || (a != a && b != b); }
static int same_d(double a, double b) { return a == b || (a != a && b != b); }
static float narrow_f(struct runtime *r, long double y, const struct entry *e, long double a, long double b) {
  float lo = (float)(y * (1 - EPS)), hi = (float)(y * (1 + EPS));
  if (same_f(lo, hi)) return (float)y;
#ifdef HAVE_QUADMATH
  if (e->wider) {
    quad q = b != b ? ((q1_fn)e->wider)(a) : ((q2_fn)e->wider)(a, b);
    if (!same_f((float)(q * (1 - QEPS)), (float)(q * (1 + QEPS)))) r->ambiguous++;
    return (float)q;
  }
#endif
  r->ambiguous++; return (float)y;
}
static double narrow_d(struct runtime *r, long double y, const struct entry *e, long double a, long double b) {
  double lo = (double)(y * (1 - EPS)), hi = (double)(y * (1 + EPS));
  if (same_d(lo, hi)) return (double)y;
#ifdef HAVE_QUADMATH
  if (e->wider) {
    quad q = b != b ? ((q1_fn)e->wider)(a) : ((q2_fn)e->wider)(a, b);
    if (!same_d((double)(q * (1 - QEPS)), (double)(q * (1 + QEPS)))) r->ambiguous++;
    return (double)q;
  }
#endif
  r->ambiguous++; return (double)y;
}
static float eval_f1(struct runtime *r, const struct entry *e, float x) {
  return narrow_f(r, ((l1_fn)e->wide)(x), e, x, NAN);
}
static double eval_d1(struct runtime *r, const struct entry *e, double x) {
  return narrow_d(r, ((l1_fn)e->wide)(x), e, x, NAN);
}
static int run_f1(struct runtime *r, void *uc, const struct entry *e) {
  setf(r, uc, 0, eval_f1(r, e, getf(r, uc, 0)));
  return 1;
}
static int run_d1(struct runtime *r, void *uc, const struct entry *e) {
  setd(r, uc, 0, eval_d1(r, e, getd(r, uc, 0)));
  return 1;
}
static float eval_f2(struct runtime *r, const struct entry *e, float a, float b) {
  long double y = ((l2_fn)e->wide)(a, b); return b != b || a != a ? (float)y : narrow_f(r, y, e, a, b);
}
static double eval_d2(struct runtime *r, const struct entry *e, double a, double b) {
  long double y = ((l2_fn)e->wide)(a, b); return b != b || a != a ? (double)y : narrow_d(r, y, e, a, b);
}
static int run_f2(struct runtime *r, void *uc, const struct entry *e) {
  setf(r, uc, 0, eval_f2(r, e, getf(r, uc, 0), getf(r, uc, 1)));
  return 1;
}
static int run_d2(struct runtime *r, void *uc, const struct entry *e) {
  setd(r, uc, 0, eval_d2(r, e, getd(r, uc, 0), getd(r, uc, 1)));
  return 1;
}
/* exact functions: the result is defined by IEEE 754 or C, no rounding choice */
typedef float (*f2_fn)(float, float); typedef double (*d2_fn)(double, double);
static int run_xf2(struct runtime *r, void *uc, const struct entry *e) {
  setf(r, uc, 0, ((f2_fn)e->wide)(getf(r, uc, 0), getf(r, uc, 1)));
  return 1;
}
static int run_xd2(struct runtime *r, void *uc, const struct entry *e) {
  setd(r, uc, 0, ((d2_fn)e->wide)(getd(r, uc, 0), getd(r, uc, 1)));
  return 1;
}

/* Apple's expf, from its published description: binary64, 128-entry table of 2^(i/128), quadratic in the remainder. */
static double bits_d(uint64_t u) { double d; memcpy(&d, &u, 8); return d; }
static uint64_t d_bits(double d) { uint64_t u; memcpy(&u, &d, 8); return u; }
static float apple_expf(float x) {
  static double table[128];
  if (table[0] != 1.0) {
#ifdef HAVE_QUADMATH
    for (int i = 127; i >= 0; i--) table[i] = (double)exp2q(i / 128.0Q);
#else
    for (int i = 127; i >= 0; i--) table[i] = (double)exp2l(i / 128.0L);
#endif
  }
  uint32_t u; memcpy(&u, &x, 4);
  if ((u >> 23 & 0xff) >= 0x86) return x < 0 ? 0.0f : x * 0x1.fffffep127f;
  const double c3 = bits_d(0x40671547652b82feull), magic = bits_d(0x4338000000000000ull);
  const double c1 = bits_d(0x3f762e4453e10daeull), c2 = bits_d(0x3eeebfbdff30d656ull);
  double xd = x, t = __builtin_fma(c3, xd, magic), n = t - magic, r = __builtin_fma(c3, xd, -n);
  int64_t k = (int64_t)d_bits(t) << 45;  /* (n / 128) in the exponent field, n % 128 cancelled by the table entry */
  double s = bits_d(d_bits(table[d_bits(t) & 127]) - ((d_bits(t) & 127) << 45) + (uint64_t)k);
  double v = __builtin_fma(c2, r, c1) * r;
  return (float)__builtin_fma(v, s, s);
}
static int run_expf(struct runtime *r, void *uc, const struct entry *e) {
  setf(r, uc, 0, apple_expf(getf(r, uc, 0)));
  return 1;
}
static long double exp10_wide(long double x) { return powl(10.0L, x); }
static long double lgamma_wide(long double x) { int sign; return lgammal_r(x, &sign); }
#ifdef HAVE_QUADMATH
#define Q(f) (void *)f
static quad exp10_wider(quad x) { return powq(10.0Q, x); }
#else
#define Q(f) 0
#endif
#define UNARY(n) {"_" #n "f", run_f1, (void *)n##l, Q(n##q)}, {"_" #n, run_d1, (void *)n##l, Q(n##q)}
#define BINARY(n) {"_" #n "f", run_f2, (void *)n##l, Q(n##q)}, {"_" #n, run_d2, (void *)n##l, Q(n##q)}
#define EXACT(n) {"_" #n "f", run_xf2, (void *)n##f, 0}, {"_" #n, run_xd2, (void *)n, 0}
static const struct entry SIN = {"sin", 0, (void *)sinl, Q(sinq)}, COS = {"cos", 0, (void *)cosl, Q(cosq)};
static int run_sincosf(struct runtime *r, void *uc, const struct entry *e) {
  float x = getf(r, uc, 0);
  setf(r, uc, 0, eval_f1(r, &SIN, x));
  setf(r, uc, 1, eval_f1(r, &COS, x));
  return 1;
}
static int run_sincos(struct runtime *r, void *uc, const struct entry *e) {
  double x = getd(r, uc, 0);
  setd(r, uc, 0, eval_d1(r, &SIN, x));
  setd(r, uc, 1, eval_d1(r, &COS, x));
  return 1;
}

const struct entry libm_entries[] = {
  UNARY(acos), UNARY(asin), UNARY(atan), UNARY(cos), UNARY(sin), UNARY(tan), UNARY(cosh), UNARY(sinh), UNARY(tanh),
  UNARY(acosh), UNARY(asinh), UNARY(atanh), UNARY(exp2),
  {"_expf", run_expf, 0, 0}, {"_exp", run_d1, (void *)expl, Q(expq)}, UNARY(expm1), UNARY(log), UNARY(log2),
  UNARY(log10),
  UNARY(log1p), UNARY(erf), UNARY(erfc), UNARY(tgamma), UNARY(cbrt),
  {"_lgammaf", run_f1, (void *)lgamma_wide, Q(lgammaq)}, {"_lgamma", run_d1, (void *)lgamma_wide, Q(lgammaq)},
  {"___exp10f", run_f1, (void *)exp10_wide, Q(exp10_wider)}, {"___exp10", run_d1, (void *)exp10_wide, Q(exp10_wider)},
  BINARY(pow), BINARY(atan2), BINARY(hypot), EXACT(fmod), EXACT(remainder), EXACT(nextafter),
  {"___sincosf_stret", run_sincosf, 0, 0}, {"___sincos_stret", run_sincos, 0, 0}, {0, 0, 0, 0},
};

/* one function on the host; NAN for what is not a libm function */
double oracle_libm(struct runtime *r, int number, double a, double b) {
  const struct entry *e = oracle_entry(number);
  if (e->run == run_f1) return eval_f1(r, e, (float)a);
  if (e->run == run_expf) return apple_expf((float)a);
  if (e->run == run_d1) return eval_d1(r, e, a);
  if (e->run == run_f2) return eval_f2(r, e, (float)a, (float)b);
  if (e->run == run_d2) return eval_d2(r, e, a, b);
  if (e->run == run_xf2) return ((f2_fn)e->wide)((float)a, (float)b);
  if (e->run == run_xd2) return ((d2_fn)e->wide)(a, b);
  return NAN;
}
