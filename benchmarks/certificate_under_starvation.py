#!/usr/bin/env python3
"""What the load generator certifies of itself while it is left alone, stopped and starved, beside what was true.

Eight streams of 50 tokens, 20 ms apart, from `kvist loadgen reference`, whose record has the true times. The client is left alone, gets
SIGSTOP twice a second for 5, 20, 100 and 250 ms, and is the last in line (nice 19) for a processor that three processes keep busy. Exit
status 1 where a true figure is outside of what was certified by more than a millisecond.

usage: certificate_under_starvation.py KVIST [--seconds S] [--write MARKDOWN]
  --write   replace the table between the markers of this Markdown file
"""
import argparse
import contextlib
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "e2e"))

import reference_load  # noqa: E402
from deviation_table import write_between_markers  # noqa: E402

FIGURES = (("TTFT p50", "ttft_p50_ms", 0, 50), ("ITL p50", "itl_p50_ms", 1, 50), ("ITL p95", "itl_p95_ms", 1, 95), ("ITL p99", "itl_p99_ms", 1, 99))
TOLERANCE_MS = 1
EVERY_S = 0.5


def measure(seconds, stop_s=None, before_start=None):
    with reference_load.reference_server() as url, tempfile.TemporaryDirectory() as folder:
        client = reference_load.start_client(url, folder, seconds, before_start)
        if stop_s:
            reference_load.stop_now_and_then(client, stop_s, EVERY_S, seconds - EVERY_S)
        summary, *true = reference_load.finish(client, url, folder)
    return summary, true


def rows(name, summary, true):
    """Rows of the table, and whether every true figure is within its bounds."""
    lines, within = [], True
    for title, key, samples, share in FIGURES:
        measured, truth = summary["figures"][key]["value"], reference_load.percentile(true[samples], share)
        low, high = (summary["client"]["certificate"]["shares"][key][end] for end in ("low", "high"))
        within &= low - TOLERANCE_MS <= measured - truth <= high + TOLERANCE_MS
        head = (f"{name}: **{summary['client']['verdict']}**" if title == FIGURES[0][0] else "")
        lines.append(f"| {head} | {title} | {truth:.1f} | {measured:.1f} | {measured - truth:+.1f} | {low:+.1f} to {high:+.1f} |")
    return lines, within


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvist")
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    cases = [("left alone", None), *((f"stopped for {ms} ms", ms / 1e3) for ms in (5, 20, 100, 250))]
    lines = ["| client | figure | true (ms) | measured | the client's part | certified |", "| --- | --- | --- | --- | --- | --- |"]
    fine = True
    with contextlib.ExitStack() as stack:
        for name, stop_s in [*cases, ("behind busy processes", None)]:
            before = stack.enter_context(reference_load.busy_processor(3)) if name.startswith("behind") else None
            added, within = rows(name, *measure(arguments.seconds, stop_s, before))
            lines += added
            fine &= within
    table = "\n".join(lines)
    print(table)
    if arguments.write:
        write_between_markers(arguments.write, "certificate", table)
    return 0 if fine else 1


sys.exit(main())
