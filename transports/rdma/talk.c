/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/rdma/talk.h"

#include <string.h>

#include <dray/types.h>

void talk_open(struct talk *t, const struct talk_host *host, bool own_address)
{
  *t = (struct talk){.host = host, .state = TALK_NEW, .own_address = own_address};
}

static int talk_close(struct talk *t, int code, const char *why)
{
  t->state = TALK_CLOSED;
  t->why = why;
  return code;
}

static int talk_hello(struct talk *t, const struct wire_hello *q, union wire_msg *a)
{
  const struct talk_host *h = t->host;
  if (t->state != TALK_NEW)
    return talk_close(t, -EPROTO, "a second HELLO");
  if (!h->key.bytes && !t->own_address)
    return talk_close(t, -EACCES, "no key is configured: only this host's own addresses may connect");
  if (auth_nonce(t->facts.answerer))
    return talk_close(t, -EACCES, "no randomness for a nonce");
  memcpy(t->facts.asker, q->nonce, WIRE_NONCE);
  memcpy(t->facts.asker_name, q->name, WIRE_NAME_MAX);
  memcpy(t->facts.answerer_name, h->name, WIRE_NAME_MAX);
  t->facts.epoch = h->epoch;
  t->instance = q->instance;
  t->state = TALK_CHALLENGED;
  wire_begin(a, WIRE_CHALLENGE, h->epoch, q->h.id);
  memcpy(a->challenge.nonce, t->facts.answerer, WIRE_NONCE);
  memcpy(a->challenge.name, h->name, WIRE_NAME_MAX);
  a->challenge.keyed = h->key.bytes != 0;
  return 0;
}

static int talk_auth(struct talk *t, const struct wire_auth *q, union wire_msg *a)
{
  const struct talk_host *h = t->host;
  uint8_t want[WIRE_MAC];
  if (t->state != TALK_CHALLENGED)
    return talk_close(t, -EPROTO, "AUTH before HELLO");
  auth_mac(&h->key, &t->facts, true, want);
  if (!auth_same(want, q->mac))
    return talk_close(t, -EACCES, "its key is another");
  uint8_t id[WIRE_NONCE];
  if (auth_nonce(id))
    return talk_close(t, -EACCES, "no randomness for a session");
  memcpy(&t->session, id, sizeof t->session);
  t->session |= 1; /* never 0 */
  t->state = TALK_IN;
  wire_begin(a, WIRE_WELCOME, h->epoch, q->h.id);
  auth_mac(&h->key, &t->facts, false, a->welcome.mac);
  a->welcome.session = t->session;
  a->welcome.cell_max = h->cell_max;
  a->welcome.lease_ms = h->lease_ms;
  return 0;
}

/* Where an answer keeps its reason. */
static uint16_t *reason_of(union wire_msg *a)
{
  switch (a->h.type) {
  case WIRE_LENT:
    return &a->lent.reason;
  case WIRE_SEGMENTS:
    return &a->segments.reason;
  case WIRE_RESOLVED:
    return &a->resolved.reason;
  case WIRE_RESERVED:
    return &a->reserved.reason;
  case WIRE_FACTS:
    return &a->facts.reason;
  default:
    return &a->done.reason;
  }
}

static unsigned answer_type(unsigned question)
{
  static const uint8_t type[WIRE_TYPES] = {
      [WIRE_LEND] = WIRE_LENT,        [WIRE_SEGS] = WIRE_SEGMENTS,    [WIRE_WIPE] = WIRE_DONE,
      [WIRE_PING] = WIRE_DONE,        [WIRE_RESOLVE] = WIRE_RESOLVED, [WIRE_RELEASE] = WIRE_DONE,
      [WIRE_RESERVE] = WIRE_RESERVED, [WIRE_COMMIT] = WIRE_DONE,      [WIRE_ABANDON] = WIRE_DONE,
      [WIRE_STAT] = WIRE_FACTS};
  return type[question];
}

static void talk_ask(struct talk *t, const union wire_msg *q, union wire_msg *a)
{
  const struct talk_ops *o = t->host->ops;
  void *ctx = t->host->ctx;
  switch (q->h.type) {
  case WIRE_LEND:
    o->lend(ctx, t, &q->lend, &a->lent);
    break;
  case WIRE_SEGS:
    o->segs(ctx, t, &q->segs, &a->segments);
    break;
  case WIRE_WIPE:
    o->wipe(ctx, t, &q->wipe, &a->done);
    break;
  case WIRE_RESOLVE:
    o->resolve(ctx, t, &q->resolve, &a->resolved);
    break;
  case WIRE_RESERVE:
    o->reserve(ctx, t, &q->reserve, &a->reserved);
    break;
  case WIRE_STAT:
    o->stat(ctx, t, &q->resolve, &a->facts);
    break;
  case WIRE_RELEASE:
    o->release(ctx, t, q->handle.handle, &a->done);
    break;
  case WIRE_COMMIT:
    o->commit(ctx, t, &q->commit, &a->done);
    break;
  case WIRE_ABANDON:
    o->abandon(ctx, t, q->handle.handle, &a->done);
    break;
  default: /* PING */
    a->done.reason = DRAY_REASON_OK;
  }
}

int talk_feed(struct talk *t, const void *msg, size_t n, union wire_msg *ret_answer)
{
  union wire_msg q = {.room = {0}};
  if (t->state == TALK_CLOSED)
    return -EPROTO;
  const char *what = wire_check(msg, n, true);
  if (what)
    return talk_close(t, -EPROTO, what);
  memcpy(&q, msg, n);
  if (q.h.type == WIRE_HELLO)
    return talk_hello(t, &q.hello, ret_answer);
  if (q.h.type == WIRE_AUTH)
    return talk_auth(t, &q.auth, ret_answer);
  if (t->state != TALK_IN)
    return talk_close(t, -EACCES, "a question before it said who it is");
  wire_begin(ret_answer, answer_type(q.h.type), t->host->epoch, q.h.id);
  if (q.h.epoch != t->host->epoch)
    *reason_of(ret_answer) = DRAY_PEER_STALE;
  else
    talk_ask(t, &q, ret_answer);
  return 0;
}

int talk_join(struct talk *t, const void *join, size_t n, struct wire_join *ret_join)
{
  struct wire_join j;
  uint8_t want[WIRE_MAC];
  if (wire_join_check(join, n))
    return -EPROTO;
  memcpy(&j, join, sizeof j);
  if (t->state != TALK_IN || j.session != t->session || j.lane == WIRE_CONTROL || j.serial <= t->serial)
    return -EACCES;
  auth_join_mac(&t->host->key, &t->facts, &j, want);
  if (!auth_same(want, j.mac))
    return -EACCES;
  t->serial = j.serial;
  *ret_join = j;
  return 0;
}

/* ---- the asking half ---- */

int hail_begin(struct hail *h, const struct auth_key *key, const char *name, uint64_t instance, bool own_address,
               uint64_t id, union wire_msg *ret_question)
{
  *h = (struct hail){.key = key, .own_address = own_address};
  if (auth_nonce(h->facts.asker))
    return -EIO;
  size_t len = strnlen(name, WIRE_NAME_MAX - 1);
  memcpy(h->facts.asker_name, name, len);
  wire_begin(ret_question, WIRE_HELLO, 0, id);
  memcpy(ret_question->hello.nonce, h->facts.asker, WIRE_NONCE);
  memcpy(ret_question->hello.name, h->facts.asker_name, WIRE_NAME_MAX);
  ret_question->hello.instance = instance;
  return 0;
}

static int hail_fail(struct hail *h, int code, const char *why)
{
  h->why = why;
  return code;
}

/* Is it the whole answer of that type to question id? */
static const char *answer_check(const void *msg, size_t n, unsigned type, union wire_msg *ret_answer)
{
  const char *what = wire_check(msg, n, false);
  if (what)
    return what;
  memcpy(ret_answer, msg, n);
  return ret_answer->h.type == type ? NULL : "an answer to another question";
}

int hail_challenged(struct hail *h, const void *msg, size_t n, uint64_t id, union wire_msg *ret_question)
{
  union wire_msg a;
  const char *what = answer_check(msg, n, WIRE_CHALLENGE, &a);
  if (what)
    return hail_fail(h, -EPROTO, what);
  if (a.challenge.keyed != (h->key->bytes != 0))
    return hail_fail(h, -EACCES, a.challenge.keyed ? "the peer wants a key: set key_file" : "the peer has no key");
  if (!a.challenge.keyed && !h->own_address)
    return hail_fail(h, -EACCES, "no key is configured: only this host's own addresses may be connected to");
  memcpy(h->facts.answerer, a.challenge.nonce, WIRE_NONCE);
  memcpy(h->facts.answerer_name, a.challenge.name, WIRE_NAME_MAX);
  h->facts.epoch = h->epoch = a.h.epoch;
  wire_begin(ret_question, WIRE_AUTH, h->epoch, id);
  auth_mac(h->key, &h->facts, true, ret_question->auth.mac);
  return 0;
}

int hail_welcomed(struct hail *h, const void *msg, size_t n)
{
  union wire_msg a;
  uint8_t want[WIRE_MAC];
  const char *what = answer_check(msg, n, WIRE_WELCOME, &a);
  if (what)
    return hail_fail(h, -EPROTO, what);
  auth_mac(h->key, &h->facts, false, want);
  if (a.h.epoch != h->epoch || !auth_same(want, a.welcome.mac))
    return hail_fail(h, -EACCES, "the peer does not have the key");
  h->session = a.welcome.session;
  h->cell_max = a.welcome.cell_max;
  h->lease_ms = a.welcome.lease_ms;
  return 0;
}

void hail_join(const struct hail *h, uint8_t lane, uint8_t path, uint32_t serial, struct wire_join *ret_join)
{
  *ret_join = (struct wire_join){.magic = WIRE_MAGIC,
                                 .version = WIRE_VERSION,
                                 .lane = lane,
                                 .path = path,
                                 .session = lane == WIRE_CONTROL ? 0 : h->session,
                                 .serial = serial};
  if (lane != WIRE_CONTROL)
    auth_join_mac(h->key, &h->facts, ret_join, ret_join->mac);
}
