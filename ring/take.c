/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/take.h"

#include <stddef.h>
#include <string.h>

#include "include/priv/bits.h"
#include "ring/wire.h"

/* Which fields an op uses; anything else must be zero so that it can mean something tomorrow. */
enum field {
  F_KEY = 1 << 0,
  F_REGION = 1 << 1,
  F_OFF = 1 << 2,
  F_LEN = 1 << 3,
  F_LAYOUT = 1 << 4,
  F_TIER = 1 << 5,
  F_ARG = 1 << 6,
  F_REQUEST = 1 << 7,
  F_PEER = 1 << 8,
  F_LEN_NONZERO = 1 << 9, /* length 0 is ZERO_LENGTH */
  F_TIER_NEEDED = 1 << 10,
};
#define FLAGS_ORDER (DRAY_LINK | DRAY_DRAIN | DRAY_FENCED)

static const struct {
  uint16_t fields;
  uint16_t flags;
} rules[DRAY_OP_COUNT] = {
    [DRAY_NOP] = {0, FLAGS_ORDER},
    [DRAY_FENCE] = {0, FLAGS_ORDER},
    [DRAY_PUT] = {F_KEY | F_REGION | F_OFF | F_LEN | F_LEN_NONZERO | F_LAYOUT | F_TIER | F_ARG | F_REQUEST | F_PEER,
                  FLAGS_ORDER | DRAY_BATCH | DRAY_VERIFY_CRC | DRAY_NO_REPLACE | DRAY_READ_SOON},
    [DRAY_GET] = {F_KEY | F_REGION | F_OFF | F_LEN | F_LEN_NONZERO | F_LAYOUT | F_TIER | F_ARG | F_REQUEST | F_PEER,
                  FLAGS_ORDER | DRAY_BATCH | DRAY_VERIFY_CRC | DRAY_READ_SOON},
    [DRAY_ALLOC] = {F_KEY | F_LEN | F_LEN_NONZERO | F_TIER | F_ARG | F_REQUEST, FLAGS_ORDER},
    [DRAY_COMMIT] = {F_OFF | F_REQUEST, FLAGS_ORDER | DRAY_NO_REPLACE | DRAY_VERIFY_CRC},
    [DRAY_MAP] = {F_KEY | F_TIER | F_ARG | F_REQUEST | F_PEER | F_OFF | F_LEN,
                  FLAGS_ORDER | DRAY_BATCH | DRAY_MAP_OR_STAGE | DRAY_READ_SOON},
    [DRAY_UNMAP] = {F_OFF | F_LEN, FLAGS_ORDER | DRAY_BATCH},
    [DRAY_COPY] = {F_KEY | F_REGION | F_OFF | F_LEN | F_LEN_NONZERO | F_LAYOUT | F_REQUEST,
                   FLAGS_ORDER | DRAY_READ_SOON},
    [DRAY_MOVE] = {F_KEY | F_TIER | F_TIER_NEEDED | F_ARG | F_REQUEST | F_PEER | F_OFF | F_LEN,
                   FLAGS_ORDER | DRAY_BATCH},
    [DRAY_PUBLISH] = {F_KEY | F_OFF | F_REQUEST, FLAGS_ORDER},
    [DRAY_DROP] = {F_KEY | F_TIER | F_OFF | F_LEN, FLAGS_ORDER | DRAY_BATCH},
    [DRAY_STAT] = {F_KEY | F_TIER | F_PEER | F_OFF | F_LEN, FLAGS_ORDER | DRAY_BATCH},
    [DRAY_ACCOUNT] = {F_OFF | F_LEN | F_REQUEST | F_ARG, FLAGS_ORDER},
    [DRAY_QUARANTINE] = {F_KEY | F_OFF | F_LEN | F_ARG, FLAGS_ORDER},
    [DRAY_CANCEL] = {F_ARG, 0},
};
/* Without BATCH, off and len mean nothing to these. */
#define OFF_LEN_ONLY_BATCH(op) ((op) == DRAY_MAP || (op) == DRAY_MOVE || (op) == DRAY_DROP || (op) == DRAY_STAT)

static bool is_zero16(const uint8_t b[16])
{
  uint64_t w[2];
  memcpy(w, b, 16);
  return !(w[0] | w[1]);
}

unsigned take_check(const struct dray_sqe *s)
{
  if (s->op == 0 || s->op >= DRAY_OP_COUNT)
    return DRAY_BAD_OP;
  if (s->ver != 1)
    return DRAY_BAD_RESERVED;
  unsigned f = rules[s->op].fields;
  bool batch = s->flags & DRAY_BATCH;
  if (s->flags & ~rules[s->op].flags)
    return DRAY_BAD_FLAG;
  if (s->klass > DRAY_CLASS_BULK)
    return DRAY_BAD_FLAG;
  if (s->tier >= DRAY_TIER_COUNT)
    return DRAY_BAD_TIER;
  if (batch) {
    f |= F_OFF | F_LEN | F_LEN_NONZERO;
    f &= ~(unsigned)F_KEY; /* keys are in the items */
  } else {
    if (OFF_LEN_ONLY_BATCH(s->op))
      f &= ~(unsigned)(F_OFF | F_LEN);
    if (s->op == DRAY_UNMAP)
      f &= ~(unsigned)F_LEN;
  }
  if ((!(f & F_KEY) && !is_zero16(s->key)) || (!(f & F_REGION) && s->region) || (!(f & F_OFF) && s->off) ||
      (!(f & F_LEN) && s->len) || (!(f & F_LAYOUT) && s->layout) || (!(f & F_ARG) && s->arg) ||
      (!(f & F_REQUEST) && s->request))
    return DRAY_BAD_RESERVED;
  if (!(f & F_TIER) && s->tier)
    return DRAY_BAD_TIER;
  if ((f & F_TIER_NEEDED) && !s->tier)
    return DRAY_BAD_TIER;
  if (s->peer) /* no transport reaches another node yet */
    return (f & F_PEER) ? DRAY_PEER_UNREACHABLE : DRAY_BAD_PEER;
  if ((f & F_LEN_NONZERO) && s->len == 0)
    return DRAY_ZERO_LENGTH;
  if (batch && s->len > DRAY_BATCH_MAX)
    return DRAY_TOO_LARGE;
  if ((batch || s->op == DRAY_PUBLISH) && s->off % sizeof(struct dray_item))
    return DRAY_OUT_OF_RANGE;
  if (s->op == DRAY_MOVE && s->arg >= DRAY_TIER_COUNT)
    return DRAY_BAD_TIER;
  if (s->op == DRAY_QUARANTINE && s->arg) {
    struct dray_quarantine_at at;
    memcpy(&at, s->key, sizeof at);
    if (at.zero)
      return DRAY_BAD_RESERVED;
    if (s->arg < DRAY_UNIT_LOG_MIN || s->arg > DRAY_UNIT_LOG_MAX)
      return DRAY_OUT_OF_RANGE;
    if (!s->len)
      return DRAY_ZERO_LENGTH;
  }
  if (s->op == DRAY_COPY) {
    struct dray_copy_to to;
    memcpy(&to, s->key, sizeof to);
    if (to.zero)
      return DRAY_BAD_RESERVED;
  }
  uint64_t end;
  if (!batch && (f & F_OFF) && (f & F_LEN) && !s->layout && s->op != DRAY_ACCOUNT && !add_u64(s->off, s->len, &end))
    return DRAY_OUT_OF_RANGE;
  return DRAY_REASON_OK;
}

unsigned take_item_check(unsigned op, bool layout, const struct dray_item *i)
{
  bool moves = op == DRAY_PUT || op == DRAY_GET;
  if (i->zero)
    return DRAY_BAD_RESERVED;
  if (op == DRAY_UNMAP) /* off is the lease */
    return is_zero16(i->key) && !i->len ? DRAY_REASON_OK : DRAY_BAD_RESERVED;
  if (!moves)
    return i->off || i->len ? DRAY_BAD_RESERVED : DRAY_REASON_OK;
  if (i->len == 0)
    return DRAY_ZERO_LENGTH;
  uint64_t end;
  if (!layout && !add_u64(i->off, i->len, &end))
    return DRAY_OUT_OF_RANGE;
  return DRAY_REASON_OK;
}

int take_burst(struct wire_in *sq, struct dray_req *ret_reqs, uint32_t n)
{
  _Static_assert(offsetof(struct dray_req, sqe) == 0, "an entry is fetched to where it stays");
  uint32_t pos = wire_in_pos(sq);
  int k = wire_in_take_apart(sq, ret_reqs, sizeof *ret_reqs, n < TAKE_BURST ? n : TAKE_BURST);
  if (k <= 0)
    return k;
  for (int i = 0; i < k; i++) {
    struct dray_req *r = &ret_reqs[i];
    r->sq_pos = pos + (uint32_t)i;
    r->reason = (uint16_t)take_check(&r->sqe);
  }
  wire_in_release(sq, 0);
  return k;
}

void take_items(const struct dray_item *arena, uint32_t first, uint32_t n, struct dray_item *ret_items)
{
  memcpy(ret_items, arena + first, (size_t)n * sizeof *ret_items);
  copied_once();
}

unsigned take_publish(const struct dray_item *arena, uint32_t row, struct dray_publish *ret_record)
{
  struct dray_publish p;
  memcpy(&p, arena + row, sizeof p);
  copied_once();
  if (p.zero0 || p.zero1[0] || p.zero1[1] || p.zero1[2])
    return DRAY_BAD_RESERVED;
  if (p.scope < DRAY_SCOPE_AGENT || p.scope > DRAY_SCOPE_FLEET || p.taint < DRAY_TRUSTED ||
      p.taint > DRAY_QUARANTINED_TAINT)
    return DRAY_BAD_FLAG;
  *ret_record = p;
  return DRAY_REASON_OK;
}
