/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
  const char *name;
  uint64_t scale;
};
static const struct unit byte_units[] = {
    {"", 1},
    {"b", 1},
    {"k", 1ull << 10},
    {"m", 1ull << 20},
    {"g", 1ull << 30},
    {"t", 1ull << 40},
    {"kib", 1ull << 10},
    {"mib", 1ull << 20},
    {"gib", 1ull << 30},
    {"tib", 1ull << 40},
    {"kb", 1000},
    {"mb", 1000000},
    {"gb", 1000000000},
    {"tb", 1000000000000},
    {NULL, 0},
};
static const struct unit time_units[] = {
    {"", 1000000000},  {"ns", 1},          {"us", 1000},         {"ms", 1000000},
    {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000},
    {NULL, 0},
};

/* whole.fraction unit, in integers: a double would lose bytes above 2^53 */
static int parse(const char *text, const struct unit *units, uint64_t *ret)
{
  uint64_t whole = 0, num = 0, den = 1;
  const char *p = text;
  if (!p || !isdigit((unsigned char)*p))
    return -EINVAL;
  for (; isdigit((unsigned char)*p); p++)
    if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
      return -ERANGE;
  if (*p == '.') {
    if (!isdigit((unsigned char)*++p))
      return -EINVAL;
    for (; isdigit((unsigned char)*p); p++)
      if (den < 1000000) {
        num = num * 10 + (uint64_t)(*p - '0');
        den *= 10;
      }
  }
  while (*p == ' ')
    p++;
  for (const struct unit *u = units; u->name; u++) {
    if (strcasecmp(u->name, p) != 0)
      continue;
    uint64_t v;
    if (__builtin_mul_overflow(whole, u->scale, &v) ||
        __builtin_add_overflow(v, (uint64_t)((__uint128_t)u->scale * num / den), &v))
      return -ERANGE;
    *ret = v;
    return 0;
  }
  return -EINVAL;
}

int units_bytes(const char *text, uint64_t *ret_bytes)
{
  return parse(text, byte_units, ret_bytes);
}
int units_time(const char *text, uint64_t *ret_ns)
{
  return parse(text, time_units, ret_ns);
}

int units_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret_count)
{
  static const struct unit none[] = {{"", 1}, {NULL, 0}};
  uint64_t v;
  if (text && strchr(text, '.'))
    return -EINVAL;
  int r = parse(text, none, &v);
  if (r < 0)
    return r;
  if (v < min || v > max)
    return -ERANGE;
  *ret_count = v;
  return 0;
}

char *units_format_bytes(uint64_t bytes, char *buf, size_t n)
{
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double v = (double)bytes;
  size_t i = 0;
  while (v >= 1024 && i < 4) {
    v /= 1024;
    i++;
  }
  snprintf(buf, n, i ? "%.1f %s" : "%.0f %s", v, names[i]);
  return buf;
}

char *units_format_time(uint64_t ns, char *buf, size_t n)
{
  if (ns < 10000)
    snprintf(buf, n, "%llu ns", (unsigned long long)ns);
  else if (ns < 10000000)
    snprintf(buf, n, "%.1f us", (double)ns / 1e3);
  else if (ns < 10000000000)
    snprintf(buf, n, "%.1f ms", (double)ns / 1e6);
  else
    snprintf(buf, n, "%.1f s", (double)ns / 1e9);
  return buf;
}
