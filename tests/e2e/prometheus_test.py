"""A real Prometheus scrapes load generator, gateway and workers while load runs; PromQL gives the summary's TTFT p95, hit rate and throughput
within what a window that is read once a second can be off."""
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

from deployment import BINARY, deployment, eventually, get_json, run

PROMETHEUS = shutil.which("prometheus")
SCRAPE_S = 0.5
LOAD_S = 25
WARMUP_S = 5


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def config(targets):
    lines = ["global:", f"  scrape_interval: {int(1000 * SCRAPE_S)}ms", f"  scrape_timeout: {int(1000 * SCRAPE_S)}ms", "scrape_configs:"]
    for job, addresses in targets.items():
        lines += [f"  - job_name: {job}", "    static_configs:", f"      - targets: [{', '.join(repr(a) for a in addresses)}]"]
    return "\n".join(lines) + "\n"


def query(url, expression, at):
    answer = get_json(f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": expression, "time": at}))
    result = answer["data"]["result"]
    assert len(result) == 1, (expression, result)
    return float(result[0]["value"][1])


def address(url):
    return url.removeprefix("http://")


def promql_gives_the_figures_of_the_summary():
    assert PROMETHEUS, "Debian's package prometheus is one of the tests' dependencies"
    with deployment(workers=2, mode="kv", time_scale=20.0) as (gateway, workers), tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        port, load_port = free_port(), free_port()
        targets = {"loadgen": [f"127.0.0.1:{load_port}"], "gateway": [address(gateway.admin)], "worker": [address(w.url) for w in workers]}
        (folder / "prometheus.yaml").write_text(config(targets))
        log = open(folder / "prometheus.log", "wb")
        prometheus = subprocess.Popen([PROMETHEUS, f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}",
                                       f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        try:
            eventually(lambda: get_json(url + "/api/v1/status/runtimeinfo")["status"] == "success", "Prometheus is ready")
            (folder / "workload.yaml").write_text(
                "workload: {starters: 4, starter_tokens_min: 900, starter_tokens_max: 1200, turns_min: 2, turns_max: 4, max_tokens: 60, target_rps: 50}\n")
            began = time.time()
            done = subprocess.run([BINARY, "loadgen", "--target", gateway.url, "--model", "test-model", "-f", folder / "workload.yaml", "--concurrency", "6",
                                   "--duration", f"{LOAD_S}s", "--warmup", f"{WARMUP_S}s", "--port", str(load_port), "--output", folder / "out",
                                   "--calibration", "none", "--progress", "0s"], capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
            # An instant shortly before the load's end: everything that is rated or looked at lies within the load.
            at = began + LOAD_S - 1
            span = LOAD_S - WARMUP_S - 2
            summary = json.loads((folder / "out" / "summary.json").read_text())
            figures = {key: figure["value"] for key, figure in summary["figures"].items()}
            requests = [json.loads(line) for line in (folder / "out" / "requests.jsonl").read_text().splitlines()]

            throughput = query(url, f"rate(loadgen_output_tokens_total[{span}s])", at)
            assert abs(throughput / figures["output_tokens_per_s"] - 1) < 0.1, (throughput, figures["output_tokens_per_s"])
            by_workers = query(url, f'sum(rate(vllm:generation_tokens_total{{job="worker"}}[{span}s]))', at)
            assert abs(by_workers / throughput - 1) < 0.1, (by_workers, throughput)
            turns = query(url, f'rate(loadgen_requests_total{{outcome="succeeded"}}[{span}s])', at)
            assert abs(turns / figures["turns_per_s"] - 1) < 0.1, (turns, figures["turns_per_s"])

            # All since the beginning, as the counters have it.
            after = query(url, 'sum(vllm:prefix_cache_hits_total{job="worker"}) / sum(vllm:prefix_cache_queries_total{job="worker"})', time.time())
            cached, prompt = (sum(r[key] for r in requests if r["outcome"] == "succeeded") for key in ("cached_tokens", "prompt_tokens"))
            assert abs(after - cached / prompt) < 0.01, (after, cached / prompt)
            hit = query(url, f'sum(increase(vllm:prefix_cache_hits_total{{job="worker"}}[{span}s])) / sum(increase(vllm:prefix_cache_queries_total{{job="worker"}}[{span}s]))', at)
            assert abs(100 * hit - figures["kv_hit_rate_pct"]) < 5, (hit, figures["kv_hit_rate_pct"])

            # The Summary's window is the last 60 s: at this instant all first tokens so far, to what the scrape before it saw.
            p95 = 1e3 * query(url, 'loadgen_ttft_all_seconds{quantile="0.95"}', at)
            seen = [1e3 * (r["first_token_s"] - r["sent_s"]) for r in requests if r["first_token_s"] is not None]
            low, high = (sorted(seen)[int(q * (len(seen) - 1))] for q in (0.92, 0.98))
            assert low <= p95 <= high, (low, p95, high)
            assert figures["ttft_p95_ms"] > 0
            print(f"TTFT p95 {p95:.2f} ms by PromQL, {figures['ttft_p95_ms']:.2f} ms in the summary; {throughput:.0f} and "
                  f"{figures['output_tokens_per_s']:.0f} tokens/s; hit rate {100 * hit:.1f} % and {figures['kv_hit_rate_pct']:.1f} %")
        finally:
            prometheus.send_signal(signal.SIGTERM)
            prometheus.wait(30)
            log.close()


run([promql_gives_the_figures_of_the_summary])
