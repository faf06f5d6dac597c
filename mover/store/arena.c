/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/arena.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "include/priv/bits.h"

static int map(struct arena *a, int fd, uint64_t bytes, bool dense, bool kept, const char *name, struct err *e)
{
  struct stat st;
  if (fstat(fd, &st) < 0)
    return err_set(e, -errno, "store: arena %s: fd %d: %s", name, fd, strerror(errno));
  if (!kept && st.st_size > 0 && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, st.st_size) < 0)
    return err_set(e, -errno, "store: arena %s: cannot clear it: %s", name, strerror(errno));
  if ((uint64_t)st.st_size < bytes && ftruncate(fd, (off_t)bytes) < 0)
    return err_set(e, -errno, "store: arena %s: needs %llu bytes, has %llu, cannot grow: %s", name,
                   (unsigned long long)bytes, (unsigned long long)st.st_size, strerror(errno));
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED)
    return err_set(e, -errno, "store: arena %s: cannot map %llu bytes: %s", name, (unsigned long long)bytes,
                   strerror(errno));
  if (dense && bytes >= MIB(2))
    (void)madvise(base, bytes, MADV_HUGEPAGE);
  a->base = base;
  a->bytes = bytes;
  return 0;
}

int arena_map(struct arena *a, int fd, uint64_t bytes, bool dense, const char *name, struct err *e)
{
  return map(a, fd, bytes, dense, false, name, e);
}

int arena_map_kept(struct arena *a, int fd, uint64_t bytes, const char *name, struct err *e)
{
  return map(a, fd, bytes, false, true, name, e);
}

void arena_unmap(struct arena *a)
{
  if (a->base)
    munmap(a->base, a->bytes);
  *a = (struct arena){0};
}
