"""kv beside round-robin over the published deployment and its variations: examples/routing, paired over seeds."""
import pathlib
import shutil
import sqlite3

import figures
import simulation
import workloads

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/routing"
BASELINE = "round_robin"
SEEDS = 5
# A light level and one close to the batch slots of each; what it shows is in the file.
LEVELS = {"three-workers": [60, 120, 180], "prior-half": [120], "prior-double": [120], "workers-1": [40], "workers-2": [30, 120],
          "workers-8": [120, 480], "workers-64": [960], "starters-100": [60, 180], "starters-1000": [60, 180], "small-memory": [40, 120],
          "single-turn": [60, 180], "own-starters": [60, 180], "mixed-speeds": [90, 180, 240], "poisson": [20, 50], "bursty": [20, 50]}
COMPARED = ["ttft_p50", "ttft_p95", "tpot_p50", "latency_p95", "tokens_per_s"]
TITLES = figures.TITLES | {"latency_p95": "latency p95"}


def measure(kvist, folder, name, level):
    """Ratios of kv to the baseline by figure, one per seed."""
    output = folder / f"{name}-{level}"
    output.mkdir()
    workloads.call(kvist, "simulate", "-f", EXAMPLES / f"{name}.yaml", "--output", output, "--threads", 1, "--level", level,
                   "--repetitions", SEEDS, "--mode", BASELINE, "--mode", figures.CANDIDATE)
    turns, windows = {}, {}
    with sqlite3.connect(next(output.glob("**/*.sqlite"))) as store:
        for repetition, mode, begin, end, *turn in store.execute(
                "SELECT repetition, mode, measure_from_ns / 1e9, measure_to_ns / 1e9, conversation, turn, outcome, intended_ns / 1e6, "
                "(first_token_ns - intended_ns) / 1e6, (last_token_ns - first_token_ns) / 1e6, last_token_ns / 1e6, prompt_tokens, "
                "cached_tokens, completion_tokens FROM turns JOIN levels ON turns.level = levels.id "
                "WHERE last_token_ns >= measure_from_ns AND last_token_ns < measure_to_ns"):
            turns.setdefault((repetition, mode), []).append(simulation.Turn(*turn))
            windows[repetition, mode] = begin
    shutil.rmtree(output)
    of = {key: figures.of_turns(found, lambda turn: turn.ttft, windows[key]) for key, found in turns.items()}
    return {figure: [of[seed, figures.CANDIDATE][figure] / of[seed, BASELINE][figure] for seed in range(SEEDS)] for figure in COMPARED}


def verdict(figure, ratios):
    """The ratio with its interval, and "worse" if all of it is on the worse side."""
    mean, low, high = figures.interval(ratios)
    worse = high < 1 if figure in figures.LARGER_IS_BETTER else low > 1
    return f"{mean:.3f} ({low:.3f} to {high:.3f})" + (" worse" if worse else "")


def rows(kvist, folder, pool):
    tasks = [(name, level) for name, levels in LEVELS.items() for level in levels]
    measured = pool.map(lambda task: measure(kvist, folder, *task), tasks)
    return [[f"`{name}` {level}", *(verdict(figure, ratios[figure]) for figure in COMPARED)] for (name, level), ratios in zip(tasks, measured)]
