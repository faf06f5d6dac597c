#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every rival that is on this machine, one after the other; the table of the README. ROUNDS (9), BUILD_DIR (build), DIR (fio.sh).
# Each line is one interleaved run: name, ours, theirs, ratio (ours over theirs), and what it is. A rival that is not here is said.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
failed=0
printf 'name\tours\ttheirs\tratio\twhat\n'
for script in "${@:-rte_ring loops cma ucx libfabric fio perftest}"; do
  for name in $script; do
    "$here/$name.sh" </dev/null
    code=$?
    [ $code = 0 ] || [ $code = 77 ] || { printf '# %s.sh failed: exit %d\n' "$name" $code >&2; failed=1; }
  done
done
exit $failed
