#!/usr/bin/env python3
"""Compares routing modes on real processes with the same in virtual time.

Three loads on three timed workers, each as `kvist sweep` (real processes) and as `kvist simulate`: round-robin, Dynamo's cost and kv
  slots  conversations at half of the batch slots and at 15 of 16 (examples/sweeps/routing-live.yaml)
  mixed  prompts of 200 to 60,000 tokens in open arrivals, a third of them behind one of six documents
  short  short answers on fast engines, few hot prefixes: one turn of 3,000 tokens and 100 tokens of answer at a time
Prints TTFT p50, p95 and p99, TPOT p50 and output tokens/s of both. Where virtual time sees a difference of more than --clear percent between two
modes, the order has to be the same live. kv has to be best, or within 5 percent, in every figure. Exit status 1 where one of the two is not so.

usage: routing_live.py KVIST [--load slots|mixed|short]... [--clear PERCENT] [--write MARKDOWN]
"""
import argparse
import itertools
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

import mixed_trace
from deviation_table import quantile, write_between_markers

ROOT = pathlib.Path(__file__).parents[1]
MODES = ("round_robin", "dynamo", "kv")
# Name, what it is printed as, its unit, whether more is better.
FIGURES = (("ttft_p50", "TTFT p50", "ms", False), ("ttft_p95", "TTFT p95", "ms", False), ("ttft_p99", "TTFT p99", "ms", False),
           ("tpot_p50", "TPOT p50", "ms", False), ("tokens_per_s", "Tokens/s", "", True))
BAR = 1.05  # of the best mode in that figure

MIXED = """name: mixed
deployment:
  name: three-8b
  gateway: {{mode: round_robin}}
  workers:
    count: 3
    block_size: 32
    max_batch_size: 64
    max_num_tokens: 8192
    max_model_len: 66000
    profile: {{gpu: h200, model: llama-3.1-8b-fp8, engine: vllm, tensor_parallel: 1, memory_fraction: 0.90}}
workload: {{trace: {{file: {trace}}}, request_timeout: 120 s}}
method: {{warmup: 6 s, snapshots: 1, snapshot_interval: {window} s, window: {window} s, drain_timeout: 60 s}}
modes: [{modes}]
levels: [1]
output_directory: out
"""
MIXED_SECONDS, MIXED_RATE = 60, 5.0

SHORT = """name: short
deployment:
  name: three-fast
  gateway: {{mode: round_robin}}
  workers:
    count: 3
    block_size: 32
    kv_blocks: 11500
    max_batch_size: 64
    max_num_tokens: 2048
    step_time: {{fixed: 10.5 ms, per_prefill_token: 47 us, per_sequence: 35 us, per_kv_token: 20 ns}}
workload: {{seed: 7, turns_min: 1, turns_max: 1, starters: 10, starter_tokens_min: 3000, starter_tokens_max: 3000, max_tokens: 100,
           ignore_eos: true, target_rps: 1000, request_timeout: 60 s}}
method: {{warmup: 4 s, snapshots: 1, snapshot_interval: 14 s, window: 14 s, drain_timeout: 10 s, repetitions: 2}}
modes: [{modes}]
levels: [30, 60]
output_directory: out
"""


def sweep_of(load, folder):
    """The file of a load."""
    if load == "slots":
        return ROOT / "examples/sweeps/routing-live.yaml"
    path = folder / f"{load}.yaml"
    trace = folder / "mixed.jsonl"
    mixed_trace.write(trace, MIXED_SECONDS, MIXED_RATE)
    text = MIXED.format(trace=trace, window=MIXED_SECONDS - 6, modes=", ".join(MODES)) if load == "mixed" else SHORT.format(modes=", ".join(MODES))
    path.write_text(text)
    return path


def measure(kvist, command, sweep, folder):
    """(level, mode) -> figures of one run, over all turns that began in its windows."""
    output = folder / f"{sweep.stem}-{command}"
    done = subprocess.run([kvist, command, "-f", sweep, "--output", output], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"kvist {command} failed:\n{done.stdout}{done.stderr}")
    turns, seconds = {}, {}
    with sqlite3.connect(next(output.glob("**/results.sqlite"))) as store:
        for level, mode, measured in store.execute("SELECT concurrency, mode, SUM(measure_to_ns - measure_from_ns) / 1e9 FROM levels GROUP BY 1, 2"):
            seconds[level, mode] = measured
        for level, mode, outcome, ttft, answer, tokens in store.execute(
                "SELECT concurrency, mode, outcome, (first_token_ns - intended_ns) / 1e6, (last_token_ns - first_token_ns) / 1e6, completion_tokens "
                "FROM turns JOIN levels ON turns.level = levels.id WHERE intended_ns >= measure_from_ns AND intended_ns < measure_to_ns"):
            if outcome != "succeeded":
                sys.exit(f"kvist {command}, {mode}: a turn {outcome}")
            turns.setdefault((level, mode), []).append((ttft, answer, tokens))
    return {key: figures_of(found, seconds[key]) for key, found in turns.items()}


def figures_of(turns, seconds):
    found = {f"ttft_p{100 * share:g}": quantile([ttft for ttft, _, _ in turns], share) for share in (0.5, 0.95, 0.99)}
    return found | {"tpot_p50": quantile([answer / (tokens - 1) for _, answer, tokens in turns if tokens > 1], 0.5),
                    "tokens_per_s": sum(tokens for _, _, tokens in turns) / seconds}


def levels_of(found):
    return sorted({level for level, _ in found})


def differing_orders(load, live, simulated, clear):
    """Pairs of modes that virtual time tells apart and that come out the other way round live."""
    found = []
    for level in levels_of(live):
        for (figure, name, _, _), (a, b) in itertools.product(FIGURES, itertools.combinations(MODES, 2)):
            expected = simulated[level, a][figure] / simulated[level, b][figure]
            if max(expected, 1 / expected) < 1 + clear / 100:
                continue
            seen = live[level, a][figure] / live[level, b][figure]
            if (seen - 1) * (expected - 1) < 0:
                found.append(f"{load} {level}, {name}: {a} / {b} is {expected:.2f} in virtual time and {seen:.2f} live")
    return found


def where_kv_is_not_best(load, live):
    found = []
    for level in levels_of(live):
        for figure, name, _, larger in FIGURES:
            best = (max if larger else min)(live[level, mode][figure] for mode in MODES)
            ratio = best / live[level, "kv"][figure] if larger else live[level, "kv"][figure] / best
            if ratio > BAR:
                found.append(f"{load} {level}, {name}: kv is at {ratio:.2f} of the best")
    return found


def table(runs):
    lines = ["| Load | Level | Mode | " + " | ".join(f"{name} live | simulated" for _, name, _, _ in FIGURES) + " |",
             "| --- | ---: | --- |" + " ---: | ---: |" * len(FIGURES)]
    for load, (live, simulated) in runs.items():
        for level, mode in itertools.product(levels_of(live), MODES):
            cells = []
            for figure, _, unit, _ in FIGURES:
                for value in (live[level, mode][figure], simulated[level, mode][figure]):
                    cells.append(f"{value:,.1f} {unit}" if unit else f"{value:,.0f}")
            lines.append(f"| {load} | {level} | {mode} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kvist", type=pathlib.Path)
    parser.add_argument("--load", action="append", choices=["slots", "mixed", "short"])
    parser.add_argument("--clear", type=float, default=10.0)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    runs, differing, behind = {}, [], []
    with tempfile.TemporaryDirectory() as name:
        for load in options.load or ["slots", "mixed", "short"]:
            folder = pathlib.Path(name)
            sweep = sweep_of(load, folder)
            live = measure(options.kvist.resolve(), "sweep", sweep, folder)
            simulated = measure(options.kvist.resolve(), "simulate", sweep, folder)
            runs[load] = live, simulated
            differing += differing_orders(load, live, simulated, options.clear)
            behind += where_kv_is_not_best(load, live)
    text = table(runs)
    print(text)
    said = ["- " + line for line in [*differing, *behind]]
    order = "The order of the modes" + (" differs:" if differing else f" is the same wherever virtual time sees them {options.clear:g} % apart")
    best = "" if behind else f"{', and ' if not differing else ' '}kv is best or within {100 * BAR - 100:.0f} % in every figure"
    verdict = (order + best + ("." if not said else "")) + ("\n" + "\n".join(said) if said else "")
    print("\n" + verdict)
    if options.write:
        write_between_markers(options.write, "routing-live", text + "\n\n" + verdict)
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()
