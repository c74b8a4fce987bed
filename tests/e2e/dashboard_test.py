"""The dashboard as a person has it: Debian's Chromium (playwright-core drives it) on the page of a real `kvist up`, `kvist loadgen` and `kvist dashboard`.
What the page shows is what the API says; what is clicked happens; what comes from outside stays text; axe-core finds nothing."""
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

from dashboard_browser import BROWSER_S, Server, browse, browse_with_a_made_up_server
from deployment import BINARY, DEADLINE_S, deployment, read_line, request, run

HERE = pathlib.Path(__file__).parent
WORKERS, TIME_SCALE = 2, 20
DEPLOYMENT = f"""deployment:
  name: two-timed-workers
  gateway: {{mode: kv, http: {{host: 127.0.0.1, port: 0}}}}
  workers: {{count: {WORKERS}, block_size: 32, kv_blocks: 4000, max_batch_size: 16, max_num_tokens: 2048, time_scale: {TIME_SCALE}, output_length: {{mean_tokens: 200, standard_deviation_tokens: 30}}}}
"""
WORKLOAD = """workload: {seed: 7, turns_min: 2, turns_max: 3, starters: 4, starter_tokens_min: 1500, starter_tokens_max: 2000, max_tokens: 200, target_rps: 0, request_timeout: 60 s}
"""


def figures(factor):
    """Made up, of an engine at the speed of the GPU, as published figures are."""
    return {"ttft_p50_ms": 150.0 * factor, "ttft_p95_ms": 400.0 * factor, "tpot_p50_ms": 24.0, "tpot_p95_ms": 28.0 + factor, "latency_p50_ms": 9000.0 * factor, "latency_p95_ms": 12000.0 * factor,
            "kv_hit_rate_pct": 80.0, "tops": 300.0 * factor, "error_pct": 0.0}


LEVELS = [{"concurrency": 4, "round_robin": figures(1), "kv_aware": figures(0.8)}, {"concurrency": 12, "round_robin": figures(3), "kv_aware": figures(1.1)}]


def reference():
    published = json.loads((HERE.parents[1] / "data/reference/trtllm-3xh200-rr-vs-kv-40-120.json").read_text())
    published["levels"] = LEVELS
    return published


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def a_deployment_is_driven_and_followed():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("deployment.yaml", DEPLOYMENT), ("workload.yaml", WORKLOAD), ("baseline.json", json.dumps(reference()))):
            (pathlib.Path(folder) / name).write_text(text)
        port = free_port()
        running = []

        def start():
            running.append(Server(folder, "up", "-f", "deployment.yaml", "--workload", "workload.yaml", "--baseline", "baseline.json", "--slo", "ttft_p95=0.01ms,latency_p95=600s", "--port", port))

        def stop():
            assert running.pop().stop() == 0

        start()
        try:
            facts = {"levels": LEVELS, "timeScale": TIME_SCALE, "workers": WORKERS}
            browse("up", running[0], facts, {"stop-server": stop, "start-server": start, "router-mode": lambda: json.loads(request(running[0].admin + "/admin/router_mode")[2])})
        finally:
            for server in running:
                server.stop()


MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script><b>bold</b> &amp; <iframe src=javascript:alert(1)>"


def markup_in_a_conversation_stays_text():
    # Slow, so that the list does not change completely each second while it is examined.
    with deployment(workers=1, time_scale=2.0) as (gateway, _), tempfile.TemporaryDirectory() as folder:
        messages = [{"role": "user", "content": MARKUP}, {"role": "assistant", "content": "x"}, {"role": "user", "content": MARKUP + "!"}]
        (pathlib.Path(folder) / "chats.jsonl").write_text("".join(json.dumps({"messages": messages, "max_tokens": 20}) + "\n" for _ in range(5000)))
        server = Server(folder, "loadgen", "--target", gateway.url, "--model", "test-model", "--dataset", "chats.jsonl", "--concurrency", 1, "--gateway", gateway.admin, "--port", 0)
        try:
            browse("markup", server, {"markup": MARKUP})
        finally:
            server.stop()


SWEEP = """name: {name}
deployment:
  name: two-timed-workers
  workers: {{count: 2, block_size: 32, kv_blocks: {kv_blocks}, max_batch_size: 16, max_num_tokens: 2048, output_length: {{mean_tokens: 100, standard_deviation_tokens: 10}}}}
workload: {{seed: 7, turns_min: 2, turns_max: 3, starters: 4, starter_tokens_min: 1500, starter_tokens_max: 2000, max_tokens: 100, target_rps: 0, request_timeout: 60 s}}
method: {{warmup: 10 s, snapshots: 2, snapshot_interval: 20 s, window: 20 s, drain_timeout: 20 s, max_error_pct: 5}}
modes: [round_robin, kv]
levels: [4, 8]
output_directory: out
"""


def a_running_sweep_is_followed():
    with tempfile.TemporaryDirectory() as folder:
        # 18 s a level, so that the page can be examined while it runs.
        live = SWEEP.format(name="followed", kv_blocks=4000).replace("output_length", "time_scale: 10, output_length")
        live = re.sub(r"method: .*", "method: {warmup: 3 s, snapshots: 3, snapshot_interval: 4 s, window: 4 s, drain_timeout: 20 s, max_error_pct: 5}", live)
        (pathlib.Path(folder) / "sweep.yaml").write_text(live)
        server = Server(folder, "sweep", "-f", "sweep.yaml", "--port", 0)

        def ended():
            for _ in iter(lambda: read_line(server.process.stdout, BROWSER_S), ""):
                pass
            assert server.process.wait(DEADLINE_S) == 0

        try:
            browse("sweep", server, {"levels": 4}, {"ended": ended})
        finally:
            server.process.kill()
            server.process.wait()
            server.process.stdout.close()


def stored_runs_are_shown_and_compared():
    with tempfile.TemporaryDirectory() as folder:
        databases = []
        for name, kv_blocks in (("small-memory", 800), ("more-memory", 4000)):
            (pathlib.Path(folder) / f"{name}.yaml").write_text(SWEEP.format(name=name, kv_blocks=kv_blocks))
            done = subprocess.run([BINARY, "simulate", "-f", f"{name}.yaml", "--output", f"out/{name}"], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            databases += [str(path) for path in sorted((pathlib.Path(folder) / "out" / name).rglob("*.sqlite"))]
        assert len(databases) == 2, databases
        server = Server(folder, "dashboard", *databases)
        try:
            browse("stored", server, {})
        finally:
            assert server.stop() == 0


def a_server_may_be_slow_or_go_away():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, "loadgen", "--target", "http://127.0.0.1:9", "--model", "test-model", "--port", 0)
        try:
            browse_with_a_made_up_server(server)
        finally:
            server.stop()


run([test for test in [a_deployment_is_driven_and_followed, markup_in_a_conversation_stays_text, a_running_sweep_is_followed, stored_runs_are_shown_and_compared,
                       a_server_may_be_slow_or_go_away] if len(sys.argv) < 3 or sys.argv[2] in test.__name__])
