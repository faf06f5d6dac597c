#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the include edges between the folders of the tree and fails on one that docs/ARCHITECTURE.md does not allow.

Also: raw atomics and fences only in include/priv/order.h; vendor headers only below their transport; no file includes upward by "..".
"""
import os
import re
import sys

ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", ".."))
ALLOWED = {
    "include/dray": {"include/dray"},
    "include/priv": {"include/dray", "include/priv"},
    "base": {"include/dray", "include/priv", "base"},
    "ring": {"include/dray", "include/priv", "base", "ring"},
    "policy": {"include/dray", "include/priv", "base", "policy"},
    "transports": {"include/dray", "include/priv", "base", "transports"},
    # what mover owns; knows transports by their header
    "mover/store": {"include/dray", "include/priv", "base", "transports", "mover/store"},
    "mover": {"include/dray", "include/priv", "base", "ring", "policy", "transports", "mover/store", "mover"},
    "bench": {"include/dray", "include/priv", "base", "ring", "policy", "transports", "bench"},
    # like any engine; plan may ask policy
    "cli": {"include/dray", "include/priv", "base", "bench", "cli", "policy", "transports"},
}
FINER = {  # folder -> the only headers it may take from another
    ("bench", "policy"): {"policy/verdict.h", "policy/quota.h"},  # what a verdict costs
    ("bench", "ring"): {"ring/wire.h", "ring/layout.h", "ring/region.h"},
    # the copy path below the mover, measured alone; what a device is, so that none is taken for one
    ("bench", "transports"): {"transports/addressable.h", "transports/device.h"},
    ("cli", "transports"): {"transports/topology.h", "transports/fabric.h"},  # what a machine has, without a mover
    ("mover/store", "transports"): {"transports/transport.h", "transports/xfer.h"},
}
# what a transport shows the mover beside the table of its functions
SHOWN = {"mover": {"transports/rdma/remote.h", "transports/rdma/serve.h"}}
VENDOR = {
    r"liburing\.h": "transports/file",
    r"daxctl/|cxl/libcxl": "transports/cxl",
    r"infiniband/|rdma/": "transports/rdma",
    r"rte_": "ring",
    r"cyaml/": "mover",
    r"systemd/": "mover",
    r"microhttpd\.h": "mover",
    r"sqlite3\.h": ("mover/usage", "cli/usage"),
}
ATOMIC = re.compile(r"__atomic_|__sync_|atomic_thread_fence|stdatomic\.h|_Atomic\b")


def folder(path):
    parts = path.split("/")
    if parts[0] == "include":
        return "/".join(parts[:2])
    if parts[:2] == ["mover", "store"]:
        return "mover/store"
    return parts[0]


def transport_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "transports" and len(parts) > 2 else None


def main():
    bad, edges = [], {}
    for top in ("include", "base", "ring", "policy", "transports", "mover", "bench", "cli"):
        for where, _, files in os.walk(os.path.join(ROOT, top)):
            for name in sorted(files):
                if not name.endswith((".c", ".h")):
                    continue
                path = os.path.relpath(os.path.join(where, name), ROOT)
                text = open(os.path.join(ROOT, path), encoding="utf-8").read()
                me = folder(path)
                for n, line in enumerate(text.splitlines(), 1):
                    m = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
                    if not m:
                        if path != "include/priv/order.h" and ATOMIC.search(line.split("/*")[0]) and "asm" not in line:
                            bad.append(f"{path}:{n}: raw atomic outside include/priv/order.h: {line.strip()}")
                        continue
                    kind, inc = m.groups()
                    if inc.startswith("dray/"):
                        to = "include/dray"
                    elif kind == '"':
                        if ".." in inc:
                            bad.append(f"{path}:{n}: includes are written from the root: {inc}")
                            continue
                        to = folder(inc)
                    else:
                        for pattern, home in VENDOR.items():
                            if re.match(pattern, inc) and not path.startswith(home):
                                bad.append(f"{path}:{n}: <{inc}> belongs below {home}/")
                        continue
                    edges[(me, to)] = edges.get((me, to), 0) + 1
                    if to not in ALLOWED.get(me, set()):
                        bad.append(f"{path}:{n}: {me} may not include {to} ({inc})")
                    if (me, to) in FINER and inc not in FINER[(me, to)]:
                        bad.append(f"{path}:{n}: {me} may take from {to} only {', '.join(sorted(FINER[(me, to)]))}")
                    a, b = transport_of(path), transport_of(inc)
                    if b and a != b and inc not in SHOWN.get(me, set()):
                        bad.append(f"{path}:{n}: a transport's folder is its own ({inc})")
    for (a, b), n in sorted(edges.items()):
        if a != b:
            print(f"{a:14} -> {b:14} {n}")
    for line in bad:
        print("NOT ALLOWED:", line, file=sys.stderr)
    return 1 if bad else 0


sys.exit(main())
