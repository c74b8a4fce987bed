"""The load generators of the field, each as a command and a reader of the file that it writes. All are run as they come: a model's
directory for their tokenizer, the sizes of what they send, and nothing that would bend them to a server."""
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil

import peer

HERE = pathlib.Path(__file__).resolve().parent
# Nothing asks the network for a model, and nobody is told that something was run.
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
               "TOKENIZERS_PARALLELISM": "false", "GUIDELLM__MAX_WORKER_PROCESSES": "2"}
API_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


@dataclasses.dataclass
class Load:
    """What is asked of a tool. With `turns` above 1 the requests are conversations of so many; with `trace` they are its lines."""
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
    """What the tool itself says; times in milliseconds, None where it says nothing. `seconds`: of the load alone."""
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
    """GuideLLM asks for `stream_options.continuous_usage_stats`."""

    def command(self):
        load = self.load
        data = f"kind=synthetic_text,prompt_tokens={load.prompt_tokens},output_tokens={load.output_tokens}"
        if load.turns > 1:
            data += f",turns={load.turns}"
        return [peer.program("guidellm"), "run", "--backend",
                f"kind=openai_http,target={load.url},model={load.model},request_format={API_PATHS[load.api]}", "--profile",
                f"kind=concurrent,streams={load.streams}", "--constraint", f"kind=max_requests,count={load.requests}", "--data", data,
                "--tokenizer", f"kind=hf_auto,model={load.model_folder}", "--output", f"kind=json,path={self.path('out.json')}",
                "--disable-console"]

    def outcome(self):
        run = json.loads(self.path("out.json").read_text())["benchmarks"][0]
        metrics = run["metrics"]
        totals = metrics["request_totals"]
        part = lambda name: (metrics[name] or {}).get("successful") or {}
        median = lambda name: part(name).get("median") if part(name).get("count") else None
        errors = [request.get("info", {}).get("error") for request in run["requests"].get("errored") or []]
        return Outcome(totals["successful"], totals["errored"], part("output_token_count").get("total_sum", 0),
                       part("prompt_token_count").get("total_sum", 0), median("time_to_first_token_ms"), median("inter_token_latency_ms"),
                       run["duration"], str(errors[0])[:200] if errors else "")


class InferencePerf(Tool):
    """inference-perf is told what to do by a file; JSON is YAML."""

    def command(self):
        load = self.load
        fixed = lambda tokens: {"type": "fixed", "min": tokens, "max": tokens, "mean": tokens, "std_dev": 0, "total_count": load.requests}
        if load.api == "chat":
            # Groups of prompts with a common system prompt: the turns of one conversation where that is asked for.
            groups = max(1, load.requests // (load.turns if load.turns > 1 else 10))
            data = {"type": "shared_prefix", "shared_prefix": {
                "num_groups": groups, "num_prompts_per_group": load.turns if load.turns > 1 else 10, "system_prompt_len": load.prompt_tokens // 2,
                "question_len": load.prompt_tokens // 2, "output_len": load.output_tokens, "enable_multi_turn_chat": load.turns > 1}}
        else:
            data = {"type": "random", "input_distribution": fixed(load.prompt_tokens), "output_distribution": fixed(load.output_tokens)}
        config = {
            "api": {"type": "chat" if load.api == "chat" else "completion", "streaming": True},
            "data": data,
            "load": {"type": "concurrent", "interval": 0, "num_workers": 2, "worker_max_concurrency": 1000,
                     "stages": [{"num_requests": load.requests, "concurrency_level": load.streams}]},
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
    """`vllm bench serve`. Importing it takes half a minute: vllm_bench_runs.py does so once for any number of loads."""

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
        return [str(part) for part in [*common, *data]]

    def command(self):
        self.path("runs.json").write_text(json.dumps([self.arguments(i, load) for i, load in enumerate(self.loads)]))
        return [peer.program("vllm", "python"), HERE / "vllm_bench_runs.py", self.path("runs.json")]

    def outcome(self, index=0):
        said = json.loads(self.path(f"out-{index}.json").read_text())
        errors = [error for error in said.get("errors") or [] if error]
        return Outcome(said["completed"], said["failed"], said["total_output_tokens"], said["total_input_tokens"], said["p50_ttft_ms"],
                       said["p50_tpot_ms"], said["duration"], errors[0][:200] if errors else "")


TOOLS = {"aiperf": Aiperf, "guidellm": Guidellm, "inference-perf": InferencePerf}


def run_tool(tool, seconds):
    """Runs the tool's process to its end; yields nothing but the finished process. Its log lies in its folder."""
    process = peer.PeerProcess(tool.command(), tool.path("log.txt"), env=tool.env, cwd=tool.folder)
    with contextlib.ExitStack() as stack:
        stack.callback(process.stop)
        process.process.wait(seconds)
    assert process.process.returncode == 0, f"{tool.name} ended with {process.process.returncode}: {process.tail(1500)}"
    return process


def without_proxies():
    """Clients of loopback need no proxy that the environment may name."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(name, None)


without_proxies()
