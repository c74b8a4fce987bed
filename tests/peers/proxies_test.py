"""What a proxy or router adds to a stream and what it costs: the same 1,000 streams straight to a server of known times and through each,
all of them beside client and server on the same cores. Measured from outside."""
import os
import pathlib
import tempfile
import time

import peer
import fronts
import kvist_loadgen
from paced_server import PacedServer

PEERS = ["haproxy", "nginx", "envoy", "vllm-router", "sglang-router", "smg"]
STREAMS = int(os.environ.get("KVIST_PROXIES_STREAMS", "1000"))
FIRST_MS, GAP_MS, TOKENS, PROMPT = 50, 50, 100, 400
# Few streams at a time: a proxy's latency without queueing.
CALM_STREAMS, CALM_TOKENS, CALM_SECONDS = 16, 5, 3

report = peer.Report("proxies", "What a proxy adds, per request and per chunk", 50, PEERS)

PROXIES = [
    ("haproxy", "haproxy", fronts.Haproxy), ("nginx", "nginx", fronts.Nginx), ("kvist kv", None, fronts.Kvist),
    ("vllm-router", "vllm-router", fronts.VllmRouter), ("sglang-router", "sglang-router", fronts.SglangRouter), ("smg", "smg", fronts.Smg),
    ("envoy", "envoy", fronts.Envoy),
]


class Upstream:
    """The server as a worker that publishes no events."""

    def __init__(self, server):
        self.name, self.url, self.ports = "paced", server.url, {"http": server.port}


def drive(folder, url, cpu_seconds):
    """All streams at once, then a few at a time: (summary of each, wall seconds and processor seconds of the first)."""
    calm = kvist_loadgen.run(folder, url, kvist_loadgen.single_turns(PROMPT, CALM_TOKENS), CALM_STREAMS, CALM_SECONDS, "m", "calm")
    workload, cpu = kvist_loadgen.single_turns(PROMPT, TOKENS), cpu_seconds()
    begun = time.monotonic()
    # No answer ends within the second, so no second turn begins.
    said = kvist_loadgen.run(folder, url, workload, STREAMS, 1, "m", "crowd")
    return calm, said, time.monotonic() - begun, cpu_seconds() - cpu


class Row:
    """What one way to the server showed."""

    def __init__(self, title, calm, said, wall, cpu):
        self.title, self.wall, self.cpu, self.answered = title, wall, cpu, said.succeeded
        self.ttfts = [calm.ttft["p50"], said.ttft["p50"], said.ttft["p95"]]
        report.check(f"{title}: {STREAMS} streams of {TOKENS} tokens, all whole",
                     said.succeeded == STREAMS and said.failed == 0 and not calm.failed,
                     f"{said.succeeded} whole, {said.failed + calm.failed} failed {said.error or calm.error}".strip())

    def cells(self, base=None):
        """`base`: the first-token times without a proxy; what comes on top of them is shown."""
        times = [f"{ttft - without:+.1f} ms" for ttft, without in zip(self.ttfts, base)] if base else [f"{ttft:.1f} ms" for ttft in self.ttfts]
        cost = [f"{1e3 * self.cpu / max(1, self.answered):.2f} ms", f"{1e6 * self.cpu / max(1, self.answered * TOKENS):.1f} us"]
        return [self.title, f"{self.wall:.2f} s", *times, *(cost if base else ["", ""])]


def streams():
    """1,000 streams directly and through each proxy"""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)  # nginx's workers are another user's
        server = PacedServer(folder, FIRST_MS, GAP_MS)
        direct = lambda title: Row(title, *drive(folder, server.url, lambda: 0.0))
        try:
            first, rows = direct("direct"), []
            for title, needed, make in PROXIES:
                if needed and not report.has(needed):
                    continue
                try:
                    front = make(title, folder, [Upstream(server)], "m", 32).start()
                    try:
                        rows.append(Row(title, *drive(folder, front.url, front.cpu_seconds)))
                    finally:
                        front.stop()
                except Exception as error:
                    report.check(f"{title}: {STREAMS} streams", False, f"{type(error).__name__}: {error}"[:400])
            last = direct("direct, at the end")
        finally:
            server.stop()
    base = [min(pair) for pair in zip(first.ttfts, last.ttfts)]
    report.table(f"{STREAMS} streams at once, {TOKENS} chunks each, one every {GAP_MS} ms",
                 ["through", "wall time", f"TTFT p50, {CALM_STREAMS} streams", f"TTFT p50, {STREAMS} streams", f"TTFT p95, {STREAMS} streams",
                  "processor time a request", "processor time a chunk"],
                 [first.cells(), *(row.cells(base) for row in rows), last.cells()],
                 f"Wall time from the client's start to its end; a stream takes {(FIRST_MS + GAP_MS * (TOKENS - 1)) / 1e3:.2f} s. The direct rows "
                 "are as measured, the others are what comes on top of the better of them. A request's processor time includes its chunks.")


report.note("Client (kvist loadgen), proxy and server share the machine's cores; the server's first token comes after "
            f"{FIRST_MS} ms. kvist reads and routes each prompt, the plain proxies look at no body.")
report.run(streams)
