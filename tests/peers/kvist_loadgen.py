"""`kvist loadgen` as one of the clients: its command, and the summary that it prints at its end."""
import dataclasses
import pathlib
import re

import deployment
import peer


@dataclasses.dataclass
class Summary:
    """The summary that `kvist loadgen` prints; times in milliseconds."""
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
    """Starts a process that drives so many conversations at once for so long, then lets them end. `options`: further ones of its
    command line."""
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(workload_yaml(workload))
    return peer.PeerProcess([deployment.BINARY, "loadgen", "--target", url, "--model", model, "-f", path, "--concurrency", streams,
                             "--duration", f"{duration_s} s", *(["--warmup", f"{warmup_s} s"] if warmup_s else []), *options], pathlib.Path(folder) / f"{name}.log")


def summary(process):
    """The summary of a process that has ended."""
    text, found = process.tail(8000), Summary()
    times = lambda label: {key: float(value) for key, value in
                           re.findall(r"(p50|p95|p99|max)\s+([\d.]+) ms", re.search(rf"(?m)^{label} .*$", text).group(0))}
    turns = re.search(r"(?m)^turns +(\d+) succeeded, (\d+) failed, \d+ abandoned in ([\d.]+) s: [\d.]+ turns/s, ([\d.]+) tokens/s", text)
    assert turns, f"kvist loadgen said no summary:\n{text}"
    found.succeeded, found.failed = int(turns.group(1)), int(turns.group(2))
    found.seconds, found.tokens_per_s = float(turns.group(3)), float(turns.group(4))
    found.hit_rate_pct = float(re.search(r"(?m)^cache +([\d.]+) %", text).group(1))
    found.ttft, found.tpot, found.latency = times("TTFT"), times("TPOT"), times("latency")
    client = re.search(r"(?m)^client +(.*)$", text)
    found.verdict = client.group(1) if client else ""
    error = re.search(r"(?m)^first error: (.*)$", text)
    found.error = error.group(1) if error else ""
    return found


def run(folder, url, workload, streams, duration_s, model="m", name="loadgen", seconds=120, warmup_s=0):
    """Starts it, waits for its end, reads its summary."""
    process = start(folder, url, workload, streams, duration_s, model, name, warmup_s)
    try:
        process.process.wait(seconds)
        return summary(process)
    finally:
        process.stop()
