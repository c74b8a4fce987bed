#!/usr/bin/env python3
"""What an endpoint picker costs: Envoy alone, Envoy that asks kvist epp, and kvist's gateway, before the same server of known times, in one run
on the same cores. Processor time a request (prompts of 4 kB, answers of two chunks, 64 at once) and a chunk (streams of 100 chunks, without what
their requests cost), of each process, and time to first token on top of that straight to the server. --markdown writes
docs/results/endpoint-picker.md, with what `tests/peers/endpoint_picker_test.py` found last.

usage: envoy_picker.py KVIST [--rounds N] [--seconds S] [--streams N] [--markdown | --render]
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "peers"), str(ROOT / "tests" / "e2e")]

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("kvist")
arguments.add_argument("--rounds", type=int, default=3)
arguments.add_argument("--seconds", type=float, default=6, help="of each load")
arguments.add_argument("--streams", type=int, default=200)
arguments.add_argument("--markdown", action="store_true")
arguments.add_argument("--render", action="store_true", help="write the page with the figures of the last run, without measuring")
options = arguments.parse_args()
sys.argv[1:] = [options.kvist]

import deployment  # noqa: E402  (it reads the binary's path from the command line)
import envoy_picker  # noqa: E402
import fronts  # noqa: E402
import kvist_loadgen  # noqa: E402
import peer  # noqa: E402
from paced_server import PacedServer  # noqa: E402

PAGE = ROOT / "docs" / "results" / "endpoint-picker.md"
FIGURES = ROOT / "build" / "envoy-picker.json"
FIRST_MS, GAP_MS, CHUNKS, PROMPT = 50, 20, 100, 400
REQUEST_PROMPT, REQUEST_CHUNKS, REQUESTS_AT_ONCE, CALM = 4096, 2, 64, 8


class Upstream:
    def __init__(self, server):
        self.name, self.url, self.ports = "paced", server.url, {"http": server.port}


@contextlib.contextmanager
def ways(folder, server):
    """By name: the URL, and the processes that are paid for."""
    with contextlib.ExitStack() as stack:
        def started(front):
            stack.callback(front.stop)
            return front.start()
        upstream = [Upstream(server)]
        alone = started(fronts.Envoy("envoy", folder, upstream, "m", 16))
        picker = started(envoy_picker.Picker(folder, upstream, "m", 16))
        asking = started(envoy_picker.EnvoyWithPicker(folder, upstream, "m", 16, picker.port))
        gateway = started(fronts.Kvist("kvist", folder, upstream, "m", 16))
        yield {"straight": (server.url, {}), "Envoy alone": (alone.url, {"Envoy": alone}),
               "Envoy + kvist epp": (asking.url, {"Envoy": asking, "kvist epp": picker}), "kvist gateway": (gateway.url, {"kvist gateway": gateway})}


def spent(processes):
    return {name: process.cpu_seconds() for name, process in processes.items()}


def measure(folder, url, processes):
    """Microseconds a request and a chunk of each process, and the median first token of few streams, in milliseconds."""
    calm = kvist_loadgen.run(folder, url, kvist_loadgen.single_turns(PROMPT, 5), CALM, options.seconds, "m", "calm")
    before = spent(processes)
    short = kvist_loadgen.run(folder, url, kvist_loadgen.single_turns(REQUEST_PROMPT, REQUEST_CHUNKS), REQUESTS_AT_ONCE, options.seconds, "m", "short")
    between = spent(processes)
    long = kvist_loadgen.run(folder, url, kvist_loadgen.single_turns(PROMPT, CHUNKS), options.streams, options.seconds, "m", "long")
    after = spent(processes)
    failed = calm.failed + short.failed + long.failed
    assert not failed and short.succeeded and long.succeeded, f"{failed} of {url} failed: {calm.error or short.error or long.error}"
    costs = {}
    for name in processes:
        request = (between[name] - before[name]) / short.succeeded
        chunk = max(0.0, (after[name] - between[name]) / long.succeeded - request) / (CHUNKS - REQUEST_CHUNKS)
        costs[name] = (1e6 * request, 1e6 * chunk)
    return costs, calm.ttft["p50"], long.ttft["p50"], short.succeeded + long.succeeded


def middle(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def rows():
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        server = PacedServer(folder, FIRST_MS, GAP_MS)
        try:
            with ways(folder, server) as all_ways:
                for number in range(options.rounds):
                    for name, (url, processes) in all_ways.items():
                        found.setdefault(name, []).append(measure(folder, url, processes))
                        print(f"round {number + 1}: {name}", flush=True)
        finally:
            server.stop()
    base = found["straight"]
    table = []
    for name, runs in found.items():
        ttft = [f"{statistics.median(r[i] for r in runs):.2f} ms" if name == "straight" else
                f"{statistics.median(r[i] - b[i] for r, b in zip(runs, base)):+.2f} ms" for i in (1, 2)]
        parts = list(runs[0][0])
        for i, part in enumerate(parts or [""]):
            costs = [middle([r[0][part][k] for r in runs]) for k in (0, 1)] if part else ["", ""]
            table.append([name if i == 0 else "", part, *costs, *(ttft if i == 0 else ["", ""])])
    return table, sum(r[3] for runs in found.values() for r in runs)


def write(figures):
    table, requests, options.rounds, options.streams = figures["table"], figures["requests"], figures["rounds"], figures["streams"]
    columns = ["way", "process", "us a request", "us a chunk", f"TTFT, {CALM} streams", f"TTFT, {options.streams} streams"]
    lines = ["# The endpoint picker beside a real Envoy", "", "Made by `make endpoint-picker`.", "", "## What it costs", "",
             f"Envoy {peer.version_of('envoy')}, {figures['date']}, {os.cpu_count()} cores ({platform.machine()}); {options.rounds} rounds, {requests} requests, none failed. "
             "Processor time: median, and least to most of the rounds. The time to the first token is on top of that straight to the server, which gives the first token after "
             f"{FIRST_MS} ms; client, server and everything measured share the cores.", "",
             "| " + " | ".join(columns) + " |", "| --- | --- |" + " ---: |" * (len(columns) - 2)]
    lines += ["| " + " | ".join(row) + " |" for row in table]
    result = peer.RESULTS / "endpoint_picker.json"
    if result.exists():
        record = json.loads(result.read_text())
        held = sum(check["held"] for check in record["checks"])
        lines += ["", "## What was tried", "", f"{record['date']}, {record['seconds']} s; {held} of {len(record['checks'])} held.", "",
                  "| what was tried | held | what it showed |", "| --- | --- | --- |"]
        lines += [f"| {check['what']} | {'yes' if check['held'] else '**no**'} | {check['shown'].replace(str(ROOT) + '/', '')} |".replace("\n", " ") for check in record["checks"]]
    PAGE.write_text("\n".join(lines) + "\n")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if not options.render:
    found, count = rows()
    print("\n".join("  ".join(row) for row in found))
    FIGURES.write_text(json.dumps({"table": found, "requests": count, "rounds": options.rounds, "streams": options.streams, "date": datetime.date.today().isoformat()}))
if options.markdown or options.render:
    write(json.loads(FIGURES.read_text()))
