#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# UCX put over shared memory (Debian: libucx-dev), the same cold blocks; its put copies in the caller's thread, so the bars are
# against one thread, and two threads are beside it. CPU of both in the JSON.
. "$(dirname "$0")/common.sh"
rival=$build/bench/versus/ucx-scatter
[ -x "$rival" ] || skip "ucx-scatter is not built: apt-get install libucx-dev, then meson setup --reconfigure"
"$dray" bench copy --rounds "$rounds" --rival "ucx=BENCH_THREADS=1 $rival" --rival "ucx.2threads=BENCH_THREADS=2 $rival" --json | tee "${UCX_JSON:-/dev/null}" | rows "@ucx"
