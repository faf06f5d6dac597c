/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/help.h"

#include <errno.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/lane.h"

_Static_assert(HELP_BACK == LANE_CHUNKS, "every chunk of a lane may come back at once");

void help_init(struct help *h)
{
  pthread_mutex_init(&h->lock, NULL);
}
void help_deinit(struct help *h)
{
  pthread_mutex_destroy(&h->lock);
}

void help_mood(struct lane *l, enum help_mood mood)
{
  flag_raise(&l->help.mood, mood);
}

bool help_called(const struct lane *l)
{
  return stat_read(&l->help.orders_n) || stat_read(&l->help.back_n);
}

/* Something was put there for l: it may be asleep. */
static void help_ring(struct lane *l)
{
  wake_fence(); /* [BELL] */
  if (flag_read(&l->help.mood) != HELP_ASLEEP)
    return;
  uint64_t one = 1;
  ssize_t n = write(l->wake, &one, sizeof one);
  (void)n;
}

static bool help_give(struct lane *to, const struct help_order *o)
{
  struct help *h = &to->help;
  {
    LOCKED(&h->lock);
    if (h->closed || h->orders_n == HELP_ORDERS)
      return false;
    h->order[h->orders_n] = *o;
    stat_set(&h->orders_n, h->orders_n + 1);
  }
  help_ring(to);
  return true;
}

bool help_ask(struct lane *l, struct dev *dev, const struct xfer *x, uint64_t left)
{
  struct daemon *d = l->d;
  const struct help_order o = {.owner = l, .dev = dev, .x = *x};
  for (uint32_t k = 1; k < d->lanes_n; k++) {
    struct lane *to = &d->lanes[(l->idx + k) % d->lanes_n];
    uint32_t mood = flag_read(&to->help.mood);
    bool may = mood == HELP_IDLE || mood == HELP_HELPING || (mood == HELP_ASLEEP && left >= d->cfg->split_bytes);
    if (may && stat_read(&to->help.orders_n) < HELP_ORDERS && help_give(to, &o))
      return true;
  }
  return false;
}

uint32_t help_take_back(struct lane *l, struct xfer_done *ret_done, uint32_t n)
{
  struct help *h = &l->help;
  if (LIKELY(stat_read(&h->back_n) == 0))
    return 0;
  LOCKED(&h->lock);
  uint32_t k = (uint32_t)MIN_OF((uint64_t)n, h->back_n);
  for (uint32_t i = 0; i < k; i++) /* from the end: chunks land in any order */
    ret_done[i] = h->back[h->back_n - 1 - i];
  stat_set(&h->back_n, h->back_n - k);
  return k;
}

/* The device is synchronous and this lane's queue of it is empty: the one record that poll has is this xfer's. */
static void help_carry_out(struct lane *l, const struct help_order *o, struct xfer_done *ret_done)
{
  struct xfer_done done = {
      .cookie = o->x.cookie, .status = XFER_FAILED, .path = DRAY_PATH_NONE, .reason = DRAY_IO_ERROR, .err = EIO};
  int r = o->dev->hot->submit(o->dev, l->idx, &o->x);
  if (r < 0)
    done.err = -r;
  else
    o->dev->hot->poll(o->dev, l->idx, &done, 1);
  stat_add(&l->stats.helped, 1);
  *ret_done = done;
}

bool help_work(struct lane *l)
{
  struct help *h = &l->help;
  if (LIKELY(stat_read(&h->orders_n) == 0))
    return false;
  if (l->flying)
    lane_poll(l); /* what its own work left in the device's queue */
  struct help_order o;
  {
    LOCKED(&h->lock);
    o = h->order[0];
    for (uint32_t i = 1; i < h->orders_n; i++)
      h->order[i - 1] = h->order[i];
    stat_set(&h->orders_n, h->orders_n - 1);
  }
  if (list_empty(&l->active))
    help_mood(l, HELP_HELPING);
  struct xfer_done done;
  help_carry_out(l, &o, &done);
  help_mood(l, HELP_BUSY);
  struct help *to = &o.owner->help;
  {
    LOCKED(&to->lock);
    to->back[to->back_n] = done;
    stat_set(&to->back_n, to->back_n + 1);
  }
  help_ring(o.owner);
  return true;
}

void help_close(struct lane *l)
{
  {
    LOCKED(&l->help.lock);
    l->help.closed = true;
  }
  while (help_work(l)) {
  }
  help_mood(l, HELP_BUSY);
}
