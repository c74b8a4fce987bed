#!/usr/bin/env python3
"""kv beside other policies on workloads and fleets that are drawn by chance: docs/results/routing-draws.md.

    scripts/routing/draws.py [KVIST] [--first N] [--draws N] [--traces N] [--mode NAME]... [--jobs N] [--draw N] [--output PAGE]

--draw N shows one draw instead: its settings, and the figures of every policy. Deterministic: the same binary writes the same page."""
import argparse
import concurrent.futures
import dataclasses
import json
import math
import pathlib
import random
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import document  # noqa: E402
import figures  # noqa: E402
import page  # noqa: E402
import simulation  # noqa: E402
import workloads  # noqa: E402

MODES = ["kv", "round_robin", "least_loaded", "dynamo", "llm_d", "smetric", "lmetric", "smg"]
FIRST = 1001  # draws below 500 were looked at when rules were changed
DRAWS, TRACES = 200, 2
BLOCK = 64  # tokens of a hash id
FIGURES = {"ttft_p50": "TTFT p50", "ttft_p95": "TTFT p95", "ttft_p99": "TTFT p99", "tpot_p50": "TPOT p50", "latency_p95": "whole turn p95"}
# Step times of the profiles in ms, for an estimate of what a fleet can do: fixed, a prompt token, a sequence, a token of context, a pair.
STEPS = {("trtllm", "llama-3.1-70b-fp8"): (21, 0.094, 0.07, 4e-5, 4e-6), ("vllm", "llama-3.1-70b-fp8"): (26, 0.125, 0.1, 5.5e-5, 4.6e-6),
         ("trtllm", "llama-3.1-8b-fp8"): (4.5, 0.012, 0.02, 1.5e-5, 6e-7), ("vllm", "llama-3.1-8b-fp8"): (7, 0.015, 0.02, 2e-5, 7e-7)}
MEMORY = {"ample": 3, "enough": 1, "tight": 0.45, "tiny": 0.15}  # of what all slots with their answers and all prefixes need
LONGEST = 60_000
LONGEST_ANSWER = 4_000


def between(chance, low, high):
    """Any order of magnitude is as likely as any other."""
    return math.exp(chance.uniform(math.log(low), math.log(high)))


@dataclasses.dataclass(frozen=True)
class Length:
    """A law of lengths in tokens."""
    kind: str
    low: float
    high: float

    @staticmethod
    def drawn(chance, low, high):
        middle = between(chance, low, high)
        kind = chance.choice(["constant", "uniform", "uniform", "lognormal", "two"])
        if kind == "uniform":
            return Length(kind, max(1, middle * chance.uniform(0.2, 0.9)), middle * 1.5 + 1)
        if kind == "two":  # most are short
            return Length(kind, max(1, middle * 0.3), min(high * 1.5, middle * chance.uniform(3, 10)))
        return Length(kind, middle, min(high, middle * 4))

    def sample(self, chance):
        if self.kind == "constant":
            return int(self.low)
        if self.kind == "uniform":
            return chance.randint(int(self.low), int(self.high))
        if self.kind == "two":
            return int(self.low if chance.random() < 0.85 else self.high)
        return max(1, min(int(self.high * 20), int(chance.lognormvariate(math.log(self.low), 1))))

    def __str__(self):
        return f"{self.low:,.0f}" if self.kind == "constant" else f"{self.kind} {self.low:,.0f} to {self.high:,.0f}"


class Draw:
    """Fleet and traffic that a number stands for."""

    def __init__(self, number):
        self.number = number
        chance = random.Random(number)
        self.draw_fleet(chance)
        self.draw_traffic(chance)

    def draw_fleet(self, chance):
        pick = chance.choice
        self.workers = pick([2, 2, 3, 4, 4, 6, 8, 12, 16])
        self.engine = pick(["timed", "timed", "trtllm", "trtllm", "vllm", "vllm"])
        self.model = pick(["llama-3.1-70b-fp8", "llama-3.1-8b-fp8"])
        self.block = pick([16, 32, 64])
        self.rules = {}
        if self.engine == "timed":
            self.step = (between(chance, 1.5, 60), between(chance, 0.005, 0.4), between(chance, 0.005, 0.3), between(chance, 1e-6, 1e-4),
                         pick([0, 0, between(chance, 1e-7, 1e-5)]))
            deferral = pick([False, True])
            self.rules = {"max_steps_in_flight": pick([1, 1, 2]), "admission": pick(["reserve_to_completion", "greedy"]),
                          "prefix_deferral": deferral, "prefix_when_planned": not deferral and pick([False, True])}
        else:
            self.step = STEPS[self.engine, self.model]
        self.slots = pick([4, 8, 16, 32, 64, 64, 128, 256])
        self.budget = pick([512, 1024, 2048, 4096, 8192, 16384])
        self.side_by_side = pick([0, 0, 0, 256, 1024, 2048])
        self.memory = pick(["ample", "ample", "enough", "tight", "tiny"])

        def uneven(share, factors):
            return [pick(factors) for _ in range(self.workers)] if chance.random() < share else [1] * self.workers

        self.speeds, self.memories = uneven(0.25, [1, 1, 0.5, 0.25, 2]), uneven(0.2, [1, 1, 0.25, 0.5, 3])
        self.places, self.budgets = uneven(0.12, [1, 1, 0.25, 2]), uneven(0.12, [1, 1, 0.25, 4])
        self.event_delay = pick(["500 us", "500 us", "500 us", "20 ms", "300 ms", "2 s"])
        self.gateways = pick([{}, {}, {}, {}, {"count": 2, "exchange": True}, {"count": 3, "exchange": True, "loss": 0.2},
                              {"count": 3, "exchange": False}])
        self.change = pick(["none"] * 6 + ["slow", "restart", "budget"])

    def draw_traffic(self, chance):
        pick = chance.choice
        self.prefixes = pick([0, 0, 1, 2, 5, 20, 100, 400])
        self.prefix_tokens = int(between(chance, 64, 20_000))
        self.zipf = pick([0, 0.7, 1, 1.5])
        self.turnover = pick([0, 0, 0, between(chance, 5, 60)])  # seconds for which a set of prefixes is asked for
        self.turns = pick([1, 1, 1, 2, 4, 8, 16])
        self.own, self.follow = Length.drawn(chance, 20, 8_000), Length.drawn(chance, 20, 2_500)
        self.answer = Length.drawn(chance, 1, 2_000)
        self.think = between(chance, 0.1, 60)
        self.arrivals = pick(["poisson", "poisson", "poisson", "bursts", "on and off", "swing"])
        self.burst = pick([4, 16, 50, 150])
        self.others = pick([0, 0, 0.03, 0.1, 0.3, 0.6]) if chance.random() < 0.5 else 0  # the share of a second kind of single requests
        self.others_own, self.others_answer = Length.drawn(chance, 20, 30_000), Length.drawn(chance, 1, 3_000)
        self.unstreamed = pick([0, 0, 0, 0.3, 1])
        self.load = chance.uniform(0.3, 1.1)
        self.requests = pick([700, 1200, 1800])

    def __str__(self):
        parts = [f"{self.workers} workers, {self.engine if self.engine == 'timed' else self.model[10:-4] + ' under ' + self.engine}",
                 f"{self.slots} slots", f"memory {self.memory}", f"{self.budget:,} tokens a step"]
        parts += [f"{self.side_by_side:,} of a prompt"] if self.side_by_side else []
        uneven = [name for name, of in (("speeds", self.speeds), ("memories", self.memories), ("slots", self.places), ("budgets", self.budgets))
                  if len(set(of)) > 1]
        parts += ["uneven " + " and ".join(uneven)] if uneven else []
        parts += [f"{self.prefixes} prefixes of about {self.prefix_tokens:,}"] if self.prefixes else []
        parts += [f"prompts {self.own}", f"answers {self.answer}"]
        parts += [f"{self.turns} turns of {self.follow}"] if self.turns > 1 else []
        parts += [f"{100 * self.others:.0f} % {self.others_own} with answers of {self.others_answer}"] if self.others else []
        parts += [f"{100 * self.unstreamed:.0f} % not streamed"] if self.unstreamed else []
        parts += [f"{self.gateways['count']} gateways"] if self.gateways else []
        parts += {"slow": ["one becomes slow"], "restart": ["one restarts"], "budget": ["one gets a smaller budget"]}.get(self.change, [])
        return ", ".join([*parts, self.arrivals, f"load {self.load:.2f}"])


class Traffic:
    """A trace of a draw: rows, how long they come for, and the KV memory of a worker, in tokens."""

    def __init__(self, draw, seed):
        self.draw, self.random, self.next_id, self.prefix = draw, random.Random(7919 * seed + draw.number), 1, {}
        conversations = self.conversations()
        self.plan(conversations)
        rate = draw.load * self.capacity / self.requests * len(conversations)
        self.rows = sorted((row for at, one in zip(self.instants(len(conversations), rate), conversations) for row in self.rows_of(at, one)),
                           key=lambda row: row["timestamp"])
        self.seconds = self.rows[-1]["timestamp"] / 1000 + 1

    def fresh(self, tokens):
        blocks = math.ceil(tokens / BLOCK)
        self.next_id += blocks
        return list(range(self.next_id - blocks, self.next_id))

    def prefix_of(self, number, at=0):
        draw = self.draw
        name = (number, int(at / draw.turnover)) if draw.turnover else number
        if name not in self.prefix:
            self.prefix[name] = self.fresh(draw.prefix_tokens * random.Random(draw.number * 1000 + number).uniform(0.3, 2) // BLOCK * BLOCK + BLOCK)
        return self.prefix[name]

    def conversations(self):
        """[(prefix or None, [(own tokens, answer, pause before it)])]"""
        draw, chance = self.draw, self.random
        weights = [1 / (k + 1)**draw.zipf for k in range(draw.prefixes)]
        made, requests = [], 0
        while requests < draw.requests:
            if chance.random() < draw.others:
                turns = [(self.bounded(draw.others_own), self.bounded_answer(draw.others_answer), 0)]
                made.append((None, turns))
            else:
                count = draw.turns if draw.turns < 3 else chance.randint(1, 2 * draw.turns - 1)
                turns = [(self.bounded(draw.follow if k else draw.own), self.bounded_answer(draw.answer), chance.expovariate(1 / draw.think))
                         for k in range(count)]
                made.append((chance.choices(range(draw.prefixes), weights)[0] if draw.prefixes else None, turns))
            requests += len(turns)
        self.requests = requests
        return made

    def bounded(self, law):
        return max(20, min(LONGEST, law.sample(self.random)))

    def bounded_answer(self, law):
        return max(1, min(LONGEST_ANSWER, law.sample(self.random)))

    def plan(self, conversations):
        """What the fleet can do, in requests a second, if it computes no cached token again: roughly."""
        draw = self.draw
        fixed, token, sequence, context_token, pair = draw.step
        prefill = answered = context = longest = 0
        for prefix, turns in conversations:
            history = len(self.prefix_of(prefix)) * BLOCK if prefix is not None else 0
            for own, answer, _ in turns:
                history += own
                prefill += own * token + own * history * pair / 2
                context += (history + answer / 2) * answer
                answered += answer
                history += answer
                longest = max(longest, history)
        context /= answered
        wanted = draw.slots * context + sum(map(len, self.prefix.values())) * BLOCK
        self.kv_tokens = max(MEMORY[draw.memory] * wanted, 2.2 * longest + 4_000)
        self.longest = longest
        batch = max(1, min(draw.slots, 0.7 * self.kv_tokens / context, 48))
        self.step = fixed + batch * (sequence + context * context_token)
        self.capacity = sum(draw.speeds) * 1e3 * self.requests / (prefill + 0.9 * answered * self.step / batch)

    def instants(self, count, rate):
        chance, draw, at, made = self.random, self.draw, 0.0, []
        if draw.arrivals == "bursts":
            size = min(draw.burst, max(2, count // 6))
            while len(made) < count:
                at += chance.expovariate(rate / size)
                spread = chance.choice([0.01, 0.3, 2])
                made += [at + chance.uniform(0, spread) for _ in range(size)]
            return made[:count]
        period = max(4, count / rate / 5)
        for _ in range(count):
            at += chance.expovariate(rate)
            part = at % period / period
            moved = {"poisson": part, "on and off": 0.35 * part, "swing": part**2}[draw.arrivals]
            made.append(at + (moved - part) * period)
        return made

    def rows_of(self, at, conversation):
        prefix, turns = conversation
        ids = list(self.prefix_of(prefix, at)) if prefix is not None else []
        name, tokens = f"s{self.next_id}", len(ids) * BLOCK
        for k, (own, answer, pause) in enumerate(turns):
            ids = ids[:tokens // BLOCK]
            tokens += own
            ids += self.fresh(tokens - len(ids) * BLOCK)
            row = {"timestamp": round(at * 1000), "input_length": tokens, "output_length": answer, "hash_ids": list(ids)}
            if len(turns) > 1:
                row |= {"session_id": name} | ({"delay": round(pause * 1000)} if k else {})
            yield row
            at += answer * self.step / 1000 + pause + 0.2
            tokens += answer

    def worker(self, number):
        draw = self.draw
        longest = self.longest + 2_000
        slots = max(1, int(draw.slots * draw.places[number]))
        budget = max(256, int(draw.budget * draw.budgets[number]), slots)
        made = {"name": f"worker-{number}", "model": draw.model, "block_size": draw.block, "max_batch_size": slots, "max_num_tokens": budget,
                "kv_blocks": max(int(self.kv_tokens * draw.memories[number]), int(longest * 1.2)) // draw.block + 8, "max_model_len": longest,
                "time_scale": draw.speeds[number], "max_waiting": 100_000} | draw.rules
        if draw.side_by_side:
            made["long_prefill_token_threshold"] = min(draw.side_by_side, budget)
        if draw.engine == "timed":
            names = ["fixed", "per_prefill_token", "per_sequence", "per_kv_token", "per_prefill_pair"]
            return made | {"step_time": {name: f"{ms * 1e6:.3f} ns" for name, ms in zip(names, draw.step)}}
        return made | {"profile": {"gpu": "h200", "model": draw.model, "engine": draw.engine, "tensor_parallel": 1}}

    def scenario(self, trace, modes):
        draw, warmup = self.draw, round(0.1 * self.seconds, 1)
        window = f"{self.seconds - warmup:.1f} s"
        half = {"at": f"{0.4 * self.seconds:.1f} s", "worker": "worker-0"}
        smaller = max(256, int(draw.slots * draw.places[0]))
        changes = {"slow": [half | {"slowness": 3}], "restart": [half | {"restart": "5 s"}], "budget": [half | {"max_num_tokens": smaller}]}
        simulated = {"keep_token_gaps": False, "timeline_period": "0 s", "kv_event_delay": draw.event_delay, "unstreamed_share": draw.unstreamed,
                     "changes": changes.get(draw.change, [])}
        if draw.gateways:
            simulated["gateways"] = draw.gateways
        return json.dumps({
            "name": "draw", "deployment": {"name": "draw", "gateway": {"mode": "round_robin"}, "workers": [self.worker(i) for i in range(draw.workers)]},
            "workload": {"request_timeout": "900 s", "trace": {"file": str(trace), "tokens_per_hash": BLOCK}},
            "method": {"warmup": f"{warmup} s", "snapshots": 1, "snapshot_interval": window, "window": window, "drain_timeout": "900 s",
                       "max_error_pct": 100},
            "simulation": simulated, "modes": modes, "levels": [1], "output_directory": "out"})


def measure(kvist, folder, number, seed, modes):
    """The figures of each mode on one trace of a draw."""
    folder = folder / f"{number}-{seed}"
    traffic = Traffic(Draw(number), seed)
    trace = folder.with_suffix(".jsonl")
    workloads.write_rows(trace, traffic.rows)
    turns = simulation.simulate(kvist, folder, traffic.scenario(trace, modes))
    trace.unlink()
    return {mode: figures.of_turns(turns[mode], lambda turn: 1, 0.1 * traffic.seconds) for mode in modes}


def means(runs):
    return {mode: {figure: statistics.mean(run[mode][figure] for run in runs) for figure in runs[0][mode]} for mode in runs[0]}


def worse(figure, mine, other):
    """How many times as good the other one is: above 1 where it is better, and 1 where there is no such figure (the TPOT of single tokens)."""
    mine, other = mine[figure], other[figure]
    if figure in figures.LARGER_IS_BETTER:
        mine, other = other, mine
    if math.isnan(mine) or math.isnan(other) or mine == other:
        return 1.0
    return mine / other if other else math.inf


def best_other(figure, of):
    return max((mode for mode in of if mode != figures.CANDIDATE), key=lambda mode: worse(figure, of[figures.CANDIDATE], of[mode]))


def percent(share):
    return f"{100 * share:.0f} %"


def spread_table(drawn):
    """kv against the best of the others, figure by figure."""
    rows = []
    for figure, title in FIGURES.items():
        ratios = sorted(worse(figure, of[figures.CANDIDATE], of[best_other(figure, of)]) for of in drawn.values())
        rows.append([title, *(f"{figures.percentile(ratios, share):.2f}" for share in (0.1, 0.5, 0.9, 0.95, 1)),
                     percent(sum(ratio <= 1.05 for ratio in ratios) / len(ratios))])
    return document.table(["figure", "10 %", "median", "90 %", "95 %", "worst", "at most 1.05"], rows)


def modes_table(drawn):
    """Each other policy against kv, as one would have chosen it for all."""
    rows = []
    for mode in [mode for mode in next(iter(drawn.values())) if mode != figures.CANDIDATE]:
        ratios = {figure: [worse(figure, of[figures.CANDIDATE], of[mode]) for of in drawn.values()] for figure in FIGURES}
        p95 = ratios["ttft_p95"]
        rows.append([f"`{mode}`", *(f"{math.exp(statistics.mean(math.log(max(ratio, 1e-9)) for ratio in of)):.2f}" for of in ratios.values()),
                     percent(sum(ratio > 1.05 for ratio in p95) / len(p95)), percent(sum(ratio < 1 / 1.05 for ratio in p95) / len(p95))])
    return document.table(["policy", *FIGURES.values(), "better TTFT p95", "worse"], rows)


def losses_table(drawn, count=15):
    def loss(number):
        of = drawn[number]
        return worse("ttft_p95", of[figures.CANDIDATE], of[best_other("ttft_p95", of)])

    rows = []
    for number in sorted(drawn, key=loss, reverse=True)[:count]:
        of, mode = drawn[number], best_other("ttft_p95", drawn[number])
        mine, other = of[figures.CANDIDATE], of[mode]
        rows.append([str(number), f"{loss(number):.2f}", f"`{mode}`",
                     *(f"{mine[figure]:,.0f}, {other[figure]:,.0f}" for figure in ("ttft_p50", "ttft_p95", "ttft_p99", "hit_rate")), str(Draw(number))])
    return document.table(["draw", "TTFT p95", "than", "p50 in ms", "p95", "p99", "hit rate, %", "what it is"], rows)


def show(kvist, number, traces, modes):
    print(Draw(number))
    with tempfile.TemporaryDirectory() as folder:
        of = means([measure(kvist, pathlib.Path(folder), number, seed, modes) for seed in range(1, traces + 1)])
    for mode, found in of.items():
        print(f"{mode:14}" + "  ".join(f"{figure} {found[figure]:,.1f}" for figure in [*FIGURES, "hit_rate", "failed"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvist", nargs="?", default=page.ROOT / "build/release/bin/kvist", type=pathlib.Path)
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--traces", type=int, default=TRACES)
    parser.add_argument("--mode", action="append")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--draw", type=int)
    parser.add_argument("--output", type=pathlib.Path, default=page.ROOT / "docs/results/routing-draws.md")
    options = parser.parse_args()
    kvist, modes = options.kvist.resolve(), options.mode or MODES
    if options.draw is not None:
        return show(kvist, options.draw, options.traces, modes)
    numbers = range(options.first, options.first + options.draws)
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        tasks = {number: [pool.submit(measure, kvist, pathlib.Path(name), number, seed, modes) for seed in range(1, options.traces + 1)]
                 for number in numbers}
        drawn = {number: means([task.result() for task in of]) for number, of in tasks.items()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(INTRODUCTION.format(draws=len(drawn), traces=options.traces, first=options.first) + spread_table(drawn) + EACH + modes_table(drawn)
                              + LOSSES + losses_table(drawn) + FOUND)
    print(options.output)


INTRODUCTION = """# Routing policies on workloads drawn by chance

Made by `make routing-draws` in virtual time. The workloads of [Routing policies, simulated](routing.md) and of [the page of those written
afterwards](routing-untuned.md) were thought of by somebody. Here fleet and traffic are drawn: {draws} draws, the first of them number {first}, with {traces} traces each.
A draw has 2 to 16 workers of one engine (TensorRT-LLM, vLLM, or step times of any size), 4 to 256 slots, memory from a seventh of what its
traffic needs to three times that, workers of uneven speed, memory, slots or budget, no prefixes or up to 400, of any length and popularity,
one turn or up to 31, lengths of prompts and answers by five laws, bursts, a second kind of requests, answers that are not streamed, KV events up to
two seconds late, several gateways, a worker that becomes slow or restarts; at 30 to 110 % of what the fleet can do, roughly. `scripts/routing/draws.py --draw N`
shows one. Draws below 500 were looked at when rules of `kv` were changed; those of this page were not.

## kv against the best other policy

How many times as good the best of the other policies is, figure by figure: 1.00 is as good as `kv`, below 1 `kv` is the best of all.
Which one is the best differs from draw to draw and from figure to figure, and two traces differ by chance, so that of several equal policies
one always is a little better than another.

"""
EACH = """
## kv against each policy

The same as the geometric mean over all draws: above 1 the policy is better than `kv`. At the right the draws in which its TTFT p95 is better or worse by more
than 5 %. This is what one compares who has to choose one policy without knowing the traffic.

"""
LOSSES = """
## Where kv loses most

By TTFT p95, `kv`'s and that of the best other policy in each cell.

"""
FOUND = """
## What was found in this way, and mended

On 189 other draws (2026-11-30). `kv`'s TTFT p95 was 1.64 times that of the best other policy in one draw of twenty, and 6.7 times in the worst; with
the mends 1.42 and 3.6. Over these draws `kv` itself has a p95 of 0.97 (33 draws better by more than 5 %, 13 worse), a p99 of 0.98 (39, 25).

- *Slots are what all wait for, with a few per worker.* A prefill was priced by those who wait and have a slot, so that it was nearly free when
  nobody had one. Those without count now, too (`kv_policy.h`), and while nobody has room a wait for a slot counts once. Three workers of eight slots, 400
  prefixes: p50 2.5 -> 0.9 s, p95 7.8 -> 4.5 (`smg` 0.6 and 2.8: it still loses there).
- *An engine was said to leave requests waiting that had only not begun with them*, where eight steps are shorter than the way into the engine
  varies, or a part of a prompt is hardly longer than a step that only decodes (`Forecaster::surely_due`). Four workers of an 8B model: p95 172 -> 141 ms (best
  other policy 137), hit rate 52 -> 81 %. A timed fleet with a budget of 512: 3.5 -> 1.8 s (1.6).
- *The last free slot of a worker with few got no credit for its cache.* One slot a worker: p50 1.8 -> 1.4 s.

Not mended:

- Nobody streams, workers differ in speed, and all slots are taken: a worker beyond its slots has hardly an answer from which its speed would be
  learned, and the forecast of its queue takes all its requests for running. Both cures that were tried together cure that (p95 2.8 -> 0.27 s), but
  the second makes chats on mixed speeds at 95 % worse (p95 1.4 times).
- Long shared prefixes on an engine that computes prompts side by side: a prefix that is being computed counts as cached, and a burst goes where it is being
  computed, finds the part that is done, and computes the rest beside the first (p95 up to four times that of `smg`). Crediting only what
  is computed halves it.
"""


if __name__ == "__main__":
    main()
