/* SPDX-License-Identifier: Apache-2.0 */
/* dray get: a cell's bytes become a file, whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/blob.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

/* Where the bytes go: beside the file first, so that it appears whole. */
struct target {
  int fd;
  char *beside; /* NULL: written directly (stdout, a device, a pipe) */
};

static int target_open(struct target *t, const char *file)
{
  struct stat st;
  *t = (struct target){.fd = -1};
  if (strcmp(file, "-") == 0)
    t->fd = dup(STDOUT_FILENO);
  else if (stat(file, &st) == 0 && !S_ISREG(st.st_mode))
    t->fd = open(file, O_WRONLY | O_CLOEXEC);
  else if (asprintf(&t->beside, "%s.XXXXXX", file) < 0)
    return -ENOMEM;
  else
    t->fd = mkstemp(t->beside);
  return t->fd < 0 ? -errno : 0;
}

/* whole: it becomes the file. */
static int target_close(struct target *t, const char *file, bool whole)
{
  int r = t->fd >= 0 && close(t->fd) < 0 ? -errno : 0;
  if (t->beside && r == 0 && whole && rename(t->beside, file) < 0)
    r = -errno;
  if (t->beside && t->fd >= 0 && (r < 0 || !whole))
    unlink(t->beside);
  free(t->beside);
  return r;
}

static int write_whole(int fd, const void *from, uint64_t len)
{
  for (uint64_t at = 0; at < len;) {
    ssize_t n = write(fd, (const char *)from + at, MIN_OF(len - at, GIB(1)));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -errno;
    at += (uint64_t)n;
  }
  return 0;
}

static int unwritable(const struct blob_options *o, int r)
{
  fprintf(stderr, "dray get: %s: %s\n", o->file, strerror(-r));
  return EXIT_ERROR;
}

static int get_large(struct blob *b, const struct blob_header *h, int fd)
{
  uint64_t cells = (h->length - 1) / h->cell_bytes + 1;
  uint64_t window = cells == 1 ? 1 : MIN_OF(b->region.size / h->cell_bytes, (uint64_t)b->rows_n);
  for (uint64_t done = 0; done < cells;) {
    uint32_t n = (uint32_t)MIN_OF(cells - done, window);
    int r = blob_many(b, DRAY_GET, h, done, n);
    if (r != DRAY_REASON_OK)
      return blob_failed(b, "get", r);
    uint64_t off = done * h->cell_bytes;
    r = write_whole(fd, b->region.base, MIN_OF(n * h->cell_bytes, h->length - off));
    if (r < 0)
      return unwritable(b->o, r);
    done += n;
    if (cli_tty() && cells > window)
      fprintf(stderr, "\rget: %llu of %llu cells   %s", (unsigned long long)done, (unsigned long long)cells,
              done == cells ? "\r\033[K" : "");
  }
  return EXIT_OK;
}

/* The region must hold what is got: known only after a STAT, and for a header only after that. */
static int grow(struct blob *b, uint64_t bytes)
{
  if (bytes <= b->region.size)
    return 0;
  dray_region_unregister(b->d, &b->region);
  dray_region_free(&b->region);
  b->region = (struct dray_region){.fd = -1};
  return cli_region(b->d, align_up(bytes, PAGE_BYTES), &b->region);
}

static int get_into(struct blob *b, const struct target *t, uint64_t *ret_bytes)
{
  struct blob_header h;
  uint64_t len = 0;
  int r = blob_stat(b, &len);
  if (r != DRAY_REASON_OK)
    return blob_failed(b, "get", r);
  if (grow(b, len) < 0)
    return EXIT_ERROR;
  r = blob_one(b, DRAY_GET, b->o->key, len, 0);
  if (r != DRAY_REASON_OK)
    return blob_failed(b, "get", r);
  if (blob_header_is(b->region.base, len, &h)) {
    *ret_bytes = h.length;
    if (grow(b, MIN_OF(MAX_OF(BLOB_WINDOW, h.cell_bytes), h.length)) < 0)
      return EXIT_ERROR;
    return get_large(b, &h, t->fd);
  }
  *ret_bytes = len;
  r = write_whole(t->fd, b->region.base, len);
  return r < 0 ? unwritable(b->o, r) : EXIT_OK;
}

int cli_get(int argc, char **argv)
{
  struct blob_options o;
  struct blob b;
  struct target t;
  uint64_t bytes = 0;
  int code;
  if (!blob_options(argc, argv, true, &o, &code))
    return code;
  int r = blob_open(&b, &o, PAGE_BYTES, 1024);
  if (r < 0) {
    blob_close(&b);
    return EXIT_ERROR;
  }
  r = target_open(&t, o.file);
  code = r < 0 ? unwritable(&o, r) : get_into(&b, &t, &bytes);
  r = target_close(&t, o.file, code == EXIT_OK);
  if (r < 0 && code == EXIT_OK)
    code = unwritable(&o, r);
  if (code == EXIT_OK)
    blob_report(&b, "get", bytes);
  blob_close(&b);
  return code;
}
