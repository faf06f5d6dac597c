/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/rdma/wire.h"

#include <string.h>

#include "include/priv/bits.h"

static const uint16_t sizes[WIRE_TYPES] = {
    [WIRE_HELLO] = sizeof(struct wire_hello),       [WIRE_CHALLENGE] = sizeof(struct wire_challenge),
    [WIRE_AUTH] = sizeof(struct wire_auth),         [WIRE_WELCOME] = sizeof(struct wire_welcome),
    [WIRE_LEND] = sizeof(struct wire_lend),         [WIRE_LENT] = sizeof(struct wire_lent),
    [WIRE_SEGS] = sizeof(struct wire_segs),         [WIRE_SEGMENTS] = sizeof(struct wire_segments),
    [WIRE_WIPE] = sizeof(struct wire_wipe),         [WIRE_DONE] = sizeof(struct wire_done),
    [WIRE_PING] = sizeof(struct wire_ping),         [WIRE_RESOLVE] = sizeof(struct wire_resolve),
    [WIRE_RESOLVED] = sizeof(struct wire_resolved), [WIRE_RELEASE] = sizeof(struct wire_handle),
    [WIRE_RESERVE] = sizeof(struct wire_reserve),   [WIRE_RESERVED] = sizeof(struct wire_reserved),
    [WIRE_COMMIT] = sizeof(struct wire_commit),     [WIRE_ABANDON] = sizeof(struct wire_handle),
    [WIRE_STAT] = sizeof(struct wire_resolve),      [WIRE_FACTS] = sizeof(struct wire_facts),
};

uint32_t wire_bytes(unsigned type)
{
  return type < WIRE_TYPES ? sizes[type] : 0;
}

void wire_begin(union wire_msg *m, unsigned type, uint32_t epoch, uint64_t id)
{
  memset(m, 0, sizeof *m);
  m->h = (struct wire_head){.magic = WIRE_MAGIC,
                            .version = WIRE_VERSION,
                            .type = (uint8_t)type,
                            .bytes = wire_bytes(type),
                            .epoch = epoch,
                            .id = id};
}

/* Ends inside its field; an empty one may be allowed. Nothing hides behind the end. */
static bool is_text(const char *s, size_t room, bool may_be_empty)
{
  size_t n = strnlen(s, room);
  if (n == room || (!n && !may_be_empty))
    return false;
  for (size_t i = n; i < room; i++)
    if (s[i])
      return false;
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
      return false;
  return true;
}

static bool is_reason(unsigned r)
{
  return r >= DRAY_REASON_OK && r < DRAY_REASON_COUNT;
}

static bool is_zero(const void *p, size_t n)
{
  const uint8_t *b = p;
  for (size_t i = 0; i < n; i++)
    if (b[i])
      return false;
  return true;
}

uint64_t wire_segs_bytes(const struct wire_seg *seg, uint32_t n)
{
  uint64_t sum = 0, end;
  for (uint32_t i = 0; i < n; i++)
    if (!seg[i].bytes || !add_u64(seg[i].addr, seg[i].bytes, &end) || !add_u64(sum, seg[i].bytes, &sum))
      return 0;
  return sum <= WIRE_CELL_MAX ? sum : 0;
}

static const char *who_check(const struct wire_who *w)
{
  if (!is_text(w->tenant, sizeof w->tenant, false) || !is_text(w->agent, sizeof w->agent, true))
    return "a tenant's or agent's name is no text";
  return NULL;
}

static const char *mkey_check(const struct dray_key *k)
{
  const char *axis = (const char *)k;
  for (size_t i = 0; i < sizeof *k / DRAY_AXIS_MAX; i++)
    if (!is_text(axis + i * DRAY_AXIS_MAX, DRAY_AXIS_MAX, true))
      return "a materialization key is no text";
  return NULL;
}

static const char *facts_check(unsigned reason, uint8_t scope, uint8_t taint, uint8_t has_crc)
{
  if (!is_reason(reason))
    return "a reason that is none";
  if (reason != DRAY_REASON_OK)
    return NULL;
  if (scope < DRAY_SCOPE_AGENT || scope > DRAY_SCOPE_FLEET || taint > DRAY_QUARANTINED_TAINT || has_crc > 1)
    return "scope, taint or CRC flag out of range";
  return NULL;
}

static const char *resolved_check(const struct wire_resolved *m)
{
  const char *what = facts_check(m->reason, m->scope, m->taint, m->has_crc);
  if (what || m->reason != DRAY_REASON_OK)
    return what;
  if (m->zero || !m->handle || !m->n || m->n > WIRE_SEGS_MAX)
    return "RESOLVED without memory";
  if (!m->len || wire_segs_bytes(m->seg, m->n) != m->len)
    return "RESOLVED whose pieces are not its length";
  return mkey_check(&m->mkey);
}

static const char *reserved_check(const struct wire_reserved *m)
{
  if (!is_reason(m->reason))
    return "a reason that is none";
  if (m->reason != DRAY_REASON_OK)
    return NULL;
  if (!m->handle || !m->n || m->n > WIRE_SEGS_MAX || !wire_segs_bytes(m->seg, m->n))
    return "RESERVED without memory";
  return NULL;
}

static const char *reserve_check(const struct wire_reserve *m)
{
  const char *what = who_check(&m->who);
  if (!what)
    what = mkey_check(&m->mkey);
  if (what)
    return what;
  if (!is_zero(m->zero, sizeof m->zero) || m->no_replace > 1)
    return "a reserved field is not zero";
  if (m->scope < DRAY_SCOPE_AGENT || m->scope > DRAY_SCOPE_FLEET || m->taint > DRAY_QUARANTINED_TAINT)
    return "scope or taint out of range";
  return NULL; /* a length of 0 or too much is the store's to refuse, with its reason */
}

static const char *lent_check(const struct wire_lent *m)
{
  if (!is_reason(m->reason) || !is_zero(m->zero, sizeof m->zero) || m->zero2)
    return "LENT with a reason that is none";
  if (m->reason == DRAY_REASON_OK && (!m->lease || !m->bytes || m->bytes > WIRE_CELL_MAX || !m->segs))
    return "LENT without memory";
  return NULL;
}

static const char *segments_check(const struct wire_segments *m)
{
  if (!is_reason(m->reason) || m->zero || m->n > WIRE_LENT_MAX)
    return "SEGMENTS out of range";
  if (m->reason == DRAY_REASON_OK && (!m->n || !wire_segs_bytes(m->seg, m->n)))
    return "SEGMENTS without memory";
  return NULL;
}

static const char *body_check(const union wire_msg *m)
{
  switch (m->h.type) {
  case WIRE_HELLO:
    return !is_text(m->hello.name, sizeof m->hello.name, false) || !m->hello.instance ? "HELLO without a name" : NULL;
  case WIRE_CHALLENGE:
    return !is_text(m->challenge.name, sizeof m->challenge.name, false) || m->challenge.keyed > 1 ||
                   !is_zero(m->challenge.zero, sizeof m->challenge.zero)
               ? "CHALLENGE without a name"
               : NULL;
  case WIRE_WELCOME:
    return !m->welcome.session || !m->welcome.lease_ms || m->welcome.zero ? "WELCOME without a session" : NULL;
  case WIRE_LEND:
    return !m->lend.bytes || m->lend.bytes > WIRE_CELL_MAX ? "LEND of nothing, or of too much" : NULL;
  case WIRE_LENT:
    return lent_check(&m->lent);
  case WIRE_SEGS:
    return m->segs.zero ? "a reserved field is not zero" : NULL;
  case WIRE_SEGMENTS:
    return segments_check(&m->segments);
  case WIRE_DONE:
    return !is_reason(m->done.reason) || !is_zero(m->done.zero, sizeof m->done.zero) ? "a reason that is none" : NULL;
  case WIRE_RESOLVE:
  case WIRE_STAT: {
    const char *what = who_check(&m->resolve.who);
    if (!what && (m->resolve.move > 1 || !is_zero(m->resolve.zero, sizeof m->resolve.zero)))
      what = "a reserved field is not zero";
    return what ? what : mkey_check(&m->resolve.mkey);
  }
  case WIRE_RESOLVED:
    return resolved_check(&m->resolved);
  case WIRE_RESERVE:
    return reserve_check(&m->reserve);
  case WIRE_RESERVED:
    return reserved_check(&m->reserved);
  case WIRE_COMMIT:
    return m->commit.zero ? "a reserved field is not zero" : NULL;
  case WIRE_FACTS:
    return m->facts.zero || m->facts.zero2 || m->facts.tier >= DRAY_TIER_COUNT
               ? "FACTS out of range"
               : facts_check(m->facts.reason, m->facts.scope, m->facts.taint, m->facts.has_crc);
  default: /* nothing in it that could be wrong */
    return NULL;
  }
}

const char *wire_check(const void *p, size_t n, bool question)
{
  union wire_msg m;
  if (n < sizeof m.h)
    return "shorter than a head";
  if (n > sizeof m)
    return "longer than any message";
  memcpy(&m, p, n);
  if (m.h.magic != WIRE_MAGIC)
    return "not this protocol";
  if (m.h.version != WIRE_VERSION)
    return "another version of the protocol";
  uint32_t bytes = wire_bytes(m.h.type);
  if (!bytes || (m.h.type & 1) != question)
    return "a type that may not come here";
  if (m.h.bytes != bytes || n != bytes)
    return "a length that its type does not have";
  if (m.h.zero || !m.h.id)
    return "a head with a field out of range";
  return body_check(&m);
}

const char *wire_join_check(const void *p, size_t n)
{
  struct wire_join j;
  if (n < sizeof j)
    return "private data shorter than a join";
  memcpy(&j, p, sizeof j);
  if (j.magic != WIRE_MAGIC)
    return "not this protocol";
  if (j.version != WIRE_VERSION)
    return "another version of the protocol";
  if (j.zero || (j.lane == WIRE_CONTROL) != (j.session == 0) || (j.lane != WIRE_CONTROL && j.lane > 64))
    return "a join with a field out of range";
  return NULL;
}

const char *wire_joined_check(const void *p, size_t n)
{
  struct wire_joined j;
  if (n < sizeof j)
    return "private data shorter than an answer to a join";
  memcpy(&j, p, sizeof j);
  if (j.magic != WIRE_MAGIC || j.version != WIRE_VERSION || j.zero || j.dev >= WIRE_DEVS)
    return "not an answer to a join";
  return NULL;
}
