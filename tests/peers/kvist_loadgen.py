"""`kvist loadgen` as one of the clients: its command, and the summary that it writes at its end."""
import dataclasses
import json
import pathlib
import re

import deployment
import peer


@dataclasses.dataclass
class Summary:
    """The summary of `kvist loadgen`; times in milliseconds."""
    succeeded: int = 0
    failed: int = 0
    tokens_per_s: float = 0.0
    hit_rate_pct: float = 0.0
    ttft: dict = dataclasses.field(default_factory=dict)
    tpot: dict = dataclasses.field(default_factory=dict)
    latency: dict = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    verdict: str = ""
    error: str = ""


def workload_yaml(settings):
    return "workload:\n" + "".join(f"  {name}: {value}\n" for name, value in settings.items())


def single_turns(prompt_tokens, output_tokens, per_second=100_000):
    """Prompts that share nothing, answers of one length."""
    return {"turns_min": 1, "turns_max": 1, "starters": 0, "starter_tokens_min": prompt_tokens, "starter_tokens_max": prompt_tokens,
            "max_tokens": output_tokens, "ignore_eos": "true", "target_rps": per_second}


def start(folder, url, workload, streams, duration_s, model="m", name="loadgen", warmup_s=0, options=()):
    """Starts a process that drives so many conversations at once for so long, then lets them end; a trace has instants of its own.
    `options`: further ones of its command line."""
    path, output = pathlib.Path(folder) / f"{name}.yaml", pathlib.Path(folder) / f"{name}-output"
    path.write_text(workload_yaml(workload))
    process = peer.PeerProcess([deployment.BINARY, "loadgen", "--target", url, "--model", model, "-f", path,
                                *([] if "trace" in workload else ["--concurrency", streams]), "--duration", f"{duration_s} s",
                                "--progress", "0s", "--output", output, *(["--warmup", f"{warmup_s} s"] if warmup_s else []), *options],
                               pathlib.Path(folder) / f"{name}.log")
    process.output = output
    return process


def summary(process):
    """The summary of a process that has ended: its summary.json; the client's verdict and the first error as it prints them."""
    text, path = process.tail(8000), process.output / "summary.json"
    assert path.exists(), f"kvist loadgen wrote no summary:\n{text}"
    written = json.loads(path.read_text())
    times = lambda metric: {part: written["distributions"][metric][part] or 0.0 for part in ("p50", "p95", "p99", "max")}
    client, error = re.search(r"(?m)^client +(.*)$", text), re.search(r"(?m)^first error: (.*)$", text)
    return Summary(succeeded=written["requests"]["succeeded"], failed=written["requests"]["failed"],
                   tokens_per_s=written["figures"]["output_tokens_per_s"]["value"] or 0.0,
                   hit_rate_pct=written["figures"]["kv_hit_rate_pct"]["value"] or 0.0, ttft=times("ttft_ms"), tpot=times("tpot_ms"),
                   latency=times("latency_ms"), seconds=written["window_s"], verdict=client.group(1) if client else "",
                   error=error.group(1) if error else "")


def run(folder, url, workload, streams, duration_s, model="m", name="loadgen", seconds=120, warmup_s=0):
    """Starts it, waits for its end, reads its summary."""
    process = start(folder, url, workload, streams, duration_s, model, name, warmup_s)
    try:
        process.process.wait(seconds)
        return summary(process)
    finally:
        process.stop()
