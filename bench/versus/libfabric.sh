#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libfabric over shared memory has no program in Debian that does the same work (fi_pingpong only sends messages): its round trip of
# 64 bytes beside a NOP through ring and mover, in turns.
. "$(dirname "$0")/common.sh"
command -v fi_pingpong >/dev/null || skip "fi_pingpong is not here: apt-get install libfabric-bin"
port=${PORT:-47593}
pingpong() { # microseconds one way; the server on this machine only
  timeout 20 fi_pingpong -p shm -e rdm -I 20000 -S 64 -B "$port" >/dev/null 2>&1 </dev/null &
  local server=$! tries
  for tries in 1 2 3 4 5 6 7 8; do
    if timeout 20 fi_pingpong -p shm -e rdm -I 20000 -S 64 -P "$port" 127.0.0.1 2>/dev/null </dev/null >"$work/pp"; then break; fi
  done
  wait "$server" 2>/dev/null || true
  awk "/^64 /{ print \$(NF-1) }" "$work/pp"
}
for ((i = 0; i < rounds; i++)); do
  t=$(pingpong)
  [ -n "$t" ] || skip "fi_pingpong over shm gives no figure here"
  o=$("$dray" bench ring --rounds 1 --json | python3 -c "import json,sys; print(json.load(sys.stdin)[\"results\"][0][\"median\"])")
  echo "$o $t"
done | python3 -c "
import statistics, sys
rows = [tuple(map(float, l.split())) for l in sys.stdin]
ours, theirs = statistics.median(r[0] for r in rows), statistics.median(2000 * r[1] for r in rows)
print(\"ring.nop.roundtrip@libfabric\", ours, theirs, round(ours / theirs, 3), \"ns; fi_pingpong shm, 64 B there and back, %d rounds\" % len(rows), sep=\"\t\")"
