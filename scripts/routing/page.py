#!/usr/bin/env python3
"""Simulates workloads x loads x policies and writes docs/results/routing.md with its plots.

    scripts/run-routing [KVIST] [--short] [--seeds N] [--workload NAME]... [--find-capacity] [--output PAGE]
                        [--render] [--again MODE]

KVIST: the binary (build/release/bin/kvist), with kvist-laboratory beside it. Deterministic: the same binary writes the same page.
--short: a few workloads, policies and loads with one seed, in a minute, into out/routing-short.md: for every day.
--render: writes the whole page again from the figures of the last run (out/routing.figures), for a change of its words.
--again: the same, but measures one of the modes again, for a change that no other is concerned by.
--find-capacity: searches each fleet's capacity again and writes scripts/routing/capacities.json (otherwise only what is missing)."""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import pickle
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import capacity  # noqa: E402
import chat  # noqa: E402
import document  # noqa: E402
import figures  # noqa: E402
import simulation  # noqa: E402
import workloads  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODES = ["kv", "clairvoyant", "dynamo", "sglang", "smg", "vllm_kv_aware", "llm_d", "lmetric", "smetric", "preble", "session", "bounded_hash",
         "least_loaded", "power_of_two", "round_robin", "random"]
FIGURES = ROOT / "out/routing.figures"
LOADS = [30, 60, 80, 95, 120]
SHORT_MODES = ["kv", "clairvoyant", "dynamo", "llm_d", "lmetric", "smetric", "round_robin"]
SHORT_LOADS = [60, 95]
SHORT_WORKLOADS = ["chat", "long_prompts", "retrieval", "agents", "code_completion", "mixture"]
SHORT_SECONDS = 240


def measure(kvist, folder, workload, rate, seed, modes):
    turns, ideal = simulation.measure(kvist, folder, workload, rate, seed, modes)
    return {mode: figures.of_turns(turns[mode], ideal, workload.warmup) for mode in modes}


def of_trace(modes, load, number):
    """The modes on one of the traces, counted from 0. The oracle rolls every engine forward for each request, through all that wait there: beyond
    saturation that takes longer than all other modes together, so that it has the first trace alone there."""
    return [mode for mode in modes if mode != figures.ORACLE or number == 0 or load <= 100]


def find_capacities(kvist, chosen, again, pool):
    known = {} if again else capacity.known()
    missing = [workload for workload in chosen if workload.name not in known]
    found = dict(zip([workload.name for workload in missing], pool.map(lambda workload: capacity.search(kvist, workload), missing)))
    if found:
        print("capacities:", ", ".join(f"{name} {value:g}" for name, value in found.items()), flush=True)
        capacity.remember(found)
    return known | found


def measure_all(kvist, chosen, capacities, loads, modes, seeds, pool):
    """The cells of each workload by its name, in the order of the loads."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tasks = {}
        for workload in chosen:
            for load in loads:
                rate = capacities[workload.name] * load / 100
                tasks[workload.name, load] = [
                    pool.submit(measure, kvist, folder, workload, rate, workloads.FIRST_SEED + i, of_trace(modes, load, i))
                    for i in range(min(workload.seeds, seeds or workload.seeds))]
        cells = {}
        for workload in chosen:
            begun = time.monotonic()
            for load in loads:
                runs = [task.result() for task in tasks[workload.name, load]]
                cells.setdefault(workload.name, []).append(figures.Cell(load, capacities[workload.name] * load / 100, runs))
            missed = sum(len(cell.misses()) for cell in cells[workload.name])
            print(f"{workload.name}: {missed} bars missed, {time.monotonic() - begun:.0f} s", flush=True)
        return cells


def measure_again(kvist, cells, mode, pool):
    with tempfile.TemporaryDirectory() as name:
        runs = [(workloads.find(workload), cell.rate, number, run)
                for workload, of in cells.items() for cell in of for number, run in enumerate(cell.runs) if of_trace([mode], cell.load, number)]
        for _ in pool.map(lambda of: of[3].update(measure(kvist, pathlib.Path(name), *of[:2], workloads.FIRST_SEED + of[2], [mode])), runs):
            pass


def parse_options(about, names, output):
    """What the other pages' programs are asked for: some of the named workloads, how often, and where the page goes."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvist", nargs="?", default=ROOT / "build/release/bin/kvist", type=pathlib.Path)
    parser.add_argument("--workload", action="append", choices=names)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/results" / output)
    return parser.parse_args()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvist", nargs="?", default=ROOT / "build/release/bin/kvist", type=pathlib.Path)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seeds", type=int, help="at most so many per workload")
    parser.add_argument("--workload", action="append", choices=[workload.name for workload in workloads.WORKLOADS])
    parser.add_argument("--find-capacity", action="store_true")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--again", choices=[*MODES, figures.SHIPPED])
    options = parser.parse_args()
    kvist = options.kvist.resolve()
    if (options.render or options.again) and (options.short or options.workload):
        parser.error("--render and --again are for the whole page")
    if not kvist.exists():
        raise SystemExit(f"run-routing: {kvist} is not there: `make build` first")
    names = options.workload or (SHORT_WORKLOADS if options.short else [workload.name for workload in workloads.WORKLOADS])
    chosen = [workloads.find(name) for name in names]
    modes, loads = (SHORT_MODES, SHORT_LOADS) if options.short else ([*MODES, figures.SHIPPED], LOADS)
    partial = options.short or options.workload
    page = options.output or ROOT / ("out/routing-short.md" if partial else "docs/results/routing.md")
    seeds = options.seeds or (1 if options.short else None)
    if (options.render or options.again) and not partial:
        cells, paired = pickle.loads(FIGURES.read_bytes())
        if options.again:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                measure_again(kvist, cells, options.again, pool)
            FIGURES.write_bytes(pickle.dumps((cells, paired)))
    else:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            capacities = find_capacities(kvist, chosen, options.find_capacity, pool)
            if options.short:
                chosen = [dataclasses.replace(workload, seconds=min(workload.seconds, SHORT_SECONDS)) for workload in chosen]
            cells = measure_all(kvist, chosen, capacities, loads, modes, seeds, pool)
            paired = []
            if not partial:
                with tempfile.TemporaryDirectory() as folder:
                    paired = chat.rows(kvist, pathlib.Path(folder), pool)
                FIGURES.parent.mkdir(exist_ok=True)
                FIGURES.write_bytes(pickle.dumps((cells, paired)))
    page.parent.mkdir(parents=True, exist_ok=True)
    document.write(page, chosen, cells, paired, kvist.with_name("kvist-laboratory"))
    print(document.summary(cells))
    print(page)


if __name__ == "__main__":
    main()
