/* SPDX-License-Identifier: Apache-2.0 */
/* A trace file that anybody may have written: loaded whole and consistent, or refused with file, line and reason. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  char path[32];
  struct trace t;
  struct trace_ideal ideal;
  struct err e = {{0}};
  int fd = memfd_create("trace", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, n) != (ssize_t)n)
    abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (trace_load(&t, path, &e) < 0) {
    if (!e.text[0])
      abort();
  } else {
    uint64_t ids = 0;
    for (uint32_t i = 0; i < t.n; i++) {
      if (t.req[i].first != ids || !t.req[i].blocks || (i && t.req[i].at_ms < t.req[i - 1].at_ms))
        abort();
      ids += t.req[i].blocks;
    }
    if (ids != t.ids)
      abort();
    trace_spread(&t);
    for (uint32_t i = 1; i < t.n; i++)
      if (t.req[i].at_us < t.req[i - 1].at_us)
        abort();
    if (t.n && trace_ideal(&t, 4, &ideal) < 0)
      abort();
  }
  trace_free(&t);
  close(fd);
  return 0;
}
