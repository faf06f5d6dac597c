# SPDX-License-Identifier: Apache-2.0
# Sourced in the guest: makes the devices of its variant and names them in GUEST_*.

# name of the first device-dax node below that sysfs path
dax_under() {
  local d
  for d in /sys/bus/dax/devices/dax*; do
    case $(readlink -f "$d") in *"$1"*) basename "$d" && return ;; esac
  done
  return 1
}

# settles: at most 10 s for a condition
within() {
  local i
  for i in $(seq 100); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "guest: gave up waiting for: $*" >&2
  return 1
}

# namespace of persistent memory region $1 (not yet in use) as devdax of align $2, size $3 ("": all)
pmem_as_dax() {
  local ns
  ns=$(ndctl list -N -i -r "$1" | sed -n 's/.*"dev":"\(namespace[^"]*\)".*/\1/p' | head -1)
  [ -z "$(ndctl list -N -r "$1")" ] || set -- "$1" "$2" "$3" -e "$ns"
  ndctl create-namespace -f -r "$1" -m devdax -a "$2" -M mem ${3:+-s "$3"} ${4:+"$4" "$5"} >/dev/null 2>&1
}

devices_dax() {
  modprobe -a device_dax dax_pmem nd_pmem nd_e820 dax_hmem hwpoison-inject 2>/dev/null
  within ls -d /sys/bus/nd/devices/region[0-9] || return 1
  pmem_as_dax "$(basename "$(ls -d /sys/bus/nd/devices/region? | head -1)")" 2M '' || return 1
  GUEST_DAX=$(dax_under e820_pmem)
  GUEST_DAX_DYN=$(dax_under hmem)
  # a third of the dynamic region, cut in pages of 4 KiB
  local r=${GUEST_DAX_DYN#dax}
  daxctl disable-device "$GUEST_DAX_DYN" >/dev/null 2>&1
  daxctl reconfigure-device -s 128M "$GUEST_DAX_DYN" >/dev/null 2>&1
  daxctl enable-device "$GUEST_DAX_DYN" >/dev/null 2>&1
  daxctl create-device -r "${r%%.*}" -s 32M -a 4k >/dev/null 2>&1
  GUEST_DAX_4K=$(for d in /sys/bus/dax/devices/dax"${r%%.*}".*; do [ "$(cat "$d/align")" != 4096 ] || basename "$d"; done | head -1)
  export GUEST_DAX GUEST_DAX_DYN GUEST_DAX_4K
}

devices_cxl() {
  modprobe -a cxl_acpi cxl_pci cxl_mem cxl_pmem cxl_port device_dax dax_pmem nd_pmem hwpoison-inject 2>/dev/null
  within test -e /sys/bus/cxl/devices/mem0 || return 1
  cxl create-region -d decoder0.0 -m mem0 >/dev/null 2>&1 || cxl create-region -d decoder0.0 -m mem0 -t pmem >/dev/null || return 1
  within test -e /sys/bus/nd/devices/region0 || return 1
  pmem_as_dax region0 2M 64M || return 1
  GUEST_DAX=$(dax_under region0)
  export GUEST_DAX
}

# from device 1 to 2, or 2 to 1: what the kernel forgets when the link goes down
rxe_way() {
  local from=GUEST_IF$1 to=GUEST_IF$((3 - $1))
  ip neigh replace 10.9.0.$((3 - $1)) dev "${!from}" lladdr "$(cat "/sys/class/net/${!to}/address")"
  ip route replace 10.9.0.$((3 - $1)) dev "${!from}" src "10.9.0.$1" table "10$1"
}

# two devices whose packets truly go over the wire: without the rules the kernel hands them over in passing
devices_rxe() {
  modprobe -a rdma_rxe rdma_ucm virtio_net || return 1
  local n=1 i ifs=()
  for i in $(ls /sys/class/net | grep -v lo); do
    ip link set "$i" up mtu 4200 2>/dev/null || ip link set "$i" up
    ip addr add 10.9.0.$n/24 dev "$i"
    echo 1 >"/proc/sys/net/ipv4/conf/$i/accept_local"
    echo 0 >"/proc/sys/net/ipv4/conf/$i/rp_filter"
    rdma link add "rxe$n" type rxe netdev "$i" || return 1
    ifs[n]=$i
    n=$((n + 1))
  done
  export GUEST_IF1=${ifs[1]} GUEST_IF2=${ifs[2]}
  echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
  for n in 1 2; do
    local o=$((3 - n))
    rxe_way $n
    ip rule add pref $n iif lo oif "${ifs[n]}" to 10.9.0.$o lookup 10$n
    ip rule add pref $((n + 2)) iif lo from 10.9.0.$n to 10.9.0.$o lookup 10$n
  done
  ip rule add pref 10 lookup local
  ip rule del pref 0
  # and memory that a peer may read where it lies
  modprobe -a device_dax dax_pmem nd_pmem nd_e820 hwpoison-inject 2>/dev/null
  if within ls -d /sys/bus/nd/devices/region[0-9] && pmem_as_dax "$(basename "$(ls -d /sys/bus/nd/devices/region? | head -1)")" 2M ''; then
    GUEST_DAX=$(dax_under e820_pmem)
    export GUEST_DAX
  fi
}

# one of two machines on one wire: 10.9.0.$GUEST_NODE, the other one's is GUEST_PEER
devices_node() {
  modprobe -a rdma_rxe rdma_ucm virtio_net || return 1
  local i
  i=$(ls /sys/class/net | grep -v lo | head -1)
  ip link set "$i" up mtu 4200 2>/dev/null || ip link set "$i" up
  ip addr add "10.9.0.$GUEST_NODE/24" dev "$i"
  rdma link add rxe1 type rxe netdev "$i" || return 1
  export GUEST_PEER=10.9.0.$((3 - GUEST_NODE)) GUEST_ADDRESS=10.9.0.$GUEST_NODE
}

# a file system with O_DIRECT, in memory
disk_ext4() {
  modprobe ext4 && modprobe brd rd_nr=1 rd_size=98304
  [ -b /dev/ram0 ] || return 1
  mkfs.ext4 -q -F /dev/ram0 && mkdir -p /mnt/disk && mount /dev/ram0 /mnt/disk && export GUEST_DISK=/mnt/disk
}
