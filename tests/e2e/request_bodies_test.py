"""What the gateway does to bodies before a worker sees them: compressed ones, other names of the model, priorities; and under which
path a request in another API is logged."""
import contextlib
import gzip
import json
import pathlib
import struct
import subprocess
import tempfile
import urllib.error
import urllib.request
import zlib

from black_hole_test import config_of, metric, status
from deployment import BINARY, Process, deployment, eventually, request, run
from fake_worker import FakeWorker

CHAT = {"model": "test-model", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}


def zstd(data):
    """A frame of blocks as they are."""
    blocks = [data[i:i + 100_000] for i in range(0, len(data), 100_000)]
    frame = bytes.fromhex("28b52ffda0") + struct.pack("<I", len(data))
    return frame + b"".join(struct.pack("<I", (i + 1 == len(blocks)) | len(block) << 3)[:3] + block for i, block in enumerate(blocks))


def send(server, path, data, coding):
    call = urllib.request.Request(server.url + path, data=data, headers={"Content-Type": "application/json", "Content-Encoding": coding})
    try:
        with urllib.request.urlopen(call, timeout=100) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def compressed_bodies_are_read_by_gateway_and_worker():
    with deployment(workers=1) as (gateway, (worker,)):
        long = {**CHAT, "temperature": 0, "messages": [{"role": "user", "content": "hello " * 300}]}
        plain = json.dumps(long).encode()
        for server in (gateway, worker):
            content = None
            for coding, data in (("identity", plain), ("gzip", gzip.compress(plain)), ("deflate", zlib.compress(plain)), ("zstd", zstd(plain))):
                code, _, text = send(server, "/v1/chat/completions", data, coding)
                assert code == 200, (coding, code, text)
                choices = json.loads(text)["choices"]
                assert content in (None, choices), coding
                content = choices
            # Larger than anything is decompressed at once; the worker has no room for so long a prompt, and says so.
            huge = json.dumps({**CHAT, "messages": [{"role": "user", "content": "a" * 5_000_000}]}).encode()
            code, _, text = send(server, "/v1/chat/completions", gzip.compress(huge), "gzip")
            assert code == 400 and json.loads(text)["error"]["code"] == "context_length_exceeded", (code, text)
            code, headers, text = send(server, "/v1/chat/completions", plain, "br")
            assert code == 415 and headers["Accept-Encoding"] == "gzip, deflate, zstd", (code, headers.items())
            code, _, text = send(server, "/v1/chat/completions", gzip.compress(bytes(200 << 20)), "gzip")
            assert code == 413, (code, text)
            code, _, text = send(server, "/v1/chat/completions", plain, "gzip")
            assert code == 400 and "not valid gzip" in text, (code, text)


@contextlib.contextmanager
def fake_fleet(keys="", **settings):
    """(folder, gateway, fake worker)."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(FakeWorker("worker-0")) as worker:
        if keys:
            (pathlib.Path(folder) / "keys.txt").write_text(keys)
            settings["api_keys"] = "keys.txt"
        gateway = Process(folder, "gateway", "gateway", config_of([worker], **settings))
        try:
            eventually(lambda: all(w["healthy"] for w in status(gateway).values()), "workers healthy")
            yield pathlib.Path(folder), gateway, worker
        finally:
            gateway.stop()


def workers_get_bodies_as_they_were():
    with fake_fleet() as (_, gateway, worker):
        plain = json.dumps({**CHAT, "x": "ü" * 10}, ensure_ascii=False, indent=2).encode()
        assert send(gateway, "/v1/chat/completions", gzip.compress(plain), "gzip")[0] == 200
        _, body, headers = worker.bodies[-1]
        assert body == plain and "Content-Encoding" not in headers and headers["Content-Length"] == str(len(plain)), headers.items()


def other_names_of_the_model_are_the_models_everywhere():
    with fake_fleet(model_aliases="[other-name]") as (_, gateway, worker):
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/embeddings", "/detokenize"):
            code, _, text = request(gateway.url + path, {**CHAT, "model": "other-name"})
            assert code == 200, (path, code, text)
            assert json.loads(worker.bodies[-1][1])["model"] == "test-model", (path, worker.bodies[-1])
    with tempfile.TemporaryDirectory() as folder, deployment(workers=1, gateway=False) as (_, (worker,)):
        gateway = Process(folder, "gateway", "gateway", config_of([worker], model_aliases="[other-name]"))
        try:
            eventually(lambda: all(w["healthy"] for w in status(gateway).values()), "workers healthy")
            for name in ("test-model", "other-name"):
                code, _, text = request(gateway.url + "/v1/messages/count_tokens", {"model": name, "messages": CHAT["messages"]})
                assert code == 200 and json.loads(text)["input_tokens"] > 0, (code, text)
                code, _, text = request(gateway.url + "/tokenize", {"model": name, "prompt": "hello"})
                assert code == 200 and json.loads(text)["count"] == 5, (code, text)
            assert request(gateway.url + "/v1/messages/count_tokens", {"model": "third", "messages": CHAT["messages"]})[0] == 404
        finally:
            gateway.stop()


def priorities_of_keys_reach_the_workers():
    made = subprocess.run([BINARY, "key", "create", "--name", "batch"], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    key, line = made.stdout.splitlines()

    def priority(gateway, worker, headers=None, **fields):
        code, _, text = request(gateway.url + "/v1/chat/completions", {**CHAT, **fields}, headers={"Authorization": f"Bearer {key}", **(headers or {})})
        assert code == 200, (code, text)
        return json.loads(worker.bodies[-1][1]).get("priority")
    with fake_fleet(line + " priority=4\n", send_priority="true") as (_, gateway, worker):
        assert priority(gateway, worker) == 4, "the key's best"
        assert priority(gateway, worker, priority=-3) == 4
        assert priority(gateway, worker, priority=9) == 9
        assert priority(gateway, worker, {"X-Request-Priority": "7"}, priority=9) == 7
    with fake_fleet(line + " priority=4\n") as (_, gateway, worker):
        assert priority(gateway, worker) is None, "a worker may not know the field"
        assert priority(gateway, worker, priority=-3) == 4, "but a client cannot have more than its key"
        assert priority(gateway, worker, priority=9) == 9


def requests_in_other_apis_are_logged_as_they_came():
    with fake_fleet(access_log="access.log", log="{format: json}") as (folder, gateway, _):
        good = {"/v1/messages": CHAT, "/v1/responses": {"model": "test-model", "input": "hello"}, "/v1/chat/completions": CHAT}
        for path, body in good.items():
            assert request(gateway.url + path, body)[0] == 200, path
        wrong = {"/v1/messages": {"model": "test-model"}, "/v1/responses": {"model": "test-model", "input": []},
                 "/v1/messages/count_tokens": {"model": 5}}
        for path, body in wrong.items():
            code, headers, text = request(gateway.url + path, body, headers={"X-Request-Id": "wrong" + path.replace("/", "-")})
            assert code == 400, (path, text)
            if "messages" in path:
                assert json.loads(text)["request_id"] == headers["request-id"] == "wrong" + path.replace("/", "-"), (text, headers.items())

        def lines():
            return [json.loads(line) for line in (folder / "access.log").read_text().splitlines()]
        eventually(lambda: len(lines()) == len(good) + len(wrong), "all are logged")
        assert sorted((line["path"], line["status"]) for line in lines()) == sorted([(path, 200) for path in good] + [(path, 400) for path in wrong])
        assert all(line["outcome"] == ("completed" if line["status"] == 200 else "rejected") for line in lines()), lines()


def long_requests_are_read_beside_the_loop():
    """A chat, one in another API, what is passed on and what cannot be read: all come to the worker as short ones do."""
    words = "hello there " * 30_000
    with fake_fleet() as (_, gateway, worker):
        def last_body(path, body):
            code, _, text = request(gateway.url + path, body)
            assert code == 200, (path, code, text[:300])
            return json.loads(worker.bodies[-1][1])

        chat = {"model": "test-model", "messages": [{"role": "user", "content": words}], "max_tokens": 3}
        assert last_body("/v1/chat/completions", chat) == chat
        assert last_body("/v1/messages", chat)["messages"] == chat["messages"]
        embedding = {"model": "test-model", "input": words}
        assert last_body("/v1/embeddings", embedding) == embedding
        unreadable = {**chat, "messages": words}
        assert last_body("/v1/chat/completions", unreadable) == unreadable
        # The last one twice: nothing was found to read, and then its model and priority were looked for.
        assert metric(gateway, "kvist_gateway_prompts_read_total") == 5 and metric(gateway, "kvist_gateway_prompts_waiting") == 0
        assert request(gateway.url + "/v1/messages", {"model": "test-model", "max_tokens": 3, "messages": words})[0] == 400
        assert last_body("/v1/chat/completions", CHAT) == CHAT
        assert metric(gateway, "kvist_gateway_prompts_read_total") == 5, "a short one is read on the loop"


if __name__ == "__main__":
    run([compressed_bodies_are_read_by_gateway_and_worker, workers_get_bodies_as_they_were, other_names_of_the_model_are_the_models_everywhere,
         priorities_of_keys_reach_the_workers, requests_in_other_apis_are_logged_as_they_came, long_requests_are_read_beside_the_loop])
