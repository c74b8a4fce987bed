#!/usr/bin/env python3
"""What the gateway costs per chunk and per request, beside haproxy and nginx in the same run.

Every proxy relays the same open-loop streams of tests/peers/paced_server.cc (a clock per stream, whatever proxy and client do),
driven by `kvist loadgen`, on the same machine within the same minutes: the ratios are meaningful, the times only in comparison.
haproxy (with `option http-no-delay`) and nginx are Debian's, each with one thread or worker process as long as the gateway has one.
Shown per number of streams: processor time a chunk, time to first token on top of that without a proxy, memory a stream; and the
processor time of a request of two chunks with a prompt of 4 kB, which the gateway tokenizes, hashes and routes: byte by byte, as
kvist's timed workers do, or with --tokenizer as a model does.

usage: gateway_beside_proxies.py KVIST [--streams N ...] [--rate CHUNKS_PER_S] [--threads N ...] [--only NAME ...] [--rounds N]
       [--tokenizer DIRECTORY]
"""
import argparse
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "peers"), str(ROOT / "tests" / "e2e")]

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("kvist")
arguments.add_argument("--streams", type=int, nargs="+", default=[200, 1000, 3500])
arguments.add_argument("--rate", type=int, default=20_000, help="chunks a second, over all streams")
arguments.add_argument("--threads", type=int, nargs="+", default=[1], help="of the gateway; the others get as many")
arguments.add_argument("--only", nargs="+", default=["haproxy", "nginx", "kvist"])
arguments.add_argument("--tokenizer", help="the directory of a model's tokenizer.json; without it, prompts are tokenized byte by byte")
arguments.add_argument("--rounds", type=int, default=1)
arguments.add_argument("--seconds", type=float, default=6, help="of each load, after its warm-up")
options = arguments.parse_args()
sys.argv[1:] = [options.kvist]

import fronts  # noqa: E402  (they read the binary's path from the command line)
import kvist_loadgen  # noqa: E402
from paced_server import PacedServer  # noqa: E402

TOKENS, PROMPT = 100, 400
REQUEST_PROMPT, REQUEST_TOKENS, REQUEST_STREAMS = 4096, 2, 64
FIRST_MS = 50


class Haproxy(fronts.Haproxy):
    threads = 1

    def command(self):
        command = super().command()
        config = pathlib.Path(command[-1])
        config.write_text(config.read_text().replace("global\n", f"global\n  nbthread {self.threads}\n"))
        return command


class Nginx(fronts.Nginx):
    threads = 1

    def command(self):
        command = super().command()
        config = pathlib.Path(command[-1])
        config.write_text(config.read_text().replace("worker_processes auto;", f"worker_processes {self.threads};"))
        return command


class Kvist(fronts.Kvist):
    threads = 1

    def command(self):
        command = super().command()
        config = pathlib.Path(command[-1])
        config.write_text(config.read_text().replace("gateway:\n", f"gateway:\n  threads: {self.threads}\n"))
        return command


class Upstream:
    """The server as a worker that publishes no events."""

    def __init__(self, server):
        self.name, self.url, self.ports = "paced", server.url, {"http": server.port}


class Direct:
    """No proxy."""

    def __init__(self, server):
        self.url = server.url

    cpu_seconds = memory_bytes = staticmethod(lambda: 0)
    start = lambda self: self
    stop = lambda self: None


def drive(folder, front, server, streams, tokens, prompt, starts_per_s, warmup_s):
    """(processor seconds, chunks, requests, TTFT p50 and p99, memory bytes) of one load."""
    server.reset()
    cpu = front.cpu_seconds()
    process = kvist_loadgen.start(folder, front.url, kvist_loadgen.single_turns(prompt, tokens, starts_per_s), streams, warmup_s + options.seconds, "m",
                                  "load", warmup_s=warmup_s)
    memory = 0
    try:
        while process.process.poll() is None:
            time.sleep(0.2)
            memory = max(memory, front.memory_bytes())
        said = kvist_loadgen.summary(process)
    finally:
        process.stop()
    if said.failed:
        print(f"  {said.failed} of {said.failed + said.succeeded} failed: {said.error}", file=sys.stderr)
    record = server.record()
    return front.cpu_seconds() - cpu, record.tokens, record.streams, said.ttft["p50"], said.ttft["p99"], memory


def measure(folder, make):
    """The results of drive() for one route to the server: per number of streams and for short requests."""
    loads = [(streams, TOKENS, PROMPT, options.rate / TOKENS, 1e3 * streams / options.rate) for streams in options.streams]
    loads.append((REQUEST_STREAMS, REQUEST_TOKENS, REQUEST_PROMPT, 100_000, 1.0))
    rows = []
    for streams, tokens, prompt, starts_per_s, gap_ms in loads:
        server = PacedServer(folder, FIRST_MS if tokens > 2 else 1, gap_ms)
        try:
            front = make(server).start()
            idle = front.memory_bytes()
            try:
                *cost, memory = drive(folder, front, server, streams, tokens, prompt, starts_per_s, 2 + int(tokens * gap_ms / 1e3))
                rows.append((*cost, memory - idle))
            finally:
                front.stop()
        finally:
            server.stop()
    return rows


def ways(folder, threads):
    """Name -> what makes it before a server."""
    kinds = {"haproxy": Haproxy, "nginx": Nginx, "kvist": Kvist}
    found = {"direct": Direct}
    for name in options.only:
        kind = type(kinds[name].__name__, (kinds[name],), {"threads": threads})
        settings = {"tokenizer": options.tokenizer} if name == "kvist" and options.tokenizer else {}
        found[name] = lambda server, name=name, kind=kind, settings=settings: kind(name, folder, [Upstream(server)], "m", 32, **settings)
    return found


def show(title, rows, base, haproxy):
    """One line per number of streams, one for short requests."""
    # The cost of a request is that of a short one less its chunks; the longest streams give the cost of a chunk.
    for i, streams in enumerate(options.streams):
        cpu, chunks, requests, p50, p99, memory = rows[i]
        per_chunk = 1e6 * cpu / max(1, chunks)
        ratio = f"{per_chunk / (1e6 * haproxy[i][0] / max(1, haproxy[i][1])):5.2f}" if haproxy else "    -"
        print(f"  {title:10} {streams:5} streams  {per_chunk:6.2f} us a chunk  {ratio} of haproxy's   TTFT {p50 - base[i][3]:+7.1f} / {p99 - base[i][4]:+7.1f} ms"
              f"  {memory / 1024 / streams:6.1f} KiB a stream  ({chunks} chunks, {requests} streams, {cpu:.2f} s)")
    cpu, _, requests, p50, p99, _ = rows[-1]
    per_request = 1e6 * cpu / max(1, requests)
    ratio = f"{per_request / (1e6 * haproxy[-1][0] / max(1, haproxy[-1][2])):5.2f}" if haproxy else "    -"
    print(f"  {title:10} short requests {per_request:6.1f} us a request  {ratio} of haproxy's   ({requests} requests, {cpu:.2f} s)", flush=True)


def median_rows(rounds):
    """The round with the median processor time a chunk or request, per load."""
    return [sorted(load, key=lambda row: row[0] / max(1, row[1]))[len(load) // 2] for load in zip(*rounds)]


def main():
    for threads in options.threads:
        print(f"{threads} thread{'s' * (threads > 1)}: {options.rate} chunks a second; TTFT p50 / p99 on top of those without a proxy")
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            folder.chmod(0o755)  # nginx's workers are another user's
            gathered = {}
            for _ in range(options.rounds):
                for name, make in ways(folder, threads).items():
                    gathered.setdefault(name, []).append(measure(folder, make))
        results = {name: median_rows(rounds) for name, rounds in gathered.items()}
        base = results.pop("direct")
        print("  " + "direct: TTFT p50 / p99 " + ", ".join(f"{row[3]:.1f} / {row[4]:.1f} ms" for row in base[:-1]))
        for name, rows in results.items():
            show(name, rows, base, results.get("haproxy"))


main()
