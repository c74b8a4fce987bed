"""Logs: as text and JSON, and the access log, with a line for each request however it ended."""
import contextlib
import http.client
import json
import pathlib
import signal
import subprocess
import tempfile
import urllib.parse

from deployment import BINARY, Process, WORKER, eventually, gateway_config, get_json, request, run

FREE_PORT = "http://127.0.0.1:9"  # nobody listens there


@contextlib.contextmanager
def fleet(settings, dead_worker=False, time_scale=100, keys=()):
    """(folder, gateway, worker)"""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        worker = Process(folder, "worker", "w0", WORKER.format(name="w0", kv_blocks=500, slots=8, time_scale=time_scale))
        stack.callback(worker.stop)
        for name, text in keys:
            (pathlib.Path(folder) / name).write_text(text)
        config = gateway_config([worker], "round_robin", patient=True)
        if dead_worker:
            config += f"    - {{name: dead, url: '{FREE_PORT}'}}\n"
        gateway = Process(folder, "gateway", "gateway", config + settings)
        stack.callback(gateway.stop)
        eventually(lambda: get_json(gateway.admin + "/admin/status")["workers"][0]["healthy"], "the worker is healthy")
        yield pathlib.Path(folder), gateway, worker


def chat(gateway, model="test-model", **options):
    headers = options.pop("headers", {})
    body = {"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": "hello " * 50}], **options}
    return request(gateway.url + "/v1/chat/completions", body, headers=headers)


def lines_of(path, wanted):
    """As many lines as wanted, when they have come."""
    eventually(lambda: len(path.read_text().splitlines()) >= wanted, f"{wanted} lines in {path.name}")
    lines = path.read_text().splitlines()
    assert len(lines) == wanted, lines
    return lines


def json_lines_have_what_happened():
    settings = "  access_log: access.log\n  log: {format: json, level: debug}\n  threads: 2\n"
    with fleet(settings) as (folder, gateway, _):
        log = folder / "access.log"
        for number, stream in ((1, False), (2, True)):
            status, headers, text = chat(gateway, stream=stream, headers={"X-Request-Id": f"ask-{number}"})
            assert status == 200, text
            line = json.loads(lines_of(log, number)[-1])
            assert line["request_id"] == f"ask-{number}" and line["log"] == "access", line
            assert (line["method"], line["path"], line["model"]) == ("POST", "/v1/chat/completions", "test-model"), line
            assert (line["status"], line["outcome"], line["worker"], line["output_tokens"]) == (200, "completed", "w0", 5), line
            assert line["prompt_tokens"] > 300 and line["duration_ms"] > 0 and "retries" not in line, line
            assert ("ttft_ms" in line) == stream, line
        # The second one found what the first left in the cache, as was predicted.
        assert line["cached_tokens"] == line["predicted_cached_tokens"] > 0, line
        assert chat(gateway, model="another")[0] == 404
        line = json.loads(lines_of(log, 3)[-1])
        assert (line["status"], line["outcome"]) == (404, "refused") and "prompt_tokens" not in line, line
        for text in (folder / "gateway.log").read_text().splitlines():
            entry = json.loads(text)
            assert {"time", "level", "process", "component", "message"} == set(entry) and entry["process"] == "gateway", entry


def a_client_that_leaves_is_client_gone_in_log_metrics_and_explain():
    with fleet("  access_log: access.log\n  log: {format: json}\n", time_scale=1) as (folder, gateway, _):
        parts = urllib.parse.urlsplit(gateway.url)
        call = http.client.HTTPConnection(parts.hostname, parts.port, timeout=100)
        body = {"model": "test-model", "max_tokens": 5000, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
        call.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json", "X-Request-Id": "leaver"})
        call.getresponse().read(10)
        call.sock.close() if call.sock else None
        call.close()
        line = json.loads(lines_of(folder / "access.log", 1)[0])
        assert (line["request_id"], line["outcome"]) == ("leaver", "client_gone"), line
        page = request(gateway.admin + "/metrics")[2]
        assert 'kvist_gateway_requests_total{worker="w0",outcome="client_gone"} 1' in page, page
        decisions = request(gateway.admin + "/admin/decisions")[2]
        done = subprocess.run([BINARY, "explain", "-"], input=decisions, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "client_gone" in done.stdout, (done.stdout, done.stderr)


def retries_are_told_with_their_reason():
    with fleet("  access_log: access.log\n  health_interval: 60 s\n", dead_worker=True) as (folder, gateway, _):
        log = folder / "access.log"
        for number in range(1, 4):
            assert chat(gateway)[0] == 200
            text = lines_of(log, number)
            if any("retries=dead:transport" in line for line in text):
                break
        assert all("worker=w0" in line and "outcome=completed" in line for line in text), text


def refusals_name_their_key_and_request():
    """The limits of one's own key, and a model that nobody serves."""
    create = [BINARY, "key", "create", "--name", "bob", "--requests-per-minute", "1"]
    key = subprocess.run(create, capture_output=True, text=True, check=True).stdout.splitlines()
    with fleet("  access_log: access.log\n  api_keys: keys.txt\n", keys=[("keys.txt", key[1] + "\n")]) as (folder, gateway, _):
        for i in range(4):
            code, head, _ = chat(gateway, headers={"Authorization": f"Bearer {key[0]}", "X-Request-Id": f"mine-{i}"})
            assert head["x-request-id"] == f"mine-{i}", (code, head)
        refused = [line for line in lines_of(folder / "access.log", 4) if "status=429" in line]
        assert refused and all("key=bob" in line and "id=mine-" in line for line in refused), refused


def refusals_and_rotation():
    key = subprocess.run([BINARY, "key", "create", "--name", "alice"], capture_output=True, text=True, check=True).stdout.splitlines()
    with fleet("  access_log: access.log\n  api_keys: keys.txt\n", keys=[("keys.txt", key[1] + "\n")]) as (folder, gateway, worker):
        log = folder / "access.log"
        assert chat(gateway, headers={"Authorization": "Bearer wrong"})[0] == 401
        first = lines_of(log, 1)[0]
        assert "status=401 outcome=rejected" in first and "wrong" not in first, first
        log.rename(folder / "access.log.1")
        good = {"Authorization": f"Bearer {key[0]}"}

        def is_in_the_new_file():
            assert chat(gateway, headers=good)[0] == 200
            return log.exists() and "key=alice" in log.read_text()

        eventually(is_in_the_new_file, "a new file is made")
        assert key[0] not in log.read_text()
        worker.stop(signal.SIGKILL)
        status = chat(gateway, headers=good)[0]
        assert status in (502, 503), status
        eventually(lambda: f"status={status}" in log.read_text(), "the failure is in the log")


def off_and_standard_error():
    with fleet("  access_log: stderr\n") as (folder, gateway, _):
        assert chat(gateway, headers={"X-Request-Id": "here"})[0] == 200
        eventually(lambda: " access request_id=here " in (folder / "gateway.log").read_text(), "the line is on standard error")
    with fleet("  access_log: \"off\"\n  log: {level: warning}\n") as (folder, gateway, _):
        assert chat(gateway, headers={"X-Request-Id": "here"})[0] == 200
        assert "request_id" not in (folder / "gateway.log").read_text() and " info " not in (folder / "gateway.log").read_text()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "gateway.yaml"
        for settings, wanted in (("access_log: none/here.log", "none/here.log: No such file"), ("log: {format: xml}", "expected text or json"),
                                 ("log: {level: loud}", "expected debug or info"), ("otlp: {endpoint: 'http://nowhere'}", "/v1/traces")):
            file.write_text(f"gateway:\n  {settings}\n  workers: [{{url: 'http://127.0.0.1:1'}}]\n")
            done = subprocess.run([BINARY, "gateway", "-f", file], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and wanted in done.stderr, (settings, done.stderr)
        done = subprocess.run([BINARY, "gateway", "-f", file, "--log-format", "xml"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1, done.stderr


if __name__ == "__main__":
    run([json_lines_have_what_happened, a_client_that_leaves_is_client_gone_in_log_metrics_and_explain, retries_are_told_with_their_reason,
         refusals_name_their_key_and_request, refusals_and_rotation, off_and_standard_error])
