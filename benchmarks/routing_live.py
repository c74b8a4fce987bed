#!/usr/bin/env python3
"""Compares the order of routing modes on real processes with that in virtual time.

Runs `kvist sweep` and `kvist simulate` on examples/sweeps/routing-live.yaml (round-robin, Dynamo's cost and kv, at half of the batch slots
and at 15 of 16) and prints, per level and mode, TTFT p50, p95 and output tokens/s of both. The order of two modes is demanded where virtual
time sees a difference of more than --clear percent between them. Exit status 1 where an order differs.

usage: routing_live.py KVIST [--sweep FILE] [--clear PERCENT] [--write MARKDOWN]
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

from deviation_table import write_between_markers

ROOT = pathlib.Path(__file__).parents[1]
METRICS = (("ttft_p50_ms", "TTFT p50", "ms"), ("ttft_p95_ms", "TTFT p95", "ms"), ("tops", "Tokens/s", ""))
REPORT_NAME = {"kv": "kv_aware"}


def measure(kvist, command, sweep, folder):
    """(level, mode) -> figures of one run."""
    output = pathlib.Path(folder) / command
    done = subprocess.run([kvist, command, "-f", sweep, "--output", output], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"kvist {command} failed:\n{done.stdout}{done.stderr}")
    report = json.loads(next(output.glob("*/report.json")).read_text())
    return {(level["concurrency"], mode): level[REPORT_NAME.get(mode, mode)]
            for level in report["levels"] for mode in ("round_robin", "dynamo", "kv")}


def differing_orders(live, simulated, clear):
    """Pairs of modes that virtual time tells apart and that come out the other way round live."""
    found = []
    for level in sorted({key[0] for key in live}):
        for (metric, name, _), (a, b) in itertools.product(METRICS, itertools.combinations(("round_robin", "dynamo", "kv"), 2)):
            expected = simulated[level, a][metric] / simulated[level, b][metric]
            if max(expected, 1 / expected) < 1 + clear / 100:
                continue
            seen = live[level, a][metric] / live[level, b][metric]
            if (seen - 1) * (expected - 1) < 0:
                found.append(f"{level} users, {name}: {a} / {b} is {expected:.2f} in virtual time and {seen:.2f} live")
    return found


def table(live, simulated):
    lines = ["| Users | Mode | " + " | ".join(f"{name} live | simulated" for _, name, _ in METRICS) + " |",
             "| ---: | --- |" + " ---: | ---: |" * len(METRICS)]
    for (level, mode), figures in sorted(live.items(), key=lambda item: (item[0][0], ("round_robin", "dynamo", "kv").index(item[0][1]))):
        cells = []
        for metric, _, unit in METRICS:
            for value in (figures[metric], simulated[level, mode][metric]):
                cells.append(f"{value:,.1f} {unit}".strip() if unit else f"{value:,.0f}")
        lines.append(f"| {level} | {mode} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kvist")
    parser.add_argument("--sweep", default=ROOT / "examples/sweeps/routing-live.yaml")
    parser.add_argument("--clear", type=float, default=10.0)
    parser.add_argument("--write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        live = measure(options.kvist, "sweep", options.sweep, folder)
        simulated = measure(options.kvist, "simulate", options.sweep, folder)
    text = table(live, simulated)
    differing = differing_orders(live, simulated, options.clear)
    print(text)
    print("\n".join(differing) if differing else f"the order of the modes is the same wherever they are {options.clear:g} % apart")
    if options.write:
        write_between_markers(pathlib.Path(options.write), "routing-live", text)
    sys.exit(1 if differing else 0)


main()
