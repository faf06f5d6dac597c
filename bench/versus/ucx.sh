#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# UCX put over shared memory (Debian: libucx-dev), the same cold blocks, one and two threads; CPU of both in the JSON.
. "$(dirname "$0")/common.sh"
rival=$build/bench/versus/ucx-scatter
[ -x "$rival" ] || skip "ucx-scatter is not built: apt-get install libucx-dev, then meson setup --reconfigure"
"$dray" bench copy --rounds "$rounds" --rival "ucx=$rival" --json | tee "${UCX_JSON:-/dev/null}" | rows "@ucx$"
