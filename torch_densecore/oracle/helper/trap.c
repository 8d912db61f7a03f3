/* Imports without Python: finds the function of an import, runs guest functions in one crossing. */
#include "runtime.h"

enum { TABLE_BITS = 8 };
static const struct entry *const TABLES[] = {memory_entries, libm_entries, openmp_entries, blas_entries};

/* number of an import's entry, 0 if it has none */
int oracle_lookup(const char *name) {
  for (size_t table = 0; table < sizeof TABLES / sizeof *TABLES; table++)
    for (int i = 0; TABLES[table][i].name; i++)
      if (!strcmp(TABLES[table][i].name, name)) return (int)(table << TABLE_BITS | (size_t)i) + 1;
  return 0;
}

const struct entry *oracle_entry(int number) {
  return &TABLES[(number - 1) >> TABLE_BITS][(number - 1) & ((1 << TABLE_BITS) - 1)];
}

void oracle_trap(void *uc, uint64_t address, uint32_t size, void *data) {
  struct runtime *r = data;
  uint64_t slot = (address - r->trap_base) / 4;
  uint16_t number = r->handler[slot];
  r->counts[slot]++;
  *r->touched |= r->modelled[slot];
  const struct entry *e = number ? oracle_entry(number) : NULL;
  if (e && e->run(r, uc, e)) return;
  r->fallback(uc, address, size, data);
}

/* set the argument registers, run until `until`, and fetch x0: one crossing for a guest call */
int oracle_start(struct runtime *r, void *uc, uint64_t function, uint64_t until, uint64_t sp, const uint64_t *x,
                 int count, uint64_t timeout, uint64_t *result) {
  r->reg_write(uc, r->sp, &sp);
  r->reg_write(uc, r->lr, &until);
  for (int i = 0; i < count; i++) r->reg_write(uc, r->x[i], (void *)&x[i]);
  int status = r->start(uc, function, until, timeout, 0);
  *result = getx(r, uc, 0);
  return status;
}
