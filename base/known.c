/* SPDX-License-Identifier: Apache-2.0 */
#include "base/known.h"

#include <errno.h>
#include <pthread.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/order.h"

struct known {
  uint64_t start; /* 0: free; written last, cleared first [KNOWN] */
  uint64_t len, unit;
};

/* Process state by nature, like the signal handler that reads it. */
static struct known table[KNOWN_MAX];
static uint32_t used; /* entries below were used at least once */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int known_bad_add(const void *base, uint64_t len, uint64_t unit)
{
  uint64_t end;
  if (!base || !len || !is_pow2_u64(unit) || !add_u64((uintptr_t)base, len, &end))
    return -EINVAL;
  LOCKED(&lock);
  for (uint32_t i = 0; i < KNOWN_MAX; i++) {
    if (word_see(&table[i].start))
      continue;
    table[i].len = len;
    table[i].unit = unit;
    word_publish(&table[i].start, (uintptr_t)base);
    if (i >= used)
      state_publish(&used, i + 1);
    return 0;
  }
  return -ENOSPC;
}

void known_bad_del(const void *base, uint64_t len)
{
  LOCKED(&lock);
  for (uint32_t i = 0; i < used; i++)
    if (table[i].start && range_overlaps(table[i].start, table[i].len, (uintptr_t)base, len))
      word_publish(&table[i].start, 0);
}

bool known_bad_find(uintptr_t addr, uint64_t *ret_unit)
{
  uint32_t n = state_see(&used);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t start = word_see(&table[i].start);
    if (!start || addr < start || addr - start >= table[i].len)
      continue;
    *ret_unit = table[i].unit;
    return true;
  }
  return false;
}
