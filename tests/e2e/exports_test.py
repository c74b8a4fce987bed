"""The exports of `kvist loadgen` against files that the tools themselves wrote (tests/golden/exports): every name, at its place, with the
same kind of value and the same unit; and one run's figures equal in all of them, worked out anew from the single requests."""
import json
import pathlib
import re
import subprocess
import tempfile

from deployment import BINARY, deployment, run

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/exports"
PAIRS = {
    "vllm.json": "vllm-bench-openai-chat.json",
    "profile_export_aiperf.json": "aiperf-profile_export_aiperf.json",
    "profile_export.jsonl": "aiperf-profile_export.jsonl",
    "benchmarks.json": "guidellm-benchmarks.json",
    "summary_lifecycle_metrics.json": "inference-perf-summary_lifecycle_metrics.json",
}
# What a run without failures does not show of the tool: inference-perf's failures, an AIPerf error.
UNSEEN = ("failures", "error_summary")
# Names that the tool writes in other runs than the sample's.
ELSEWHERE = {
    "/run_info/random_seed",  # AIPerf's RunInfo, where a seed was asked for
    "[]/error",  # of AIPerf's requests that failed
    *(f"[]/metrics/{name}{part}" for name in ("effective_latency", "credit_to_start_latency") for part in ("", "/value", "/unit")),  # in its summary
    "/load_summary/concurrency",  # inference-perf's, of a load of so many at once
}


def shape(path):
    """GuideLLM's metrics all have one structure, whose intervals it fills in where it can: the sample has only some."""
    path = re.sub(r"^(/benchmarks\[\]/metrics/)\w+(/(?:successful|errored|incomplete|total)/)", r"\1*\2", path)
    return re.sub(r"(/percentile_cis)/p\d+", r"\1/p", path)


def kind(value):
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def kinds(value, path="", found=None):
    """Path -> the kinds of values that stand there; a list's elements share one path."""
    found = {} if found is None else found
    found.setdefault(shape(path), set()).add(kind(value))
    if isinstance(value, dict):
        for key, inner in value.items():
            kinds(inner, f"{path}/{key}", found)
    elif isinstance(value, list):
        for inner in value:
            kinds(inner, path + "[]", found)
    return found


def units(value, path="", found=None):
    found = {} if found is None else found
    if isinstance(value, dict):
        if isinstance(value.get("unit"), str):
            found[path] = value["unit"]
        for key, inner in value.items():
            units(inner, f"{path}/{key}", found)
    return found


def load(path):
    text = path.read_text()
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def exported(folder):
    with deployment(workers=2, mode="kv") as (gateway, _):
        workload = pathlib.Path(folder) / "workload.yaml"
        workload.write_text("workload: {starters: 3, starter_tokens_min: 500, starter_tokens_max: 700, turns_min: 2, turns_max: 3, max_tokens: 40, target_rps: 50}\n")
        out = pathlib.Path(folder) / "out"
        done = subprocess.run([BINARY, "loadgen", "--target", gateway.url, "--model", "test-model", "-f", workload, "--concurrency", "4", "--requests", "120",
                               "--output", out, "--export", "all", "--calibration", "none"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    return out


def names_places_kinds_and_units_are_the_tools_own():
    with tempfile.TemporaryDirectory() as folder:
        out = exported(folder)
        foreign = []
        for ours, theirs in PAIRS.items():
            own, golden = load(out / ours), load(GOLDEN / theirs)
            known = kinds(golden)
            for path, found in kinds(own).items():
                if any(part in path for part in UNSEEN):
                    continue
                if path in ELSEWHERE:
                    continue
                if path not in known:
                    foreign.append(f"{ours}: {path}")
                    continue
                # null where something is not known, a number where the sample happened to have null
                different = found - known[path] - {"NoneType"} if known[path] != {"NoneType"} else set()
                assert not different, f"{ours}: {path} is {found}, the tool has {known[path]}"
            for path, unit in units(own[0] if isinstance(own, list) else own).items():
                expected = units(golden[0] if isinstance(golden, list) else golden).get(path, unit)
                assert unit == expected, (ours, path, unit, expected)
            print(f"{ours}: {len(kinds(own))} of {len(known)} names of the tool")
        assert not foreign, f"no names of the tools': {foreign}"


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def near(one, other, what):
    """Times are in ms, and requests.jsonl has gaps to a ten-thousandth."""
    assert abs(one - other) <= 1e-4 * max(abs(one), abs(other), 1), (what, one, other)


def one_runs_figures_are_equal_in_all():
    with tempfile.TemporaryDirectory() as folder:
        out = exported(folder)
        requests = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
        counted = [r for r in requests if r["measured"]]
        assert len(counted) > 100
        ttft = [1e3 * (r["first_token_s"] - r["sent_s"]) for r in counted]
        gaps = [gap for r in counted for gap in r["gaps_ms"]]
        latency = [1e3 * (r["ended_s"] - r["sent_s"]) for r in counted]
        tpot = [1e3 * (r["last_token_s"] - r["first_token_s"]) / (r["completion_tokens"] - 1) for r in counted if r["completion_tokens"] > 1]
        summary, vllm, aiperf = load(out / "summary.json"), load(out / "vllm.json"), load(out / "profile_export_aiperf.json")
        guide = load(out / "benchmarks.json")["benchmarks"][0]["metrics"]
        perf = load(out / "summary_lifecycle_metrics.json")["successes"]
        for q, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
            expected = quantile(ttft, q)
            near(summary["distributions"]["ttft_ms"][name], expected, name)
            near(vllm[f"{name}_ttft_ms"], expected, name)
            near(aiperf["time_to_first_token"][name], expected, name)
            near(guide["time_to_first_token_ms"]["successful"]["percentiles"][name], expected, name)
            near(1e3 * perf["latency"]["time_to_first_token"]["median" if name == "p50" else name], expected, name)
            near(vllm[f"{name}_itl_ms"], quantile(gaps, q), name)
            near(aiperf["inter_chunk_latency"][name], quantile(gaps, q), name)
            near(1e3 * perf["latency"]["inter_token_latency"]["median" if name == "p50" else name], quantile(gaps, q), name)
            near(vllm[f"{name}_tpot_ms"], quantile(tpot, q), name)
            near(aiperf["inter_token_latency"][name], quantile(tpot, q), name)
            near(guide["inter_token_latency_ms"]["successful"]["percentiles"][name], quantile(tpot, q), name)
            near(vllm[f"{name}_e2el_ms"], quantile(latency, q), name)
            near(aiperf["request_latency"][name], quantile(latency, q), name)
            near(1e3 * guide["request_latency"]["successful"]["percentiles"][name], quantile(latency, q), name)
        assert vllm["completed"] == aiperf["request_count"]["avg"] == guide["request_totals"]["successful"] == perf["count"] == len(counted)
        assert vllm["total_output_tokens"] == aiperf["total_osl"]["avg"] == sum(r["completion_tokens"] for r in counted)
        assert vllm["total_input_tokens"] == perf["prompt_tokens"]["total"] == sum(r["prompt_tokens"] for r in counted)
        rates = [summary["figures"]["output_tokens_per_s"]["value"], vllm["output_throughput"], aiperf["output_token_throughput"]["avg"],
                 guide["output_tokens_per_second"]["successful"]["mean"], perf["throughput"]["output_tokens_per_sec"]]
        for rate in rates:
            near(rate, rates[0], rates)


run([names_places_kinds_and_units_are_the_tools_own, one_runs_figures_are_equal_in_all])
