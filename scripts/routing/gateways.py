#!/usr/bin/env python3
"""Several gateways before the same workers against one, in virtual time: the first part of docs/results/gateways.md.

    scripts/routing/gateways.py [KVIST] [--workload NAME]... [--seeds N] [--first-seed N] [--jobs N] [--only WORDS]... [--print]

Each request goes to one of the gateways by chance. What they tell each other is `hop` on its way, and a share of the messages is lost.
Deterministic. --print: the tables alone, onto the terminal, for a look while working on it."""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import capacity  # noqa: E402
import document  # noqa: E402
import figures  # noqa: E402
import simulation  # noqa: E402
import workloads  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/results/gateways.md"
BEGIN, END = "<!-- virtual: begin -->\n", "<!-- virtual: end -->\n"
WORKLOADS = ["chat", "retrieval", "short_answers"]
LOAD = 80  # percent of the capacity
FIRST_SEED = 401  # neither these seeds nor later ones were looked at while the exchange was made; it was tried out with 951 and later
HIT_BAR, P95_BAR, TOKENS_BAR = 0.02, 1.02, 0.99  # at a hop of 5 ms, against one gateway


@dataclasses.dataclass(frozen=True)
class Case:
    gateways: int
    hop_ms: int = 0
    loss: float = 0
    exchange: bool = True
    mode: str = "kv"

    @property
    def title(self):
        if self.mode != "kv":
            return f"{self.gateways} gateway, round robin"
        if self.gateways == 1:
            return "1 gateway"
        if not self.exchange:
            return f"{self.gateways} gateways that do not talk"
        return f"{self.gateways} gateways, {self.hop_ms} ms" + (f", {self.loss * 100:.0f} % lost" if self.loss else "")

    @property
    def yaml(self):
        if self.gateways == 1:
            return ""
        return f", gateways: {{count: {self.gateways}, exchange: {str(self.exchange).lower()}, hop: {self.hop_ms} ms, loss: {self.loss}}}"


ONE, TURNS = Case(1), Case(1, mode="round_robin")
CASES = [ONE, TURNS, *(Case(count, exchange=False) for count in (2, 4, 16)), *(Case(count, 5) for count in (2, 4, 16)),
         Case(4, 1), Case(4, 20), *(Case(count, 100) for count in (2, 4, 16)), Case(4, 5, 0.01), Case(4, 5, 0.05), Case(16, 5, 0.05), Case(4, 100, 0.05)]


def run(kvist, folder, workload, seed, case):
    """The figures of one trace with these gateways."""
    folder = folder / f"{workload.name}-{seed}-{abs(hash(case))}"
    trace = folder.with_suffix(".jsonl")
    workload.write_trace(kvist, trace, capacity.known()[workload.name] * LOAD / 100, seed)
    turns = simulation.run_trace(kvist, folder, workload, trace, [case.mode], changes=case.yaml)[case.mode]
    for path in folder.parent.glob(folder.name + ".*"):
        path.unlink()
    return figures.of_turns(turns, lambda turn: turn.ttft, workload.warmup)


def ratio(mine, others, figure):
    """Of the geometric means over the traces, with the half of the 95 % interval."""
    mean, low, high = figures.interval([a[figure] / b[figure] for a, b in zip(mine, others)])
    return mean, max(high - mean, mean - low)


def row(case, found, one):
    mean = {figure: statistics.mean(run[figure] for run in found) for figure in found[0]}
    cells = [case.title, f"{mean['hit_rate']:.1f} %", f"{mean['ttft_p50'] / 1e3:.3f} s", f"{mean['ttft_p95'] / 1e3:.3f} s", f"{mean['tokens_per_s']:,.0f}"]
    if case == ONE:
        return [*cells, "", "", ""]
    misses = {"hit_rate": lambda value: value < 1 - HIT_BAR, "ttft_p95": lambda value: value > P95_BAR, "tokens_per_s": lambda value: value < TOKENS_BAR}
    for figure, is_missed in misses.items():
        value, half = ratio(found, one, figure)
        text = f"{value:.3f} ± {half:.3f}" if len(found) > 1 else f"{value:.3f}"
        held = case.exchange and case.hop_ms == 5 and case.mode == "kv"
        cells.append(f"**{text}**" if held and is_missed(value) else text)
    return cells


HEADER = ["", "hit rate", "TTFT p50", "TTFT p95", "tokens/s", "hit rate of one's", "TTFT p95 of one's", "tokens/s of one's"]


def verdict(found):
    """Whether the bars hold, over all workloads."""
    lines, missed = [], []
    for name, cases in found.items():
        for case, runs in cases.items():
            if case.mode != "kv" or not case.exchange or case.gateways == 1:
                continue
            one = {figure: ratio(runs, cases[ONE], figure)[0] for figure in ("hit_rate", "ttft_p95", "tokens_per_s")}
            if case.hop_ms == 5 and (one["hit_rate"] < 1 - HIT_BAR or one["ttft_p95"] > P95_BAR or one["tokens_per_s"] < TOKENS_BAR):
                missed.append(f"`{name}`, {case.title}: hit rate {one['hit_rate']:.3f}, TTFT p95 {one['ttft_p95']:.3f}, tokens/s {one['tokens_per_s']:.3f}")
            if case.hop_ms == 100 and TURNS in cases:
                turns = {figure: ratio(runs, cases[TURNS], figure)[0] for figure in ("ttft_p95", "tokens_per_s")}
                if turns["ttft_p95"] > 1 or turns["tokens_per_s"] < 0.995:
                    missed.append(f"`{name}`, {case.title} against round robin: TTFT p95 {turns['ttft_p95']:.3f}, tokens/s {turns['tokens_per_s']:.3f}")
    lines.append("Held: at 5 ms a hit rate and a TTFT p95 within 2 % of one gateway's and tokens/s within 1 %; at 100 ms no worse than round robin."
                 if not missed else "Missed:\n\n" + "\n".join(f"- {line}" for line in missed))
    return "\n".join(lines) + "\n"


def text_of(found, seeds, first_seed):
    parts = []
    for name, cases in found.items():
        workload = workloads.find(name)
        parts.append(f"### {name}\n\n{workload.text}. {workload.fleet}, {LOAD} % of their capacity.\n\n"
                     + document.table(HEADER, [row(case, runs, cases[ONE]) for case, runs in cases.items()]))
    parts.append(f"### The bars\n\n{verdict(found)}")
    return (f"Means of {seeds} traces (seeds from {first_seed} on); the last three columns are ratios trace by trace, with their 95 % intervals. "
            "A missed bar is bold.\n\n" + "\n".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("kvist", nargs="?", default=str(ROOT / "build/release/bin/kvist"))
    parser.add_argument("--workload", action="append")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", action="append", help="cases whose titles have these words; 1 gateway always is one")
    parser.add_argument("--print", action="store_true")
    args = parser.parse_args()
    kvist = pathlib.Path(args.kvist).resolve()
    cases = [case for case in CASES if case == ONE or not args.only or any(words in case.title for words in args.only)]
    names = args.workload or WORKLOADS
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        tasks = {(name, case): [pool.submit(run, kvist, pathlib.Path(folder), workloads.find(name), args.first_seed + i, case) for i in range(args.seeds)]
                 for name in names for case in cases}
        found = {name: {case: [task.result() for task in tasks[name, case]] for case in cases} for name in names}
    text = text_of(found, args.seeds, args.first_seed)
    if args.print:
        print(text)
        return
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
