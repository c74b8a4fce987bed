"""API keys: who is let in, limits, reloading without losing a connection, keys towards workers."""
import concurrent.futures
import contextlib
import http.client
import http.server
import json
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.parse

from deployment import BINARY, Process, WORKER, eventually, metrics, request, run


def create(name, *options):
    """(key, line of the file)"""
    done = subprocess.run([BINARY, "key", "create", "--name", name, *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    key, line = done.stdout.splitlines()
    return key, line


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def chat(url, key=None, tokens=3):
    body = {"model": "test-model", "max_tokens": tokens, "messages": [{"role": "user", "content": "hello"}]}
    return request(url + "/v1/chat/completions", body, headers=bearer(key) if key else None)


def answer_to_a_head_alone(url):
    """The status of the answer to a request whose body never comes, and whether the connection ended with it."""
    parts = urllib.parse.urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as stranger:
        stranger.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        answer = b""
        while piece := stranger.recv(65536):
            answer += piece
        return int(answer.split()[1]), b"Connection: close" in answer


class Fleet:
    """A worker, and a gateway that asks for keys."""

    def __init__(self, folder, lines, threads=2, settings="", workers=None):
        self.folder, self.file = pathlib.Path(folder), pathlib.Path(folder) / "keys.txt"
        self.file.write_text("\n".join(lines) + "\n")
        self.worker = None if workers else Process(folder, "worker", "w", WORKER.format(name="w", kv_blocks=500, slots=16, time_scale=100))
        workers = workers or f"[{{name: w, url: '{self.worker.url}'}}]"
        self.gateway = Process(folder, "gateway", "gateway", f"gateway:\n  model: test-model\n  block_size: 32\n  threads: {threads}\n"
                               f"  connect_timeout: 60 s\n  api_keys: keys.txt\n{settings}  workers: {workers}\n")
        eventually(lambda: request(self.gateway.url + "/health")[0] == 200, "the worker is healthy")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gateway.stop()
        if self.worker:
            self.worker.stop()

    def log(self):
        return (self.folder / "gateway.log").read_text()


def only_keys_of_the_file_open_the_api():
    alice, line = create("alice", "--class", "gold")
    assert alice.startswith("sk-kvist-") and alice not in line and line.startswith("name=alice sha256="), (alice, line)
    with tempfile.TemporaryDirectory() as folder, Fleet(folder, ["# keys", line]) as fleet:
        url = fleet.gateway.url
        for path in ("/v1/models", "/v1/chat/completions", "/tokenize", "/nowhere", "/ping"):
            status, headers, text = request(url + path)
            assert status == 401 and headers["WWW-Authenticate"] == "Bearer", (path, status)
            assert json.loads(text)["error"]["code"] == "invalid_api_key", text
        assert chat(url, alice[:-1])[0] == 401
        for _ in range(4):  # whichever thread takes it
            status, ended = answer_to_a_head_alone(url)
            assert status == 401 and ended, status
        assert request(url + "/health")[0] == 200
        status, _, text = chat(url, alice)
        assert status == 200, text
        usage = json.loads(text)["usage"]
        assert request(url + "/v1/models", headers={"x-api-key": alice})[0] == 200
        assert request(fleet.gateway.admin + "/admin/status")[0] == 200  # its keys are others, and there are none
        eventually(lambda: metrics(fleet.gateway)["kvist_gateway_key_requests_total"] == 2, "both are counted")
        seen = metrics(fleet.gateway)
        assert seen["kvist_gateway_unauthenticated_requests_total"] == 10, seen
        eventually(lambda: metrics(fleet.gateway)["kvist_gateway_key_tokens_total"] == usage["total_tokens"], "and their tokens")
        page = request(fleet.gateway.admin + "/metrics")[2]
        assert 'kvist_gateway_key_requests_total{key="alice",class="gold"}' in page, page
        for text in (page, fleet.log()):
            assert alice not in text and alice[9:] not in text


def limits_hold_over_all_threads():
    key, line = create("bob", "--requests-per-minute", "40")
    slow, slow_line = create("slow", "--tokens-per-minute", "50")
    with tempfile.TemporaryDirectory() as folder, Fleet(folder, [line, slow_line], threads=4) as fleet:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: request(fleet.gateway.url + "/v1/models", headers=bearer(key)), range(100)))
        served = [status for status, _, _ in answers].count(200)
        # What fills up meanwhile is served as well: two thirds of a request in a second.
        assert 40 <= served < 100, served
        refused = [(headers, text) for status, headers, text in answers if status == 429]
        assert len(refused) == 100 - served
        assert all(int(headers["Retry-After"]) >= 1 and "rate_limit_exceeded" in text and "bob" in text for headers, text in refused)
        assert chat(fleet.gateway.url, slow, tokens=60)[0] == 200
        status, headers, text = chat(fleet.gateway.url, slow)
        assert status == 429 and "tokens_per_minute" in text and int(headers["Retry-After"]) > 1, (status, text)
        assert "bob" in fleet.log() and key not in fleet.log()


def a_changed_file_is_read_again_and_no_connection_is_lost():
    old, old_line = create("old")
    new, new_line = create("new")
    with tempfile.TemporaryDirectory() as folder, Fleet(folder, [old_line]) as fleet:
        parts = urllib.parse.urlsplit(fleet.gateway.url)
        kept = http.client.HTTPConnection(parts.hostname, parts.port, timeout=100)

        def ask(key):
            kept.request("GET", "/v1/models", headers=bearer(key))
            answer = kept.getresponse()
            answer.read()
            return answer.status

        assert ask(old) == 200
        connection = kept.sock
        fleet.file.write_text("nonsense\n")
        fleet.gateway.process.send_signal(signal.SIGHUP)
        eventually(lambda: metrics(fleet.gateway)["kvist_gateway_key_file_errors_total"] >= 1, "the bad file is noticed")
        assert "the keys stay as they were" in fleet.log() and "keys.txt:1" in fleet.log()
        assert ask(old) == 200 and ask(new) == 401
        fleet.file.with_suffix(".new").write_text(new_line + "\n")
        fleet.file.with_suffix(".new").rename(fleet.file)
        eventually(lambda: ask(new) == 200, "the new file is in force")
        assert ask(old) == 401
        assert kept.sock is connection, "the connection was lost"
        kept.close()


class Worker(http.server.BaseHTTPRequestHandler):
    """Answers all with a completion and notes the credentials that it got."""

    protocol_version = "HTTP/1.1"
    seen = []

    def do_GET(self):
        self.answer({})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]})

    def answer(self, body):
        Worker.seen.append((self.path, self.headers["Authorization"], self.headers["Cookie"]))
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Set-Cookie", "worker=1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def workers_get_their_own_key_and_never_the_clients():
    key, line = create("carol")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Worker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    for own, settings, wanted in (("", "", None), ("", "  worker_api_key_file: fleet.key\n", "Bearer fleet"),
                                  (", api_key_file: own.key", "  worker_api_key_file: fleet.key\n", "Bearer own"),
                                  ("", "  pass_client_keys: true\n", f"Bearer {key}")):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("fleet", "own"):
                (pathlib.Path(folder) / f"{name}.key").write_text(name + "\n")
            with Fleet(folder, [line], settings=settings, workers=f"[{{name: w, url: '{url}'{own}}}]") as fleet:
                Worker.seen.clear()
                body = {"model": "test-model", "messages": [{"role": "user", "content": "hello"}]}
                status, headers, text = request(fleet.gateway.url + "/v1/chat/completions", body, headers={**bearer(key), "Cookie": "a=b"})
                assert status == 200 and "Set-Cookie" not in headers, (status, text, dict(headers))
                assert headers["Server"] is None, headers["Server"]
                got = [(auth, cookie) for path, auth, cookie in Worker.seen if path == "/v1/chat/completions"]
                assert got == [(wanted, "a=b" if "pass_client" in settings else None)], got
                if wanted and "pass_client" not in settings:  # the gateway's own questions have it too
                    eventually(lambda: any(path == "/health" and auth == wanted for path, auth, _ in Worker.seen), "health is asked for with it")
    server.shutdown()


def kvists_own_workers_ask_for_keys_too():
    """The gateway has the same file; its first line changes without a request being lost."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file = pathlib.Path(folder) / "fleet.key"
        file.write_text("first-key\n")
        worker = Process(folder, "worker", "w", WORKER.format(name="w", kv_blocks=500, slots=16, time_scale=100) + "  api_key_file: fleet.key\n")
        stack.callback(worker.stop)
        settings = f"gateway:\n  model: test-model\n  block_size: 32\n  connect_timeout: 60 s\n{{}}  workers: [{{{{name: w, url: '{worker.url}'}}}}]\n"
        gateway = Process(folder, "gateway", "gateway", settings.format("  worker_api_key_file: fleet.key\n"))
        stack.callback(gateway.stop)
        stranger = pathlib.Path(folder) / "stranger.yaml"
        stranger.write_text(settings.format(""))
        eventually(lambda: request(gateway.url + "/health")[0] == 200, "the worker is healthy")
        assert chat(gateway.url)[0] == 200
        assert request(worker.url + "/health")[0] == 200
        for key, wanted in ((None, 401), ("first", 401), ("first-key", 200)):
            assert chat(worker.url, key)[0] == wanted, key
            assert request(worker.url + "/metrics", headers=bearer(key) if key else None)[0] == wanted, key
        assert answer_to_a_head_alone(worker.url) == (401, True)
        for options, wanted in ((["-f", gateway_file(folder)], 0), (["-f", str(stranger)], 1)):
            done = subprocess.run([BINARY, "doctor", *options, "--json"], capture_output=True, text=True, timeout=100)
            assert done.returncode == wanted and ("key_refused" in done.stdout) == bool(wanted), done.stdout
        done = subprocess.run([BINARY, "loadgen", "--target", worker.url, "--model", "test-model", "--concurrency", "1", "--duration", "1s",
                               "--api-key-file", str(file)], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0 and " 0 failed" in done.stdout, (done.stdout, done.stderr[-2000:])
        file.write_text("next-key\nfirst-key\n")
        eventually(lambda: chat(worker.url, "next-key")[0] == 200, "the worker has read both")
        assert chat(gateway.url)[0] == 200  # with the old one
        file.write_text("next-key\n")
        worker.process.send_signal(signal.SIGHUP)
        eventually(lambda: chat(worker.url, "first-key")[0] == 401, "the old one is gone")
        eventually(lambda: chat(gateway.url)[0] == 200, "the gateway sends the new one")
        assert [chat(gateway.url)[0] for _ in range(8)] == 8 * [200]
        file.write_text("no key\n")
        gateway.process.send_signal(signal.SIGHUP)
        log = pathlib.Path(folder) / "gateway.log"
        eventually(lambda: "stay as they were" in log.read_text(), "a bad file changes nothing")
        assert chat(gateway.url)[0] == 200
        assert 'kvist_worker_unauthenticated_requests_total' in request(worker.url + "/metrics", headers=bearer("next-key"))[2]


def gateway_file(folder):
    return str(pathlib.Path(folder) / "gateway.yaml")


def who_leaves_early_pays_for_the_prompt():
    """The byte tokenizer has four times as many tokens as are estimated from the body."""
    key, line = create("hasty")
    with tempfile.TemporaryDirectory() as folder, Fleet(folder, [line]) as fleet:
        parts = urllib.parse.urlsplit(fleet.gateway.url)
        client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=100)
        body = {"model": "test-model", "stream": True, "max_tokens": 4000, "ignore_eos": True, "prompt": "x" * 4000}
        client.request("POST", "/v1/completions", json.dumps(body), {**bearer(key), "Content-Type": "application/json"})
        answer = client.getresponse()
        assert answer.status == 200 and answer.readline().startswith(b"data: ")
        answer.close()
        client.close()
        eventually(lambda: metrics(fleet.gateway)["kvist_gateway_key_tokens_total"] > 0, "the request has ended")
        assert metrics(fleet.gateway)["kvist_gateway_key_tokens_total"] >= 4000


def administration_has_keys_of_its_own():
    key, line = create("client")
    admin, admin_line = create("operator")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "admin.txt").write_text(admin_line + "\n")
        with Fleet(folder, [line]) as fleet:
            fleet.gateway.stop()
            config = (fleet.folder / "gateway.yaml").read_text().replace("api_keys: keys.txt", "api_keys: {file: keys.txt, admin_file: admin.txt}")
            fleet.gateway = Process(folder, "gateway", "gateway", config)
            status = fleet.gateway.admin + "/admin/status"
            assert request(status)[0] == 401 == request(status, headers=bearer(key))[0]
            assert request(status, headers=bearer(admin))[0] == 200
            assert request(fleet.gateway.admin + "/metrics")[0] == 401
            assert request(fleet.gateway.admin + "/health")[0] in (200, 503)
            assert request(fleet.gateway.url + "/v1/models", headers=bearer(admin))[0] == 401


class SlowLister(http.server.BaseHTTPRequestHandler):
    """A worker that keeps lists of models for clients with X-Hold back until it is told to give them."""

    protocol_version = "HTTP/1.1"
    holding, go_on = threading.Event(), threading.Event()

    def do_GET(self):
        if self.headers["X-Hold"]:
            self.holding.set()
            self.go_on.wait(60)
        text = json.dumps({"object": "list", "data": [{"id": "test-model", "object": "model"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def lists_of_models_count_for_the_concurrency():
    """With one thread and with several, of which another one answers."""
    key, line = create("one", "--concurrency", "1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowLister)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for threads in (1, 6):
        with tempfile.TemporaryDirectory() as folder:
            workers = f"[{{name: w, url: 'http://127.0.0.1:{server.server_port}'}}]"
            with Fleet(folder, [line], threads=threads, workers=workers) as fleet, concurrent.futures.ThreadPoolExecutor(1) as pool:
                models = fleet.gateway.url + "/v1/models"

                def is_refused_meanwhile():  # the gateway waits for a list for 2 s only, which a slow machine may sleep through
                    SlowLister.holding.clear()
                    SlowLister.go_on.clear()
                    held = pool.submit(request, models, headers={**bearer(key), "X-Hold": "1"})
                    assert SlowLister.holding.wait(60)
                    status, _, text = request(models, headers=bearer(key))
                    SlowLister.go_on.set()
                    held.result()
                    return status == 429 and "concurrency" in text

                eventually(is_refused_meanwhile, "the second request is one too many")
                assert request(models, headers=bearer(key))[0] == 200
    server.shutdown()


def a_hangup_ends_nothing():
    """Also where there is no file to read again: a closed terminal, or a service manager's reload."""
    with tempfile.TemporaryDirectory() as folder:
        worker = Process(folder, "worker", "w", WORKER.format(name="w", kv_blocks=500, slots=16, time_scale=100))
        gateway = Process(folder, "gateway", "gateway", "gateway:\n  model: test-model\n  block_size: 32\n"
                          f"  connect_timeout: 60 s\n  workers: [{{name: w, url: '{worker.url}'}}]\n")
        for process in (worker, gateway):
            process.process.send_signal(signal.SIGHUP)
            eventually(lambda: "SIGHUP" in (pathlib.Path(folder) / f"{process.name}.log").read_text(), f"{process.name} notes it")
        eventually(lambda: request(gateway.url + "/health")[0] == 200, "the worker is healthy")
        assert chat(gateway.url)[0] == 200
        gateway.stop()
        worker.stop()


def a_bad_file_at_the_start_is_said():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "gateway.yaml"
        for settings, wanted in (("api_keys: none.txt", "none.txt: No such file"), ("api_keys: {}", "neither file nor admin_file"),
                                 ("api_keys: gateway.yaml", "gateway.yaml:1: the line"), ("worker_api_key_file: none.txt", "none.txt: No such")):
            file.write_text(f"gateway:\n  {settings}\n  workers: [{{url: 'http://127.0.0.1:1'}}]\n")
            done = subprocess.run([BINARY, "gateway", "-f", file], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and wanted in done.stderr, (settings, done.stderr)


if __name__ == "__main__":
    run([only_keys_of_the_file_open_the_api, limits_hold_over_all_threads, a_changed_file_is_read_again_and_no_connection_is_lost,
         workers_get_their_own_key_and_never_the_clients, kvists_own_workers_ask_for_keys_too, who_leaves_early_pays_for_the_prompt, administration_has_keys_of_its_own, lists_of_models_count_for_the_concurrency, a_hangup_ends_nothing, a_bad_file_at_the_start_is_said])
