"""kvist's exports, read back by the tools whose formats they are: each makes of kvist's file what it makes of its own, with the same figures."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import peer
from deployment import BINARY, deployment

PEERS = ["aiperf", "guidellm", "inference-perf", "vllm"]
report = peer.Report("read_back", "Load generators: what they make of kvist's exports", 74, PEERS)


def exported(folder, *concurrencies):
    """The exports of one run against two workers; with several numbers of conversations at once, those of a run each."""
    folder = pathlib.Path(folder)
    if len(concurrencies) > 1:
        return [exported(folder / str(number), number) for number in concurrencies]
    concurrency = concurrencies[0] if concurrencies else 4
    folder.mkdir(exist_ok=True)
    with deployment(workers=2, mode="kv") as (gateway, _):
        workload = folder / "workload.yaml"
        workload.write_text("workload: {starters: 3, starter_tokens_min: 500, starter_tokens_max: 700, turns_min: 2, turns_max: 3, max_tokens: 40, target_rps: 50}\n")
        done = subprocess.run([BINARY, "loadgen", "--target", gateway.url, "--model", "test-model", "-f", workload, "--concurrency", str(concurrency), "--requests",
                               "150", "--output", folder / "out", "--export", "all", "--calibration", "none"], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out"


def tool(name, arguments, folder, timeout=400):
    """Its output. Whatever it keeps in its home is of this run alone."""
    env = {**os.environ, "HOME": str(folder), "BROWSER_PATH": shutil.which("chromium") or "", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    done = subprocess.run([peer.program(name), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=folder, env=env)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


def aiperf_plots():
    """AIPerf's plots of kvist's profile export."""
    with tempfile.TemporaryDirectory() as folder:
        out = exported(folder)
        run = pathlib.Path(folder) / "run"
        run.mkdir()
        for name in ("profile_export_aiperf.json", "profile_export.jsonl"):
            shutil.copy(out / name, run / name)
        pictures = pathlib.Path(folder) / "plots"
        tool("aiperf", ["plot", "--paths", run, "--output", pictures], folder)
        made = sorted(p.name for p in pictures.rglob("*.png") if p.stat().st_size > 1000)
        report.check("AIPerf's `plot` draws kvist's export as it draws its own", len(made) >= 2, f"{len(made)} pictures: {', '.join(made[:4])}")


def guidellm_from_file():
    """GuideLLM's report from kvist's benchmarks.json."""
    with tempfile.TemporaryDirectory() as folder:
        out = exported(folder)
        written = pathlib.Path(folder) / "again.json"
        tool("guidellm", ["export", out / "benchmarks.json", "--output", f"kind=json,path={written}", "--output", "kind=console"], folder)
        ours, theirs = (json.loads(p.read_text())["benchmarks"][0]["metrics"] for p in (out / "benchmarks.json", written))
        same = all(abs(ours[key]["successful"]["percentiles"][q] - theirs[key]["successful"]["percentiles"][q]) < 1e-9
                   for key in ("time_to_first_token_ms", "inter_token_latency_ms", "request_latency") for q in ("p50", "p95", "p99"))
        report.check("GuideLLM's `export` reads kvist's export and writes the same percentiles", same, f"{written.stat().st_size} bytes")


def inference_perf_analyze():
    """inference-perf's charts of kvist's summary."""
    with tempfile.TemporaryDirectory() as folder:
        out = exported(folder)
        reports = pathlib.Path(folder) / "reports"
        reports.mkdir()
        summary = json.loads((out / "summary_lifecycle_metrics.json").read_text())
        # It draws curves over stages: a file each, as its own runs have them.
        for stage in (0, 1):
            (reports / f"stage_{stage}_lifecycle_metrics.json").write_text(json.dumps({**summary, "load_summary": {**summary["load_summary"], "requested_rate": 1.0 + stage,
                                                                                                             "achieved_rate": 1.0 + stage}}))
        tool("inference-perf", ["--analyze", reports], folder)
        made = sorted(p.name for p in pathlib.Path(folder).rglob("*.png") if p.stat().st_size > 1000)
        report.check("inference-perf's `--analyze` draws kvist's summary", len(made) >= 1, f"{len(made)} pictures: {', '.join(made[:4])}")


def vllm_plots():
    """vLLM's plots of kvist's results."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [json.loads((out / "vllm.json").read_text()) for out in exported(folder, 2, 4, 8)]
        # Most of the time is the import of vLLM, on a busy machine several minutes. Its own sweeps keep their results so: all runs of one combination in a list, each with its number.
        experiment = pathlib.Path(folder) / "experiment"
        experiment.mkdir()
        (experiment / "summary.json").write_text(json.dumps([{**run, "run_number": 0} for run in runs]))
        tool("vllm", ["bench", "sweep", "plot", experiment, "--var-x", "max_concurrency", "--var-y", "p99_ttft_ms", "--curve-by", "model_id"], folder, timeout=600)
        tool("vllm", ["bench", "sweep", "plot_pareto", experiment, "--label-by", "max_concurrency"], folder, timeout=600)
        made = sorted(p.name for p in pathlib.Path(folder).rglob("*.png") if p.stat().st_size > 1000)
        report.check("vLLM's `bench sweep plot` and `plot_pareto` draw kvist's export", len(made) == 2, f"{len(made)} pictures: {', '.join(made)}")


report.run(*(part for name, part in (("aiperf", aiperf_plots), ("guidellm", guidellm_from_file), ("inference-perf", inference_perf_analyze),
                                           ("vllm", vllm_plots)) if report.has(name)))
