#!/usr/bin/env python3
"""Requests that wait at the gateway until a worker's cache has room for them: docs/results/routing-hold.md.

    scripts/routing/hold.py [KVIST] [--workload NAME]... [--seeds N] [--jobs N] [--output PAGE]

Agents in a closed loop, whose histories need more memory than there is, under kv with and without `hold` and under other policies; then
what `hold` changes on the traces of the other pages. Deterministic."""
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

WORKLOADS = ["chat", "long_prompts", "retrieval", "agents", "code_completion", "short_answers", "mixture"]
LOADS = [80, 95, 120]
HOLD = ", hold: {enabled: true}"
HELD = "kv with hold"
ADMISSION = ", admission: {enabled: true}"
# Settings of kv in the table of agents; the last one is a gateway's default.
SETTINGS = {HELD: HOLD, "kv with admission": ADMISSION, "kv with both": ADMISSION + HOLD}
SHOWN = {HELD: "**`kv` with `hold`**", "kv with admission": "`kv` with admission", "kv with both": "**`kv` with both, as a gateway has them**"}
USERS = [30, 40, 50, 60, 80]
OTHERS = ["dynamo", "sglang", "llm_d", "lmetric", "smetric", "session", "least_loaded", "round_robin"]
# Of its own beginning, up to 48,000 tokens at the end: 11 of them fill a worker's memory.
AGENTS = "turns_min: 8, turns_max: 20, starters: 0, starter_tokens_min: 6000, starter_tokens_max: 16000, follow_up_tokens_min: 200, " \
         "follow_up_tokens_max: 3000, max_tokens_min: 40, max_tokens: 200, ignore_eos: true, max_start_rate: 5, seed: {seed}"
FLEET = workloads.Fleet(3)
WARMUP, WINDOW = 100, 500
FIGURES = ["ttft_p50", "ttft_p95", "ttft_p99", "ttft_mean", "tpot_p50", "latency_mean"]


def figures_of(turns):
    good = [turn for turn in turns if turn.good]
    waits = [turn.ttft for turn in good]
    return {f"ttft_{name}": figures.percentile(waits, share) for name, share in figures.SHARES} | {
        "turns": len(good), "failed": len(turns) - len(good), "ttft_mean": statistics.mean(waits),
        "tpot_p50": figures.percentile([turn.tpot for turn in good if turn.output > 1], 0.5),
        "latency_mean": statistics.mean(turn.ttft + turn.answer for turn in good),
        "hit_rate": sum(turn.cached for turn in good) / sum(turn.prompt for turn in good)}


def of_users(kvist, folder, users, seed, modes, gateway):
    scenario = simulation.SCENARIO.format(workers=FLEET.yaml(), workload=AGENTS.format(seed=seed), warmup=WARMUP, window=WINDOW,
                                          modes=", ".join(modes), level=users, gateway=gateway, changes="")
    turns = simulation.simulate(kvist, pathlib.Path(tempfile.mkdtemp(dir=folder)), scenario)
    return {mode: figures_of(turns[mode]) for mode in modes}


def of_trace(kvist, folder, workload, load, seed):
    """{name: figures} of kv with and without hold."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
    trace = folder.with_suffix(".jsonl")
    workload.write_trace(kvist, trace, capacity.known()[workload.name] * load / 100, seed)
    found = {name: figures_of(simulation.run_trace(kvist, folder.with_name(folder.name + name[2:].replace(" ", "-")), workload, trace, ["kv"],
                                                   gateway=gateway)["kv"]) for name, gateway in (("kv", ""), (HELD, HOLD))}
    trace.unlink()
    return found


def users_table(measured):
    rows = []
    for users, runs in measured:
        mean = {mode: {figure: statistics.mean(run[mode][figure] for run in runs) for figure in runs[0][mode]} for mode in runs[0]}
        for mode in [*SETTINGS, *sorted((mode for mode in mean if mode not in SETTINGS), key=lambda mode: -mean[mode]["turns"])]:
            one = mean[mode]
            rows.append([str(users) if mode == HELD else "", SHOWN.get(mode, f"`{mode}`"), f"{one['turns']:,.0f}", f"{one['failed']:,.0f}",
                         *(f"{one[f'ttft_{name}'] / 1e3:,.1f} s" for name in ("p50", "p95", "p99", "mean")), f"{one['tpot_p50']:,.0f} ms",
                         f"{one['latency_mean'] / 1e3:,.1f} s", f"{100 * one['hit_rate']:.0f} %"])
    return document.table(["agents", "policy", "turns", "refused", "TTFT p50", "p95", "p99", "mean", "TPOT p50", "whole turn, mean", "hit rate"], rows)


def traces_table(measured):
    rows = []
    for name, load, runs in measured:
        ratio = {figure: statistics.mean(run[HELD][figure] for run in runs) / statistics.mean(run["kv"][figure] for run in runs)
                 for figure in FIGURES}
        failed = sum(run[HELD]["failed"] for run in runs), sum(run["kv"]["failed"] for run in runs)
        rows.append([f"`{name}`" if load == LOADS[0] else "", f"{load} %", *(f"{ratio[figure]:.2f}" for figure in FIGURES),
                     f"{failed[0]}, {failed[1]}" if any(failed) else ""])
    return document.table(["workload", "load", "TTFT p50", "p95", "p99", "mean", "TPOT p50", "whole turn, mean", "failed, with and without"], rows)


def main():
    options = page.parse_options(__doc__, WORKLOADS, "routing-hold.md")
    kvist = options.kvist.resolve()
    seeds = [workloads.FIRST_SEED + i for i in range(options.seeds)]
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        users = [(number, [({setting: pool.submit(of_users, kvist, name, number, seed, ["kv"], text) for setting, text in SETTINGS.items()},
                            pool.submit(of_users, kvist, name, number, seed, ["kv", *OTHERS], "")) for seed in seeds]) for number in USERS]
        traces = [(workload.name, load, [pool.submit(of_trace, kvist, name, workload, load, seed) for seed in seeds])
                  for workload in map(workloads.find, options.workload or WORKLOADS) for load in LOADS]
        users = [(number, [{setting: one.result()["kv"] for setting, one in ours.items()} | others.result() for ours, others in runs]) for number, runs in users]
        traces = [(workload, load, [task.result() for task in tasks]) for workload, load, tasks in traces]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    text = INTRODUCTION.format(seeds=len(seeds), first=seeds[0], fleet=FLEET, window=WINDOW)
    options.output.write_text(text + users_table(users) + TRACES_TEXT.format(seeds=len(seeds), first=seeds[0]) + traces_table(traces))
    print(options.output)


INTRODUCTION = """# Requests that wait until a cache has room, simulated

Made by `make routing-hold` in virtual time. [What `hold` does](../guide/routing.md#requests-that-wait-for-room), in `kv` only. A gateway holds requests
unless its file says otherwise, a simulation does if its file says so.

## Agents in a closed loop, up to far more than the memory holds

{fleet}. Each agent has a beginning of its own of 6,000 to 16,000 tokens, takes 8 to 20 turns of 200 to 3,000 tokens with answers of 40 to 200, and
asks again at once; at the end another one begins. From about 40 agents on their histories need more memory than there is. Means of {seeds} seeds from
{first} on, turns that were asked in {window} s.

A cache that is too small for all has nothing of anyone under every policy that sends each request on at once: each return evicts what the next one
asks for. With `hold` some wait, a minute or two, until others are done; the rest find their histories. The longest waits are longer for it, and
everything else is several times better, the sum of all waits above all. It begins when much is computed that was evicted before, and what waits in the engines by
then is done first, which is in these figures. Where [admission](../guide/gateway.md#overload) is on as well, who waited for 10 s is refused; a refused turn ends its conversation here, and another
one begins.

"""
TRACES_TEXT = """
## What it changes elsewhere

The traces of the [other pages](routing.md), {seeds} each with seeds from {first} on, at 80, 95 and 120 % of the capacity. The figures are those of `kv`
with `hold` as a multiple of those without; 1.00 in all: nobody had to wait.

"""


if __name__ == "__main__":
    main()
