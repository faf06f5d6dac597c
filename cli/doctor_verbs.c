/* SPDX-License-Identifier: Apache-2.0 */
/* What tiers on other machines need. */
#include "cli/doctor.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/units.h"
#include "transports/fabric.h"

static void check_device(struct doctor *d, const struct fabric_dev *v)
{
  char mr[32];
  struct doctor_row *r = doctor_add(
      d, v->active ? DOCTOR_OK : DOCTOR_WARN, "verbs device", "%s: %s, max_mr_size %s, max_qp_wr %u, max_cqe %u",
      v->name, v->state, v->max_mr_size == UINT64_MAX ? "any" : units_format_bytes(v->max_mr_size, mr, sizeof mr),
      v->max_qp_wr, v->max_cqe);
  if (!v->active)
    doctor_fix(r, "its port is not up: ip link set IF up; rdma link show; a cable, a switch, a subnet manager");
}

/* Lent memory, shown slabs and bounce memory are locked. */
static void check_locked(struct doctor *d)
{
  struct rlimit l;
  char have[32];
  if (getrlimit(RLIMIT_MEMLOCK, &l) < 0)
    return;
  bool any = l.rlim_cur == RLIM_INFINITY;
  struct doctor_row *r = doctor_add(d, any ? DOCTOR_OK : DOCTOR_WARN, "memlock for RDMA", "%s",
                                    any ? "unlimited" : units_format_bytes(l.rlim_cur, have, sizeof have));
  if (!any)
    doctor_fix(r, "LimitMEMLOCK=infinity in the unit, or ulimit -l: each peer of each tier locks lanes * bounce (4 "
                  "MiB) and the regions that engines move by it, listen: locks lend and every slab that a peer reads");
}

void doctor_verbs(struct doctor *d)
{
  struct fabric f;
  int r = fabric_read(&f);
  if (r == -ENOTSUP) {
    doctor_add(d, DOCTOR_OK, "verbs device", "this dray was built without RDMA");
    return;
  }
  if (r < 0 || !f.n) {
    struct doctor_row *row = doctor_add(d, DOCTOR_OK, "verbs device", "none%s%s: no tier on another machine",
                                        r < 0 ? ": " : "", r < 0 ? strerror(-r) : "");
    doctor_fix(row, "an adapter's driver, or soft RoCE: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev IF");
    return;
  }
  for (uint32_t i = 0; i < f.n; i++)
    check_device(d, &f.dev[i]);
  struct doctor_row *row =
      doctor_add(d, f.connects ? DOCTOR_OK : DOCTOR_WARN, "RDMA connections", "/dev/infiniband/rdma_cm %s",
                 f.connects ? "can be opened" : strerror(errno ? errno : ENOENT));
  if (!f.connects)
    doctor_fix(row, "modprobe rdma_ucm; the mover's user needs read and write on /dev/infiniband/rdma_cm and uverbs*");
  check_locked(d);
}
