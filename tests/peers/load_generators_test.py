"""The load generators of the field, unchanged, against kvist: each against a gateway before two timed workers and against a worker
alone; chats, completions, conversations and traces, as far as the tool supports them."""
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
STREAMS, REQUESTS, PROMPT_TOKENS, OUTPUT_TOKENS, TURNS = 8, 24, 100, 20, 3

report = peer.Report("load_generators", "Load generators, unchanged, against kvist", 61, PEERS)
# The loads of every tool, at the gateway and at a worker alone.
RUNS = [(name, which) for name in ("chat", "completions", "conversations", "trace") for which in ("gateway", "worker")]
# Where a tool has a thing through the other API only: vLLM's traces are tokens, not texts; inference-perf's traces and sessions of turns
# come from generators that make completions.
COMPLETIONS = {("vllm", "trace"), ("inference-perf", "trace"), ("inference-perf", "conversations")}
TITLES = {"aiperf": "AIPerf", "guidellm": "GuideLLM", "inference-perf": "inference-perf", "vllm": "vLLM bench"}
ROWS, LOCK = [], threading.Lock()


@dataclasses.dataclass
class Trace:
    """A small trace in Mooncake's format, and its totals."""
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

    def counted(self, which):
        """Prompt tokens, output tokens and finished requests as the workers behind count them."""
        seen = [deployment.metrics(worker) for worker in (self.workers[:-1] if which == "gateway" else self.workers[-1:])]
        return [sum(metrics.get(f"vllm:{name}_total", 0) for metrics in seen) for name in ("prompt_tokens", "generation_tokens", "request_success")]


@contextlib.contextmanager
def target(model):
    with timed_fleet(3, kv_blocks=4_000, max_batch_size=64, max_num_tokens=2_048, time_scale=20, max_model_len=8_192,
                     tokenizer=model) as (folder, workers):
        gateway = fronts.Kvist("kvist kv", folder, workers[:-1], MODEL, BLOCK_SIZE, tokenizer=model).start()
        try:
            yield Target(folder, workers, gateway)
        finally:
            gateway.stop()


def load_of(tool, place, name, which, model, trace):
    replay = name == "trace"
    return load_tools.Load(place.url(which), model, STREAMS, trace.requests if replay else REQUESTS,
                           api="completions" if name == "completions" or (tool, name) in COMPLETIONS else "chat", prompt_tokens=PROMPT_TOKENS,
                           output_tokens=OUTPUT_TOKENS, turns=TURNS if name == "conversations" else 1, trace=trace.path if replay else None)


def asked_tokens(load, trace):
    return trace.output_tokens if load.trace else load.requests * OUTPUT_TOKENS


def least_prompt_tokens(name, load):
    """A lower bound that shows that a tool sent what it was told to: a chat's template adds to its prompt, and each turn repeats
    the previous ones."""
    return load.requests * PROMPT_TOKENS * {"chat": 1, "conversations": 1.5}.get(name, 0)


def judge(tool, name, which, load, trace, said, served):
    """`served`: the workers' counts meanwhile, None if several runs share the workers."""
    asked = asked_tokens(load, trace)
    prompts, made, ended = served or (said.prompt_tokens, asked, load.requests)
    # A tool may send a probe of any length before the load.
    whole = said.succeeded == load.requests and said.failed == 0 and said.output_tokens == asked and made >= asked and ended >= load.requests
    shown = f"{said.succeeded} of {load.requests} answered, {said.output_tokens:.0f} of {asked} tokens {said.error}".strip()
    if prompts <= least_prompt_tokens(name, load):
        whole, shown = False, f"{shown}; {prompts:.0f} prompt tokens are too few for that"
    with LOCK:
        report.check(f"{TITLES[tool]}, {name}, at the {which}", whole, shown)
        ROWS.append([TITLES[tool], name, which, load.api, said.succeeded, said.failed, f"{said.prompt_tokens:.0f}", f"{said.output_tokens:.0f}",
                     f"{made:.0f}" if served else ""])


def run_each(tool, model, trace):
    """One process of the tool for each of its runs."""
    with target(model) as place:
        for number, (name, which) in enumerate(RUNS):
            load = load_of(tool, place, name, which, model, trace)
            driven = load_tools.TOOLS[tool](tool, place.folder / f"{tool}-{number}", load)
            before = place.counted(which)
            try:
                load_tools.run_tool(driven, TIMEOUT_S)
                served = [after - earlier for after, earlier in zip(place.counted(which), before)]
                judge(tool, name, which, load, trace, driven.outcome(), served)
            except Exception as error:
                with LOCK:
                    report.check(f"{TITLES[tool]}, {name}, at the {which}", False, f"{type(error).__name__}: {error}"[:600])


def run_together(tool, model, trace):
    """All runs in one process: its import takes longer than they do."""
    with target(model) as place:
        loads = [load_of(tool, place, name, which, model, trace) for name, which in RUNS]
        before = {which: place.counted(which) for which in ("gateway", "worker")}
        driven = load_tools.TOGETHER[tool](tool, place.folder / tool, loads)
        process = load_tools.run_tool(driven, TIMEOUT_S)
        for number, (name, which) in enumerate(RUNS):
            try:
                judge(tool, name, which, loads[number], trace, driven.outcome(number), None)
            except Exception as error:
                with LOCK:
                    report.check(f"{TITLES[tool]}, {name}, at the {which}", False, f"{type(error).__name__}: {error} {process.tail(300)}"[:600])
        for which in before:
            there = [load for load, (_, at) in zip(loads, RUNS) if at == which]
            requests, asked = sum(load.requests for load in there), sum(asked_tokens(load, trace) for load in there)
            _, made, ended = (after - earlier for after, earlier in zip(place.counted(which), before[which]))
            with LOCK:
                report.check(f"{TITLES[tool]}, all runs at the {which}: as the workers count", ended >= requests and made >= asked,
                             f"{ended:.0f} of {requests} requests, {made:.0f} of {asked} tokens")


def every_tool():
    """Each load generator against gateway and worker"""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = pathlib.Path(deployment.create_model(str(folder / "model")))
        trace = make_trace(folder)
        # Nothing here is a measurement of time: two tools at once, the slowest to start first.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            order = [tool for tool in ("guidellm", "aiperf", "vllm", "inference-perf") if report.has(tool)]
            jobs = {tool: pool.submit(run_together if tool in load_tools.TOGETHER else run_each, tool, model, trace) for tool in order}
        for tool, job in jobs.items():
            if job.exception():
                report.check(f"{TITLES[tool]} runs", False, f"{type(job.exception()).__name__}: {job.exception()}"[:600])
    report.table("What each tool counted", ["tool", "what", "at", "API", "answered", "failed", "prompt tokens", "output tokens",
                                            "made by the workers"], sorted(ROWS, key=lambda row: row[0]),
                 "Prompt tokens as the tool counts them: inference-perf and vLLM bench use their own tokenizer. The runs of GuideLLM and "
                 "of vLLM bench share a process each; what the workers made is told there for all together.")
    report.note("Each of the four drives gateway and worker with chats, completions, conversations and a trace. Not through every API: vLLM bench "
                "replays a trace as tokens, inference-perf only Azure's format, times and lengths, and both as completions; inference-perf's "
                "sessions of turns are completions that grow; its chats in turns come from recordings and agents' graphs, not tried here. vLLM's "
                "conversations are driven by its own multi-turn script.")


report.run(every_tool)
