#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libdray exports exactly what the map lists and the public headers declare, all of it under its version node."""
import re
import subprocess
import sys

lib, root = sys.argv[1], sys.argv[2]
exported = set()
for line in subprocess.run(["nm", "-D", "--defined-only", lib], check=True, capture_output=True, text=True).stdout.splitlines():
    name = line.split()[-1]
    if line.split()[-2] in "TWDBR" and not name.startswith("LIBDRAY"):
        base, _, node = name.partition("@@")
        if node != "LIBDRAY_0" and not base.startswith("__asan") and not base.startswith("__odr"):
            sys.exit(f"{name}: not under LIBDRAY_0")
        exported.add(base)
listed = set(re.findall(r"^\s+(dray_\w+);", open(f"{root}/ring/libdray.map").read(), re.M))
declared = set()
for h in ("dray", "admin", "types"):
    declared |= set(re.findall(r"^DRAY_API [^;=]*?\b(dray_\w+)\(", open(f"{root}/include/dray/{h}.h").read(), re.M))
for what, a, b in (("exported but not listed", exported, listed), ("listed but not exported", listed, exported),
                   ("declared but not exported", declared, exported), ("exported but not declared", exported, declared)):
    if a - b:
        sys.exit(f"{what}: {sorted(a - b)}")
print(f"{len(exported)} symbols")
