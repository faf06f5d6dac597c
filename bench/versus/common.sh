# SPDX-License-Identifier: Apache-2.0
# What the scripts of this folder share. Each sources it, runs, and prints lines "name ours theirs ratio".
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${BUILD_DIR:-$here/../../build}
dray=${DRAY:-$build/cli/dray}
rounds=${ROUNDS:-9}
work=$(mktemp -d "${TMPDIR:-/tmp}/dray-versus.XXXXXX")
trap 'rm -rf "$work"' EXIT

skip() { printf '# skipped: %s\n' "$1" >&2; exit 77; }
[ -x "$dray" ] || skip "$dray is not built: meson setup build && ninja -C build, or BUILD_DIR"
command -v python3 >/dev/null || skip "python3 is not here"

# rows PATTERN: of the JSON on standard input, what is compared and whose name matches
rows() {
  python3 -c '
import json, re, sys
for r in json.load(sys.stdin)["results"]:
    if r.get("ratio") and re.search(sys.argv[1], r["name"]):
        print(r["name"], r["median"], r["versus_median"], r["ratio"], "%s; %s, %s rounds, %s%s" % (
            r["unit"], r["versus"], r["rounds"], "verified" if r["verified"] else "NOT VERIFIED",
            "; bar %s %s" % (r["bar"], "met" if r["met"] else "short") if "bar" in r else ""), sep="\t")' "$1"
}
