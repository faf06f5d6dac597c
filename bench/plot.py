#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the plots of docs/SCALING.md from `dray bench scale --json` (one file) and writes them beside that page.

  bench/plot.py scale.json docs/scaling
  bench/plot.py --lanes ONE TWO LIMIT docs/scaling     GB/s of one and two lanes, and what the memory gives: the model

No library but Python's own: the pictures are SVG text.
"""
import json
import math
import sys

W, H, LEFT, TOP, RIGHT, BOTTOM = 520, 300, 64, 28, 150, 44
COLOURS = ["#1f5fa8", "#b06a1c", "#3a9a4a", "#8a3a8a"]


def ticks(lo, hi, log):
    if log:
        return [10**k for k in range(math.floor(math.log10(lo)), math.ceil(math.log10(hi)) + 1) if lo <= 10**k <= hi * 1.001]
    step = 10 ** math.floor(math.log10(hi / 4))
    step *= next(k for k in (1, 2, 5, 10) if hi / (k * step) <= 6)
    return [i * step for i in range(int(hi / step) + 1)]


def short(v):
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if v >= size:
            return f"{v / size:g}{unit}"
    return f"{v:g}"


def plot(path, title, xlabel, ylabel, lines, logx=True, dashed=()):
    """lines: {name: [(x, y), ...]}"""
    xs = [x for l in lines.values() for x, _ in l]
    ys = [y for l in lines.values() for _, y in l]
    x0, x1, y1 = min(xs), max(xs), max(ys) * 1.15

    def px(x):
        t = math.log(x / x0) / math.log(x1 / x0) if logx else (x - x0) / (x1 - x0)
        return LEFT + t * (W - LEFT - RIGHT)

    def py(y):
        return H - BOTTOM - y / y1 * (H - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{W}" height="{H}" font-family="sans-serif" font-size="12">',
           f'<rect width="{W}" height="{H}" fill="#fff"/>', f'<text x="{LEFT}" y="16" font-weight="bold">{title}</text>']
    for y in ticks(0, y1, False):
        out.append(f'<line x1="{LEFT}" x2="{W - RIGHT}" y1="{py(y):.1f}" y2="{py(y):.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{py(y) + 4:.1f}" text-anchor="end">{short(y)}</text>')
    for x in sorted(set(xs)) if len(set(xs)) < 9 else ticks(x0, x1, True):
        out.append(f'<text x="{px(x):.1f}" y="{H - BOTTOM + 16}" text-anchor="middle">{short(x)}</text>')
    out.append(f'<text x="{(LEFT + W - RIGHT) / 2}" y="{H - 8}" text-anchor="middle">{xlabel}</text>')
    out.append(f'<text x="14" y="{(TOP + H - BOTTOM) / 2}" transform="rotate(-90 14 {(TOP + H - BOTTOM) / 2})" text-anchor="middle">{ylabel}</text>')
    for i, (name, points) in enumerate(lines.items()):
        c = COLOURS[i % len(COLOURS)]
        dash = ' stroke-dasharray="5 4"' if name in dashed else ""
        out.append(f'<polyline fill="none" stroke="{c}" stroke-width="2"{dash} points="' + " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points) + '"/>')
        if name not in dashed:
            out += [f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="3" fill="{c}"/>' for x, y in points]
        out.append(f'<text x="{W - RIGHT + 10}" y="{TOP + 16 + 18 * i}" fill="{c}">{name}</text>')
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


def series(rows, prefix):
    found = sorted((int(r["name"].rsplit(".", 1)[1]), r["median"]) for r in rows if r["name"].startswith(prefix + "."))
    if not found:
        sys.exit(f"plot: no row {prefix}.N in this report")
    return found


def model(one, two, limit):
    """Universal scalability without the quadratic term (two points cannot tell it): n / (1 + s (n - 1)), below the limit."""
    s = max(0.0, 2 * one / two - 1)
    lanes = [1, 2, 4, 8, 16, 32, 64]
    free = [(n, one * n / (1 + s * (n - 1))) for n in lanes]
    return s, free, [(n, min(v, limit)) for n, v in free]


def main(argv):
    if len(argv) == 5 and argv[0] == "--lanes":
        one, two, limit = map(float, argv[1:4])
        s, free, held = model(one, two, limit)
        print(f"serial share {s:.3f}; 64 lanes: {free[-1][1]:.1f} GB/s by the fit, {held[-1][1]:.1f} by this machine's memory")
        plot(argv[4] + "/lanes.svg", "Copy by lanes (model beyond 2)", "lanes", "GB/s",
             {"measured": [(1, one), (2, two)], "model": free, "this memory": held}, dashed=("model", "this memory"))
        return
    if len(argv) != 2:
        sys.exit(__doc__)
    with open(argv[0], encoding="utf-8") as f:
        rows = json.load(f)["results"]
    out = argv[1]
    plot(out + "/sessions-cost.svg", "A NOP, bursts of 32 by every session", "sessions", "ns",
         {"one lane": series(rows, "scale.sessions.cost")})
    plot(out + "/sessions-rss.svg", "Memory of the mover for a session", "sessions", "bytes",
         {"resident": series(rows, "scale.sessions.rss")})
    plot(out + "/cells-stat.svg", "A STAT of a random key, 32 in a BATCH", "cells", "ns",
         {"one lane": series(rows, "scale.cells.stat")})
    plot(out + "/cells-bytes.svg", "Directory bytes for a cell", "cells", "bytes",
         {"directory": series(rows, "scale.cells.directory")})


main(sys.argv[1:])
