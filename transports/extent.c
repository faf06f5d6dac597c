/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/extent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"

/* Room so that giving back every extent alive, in any order, needs no memory. */
static int extent_map_room(struct extent_map *m, uint64_t taken)
{
  uint64_t need = taken + m->cuts + 2;
  if (need <= m->room)
    return 0;
  if (need > UINT32_MAX / 2)
    return -ENOMEM;
  uint32_t room = (uint32_t)MAX_OF(need, (uint64_t)m->room * 2);
  struct extent *f = realloc(m->free, room * sizeof *f);
  if (!f)
    return -ENOMEM;
  m->free = f;
  m->room = room;
  return 0;
}

void extent_map_reset(struct extent_map *m)
{
  uint64_t step = m->barrier ? m->barrier : m->units;
  m->n = 0;
  m->taken = 0;
  m->used = 0;
  for (uint64_t off = 0; off < m->units; off += step)
    m->free[m->n++] = (struct extent){off, MIN_OF(step, m->units - off)};
}

int extent_map_init(struct extent_map *m, uint64_t units, uint64_t barrier)
{
  uint64_t cuts = barrier ? units / barrier : 0;
  if (!units || cuts > 1u << 24)
    return -EINVAL;
  memset(m, 0, sizeof *m);
  m->units = units;
  m->barrier = barrier;
  m->cuts = (uint32_t)cuts;
  int rc = extent_map_room(m, 8);
  if (!rc)
    extent_map_reset(m);
  return rc;
}

void extent_map_deinit(struct extent_map *m)
{
  free(m->free);
  memset(m, 0, sizeof *m);
}

static void remove_at(struct extent_map *m, uint32_t i)
{
  memmove(m->free + i, m->free + i + 1, (m->n - i - 1) * sizeof *m->free);
  m->n--;
}
static void insert_at(struct extent_map *m, uint32_t i, struct extent e)
{
  memmove(m->free + i + 1, m->free + i, (m->n - i) * sizeof *m->free);
  m->free[i] = e;
  m->n++;
}

/* The first free extent that ends after off. */
static uint32_t find(const struct extent_map *m, uint64_t off)
{
  uint32_t lo = 0, hi = m->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (m->free[mid].off + m->free[mid].len <= off)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* Takes [off, off+len) out of free extent i, which holds all of it. */
static void take(struct extent_map *m, uint32_t i, uint64_t off, uint64_t len)
{
  struct extent *f = &m->free[i];
  uint64_t before = off - f->off, after = f->off + f->len - (off + len);
  if (!before && !after) {
    remove_at(m, i);
  } else if (!before) {
    f->off += len;
    f->len -= len;
  } else {
    f->len = before;
    if (after)
      insert_at(m, i + 1, (struct extent){off + len, after});
  }
  m->taken++;
  m->used += len;
}

int extent_alloc(struct extent_map *m, uint64_t len, uint64_t *ret_off)
{
  if (!len || (m->barrier && len > m->barrier))
    return -EINVAL;
  for (uint32_t i = 0; i < m->n; i++) {
    if (m->free[i].len < len)
      continue;
    int rc = extent_map_room(m, (uint64_t)m->taken + 1);
    if (rc)
      return rc;
    uint64_t off = m->free[i].off;
    take(m, i, off, len);
    *ret_off = off;
    return 0;
  }
  return -ENOSPC;
}

int extent_reserve(struct extent_map *m, uint64_t off, uint64_t len)
{
  if (!len || !range_inside(off, len, m->units))
    return -EINVAL;
  if (m->barrier && off / m->barrier != (off + len - 1) / m->barrier)
    return -EINVAL;
  uint32_t i = find(m, off);
  if (i == m->n || m->free[i].off > off || m->free[i].off + m->free[i].len < off + len)
    return -EBUSY;
  int rc = extent_map_room(m, (uint64_t)m->taken + 1);
  if (rc)
    return rc;
  take(m, i, off, len);
  return 0;
}

static bool is_cut(const struct extent_map *m, uint64_t off)
{
  return m->barrier && off % m->barrier == 0;
}

bool extent_free(struct extent_map *m, uint64_t off, uint64_t len)
{
  if (!len || !range_inside(off, len, m->units) || !m->taken)
    return false;
  uint32_t i = find(m, off);
  if (i < m->n && m->free[i].off < off + len)
    return false;
  bool left = i > 0 && m->free[i - 1].off + m->free[i - 1].len == off && !is_cut(m, off);
  bool right = i < m->n && m->free[i].off == off + len && !is_cut(m, off + len);
  if (left && right) {
    m->free[i - 1].len += len + m->free[i].len;
    remove_at(m, i);
  } else if (left) {
    m->free[i - 1].len += len;
  } else if (right) {
    m->free[i].off = off;
    m->free[i].len += len;
  } else {
    insert_at(m, i, (struct extent){off, len});
  }
  m->taken--;
  m->used -= len;
  return true;
}
