/* SPDX-License-Identifier: Apache-2.0 */
/* What the KV cache of known models and engines looks like: how one block of tokens is cut, and how many a request has.
 */
#ifndef BENCH_PRESET_H
#define BENCH_PRESET_H

#include <stdint.h>

struct preset {
  const char *name;
  uint32_t tokens;    /* of a block */
  uint32_t segs;      /* pieces of a block: one a layer where the engine keeps layers apart */
  uint64_t seg_bytes; /* of a piece */
  uint32_t blocks;    /* of a request of 6,909 tokens, the mean of the trace (sglang: of one call) */
};
#define PRESET_NAMES "llama8b llama70b-tp8 dsv3 lmcache sglang mooncake"

/* NULL: there is none of that name. */
const struct preset *preset_find(const char *name);
#endif
