/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/tune.h"

#include <stdio.h>
#include <string.h>

#include "base/copy_measure.h"
#include "include/priv/bits.h"

#define SPLIT_MIN MIB(1)
#define WAKE_PAYS_US 200u /* waking a lane costs up to 50 us: a fourth of this is the most it may be of the work */

struct size_text {
  char t[24];
};
static struct size_text size_text(uint64_t v)
{
  struct size_text s;
  if (v >= COPY_NEVER)
    snprintf(s.t, sizeof s.t, "never");
  else
    snprintf(s.t, sizeof s.t, "%llu KiB", (unsigned long long)(v >> 10));
  return s;
}

void tune_copy(struct config *c, const struct log *log)
{
  const struct profile_tuning *t = &c->policy.profiles.tuning;
  char from[120];
  uint64_t ns = 0;
  int r;
  if (t->has_copy)
    snprintf(from, sizeof from, "calibration dray.copy");
  else if (t->nt_min_bytes)
    snprintf(from, sizeof from, "built-in, stream_min from calibration dray.nt_min_bytes");
  else if (!c->copy_measure)
    snprintf(from, sizeof from, "built-in (copy_plan: builtin)");
  else if ((r = copy_measure((uint64_t)TUNE_BUDGET_MS * 1000000u, &c->copy, &ns)) == 0)
    snprintf(from, sizeof from, "measured in %llu ms", (unsigned long long)(ns / 1000000u));
  else
    snprintf(from, sizeof from, "built-in, not measured: %s", strerror(-r));
  const struct copy_plan *p = &c->copy;
  if (c->split_bytes == 0) {
    uint64_t pays = (uint64_t)p->cold_mbps * WAKE_PAYS_US;
    c->split_bytes = MAX_OF(MAX_OF(SPLIT_MIN, 4 * c->chunk_bytes), pays);
  }
  log_line(log, LOG_INFO,
           "copy plan: non-temporal from %s, when hot from %s; cached by %s, movsb from %s; READ_SOON up to %s; hot "
           "within %s; %u MB/s cold; split from %s; %s",
           size_text(p->stream_min).t, size_text(p->hot_stream_min).t, copy_method_name((enum copy_method)p->small),
           size_text(p->movsb_min).t, size_text(p->soon_max).t, size_text(p->hot_bytes).t, p->cold_mbps,
           c->lanes > 1 ? size_text(c->split_bytes).t : "never (one lane)", from);
}
