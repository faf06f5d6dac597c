#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: inside.sh VARIANT BUILD_DIR [FILTER]. Makes the devices, runs the programs for them, one after the other.
# GUEST_REPORTS: log_path of a sanitizer; whatever is there at the end is a failure.
variant=$1 build=$2 filter=${3:-*}
export GUEST_BUILD=$build
cd "$(dirname "$0")" || exit 2
. ./devices.sh
bad=0
program() { # NAME FILTER: each has its own limit, so that one that hangs does not cost the others their say
  printf '\n-- %s %s\n' "$1" "$2"
  timeout "${limit:-150}" "$build/tests/guest/$1" --gtest_filter="$2" </dev/null
  local rc=$?
  [ $rc = 0 ] || { printf -- '-- %s: exit code %d\n' "$1" $rc; bad=1; }
}
conform() { # DEVICE KEEP
  GUEST_CONFORM_DAX=/dev/$1 GUEST_CONFORM_KEEP=$2
  export GUEST_CONFORM_DAX
  [ -n "$2" ] && export GUEST_CONFORM_KEEP || export -n GUEST_CONFORM_KEEP
  program guest-conform-dax 'Conform*:-ConformFaults.*'
}

case $variant in
  dax)
    devices_dax || { echo 'guest: no device-dax'; exit 1; }
    disk_ext4 || { echo 'guest: no disk'; exit 1; }
    if [ "$filter" = '*' ]; then
      conform "$GUEST_DAX" ''
      conform "$GUEST_DAX_DYN" yes
      conform "$GUEST_DAX_4K" yes
    fi
    program guest-dax "$filter"
    program guest-drain "$filter"
    program guest-poison "$filter"
    program guest-cxl "$filter"
    ;;
  mce)
    devices_dax || { echo 'guest: no device-dax'; exit 1; }
    program guest-mce "$filter"
    ;;
  cxl)
    devices_cxl || { echo 'guest: no CXL memory'; exit 1; }
    # every access is emulated there: what the other variant shows of any device is not shown again
    if [ "$filter" = '*' ]; then
      program guest-dax 'Devices/GuestDax.*/DAX'
      program guest-drain 'Devices/GuestDrain.WithoutATier*/DAX'
      program guest-poison 'Devices/GuestPoisonMover.Early*/DAX'
    fi
    program guest-cxl "$filter"
    ;;
  rxe)
    devices_rxe || { echo 'guest: no soft RoCE'; exit 1; }
    n=$(ibv_devinfo | grep -c PORT_ACTIVE)
    if [ "$n" = 2 ]; then echo '[       OK ] rxe.TwoDevicesAreActive (0 ms)'; else echo "[  FAILED  ] rxe.TwoDevicesAreActive ($n ms)"; bad=1; fi
    if [ -x "$build/tests/conform/conform_rdma" ] && { [ "$filter" = '*' ] || [ "$filter" = conform ]; }; then
      # one device with itself; then both, striped, and the memory in pieces of an odd size
      export CONFORM_RDMA=10.9.0.1
      program ../conform/conform_rdma 'Conform*:-ConformFaults.*'
      export CONFORM_RDMA='10.9.0.1>10.9.0.2,10.9.0.2>10.9.0.2' CONFORM_PIECE=$((300 << 10))
      program ../conform/conform_rdma 'Conform.*:-*Hostile*:*HoweverTheSource*'
    fi
    if [ -x "$build/tests/guest/guest-rdma" ] && [ "$filter" != conform ]; then
      modprobe sch_netem
      program guest-rdma "GuestRdma.$filter"
      program guest-paths "$filter"
      program guest-peers "$filter"
      program guest-rdma "GuestRdmaKill.$filter:GuestRdmaPoison.$filter"
    fi
    ;;
  two)
    devices_node || { echo 'guest: no soft RoCE'; exit 1; }
    if [ "$GUEST_NODE" = 2 ]; then
      limit=260 program guest-rdma 'GuestPeer.*'
    else
      # what two kernels can show and one cannot: the others need both sides in one place
      [ "$filter" != '*' ] || filter='GuestRdma.AThousandCells*:GuestRdmaKill.*'
      limit=240 program guest-rdma "$filter"
      # the other one goes home
      exec 3<>"/dev/tcp/$GUEST_PEER/4790" && echo bye >&3
    fi
    ;;
esac
# a ThreadSanitizer build writes what it finds there: the movers' own output is nobody's
for f in "${GUEST_REPORTS:-/nothing}".*; do
  [ -s "$f" ] || continue
  printf -- '-- %s:\n' "$f"
  cat "$f"
  bad=1
done
# rxe of this kernel kills a queue pair's tasklet while it may still be queued (it has work queues from 6.2 on); harmless, and not ours
dmesg | grep -E 'WARNING:|BUG:|Oops' | grep -v 'tasklet_clear_sched' && { echo '-- the kernel complained'; bad=1; }
exit $bad
