"""Dynamo's parts as processes: mocker, frontend, indexer. A frontend and its mockers discover each other through a folder."""
import json
import pathlib

import deployment
import peer

BLOCK_SIZE = 32
KV_BLOCKS = 11_500
SLOTS = 64
STEP_TOKENS = 2_048
MODEL = "m"
# One step: 10 ms, 94 us for each token of a prompt, 40 ns for each token of context.
STEP_TIME = {"fixed": "10 ms", "per_prefill_token": "94 us", "per_sequence": "0 us", "per_kv_token": "40 ns"}
STEP_TABLE = {"fixed_ms": 10.0, "per_prefill_token_ms": 0.094, "per_kv_token_ms": 4e-5}
WRITE_TABLE = """
import sys, json, numpy
path, t = sys.argv[1], json.loads(sys.argv[2])
kv, context = numpy.array([0.0, 400000.0]), numpy.array([1.0, 20000.0])
decode = numpy.repeat((t["fixed_ms"] + t["per_kv_token_ms"] * kv)[:, None], 2, axis=1)
numpy.savez(path, prefill_isl=numpy.array([0.0, 4096.0]), prefill_ttft_ms=numpy.array([0.0, 4096 * t["per_prefill_token_ms"]]),
            decode_active_kv_tokens=kv, decode_context_length=context, decode_itl=decode)
"""


def write_step_table(path):
    """The step times as Dynamo reads them: a prompt's part and a decode part that add up. A step without decodes lacks the fixed part."""
    peer.subprocess.run([peer.program("dynamo"), "-c", WRITE_TABLE, str(path), json.dumps(STEP_TABLE)], check=True)
    return path


def padded_model(folder):
    """A tiny model with a vocabulary of 2,048: the mocker draws token ids up to there, whatever the tokenizer has."""
    deployment.create_model(str(folder))
    path = pathlib.Path(folder) / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    taken = set(tokenizer["model"]["vocab"].values()) | {token["id"] for token in tokenizer["added_tokens"]}
    # Added tokens, at the end: other entries of the vocabulary would move the special tokens' ids in other readers.
    tokenizer["added_tokens"] += [{"id": i, "content": f"<pad{i}>", "single_word": False, "lstrip": False, "rstrip": False,
                                   "normalized": False, "special": False} for i in range(max(taken) + 1, 2_048)]
    path.write_text(json.dumps(tokenizer))
    return pathlib.Path(folder)


def environment(folder):
    discovery = pathlib.Path(folder) / "discovery"
    discovery.mkdir(exist_ok=True)
    return {"DYN_FILE_KV": str(discovery), "DYN_TCP_RPC_HOST": "127.0.0.1", "DYN_EVENT_PLANE_HOST": "127.0.0.1",
            "DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1", "DYN_REQUEST_PLANE": "tcp", "HF_HUB_OFFLINE": "1", "DYN_LOG": "warn"}


PLANES = ["--discovery-backend", "file", "--event-plane", "zmq"]


def mocker(folder, model, workers=1, events=None, replay=None, step_table=None):
    """`workers` simulated engines in one process; `events`, `replay`: ports of the first one's KV events."""
    command = [peer.program("dynamo"), "-m", "dynamo.mocker", "--model-path", model, "--model-name", MODEL, "--num-workers", workers,
               "--block-size", BLOCK_SIZE, "--num-gpu-blocks-override", KV_BLOCKS, "--max-num-seqs", SLOTS, "--max-num-batched-tokens",
               STEP_TOKENS, *PLANES]
    if events:
        command += ["--zmq-kv-events-ports", events, "--zmq-replay-ports", replay]
    if step_table:
        command += ["--planner-profile-data", step_table]
    return peer.PeerProcess(command, pathlib.Path(folder) / "mocker.log", env=environment(folder), cwd=folder)


class Frontend:
    """Dynamo's HTTP server, and its router where it has several mockers."""

    def __init__(self, folder, mode="round-robin", trace=None):
        """`trace`: a file, *.jsonl.gz, for what Dynamo writes of each request: its name gets a number before the ending."""
        written = {"DYN_REQUEST_TRACE": "1", "DYN_REQUEST_TRACE_FILE_FORMAT": "jsonl_gz",
                   "DYN_REQUEST_TRACE_FILE_PATH": str(trace).removesuffix(".jsonl.gz")} if trace else {}
        self.port = peer.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = peer.PeerProcess([peer.program("dynamo"), "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", self.port,
                                         "--router-mode", mode, *PLANES], pathlib.Path(folder) / "frontend.log",
                                        env={**environment(folder), **written}, cwd=folder)

    def await_ready(self, seconds=120):
        self.process.await_ready(lambda: chat(self.url, "hello", 1)[0] == 200, seconds)
        return self

    def stop(self):
        self.process.stop(5)


def indexer(folder, endpoints):
    """Dynamo's own index of KV events; `endpoints` in the order of its worker ids, from 1. (process, url)"""
    port = peer.free_port()
    workers = ",".join(f"{i}={endpoint}" for i, endpoint in enumerate(endpoints, 1))
    process = peer.PeerProcess([peer.program("dynamo"), "-m", "dynamo.indexer", "--port", port, "--block-size", BLOCK_SIZE, "--model-name",
                                MODEL, "--workers", workers], pathlib.Path(folder) / "indexer.log", env=environment(folder), cwd=folder)
    url = f"http://127.0.0.1:{port}"
    process.await_ready(lambda: all(worker["status"] == "active" for worker in deployment.get_json(url + "/workers")), 60)
    return process, url


def chat(url, messages, max_tokens):
    """(status, headers, answer) of one chat; `messages` may be a text."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    status, headers, text = deployment.request(url + "/v1/chat/completions", {"model": MODEL, "messages": messages, "max_tokens": max_tokens,
                                                                              "ignore_eos": True})
    return status, headers, json.loads(text) if text.startswith("{") else {}
