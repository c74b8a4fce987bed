"""SIGTERM drains: what is under way ends, /health says 503, a deadline cuts the rest with an error frame, a second signal ends at once."""
import contextlib
import http.client
import json
import signal
import socket
import tempfile
import time

from deployment import DEADLINE_S, WORKER, Process, eventually, gateway_config, get_json, request, run

LONG = 100_000  # tokens: minutes of them
ONE_SIGNAL_S = 0.2  # signals that come closer together are one


@contextlib.contextmanager
def fleet(workers=1, time_scale=1.0, drain="60 s", worker_drain="60 s", gateway=True):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        started = []
        for i in range(workers):
            config = WORKER.format(name=f"worker-{i}", kv_blocks=8000, slots=16, time_scale=time_scale)
            config = config.replace("drain_timeout: 1 s", f"drain_timeout: {worker_drain}") + "  max_model_len: 200000\n"
            started.append(Process(folder, "worker", f"worker-{i}", config))
            stack.callback(end, started[-1])
        front = None
        if gateway:
            config = gateway_config(started, "round_robin", patient=True).replace("drain_timeout: 1 s", f"drain_timeout: {drain}")
            front = Process(folder, "gateway", "gateway", config)
            stack.callback(end, front)
            eventually(lambda: all(w["healthy"] for w in get_json(front.admin + "/admin/status")["workers"]), "workers healthy")
        yield front, started


def end(process):
    process.stop(signal.SIGKILL)


def stream(server, max_tokens):
    body = json.dumps({"model": "test-model", "stream": True, "max_tokens": max_tokens, "ignore_eos": True,
                       "messages": [{"role": "user", "content": "hello"}]}).encode()
    connection = socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=DEADLINE_S)
    connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(body) + body)
    data = b""
    while b'"content"' not in data:
        piece = connection.recv(65536)
        assert piece, data
        data += piece
    return connection, data


def rest(connection, data):
    """All of an answer whose connection its server closes."""
    while True:
        piece = connection.recv(1 << 20)
        if not piece:
            return data.decode()
        data += piece


def texts(answer):
    return [json.loads(line[6:]) for line in answer.split("\r\n\r\n", 1)[1].splitlines() if line.startswith("data: {")]


def has_ended(process):
    assert process.process.wait(DEADLINE_S) == 0, process.process.returncode


def each_service(time_scale, drain):
    """A gateway before a worker, then a worker alone."""
    with fleet(time_scale=time_scale, drain=drain) as (gateway, _):
        yield gateway
    with fleet(time_scale=time_scale, worker_drain=drain, gateway=False) as (_, workers):
        yield workers[0]


def a_stream_survives_and_probes_see_it():
    for service in each_service(time_scale=10.0, drain="60 s"):
        kept = http.client.HTTPConnection("127.0.0.1", service.ports["http"], timeout=DEADLINE_S)
        kept.request("GET", "/health")
        first = kept.getresponse()
        assert first.status == 200 and first.read() and kept.sock is not None
        connection, begun = stream(service, max_tokens=2000)
        service.process.send_signal(signal.SIGTERM)
        eventually(lambda: request(service.url + "/health")[0] == 503, "a new connection's probe sees it")
        kept.request("GET", "/health")
        assert kept.getresponse().status == 503, "a kept connection's probe sees it"
        status, headers, _ = request(service.url + "/v1/chat/completions",
                                     {"model": "test-model", "messages": [{"role": "user", "content": "hello"}]})
        assert (status, headers["Retry-After"], headers["Connection"]) == (503, "1", "close"), (status, dict(headers))
        if service.kind == "gateway":
            assert request(service.admin + "/metrics")[0] == 200
        answer = rest(connection, begun)
        assert "data: [DONE]" in answer and "error" not in answer, answer[-500:]
        assert sum(1 for chunk in texts(answer) if chunk["choices"] and chunk["choices"][0]["delta"].get("content")) > 1000
        has_ended(service)


def a_deadline_cuts_with_an_error_frame():
    for service in each_service(time_scale=1.0, drain="300 ms"):
        connection, begun = stream(service, LONG)
        service.process.send_signal(signal.SIGTERM)
        answer = rest(connection, begun)
        assert "shutting down" in texts(answer)[-1]["error"]["message"] and "[DONE]" not in answer, answer[-500:]
        has_ended(service)


def a_second_signal_ends_at_once():
    for service in each_service(time_scale=1.0, drain="1 h"):
        connection, begun = stream(service, LONG)
        service.process.send_signal(signal.SIGTERM)
        eventually(lambda: request(service.url + "/health")[0] == 503, "draining")
        time.sleep(ONE_SIGNAL_S)
        assert service.process.poll() is None
        service.process.send_signal(signal.SIGINT)
        assert "shutting down" in texts(rest(connection, begun))[-1]["error"]["message"]
        has_ended(service)


def without_work_it_ends_at_once():
    for service in each_service(time_scale=1.0, drain="1 h"):
        service.process.send_signal(signal.SIGTERM)
        has_ended(service)


def a_worker_that_drains_costs_no_client_anything():
    with fleet(workers=2, time_scale=10.0) as (gateway, workers):
        streams = [stream(gateway, max_tokens=1500) for _ in range(4)]
        workers[0].process.send_signal(signal.SIGTERM)
        body = {"model": "test-model", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}
        answers = [request(gateway.url + "/v1/chat/completions", body) for _ in range(40)]
        assert [status for status, _, _ in answers] == [200] * 40
        assert {headers["x-kvist-worker"] for _, headers, _ in answers[1:]} == {"worker-1"}, "those after the signal go elsewhere"
        for connection, begun in streams:
            while b"[DONE]" not in begun:
                piece = connection.recv(1 << 20)
                assert piece, begun[-500:]
                begun += piece
            assert b'"error"' not in begun
        has_ended(workers[0])


if __name__ == "__main__":
    run([a_stream_survives_and_probes_see_it, a_deadline_cuts_with_an_error_frame, a_second_signal_ends_at_once,
         without_work_it_ends_at_once, a_worker_that_drains_costs_no_client_anything])
