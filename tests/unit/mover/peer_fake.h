/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer's answer does to its step, without a peer: the structs are C. */
#ifndef TESTS_UNIT_MOVER_PEER_FAKE_H
#define TESTS_UNIT_MOVER_PEER_FAKE_H

#include <stdbool.h>
#include <stdint.h>

/* A read of a peer's cell has landed, `late` ns after the peer's promise to keep the bytes was over (negative: before).
   whole: a CRC proves it. The step's reason then. */
unsigned fake_read_landed(int64_t late_ns, bool whole);

/* A question to a link that is closed: is the answer the lane's message, is it the one in the question itself, and how
   many messages are there. */
struct fake_answer {
  bool in_question;
  uint32_t messages;
  unsigned reason;
};
struct fake_answer fake_ask_closed(void);

/* A session is told of n links, the i-th (from 1 on) of tiers[i - 1] with detail i, and then flushed. Its engine
 * sleeps.
 */
struct fake_told {
  uint32_t early;   /* published before the flush */
  bool woken_early; /* and the engine was woken for it */
  uint32_t said;    /* notices published in the end, of which the first eight: */
  uint8_t tier[8];
  uint32_t detail[8];
};
struct fake_told fake_tell(const uint8_t *tiers, uint32_t n);
#endif
