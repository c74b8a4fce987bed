"""A worker that serves completions as vLLM does, as far as a router can tell: adapters in its list of models, a prefix cache whose blocks
belong to model, adapter and salt, KV events in vLLM's form with replay, and usage with the tokens that were really cached."""
import http.server
import json
import random
import struct
import threading
import time

import msgpack
import zmq

BLOCK_SIZE = 32
END = (1 << 64) - 1


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A gateway that ends resets its idle connections."""


class EngineLikeVllm:
    """`adapters`: those it has now, in any container that a test may change. `buffer_steps`: batches that a replay has; None: all.
    Prompts are tokenized byte by byte."""

    def __init__(self, name, model="test-model", adapters=(), buffer_steps=None):
        self.name, self.model, self.adapters, self.buffer_steps = name, model, list(adapters), buffer_steps
        self.random = random.Random(name)
        self.lock = threading.Lock()
        self.cached = {}    # (adapter, salt, tokens from the start) -> name of the last block
        self.bodies = []    # of the completions that came, in order
        self.batches = []
        self.context = zmq.Context()
        self.live = self.context.socket(zmq.PUB)
        self.events_port = self.live.bind_to_random_port("tcp://127.0.0.1")
        self.replay = self.context.socket(zmq.ROUTER)
        self.replay_port = self.replay.bind_to_random_port("tcp://127.0.0.1")
        self.over = False
        self.live.setsockopt(zmq.LINGER, 0)
        self.replay.setsockopt(zmq.LINGER, 0)
        self.replays = threading.Thread(target=self._serve_replays, daemon=True)
        self.replays.start()
        self.server = Server(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def yaml(self):
        return (f"    - {{name: {self.name}, url: \"{self.url}\", kv_events: \"tcp://127.0.0.1:{self.events_port}\", "
                f"kv_replay: \"tcp://127.0.0.1:{self.replay_port}\"}}\n")

    def close(self):
        self.over = True
        self.replays.join()
        self.server.shutdown()
        self.server.server_close()
        self.live.close()
        self.replay.close()
        self.context.term()

    def publish(self, *events):
        """One batch. Call it with the lock held, or before anything else happens."""
        number = len(self.batches)
        self.batches.append(msgpack.packb([time.time(), list(events), None]))
        self.live.send_multipart([b"", struct.pack(">Q", number), self.batches[-1]])

    def complete(self, body):
        """(status, answer) of a completion. The blocks that it computes are cached and published."""
        adapter, salt = body["model"], body.get("cache_salt")
        if adapter == self.model:
            adapter = None
        if body.get("logprobs", 0) > 20:
            return 400, {"error": {"message": "Requested logprobs is greater than max allowed", "type": "BadRequestError", "code": 400}}
        with self.lock:
            self.bodies.append(body)
            if adapter and adapter not in self.adapters:
                return 404, {"error": {"message": f"The model `{adapter}` does not exist.", "type": "NotFoundError", "code": 404}}
            tokens = tuple(body["prompt"].encode())
            cached = self._cached_blocks(adapter, salt, tokens[:-1])
            self._store(adapter, salt, tokens, self._cached_blocks(adapter, salt, tokens))
        usage = {"prompt_tokens": len(tokens), "completion_tokens": 1, "total_tokens": len(tokens) + 1,
                 "prompt_tokens_details": {"cached_tokens": cached * BLOCK_SIZE}}
        choice = {"index": 0, "text": "x", "finish_reason": "length"}
        return 200, {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"], "choices": [choice], "usage": usage}

    def offload(self):
        """All blocks go to host memory, as vLLM's offloading connector reports it, and leave device memory."""
        with self.lock:
            names = list(self.cached.values())
            self.publish({"type": "BlockStored", "block_hashes": names, "parent_block_hash": None, "token_ids": [], "block_size": 0,
                          "lora_id": None, "medium": "CPU", "lora_name": None})
            self.publish({"type": "BlockRemoved", "block_hashes": names, "medium": "GPU", "group_idx": 0})

    def lose_host_memory(self):
        with self.lock:
            self.publish({"type": "BlockRemoved", "block_hashes": list(self.cached.values()), "medium": "CPU"})
            self.cached.clear()

    def evict(self, blocks):
        """So many of the blocks that no other one follows leave device memory, the deepest first."""
        with self.lock:
            gone = sorted(self.cached, key=lambda key: len(key[2]))[-blocks:]
            self.publish({"type": "BlockRemoved", "block_hashes": [self.cached.pop(key) for key in gone], "medium": "GPU", "group_idx": 0})

    def restart(self):
        """Another run: its cache is empty, and its batches are counted anew."""
        with self.lock:
            self.cached, self.batches = {}, []

    def _cached_blocks(self, adapter, salt, tokens):
        blocks = 0
        while (adapter, salt, tokens[:(blocks + 1) * BLOCK_SIZE]) in self.cached and (blocks + 1) * BLOCK_SIZE <= len(tokens):
            blocks += 1
        return blocks

    def _store(self, adapter, salt, tokens, first):
        blocks = len(tokens) // BLOCK_SIZE
        if blocks == first:
            return
        names = [self.random.getrandbits(64) for _ in range(first, blocks)]
        parent = self.cached[adapter, salt, tokens[:first * BLOCK_SIZE]] if first else None
        for i, name in enumerate(names):
            self.cached[adapter, salt, tokens[:(first + i + 1) * BLOCK_SIZE]] = name
        keys = [([adapter] if adapter else []) + ([salt] if salt and i == 0 else []) for i in range(first, blocks)]
        self.publish({"type": "BlockStored", "block_hashes": names, "parent_block_hash": parent,
                      "token_ids": list(tokens[first * BLOCK_SIZE:blocks * BLOCK_SIZE]), "block_size": BLOCK_SIZE,
                      "lora_id": self.adapters.index(adapter) + 1 if adapter else None, "medium": "GPU", "lora_name": adapter,
                      "extra_keys": [key or None for key in keys], "group_idx": 0, "kv_cache_spec_kind": "full_attention"})

    def _serve_replays(self):
        while not self.over:
            if not self.replay.poll(50):
                continue
            client, _, start = self.replay.recv_multipart()
            with self.lock:
                batches = list(enumerate(self.batches))
            oldest = max(0, len(batches) - self.buffer_steps) if self.buffer_steps is not None else 0
            for number, payload in batches[max(oldest, struct.unpack(">Q", start)[0]):]:
                self.replay.send_multipart([client, b"", b"", struct.pack(">Q", number), payload])
            self.replay.send_multipart([client, b"", b"", struct.pack(">Q", END), b""])

    def _models(self):
        base = {"id": self.model, "object": "model", "owned_by": "vllm", "root": "/models/test", "parent": None, "max_model_len": 16384}
        return [base] + [{"id": name, "object": "model", "owned_by": "vllm", "root": f"/loras/{name}", "parent": self.model,
                          "max_model_len": None} for name in self.adapters]

    def _handler(engine):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send(self, status, answer):
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain" if isinstance(answer, bytes) else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                if self.path == "/v1/models":
                    return self.send(200, {"object": "list", "data": engine._models()})
                self.send(200, b"")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/tokenize":
                    return self.send(404, {})
                self.send(*engine.complete(body))

        return Handler
