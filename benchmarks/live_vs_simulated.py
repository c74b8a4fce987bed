#!/usr/bin/env python3
"""Live equals simulated: one sweep on real processes and in virtual time, compared.

Runs `kvist sweep` and `kvist simulate` on the same file, pools the repetitions of each level, and compares exact percentiles of the turns
sent while measuring. Bars: medians and throughput within 3 %, 95th percentiles within 8 %. Exit status 1 where one is missed.

A live level during which the load generator's own loop ran later than a step takes (99th percentile) measured the machine's other work, not
the deployment: it is named and left out, on both sides, and at most two of the five repetitions of a level may be.

usage: live_vs_simulated.py KVIST [--sweep FILE] [--live RESULTS_DB] [--write MARKDOWN]
  --live    compare with a live run made before, instead of running one (7 minutes)
  --write   replace the table between the markers of this Markdown file
"""
import argparse
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

from deviation_table import markdown, quantile, write_between_markers

MEDIAN_BAR, TAIL_BAR = 3.0, 8.0
MOST_LOOP_DELAY_MS = 7.0  # the shortest step of the example
MOST_LEFT_OUT = 2

# Turn metric -> its value in ms from a row of the query below; None if a turn has none.
TURN_METRICS = {
    "TTFT": lambda t: (t["first_token_ns"] - t["sent_ns"]) / 1e6,
    "TPOT": lambda t: (t["last_token_ns"] - t["first_token_ns"]) / 1e6 / (t["completion_tokens"] - 1) if t["completion_tokens"] > 1 else None,
    "latency": lambda t: (t["ended_ns"] - t["sent_ns"]) / 1e6,
}


def run_kvist(kvist, command, sweep, folder):
    """The results database of one run."""
    output = pathlib.Path(folder) / command
    done = subprocess.run([kvist, command, "-f", sweep, "--output", output], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"kvist {command} failed:\n{done.stdout}{done.stderr}")
    return next(output.glob("*/results.sqlite"))


def disturbed(path):
    """The levels of a live run that a busy machine spoiled: (mode, level, repetition) -> loop delay p99 in ms."""
    database = sqlite3.connect(path)
    return {(mode, level, repetition): delay for mode, level, repetition, delay in database.execute(
        "SELECT mode, concurrency, repetition, loop_delay_p99_ms FROM levels JOIN client_health ON level = levels.id "
        "WHERE run = (SELECT max(id) FROM runs) AND loop_delay_p99_ms > ?", (MOST_LOOP_DELAY_MS,))}


def figures(path, left_out=()):
    """(mode, level) -> {metric: value} of a database's last run, its repetitions pooled."""
    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    run = database.execute("SELECT max(id) FROM runs").fetchone()[0]
    found = {}
    for mode, level in database.execute("SELECT DISTINCT mode, concurrency FROM levels WHERE run = ? ORDER BY position", (run,)).fetchall():
        repetitions = [r for _, _, r in (key for key in left_out if key[:2] == (mode, level))]
        where = ("FROM levels JOIN {} ON {}.level = levels.id WHERE run = ? AND mode = ? AND concurrency = ? AND repetition NOT IN (" +
                 ", ".join(map(str, repetitions)) + ")")
        turns = database.execute(
            "SELECT turns.* " + where.format("turns", "turns") +
            " AND outcome = 'succeeded' AND sent_ns BETWEEN measure_from_ns AND measure_to_ns", (run, mode, level)).fetchall()
        result = {"turns": len(turns)}
        for name, value in TURN_METRICS.items():
            values = [v for v in map(value, turns) if v is not None]
            result[f"{name} p50"] = quantile(values, 0.50)
            result[f"{name} p95"] = quantile(values, 0.95)
        result["tokens/s"] = database.execute(
            "SELECT avg(output_tokens_per_s) " + where.format("snapshots", "snapshots"), (run, mode, level)).fetchone()[0]
        result["hit rate"] = 100 * sum(t["cached_tokens"] for t in turns) / sum(t["prompt_tokens"] for t in turns)
        result["failed"] = database.execute(
            "SELECT count(*) " + where.format("turns", "turns") + " AND outcome = 'failed'", (run, mode, level)).fetchone()[0]
        found[mode, level] = result
    return found


def compare(live, simulated):
    """Rows of the table, and those of its metrics that miss their bar."""
    rows, missed = [], []
    for key, measured in live.items():
        for metric in [f"{name} {q}" for name in TURN_METRICS for q in ("p50", "p95")] + ["tokens/s"]:
            bar = TAIL_BAR if metric.endswith("p95") else MEDIAN_BAR
            deviation = 100 * (simulated[key][metric] / measured[metric] - 1)
            within = abs(deviation) <= bar
            unit = "" if metric == "tokens/s" else " ms"
            rows.append([key[0], str(key[1]), metric, f"{measured[metric]:.2f}{unit}", f"{simulated[key][metric]:.2f}{unit}",
                         f"{deviation:+.1f} %", f"{bar:.0f} %", "within" if within else "MISSED"])
            if not within:
                missed.append(rows[-1])
        rows.append([key[0], str(key[1]), "hit rate", f"{measured['hit rate']:.1f} %", f"{simulated[key]['hit rate']:.1f} %",
                     f"{simulated[key]['hit rate'] - measured['hit rate']:+.1f} points", "", ""])
    return rows, missed


HEAD = ["mode", "users", "metric", "live", "simulated", "deviation", "bar", "verdict"]


def plain(rows):
    widths = [max(len(row[i]) for row in [HEAD] + rows) for i in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [HEAD] + rows)


def main():
    parser = argparse.ArgumentParser(description="The simulator against the live system.")
    parser.add_argument("kvist", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--sweep", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "examples/sweeps/live-vs-simulated.yaml")
    parser.add_argument("--live", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        simulated_run = run_kvist(arguments.kvist, "simulate", arguments.sweep, folder)
        live_run = arguments.live or run_kvist(arguments.kvist, "sweep", arguments.sweep, folder)
        left_out = disturbed(live_run)
        for key in {key[:2] for key in left_out}:
            if sum(1 for other in left_out if other[:2] == key) > MOST_LEFT_OUT:
                sys.exit(f"{key[0]} {key[1]}: the machine is too busy for a comparison, the load generator was late in most repetitions")
        live, simulated = (figures(run, left_out) for run in (live_run, simulated_run))
    rows, missed = compare(live, simulated)
    failed = sum(level["failed"] for level in live.values())
    figures_count = sum(1 for row in rows if row[-1])
    verdict = (f"live equals simulated: {figures_count - len(missed)} of {figures_count} figures within their bars, "
               f"{sum(level['turns'] for level in live.values())} live and {sum(level['turns'] for level in simulated.values())} simulated "
               f"turns, {failed} live turns failed")
    for (mode, level, repetition), delay in sorted(left_out.items()):
        verdict += f"; left out: {mode} {level}, repetition {repetition + 1}, load generator {delay:.0f} ms late at p99"
    if arguments.write:
        write_between_markers(arguments.write, "live-vs-simulated", verdict + ".\n\n" + markdown(HEAD, rows))
    print(plain(rows))
    print(verdict)
    sys.exit(1 if missed or failed else 0)


if __name__ == "__main__":
    main()
