/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several peers is asked next, and which of their answers is the answer. Pure but for the memory of who had
 * what, which is a hint: a wrong one costs a question.
 */
#ifndef MOVER_PEER_PICK_H
#define MOVER_PEER_PICK_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/config.h"

#define PICK_NONE UINT32_MAX
#define PICK_PLACES 16384u /* a power of two */

/* Better ones first. */
enum pick_health {
  PICK_UP = 0,
  PICK_LESS = 1,   /* not all of its paths are open */
  PICK_TRYING = 2, /* lost a moment ago, or not spoken to yet: a question waits for it */
  PICK_DOWN = 3,   /* a question is answered at once: not there */
};

struct pick_set {
  uint64_t bit[CONFIG_PEERS_MAX / 64];
};
static inline bool pick_in(const struct pick_set *s, uint32_t i)
{
  return s->bit[i / 64] >> (i % 64) & 1;
}
static inline void pick_add(struct pick_set *s, uint32_t i)
{
  s->bit[i / 64] |= 1ull << (i % 64);
}

/* Who had what; for any thread. All zero: nothing is known. */
struct pick_memory {
  uint32_t at[PICK_PLACES]; /* [HINT] a piece of the key's hash << 9 | peer + 1 */
};
void pick_remember(struct pick_memory *m, uint32_t tenant, const uint8_t key[16], uint32_t peer);
/* That peer has it no more. */
void pick_forget(struct pick_memory *m, uint32_t tenant, const uint8_t key[16], uint32_t peer);
/* PICK_NONE: not known. */
uint32_t pick_had(const struct pick_memory *m, uint32_t tenant, const uint8_t key[16]);

/* The next of n peers that was not tried: the one that had it unless it is down, else the healthiest, in the order of
   the configuration. PICK_NONE: all were. *ret_waiting: how many of those that are left after it may keep a question
   waiting. */
uint32_t pick_next(const uint8_t *health, uint32_t n, const struct pick_set *tried, uint32_t had,
                   uint32_t *ret_waiting);

/* The answers of several peers as one reason: what one says of a cell that it has weighs most, then that one could not
   be asked, then that it has none (or, writing, no room). so_far: 0 when it is the first. */
unsigned pick_weigh(unsigned so_far, unsigned reason, bool writes);
/* Does that answer end the question, though others were not asked: it has been done, or is the asker's own fault. */
bool pick_final(unsigned reason, bool writes);
#endif
