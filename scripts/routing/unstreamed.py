#!/usr/bin/env python3
"""Routing where clients do not stream: docs/results/routing-unstreamed.md.

    scripts/routing/unstreamed.py [KVIST] [--workload NAME]... [--seeds N] [--jobs N] [--output PAGE]

A gateway sees nothing of an answer that is not streamed before its end. How much worse kv is for that, how it then stands among the other
policies, and whether it learns from such answers alone when its priors are wrong by a factor of ten. Deterministic."""
import concurrent.futures
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import capacity  # noqa: E402
import document  # noqa: E402
import figures  # noqa: E402
import learning  # noqa: E402
import page  # noqa: E402
import simulation  # noqa: E402
import workloads  # noqa: E402

WORKLOADS = ["chat", "long_prompts", "retrieval", "agents", "code_completion", "short_answers", "mixture"]
LOADS, SHARES = [60, 80, 95], [0.5, 1]
OTHERS = ["dynamo", "sglang", "llm_d", "lmetric", "smetric", "session", "round_robin"]
FIGURES = ["ttft_p50", "ttft_p95", "ttft_p99", "tpot_p50"]
PRIORS = [("all x 10", 10), ("all / 10", 0.1)]
PRIOR_LOAD = 80


def measure(kvist, folder, workload, load, seed, modes, share, prior=""):
    """{mode: {figure: value}} of one trace."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
    trace = folder.with_suffix(".jsonl")
    workload.write_trace(kvist, trace, capacity.known()[workload.name] * load / 100, seed)
    turns = simulation.run_trace(kvist, folder, workload, trace, modes, gateway=prior, changes=f", unstreamed_share: {share:g}" if share else "")
    trace.unlink()
    return {mode: figures.of_turns(turns[mode], lambda turn: turn.ttft, workload.warmup) for mode in modes}


class Runs:
    """The traces of a workload at a load, simulated side by side."""

    def __init__(self, pool, seeds, kvist, folder, workload, load):
        self.submit = lambda *what: [pool.submit(measure, kvist, folder, workload, load, workloads.FIRST_SEED + i, *what) for i in range(seeds)]
        self.tasks = {}

    def want(self, name, *what):
        self.tasks[name] = self.submit(*what)

    def of(self, name):
        return [task.result() for task in self.tasks[name]]


def ratio(runs, others, figure):
    """kv's mean as a multiple of another's."""
    return statistics.mean(run["kv"][figure] for run in runs) / statistics.mean(run["kv"][figure] for run in others)


def beside(runs, figure):
    """kv's mean as a multiple of the best other policy's; bold where the bar is missed."""
    best, mode = min((statistics.mean(run[mode][figure] for run in runs), mode) for mode in OTHERS)
    found = statistics.mean(run["kv"][figure] for run in runs) / best
    bar = figures.TPOT_BAR if figure == "tpot_p50" else figures.WAIT_BAR
    return f"{found:.2f}" if found <= bar else f"**{found:.2f} {mode}**"


def shares_table(measured):
    rows, missed, cells = [], 0, 0
    for name, load, runs in measured:
        for share in SHARES:
            mine = [beside(runs.of(share), figure) for figure in FIGURES]
            missed, cells = missed + sum(cell.startswith("*") for cell in mine), cells + len(mine)
            rows.append([name, f"{load} %", f"{100 * share:.0f} %", *[f"{ratio(runs.of(share), runs.of(0), figure):.2f}" for figure in FIGURES], *mine])
    titles = [figures.TITLES[figure] for figure in FIGURES]
    return document.table(["workload", "load", "not streamed", *titles, *[f"{title} beside others" for title in titles]], rows), missed, cells


def priors_table(measured):
    rows = [[name, prior, *[f"{ratio(runs.of(prior), runs.of(1), figure):.2f}" for figure in FIGURES]]
            for name, load, runs in measured if load == PRIOR_LOAD for prior, _ in PRIORS]
    return document.table(["workload", "prior", *[figures.TITLES[figure] for figure in FIGURES]], rows)


def main():
    options = page.parse_options(__doc__, WORKLOADS, "routing-unstreamed.md")
    kvist = options.kvist.resolve()
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        measured = []
        for workload in map(workloads.find, options.workload or WORKLOADS):
            for load in LOADS:
                runs = Runs(pool, options.seeds, kvist, pathlib.Path(name), workload, load)
                runs.want(0, ["kv"], 0)
                for share in SHARES:
                    runs.want(share, ["kv", *OTHERS], share)
                for prior, factor in PRIORS if load == PRIOR_LOAD else []:
                    runs.want(prior, ["kv"], 1, learning.prior(learning.PRIOR, factor))
                measured.append((workload.name, load, runs))
        table, missed, cells = shares_table(measured)
        text = INTRODUCTION.format(seeds=options.seeds, first=workloads.FIRST_SEED, others=", ".join(f"`{mode}`" for mode in OTHERS), missed=missed, cells=cells)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text + table + PRIORS_TEXT + priors_table(measured))
    print(options.output)


INTRODUCTION = """# Routing where clients do not stream, simulated

Made by `make routing-unstreamed` in virtual time: workloads of [Routing policies, simulated](routing.md), {seeds} traces each with seeds from
{first} on. Of a share of the requests the gateway sees nothing before the answer is there ([how it then
knows who waits](../guide/routing.md)). The times are those of the engines: such a client sees the end only.

The first four figures are `kv`'s as a multiple of its own where all answers are streamed. The last four are `kv`'s as a multiple of the best other
policy ({others}), with the same answers not streamed; bold where it is more than the bar allows (1.05, TPOT 1.03): {missed} of {cells}. The
others have what `kv` assumes, too: their queues would otherwise hold each such request until its end.

"""
PRIORS_TEXT = f"""
## Priors that are wrong by ten

Nothing is streamed, and the gateway's `latency_prior` is wrong in all terms: what it knows of the engines it learns from whole answers. The
figures are a multiple of those with the right prior, at {PRIOR_LOAD} % of the capacity; the time in which it learns is in them.

"""


if __name__ == "__main__":
    main()
