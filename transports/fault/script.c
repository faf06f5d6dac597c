/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/fault/script.h"

#include <errno.h>
#include <string.h>

#include "include/priv/bits.h"

#define CHANCE_MAX 1000000000u
#define HOLD_MAX_MS 60000u

/* What is left of one item. */
struct cursor {
  const char *p, *end;
};

static bool eat(struct cursor *c, char what)
{
  if (c->p == c->end || *c->p != what)
    return false;
  c->p++;
  return true;
}
static bool done(const struct cursor *c)
{
  return c->p == c->end;
}

static bool number(struct cursor *c, uint64_t max, uint64_t *ret)
{
  uint64_t v = 0;
  const char *from = c->p;
  for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {
    unsigned digit = (unsigned)(*c->p - '0');
    if (v > (max - digit) / 10)
      return false;
    v = v * 10 + digit;
  }
  if (c->p == from)
    return false;
  *ret = v;
  return true;
}

static bool bytes(struct cursor *c, uint64_t *ret)
{
  uint64_t v;
  if (!number(c, UINT64_MAX / 16 >> 20, &v))
    return false;
  if (eat(c, 'K'))
    v <<= 10;
  else if (eat(c, 'M'))
    v <<= 20;
  *ret = v;
  return true;
}

static bool chance(struct cursor *c, struct chance *ret)
{
  uint64_t a, b;
  if (!number(c, CHANCE_MAX, &a) || !eat(c, '/') || !number(c, CHANCE_MAX, &b) || !b || a > b)
    return false;
  *ret = (struct chance){(uint32_t)a, (uint32_t)b};
  return true;
}

static bool take_seed(struct cursor *c, struct script *s)
{
  return number(c, UINT64_MAX - 9, &s->seed);
}

static bool take_fail(struct cursor *c, struct script *s)
{
  static const struct {
    const char *word;
    int32_t err;
  } words[] = {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"ETIMEDOUT", ETIMEDOUT}, {"EREMOTEIO", EREMOTEIO}};
  for (size_t i = 0; i < ARRAY_LEN(words); i++) {
    size_t n = strlen(words[i].word);
    if ((size_t)(c->end - c->p) <= n || memcmp(c->p, words[i].word, n) || c->p[n] != ':')
      continue;
    c->p += n + 1;
    s->fail_err = words[i].err;
    return chance(c, &s->fail);
  }
  return false;
}

static bool take_short(struct cursor *c, struct script *s)
{
  return chance(c, &s->cut);
}

static bool take_delay(struct cursor *c, struct script *s)
{
  uint64_t n;
  if (!chance(c, &s->delay) || !eat(c, ':') || !number(c, HOLD_MAX_MS, &n) || !n)
    return false;
  if (done(c))
    s->delay_polls = (uint32_t)n;
  else if (eat(c, 'm') && eat(c, 's'))
    s->delay_ms = (uint32_t)n;
  else
    return false;
  return true;
}

static bool take_reorder(struct cursor *c, struct script *s)
{
  return chance(c, &s->reorder);
}

static bool take_drop(struct cursor *c, struct script *s)
{
  uint64_t n = 2000;
  if (!chance(c, &s->drop))
    return false;
  if (eat(c, ':') && (!number(c, HOLD_MAX_MS, &n) || !n || !eat(c, 'm') || !eat(c, 's')))
    return false;
  s->drop_ms = (uint32_t)n;
  return true;
}

/* A/B or A/BxN; *c stays where it is when it is not. */
static bool chance_times(struct cursor *c, struct chance *ret, uint32_t *ret_max)
{
  struct cursor at = *c;
  struct chance got;
  uint64_t n = 0;
  if (!chance(&at, &got) || (eat(&at, 'x') && (!number(&at, UINT32_MAX, &n) || !n)))
    return false;
  *c = at;
  *ret = got;
  *ret_max = (uint32_t)n;
  return true;
}

static bool take_source(struct cursor *c, struct script *s)
{
  return chance_times(c, &s->source, &s->source_max);
}

static bool take_place(struct cursor *c, struct script *s, bool early)
{
  struct script_place p = {.early = early};
  uint64_t n = 0;
  p.directory = eat(c, 'd');
  if (s->places == SCRIPT_PLACES_MAX || (!p.directory && !number(c, UINT32_MAX, &n)) || !eat(c, ':') ||
      !bytes(c, &p.off))
    return false;
  p.slab = p.directory ? UINT32_MAX : (uint32_t)n;
  if (eat(c, '@') && !number(c, UINT64_MAX / 16, &p.after))
    return false;
  s->place[s->places++] = p;
  return true;
}

static bool take_poison(struct cursor *c, struct script *s)
{
  return chance_times(c, &s->poison, &s->poison_max) || take_place(c, s, false);
}

static bool take_early(struct cursor *c, struct script *s)
{
  return take_place(c, s, true);
}

static bool take_unit(struct cursor *c, struct script *s)
{
  return bytes(c, &s->unit) && is_pow2_u64(s->unit) && s->unit >= PAGE_BYTES && s->unit <= GIB(1);
}

static const struct {
  const char *key, *form;
  bool (*take)(struct cursor *c, struct script *s);
} items[] = {
    {"seed", "N", take_seed},
    {"fail", "WORD:A/B, WORD one of EIO ENOSPC ETIMEDOUT EREMOTEIO", take_fail},
    {"short", "A/B", take_short},
    {"delay", "A/B:N or A/B:Nms, N in 1..60000", take_delay},
    {"reorder", "A/B", take_reorder},
    {"drop", "A/B or A/B:Nms, N in 1..60000", take_drop},
    {"poison", "A/B, A/BxN, SLAB:OFF or SLAB:OFF@N (SLAB d: the directory), at most 16 places", take_poison},
    {"early", "SLAB:OFF or SLAB:OFF@N (SLAB d: the directory), at most 16 places", take_early},
    {"source", "A/B or A/BxN", take_source},
    {"unit", "BYTES, a power of two in 4K..1024M", take_unit},
};

static int item(const char *from, size_t n, uint32_t *seen, struct err *e, struct script *s)
{
  const char *eq = memchr(from, '=', n);
  size_t key = eq ? (size_t)(eq - from) : n;
  for (uint32_t i = 0; i < ARRAY_LEN(items); i++) {
    if (strlen(items[i].key) != key || memcmp(items[i].key, from, key) || !eq)
      continue;
    struct cursor c = {eq + 1, from + n};
    bool again = (*seen >> i & 1) && items[i].take != take_poison && items[i].take != take_early;
    if (again)
      return err_set(e, -EINVAL, "fault script: %s= is given twice: once is enough", items[i].key);
    *seen |= 1u << i;
    if (!items[i].take(&c, s) || !done(&c))
      return err_set(e, -EINVAL, "fault script: '%.*s': need %s=%s (A of B, A <= B)", (int)MIN_OF(n, 80u), from,
                     items[i].key, items[i].form);
    return 0;
  }
  return err_set(e, -EINVAL,
                 "fault script: '%.*s': need KEY=VALUE with KEY one of seed fail short delay reorder drop poison early "
                 "source unit",
                 (int)MIN_OF(n, 80u), from);
}

int script_parse(const char *text, size_t n, struct err *e, struct script *ret_script)
{
  struct script s = {.seed = 1, .unit = PAGE_BYTES};
  uint32_t seen = 0;
  if (n > SCRIPT_TEXT_MAX)
    return err_set(e, -EINVAL, "fault script: %zu bytes: need at most %u", n, SCRIPT_TEXT_MAX);
  for (size_t i = 0; i < n;) {
    size_t k = i;
    if (text[i] == ' ') {
      i++;
      continue;
    }
    while (k < n && text[k] != ' ')
      k++;
    int r = item(text + i, k - i, &seen, e, &s);
    if (r < 0)
      return r;
    i = k;
  }
  *ret_script = s;
  return 0;
}

bool script_holds(const struct script *s)
{
  return s->delay.a || s->reorder.a || s->drop.a;
}
