/* What the parts of the compiled helper share. One library serves two CPUs, the emulator and translated code: registers
 * are reached through two functions, with register numbers of the one or context offsets of the other. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int (*reg_fn)(void *uc, int reg, void *value);
typedef int (*start_fn)(void *uc, uint64_t begin, uint64_t until, uint64_t timeout, size_t count);
typedef void (*trap_fn)(void *uc, uint64_t address, uint32_t size, void *data);

enum { LENT = 64, OFFERS = 16 };

/* State of the modelled OpenMP runtime; hooks/openmp.py has the same structure. */
struct team {
  int32_t max_threads, thread, team, level, pushed, failed;
  int64_t regions;
};

struct blas;

/* Memory of the host for one block of this size; all zero if there is none. It is not given out twice: the address may be one
 * that an earlier result had, and a late release of that would otherwise free the block of today. */
enum { OFFERED, TAKEN, RETURNED };
struct offer { uint64_t address, size, state; };

struct runtime {
  reg_fn reg_read, reg_write;
  trap_fn fallback;   /* the hook in Python */
  uint8_t *host;      /* host address of guest address `low` */
  uint64_t low, high, trap_base, stub;
  uint16_t *handler;  /* trap slot -> entry number, 0 = fallback */
  uint64_t *counts;   /* trap slot -> calls */
  uint8_t *modelled;  /* trap slot -> whether the import's result is modelled */
  uint64_t *touched;  /* set when a modelled import runs */
  uint64_t heap, heap_end;
  uint64_t ambiguous; /* libm results that even the widest evaluation could not separate */
  start_fn start;
  struct team *openmp;
  struct blas *blas;
  uint64_t lent_count, lent[2 * LENT]; /* ranges of host memory, as guest addresses, that the running call may touch */
  struct offer *offers; /* OFFERS of them, the same for both CPUs */
  int32_t x[9], s[4], d[4], v[4], sp, fp, lr, pc;
};

/* One import: its symbol, its function (returns 0 to leave the call to Python), and the functions that it evaluates. */
struct entry;
typedef int (*run_fn)(struct runtime *, void *, const struct entry *);
struct entry { const char *name; run_fn run; void *wide, *wider; };

extern const struct entry memory_entries[], libm_entries[], openmp_entries[], blas_entries[];

const struct entry *oracle_entry(int number);
uint64_t oracle_heap_alloc(struct runtime *r, uint64_t n, uint64_t align);
void oracle_heap_free(struct runtime *r, uint64_t a);

static inline uint8_t *at(struct runtime *r, uint64_t a) { return r->host + (a - r->low); }
static inline int valid(struct runtime *r, uint64_t a, uint64_t n) {
  if (a >= r->low && a + n <= r->high && n < (1ULL << 40)) return 1;
  for (uint64_t i = 0; i < r->lent_count; i++)
    if (a >= r->lent[2 * i] && a + n <= r->lent[2 * i + 1] && a + n >= a) return 1;
  return 0;
}
static inline uint64_t get_reg(struct runtime *r, void *uc, int reg) {
  uint64_t v = 0;
  r->reg_read(uc, reg, &v);
  return v;
}
static inline uint64_t getx(struct runtime *r, void *uc, int i) { return get_reg(r, uc, r->x[i]); }
static inline void setx(struct runtime *r, void *uc, uint64_t v) { r->reg_write(uc, r->x[0], &v); }
static inline float getf(struct runtime *r, void *uc, int i) {
  uint64_t q[2] = {0, 0};
  float f;
  r->reg_read(uc, r->s[i], q);
  memcpy(&f, q, 4);
  return f;
}
static inline double getd(struct runtime *r, void *uc, int i) {
  uint64_t q[2] = {0, 0};
  double f;
  r->reg_read(uc, r->d[i], q);
  memcpy(&f, q, 8);
  return f;
}
static inline void setf(struct runtime *r, void *uc, int i, float f) {
  uint64_t q[2] = {0, 0};
  memcpy(q, &f, 4);
  r->reg_write(uc, r->v[i], q);
}
static inline void setd(struct runtime *r, void *uc, int i, double f) {
  uint64_t q[2] = {0, 0};
  memcpy(q, &f, 8);
  r->reg_write(uc, r->v[i], q);
}
