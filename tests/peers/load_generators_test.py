"""The load generators of the field, unchanged, against kvist: each against a gateway before two timed workers and against a worker alone;
chats, completions, conversations and traces, as far as the tool has them."""
import concurrent.futures
import contextlib
import dataclasses
import pathlib
import subprocess
import tempfile
import threading

import peer
import deployment
import fronts
import kvist_loadgen
import load_tools
from timed_fleet import BLOCK_SIZE, MODEL, timed_fleet

PEERS = ["aiperf", "guidellm", "inference-perf", "vllm"]
TIMEOUT_S = 300
STREAMS, REQUESTS, OUTPUT_TOKENS, TURNS = 8, 24, 20, 3

report = peer.Report("load_generators", "Load generators, unchanged, against kvist", 61, PEERS)
# What the tools are asked for, beside the numbers above: name, target, settings of the load.
RUNS = {
    "aiperf": [("chat", "gateway", {}), ("completions", "gateway", {"api": "completions"}), ("conversations", "gateway", {"turns": TURNS}),
               ("trace", "gateway", {"trace": True}), ("chat", "worker", {})],
    "guidellm": [("chat", "gateway", {}), ("completions", "worker", {"api": "completions"}), ("conversations", "gateway", {"turns": TURNS})],
    "inference-perf": [("chat", "gateway", {}), ("completions", "gateway", {"api": "completions"}), ("conversations", "gateway", {"turns": TURNS}),
                       ("chat", "worker", {})],
    "vllm": [("chat", "gateway", {}), ("completions", "gateway", {"api": "completions"}), ("trace", "gateway", {"trace": True, "api": "completions"}),
             ("chat", "worker", {})],
}
TITLES = {"aiperf": "AIPerf", "guidellm": "GuideLLM", "inference-perf": "inference-perf", "vllm": "vLLM bench"}
ROWS, LOCK = [], threading.Lock()


@dataclasses.dataclass
class Trace:
    """A small trace in Mooncake's format, and what it asks for."""
    path: pathlib.Path
    requests: int
    output_tokens: int


def make_trace(folder):
    settings = {"seed": 5, "turns_min": 1, "turns_max": 2, "starters": 3, "starter_tokens_min": 600, "starter_tokens_max": 900, "max_tokens": 30,
                "target_rps": 10}
    (folder / "trace.yaml").write_text(kvist_loadgen.workload_yaml(settings))
    path = folder / "trace.jsonl"
    subprocess.run([deployment.BINARY, "trace", "generate", "-f", folder / "trace.yaml", "--conversations", "16", "--think-time", "1 s", "-o", path],
                   check=True, capture_output=True)
    lines = [deployment.json.loads(line) for line in path.read_text().splitlines()]
    return Trace(path, len(lines), sum(line["output_length"] for line in lines))


class Target:
    """A gateway with its workers, and a worker alone."""

    def __init__(self, folder, workers, gateway):
        self.folder, self.workers, self.gateway = folder, workers, gateway

    def url(self, which):
        return self.gateway.url if which == "gateway" else self.workers[-1].url

    def counted(self, which, name):
        """A counter of the workers behind."""
        behind = self.workers[:-1] if which == "gateway" else self.workers[-1:]
        return sum(deployment.metrics(worker).get(name, 0) for worker in behind)


@contextlib.contextmanager
def target(model):
    with timed_fleet(3, kv_blocks=4_000, max_batch_size=64, max_num_tokens=2_048, time_scale=20, max_model_len=8_192,
                     tokenizer=model) as (folder, workers):
        gateway = fronts.Kvist("kvist kv", folder, workers[:-1], MODEL, BLOCK_SIZE, tokenizer=model).start()
        try:
            yield Target(folder, workers, gateway)
        finally:
            gateway.stop()


def load_of(place, which, settings, model, trace):
    wanted = {**settings, "trace": trace.path if settings.get("trace") else None}
    requests = trace.requests if settings.get("trace") else REQUESTS
    return load_tools.Load(place.url(which), model, STREAMS, requests, output_tokens=OUTPUT_TOKENS, **wanted)


def judge(tool, name, which, load, trace, said, served):
    """`served`: tokens that the workers made meanwhile, None where several runs share them."""
    asked = trace.output_tokens if load.trace else load.requests * OUTPUT_TOKENS
    # A probe before the load, of whatever length, is the tool's own business.
    whole = said.succeeded == load.requests and said.failed == 0 and said.output_tokens == asked and (served is None or served >= asked)
    with LOCK:
        report.check(f"{TITLES[tool]}, {name}, at the {which}", whole,
                     f"{said.succeeded} of {load.requests} answered, {said.output_tokens:.0f} of {asked} tokens {said.error}".strip())
        ROWS.append([TITLES[tool], name, which, said.succeeded, said.failed, f"{said.prompt_tokens:.0f}", f"{said.output_tokens:.0f}",
                     f"{served:.0f}" if served is not None else ""])


def run_each(tool, model, trace):
    """One process of the tool for each of its runs."""
    with target(model) as place:
        for number, (name, which, settings) in enumerate(RUNS[tool]):
            load = load_of(place, which, settings, model, trace)
            driven = load_tools.TOOLS[tool](tool, place.folder / f"{tool}-{number}", load)
            before = place.counted(which, "vllm:generation_tokens_total")
            try:
                load_tools.run_tool(driven, TIMEOUT_S)
                judge(tool, name, which, load, trace, driven.outcome(), place.counted(which, "vllm:generation_tokens_total") - before)
            except Exception as error:
                with LOCK:
                    report.check(f"{TITLES[tool]}, {name}, at the {which}", False, f"{type(error).__name__}: {error}"[:600])


def run_vllm(tool, model, trace):
    """All runs in one process: its import takes longer than they do."""
    with target(model) as place:
        loads = [load_of(place, which, settings, model, trace) for _, which, settings in RUNS[tool]]
        driven = load_tools.VllmBench(tool, place.folder / tool, loads)
        process = load_tools.run_tool(driven, TIMEOUT_S)
        for number, (name, which, _) in enumerate(RUNS[tool]):
            try:
                judge(tool, name, which, loads[number], trace, driven.outcome(number), None)
            except Exception as error:
                with LOCK:
                    report.check(f"{TITLES[tool]}, {name}, at the {which}", False, f"{type(error).__name__}: {error} {process.tail(300)}"[:600])


def every_tool():
    """Each load generator against gateway and worker"""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = pathlib.Path(deployment.create_model(str(folder / "model")))
        trace = make_trace(folder)
        # Nothing here is a measurement of time: two tools at once, the slowest to start first.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            order = [tool for tool in ("guidellm", "aiperf", "vllm", "inference-perf") if report.has(tool)]
            jobs = {tool: pool.submit(run_vllm if tool == "vllm" else run_each, tool, model, trace) for tool in order}
        for tool, job in jobs.items():
            if job.exception():
                report.check(f"{TITLES[tool]} runs", False, f"{type(job.exception()).__name__}: {job.exception()}"[:600])
    report.table("What each tool counted", ["tool", "what", "at", "answered", "failed", "prompt tokens", "output tokens", "made by the workers"],
                 sorted(ROWS, key=lambda row: row[0]),
                 "Prompt tokens as the tool counts them: inference-perf and vLLM bench use their own tokenizer. vLLM bench's runs share a process; what "
                 "the workers made is not told apart there; its traces are tokens, and so completions.")


report.run(every_tool)
