/* SPDX-License-Identifier: Apache-2.0 */
/* The acts of the demo. Each notes one line: what was asked, how it ended, and whether that is what had to happen. */
#include "cli/demo.h"

#include <stdio.h>
#include <string.h>

#include "bench/stage.h"
#include "include/priv/bits.h"

#define PATIENCE_MS 60000
#define SEED_A 100u

static uint64_t seed_of(uint32_t block)
{
  return SEED_A + block;
}
void demo_key(uint32_t block, uint8_t ret_key[16])
{
  const uint64_t text[2] = {0x6f6d6564u, block};
  dray_digest(text, sizeof text, ret_key);
}

/* Layer by layer, as an engine's KV cache lies: layer k of block i is at (k * blocks + i) * segment. */
static char *segment(const struct demo_side *s, uint32_t block, uint32_t k)
{
  return (char *)s->region.base + ((uint64_t)k * DEMO_BLOCKS + block) * DEMO_SEG_BYTES;
}

static void check(struct demo *m, const void *p, uint64_t bytes, uint64_t seed, bool *right)
{
  m->checked += bytes;
  if (!p || !stage_check(p, bytes, seed)) {
    m->wrong++;
    *right = false;
  }
}
/* A cell is the block's segments, one after the other; each has a pattern of its own. */
static uint64_t seed_at(uint32_t block, uint32_t k)
{
  return seed_of(block) * 64 + k;
}
static bool check_cell(struct demo *m, const char *cell, uint32_t block)
{
  bool right = true;
  for (uint32_t k = 0; k < DEMO_SEGS; k++)
    check(m, cell ? cell + (uint64_t)k * DEMO_SEG_BYTES : NULL, DEMO_SEG_BYTES, seed_at(block, k), &right);
  return right;
}
static bool check_region(struct demo *m, const struct demo_side *s, uint32_t first, uint32_t n)
{
  bool right = true;
  for (uint32_t i = first; i < first + n; i++)
    for (uint32_t k = 0; k < DEMO_SEGS; k++)
      check(m, segment(s, i, k), DEMO_SEG_BYTES, seed_at(i, k), &right);
  return right;
}

struct demo_step *demo_note(struct demo *m, const struct demo_side *who, const char *what, const struct dray_cqe *c,
                            uint64_t ns, bool good)
{
  struct demo_step *s = &m->step[MIN_OF(m->n, DEMO_STEPS_MAX - 1u)];
  *s = (struct demo_step){
      .what = what, .who = who->name, .tier = c->tier, .path = c->path, .bytes = c->bytes, .ns = ns, .good = good};
  snprintf(s->outcome, sizeof s->outcome, "%s", c->status == DRAY_OK ? "ok" : dray_reason_name(c->reason));
  if (m->n < DEMO_STEPS_MAX)
    m->n++;
  return s;
}

/* Submits the prepared directive; how long it took. */
static int ask(struct demo_side *s, struct dray_cqe *ret, uint64_t *ret_ns)
{
  uint64_t then = stage_now_ns();
  int r = cli_finish(s->d, PATIENCE_MS, ret);
  *ret_ns = stage_now_ns() - then;
  if (r < 0)
    fprintf(stderr, "dray demo: %s: the mover does not answer: %s\n", s->name, strerror(-r));
  return r;
}

/* A BATCH over blocks [first, first+n): rows of the arena as the blocks' numbers. */
static int ask_many(struct demo_side *s, uint8_t op, uint32_t first, uint32_t n, uint8_t tier, struct dray_cqe *ret,
                    uint64_t *ret_ns)
{
  bool moves = op == DRAY_PUT || op == DRAY_GET;
  struct dray_sqe *q = dray_get_sqe(s->d);
  for (uint32_t i = first; i < first + n; i++) {
    struct dray_item it;
    memset(&it, 0, sizeof it);
    demo_key(i, it.key);
    it.off = moves ? i : 0;
    it.len = moves ? (uint32_t)DEMO_BLOCK_BYTES : 0;
    dray_items(s->d)[i] = it;
  }
  q->op = op;
  q->tier = tier;
  q->region = moves ? s->region.id : 0;
  q->layout = moves ? s->layout : 0;
  q->flags = op == DRAY_PUT || op == DRAY_GET ? DRAY_VERIFY_CRC : 0;
  dray_sqe_batch(q, first, n);
  return ask(s, ret, ret_ns);
}

static int offload(struct demo *m)
{
  struct dray_cqe c;
  uint64_t ns;
  for (uint32_t i = 0; i < DEMO_BLOCKS; i++)
    for (uint32_t k = 0; k < DEMO_SEGS; k++)
      stage_fill(segment(&m->a, i, k), DEMO_SEG_BYTES, seed_at(i, k));
  if (ask_many(&m->a, DRAY_PUT, 0, DEMO_BLOCKS, DRAY_TIER_DRAM, &c, &ns) < 0)
    return -1;
  demo_note(m, &m->a, "offload 64 blocks (BATCH PUT, 32 pieces each)", &c, ns, c.status == DRAY_OK);
  return 0;
}

static int map_back(struct demo *m)
{
  struct dray_cqe c, u;
  uint64_t ns, un;
  if (ask_many(&m->a, DRAY_MAP, 0, DEMO_BLOCKS, 0, &c, &ns) < 0)
    return -1;
  bool good = c.status == DRAY_OK;
  for (uint32_t i = 0; good && i < DEMO_BLOCKS; i++) {
    struct dray_item_result x = dray_results(m->a.d)[i];
    good = check_cell(m, dray_map_address(m->a.d, x.slab, x.off), i) && x.path == DRAY_PATH_MAP;
    struct dray_item *it = &dray_items(m->a.d)[i];
    memset(it, 0, sizeof *it);
    it->off = x.object;
  }
  demo_note(m, &m->a, "map them back (BATCH MAP, no byte moves)", &c, ns, good);
  struct dray_sqe *q = dray_get_sqe(m->a.d);
  q->op = DRAY_UNMAP;
  dray_sqe_batch(q, 0, DEMO_BLOCKS);
  if (ask(&m->a, &u, &un) < 0)
    return -1;
  demo_note(m, &m->a, "let go of the maps (BATCH UNMAP)", &u, un, u.status == DRAY_OK);
  return 0;
}

static int move_down(struct demo *m, uint32_t first, uint32_t n, uint8_t tier, const char *what)
{
  struct dray_cqe c;
  uint64_t ns;
  if (ask_many(&m->a, DRAY_MOVE, first, n, tier, &c, &ns) < 0)
    return -1;
  demo_note(m, &m->a, what, &c, ns, c.status == DRAY_OK && c.tier == tier);
  return 0;
}

static int restore(struct demo *m, uint32_t first, uint32_t n, uint8_t tier, const char *what)
{
  struct dray_cqe c;
  uint64_t ns;
  for (uint32_t i = first; i < first + n; i++)
    for (uint32_t k = 0; k < DEMO_SEGS; k++)
      memset(segment(&m->a, i, k), 0xa5, DEMO_SEG_BYTES); /* nothing is right because it was never away */
  if (ask_many(&m->a, DRAY_GET, first, n, 0, &c, &ns) < 0)
    return -1;
  bool right = check_region(m, &m->a, first, n);
  demo_note(m, &m->a, what, &c, ns, c.status == DRAY_OK && right && c.tier == tier && (c.flags & DRAY_CRC_CHECKED));
  return 0;
}

static int define_key(struct demo_side *s, const char *model, uint32_t *ret_id)
{
  struct dray_key k;
  memset(&k, 0, sizeof k);
  snprintf(k.model, sizeof k.model, "%s", model);
  snprintf(k.tokenizer, sizeof k.tokenizer, "llama3-bpe");
  snprintf(k.serializer, sizeof k.serializer, "kv-bf16-32x64k");
  snprintf(k.position, sizeof k.position, "rope-0");
  snprintf(k.policy, sizeof k.policy, "demo");
  snprintf(k.admitter, sizeof k.admitter, "demo");
  return dray_key_define(s->d, &k, ret_id);
}

static int publish(struct demo *m, uint32_t block, uint32_t mkey)
{
  struct dray_cqe c;
  uint64_t ns;
  uint8_t key[16];
  struct dray_publish p;
  memset(&p, 0, sizeof p);
  p.scope = DRAY_SCOPE_FLEET;
  p.taint = DRAY_TRUSTED;
  p.mkey = mkey;
  memcpy(dray_items(m->a.d), &p, sizeof p);
  demo_key(block, key);
  dray_prep_publish(dray_get_sqe(m->a.d), key, 0);
  if (ask(&m->a, &c, &ns) < 0)
    return -1;
  demo_note(m, &m->a, "publish block 0 to the fleet, trusted, six-axis key", &c, ns, c.status == DRAY_OK);
  return 0;
}

/* A MAP of one block that has to end with `reason`; when that is OK the bytes are checked. */
static int map_one(struct demo *m, struct demo_side *s, uint32_t block, uint32_t mkey, unsigned reason,
                   const char *what)
{
  struct dray_cqe c, u;
  uint64_t ns, un;
  uint8_t key[16];
  demo_key(block, key);
  struct dray_sqe *q = dray_get_sqe(s->d);
  dray_prep_map(q, key, 0);
  q->arg = mkey;
  if (ask(s, &c, &ns) < 0)
    return -1;
  bool good = c.reason == reason;
  if (c.status == DRAY_OK) {
    good = good && check_cell(m, dray_map_address(s->d, c.slab, c.off), block);
    dray_prep_unmap(dray_get_sqe(s->d), c.object);
    if (ask(s, &u, &un) < 0)
      return -1;
  }
  demo_note(m, s, what, &c, ns, good);
  return 0;
}

static int fence(struct demo *m)
{
  struct dray_cqe c;
  uint64_t ns;
  dray_prep_fence(dray_get_sqe(m->a.d));
  if (ask(&m->a, &c, &ns) < 0)
    return -1;
  demo_note(m, &m->a, "make the disk's durable (FENCE)", &c, ns, c.status == DRAY_OK);
  return 0;
}

int demo_acts(struct demo *m)
{
  uint32_t mine, same, other;
  if (define_key(&m->a, "llama-3.1-8b", &mine) < 0 || define_key(&m->b, "llama-3.1-8b", &same) < 0 ||
      define_key(&m->b, "qwen-3-8b", &other) < 0) {
    fprintf(stderr, "dray demo: cannot define a materialization key\n");
    return -1;
  }
  if (offload(m) < 0 || map_back(m) < 0)
    return -1;
  if (move_down(m, 32, 16, DRAY_TIER_CXL, "16 blocks to far memory (BATCH MOVE)") < 0 ||
      move_down(m, 48, 16, DRAY_TIER_DISK, "16 blocks to disk (BATCH MOVE)") < 0 || fence(m) < 0)
    return -1;
  if (restore(m, 0, 32, DRAY_TIER_DRAM, "restore 32 from DRAM (BATCH GET)") < 0 ||
      restore(m, 32, 16, DRAY_TIER_CXL, "restore 16 from far memory (BATCH GET)") < 0 ||
      restore(m, 48, 16, DRAY_TIER_DISK, "restore 16 from disk (BATCH GET)") < 0)
    return -1;
  if (map_one(m, &m->b, 0, same, DRAY_ABSENT, "ask for the other's private block: does not exist") < 0 ||
      publish(m, 0, mine) < 0 ||
      map_one(m, &m->b, 0, same, DRAY_REASON_OK, "map it with an equal key: no copy, no prefill") < 0 ||
      map_one(m, &m->b, 0, other, DRAY_MODEL_MISMATCH, "map it with another model's key") < 0 ||
      map_one(m, &m->b, 0, 0, DRAY_KEY_INCOMPLETE, "map it without a key") < 0 ||
      map_one(m, &m->b, 1, same, DRAY_ABSENT, "ask for the block beside it: still private") < 0)
    return -1;
  if (demo_poison(m, 0, mine, same) < 0 || map_one(m, &m->b, 0, same, DRAY_QUARANTINED, "map the poisoned block") < 0 ||
      map_one(m, &m->a, 0, mine, DRAY_QUARANTINED, "map the poisoned block") < 0 ||
      map_one(m, &m->a, 1, 0, DRAY_REASON_OK, "the block beside it is as it was") < 0)
    return -1;
  return 0;
}
