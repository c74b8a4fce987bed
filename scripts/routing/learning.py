#!/usr/bin/env python3
"""How long kv needs to learn: docs/results/routing-learning.md.

    scripts/routing/learning.py [KVIST] [--workload NAME]... [--seeds N] [--jobs N] [--output PAGE]

Priors that are wrong by a factor of ten, and workers that become slower, restart or change the chunking of their prompts while they are at
work: the time until kv is as good as where it never had to learn that, and where it then stands among the other policies. Deterministic."""
import concurrent.futures
import dataclasses
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import capacity  # noqa: E402
import document  # noqa: E402
import figures  # noqa: E402
import page  # noqa: E402
import simulation  # noqa: E402
import workloads  # noqa: E402

WORKLOADS = ["chat", "long_prompts"]
LOAD = 80  # percent of the capacity
SECONDS = 300
CHANGE = 100  # when something becomes of a worker
OTHERS = ["dynamo", "llm_d", "lmetric", "smetric"]
BARS = {"ttft_p50": figures.WAIT_BAR, "ttft_p95": figures.WAIT_BAR, "ttft_p99": figures.WAIT_BAR, "tpot_p50": figures.TPOT_BAR}
SETTLED = ["ttft_p50", "ttft_p95", "tpot_p50"]  # of what is left of some traces, p99 is a matter of chance
LATER = 20  # seconds after a change from which on each policy is compared with itself where it was always so
SETTLED_AFTER = [0, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120]
# The default, which is right for the workers here: a 70B model in FP8 on an H200.
PRIOR = {"fixed": (21, "ms"), "per_prefill_token": (94, "us"), "per_sequence": (70, "us"), "per_kv_token": (40, "ns"),
         "per_prefill_pair": (9.18, "ns")}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    begins: int  # the second from which learning is counted
    gateway: str = ""
    changes: str = ""
    reference: str = ""  # the changes of a run in which it was always so
    policies: bool = False  # other policies are run with the changes too


def prior(terms, factor):
    values = {term: f"{value * (factor if term in terms else 1):g} {unit}" for term, (value, unit) in PRIOR.items()}
    return ", latency_prior: {" + ", ".join(f"{term}: {value}" for term, value in values.items()) + "}"


def change(at, what):
    return f", changes: [{{at: {at} s, worker: worker-1, {what}}}]"


CASES = [Case(f"prior: `{term}` {word}", 0, prior([term], factor)) for term in PRIOR for word, factor in (("x 10", 10), ("/ 10", 0.1))]
CASES += [Case(f"prior: all {word}", 0, prior(PRIOR, factor)) for word, factor in (("x 10", 10), ("/ 10", 0.1))]
CASES += [
    Case("a worker becomes half as fast", CHANGE, changes=change(CHANGE, "slowness: 2"), reference=change(0, "slowness: 2"), policies=True),
    Case("a worker that was half as fast recovers", CHANGE, changes=change(0, "slowness: 2")[:-1] + f", {{at: {CHANGE} s, worker: worker-1, "
         "slowness: 1}]", policies=True),
    Case("a worker restarts and is away for 5 s", CHANGE, changes=change(CHANGE, "restart: 5 s"), policies=True),
    Case("a worker's budget of tokens a step falls from 16,384 to 1,024", CHANGE, changes=change(CHANGE, "max_num_tokens: 1024"),
         reference=change(0, "max_num_tokens: 1024"), policies=True),
    Case("it rises from 1,024 to 16,384", CHANGE, changes=change(0, "max_num_tokens: 1024")[:-1] + f", {{at: {CHANGE} s, worker: worker-1, "
         "max_num_tokens: 16384}]", policies=True),
]


def run(kvist, folder, workload, seed, modes, name, gateway="", changes=""):
    """{mode: turns} of one seed."""
    folder = folder / f"{workload.name}-{seed}-{name}"
    trace = folder.with_suffix(".jsonl")
    workload.write_trace(kvist, trace, capacity.known()[workload.name] * LOAD / 100, seed)
    return simulation.run_trace(kvist, folder, workload, trace, modes, warmup=0, gateway=gateway, changes=changes)


def figures_from(turns, second):
    """Of the requests that came from that second on, over all seeds."""
    begun = [turn for turn in turns if turn.begun >= second * 1000]
    good = [turn for turn in begun if turn.good]
    found = {f"ttft_{name}": figures.percentile([turn.ttft for turn in good], share) for name, share in figures.SHARES}
    return found | {"tpot_p50": figures.percentile([turn.tpot for turn in good if turn.output > 1], 0.5),
                    "failed": 100 * (len(begun) - len(good)) / max(1, len(begun))}


def holds(mine, others):
    """Whether each bar is kept against the best of some others in that figure."""
    return all(mine[figure] <= BARS[figure] * min(other[figure] for other in others) for figure in SETTLED)


def settled(turns, reference, begins):
    """After how many seconds the bars hold for all that comes from then on; None: never."""
    for after in SETTLED_AFTER:
        if holds(figures_from(turns, begins + after), [figures_from(reference, begins + after)]):
            return after
    return None


def later_p95(turns, reference, second):
    """TTFT p95 of what comes from that second on, as a multiple of the reference's."""
    return figures_from(turns, second)["ttft_p95"] / figures_from(reference, second)["ttft_p95"]


def row(case, turns, reference, others, others_reference):
    after = settled(turns, reference, case.begins)
    from_then = case.begins + (SETTLED_AFTER[-1] if after is None else after)
    first = figures_from([turn for turn in turns if turn.begun < (case.begins + 10) * 1000], case.begins)
    usual = figures_from([turn for turn in reference if turn.begun < (case.begins + 10) * 1000], case.begins)
    cells = [case.name, "at once" if after == 0 else "never" if after is None else f"{after} s",
             f"{first['ttft_p50'] / usual['ttft_p50']:.2f}, {first['ttft_p95'] / usual['ttft_p95']:.2f}",
             f"{later_p95(turns, reference, case.begins + LATER):.2f}"]
    theirs = [later_p95(found, others_reference[mode], case.begins + LATER) for mode, found in others.items()]
    cells.append(f"{min(theirs):.2f} to {max(theirs):.2f}" if case.policies else "")
    mine = figures_from(turns, from_then)
    for figure in BARS:
        value, name = min((figures_from(found, from_then)[figure], mode) for mode, found in others.items())
        text = f"{mine[figure] / value:.2f}"
        cells.append(f"**{text} {name}**" if mine[figure] > BARS[figure] * value else text)
    return [*cells, f"{figures_from(turns, 0)['failed']:.2f} %"]


def measure(kvist, folder, workload, seeds, pool):
    def submit(modes, name, gateway="", changes=""):
        return [pool.submit(run, kvist, folder, workload, workloads.FIRST_SEED + i, modes, name, gateway, changes) for i in range(seeds)]

    def pooled(tasks, mode):
        return [turn for task in tasks for turn in task.result()[mode]]

    kv, undisturbed = figures.CANDIDATE, submit([figures.CANDIDATE, *OTHERS], "undisturbed")
    tasks = [(case, submit([kv, *(OTHERS if case.policies else [])], f"case{i}", case.gateway, case.changes),
              submit([kv, *OTHERS], f"reference{i}", "", case.reference) if case.reference else undisturbed) for i, case in enumerate(CASES)]
    rows = []
    for case, found, reference in tasks:
        others = {mode: pooled(found if case.policies else undisturbed, mode) for mode in OTHERS}
        others_reference = {mode: pooled(reference, mode) for mode in OTHERS}
        rows.append(row(case, pooled(found, kv), pooled(reference, kv), others, others_reference))
        print(f"{workload.name}: {rows[-1][:3]}", flush=True)
    return rows


def main():
    options = page.parse_options(__doc__, WORKLOADS, "routing-learning.md")
    text = INTRODUCTION.format(load=LOAD, seconds=SECONDS, change=CHANGE, later=LATER, seeds=options.seeds, plural="" if options.seeds == 1 else "s", first=workloads.FIRST_SEED,
                               others=", ".join(f"`{mode}`" for mode in OTHERS))
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for workload in map(workloads.find, options.workload or WORKLOADS):
            workload = dataclasses.replace(workload, seconds=SECONDS)
            rows = measure(options.kvist.resolve(), pathlib.Path(name), workload, options.seeds, pool)
            text += f"\n## {workload.name}\n\n{workload.text}. {workload.fleet}.\n\n" + document.table(HEADER, rows)
    options.output.write_text(text)
    print(options.output)


HEADER = ["what kv does not know", "the bars hold again after", "TTFT p50, p95 in the first 10 s", "TTFT p95 after 20 s", "the others'",
          "TTFT p50", "p95", "p99", "TPOT p50", "failed"]
INTRODUCTION = """# Learning, simulated

Made by `make routing-learning` in virtual time: workloads of [Routing policies, simulated](routing.md) at {load} % of the capacity for {seconds} s,
{seeds} trace{plural} each, with seeds from {first} on. Priors are wrong from the first request on; what becomes of a worker does so at {change} s.

*The bars hold again after* is the first time from which on TTFT p50 and p95 of all later requests are at most 1.05, and TPOT p50 at most
1.03, of those of the same requests in a run where `kv` never had to learn it: with the right prior, with a worker that was always so, or
without the restart. Where traces are few, 5 % of p95 may be chance. In the first 10 s, and from {later} s on, the figures are that multiple. Beside the
latter is what the other policies have, each as a multiple of its own: part of what a change costs cannot be learned away, as caches lie where
conversations went before it. The last four figures are `kv` as a multiple of the best other policy ({others}) after that first time, with the
same changes; bold where it is more than the bar allows. Answers that had begun on a worker that
dies fail in every mode.

What is bold in every row of a workload is not a matter of learning: with the right prior, at this load, [the routing page](routing.md) has the same. `kv` buys
the first tokens of chat with a TPOT of 1.1 times that of policies that stay with the cache, and p99 of long prompts is 1.1 of that of `dynamo`, which levels
prompt tokens and has a slowdown p95 of three times `kv`'s.
"""


if __name__ == "__main__":
    main()
