#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: perftest_guest.sh BUILD_DIR ROUNDS. A mover that lends on one soft RoCE device, `dray bench rdma` beside perftest
# on the other. JSON on standard output, all else on standard error.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1 rounds=$2
. "$here/../../tests/guest/devices.sh"
devices_rxe >&2 || { echo 'no soft RoCE' >&2; exit 1; }
mkdir -p /tmp/peer
cat >/tmp/peer.yaml <<'YAML'
node: peer
lanes: 1
log: warn
tiers:
  - {name: dram, transport: memory, capacity: 64MiB}
listen: {address: '10.9.0.1', lend: 32MiB}
YAML
"$build/mover/drayd" --dir /tmp/peer --config /tmp/peer.yaml >&2 &
peer=$!
within test -S /tmp/peer/dray.sock || exit 1
DRAYD=$build/mover/drayd "$build/cli/dray" bench rdma --peer 10.9.0.1 --rounds "$rounds" --json ${RW:+--rw "$RW"}
code=$?
kill $peer
wait $peer 2>/dev/null
exit $code
