#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fio by io_uring and libaio, direct, depth 32, one file on the same filesystem. DIR: where (default: an ext4 on a loop
# device over tmpfs, which needs root).
. "$(dirname "$0")/common.sh"
command -v fio >/dev/null || skip "fio is not here: apt-get install fio"
dir=${DIR:-}
if [ -z "$dir" ]; then
  [ "$(id -u)" = 0 ] || skip "a loop device needs root: set DIR to a directory on the filesystem to measure"
  image=$(mktemp /dev/shm/dray-versus.XXXXXX)
  dir=$work/mnt
  # the kernel lets go of files that io_uring had registered a while after their process has ended
  leave() {
    for i in 1 2 3 4 5 6 7 8 9 10; do umount "$dir" 2>/dev/null && break; sleep 1; done
    rm -rf "$image" "$work"
  }
  trap leave EXIT
  truncate -s 6G "$image"
  mkfs.ext4 -q "$image"
  mkdir -p "$dir"
  mount -o loop "$image" "$dir"
fi
"$dray" bench file --dir "$dir" --rounds "$rounds" --json | rows "^file"
