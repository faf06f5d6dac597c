/* SPDX-License-Identifier: Apache-2.0 */
/* Any 64 bytes are a directive, any 32 an item, any index a claim: each is judged, none is trusted. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mover/span.h"
#include "ring/region.h"
#include "ring/take.h"
#include "ring/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A consumer over slots that the input fills, with the index the input claims. */
static void ring_of(const uint8_t *data, size_t n)
{
  struct wire_in in = {0};
  uint32_t prod = 0, cons = 0;
  struct dray_req req[TAKE_BURST];
  int fd = region_make("fuzz", 4096, false);
  if (fd < 0 || wire_map(&in.w, fd, 0, 64, 1, 0) < 0)
    abort();
  close(fd);
  memcpy(&prod, data, 4);
  memcpy(&in.w.r[1], data + 4, n - 4 > 4096 ? 4096 : n - 4);
  in.theirs = &prod;
  in.mine = &cons;
  uint32_t seen = 0;
  for (int k; (k = take_burst(&in, req, TAKE_BURST)) > 0;) {
    seen += (uint32_t)k;
    for (int i = 0; i < k; i++)
      if (req[i].reason == DRAY_REASON_OK && (req[i].sqe.op == 0 || req[i].sqe.op >= DRAY_OP_COUNT))
        abort();
  }
  if (seen > 63)
    abort();
  wire_unmap(&in.w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  struct dray_sqe s;
  struct dray_item it;
  struct dray_layout l;
  struct dray_publish p;
  struct span sp;
  if (n < 128)
    return 0;
  memcpy(&s, data, sizeof s);
  memcpy(&it, data + 64, sizeof it);
  memcpy(&l, data + 96, sizeof l);
  if (take_check(&s) == 0 || take_item_check(s.op, s.layout != 0, &it) == 0 || take_publish(&it, 0, &p) == 0)
    abort(); /* 0 is no reason */
  static char region[65536];
  bool layout = span_layout_check(&l) == DRAY_REASON_OK;
  if (span_make(region, sizeof region, layout ? &l : NULL, s.off, s.len, &sp) == DRAY_REASON_OK) {
    for (uint64_t at = 0; at < sp.len;) {
      struct xfer_vec v[16];
      uint64_t got;
      uint32_t k = span_cut(&sp, at, sp.len, v, 16, &got);
      if (!k || !got)
        abort();
      for (uint32_t i = 0; i < k; i++)
        if ((char *)v[i].base < region || (char *)v[i].base + v[i].len > region + sizeof region)
          abort();
      at += got;
    }
  }
  ring_of(data, n);
  return 0;
}
