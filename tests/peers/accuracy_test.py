"""The accuracy of load generators' figures, and their CPU time per chunk: each reads streams of known times, on a machine that it
shares with the server. Its figures are listed beside the server's record."""
import contextlib
import json
import os
import pathlib
import tempfile
import time

import peer
import deployment
import kvist_loadgen
import load_tools
from cpu_samples import CpuSamples
from paced_server import PacedServer

PEERS = ["aiperf", "guidellm", "inference-perf", "vllm"]
FIRST_MS, GAP_MS, TOKENS, PROMPT = 50, 20, 50, 100
STREAMS = [int(n) for n in os.environ.get("KVIST_ACCURACY_STREAMS", "50,200,800").split(",")]
ROUNDS = 2
TIMEOUT_S = 240  # for a tool's run at one number of streams

report = peer.Report("accuracy", "Load generators on a server of known times", 60, PEERS)


def milliseconds(value):
    return "none" if value is None or value != value else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


class Rows:
    """The table: a row per tool and number of streams."""

    COLUMNS = ["client", "streams", "TTFT p50, said (ms)", "sent by the server", "TPOT p50, said (ms)", "sent by the server",
               "chunks/s", "processor time a chunk"]

    def __init__(self):
        self.rows = []

    def add(self, name, streams, record, ttft, tpot, succeeded, failed, begin, seconds, cpu_seconds, error=""):
        """`begin` and `seconds`: the load alone, without the tool's start and its final summary."""
        report.check(f"{name}, {streams} streams: all answered, none failed", failed == 0 and succeeded >= streams,
                     f"{succeeded} answered, {failed} failed {error}".strip())
        rate = record.tokens / seconds if seconds else 0
        self.rows.append([name, streams, milliseconds(ttft), milliseconds(record.ttft_p50), milliseconds(tpot), milliseconds(record.tpot_p50),
                          f"{rate:,.0f}", f"{1e6 * cpu_seconds / record.tokens:,.0f} us" if record.tokens else "none"])

    def fail(self, name, streams, why):
        report.check(f"{name}, {streams} streams", False, why)
        self.rows.append([name, streams, "none", "", "", "", "", ""])


ROWS = Rows()


def loads(url, model, folder):
    return [load_tools.Load(url, model, streams, ROUNDS * streams, "chat", PROMPT, TOKENS) for streams in STREAMS]


def with_server(body):
    """A folder with a model's tokenizer, and a fresh server."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = pathlib.Path(folder)
        server = PacedServer(folder, FIRST_MS, GAP_MS)
        stack.callback(server.stop)
        body(folder, pathlib.Path(deployment.create_model(str(folder / "model"))), server)


def kvist():
    """kvist loadgen"""
    def body(folder, _, server):
        for streams in STREAMS:
            server.reset()
            # One round takes a second, so that no client begins a third.
            duration = ROUNDS * (FIRST_MS + GAP_MS * (TOKENS - 1)) / 1e3 - 0.5
            process = kvist_loadgen.start(folder, server.url, kvist_loadgen.single_turns(PROMPT * 4, TOKENS), streams, duration)
            samples = CpuSamples(process, 0.05)
            try:
                process.process.wait(TIMEOUT_S)
                samples.stop()
                said, record = kvist_loadgen.summary(process), server.record()
                seconds = record.last_token - record.first_arrival
                report.note(f"kvist loadgen says of its own run with {streams} streams: {said.verdict}.")
                ROWS.add("kvist loadgen", streams, record, said.ttft["p50"], said.tpot["p50"], said.succeeded, said.failed,
                         record.first_arrival, seconds, samples.at(time.monotonic()), said.error)
            finally:
                samples.stop()
                process.stop()
    with_server(body)


def vllm_bench():
    """vLLM bench"""
    if not report.has("vllm"):
        return

    def body(folder, model, server):
        wanted = loads(server.url, model, folder)
        tool = load_tools.VllmBench("vllm", folder / "vllm", wanted)
        process = peer.PeerProcess(tool.command(), tool.path("log.txt"), env=tool.env, cwd=tool.folder)
        samples = CpuSamples(process)
        try:
            process.process.wait(TIMEOUT_S)
        finally:
            samples.stop()
            process.stop()
        marks = json.loads(tool.path("marks.json").read_text())
        for i, load in enumerate(wanted):
            add_outcome("vLLM bench", tool.outcome(i), load, server.record(*marks[i]), samples)
    with_server(body)


def add_outcome(name, said, load, record, samples):
    end = record.first_arrival + max(said.seconds, record.last_token - record.first_arrival)
    ROWS.add(name, load.streams, record, said.ttft_p50, said.tpot_p50, said.succeeded, said.failed, record.first_arrival,
             end - record.first_arrival, samples.between(record.first_arrival, end), said.error)


def process_per_level(name, title):
    """One process of the tool for each number of streams."""
    if not report.has(name):
        return

    def body(folder, model, server):
        for load in loads(server.url, model, folder):
            server.reset()
            tool = load_tools.TOOLS[name](name, folder / f"{name}-{load.streams}", load)
            process = peer.PeerProcess(tool.command(), tool.path("log.txt"), env=tool.env, cwd=tool.folder)
            samples = CpuSamples(process)
            try:
                process.process.wait(TIMEOUT_S)
                samples.stop()
                add_outcome(title, tool.outcome(), load, server.record(), samples)
            except Exception as error:  # the other numbers of streams have rows of their own
                ROWS.fail(title, load.streams, f"{type(error).__name__}: {error}; {process.tail(300)}")
            finally:
                samples.stop()
                process.stop()
    with_server(body)


def aiperf():
    """AIPerf"""
    process_per_level("aiperf", "AIPerf")


def inference_perf():
    """inference-perf"""
    process_per_level("inference-perf", "inference-perf")


def guidellm():
    """GuideLLM"""
    process_per_level("guidellm", "GuideLLM")


def table():
    """The table of what clients say"""
    report.table(f"First tokens after {FIRST_MS} ms, then one every {GAP_MS} ms", Rows.COLUMNS, ROWS.rows,
                 "Two columns side by side are the same quantity: what the client says and what the server sent. A chunk is one token. "
                 "Processor time is that of all the client's processes from the first request to the end of its load.")


report.note(f"A server of known times answers each stream by a clock of its own: the first token {FIRST_MS} ms after the request, a further one "
            f"every {GAP_MS} ms, {TOKENS} in all; {ROUNDS} rounds of as many requests as streams. Client and server share the machine. A client "
            "that cannot keep up tells its own delay as the server's.")
report.run(kvist, vllm_bench, aiperf, inference_perf, guidellm, table)
