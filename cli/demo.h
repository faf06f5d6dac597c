/* SPDX-License-Identifier: Apache-2.0 */
/* What deploy/demo.sh shows: two tenants, one mover, KV blocks down the ladder and back, and the gate between the two.
 */
#ifndef CLI_DEMO_H
#define CLI_DEMO_H

#include "cli/cli.h"

#define DEMO_BLOCKS 64u
#define DEMO_SEGS 32u              /* llama8b: 32 layers, */
#define DEMO_SEG_BYTES (64u << 10) /* 64 KiB each of a 16-token block */
#define DEMO_BLOCK_BYTES ((uint64_t)DEMO_SEGS * DEMO_SEG_BYTES)

/* One of the two. */
struct demo_side {
  const char *name;
  struct dray *d;
  struct dray_region region;
  uint16_t layout;
};
/* One line of the table. */
struct demo_step {
  const char *what;
  const char *who;
  char outcome[64];
  uint8_t tier, path;
  uint64_t bytes, ns; /* 0: nothing to say */
  bool good;
};
#define DEMO_STEPS_MAX 32
struct demo {
  struct demo_side a, b;
  struct demo_step step[DEMO_STEPS_MAX];
  unsigned n;
  uint64_t checked, wrong; /* bytes looked at, blocks that were not right */
};

/* All of it, in order. 0, or -1 when the mover stopped answering. */
int demo_acts(struct demo *m);
/* demo_poison.c: bad memory in a block that both have mapped. 0 or -1. */
int demo_poison(struct demo *m, uint32_t block, uint32_t mine, uint32_t theirs);
/* One line of the table. */
struct demo_step *demo_note(struct demo *m, const struct demo_side *who, const char *what, const struct dray_cqe *c,
                            uint64_t ns, bool good);
void demo_key(uint32_t block, uint8_t ret_key[16]);
#endif
