/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/file/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <dray/types.h>

#include "transports/transport.h"

uint16_t status_reason(int err)
{
  switch (err) {
  case ENOSPC:
  case EDQUOT:
    return DRAY_NO_SPACE;
  case EFAULT: /* the memory side: the file side says EIO */
    return DRAY_PAGE_LOST;
  case EHWPOISON:
    return DRAY_POISONED;
  default:
    return DRAY_IO_ERROR;
  }
}

struct xfer_done status_failed(uint64_t cookie, uint8_t path, int err, uint64_t bytes)
{
  return (struct xfer_done){
      .cookie = cookie, .status = XFER_FAILED, .path = path, .reason = status_reason(err), .err = err, .bytes = bytes};
}

struct xfer_done status_short(uint64_t cookie, uint8_t path, uint64_t bytes)
{
  struct xfer_done d = status_failed(cookie, path, EIO, bytes);
  d.reason = DRAY_SHORT_IO;
  return d;
}

struct xfer_done status_ok(uint64_t cookie, uint8_t path, uint64_t bytes)
{
  return (struct xfer_done){
      .cookie = cookie, .status = XFER_OK, .path = path, .reason = DRAY_REASON_OK, .bytes = bytes};
}

void status_note(struct dev_caps *caps, const char *fmt, ...)
{
  size_t at = strlen(caps->note);
  if (at && at + 3 < sizeof caps->note) {
    memcpy(caps->note + at, "; ", 3);
    at += 2;
  }
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(caps->note + at, sizeof caps->note - at, fmt, ap);
  va_end(ap);
}
