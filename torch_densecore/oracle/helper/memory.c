/* The guest's heap and the imports that touch memory: malloc, memcpy, operator new, static guards, weak pointers.
 *
 * The heap has size-class free lists; its state is in guest memory (heap.py describes and mirrors the structure). */
#include "runtime.h"

#define LIVE 0xA110C8EDu
#define FREED 0xF4EEF4EEu
static uint64_t class_of(uint64_t n, uint32_t *index) {
  if (n < 16) n = 16;
  if (n <= 1024) { *index = (uint32_t)((n + 15) / 16); return *index * 16ULL; }
  int k = 63 - __builtin_clzll(n - 1);
  uint64_t q = (n - 1) >> (k - 3);
  *index = (uint32_t)(64 + (k - 10) * 8 + (q - 8) + 1);
  return (q + 1) << (k - 3);
}
static uint64_t class_size(uint32_t index) {
  return index <= 64 ? index * 16ULL : (uint64_t)((index - 65) % 8 + 9) << ((index - 65) / 8 + 7);
}
uint64_t oracle_heap_alloc(struct runtime *r, uint64_t n, uint64_t align) {
  uint32_t index; uint64_t total = class_of(n, &index), *head = (uint64_t *)at(r, r->heap);
  uint64_t *slot = (uint64_t *)at(r, r->heap + 256 + 8 * (index + (align > 16 ? 512 : 0)));
  uint64_t a = align <= 64 ? *slot : 0;
  if (a) *slot = *(uint64_t *)at(r, a);
  else {
    uint64_t step = align > 16 ? align : 16;
    a = (head[0] + 16 + step - 1) & ~(step - 1);
    if (a + total > r->heap_end) return 0;
    head[0] = a + total;
  }
  uint32_t *tag = (uint32_t *)at(r, a - 16);
  tag[0] = index | (align > 16 ? 0x10000u : 0); tag[1] = LIVE; *(uint64_t *)(tag + 2) = n;
  head[1] += total; head[2]++;
  return a;
}
void oracle_heap_free(struct runtime *r, uint64_t a) {
  uint64_t *head = (uint64_t *)at(r, r->heap);
  if (!a || a < r->heap || a >= head[0]) return;
  uint32_t *tag = (uint32_t *)at(r, a - 16);
  if (tag[1] != LIVE) return;
  uint32_t index = tag[0] & 0xffff;
  uint64_t *slot = (uint64_t *)at(r, r->heap + 256 + 8 * (index + (tag[0] & 0x10000 ? 512 : 0)));
  *(uint64_t *)at(r, a) = *slot; *slot = a; tag[1] = FREED;
  head[1] -= class_size(index); head[2]--;
}

/* Blocks for the data of tensors, which a call gets where its result is wanted (translate/results.py). */
static uint64_t take_offer(struct runtime *r, uint64_t n, uint64_t align) {
  for (struct offer *o = r->offers; o < r->offers + OFFERS; o++)
    if (o->size == n && n && o->state == OFFERED && o->address % align == 0) { o->state = TAKEN; return o->address; }
  return 0;
}
static void return_offer(struct runtime *r, uint64_t a) {
  for (struct offer *o = r->offers; o < r->offers + OFFERS; o++)
    if (o->address == a && o->state == TAKEN) o->state = RETURNED;
}

static int run_malloc(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t a = oracle_heap_alloc(r, getx(r, uc, 0), 16);
  if (!a) return 0;
  setx(r, uc, a);
  return 1;
}
static int run_new_aligned(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t a = oracle_heap_alloc(r, getx(r, uc, 0), getx(r, uc, 1));
  if (!a) return 0;
  setx(r, uc, a);
  return 1;
}
static int run_memalign(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t align = getx(r, uc, 1), n = getx(r, uc, 2), a = take_offer(r, n, align);
  if (!a) a = oracle_heap_alloc(r, n, align);
  if (!a) return 0;
  *(uint64_t *)at(r, getx(r, uc, 0)) = a; setx(r, uc, 0); return 1;
}
static int run_calloc(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t n = getx(r, uc, 0) * getx(r, uc, 1), a = oracle_heap_alloc(r, n, 16); if (!a) return 0;
  memset(at(r, a), 0, n); setx(r, uc, a); return 1;
}
static int run_free(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t a = getx(r, uc, 0);
  if (a >= r->low && a < r->high) oracle_heap_free(r, a);
  else if (a) return_offer(r, a);
  return 1;
}
static int run_memcpy(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t d = getx(r, uc, 0), s = getx(r, uc, 1), n = getx(r, uc, 2);
  if (n && (!valid(r, d, n) || !valid(r, s, n))) return 0;
  if (n) memmove(at(r, d), at(r, s), n);
  return 1;
}
static int run_memset(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t d = getx(r, uc, 0), n = getx(r, uc, 2);
  if (n && !valid(r, d, n)) return 0;
  if (n) memset(at(r, d), (int)getx(r, uc, 1), n);
  return 1;
}
static int run_bzero(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t d = getx(r, uc, 0), n = getx(r, uc, 1);
  if (n && !valid(r, d, n)) return 0;
  if (n) memset(at(r, d), 0, n);
  return 1;
}
static int run_memcmp(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t a = getx(r, uc, 0), b = getx(r, uc, 1), n = getx(r, uc, 2);
  if (n && (!valid(r, a, n) || !valid(r, b, n))) return 0;
  int c = n ? memcmp(at(r, a), at(r, b), n) : 0;
  setx(r, uc, (uint32_t)((c > 0) - (c < 0))); return 1;
}
static int run_strlen(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t a = getx(r, uc, 0);
  if (!valid(r, a, 1)) return 0;
  setx(r, uc, strlen((char *)at(r, a)));
  return 1;
}
static int run_memchr(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t a = getx(r, uc, 0), n = getx(r, uc, 2);
  if (!n || !valid(r, a, n)) return 0;
  uint8_t *p = memchr(at(r, a), (int)(getx(r, uc, 1) & 255), n);
  setx(r, uc, p ? a + (uint64_t)(p - at(r, a)) : 0); return 1;
}
static int run_weak_lock(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t a = getx(r, uc, 0); if (!valid(r, a, 24)) return 0;
  int64_t *owners = (int64_t *)at(r, a + 8);
  if (*owners == -1) setx(r, uc, 0); else ++*owners;
  return 1;
}
static int run_guard(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t a = getx(r, uc, 0);
  if (!valid(r, a, 1)) return 0;
  setx(r, uc, *at(r, a) & 1 ? 0 : 1);
  return 1;
}
static int run_guard_done(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t a = getx(r, uc, 0);
  if (!valid(r, a, 1)) return 0;
  *at(r, a) = 1;
  return 1;
}

static int run_memset_pattern16(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t d = getx(r, uc, 0), s = getx(r, uc, 1), n = getx(r, uc, 2);
  if (n && (!valid(r, d, n) || !valid(r, s, 16))) return 0;
  uint8_t pattern[16];
  if (n) memcpy(pattern, at(r, s), 16);
  for (uint64_t i = 0; i < n; i += 16) memcpy(at(r, d + i), pattern, n - i < 16 ? n - i : 16);
  return 1;
}
static int run_nothing(struct runtime *r, void *uc, const struct entry *e) { return 1; }
/* ~exception_ptr; one that holds an exception is left to Python */
static int run_drop_exception(struct runtime *r, void *uc, const struct entry *e) {
  uint64_t a = getx(r, uc, 0);
  return valid(r, a, 8) && !*(uint64_t *)at(r, a);
}

const struct entry memory_entries[] = {
  {"_malloc", run_malloc, 0, 0}, {"__Znwm", run_malloc, 0, 0}, {"__Znam", run_malloc, 0, 0},
  {"__ZnwmRKSt9nothrow_t", run_malloc, 0, 0},
  {"__ZnwmSt11align_val_t", run_new_aligned, 0, 0}, {"_posix_memalign", run_memalign, 0, 0},
  {"_calloc", run_calloc, 0, 0},
  {"_free", run_free, 0, 0}, {"__ZdlPv", run_free, 0, 0}, {"__ZdaPv", run_free, 0, 0},
  {"__ZdlPvSt11align_val_t", run_free, 0, 0},
  {"_memcpy", run_memcpy, 0, 0}, {"_memmove", run_memcpy, 0, 0}, {"___memcpy_chk", run_memcpy, 0, 0},
  {"___memmove_chk", run_memcpy, 0, 0},
  {"_memset", run_memset, 0, 0}, {"___memset_chk", run_memset, 0, 0}, {"_bzero", run_bzero, 0, 0},
  {"_memcmp", run_memcmp, 0, 0},
  {"_strlen", run_strlen, 0, 0}, {"_memchr", run_memchr, 0, 0},
  {"__ZNSt3__119__shared_weak_count4lockEv", run_weak_lock, 0, 0}, {"___cxa_guard_acquire", run_guard, 0, 0},
  {"___cxa_guard_release", run_guard_done, 0, 0},
  {"_memset_pattern16", run_memset_pattern16, 0, 0}, {"___chkstk_darwin", run_nothing, 0, 0},
  {"__ZNSt13exception_ptrD1Ev", run_drop_exception, 0, 0},
  {0, 0, 0, 0},
};
