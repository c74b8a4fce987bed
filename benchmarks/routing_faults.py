#!/usr/bin/env python3
"""Faults while under load, live: hit rate and TTFT p95 before, during and after each, kv against round-robin.

Two timed workers (ten times faster than the GPU they model), an event proxy with faults before each, users in a closed loop whose
conversations share starters. About three and a half minutes. Prints a Markdown table; exit status 1 where a request was lost that
no worker had begun to answer.

usage: routing_faults.py KVIST [--users N] [--phase SECONDS]
"""
import argparse
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/e2e"))
from conversations import Users  # noqa: E402
from faulty_fleet import fleet  # noqa: E402

STARTERS = 100  # more than both workers hold, so that routing determines the hits
WARM_S = 5
HUNG_S = 6  # long enough to be detected, short enough for its streams to continue


def lines(fault):
    def inject(deployed):
        for line in deployed.lines:
            line.fault = fault

    def heal(deployed):
        for line in deployed.lines:
            line.fault = None

    return inject, heal


FAULTS = {
    "events cut": lines("cut"),
    "events 2 s late": lines("delay"),
    "events reordered, replayed": lines("reorder"),
    "worker restarted, cache empty": (lambda deployed: deployed.restart(0), lambda deployed: None),
    "worker hung for 6 s": (lambda deployed: deployed.workers[0].process.send_signal(signal.SIGSTOP),
                            lambda deployed: deployed.workers[0].process.send_signal(signal.SIGCONT)),
}


def quantile(values, q):
    """Linear between the two nearest ranks, as kvist's own reports."""
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def figures(turns):
    """Hit rate in percent and TTFT p95 in ms of turns sent in one phase."""
    good = [turn for turn in turns if turn.succeeded and turn.ttft is not None]
    if not good:
        return "-", "-"
    hits = 100 * sum(t.cached_tokens for t in good) / max(1, sum(t.prompt_tokens for t in good))
    return f"{hits:.0f} %", f"{1000 * quantile([t.ttft for t in good], 0.95):.0f} ms"


def measure(mode, users, phase_s):
    """Rows of the table, and the turns that failed though nothing of their answer had come."""
    rows, lost = [], 0
    for name, (inject, heal) in FAULTS.items():
        with fleet(mode=mode) as deployed:
            load = Users(deployed.port, users, starters=STARTERS)
            time.sleep(WARM_S)
            edges = [time.monotonic()]
            time.sleep(phase_s)
            edges.append(time.monotonic())
            inject(deployed)
            time.sleep(max(HUNG_S, phase_s) if "hung" in name else phase_s)
            heal(deployed)
            edges.append(time.monotonic())
            time.sleep(phase_s)
            edges.append(time.monotonic())
            turns = load.stop()
        phases = [figures([t for t in turns if start <= t.sent < end]) for start, end in zip(edges, edges[1:])]
        failed = [turn for turn in turns if not turn.succeeded]
        lost += sum(1 for turn in failed if turn.ttft is None)
        rows.append([name, mode, *(hits for hits, _ in phases), *(p95 for _, p95 in phases), str(len(turns)), str(len(failed))])
    return rows, lost


HEAD = ["fault", "mode", "hits before", "during", "after", "TTFT p95 before", "during", "after", "turns", "broken off"]


def main():
    parser = argparse.ArgumentParser(description="Faults while under load.")
    parser.add_argument("kvist")  # read by tests/e2e/deployment.py, too
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--phase", type=float, default=4)
    arguments = parser.parse_args()
    by_mode = {mode: measure(mode, arguments.users, arguments.phase) for mode in ("round_robin", "kv")}
    rows = [row for pair in zip(*(rows for rows, _ in by_mode.values())) for row in pair]
    print("\n".join("| " + " | ".join(row) + " |" for row in [HEAD, ["---"] * len(HEAD), *rows]))
    lost = sum(lost for _, lost in by_mode.values())
    print(f"\n{lost} requests lost that no worker had begun to answer")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
