/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/blob.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/units.h"
#include "bench/stage.h"
#include "include/priv/bits.h"

#define PATIENCE_MS 120000

static const uint8_t blob_magic[8] = {'D', 'R', 'A', 'Y', 'B', 'L', 'O', 'B'};

static const char put_usage[] =
    "usage: dray put FILE --key TEXT|--key-hex HEX [--tier TIER] [--no-replace] [--crc] [--cell SIZE]\n"
    "The file's bytes become a cell; a file larger than --cell (default 64MiB) several, and a header that binds them.\n"
    "  --key TEXT        the key is TEXT's digest; --key-hex: 32 hex digits, as `dray cells` shows them\n"
    "  --tier TIER       dram cxl disk ...; without it, policy chooses\n"
    "  --no-replace      refuse when the key is there (exit 4)\n"
    "  --crc             keep a CRC32C with each cell\n"
    "Exit 4: refused by policy or quota, with the reason's word.\n" CLI_OPTIONS_HELP;
static const char get_usage[] =
    "usage: dray get --key TEXT|--key-hex HEX -o FILE [--tier TIER] [--crc]\n"
    "A cell's bytes (or those of `dray put` of a large file) become a file; -o - is stdout.\n"
    "FILE appears whole or not at all. --crc: check each cell that has a CRC.\n"
    "Exit 1: not there; 4: refused by policy, with the reason's word.\n" CLI_OPTIONS_HELP;

static bool parse_hex(const char *text, uint8_t ret_key[16])
{
  static const char digits[] = "0123456789abcdef";
  if (strlen(text) != 32)
    return false;
  for (int i = 0; i < 32; i++) {
    const char *at = strchr(digits, text[i] >= 'A' && text[i] <= 'F' ? text[i] + 32 : text[i]);
    if (!at)
      return false;
    ret_key[i / 2] = (uint8_t)(i & 1 ? ret_key[i / 2] | (at - digits) : (at - digits) << 4);
  }
  return true;
}

bool blob_options(int argc, char **argv, bool get, struct blob_options *o, int *ret_code)
{
  static const struct option opts[] = {
      {"key", required_argument, NULL, 'k'},    {"key-hex", required_argument, NULL, 'x'},
      {"tier", required_argument, NULL, 't'},   {"crc", no_argument, NULL, 'c'},
      {"no-replace", no_argument, NULL, 'n'},   {"cell", required_argument, NULL, 's'},
      {"output", required_argument, NULL, 'o'}, CLI_OPTIONS};
  const char *name = get ? "get" : "put";
  *o = (struct blob_options){.cell_bytes = MIB(64)};
  optind = 1;
  *ret_code = EXIT_USAGE;
  for (int c; (c = getopt_long(argc, argv, "o:", opts, NULL)) != -1;) {
    if (c == CLI_HELP) {
      *ret_code = cli_help(get ? get_usage : put_usage);
      return false;
    }
    if (cli_option(&o->cli, c, optarg))
      continue;
    bool known = (c == 'k' || c == 'x' || c == 't' || c == 'c') || (get ? c == 'o' : c == 'n' || c == 's');
    if (!known) {
      cli_usage(get ? get_usage : put_usage);
      return false;
    }
    if ((c == 'k' || c == 'x') && o->keyed) {
      cli_wrong(name, "one key: --key or --key-hex, once");
      return false;
    }
    if (c == 'k') {
      dray_digest(optarg, strlen(optarg), o->key);
      o->keyed = true;
    } else if (c == 'x') {
      o->keyed = parse_hex(optarg, o->key);
      if (!o->keyed) {
        cli_wrong(name, "--key-hex: need 32 hex digits, have '%s'", optarg);
        return false;
      }
    } else if (c == 't') {
      o->tier = (uint8_t)dray_tier_by_name(optarg);
      if (!o->tier) {
        cli_wrong(name, "--tier: '%s' is none of hbm dram numa_far cxl remote_dram disk remote", optarg);
        return false;
      }
    } else if (c == 's') {
      if (units_bytes(optarg, &o->cell_bytes) < 0 || o->cell_bytes < KIB(4) || o->cell_bytes > BLOB_CELL_MAX) {
        cli_wrong(name, "--cell: need 4KiB..1GiB, have '%s'", optarg);
        return false;
      }
    } else if (c == 'o') {
      o->file = optarg;
    } else {
      o->crc |= c == 'c';
      o->no_replace |= c == 'n';
    }
  }
  if (!get && optind < argc)
    o->file = argv[optind++];
  if (optind != argc)
    cli_wrong(name, "unexpected argument '%s'", argv[optind]);
  else if (!o->file || !*o->file)
    cli_wrong(name, get ? "-o FILE is missing" : "FILE is missing");
  else if (!o->keyed)
    cli_wrong(name, "--key TEXT or --key-hex HEX is missing");
  else
    return true;
  return false;
}

int blob_open(struct blob *b, const struct blob_options *o, uint64_t region_bytes, uint32_t rows)
{
  *b = (struct blob){.o = o, .rows_n = rows};
  b->d = cli_session(&o->cli, 8, rows);
  if (!b->d)
    return -ENOTCONN;
  int r = cli_region(b->d, align_up(region_bytes, PAGE_BYTES), &b->region);
  if (r == 0)
    r = dray_items_get(b->d, rows, &b->rows);
  b->begun_ns = stage_now_ns();
  return r;
}

void blob_close(struct blob *b)
{
  dray_close(b->d);
  if (b->region.base)
    dray_region_free(&b->region);
  *b = (struct blob){0};
}

void blob_header_make(struct blob_header *h, uint64_t length, uint64_t cell_bytes)
{
  memcpy(h->magic, blob_magic, sizeof h->magic);
  h->length = length;
  h->cell_bytes = cell_bytes;
  if (getrandom(h->nonce, sizeof h->nonce, 0) != sizeof h->nonce) {
    uint64_t now[2] = {stage_now_ns(), (uint64_t)(uintptr_t)h}; /* only has to differ from other puts' */
    memcpy(h->nonce, now, sizeof h->nonce);
  }
  dray_digest(h, offsetof(struct blob_header, check), h->check);
}

bool blob_header_is(const void *bytes, uint64_t n, struct blob_header *ret_header)
{
  struct blob_header h;
  uint8_t check[16];
  if (n != sizeof h)
    return false;
  memcpy(&h, bytes, sizeof h);
  dray_digest(&h, offsetof(struct blob_header, check), check);
  if (memcmp(h.magic, blob_magic, sizeof h.magic) != 0 || memcmp(check, h.check, sizeof check) != 0)
    return false;
  if (h.length == 0 || h.cell_bytes < KIB(4) || h.cell_bytes > BLOB_CELL_MAX ||
      (h.length - 1) / h.cell_bytes >= BLOB_CELLS_MAX)
    return false;
  *ret_header = h;
  return true;
}

void blob_cell_key(const uint8_t key[16], const struct blob_header *h, uint64_t index, uint8_t ret_key[16])
{
  uint8_t text[40];
  memcpy(text, key, 16);
  memcpy(text + 16, h->nonce, 16);
  memcpy(text + 32, &index, 8);
  dray_digest(text, sizeof text, ret_key);
}

static void count(struct blob *b, unsigned tier, unsigned path, uint64_t bytes)
{
  b->tiers[MIN_OF(tier, (unsigned)DRAY_TIER_COUNT - 1)] += bytes;
  b->paths[MIN_OF(path, (unsigned)DRAY_PATH_COUNT - 1)] += bytes;
  b->cells++;
}

int blob_one(struct blob *b, uint8_t op, const uint8_t key[16], uint64_t len, unsigned flags)
{
  struct dray_cqe c;
  struct dray_sqe *s = dray_get_sqe(b->d);
  if (!s)
    return -EBUSY;
  dray_prep_put(s, key, b->region.id, 0, len, b->o->tier);
  s->op = op;
  s->flags = (uint16_t)(flags | (b->o->crc ? DRAY_VERIFY_CRC : 0));
  int r = cli_finish(b->d, PATIENCE_MS, &c);
  if (r < 0)
    return r;
  b->exec_ns += c.exec_ns;
  if (c.status == DRAY_OK)
    count(b, c.tier, c.path, c.bytes);
  return c.status == DRAY_OK ? DRAY_REASON_OK : c.reason;
}

int blob_many(struct blob *b, uint8_t op, const struct blob_header *h, uint64_t first, uint32_t n)
{
  struct dray_cqe c;
  struct dray_item *it = dray_items(b->d) + b->rows;
  struct dray_sqe *s = dray_get_sqe(b->d);
  if (!s)
    return -EBUSY;
  bool moves = op != DRAY_DROP;
  for (uint32_t i = 0; i < n; i++) {
    uint8_t key[16];
    blob_cell_key(b->o->key, h, first + i, key);
    dray_prep_item(&it[i], key, moves ? i * h->cell_bytes : 0,
                   moves ? (uint32_t)MIN_OF(h->cell_bytes, h->length - (first + i) * h->cell_bytes) : 0);
  }
  s->op = op;
  s->region = moves ? b->region.id : 0;
  s->tier = moves ? b->o->tier : 0;
  s->flags = moves && b->o->crc ? DRAY_VERIFY_CRC : 0;
  dray_sqe_batch(s, b->rows, n);
  int r = cli_finish(b->d, PATIENCE_MS, &c);
  if (r < 0)
    return r;
  b->exec_ns += c.exec_ns;
  for (uint32_t i = 0; moves && i < n; i++) {
    const struct dray_item_result *x = dray_results(b->d) + b->rows + i;
    if (x->reason == DRAY_REASON_OK)
      count(b, x->tier, x->path, x->bytes);
  }
  return c.status == DRAY_OK ? DRAY_REASON_OK : c.reason;
}

int blob_stat(struct blob *b, uint64_t *ret_len)
{
  struct dray_cqe c;
  struct dray_sqe *s = dray_get_sqe(b->d);
  if (!s)
    return -EBUSY;
  dray_prep_stat(s, b->o->key, 0);
  int r = cli_finish(b->d, PATIENCE_MS, &c);
  if (r < 0)
    return r;
  if (c.status == DRAY_OK)
    *ret_len = c.bytes;
  return c.status == DRAY_OK ? DRAY_REASON_OK : c.reason;
}

int blob_failed(const struct blob *b, const char *what, int r)
{
  char hex[33];
  cli_hex(b->o->key, hex);
  if (r < 0) {
    fprintf(stderr, "dray %s: the mover does not answer: %s\n", what, strerror(-r));
    return EXIT_ERROR;
  }
  int code = cli_exit_of((unsigned)r);
  fprintf(stderr, "dray %s: key %s: %s %s\n", what, hex,
          code == EXIT_REFUSED ? "refused:" : "failed:", dray_reason_name((unsigned)r));
  return code;
}

void blob_report(const struct blob *b, const char *op, uint64_t bytes)
{
  uint64_t ns = stage_now_ns() - b->begun_ns;
  char hex[33], size[32], took[32], mover[32];
  cli_hex(b->o->key, hex);
  if (b->o->cli.json) {
    json_t *o = json_object(), *tiers = json_object(), *paths = json_object();
    for (unsigned i = 1; i < DRAY_TIER_COUNT; i++)
      if (b->tiers[i])
        json_object_set_new(tiers, dray_tier_name(i), cli_u64(b->tiers[i]));
    for (unsigned i = 1; i < DRAY_PATH_COUNT; i++)
      if (b->paths[i])
        json_object_set_new(paths, dray_path_name(i), cli_u64(b->paths[i]));
    json_object_set_new(o, "op", json_string(op));
    json_object_set_new(o, "key", json_string(hex));
    json_object_set_new(o, "file", json_string(b->o->file));
    json_object_set_new(o, "bytes", cli_u64(bytes));
    json_object_set_new(o, "cells", cli_u64(b->cells));
    json_object_set_new(o, "ns", cli_u64(ns));
    json_object_set_new(o, "mover_ns", cli_u64(b->exec_ns));
    json_object_set_new(o, "bytes_by_tier", tiers);
    json_object_set_new(o, "bytes_by_path", paths);
    cli_print_new(o);
    return;
  }
  FILE *f = strcmp(b->o->file, "-") == 0 ? stderr : stdout;
  fprintf(f, "%s %s: %s in %llu cell%s, %s (%s at the mover, %.2f GB/s);", op, hex,
          units_format_bytes(bytes, size, sizeof size), (unsigned long long)b->cells, b->cells == 1 ? "" : "s",
          units_format_time(ns, took, sizeof took), units_format_time(b->exec_ns, mover, sizeof mover),
          b->exec_ns ? (double)bytes / (double)b->exec_ns : 0);
  for (unsigned i = 1; i < DRAY_TIER_COUNT; i++)
    if (b->tiers[i])
      fprintf(f, " tier %s %s", dray_tier_name(i), units_format_bytes(b->tiers[i], size, sizeof size));
  for (unsigned i = 1; i < DRAY_PATH_COUNT; i++)
    if (b->paths[i])
      fprintf(f, " path %s %s", dray_path_name(i), units_format_bytes(b->paths[i], size, sizeof size));
  fputc('\n', f);
}
