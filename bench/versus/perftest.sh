#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ib_write_bw, ib_read_bw and ib_read_lat on the same soft RoCE device in the guest.
. "$(dirname "$0")/common.sh"
command -v ib_write_bw >/dev/null || skip "perftest is not here: apt-get install perftest"
command -v qemu-system-x86_64 >/dev/null || skip "QEMU is not here: tests/guest/run.sh --fetch"
[ -x "$here/perftest_guest.sh" ] || skip "the RDMA bench is not part of this build"
"$here/../../tests/guest/run.sh" -t 600 -b "$build" rxe -- "$here/perftest_guest.sh" "$build" "$rounds" | rows "^rdma"
