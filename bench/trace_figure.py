#!/usr/bin/env python3
"""Draws docs/figures/trace-burst.svg: DARC and MQ on the same burst, from traces of the simulator.

    bench/trace_figure.py [--loadgen PROGRAM]

Without a program it builds a release one. The simulator's traces are the same on every machine, and so is the picture.
"""

import argparse
import html
import json
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/figures/trace-burst.svg"
WORKLOAD = """
name = "burst"
arrivals = "bursty"
bursts = { factor = 8.0, share = 0.1, requests = 60.0 }
[[type]]
name = "short"
share = 0.9
service_us = 10.0
[[type]]
name = "long"
share = 0.1
service_us = 500.0
"""
WORKERS, FROM_MS, MS = 4, 37.0, 4.0
# As on live servers: a request that gave way goes on at its own worker, and switching costs time.
SETTINGS = ["migrates=false", "preempt-ns=1000", "switch-ns=500"]
POLICIES = [("darc", "DARC", []), ("mq", "MQ, quanta of 25 us", ["mq.quantum-us=25"])]

# As in the other figures.
COLOURS = {"short": "#0072b2", "long": "#d55e00"}
INK, FAINT, GRID = "#282828", "#6e6e6e", "#d6d6d6"
WIDTH, LEFT, RIGHT, TOP = 960, 86, 16, 58
ROW, GAP, QUEUE, PANEL_GAP = 20, 4, 74, 58
DARK = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(0.93) hue-rotate(180deg); } }</style>"


def simulate(loadgen, folder, policy, settings):
    """The events of the file."""
    workload, trace = Path(folder) / "burst.toml", Path(folder) / f"{policy}.json"
    workload.write_text(WORKLOAD)
    sets = [word for setting in SETTINGS + settings for word in ("--set", setting)]
    subprocess.run(
        [loadgen, "sim", "--workload", workload, "--policy", policy, "--workers", str(WORKERS), "--load", "0.75",
         "--requests", "40000", *sets, "--trace", trace, "--trace-from-ms", str(FROM_MS), "--trace-ms", str(MS)],
        check=True, stdout=subprocess.DEVNULL)
    file = json.loads(trace.read_text())
    assert file["otherData"]["dropped"] == 0
    return file["traceEvents"]


def x(us):
    return LEFT + us / (MS * 1000) * (WIDTH - LEFT - RIGHT)


def text(at, y, words, anchor="start", size=12, colour=INK, weight="normal"):
    return (f'<text x="{at:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" font-weight="{weight}" '
            f'text-anchor="{anchor}">{html.escape(words)}</text>')


def latencies(events):
    """Per type, times from arrival to reply of the requests whose both are in the picture, in us."""
    begun, found = {}, {name: [] for name in COLOURS}
    for event in events:
        if event.get("cat") == "request" and event["name"] in COLOURS:
            if event["ph"] == "b" and "arrived" not in event["args"]:
                begun[event["id"]] = event["ts"]
            elif event["ph"] == "e" and event["id"] in begun and event["args"]["end"] == "replied":
                found[event["name"]].append(event["ts"] - begun[event["id"]])
    return found


def panel(events, title, top):
    """A row for each worker, with a box for each turn; below, how many requests wait."""
    out = [text(LEFT, top - 12, title, size=14, weight="bold")]
    said = []
    for name, times in latencies(events).items():
        times.sort()
        said.append(f"{name}: {len(times)} replies, median {times[len(times) // 2]:.0f} us, longest {times[-1]:.0f} us")
    out.append(text(WIDTH - RIGHT, top - 12, "; ".join(said), "end", 12, FAINT))
    for worker in range(WORKERS):
        y = top + worker * (ROW + GAP)
        out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{ROW}" fill="#eeeeee"/>')
        out.append(text(LEFT - 8, y + ROW - 6, f"worker {worker}", "end"))
    for turn in (event for event in events if event["ph"] == "X"):
        y, left = top + (turn["tid"] - 1) * (ROW + GAP), x(turn["ts"])
        width = max(x(turn["ts"] + turn["dur"]) - left, 0.6)
        # A line between two turns shows where one gave way.
        shown = max(width - 0.7, 0.5) if turn["args"]["end"] == "gave way" else width
        out.append(f'<rect x="{left:.2f}" y="{y}" width="{shown:.2f}" height="{ROW}" '
                   f'fill="{COLOURS[turn["name"]]}"/>')
    base = top + WORKERS * (ROW + GAP) + QUEUE
    counts = {name: [(0.0, 0)] for name in COLOURS}
    for event in (event for event in events if event["ph"] == "C"):
        counts[event["name"].removeprefix("waiting ")].append((event["ts"], event["args"]["requests"]))
    return out, counts, base


def queues(counts, base, highest):
    out = []
    for tick in (0, highest):
        y = base - tick / highest * (QUEUE - 14)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{GRID}"/>')
        out.append(text(LEFT - 8, y + 4, str(tick), "end", 11, FAINT))
    out.append(text(LEFT - 8, base - QUEUE / 2 + 8, "waiting", "end"))
    for name, steps in counts.items():
        points, before = [], 0
        for ts, requests in [*steps, (MS * 1000, steps[-1][1])]:
            points += [(x(ts), before), (x(ts), requests)]
            before = requests
        path = " ".join(f"{px:.1f},{base - value / highest * (QUEUE - 14):.1f}" for px, value in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.3"/>')
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loadgen")
    options = parser.parse_args()
    if not options.loadgen:
        subprocess.run(["cargo", "build", "--release", "--bin", "psp-loadgen"], cwd=ROOT, check=True)
    loadgen = options.loadgen or ROOT / "target/release/psp-loadgen"
    out, panels, top = [], [], TOP + 24
    with tempfile.TemporaryDirectory() as folder:
        for policy, title, settings in POLICIES:
            drawn, counts, base = panel(simulate(loadgen, folder, policy, settings), title, top)
            out += drawn
            panels.append((counts, base))
            top = base + PANEL_GAP
    highest = max(requests for counts, _ in panels for steps in counts.values() for _, requests in steps)
    for counts, base in panels:
        out += queues(counts, base, max(highest, 1))
    bottom = panels[-1][1]
    for ms in range(int(MS) + 1):
        out.append(text(x(ms * 1000), bottom + 18, f"{ms} ms", "middle", 11, FAINT))
    legend = LEFT
    for name, colour in COLOURS.items():
        out.append(f'<rect x="{legend}" y="36" width="12" height="12" fill="{colour}"/>')
        out.append(text(legend + 18, 46, f"{name} requests"))
        legend += 130
    note = "Boxes are turns; a white line ends one that gave way. Below: requests that wait for a worker."
    out.append(text(WIDTH - RIGHT, 46, note, "end", 11, FAINT))
    head = text(LEFT, 22, "One burst under two policies, 4 workers", size=16, weight="bold")
    height = bottom + 34
    PICTURE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif">\n{DARK}\n'
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>\n' + "\n".join([head, *out]) + "\n</svg>\n")
    print(PICTURE)


main()
