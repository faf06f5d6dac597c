/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How `put` and `get` keep a file. One cell under the file's key when it fits; otherwise cells of cell_bytes each under
 * keys derived from (key, nonce, index), and under the file's key a header that says so, written last: whoever finds
 * the header finds all of it, and two puts of one key never mix. A small file that looks like a header is kept the long
 * way, so a header is never mistaken.
 */
#ifndef CLI_BLOB_H
#define CLI_BLOB_H

#include "cli/cli.h"

#define BLOB_CELL_MAX (1ull << 30)
#define BLOB_CELLS_MAX (1u << 20)
#define BLOB_WINDOW (64ull << 20) /* bytes of a file in flight at once, at least one cell */

struct blob_header {
  uint8_t magic[8];
  uint64_t length, cell_bytes;
  uint8_t nonce[16];
  uint8_t check[16]; /* digest of the above */
};

/* What put and get are asked. */
struct blob_options {
  struct cli_options cli;
  uint8_t key[16];
  const char *file;
  uint64_t cell_bytes;
  uint8_t tier;
  bool keyed, crc, no_replace;
};
/* Parses; false: *ret_code is what to return. get: -o FILE instead of FILE. */
bool blob_options(int argc, char **argv, bool get, struct blob_options *o, int *ret_code);

/* One transfer under way. */
struct blob {
  struct dray *d;
  struct dray_region region;
  const struct blob_options *o;
  uint32_t rows, rows_n;                                   /* of the arena */
  uint64_t tiers[DRAY_TIER_COUNT], paths[DRAY_PATH_COUNT]; /* bytes by */
  uint64_t cells, exec_ns;                                 /* cells; nanoseconds at the mover's */
  uint64_t begun_ns;
};
int blob_open(struct blob *b, const struct blob_options *o, uint64_t region_bytes, uint32_t rows);
void blob_close(struct blob *b);
void blob_header_make(struct blob_header *h, uint64_t length, uint64_t cell_bytes);
bool blob_header_is(const void *bytes, uint64_t n, struct blob_header *ret_header);
void blob_cell_key(const uint8_t key[16], const struct blob_header *h, uint64_t index, uint8_t ret_key[16]);
/* One PUT or GET of [0, len) of the region. Its reason, or -errno. */
int blob_one(struct blob *b, uint8_t op, const uint8_t key[16], uint64_t len, unsigned flags);
/* A BATCH of PUT, GET or DROP over cells [first, first+n) of the header's; GET and PUT use the region from 0. The first
 * reason that is not OK, or -errno. */
int blob_many(struct blob *b, uint8_t op, const struct blob_header *h, uint64_t first, uint32_t n);
/* STAT: the reason, or -errno. */
int blob_stat(struct blob *b, uint64_t *ret_len);
/* Says why on stderr; the exit code. r: a reason or -errno. */
int blob_failed(const struct blob *b, const char *what, int r);
/* What was moved, for people or --json. */
void blob_report(const struct blob *b, const char *op, uint64_t bytes);
#endif
