#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, runs every suite, prints the count. The README's second command and what CI runs.
#
#   tests/run.sh            all: gcc, clang, sanitizers, fuzz (20 s each)
#   tests/run.sh --quick    gcc only, without the guest
#
# Environment: FUZZ_SECONDS (20), BUILD_DIR (build-test).
set -euo pipefail
cd "$(dirname "$0")/.."
quick=0
[ "${1:-}" = --quick ] && quick=1
B=${BUILD_DIR:-build-test}
FUZZ_SECONDS=${FUZZ_SECONDS:-20}

say() { printf '\n== %s\n' "$*"; }

install_missing() {
  local want missing=()
  want=$(sed -e 's/#.*//' deploy/packages.txt | tr -s ' \n' ' ')
  for p in $want; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing: ${missing[*]}"
  local sudo=''
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# build DIR COMPILER CXX OPTIONS... ; only $targets when that is set
build() {
  local dir=$1 c=$2 cxx=$3
  shift 3
  if [ ! -f "$dir/build.ninja" ]; then
    CC=$c CXX=$cxx meson setup "$dir" --werror "$@" >"$dir.setup.log" 2>&1 || { cat "$dir.setup.log"; exit 1; }
  fi
  # shellcheck disable=SC2086
  ninja -C "$dir" ${targets:-} >"$dir.build.log" 2>&1 || { grep -E -A4 'error|warning|FAILED' "$dir.build.log" | head -60; exit 1; }
}

total=0 failed=0 skipped=0
# failures DIR: what failed there, with the last of what it printed; told again before the count, where nobody has to look for it
failures() {
  python3 - "$1" >>"$B/failures.txt" <<'PY'
import json, re, sys
for line in open(sys.argv[1] + "/meson-logs/testlog.json"):
    t = json.loads(line)
    if t["result"] in ("OK", "EXPECTEDFAIL", "SKIP"):
        continue
    said = ((t.get("stdout") or "") + (t.get("stderr") or "")).splitlines()
    print("-- %s: %s: %s after %.0f s" % (sys.argv[1], t["name"], t["result"], t["duration"]))
    bad = [i for i, l in enumerate(said) if re.match(r"\[  FAILED  \] .* ms\)$", l)]
    for i in bad[:10]:
        first = max((k for k in range(i) if said[k].startswith("[ RUN ")), default=max(0, i - 30))
        print("\n".join(said[max(first, i - 30):i + 1]))
    if not bad:
        print("\n".join(said[-40:]))
PY
}
# run DIR ARGS... : meson's suites; gtest's own cases are counted from its output
run() {
  local dir=$1 log
  shift
  log="$dir/meson-logs/testlog.txt"
  meson test -C "$dir" --no-rebuild --print-errorlogs "$@" </dev/null 2>&1 | grep -vE '^(ninja|[0-9]+/[0-9]+ .* OK )' || true
  local ok bad skip single
  ok=$(grep -cE '^\[       OK \]' "$log" || true)
  bad=$(grep -cE '^\[  FAILED  \] .*\(.* ms\)$' "$log" || true)
  skip=$(grep -cE '^\[  SKIPPED \] .*\(.* ms\)$' "$log" || true)
  single=$(python3 - "$dir/meson-logs/testlog.json" <<'PY'
import json, sys
ok = bad = skip = 0
for line in open(sys.argv[1]):
    t = json.loads(line)
    if t["result"] == "SKIP":
        skip += 1
        said = ((t.get("stdout") or "") + (t.get("stderr") or "")).strip().splitlines()
        print("  skipped: %s: %s" % (t["name"], said[-1] if said else "?"), file=sys.stderr)
    elif t["result"] in ("OK", "EXPECTEDFAIL"):
        ok += "[ RUN" not in (t.get("stdout") or "")
    else:
        bad += 1
print(ok, bad, skip)
PY
  )
  local whole programs skips
  read -r whole programs skips <<<"$single"
  ok=$((ok + whole)) skip=$((skip + skips))
  # a program that died without a failed case is a failure, too
  [ "$programs" -gt "$bad" ] && bad=$programs
  [ "$bad" = 0 ] || failures "$dir"
  printf '%s: %d passed, %d failed, %d skipped\n' "$dir" "$ok" "$bad" "$skip"
  grep -hE '^.*: Skipped$' -A1 "$log" | grep -vE '^--|Skipped$' | sort | uniq -c | sed 's/^/  skipped: /' || true
  total=$((total + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
}

install_missing
mkdir -p "$B"
: >"$B/failures.txt"

say "gcc: all suites"
build "$B/gcc" gcc g++ --buildtype=debugoptimized
if [ $quick = 1 ]; then
  run "$B/gcc" --no-suite guest
else
  tests/guest/run.sh --fetch || true # the suite says what is missing, and is skipped
  run "$B/gcc"
fi

if [ $quick = 0 ]; then
  say "clang: build with -Werror"
  build "$B/clang" clang clang++ --buildtype=debug -Doptimization=1
  run "$B/clang" --suite unit --suite abi

  say "ASan + UBSan: all suites"
  export ASAN_OPTIONS=detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  # the tests themselves unoptimized: they compile in a third of the time
  build "$B/asan" gcc g++ --buildtype=debug -Doptimization=1 -Dcpp_args=-O0 -Db_sanitize=address,undefined
  run "$B/asan" --suite unit --suite conform --suite integration --suite stress -t 4

  say "TSan: the mover's internals and a mover at work"
  targets="mover/drayd cli/dray tests/unit/store/store_test tests/unit/mover/mover-span tests/unit/mover/mover-config
    tests/unit/mover/mover-units tests/unit/mover/mover-config_diff tests/unit/mover/mover-peer_pick tests/unit/mover/mover-quota_config tests/integration/integration-data tests/integration/integration-order tests/integration/integration-life
    tests/integration/integration-copy tests/integration/integration-poison" \
    build "$B/tsan" clang clang++ --buildtype=debug -Doptimization=1 -Db_sanitize=thread -Db_lundef=false
  TSAN_OPTIONS="halt_on_error=1:suppressions=$PWD/tests/tsan.supp" run "$B/tsan" --suite tsan -t 4

  if grep -q guest-paths "$B/tsan/build.ninja"; then
    say "TSan: the threads of RDMA, in the guest"
    targets="tests/guest/guest-paths tests/guest/guest-peers tests/guest/guest-rdma" build "$B/tsan" clang clang++
    here=$(cd "$B" && pwd)/tsan rc=0
    GUEST_REPORTS=/tmp/tsan TSAN_OPTIONS="log_path=/tmp/tsan:exitcode=0:suppressions=$PWD/tests/tsan.supp" tests/guest/run.sh -t 240 -m 4096 -b "$here" \
      rxe -- "$PWD/tests/guest/inside.sh" rxe "$here" 'WhatAPeerLends*:GuestPeers.ACellIsFound*:GuestPaths.OneOfTwoThatDies*' >"$B/tsan-guest.log" 2>&1 </dev/null || rc=$?
    n=$(grep -cE '^\[       OK \]' "$B/tsan-guest.log" || true)
    printf 'guest: exit code %d, %d passed\n' "$rc" "$n"
    total=$((total + n))
    if [ "$rc" = 77 ]; then
      skipped=$((skipped + 1))
      tail -1 "$B/tsan-guest.log"
    elif [ "$rc" != 0 ]; then
      failed=$((failed + 1))
      tail -80 "$B/tsan-guest.log" | tee -a "$B/failures.txt"
    fi
  fi

  say "fuzz: $FUZZ_SECONDS s each"
  targets="tests/fuzz/fuzz-take tests/fuzz/fuzz-config tests/fuzz/fuzz-profile tests/fuzz/fuzz-handshake
    tests/fuzz/fuzz-keep tests/fuzz/fuzz-slots tests/fuzz/fuzz-trace tests/fuzz/fuzz-script tests/fuzz/fuzz-peer" \
    build "$B/fuzz" clang clang++ --buildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false -Dfuzz=enabled -Dtests=enabled
  fuzzers='take config profile handshake keep slots trace script peer'
  fuzz_one() {
    mkdir -p "$B/fuzz-corpus/$1"
    local rc=0
    ASAN_OPTIONS=detect_leaks=1 "$B/fuzz/tests/fuzz/fuzz-$1" -max_total_time="$FUZZ_SECONDS" -max_len=4096 -print_final_stats=1 \
      -artifact_prefix="$B/fuzz-corpus/$1-" "$B/fuzz-corpus/$1" "tests/fuzz/corpus/$1" >"$B/fuzz-$1.log" 2>&1 </dev/null || rc=$?
    echo "$rc" >"$B/fuzz-$1.rc"
  }
  for f in $fuzzers; do # two at a time: each has a core
    fuzz_one "$f" &
    [ "$(jobs -rp | wc -l)" -lt 2 ] || wait -n || true
  done
  wait
  for f in $fuzzers; do
    if [ "$(cat "$B/fuzz-$f.rc" 2>/dev/null)" = 0 ]; then
      printf 'fuzz-%s: %s runs, no finding\n' "$f" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$B/fuzz-$f.log")"
      total=$((total + 1))
    else
      tail -40 "$B/fuzz-$f.log" | tee -a "$B/failures.txt"
      failed=$((failed + 1))
    fi
  done

  say "clang-format"
  if command -v clang-format >/dev/null; then
    n=$(clang-format --dry-run $(git ls-files '*.c' '*.h' 2>/dev/null || find base bench cli include mover policy ring tests transports -name '*.[ch]') 2>&1 | grep -c 'warning:' || true)
    printf 'lines that clang-format would change: %s\n' "$n"
    failed=$((failed + (n > 0)))
  fi
fi

if [ -s "$B/failures.txt" ]; then
  say "what failed"
  cut -c -300 "$B/failures.txt"
fi

say "count"
printf 'tests: %d passed, %d failed, %d skipped\n' "$total" "$failed" "$skipped"
[ "$failed" = 0 ]
