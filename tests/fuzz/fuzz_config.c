/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mover/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  char path[64];
  struct err e = {{0}};
  struct config *c = malloc(sizeof *c);
  int fd = memfd_create("config", MFD_CLOEXEC);
  if (!c || fd < 0 || write(fd, data, n) != (ssize_t)n)
    abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (config_default(c, "/tmp/fuzz", &e) < 0)
    abort();
  e.text[0] = 0;
  int r = config_load(c, path, &e);
  if (r == 0)
    r = config_finish(c, &e);
  if (r < 0 && !e.text[0])
    abort(); /* refused without a word */
  config_free(c);
  free(c);
  close(fd);
  return 0;
}
