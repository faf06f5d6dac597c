/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/file/segment.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

static int segment_open(struct segments *s, uint32_t i, int dir, const char *path, struct err *e)
{
  char name[32];
  struct stat st;
  uint64_t bytes = MIN_OF(s->bytes, s->capacity - i * s->bytes);
  snprintf(name, sizeof name, "dray.seg.%04u", i);
  int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  int fd = openat(dir, name, flags | (s->direct ? O_DIRECT : 0), 0600);
  if (fd < 0 && errno == EINVAL && s->direct) {
    s->direct = false;
    fd = openat(dir, name, flags, 0600);
  }
  if (fd < 0)
    return err_set(e, -errno, "%s/%s: %s%s", path, name, strerror(errno),
                   errno == EMFILE ? ": raise LimitNOFILE (one file per GiB of capacity)" : "");
  s->fd[i] = fd;
  if (fstat(fd, &st) || !S_ISREG(st.st_mode))
    return err_set(e, -EINVAL, "%s/%s: not a regular file", path, name);
  if ((uint64_t)st.st_size > bytes)
    return err_set(e, -EINVAL,
                   "%s/%s has %lld bytes, expected %llu: made with another capacity; set that, or remove "
                   "the dray.* files",
                   path, name, (long long)st.st_size, (unsigned long long)bytes);
  if ((uint64_t)st.st_size < bytes && ftruncate(fd, (off_t)bytes))
    return err_set(e, -errno, "%s/%s: to %llu bytes: %s", path, name, (unsigned long long)bytes, strerror(errno));
  return 0;
}

int segments_open(struct segments *s, int dir, const char *path, uint64_t capacity, bool direct, struct err *e)
{
  memset(s, 0, sizeof *s);
  s->bytes = MIN_OF(capacity, SEGMENT_MAX_BYTES);
  s->capacity = capacity;
  s->direct = direct;
  uint64_t n = (capacity + s->bytes - 1) / s->bytes;
  if (n > 9999)
    return err_set(e, -EINVAL, "%s: capacity %llu is more than 9999 segments of 1 GiB", path,
                   (unsigned long long)capacity);
  s->fd = malloc(n * sizeof *s->fd);
  if (!s->fd)
    return err_set(e, -ENOMEM, "%s: out of memory", path);
  s->n = (uint32_t)n;
  for (uint32_t i = 0; i < s->n; i++)
    s->fd[i] = -1;
  for (uint32_t i = 0; i < s->n; i++) {
    int rc = segment_open(s, i, dir, path, e);
    if (rc) {
      segments_close(s);
      return rc;
    }
  }
  return 0;
}

void segments_close(struct segments *s)
{
  for (uint32_t i = 0; i < s->n; i++)
    close_fd(&s->fd[i]);
  free(s->fd);
  s->fd = NULL;
  s->n = 0;
}

int segments_reserve(const struct segments *s, uint64_t off, uint64_t bytes)
{
  int fd = s->fd[segment_of(s, off)];
  return fallocate(fd, 0, (off_t)segment_off(s, off), (off_t)bytes) ? -errno : 0;
}

void segments_release(const struct segments *s, uint64_t off, uint64_t bytes)
{
  int fd = s->fd[segment_of(s, off)];
  (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)segment_off(s, off), (off_t)bytes);
}
