#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long /metrics takes with 10 tenants and with 1,000, and how many series it has: tests/scrape_time.py BUILD_DIR [ROUNDS]

Two movers side by side, one cell of each tenant, scraped in turns. Prints a figure; exit 1 when 1,000 take more than three
times as long as 10, or have more series than the cap on tenant labels allows.
"""
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

FEW, MANY, LABELS = 10, 1000, 50


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(build, dir, tenants, port):
    with open(os.path.join(dir, "drayd.yaml"), "w") as f:
        f.write("metrics: 127.0.0.1:%d\nlog: warn\ncopy_plan: builtin\ntiers:\n" % port)
        f.write("  - {name: dram, transport: memory, capacity: 1GiB}\n  - {name: cxl, transport: memory, capacity: 1GiB}\n")
        f.write("tenants:\n" + "".join("  - {name: t%d, token: k%d}\n" % (i, i) for i in range(tenants)))
    return subprocess.Popen([os.path.join(build, "mover/drayd"), "--dir", dir, "--config", os.path.join(dir, "drayd.yaml")],
                            stdin=subprocess.DEVNULL)


def scrape(port):
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=10) as r:
        return r.read().decode()


def wait_for(port):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            return scrape(port)
        except OSError:
            time.sleep(0.05)
    sys.exit("drayd did not serve /metrics within 30 s")


def fill(build, dir, tenants):
    cell = os.path.join(dir, "cell")
    with open(cell, "wb") as f:
        f.write(b"x" * 4096)
    for i in range(tenants):
        subprocess.run([os.path.join(build, "cli/dray"), "put", "--socket", os.path.join(dir, "dray.sock"), "--token", "k%d" % i, "--key", "c",
                        cell], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=30)


def main():
    build = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    times, series = {FEW: [], MANY: []}, {}
    with tempfile.TemporaryDirectory(prefix="dray-scrape-") as top:
        movers, ports = [], {}
        try:
            for n in (FEW, MANY):
                dir = os.path.join(top, str(n))
                os.mkdir(dir)
                ports[n] = free_port()
                movers.append(start(build, dir, n, ports[n]))
                wait_for(ports[n])
                fill(build, dir, n)
            for _ in range(rounds):
                for n in (FEW, MANY):
                    at = time.perf_counter()
                    text = scrape(ports[n])
                    times[n].append((time.perf_counter() - at) * 1e9)
                    series[n] = sum(1 for line in text.splitlines() if line and not line.startswith("#"))
                    known = text.count("\ndray_tenant_waits_total{")
                    if known != min(n, LABELS) + 1:
                        sys.exit("%d tenants: %d labels" % (n, known))
        finally:
            for m in movers:
                m.send_signal(signal.SIGTERM)
            for m in movers:
                m.wait(timeout=30)
    few, many = statistics.median(times[FEW]), statistics.median(times[MANY])
    print(json.dumps({"schema_version": 1, "results": [
        {"name": "metrics.scrape.1000tenants", "unit": "ns", "better": "lower", "rounds": rounds, "median": int(many),
         "versus": "metrics.scrape.10tenants", "versus_median": int(few), "ratio": round(many / few, 2),
         "series": series[MANY], "versus_series": series[FEW], "verified": True}]}))
    return 0 if many <= 3 * few else 1


sys.exit(main())
