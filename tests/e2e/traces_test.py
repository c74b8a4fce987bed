"""Traces: a collector that checks what it gets, requests with and without a trace of their own, and a collector that is away."""
import contextlib
import http.server
import json
import pathlib
import re
import subprocess
import tempfile
import threading

from deployment import BINARY, Process, WORKER, eventually, gateway_config, get_json, metrics, request, run

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.seen = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Collector(Quiet):
    """Asks for a key if there is one."""

    status, key = 200, None

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
        status = 401 if Collector.key and self.headers["Authorization"] != Collector.key else Collector.status
        self.server.seen += [(status, body)]
        self.server.fields = dict(self.headers)
        self.reply(status, {})


class Worker(Quiet):
    """Fails as often as it is told to, and notes the traceparent fields that it got."""

    failures = 0

    def do_GET(self):
        self.reply(200 if self.path == "/health" else 404, {})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.split("?")[0] != "/v1/chat/completions":
            return self.reply(404, {})
        self.server.seen.append((self.headers["traceparent"], self.headers["tracestate"]))
        if Worker.failures > 0:
            Worker.failures -= 1
            return self.reply(503, {"error": {"message": "full"}})
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "prompt_tokens_details": {"cached_tokens": 4}}
        choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
        self.reply(200, {"id": "1", "object": "chat.completion", "model": "test-model", "choices": [choice], "usage": usage})


def spans_of(collector, status=200):
    """All spans taken, checked one by one, by id."""
    spans = {}
    for got, body in collector.seen:
        if got != status:
            continue
        for resource in body["resourceSpans"]:
            assert attributes(resource["resource"])["service.name"] == "kvist-gateway", resource
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and int(span["traceId"], 16), span
                    assert re.fullmatch("[0-9a-f]{16}", span["spanId"]) and int(span["spanId"], 16), span
                    assert span["spanId"] not in spans, "a span came twice"
                    assert 1_600_000_000e9 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]), span
                    assert span["kind"] in (1, 2, 3) and span["status"]["code"] in (0, 1, 2), span
                    spans[span["spanId"]] = span
    for span in spans.values():
        parent = spans.get(span.get("parentSpanId"))
        if parent is None:
            assert span["kind"] == 2, ("only the request's span has a parent elsewhere, or none", span)
        else:
            assert parent["kind"] == 2 and parent["traceId"] == span["traceId"], (span, parent)
            assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"]), (span, parent)
            assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"]), (span, parent)
    return spans


def attributes(thing):
    return {a["key"]: next(iter(a["value"].values())) for a in thing["attributes"]}


@contextlib.contextmanager
def traced_fleet(settings="", workers=1):
    """(gateway, collector, workers)"""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        collector, fakes = Server(Collector), [Server(Worker) for _ in range(workers)]
        for server in (collector, *fakes):
            stack.callback(server.shutdown)
        Collector.status, Worker.failures = 200, 0
        listed = "".join(f"    - {{name: w{i}, url: '{fake.url}'}}\n" for i, fake in enumerate(fakes))
        config = ("gateway:\n  model: test-model\n  mode: round_robin\n  threads: 2\n"
                  f"  otlp: {{endpoint: '{collector.url}/v1/traces', interval: 50 ms{settings}}}\n  workers:\n{listed}")
        gateway = Process(folder, "gateway", "gateway", config)
        stack.callback(gateway.stop)
        eventually(lambda: all(w["healthy"] for w in get_json(gateway.admin + "/admin/status")["workers"]), "workers healthy")
        yield gateway, collector, fakes


def chat(gateway, **headers):
    body = {"model": "test-model", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}
    return request(gateway.url + "/v1/chat/completions?secret=1", body, headers=headers)


def a_trace_of_the_client_goes_on():
    with traced_fleet() as (gateway, collector, (worker,)):
        assert chat(gateway, traceparent=f"00-{TRACE}-{SPAN}-01", tracestate="a=1", **{"X-Request-Id": "r1"})[0] == 200
        eventually(lambda: len(spans_of(collector)) == 3, "three spans")
        spans = list(spans_of(collector).values())
        root = next(s for s in spans if s["kind"] == 2)
        attempt = next(s for s in spans if s["kind"] == 3)
        assert root["traceId"] == TRACE and root["parentSpanId"] == SPAN and "secret" not in json.dumps(spans), root
        assert worker.seen == [(f"00-{TRACE}-{attempt['spanId']}-01", "a=1")], worker.seen
        facts = attributes(root)
        assert facts["kvist.request_id"] == "r1" and facts["kvist.outcome"] == "completed" and facts["http.response.status_code"] == "200", facts
        assert facts["kvist.cached_tokens"] == "4" and facts["gen_ai.usage.output_tokens"] == "2", facts
        assert {s["name"] for s in spans} == {"POST /v1/chat/completions", "route", "attempt w0"}, spans


def each_attempt_is_a_span():
    with traced_fleet(workers=2) as (gateway, collector, workers):
        Worker.failures = 1
        assert chat(gateway)[0] == 200
        eventually(lambda: len(spans_of(collector)) == 4, "four spans")
        spans = spans_of(collector).values()
        failed, good = sorted((s for s in spans if s["kind"] == 3), key=lambda s: int(s["startTimeUnixNano"]))
        assert attributes(failed)["error.type"] == "back_pressure" and failed["status"]["code"] == 2, failed
        assert good["status"]["code"] == 0 and attributes(good)["http.response.status_code"] == "200", good
        root = next(s for s in spans if s["kind"] == 2)
        assert "parentSpanId" not in root, root
        sent = [parent for fake in workers for parent, _ in fake.seen]
        assert sorted(sent) == sorted(f"00-{root['traceId']}-{s['spanId']}-01" for s in (failed, good)), (sent, failed, good)


def what_the_client_does_not_sample_is_passed_on_unchanged():
    with traced_fleet(", sample_ratio: 0") as (gateway, collector, (worker,)):
        assert chat(gateway, traceparent=f"00-{TRACE}-{SPAN}-00")[0] == 200
        assert chat(gateway)[0] == 200
        assert chat(gateway, traceparent=f"00-{TRACE}-{SPAN}-01")[0] == 200
        eventually(lambda: len(spans_of(collector)) == 3, "the spans of the last one")
        assert [parent for parent, _ in worker.seen[:2]] == [f"00-{TRACE}-{SPAN}-00", None], worker.seen


def a_collector_that_is_away_gets_all_later_and_what_does_not_fit_is_counted():
    with traced_fleet(", max_waiting: 3") as (gateway, collector, _):
        Collector.status = 503
        assert chat(gateway)[0] == 200
        eventually(lambda: len(collector.seen) > 0, "the collector was asked")
        for _ in range(5):
            assert chat(gateway)[0] == 200
        eventually(lambda: metrics(gateway)["kvist_gateway_traces_waiting"] == 3, "three wait")
        Collector.status = 200
        eventually(lambda: len(spans_of(collector)) == 4 * 3, "the first, and those that waited")
        page = request(gateway.admin + "/metrics")[2]
        for result, wanted in (("exported", 4), ("dropped", 2), ("refused", 0)):
            assert f'kvist_gateway_traced_requests_total{{result="{result}"}} {wanted}' in page, page
        Collector.status = 400
        assert chat(gateway)[0] == 200
        eventually(lambda: 'kvist_gateway_traced_requests_total{result="refused"} 1' in request(gateway.admin + "/metrics")[2], "it is refused")


def what_waits_at_the_end_is_sent():
    Collector.status = 200
    with tempfile.TemporaryDirectory() as folder:
        collector, worker = Server(Collector), Server(Worker)
        gateway = Process(folder, "gateway", "gateway", "gateway:\n  model: test-model\n"
                          f"  otlp: {{endpoint: '{collector.url}/v1/traces', interval: 100 s}}\n  workers: [{{name: w0, url: '{worker.url}'}}]\n")
        eventually(lambda: request(gateway.url + "/health")[0] == 200, "the worker is healthy")
        assert chat(gateway)[0] == 200
        gateway.stop()
        assert len(spans_of(collector)) == 3, collector.seen
        collector.shutdown()
        worker.shutdown()


def a_collectors_key_is_sent_and_never_told():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file, log = pathlib.Path(folder) / "collector.key", pathlib.Path(folder) / "gateway.log"
        collector, worker = Server(Collector), Server(Worker)
        for server in (collector, worker):
            stack.callback(server.shutdown)
        stack.callback(setattr, Collector, "key", None)
        Collector.status, Collector.key, Worker.failures = 200, "Bearer first-secret", 0
        config = ("gateway:\n  model: test-model\n"
                  f"  otlp: {{endpoint: '{collector.url}/v1/traces', interval: 50 ms, headers: {{X-Scope-OrgID: team a, Authorization: {{file: collector.key}}}}}}\n"
                  f"  workers: [{{name: w0, url: '{worker.url}'}}]\n")
        (pathlib.Path(folder) / "none.yaml").write_text(config)
        done = subprocess.run([BINARY, "gateway", "-f", pathlib.Path(folder) / "none.yaml"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "collector.key" in done.stderr, done.stderr
        file.write_text("Bearer first-secret\n")
        gateway = Process(folder, "gateway", "gateway", config)
        stack.callback(gateway.stop)
        eventually(lambda: request(gateway.url + "/health")[0] == 200, "the worker is healthy")
        assert chat(gateway)[0] == 200
        eventually(lambda: len(spans_of(collector)) == 3, "three spans")
        assert (collector.fields["X-Scope-OrgID"], collector.fields["Content-Type"]) == ("team a", "application/json"), collector.fields

        Collector.key = "Bearer next-secret"
        file.write_text("\n")
        assert chat(gateway)[0] == 200
        eventually(lambda: len(spans_of(collector, 401)) == 3, "the old key is refused, as a file that is not good changes nothing")
        file.write_text("Bearer next-secret\n")
        assert chat(gateway)[0] == 200
        eventually(lambda: len(spans_of(collector)) == 6, "the new one is sent")
        eventually(lambda: "status 401" in log.read_text() and "header fields stay as they were" in log.read_text(), "both are in the log")
        assert "secret" not in log.read_text() + request(gateway.admin + "/admin/status")[2], log.read_text()


if __name__ == "__main__":
    run([a_trace_of_the_client_goes_on, each_attempt_is_a_span, what_the_client_does_not_sample_is_passed_on_unchanged,
         a_collector_that_is_away_gets_all_later_and_what_does_not_fit_is_counted, what_waits_at_the_end_is_sent, a_collectors_key_is_sent_and_never_told])
