#!/usr/bin/env python3
"""What `kvist loadgen` pays per event and per idle stream, beside a bare epoll reader that parses nothing.

Events per second and core: events read over the processor time of the client, at the same load of the reference server, in turns
(kvist, reader, kvist, reader, ...). Memory per idle stream: the growth of the client's resident memory from few streams to many, all of
which wait for their first token.

usage: loadgen_beside_epoll.py KVIST EPOLL_READER [--streams N] [--gap MS] [--seconds S] [--rounds R] [--idle N,N] [--check]
  --check   exit status 1 below 0.9 of the reader, or above 5 kB per idle stream
"""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

TOKENS = 200
BAR_RATIO, BAR_BYTES = 0.9, 5_000


class Reference:
    def __init__(self, kvist, first, gap_ms):
        self.process = subprocess.Popen([kvist, "loadgen", "reference", "--first", first, "--gap", f"{gap_ms}ms"], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split("http=")[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def loadgen(kvist, url, streams, *options):
    return subprocess.Popen([kvist, "loadgen", "--target", url, "--model", "reference", "--concurrency", str(streams), "--input-tokens", "64",
                             "--output-tokens", str(TOKENS), "--ignore-eos", "--progress", "0s", "--calibration", "none", *options],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def metric(url, name):
    with urllib.request.urlopen(url + "/metrics", timeout=60) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
    sys.exit(f"no metric {name}")


def events_by_kvist(arguments):
    """Events per second, and per second of processor time."""
    with Reference(arguments.kvist, "20ms", arguments.gap) as reference:
        client = loadgen(arguments.kvist, reference.url, arguments.streams, "--port", "0", "--duration", "600s")
        port = int(client.stdout.readline().split("http=")[1])
        url = f"http://127.0.0.1:{port}"
        time.sleep(2)  # all streams have begun
        begin, ticks, events = time.monotonic(), cpu_ticks(client.pid), metric(url, "loadgen_output_tokens_total")
        time.sleep(arguments.seconds)
        wall, cpu = time.monotonic() - begin, (cpu_ticks(client.pid) - ticks) / 100
        read = metric(url, "loadgen_output_tokens_total") - events
        client.kill()
        client.wait()
    return read / wall, read / cpu


def bytes_per_event(reference):
    """The wire's bytes of one answer over its content events, so that the reader need not count."""
    body = json.dumps({"model": "reference", "stream": True, "max_tokens": TOKENS, "messages": [{"role": "user", "content": "x" * 64}]})
    answer = subprocess.run(["curl", "-s", "--raw", "-H", "Content-Type: application/json", "-d", body, reference.url + "/v1/chat/completions"],
                            capture_output=True, check=True).stdout
    return len(answer) / TOKENS


def events_by_reader(arguments):
    with Reference(arguments.kvist, "20ms", arguments.gap) as reference:
        size = bytes_per_event(reference)
        command = [arguments.epoll_reader, str(reference.port), str(arguments.streams), str(TOKENS)]
        done = json.loads(subprocess.run([*command, str(arguments.seconds + 2)], capture_output=True, check=True).stdout)
    events = done["bytes"] / size
    return events / done["seconds"], events / done["cpu_seconds"]


def resident(kvist, streams):
    """Resident memory of a client that holds so many streams, none of which has got a token."""
    with Reference(kvist, "600s", 20) as reference:
        client = loadgen(kvist, reference.url, streams, "--port", "0", "--duration", "900s")
        port = int(client.stdout.readline().split("http=")[1])
        while metric(f"http://127.0.0.1:{port}", "loadgen_in_flight") < streams:
            time.sleep(0.2)
        time.sleep(2)
        fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{client.pid}/status").read_text().splitlines())
        client.kill()
        client.wait()
    return 1024 * int(fields["VmRSS"].split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvist")
    parser.add_argument("epoll_reader")
    parser.add_argument("--streams", type=int, default=400)
    parser.add_argument("--gap", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", default="1000,20000")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rounds = [(events_by_kvist(arguments), events_by_reader(arguments)) for _ in range(arguments.rounds)]
    kvist_s, kvist_core = (statistics.median(r[0][i] for r in rounds) for i in (0, 1))
    reader_s, reader_core = (statistics.median(r[1][i] for r in rounds) for i in (0, 1))
    ratio = statistics.median(r[0][1] / r[1][1] for r in rounds)
    print("| client | events/s | events per second of processor time |\n| --- | --- | --- |")
    print(f"| epoll reader | {reader_s:,.0f} | {reader_core:,.0f} |\n| kvist loadgen | {kvist_s:,.0f} | {kvist_core:,.0f} ({ratio:.2f}) |")
    few, many = map(int, arguments.idle.split(","))
    per_stream = (resident(arguments.kvist, many) - resident(arguments.kvist, few)) / (many - few)
    print(f"\n{arguments.streams} streams, {arguments.gap:g} ms between events, median of {arguments.rounds} rounds of {arguments.seconds:g} s. "
          f"An idle stream takes {per_stream:,.0f} bytes (from {few:,} to {many:,} streams).")
    return 1 if arguments.check and (ratio < BAR_RATIO or per_stream > BAR_BYTES) else 0


if __name__ == "__main__":
    sys.exit(main())
