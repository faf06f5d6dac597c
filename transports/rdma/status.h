/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's words for how a work request ended, in ours; and done records. */
#ifndef TRANSPORTS_RDMA_STATUS_H
#define TRANSPORTS_RDMA_STATUS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include <dray/types.h>

#include "transports/xfer.h"

struct wc_meaning {
  bool path; /* the connection is what failed, not this request: another path may do */
  uint16_t reason;
  int err;
};
static inline struct wc_meaning status_of(enum ibv_wc_status s)
{
  switch (s) {
  case IBV_WC_WR_FLUSH_ERR:
    return (struct wc_meaning){true, DRAY_PEER_UNREACHABLE, ECONNABORTED};
  case IBV_WC_RETRY_EXC_ERR:
  case IBV_WC_RNR_RETRY_EXC_ERR:
  case IBV_WC_RESP_TIMEOUT_ERR:
    return (struct wc_meaning){true, DRAY_PEER_UNREACHABLE, ETIMEDOUT};
  case IBV_WC_REM_ACCESS_ERR: /* what the rkey named is not there any more */
  case IBV_WC_REM_ABORT_ERR:
    return (struct wc_meaning){false, DRAY_PEER_STALE, ESTALE};
  case IBV_WC_REM_INV_REQ_ERR:
  case IBV_WC_REM_OP_ERR:
    return (struct wc_meaning){false, DRAY_IO_ERROR, EREMOTEIO};
  case IBV_WC_LOC_QP_OP_ERR: /* soft RoCE: there is no route any more, as its link is down */
  case IBV_WC_FATAL_ERR:
  case IBV_WC_GENERAL_ERR:
    return (struct wc_meaning){true, DRAY_IO_ERROR, EIO};
  default:
    return (struct wc_meaning){false, DRAY_IO_ERROR, EIO};
  }
}

static inline struct xfer_done status_ok(uint64_t cookie, uint8_t path, uint64_t bytes)
{
  return (struct xfer_done){
      .cookie = cookie, .status = XFER_OK, .path = path, .reason = DRAY_REASON_OK, .bytes = bytes};
}
static inline struct xfer_done status_failed(uint64_t cookie, uint8_t path, uint16_t reason, int err, uint64_t bytes)
{
  return (struct xfer_done){
      .cookie = cookie, .status = XFER_FAILED, .path = path, .reason = reason, .err = err ? err : EIO, .bytes = bytes};
}
#endif
