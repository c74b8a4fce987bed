#!/usr/bin/env python3
"""Whom admission refuses, on the traces of the routing pages: docs/results/routing-overload.md.

    scripts/routing/overload.py [KVIST] [--workload NAME]... [--seeds N] [--jobs N] [--output PAGE]

Every workload below and above the capacity, with admission as a gateway has it by default and without. Deterministic."""
import concurrent.futures
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import capacity  # noqa: E402
import document  # noqa: E402
import figures  # noqa: E402
import page  # noqa: E402
import simulation  # noqa: E402
import workloads  # noqa: E402

WORKLOADS = ["chat", "long_prompts", "retrieval", "agents", "code_completion", "short_answers", "reasoning", "mixture", "day", "large_fleet"]
LOADS = [60, 80, 95, 120]
SETTINGS = {"with": ", admission: {enabled: true}", "without": ""}


def of_trace(kvist, folder, workload, load, seed):
    """{setting: figures} of one trace."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
    trace = folder.with_suffix(".jsonl")
    workload.write_trace(kvist, trace, capacity.known()[workload.name] * load / 100, seed)
    ideal = simulation.ideal_of_trace(kvist, folder, workload, trace)
    found = {}
    for name, gateway in SETTINGS.items():
        turns = simulation.run_trace(kvist, folder.with_name(f"{folder.name}-{name}"), workload, trace, ["kv"], gateway=gateway)["kv"]
        found[name] = figures.of_turns(turns, ideal, workload.warmup)
    trace.unlink()
    return found


def table(measured):
    rows = []
    for workload, load, runs in measured:
        mean = {name: {figure: statistics.mean(run[name][figure] for run in runs) for figure in runs[0][name]} for name in SETTINGS}

        def both(figure, show):
            return [show(mean[name][figure]) for name in SETTINGS]

        rows.append([f"`{workload}`" if load == LOADS[0] else "", f"{load} %", f"{mean['with']['failed']:.1f} %",
                     *both("goodput", lambda value: f"{value:.1f} %"), *both("ttft_p50", lambda value: f"{value / 1e3:.2f} s"),
                     *both("ttft_p95", lambda value: f"{value / 1e3:.1f} s"), *both("tokens_per_s", lambda value: f"{value:,.0f}")])
    return document.table(["workload", "load", "refused", "goodput", "without", "TTFT p50", "without", "TTFT p95", "without", "tokens/s", "without"], rows)


def main():
    options = page.parse_options(__doc__, WORKLOADS, "routing-overload.md")
    kvist = options.kvist.resolve()
    seeds = [workloads.FIRST_SEED + i for i in range(options.seeds)]
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        measured = [(workload.name, load, [pool.submit(of_trace, kvist, name, workload, load, seed) for seed in seeds])
                    for workload in map(workloads.find, options.workload or WORKLOADS) for load in LOADS]
        measured = [(workload, load, [task.result() for task in tasks]) for workload, load, tasks in measured]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(INTRODUCTION.format(seeds=len(seeds), first=seeds[0]) + table(measured))
    print(options.output)


INTRODUCTION = f"""# Whom admission refuses, simulated

Made by `make routing-overload` in virtual time: workloads of [Routing policies, simulated](routing.md) under `kv`, {{seeds}} traces each with seeds
from {{first}} on, with [admission](../guide/gateway.md#overload) as a gateway has it by default, and without. [What it rests on](../design/overload.md).

*Refused* is the share of turns that got no answer. A refused turn ends its conversation, whose later turns count as refused too: of an agent's forty
turns one refusal takes twenty on average. A client that comes back after `Retry-After` loses less. *Goodput* is the share of all turns with a TTFT of at most
{figures.MOST_SLOWDOWN} times the ideal one and a TPOT of at most {figures.MOST_TPOT_MS} ms; the other figures are of those that were answered.

"""


if __name__ == "__main__":
    main()
