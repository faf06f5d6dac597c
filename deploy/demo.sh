#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, starts a mover and shows two tenants' KV blocks going down the ladder and back.
# Root is only needed to install packages. Ends with what moved by which path at what cost; not 0 when a byte was wrong.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
build=${DRAY_BUILD:-$here/build-demo}
work=
mover=

say() { printf '%s\n' "$*" >&2; }

cleanup() {
  code=$?
  trap - EXIT INT TERM
  if [ -n "$mover" ] && kill -0 "$mover" 2>/dev/null; then
    kill -TERM "$mover" 2>/dev/null || true
    wait "$mover" 2>/dev/null || true
  fi
  [ -z "$work" ] || rm -rf -- "$work"
  exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Packages of the build section that are not installed.
missing_packages() {
  sed -n '/^# test/q; /^[^#]/p' "$here/deploy/packages.txt" | while read -r p; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || printf '%s ' "$p"
  done
}

install_missing() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "demo: no apt here; what is needed is in deploy/packages.txt"
    return
  fi
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  sudo=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { say "demo: need root or sudo to install: $missing"; exit 1; }
    sudo=sudo
  fi
  say "demo: installing $missing"
  $sudo apt-get update -qq
  # shellcheck disable=SC2086
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
}

build_all() {
  say "demo: building in $build"
  log=$work/build.log
  if [ ! -f "$build/build.ninja" ]; then
    meson setup "$build" "$here" -Dtests=disabled -Dbuildtype=release >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  fi
  ninja -C "$build" mover/drayd cli/dray >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
}

token() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# The embedded default (DRAM, far memory, disk) in a directory of its own, two tenants by token.
start_mover() {
  a=$(token)
  b=$(token)
  mkdir "$work/run"
  "$build/mover/drayd" --dir "$work/run" --tenant "atlas:$a" --tenant "boreal:$b" 2>"$work/drayd.log" &
  mover=$!
  export DRAY_SOCKET="$work/run/dray.sock" DRAY_ADMIN="$work/run/admin.sock"
  i=0
  until "$build/cli/dray" status --json >/dev/null 2>&1; do
    i=$((i + 1))
    if [ "$i" -gt 200 ] || ! kill -0 "$mover" 2>/dev/null; then
      say "demo: drayd does not serve; its log:"
      cat "$work/drayd.log" >&2
      exit 1
    fi
    sleep 0.05
  done
}

unset DRAY_SOCKET DRAY_ADMIN DRAY_TOKEN DRAYD_CONFIG DRAYD_SOCKET DRAYD_ADMIN || true
work=$(mktemp -d "${TMPDIR:-/tmp}/dray-demo-XXXXXX")
install_missing
build_all
start_mover
say "demo: drayd $("$build/mover/drayd" --version | cut -d' ' -f2), tenants atlas and boreal"
"$build/cli/dray" demo --tenant "$a" --tenant "$b" "$@"
case " $* " in *" --json "*) exit 0 ;; esac
echo
"$build/cli/dray" tiers
