"""The load generators of the field, each as a command and a reader of the file that it writes. All run unmodified: they get a
model's directory for their tokenizer and the sizes of requests, and no settings that adapt them to a server."""
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import statistics

import peer

HERE = pathlib.Path(__file__).resolve().parent
# No model is downloaded, and no telemetry is sent.
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
               "TOKENIZERS_PARALLELISM": "false", "GUIDELLM__MAX_WORKER_PROCESSES": "2"}
MULTI_TURN = peer.PEERS / "vllm" / "multi_turn" / "benchmark_serving_multi_turn.py"
API_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


@dataclasses.dataclass
class Load:
    """The load that a tool is to send. With `turns` above 1 the requests are conversations of that many turns; with `trace` they
    are its lines."""
    url: str
    model_folder: pathlib.Path
    streams: int
    requests: int
    api: str = "chat"
    prompt_tokens: int = 100
    output_tokens: int = 50
    turns: int = 1
    trace: pathlib.Path | None = None
    model: str = "m"


@dataclasses.dataclass
class Outcome:
    """The tool's own figures; times in milliseconds, None if it does not report one. `seconds`: of the load alone."""
    succeeded: int
    failed: int
    output_tokens: float
    prompt_tokens: float
    ttft_p50: float | None
    tpot_p50: float | None
    seconds: float
    error: str = ""


class Tool:
    """A tool's run below `folder`: `commands` to be run there one after the other, `outcome` afterwards."""

    def __init__(self, name, folder, load):
        self.name, self.folder, self.load = name, pathlib.Path(folder), load
        self.folder.mkdir(parents=True, exist_ok=True)
        self.env = dict(ENVIRONMENT)

    def path(self, name):
        return self.folder / name


class Aiperf(Tool):
    """AIPerf takes no folder for a tokenizer while it is offline: the tokenizer lies in a cache of Hugging Face's layout."""

    def command(self):
        load, cache = self.load, self.path("hf") / "hub" / "models--kvist--m"
        (cache / "refs").mkdir(parents=True, exist_ok=True)
        (cache / "refs" / "main").write_text("0")
        shutil.copytree(load.model_folder, cache / "snapshots" / "0", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
        self.env["HF_HOME"] = str(self.path("hf"))
        command = [peer.program("aiperf"), "profile", "-m", load.model, "--tokenizer", "kvist/m", "--url", load.url, "--endpoint-type",
                   load.api, "--streaming", "--use-server-token-count", "--extra-inputs", "ignore_eos:true", "--ui", "none",
                   "--no-gpu-telemetry", "--no-server-metrics", "--output-artifact-dir", self.path("out")]
        if load.trace:
            return [*command, "--input-file", load.trace, "--custom-dataset-type", "mooncake_trace", "--fixed-schedule"]
        command += ["--prompt-input-tokens-mean", load.prompt_tokens, "--prompt-output-tokens-mean", load.output_tokens]
        if load.turns > 1:
            return [*command, "--concurrency", load.streams, "--conversation-num", load.requests // load.turns,
                    "--conversation-turn-mean", load.turns, "--conversation-turn-stddev", 0]
        return [*command, "--concurrency", load.streams, "--request-count", load.requests]

    def outcome(self):
        said = json.loads(self.path("out/profile_export_aiperf.json").read_text())
        value = lambda tag, part="avg": said.get(tag, {}).get(part)
        errors = said.get("error_summary") or []
        return Outcome(int(value("request_count") or 0), int(value("error_request_count") or 0), value("total_usage_completion_tokens") or 0,
                       value("total_usage_prompt_tokens") or 0, value("time_to_first_token", "p50"), value("inter_token_latency", "p50"),
                       value("benchmark_duration") or 0, json.dumps(errors[0])[:200] if errors else "")


class Guidellm(Tool):
    """GuideLLM asks for `stream_options.continuous_usage_stats`.

    It can lose its last request: WorkerGroupState.received_callback (scheduler/worker_group.py) sets the event that ends the run before
    the thread that called it hands the request's result on, and request_updates() leaves as soon as it has waited mp_poll_interval for
    nothing while that event is set. On a busy machine the thread can be descheduled for those 0.1 s, and the report then has one
    request less than were sent and answered. A longer wait, which is one of its settings, prevents that."""

    def __init__(self, name, folder, load):
        super().__init__(name, folder, load)
        self.env["GUIDELLM__MP_POLL_INTERVAL"] = "1"

    def command(self):
        return [peer.program("guidellm"), *self.arguments(self.load, "out.json")]

    def arguments(self, load, out):
        if load.trace:
            # The data's time_scale converts Mooncake's milliseconds to seconds. It ends with the trace, so no number of requests is needed.
            source = {"kind": "mooncake", "source": {"kind": "json_file", "path": str(load.trace)}, "time_scale": 0.001}
            what = ["--profile", "kind=replay", "--data", json.dumps(source)]
        else:
            data = f"kind=synthetic_text,prompt_tokens={load.prompt_tokens},output_tokens={load.output_tokens}"
            what = ["--profile", f"kind=concurrent,streams={load.streams}", "--constraint", f"kind=max_requests,count={load.requests}",
                    "--data", data + (f",turns={load.turns}" if load.turns > 1 else "")]
        return ["run", "--backend",
                f"kind=openai_http,target={load.url},model={load.model},request_format={API_PATHS[load.api]}", *what,
                "--tokenizer", f"kind=hf_auto,model={load.model_folder}", "--output", f"kind=json,path={self.path(out)}",
                "--disable-console"]

    def outcome(self, out="out.json"):
        run = json.loads(self.path(out).read_text())["benchmarks"][0]
        metrics = run["metrics"]
        totals = metrics["request_totals"]
        part = lambda name: (metrics[name] or {}).get("successful") or {}
        median = lambda name: part(name).get("median") if part(name).get("count") else None
        errors = [request.get("info", {}).get("error") for request in run["requests"].get("errored") or []]
        return Outcome(totals["successful"], totals["errored"], part("output_token_count").get("total_sum", 0),
                       part("prompt_token_count").get("total_sum", 0), median("time_to_first_token_ms"), median("inter_token_latency_ms"),
                       run["duration"], str(errors[0])[:200] if errors else "")


class GuidellmRuns(Guidellm):
    """Any number of loads in one process, by guidellm_runs.py, with its workers from a fork server, which is one of its settings:
    otherwise each of them takes longer to import GuideLLM than to do its work."""

    def __init__(self, name, folder, loads):
        super().__init__(name, folder, loads[0])
        self.loads = loads
        self.env["GUIDELLM__MP_CONTEXT_TYPE"] = "forkserver"

    def command(self):
        self.path("runs.json").write_text(json.dumps([self.arguments(load, f"out-{i}.json") for i, load in enumerate(self.loads)]))
        return [peer.program("guidellm", "python"), HERE / "guidellm_runs.py", self.path("runs.json")]

    def outcome(self, index=0):
        return super().outcome(f"out-{index}.json")


class InferencePerf(Tool):
    """inference-perf is configured by a file; JSON is valid YAML. The data matters more than `api.type`: only some of its
    generators make chats."""

    def data(self):
        load = self.load
        if load.trace:
            return {"type": "random", "trace": self.azure_trace()}
        if load.turns > 1:
            # A session for each prompt of each group, its turns one after the other: each completion's prompt begins with the previous ones.
            return {"type": "shared_prefix", "shared_prefix": {**self.prefix(load.requests // load.turns, 1), "enable_multi_turn_chat": True}}
        if load.api == "chat":
            # Without a block for images, here an empty one, this generator makes completions whatever `api.type` says.
            return {"type": "shared_prefix", "shared_prefix": self.prefix(max(1, load.requests // 10), 10), "multimodal": {}}
        fixed = lambda tokens: {"type": "fixed", "min": tokens, "max": tokens, "mean": tokens, "std_dev": 0, "total_count": load.requests}
        return {"type": "random", "input_distribution": fixed(load.prompt_tokens), "output_distribution": fixed(load.output_tokens)}

    def prefix(self, groups, prompts):
        """Prompts whose first half is shared by their group."""
        half = self.load.prompt_tokens // 2
        return {"num_groups": groups, "num_prompts_per_group": prompts, "system_prompt_len": half, "question_len": half,
                "output_len": self.load.output_tokens}

    def azure_trace(self):
        """The trace in Azure's format, the only one that it reads: a time of day and the numbers of tokens."""
        begun = datetime.datetime(2026, 1, 1)
        rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
        for line in map(json.loads, self.load.trace.read_text().splitlines()):
            at = begun + datetime.timedelta(milliseconds=line["timestamp"])
            rows.append(f"{at:%Y-%m-%d %H:%M:%S.%f},{line['input_length']},{line['output_length']}")
        self.path("trace.csv").write_text("\n".join(rows) + "\n")
        return {"file": str(self.path("trace.csv")), "format": "AzurePublicDataset"}

    def load_section(self):
        load = self.load
        section = {"interval": 0, "num_workers": 2, "worker_max_concurrency": 1000}
        if load.trace:
            # A stage must have a rate and a length; the trace's own times hold.
            return {**section, "type": "trace_replay", "trace": self.azure_trace(), "stages": [{"rate": 1, "duration": 1}]}
        return {**section, "type": "concurrent", "stages": [{"num_requests": load.requests, "concurrency_level": load.streams}]}

    def command(self):
        load = self.load
        config = {
            "api": {"type": "chat" if load.api == "chat" else "completion", "streaming": True},
            "data": self.data(),
            "load": self.load_section(),
            "server": {"type": "vllm", "model_name": load.model, "base_url": load.url, "ignore_eos": True},
            "tokenizer": {"pretrained_model_name_or_path": str(load.model_folder)},
            "report": {"request_lifecycle": {"summary": True, "per_stage": False, "per_request": False, "percentiles": [50, 95, 99],
                                              "use_server_output_tokens": True}},
            "storage": {"local_storage": {"path": str(self.path("out"))}},
        }
        self.path("config.yaml").write_text(json.dumps(config))
        return [peer.program("inference-perf"), "-c", self.path("config.yaml")]

    def outcome(self):
        said = json.loads(self.path("out/summary_lifecycle_metrics.json").read_text())
        good, bad = said["successes"], said["failures"]
        latency = good.get("latency") or {}
        median = lambda name: latency[name]["median"] * 1e3 if latency.get(name) else None
        return Outcome(good["count"], bad["count"], (good.get("output_tokens") or {}).get("total") or 0,
                       (good.get("prompt_tokens") or {}).get("total") or 0, median("time_to_first_token"), median("time_per_output_token"),
                       said["benchmark_time_seconds"], json.dumps(bad.get("by_label"))[:200] if bad["count"] else "")


class VllmBench(Tool):
    """`vllm bench serve`, and for conversations vLLM's own script, which only its source tree has (scripts/install-peers).
    Importing vLLM takes half a minute: vllm_bench_runs.py does so once for any number of loads."""

    def __init__(self, name, folder, loads):
        super().__init__(name, folder, loads[0])
        self.loads = loads

    def arguments(self, index, load):
        common = ["--backend", "openai-chat" if load.api == "chat" else "openai", "--endpoint", API_PATHS[load.api], "--base-url", load.url,
                  "--model", load.model, "--tokenizer", load.model_folder, "--max-concurrency", load.streams, "--num-prompts", load.requests,
                  "--save-result", "--result-dir", self.folder, "--result-filename", f"out-{index}.json", "--percentile-metrics",
                  "ttft,tpot,itl,e2el", "--metric-percentiles", "50,95,99", "--ignore-eos", "--disable-tqdm"]
        if load.trace:
            data = ["--dataset-name", "timed_trace", "--dataset-path", load.trace, "--timed-trace-chunk-hash-size", 512,
                    "--timed-trace-sec-multiplier", 0.001]
        else:
            data = ["--dataset-name", "random", "--random-input-len", load.prompt_tokens, "--random-output-len", load.output_tokens]
        return [*common, *data]

    def conversations(self, index, load):
        """Arguments of the other script. Each of its clients is a process with one conversation at a time: with more, it would
        abandon open conversations as soon as there is none left to begin."""
        fixed = lambda value: {"distribution": "constant", "value": value}
        words, config = self.path("words.txt"), self.path(f"conversations-{index}.json")
        words.write_text(" ".join(f"word{number}" for number in range(20_000)))
        config.write_text(json.dumps({
            "filetype": "generate_conversations", "num_conversations": load.requests // load.turns, "text_files": [str(words)],
            # Turns of both sides; the prefix belongs to the first turn.
            "prompt_input": {"num_turns": fixed(2 * load.turns), "prefix_num_tokens": fixed(load.prompt_tokens // 2),
                             "num_tokens": fixed(load.prompt_tokens)},
            "prompt_output": {"num_tokens": fixed(load.output_tokens)}}))
        return [MULTI_TURN, "--url", load.url, "--model", load.model_folder, "--served-model-name", load.model, "--input-file", config,
                "--num-clients", 2, "--no-early-stop", "--limit-min-tokens", load.output_tokens, "--limit-max-tokens", load.output_tokens,
                "--stats-json-output", self.path(f"out-{index}.json")]

    def command(self):
        runs = [{"script": load.turns > 1, "arguments": [str(part) for part in (self.conversations if load.turns > 1 else self.arguments)(i, load)]}
                for i, load in enumerate(self.loads)]
        self.path("runs.json").write_text(json.dumps(runs))
        return [peer.program("vllm", "python"), HERE / "vllm_bench_runs.py", self.path("runs.json")]

    def outcome(self, index=0):
        said = json.loads(self.path(f"out-{index}.json").read_text())
        if self.loads[index].turns > 1:
            return self.conversations_outcome(said)
        errors = [error for error in said.get("errors") or [] if error]
        return Outcome(said["completed"], said["failed"], said["total_output_tokens"], said["total_input_tokens"], said["p50_ttft_ms"],
                       said["p50_tpot_ms"], said["duration"], errors[0][:200] if errors else "")

    @staticmethod
    def conversations_outcome(said):
        """One record per answered request; failed requests are missing. It counts tokens by tokenizing the text again."""
        median = lambda name: statistics.median(request[name] for request in said) if said else None
        total = lambda name: sum(request[name] for request in said)
        ends = [request["start_time_ms"] + request["latency_ms"] for request in said]
        seconds = (max(ends) - min(request["start_time_ms"] for request in said)) / 1e3 if said else 0
        return Outcome(len(said), 0, total("output_num_tokens"), total("input_num_tokens"), median("ttft_ms"), median("tpot_ms"), seconds)


TOOLS = {"aiperf": Aiperf, "guidellm": Guidellm, "inference-perf": InferencePerf}
# Many loads by one process.
TOGETHER = {"guidellm": GuidellmRuns, "vllm": VllmBench}


def run_tool(tool, seconds):
    """Runs the tool's process to its end; yields nothing but the finished process. Its log lies in its folder."""
    process = peer.PeerProcess(tool.command(), tool.path("log.txt"), env=tool.env, cwd=tool.folder)
    with contextlib.ExitStack() as stack:
        stack.callback(process.stop)
        process.process.wait(seconds)
    assert process.process.returncode == 0, f"{tool.name} ended with {process.process.returncode}: {process.tail(1500)}"
    return process


def without_proxies():
    """The environment without proxy settings: clients connect to loopback."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(name, None)


without_proxies()
