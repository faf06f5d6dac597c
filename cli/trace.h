/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of requests, each with the ids of the prefix blocks it wants, in the order of arrival. */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/err.h"

#define TRACE_TICK_MS 3000u        /* arrivals within one tick of the clock are spread over at most this */
#define TRACE_BLOCK_TOKENS 512u    /* tokens per block */
#define TRACE_BLOCKS_MAX 65535u    /* of a request */
#define TRACE_TOTAL_MAX (1u << 26) /* of a trace */

struct trace_request {
  uint64_t at_ms;         /* as the trace has it */
  uint64_t at_us;         /* spread inside the tick */
  uint64_t input, output; /* tokens */
  uint64_t first;         /* in ids */
  uint32_t blocks;
};
struct trace {
  struct trace_request *req;
  uint64_t *id;
  uint32_t n, room;
  uint64_t ids, ids_room;
};

/* Mooncake's JSONL, strictly: -EINVAL with file:line in e. Unknown members are passed over. */
int trace_load(struct trace *t, const char *path, struct err *e);
/* Requests with the published statistics of Mooncake's conversation trace. -ENOMEM. */
int trace_synthesize(struct trace *t, uint32_t requests, uint64_t seed);
void trace_free(struct trace *t);
/* Appends a request; its ids follow with trace_add_id(). -ENOMEM, -E2BIG. */
int trace_add(struct trace *t, uint64_t at_ms, uint64_t input, uint64_t output);
int trace_add_id(struct trace *t, uint64_t id);
/* Spreads the arrivals of one timestamp over the time until the next one. */
void trace_spread(struct trace *t);
/* Whose request it is: by its second block (the first one is common to all), so that a conversation stays together. */
uint32_t trace_tenant(const struct trace *t, uint32_t request, uint32_t tenants);

/* What a cache without bounds would hit, for the same assignment: per tenant, the longest prefix seen before. */
struct trace_ideal {
  uint64_t wanted, hits, unique;
  uint32_t longest; /* blocks of the longest request */
};
int trace_ideal(const struct trace *t, uint32_t tenants, struct trace_ideal *ret_ideal);
/* Mixes 64 bits. */
uint64_t trace_mix(uint64_t x);
#endif
