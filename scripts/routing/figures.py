"""The figures of a run, the bars that kv is held to, and which of them it misses."""
import dataclasses
import math
import statistics

# What a user waits for without a complaint: the objective of goodput.
MOST_SLOWDOWN, MOST_TPOT_MS = 5, 60
SHARES = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)]
WAITS = [f"{kind}_{name}" for kind in ("ttft", "slowdown") for name, _ in SHARES]
TITLES = {"ttft_p50": "TTFT p50", "ttft_p95": "TTFT p95", "ttft_p99": "TTFT p99", "slowdown_p50": "slowdown p50",
          "slowdown_p95": "slowdown p95", "slowdown_p99": "slowdown p99", "tpot_p50": "TPOT p50", "tokens_per_s": "tokens/s",
          "goodput": "goodput"}
LARGER_IS_BETTER = {"tokens_per_s", "goodput"}
CANDIDATE, ORACLE = "kv", "clairvoyant"
SHIPPED = "kv_ships"  # kv with admission and hold, as a gateway has both by default; the others are policies alone
WAIT_BAR, TPOT_BAR, TOKENS_BAR, BEYOND_BAR = 1.05, 1.03, 0.98, 0.9
SAME_GOODPUT = 0.1  # points: less is not seen in the table


def percentile(values, share):
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(len(ordered) * share) - 1))] if ordered else math.nan


def of_turns(turns, ideal, warmup):
    good = [turn for turn in turns if turn.good]
    slowdowns = [turn.ttft / ideal(turn) for turn in good]
    met = sum(slow <= MOST_SLOWDOWN and turn.tpot <= MOST_TPOT_MS for turn, slow in zip(good, slowdowns))
    result = {f"ttft_{name}": percentile([turn.ttft for turn in good], share) for name, share in SHARES}
    result |= {f"slowdown_{name}": percentile(slowdowns, share) for name, share in SHARES}
    # Until the last of them ended: what is late counts.
    seconds = max((turn.ended for turn in good), default=math.nan) / 1e3 - warmup
    return result | {"tpot_p50": percentile([turn.tpot for turn in good if turn.output > 1], 0.5),
                     "tokens_per_s": sum(turn.output for turn in good) / seconds, "goodput": 100 * met / max(1, len(turns)),
                     "hit_rate": 100 * sum(turn.cached for turn in good) / max(1, sum(turn.prompt for turn in good)),
                     "latency_p95": percentile([turn.ttft + turn.answer for turn in good], 0.95),
                     "failed": 100 * (len(turns) - len(good)) / max(1, len(turns))}


@dataclasses.dataclass
class Cell:
    """A workload at a load: the figures of every mode, seed by seed. The oracle may be in the first runs alone; it is compared in these."""
    load: int  # percent of the capacity
    rate: float
    runs: list  # of {mode: {figure: value}}
    title: str = ""  # instead of the load
    saturated: bool | None = None  # whether the load is beyond what the fleet keeps up with; by its percentage if not known

    def __post_init__(self):
        self.title = self.title or f"{self.load} %"
        self.saturated = self.load > 100 if self.saturated is None else self.saturated

    def runs_with(self, *modes):
        return [run for run in self.runs if all(mode in run for mode in modes)]

    def mean(self, mode, figure, runs=None):
        return statistics.mean(run[mode][figure] for run in runs or self.runs_with(mode))

    @property
    def modes(self):
        return list(self.runs[0])

    def best_other(self, figure, runs=None):
        others = [(self.mean(mode, figure, runs), mode) for mode in self.modes if mode not in (CANDIDATE, ORACLE, SHIPPED)]
        return (max if figure in LARGER_IS_BETTER else min)(others)

    def ratio(self, figure, mode=CANDIDATE, against=None):
        runs = self.runs_with(mode, *([against] if against else []))
        other = self.mean(against, figure, runs) if against else self.best_other(figure, runs)[0]
        mine = self.mean(mode, figure, runs)
        return mine / other if other else 1.0 if mine == other else math.inf

    def spread(self, figure, against):
        """The least and the largest ratio to another mode over the seeds."""
        ratios = [run[CANDIDATE][figure] / run[against][figure] for run in self.runs if run[against][figure]]
        return (min(ratios), max(ratios)) if ratios else (math.nan, math.nan)

    def meets(self, figure, mode=CANDIDATE):
        """Whether the mode keeps the bar of this figure; None: there is none at this load."""
        if figure == "goodput":
            runs = self.runs_with(mode)
            return self.mean(mode, figure, runs) >= self.best_other(figure, runs)[0] - SAME_GOODPUT
        if self.saturated:
            return self.ratio("ttft_p95", mode, "dynamo") <= BEYOND_BAR if figure == "ttft_p95" else None
        if figure == "tokens_per_s":
            return self.ratio(figure, mode) >= TOKENS_BAR
        return self.ratio(figure, mode) <= (TPOT_BAR if figure == "tpot_p50" else WAIT_BAR)

    def misses(self):
        return [figure for figure in TITLES if self.meets(figure) is False]


def interval(ratios):
    """Geometric mean of ratios with the 95 % interval by Student's t on their logarithms."""
    logs = [math.log(ratio) for ratio in ratios if ratio > 0]
    mean = statistics.mean(logs)
    if len(logs) < 2:
        return math.exp(mean), 0.0, math.inf
    half = STUDENT_T[min(len(logs) - 2, len(STUDENT_T) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


STUDENT_T = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]  # two-sided 95 %, from one degree of freedom on
