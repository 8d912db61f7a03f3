/* The OpenMP runtime: a parallel region runs its function once per thread number, one after the other. */
#include "runtime.h"

enum { ARGUMENTS = 8, FRAME = 0x400 };

static int32_t *word(struct runtime *r, uint64_t a) { return (int32_t *)at(r, a); }

/* Runs the region's function for one thread; 0 if the guest was stopped, in which case `failed` says why. */
static int run_thread(struct runtime *r, void *uc, uint64_t task, uint64_t sp, uint64_t numbers, const uint64_t *shared,
                      int count) {
  uint64_t x[ARGUMENTS] = {numbers, numbers + 4};
  int extra = count > ARGUMENTS - 2 ? count - (ARGUMENTS - 2) : 0;
  for (int i = 0; i < count - extra; i++) x[2 + i] = shared[i];
  sp -= (8 * (uint64_t)extra + 15) & ~15ULL;
  for (int i = 0; i < extra; i++) memcpy(at(r, sp + 8 * i), &shared[count - extra + i], 8);
  r->reg_write(uc, r->sp, &sp);
  r->reg_write(uc, r->lr, &r->stub);
  for (int i = 0; i < ARGUMENTS; i++) r->reg_write(uc, r->x[i], &x[i]);
  r->openmp->failed = r->start(uc, task, r->stub, 0, 0);
  return !r->openmp->failed && get_reg(r, uc, r->pc) == r->stub;
}

/* __kmpc_fork_call(location, count, function, shared...); a failed region is left to Python, which raises the error */
static int run_fork(struct runtime *r, void *uc, const struct entry *e) {
  struct team *omp = r->openmp, outer = *omp;
  int count = (int32_t)getx(r, uc, 1), done = 1;
  uint64_t task = getx(r, uc, 2), sp = get_reg(r, uc, r->sp), fp = get_reg(r, uc, r->fp), lr = get_reg(r, uc, r->lr);
  if (count < 0 || !valid(r, sp, 8 * (uint64_t)count)) return 0;
  uint64_t numbers = oracle_heap_alloc(r, 16, 16);
  if (!numbers) return 0;
  omp->team = outer.level ? 1 : outer.pushed ? outer.pushed : outer.max_threads;
  omp->pushed = 0;
  omp->level++;
  omp->regions++;
  for (int thread = 0; done && thread < omp->team; thread++) {
    omp->thread = word(r, numbers)[0] = word(r, numbers)[1] = thread;
    done = run_thread(r, uc, task, (sp - FRAME) & ~15ULL, numbers, (const uint64_t *)at(r, sp), count);
  }
  oracle_heap_free(r, numbers);
  omp->level = outer.level;
  omp->thread = outer.thread;
  omp->team = outer.team;
  omp->pushed = 0;
  r->reg_write(uc, r->sp, &sp);
  r->reg_write(uc, r->fp, &fp);
  r->reg_write(uc, r->lr, &lr);
  if (!done && !omp->failed) omp->failed = -1; /* a hook of Python's failed */
  return done;
}
static int run_push(struct runtime *r, void *uc, const struct entry *e) {
  int32_t n = (int32_t)getx(r, uc, 2);
  r->openmp->pushed = n > 1 ? n : 1;
  return 1;
}
static int run_max_threads(struct runtime *r, void *uc, const struct entry *e) {
  setx(r, uc, (uint64_t)(r->openmp->pushed ? r->openmp->pushed : r->openmp->max_threads));
  return 1;
}
static int run_threads(struct runtime *r, void *uc, const struct entry *e) {
  setx(r, uc, (uint64_t)r->openmp->team);
  return 1;
}
static int run_thread_number(struct runtime *r, void *uc, const struct entry *e) {
  setx(r, uc, (uint64_t)r->openmp->thread);
  return 1;
}
static int run_in_parallel(struct runtime *r, void *uc, const struct entry *e) {
  setx(r, uc, r->openmp->level > 0 && r->openmp->team > 1);
  return 1;
}

const struct entry openmp_entries[] = {
  {"___kmpc_fork_call", run_fork, 0, 0}, {"___kmpc_push_num_threads", run_push, 0, 0},
  {"_omp_get_max_threads", run_max_threads, 0, 0}, {"_omp_get_num_threads", run_threads, 0, 0},
  {"_omp_get_thread_num", run_thread_number, 0, 0}, {"___kmpc_global_thread_num", run_thread_number, 0, 0},
  {"_omp_in_parallel", run_in_parallel, 0, 0},
  {0, 0, 0, 0},
};
