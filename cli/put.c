/* SPDX-License-Identifier: Apache-2.0 */
/* dray put: a file's bytes become a cell, or cells and a header. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/blob.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

static int read_whole(int fd, void *to, uint64_t off, uint64_t len)
{
  for (uint64_t at = 0; at < len;) {
    ssize_t n = pread(fd, (char *)to + at, MIN_OF(len - at, GIB(1)), (off_t)(off + at));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? -errno : -ENODATA;
    at += (uint64_t)n;
  }
  return 0;
}

static int unreadable(const struct blob_options *o, int r)
{
  fprintf(stderr, "dray put: %s: %s\n", o->file, r == -ENODATA ? "became shorter while it was read" : strerror(-r));
  return EXIT_ERROR;
}

/* The header that is under the key now, if there is one: its cells go when it does. */
static bool header_before(struct blob *b, struct blob_header *ret_header)
{
  uint64_t len = 0;
  struct blob at = *b; /* its figures are nobody's business */
  return blob_stat(&at, &len) == DRAY_REASON_OK && len == sizeof *ret_header &&
         blob_one(&at, DRAY_GET, b->o->key, len, 0) == DRAY_REASON_OK &&
         blob_header_is(b->region.base, len, ret_header);
}

static void drop_cells(struct blob *b, const struct blob_header *h, uint64_t cells)
{
  for (uint64_t at = 0; at < cells; at += b->rows_n)
    blob_many(b, DRAY_DROP, h, at, (uint32_t)MIN_OF(cells - at, (uint64_t)b->rows_n));
}

/* Cells first, header last: until then nobody finds any of it. */
static int put_large(struct blob *b, int fd, uint64_t size)
{
  const struct blob_options *o = b->o;
  struct blob_header h;
  blob_header_make(&h, size, o->cell_bytes);
  uint64_t cells = (size - 1) / o->cell_bytes + 1, done = 0;
  uint64_t window = cells == 1 ? 1 : MIN_OF(b->region.size / o->cell_bytes, (uint64_t)b->rows_n);
  int r = 0, code = EXIT_OK;
  while (done < cells && code == EXIT_OK) {
    uint32_t n = (uint32_t)MIN_OF(cells - done, window);
    uint64_t off = done * o->cell_bytes;
    r = read_whole(fd, b->region.base, off, MIN_OF(n * o->cell_bytes, size - off));
    if (r < 0) {
      code = unreadable(o, r);
      break;
    }
    r = blob_many(b, DRAY_PUT, &h, done, n);
    done += n;
    if (r != DRAY_REASON_OK)
      code = blob_failed(b, "put", r);
    if (cli_tty() && done < cells)
      fprintf(stderr, "\rput: %llu of %llu cells   ", (unsigned long long)done, (unsigned long long)cells);
  }
  if (cli_tty() && cells > window)
    fputs("\r\033[K", stderr);
  if (code == EXIT_OK) {
    memcpy(b->region.base, &h, sizeof h);
    r = blob_one(b, DRAY_PUT, o->key, sizeof h, o->no_replace ? DRAY_NO_REPLACE : 0);
    if (r != DRAY_REASON_OK)
      code = blob_failed(b, "put", r);
  }
  if (code != EXIT_OK)
    drop_cells(b, &h, done);
  return code;
}

static int put_small(struct blob *b, uint64_t size)
{
  int r = blob_one(b, DRAY_PUT, b->o->key, size, b->o->no_replace ? DRAY_NO_REPLACE : 0);
  return r == DRAY_REASON_OK ? EXIT_OK : blob_failed(b, "put", r);
}

int cli_put(int argc, char **argv)
{
  struct blob_options o;
  struct blob b;
  struct blob_header before, self;
  struct stat st;
  int code;
  if (!blob_options(argc, argv, false, &o, &code))
    return code;
  CLEAN_FD fd = open(o.file, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) < 0)
    return unreadable(&o, -errno);
  if (!S_ISREG(st.st_mode)) {
    fprintf(stderr, "dray put: %s: need a regular file\n", o.file);
    return EXIT_ERROR;
  }
  uint64_t size = (uint64_t)MAX_OF(st.st_size, 0), cells = size ? (size - 1) / o.cell_bytes + 1 : 0;
  if (cells == 0 || cells > BLOB_CELLS_MAX) {
    fprintf(stderr, "dray put: %s: refused: %s: need 1 byte to %llu bytes (%u cells of --cell), have %llu\n", o.file,
            dray_reason_name(cells ? DRAY_TOO_LARGE : DRAY_ZERO_LENGTH),
            (unsigned long long)(o.cell_bytes * BLOB_CELLS_MAX), BLOB_CELLS_MAX, (unsigned long long)size);
    return EXIT_ERROR;
  }
  int r = blob_open(&b, &o, MIN_OF(MAX_OF(BLOB_WINDOW, o.cell_bytes), align_up(size, PAGE_BYTES)), 1024);
  if (r < 0) {
    blob_close(&b);
    return EXIT_ERROR;
  }
  bool had = header_before(&b, &before);
  code = EXIT_OK;
  if (cells == 1) {
    r = read_whole(fd, b.region.base, 0, size);
    if (r < 0)
      code = unreadable(&o, r);
  }
  if (code == EXIT_OK)
    code = cells > 1 || blob_header_is(b.region.base, size, &self) ? put_large(&b, fd, size) : put_small(&b, size);
  if (code == EXIT_OK && had)
    drop_cells(&b, &before, (before.length - 1) / before.cell_bytes + 1);
  if (code == EXIT_OK)
    blob_report(&b, "put", size);
  blob_close(&b);
  return code;
}
