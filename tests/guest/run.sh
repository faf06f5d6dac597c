#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs one command in a throw-away virtual machine with hardware that this one lacks, under Debian's kernel.
#
#   tests/guest/run.sh [-t SEC] [-m MIB] [-c CPUS] [-q] [-b DIR]... [-l FILE] VARIANT -- COMMAND...
#   tests/guest/run.sh --fetch        installs and downloads what is missing (apt), then ends
#
# VARIANT   dax   /dev/dax of a static region (256 MiB, persistent memory) and a dynamic one (256 MiB, soft-reserved)
#           cxl   one CXL Type-3 device (256 MiB, persistent) behind a host bridge
#           rxe   two network cards on one wire, for soft RoCE, and /dev/dax of a static region (256 MiB)
#           two   two machines with a network card each on one wire; the command runs in both, GUEST_NODE is 1 and 2;
#                 the second one's output comes on standard error; exit code: the first that is not 0
#           mce   as dax, with one processor and -q: for machine checks, which QEMU sends to all processors at once
#           none  nothing of that
#   -t  hard limit in seconds (300)      -m  memory (per variant)      -c  processors (2)
#   -b  a directory of the host that the guest sees, too, at the same path (/tmp and /run are the guest's own)
#   -q  the guest may ask its hypervisor: a line that it writes to /dev/vport0p3 is a command of QEMU's monitor (QMP)
#   -l  keeps the console's log there; without it, the log is shown when the guest ends without an exit code
#
# The guest sees the host's root file system, read-only under an overlay in its memory: nothing it writes stays. It runs
# as root, without a network. The command's output is our output and its exit code ours. 77: QEMU, the kernel or a tool
# is not here, said in one line. 124: the limit. 125: no exit code (panic).
# Environment: DRAY_GUEST_CACHE (~/.cache/dray-guest: 420 MB), DRAY_GUEST_KERNEL (package, else linux-image-amd64's).
set -euo pipefail

PACKAGES=(qemu-system-x86 busybox-static cpio kmod xz-utils ndctl daxctl iproute2 rdma-core ibverbs-utils e2fsprogs)
cache=${DRAY_GUEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/dray-guest}
limit=300 mem='' cpus=2 log='' ask=0 shares=()

die() { printf 'guest: %s\n' "$2" >&2; exit "$1"; }
usage() { sed -n '3,22p' "$0" >&2; exit 2; }

all=("$@") fetch=0
[ "${1:-}" = --fetch ] && { fetch=1; shift; }
while getopts t:m:c:b:l:q o; do
  case $o in
    t) limit=$OPTARG ;;
    m) mem=$OPTARG ;;
    c) cpus=$OPTARG ;;
    b) shares+=("$(cd "$OPTARG" && pwd)") ;;
    l) log=$OPTARG ;;
    q) ask=1 ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
variant=${1:-}
if [ $fetch = 0 ]; then
  { [ $# -ge 3 ] && [ "$2" = -- ]; } || usage
  shift 2
fi

work=$(mktemp -d /tmp/dray-guest.XXXXXX)
qemu_pid='' ask_pid=''
cleanup() {
  [ -z "$ask_pid" ] || kill "$ask_pid" 2>/dev/null || true
  [ -z "$qemu_pid" ] || kill -9 "$qemu_pid" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 143' TERM INT HUP

# ---- what must be here ----

if [ $fetch = 1 ]; then
  missing=()
  for p in "${PACKAGES[@]}"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    sudo=''
    [ "$(id -u)" = 0 ] || sudo=sudo
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null </dev/null
  fi
fi
PATH=$PATH:/usr/sbin:/sbin
for tool in qemu-system-x86_64 busybox cpio depmod modprobe xz ndctl daxctl ip; do
  command -v "$tool" >/dev/null || die 77 "$tool is not here: apt-get install ${PACKAGES[*]}"
done
[ "$(uname -m)" = x86_64 ] || die 77 "only x86-64 has been tried"

mkdir -p "$cache"
package=${DRAY_GUEST_KERNEL:-$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends:/ { print $2; exit }')}
[ -n "$package" ] || package=$(cd "$cache" && ls -d linux-image-* 2>/dev/null | sort -V | tail -1)
[ -n "$package" ] || die 77 "no package linux-image-amd64 is known to apt: apt-get update"
kernel_dir=$cache/$package
exec 9>"$cache/lock"
flock -w 300 9 || die 125 "$cache/lock is another's for 300 s"
if [ ! -e "$kernel_dir/complete" ]; then
  # not installed: no /boot, no hooks
  (cd "$work" && timeout 280 apt-get -qq download "$package" </dev/null >/dev/null 2>"$work/apt.err" && dpkg-deb -x "$package"_*.deb tree) ||
    die 77 "$package cannot be downloaded: $(tail -1 "$work/apt.err" 2>/dev/null)"
  rm -rf "$kernel_dir"
  mv "$work/tree" "$kernel_dir"
  depmod -b "$kernel_dir" "$(basename "$kernel_dir"/lib/modules/*)"
  touch "$kernel_dir/complete"
fi
version=$(basename "$kernel_dir"/lib/modules/*)

# ---- the kernel as it comes out of its wrapping: unpacking it in the guest is ten seconds of emulation ----

elf=$kernel_dir/vmlinux
if [ ! -s "$elf" ]; then
  image=$kernel_dir/boot/vmlinuz-$version
  for kind in 'xz \xfd7zXZ\x00' 'zstd \x28\xb5\x2f\xfd' 'gzip \x1f\x8b\x08'; do
    for at in $(LC_ALL=C grep -aboP "${kind#* }" "$image" | cut -d: -f1); do
      tail -c "+$((at + 1))" "$image" | "${kind%% *}" -dc >"$work/elf" 2>/dev/null || true
      if [ "$(head -c 4 "$work/elf" | od -An -tx1 | tr -d ' ')" = 7f454c46 ]; then
        mv "$work/elf" "$elf"
        break 2
      fi
    done
  done
  [ -s "$elf" ] || cp "$image" "$elf"
fi

# ---- first user space: finds the host's root, goes there ----

base=$kernel_dir/base.cpio.gz
if [ ! -s "$base" ] || [ "$0" -nt "$base" ]; then
  root=$work/root
  mkdir -p "$root"/bin "$root"/m "$root"/proc "$root"/sys "$root"/dev "$root"/host "$root"/rw "$root"/new
  cp "$(command -v busybox)" "$root/bin/busybox"
  for m in virtio_pci virtio_console 9pnet_virtio 9p overlay; do
    modprobe -d "$kernel_dir" -S "$version" --show-depends "$m"
  done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r f; do
    name=$(basename "$f")
    name=${name%.xz}
    case $f in *.xz) xz -dc "$f" >"$root/m/$name" ;; *) cp "$f" "$root/m/$name" ;; esac
    echo "insmod /m/$name" >>"$root/load"
  done
  cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
. /load
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /host
mount -t tmpfs -o size=50% rw /rw
mkdir /rw/up /rw/work
mount -t overlay -o lowerdir=/host,upperdir=/rw/up,workdir=/rw/work all /new
for d in proc sys dev; do mount -o move /$d /new/$d; done
mkdir -p /new/run /new/tmp
mount -t tmpfs tmp /new/run
cp -r /job /new/run/job
exec switch_root /new /bin/bash /run/job/begin
INIT
  chmod +x "$root/init"
  (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/base"
  mv "$work/base" "$base"
fi
exec 9>&-
[ $fetch = 0 ] || exit 0

# ---- two machines: this script twice, over one wire of two datagram sockets ----

if [ "$variant" = two ]; then
  args=(-t "$limit" -c 1 -m "${mem:-1536}")
  for s in "${shares[@]}"; do args+=(-b "$s"); done
  (GUEST_NODE=2 GUEST_WIRE=$work/wire "$0" "${args[@]}" ${log:+-l "$log.2"} node -- "$@" 2>&1 | sed -u 's/^/[2] /' >&2) &
  second=$!
  code=0
  GUEST_NODE=1 GUEST_WIRE=$work/wire "$0" "${args[@]}" ${log:+-l "$log"} node -- "$@" || code=$?
  theirs=0
  wait $second || theirs=$?
  exit $((code ? code : theirs))
fi

# ---- this run's own part: what to do there; a second archive after the first ----

mkdir -p "$work/own/job"
{
  printf 'export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 GUEST_VARIANT=%q\n' "$variant"
  while IFS= read -r name; do
    printf 'export %q=%q\n' "$name" "${!name}"
  done < <(compgen -e | grep -E '^(GUEST|GTEST|UBSAN|ASAN|TSAN)_' || true)
  cat <<'BEGIN'
mount -t tmpfs tmp /tmp
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing
mount -t securityfs sec /sys/kernel/security
BEGIN
  printf 'mkdir -p /lib/modules; mount --bind %q /lib/modules\n' "$kernel_dir/lib/modules"
  n=0
  for s in "${shares[@]}"; do
    printf 'mkdir -p %q; mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro share%d %q\n' "$s" $n "$s"
    n=$((n + 1))
  done
  printf 'ip link set lo up\nhostname guest\ncd %q\n' "$PWD"
  printf '('
  printf ' %q' "$@"
  printf ') </dev/null >/dev/vport0p1 2>&1\necho $? >/dev/vport0p2\nsync\nexec busybox poweroff -f\n'
} >"$work/own/job/begin"
(cd "$work/own" && find job | cpio -o -H newc --quiet | gzip -1) >"$work/own.cpio.gz"
cat "$base" "$work/own.cpio.gz" >"$work/initrd"

# ---- the machine ----

machine=q35
append='console=ttyS0 panic=-1 quiet loglevel=5 mitigations=off nokaslr'
dev=()
case $variant in
  dax | mce)
    [ "$variant" = dax ] || { cpus=1 ask=1; }
    # memory above 4 GiB begins when there are 2816 MiB of it; the two ranges are its upper half
    mem=${mem:-3072}
    [ "$mem" = 3072 ] || die 2 'variant dax has 3072 MiB: its ranges are counted from there'
    append+=' memmap=256M!0x120000000 memmap=256M%0x130000000-1+0xefffffff'
    ;;
  cxl)
    # two root ports: with one, Linux passes the bridge's decoder by and QEMU 7.2 drops every write
    machine+=,cxl=on,cxl-fmw.0.targets.0=bridge,cxl-fmw.0.size=4G
    dev+=(-object memory-backend-ram,share=on,id=media,size=256M -object memory-backend-ram,id=label,size=1M
      -device pxb-cxl,bus_nr=12,bus=pcie.0,id=bridge -device cxl-rp,port=0,bus=bridge,id=rp0,chassis=0,slot=2
      -device cxl-rp,port=1,bus=bridge,id=rp1,chassis=0,slot=3 -device cxl-type3,bus=rp0,memdev=media,lsa=label,id=mem0)
    ;;
  rxe)
    mem=${mem:-3072}
    [ "$mem" -ge 3072 ] || die 2 'variant rxe has at least 3072 MiB: its device-dax is the upper 256 of them'
    append+=' memmap=256M!0x130000000'
    for i in 0 1; do
      dev+=(-netdev "hubport,id=wire$i,hubid=0" -device "virtio-net-pci,netdev=wire$i,mac=52:54:00:00:00:0$((i + 1))")
    done
    ;;
  node)
    { [ -n "${GUEST_WIRE:-}" ] && [ -n "${GUEST_NODE:-}" ]; } || die 2 'variant node is one of two: call it as variant two'
    dev+=(-netdev "dgram,id=wire,local.type=unix,local.path=$GUEST_WIRE.$GUEST_NODE,remote.type=unix,remote.path=$GUEST_WIRE.$((3 - GUEST_NODE))"
      -device "virtio-net-pci,netdev=wire,mac=52:54:00:00:00:0$GUEST_NODE")
    ;;
  none) ;;
  *) usage ;;
esac
mem=${mem:-2048}
share_fs() {
  dev+=(-fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap,readonly=on" -device "virtio-9p-pci,bus=pcie.0,fsdev=$1,mount_tag=$1")
}
share_fs host /
n=0
for s in "${shares[@]}"; do
  share_fs "share$n" "$s"
  n=$((n + 1))
done

# -la57: shorter page walks; -erms,-fsrm: rep movsb is a byte loop in emulation; -hypervisor: kernels commit no CXL
# region with it; the vendor: poison that comes as a machine check is recoverable there
if [ $ask = 1 ]; then
  mkfifo "$work/qmp.in" "$work/qmp.out"
  : >"$work/ask"
  dev+=(-chardev "file,id=ask,path=$work/ask" -device virtserialport,chardev=ask,nr=3
    -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control)
fi
cpu=max,vendor=GenuineIntel,-la57,-erms,-fsrm,-hypervisor
: >"$work/rc"
console=${log:-$work/console}
qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none -machine "$machine" -accel tcg,thread=multi -cpu "$cpu" \
  -smp "$cpus" -m "${mem}M,slots=4,maxmem=$((mem + 4096))M" -kernel "$elf" -initrd "$work/initrd" -append "$append" \
  -serial "file:$console" -device virtio-serial-pci \
  -chardev "file,id=out,path=$work/out" -device virtserialport,chardev=out,nr=1 \
  -chardev "file,id=rc,path=$work/rc" -device virtserialport,chardev=rc,nr=2 \
  "${dev[@]}" </dev/null 2>"$work/qemu.err" &
qemu_pid=$!
if [ $ask = 1 ]; then
  cat "$work/qmp.out" >"$work/qmp.log" &
  (
    exec 3>"$work/qmp.in"
    echo '{"execute":"qmp_capabilities"}' >&3
    # a moment later: who asks for a machine check must be back in user mode by then
    tail -f -c +1 --pid=$qemu_pid -s 0.1 "$work/ask" | while IFS= read -r line; do
      sleep 0.5
      printf '%s\n' "$line" >&3
    done
  ) &
  ask_pid=$!
fi
: >>"$work/out"
tail -f -c +1 --pid=$qemu_pid -s 0.2 "$work/out" &
tail_pid=$!
timed_out=0
for ((i = 0; i < limit * 5; i++)); do
  kill -0 $qemu_pid 2>/dev/null || break
  [ $((i + 1)) -lt $((limit * 5)) ] || timed_out=1
  sleep 0.2
done
[ $timed_out = 0 ] || kill -9 $qemu_pid 2>/dev/null || true
wait $qemu_pid 2>/dev/null || true
qemu_pid=''
wait $tail_pid 2>/dev/null || true
if [ -s "$work/rc" ]; then
  exit "$(cat "$work/rc")"
fi
# a machine check that met the processor in its kernel after all: once more
if [ "$variant" = mce ] && [ -z "${GUEST_AGAIN:-}" ] && grep -q 'Fatal machine check' "$console"; then
  cleanup
  GUEST_AGAIN=1 exec "$0" "${all[@]}"
fi
{
  cat "$work/qemu.err"
  [ $ask = 0 ] || tail -5 "$work/qmp.log"
  [ -n "$log" ] || tail -40 "$console"
} >&2
[ $timed_out = 0 ] || die 124 "still running after $limit s: killed"
die 125 "the guest ended without an exit code"
