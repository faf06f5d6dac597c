/* SPDX-License-Identifier: Apache-2.0 */
/* The payload: files dray.seg.NNNN of one size, allocated a slab at a time. */
#ifndef TRANSPORTS_FILE_SEGMENT_H
#define TRANSPORTS_FILE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/err.h"

#define SEGMENT_MAX_BYTES ((uint64_t)1 << 30)

struct segments {
  int *fd;
  uint32_t n;
  uint64_t bytes;    /* of each but the last */
  uint64_t capacity; /* of all */
  bool direct;       /* opened with O_DIRECT */
};

/* Opens or makes them. direct: O_DIRECT where the file system has it (s->direct says). 0 or -errno with text;
   after a failure segments_close has nothing to do. */
int segments_open(struct segments *s, int dir, const char *path, uint64_t capacity, bool direct, struct err *e);
void segments_close(struct segments *s);

/* Disk space for a range that lies in one segment. 0, -ENOSPC, -errno. */
int segments_reserve(const struct segments *s, uint64_t off, uint64_t bytes);
/* Gives the space back; what was there reads as zero afterwards. */
void segments_release(const struct segments *s, uint64_t off, uint64_t bytes);

static inline uint32_t segment_of(const struct segments *s, uint64_t off)
{
  return (uint32_t)(off / s->bytes);
}
static inline uint64_t segment_off(const struct segments *s, uint64_t off)
{
  return off % s->bytes;
}
#endif
