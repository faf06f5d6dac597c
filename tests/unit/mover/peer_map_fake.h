/* SPDX-License-Identifier: Apache-2.0 */
/* MAP of a peer's cell up to the arrival of its bytes, with a store and without a peer: the structs are C. */
#ifndef TESTS_UNIT_MOVER_PEER_MAP_FAKE_H
#define TESTS_UNIT_MOVER_PEER_MAP_FAKE_H

#include <stdbool.h>
#include <stdint.h>

enum fake_local {
  FAKE_NONE = 1,
  FAKE_OWN = 2, /* a cell of the agent that maps */
  FAKE_QUARANTINED = 3,
  FAKE_OTHERS = 4, /* another agent's, of the same tenant */
};
#define FAKE_THEIRS 7 /* every byte of the peer's cell; */
#define FAKE_OURS 42  /* and of the local one */

/* What is there locally comes before the MAP (early), or while the peer's bytes are on their way. */
struct fake_mapped {
  bool ended;
  unsigned status, reason, path, flags;
  uint64_t bytes;
  int leased; /* a byte of what is leased; -1: nothing */
  int listed; /* a byte of what is listed under the key; -1: nothing */
  bool quarantined;
  bool clean; /* nothing is pinned but by the lease, no step is left, and the store agrees with itself */
};
struct fake_mapped fake_map(enum fake_local local, bool early, unsigned tier);
#endif
