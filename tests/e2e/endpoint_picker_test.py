"""kvist epp against a client that speaks ext_proc as Envoy does, before timed workers: modes of the body, subsets, fall-back endpoints,
refusals, answers as they are reported, health, drain, TLS. tests/peers/endpoint_picker_test.py has the same with a real Envoy."""
import contextlib
import http.client
import json
import pathlib
import re
import signal
import tempfile
import threading

import grpc

import ext_proc_client as ext_proc
from deployment import DEADLINE_S, Process, deployment, eventually, gateway_config, get_json, request, run
from metrics_test import promtool_accepts
from tls_test import Authority


class Picker:
    """kvist epp before workers, and a proxy's calls at it."""

    def __init__(self, folder, workers, mode="kv", more="", credentials=None):
        config = gateway_config(workers, mode, patient=True)
        if "drain_timeout" in more:
            config = config.replace("  drain_timeout: 1 s\n", "")
        self.reach(Process(folder, "epp", "epp", config.replace("gateway:\n", "gateway:\n" + more, 1)), credentials)
        self.endpoints = {f"127.0.0.1:{w.ports['http']}": w for w in workers}

    @classmethod
    def before(cls, process):
        """The calls at one that runs already."""
        made = cls.__new__(cls)
        made.reach(process)
        return made

    def reach(self, process, credentials=None):
        self.process, target = process, f"localhost:{process.ports['grpc']}"
        self.channel = grpc.secure_channel(target, credentials) if credentials else grpc.insecure_channel(target)

    def await_workers(self):
        eventually(lambda: all(w["healthy"] for w in get_json(self.process.admin + "/admin/status")["workers"]), "workers healthy")
        return self

    def stop(self):
        self.channel.close()
        self.process.stop()

    def exchange(self, **modes):
        return ext_proc.Exchange(self.channel, **modes)

    def decisions(self, name):
        return get_json(f"{self.process.admin}/admin/decisions?request={name}")["decisions"]

    def ended(self, name):
        """The decisions of a request, newest first, when it is over."""
        eventually(lambda: self.decisions(name)[0]["after"]["state"] != "under_way", f"{name} has ended")
        return self.decisions(name)

    def metrics(self):
        _, _, text = request(self.process.admin + "/metrics")
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line and line[0] != "#"}


@contextlib.contextmanager
def picker(workers=3, mode="kv", more="", time_scale=100.0):
    with deployment(workers=workers, gateway=False, time_scale=time_scale) as (_, started), tempfile.TemporaryDirectory() as folder:
        running = Picker(folder, started, mode, more)
        try:
            yield running.await_workers()
        finally:
            running.stop()


def chat(text, stream=True, **more):
    return json.dumps({"model": "test-model", "messages": [{"role": "user", "content": text}], "max_tokens": 20, "stream": stream,
                       "stream_options": {"include_usage": True}, **more}, indent=1).encode() if stream else json.dumps(
        {"model": "test-model", "messages": [{"role": "user", "content": text}], "max_tokens": 20, **more}).encode()


def ask(exchange, body, name, **more):
    """Sends a request, and returns the endpoints and, in full duplex, the body that came back."""
    exchange.send_request(body, more={"x-request-id": name, "content-type": "application/json"}, **more)
    first = exchange.next()
    assert not first.HasField("immediate_response"), first
    endpoints, back = ext_proc.destination(first), b""
    if exchange.modes[0] == ext_proc.FULL_DUPLEX_STREAMED and body:
        while True:
            part = exchange.next().request_body.response.body_mutation.streamed_response
            back += part.body
            if part.end_of_stream:
                break
    return endpoints, back


def relay(exchange, endpoint, body, path="/v1/chat/completions", served=None, stop_after=None):
    """Takes the request to the worker and its answer past the picker; returns (status, body)."""
    connection = http.client.HTTPConnection(endpoint, timeout=DEADLINE_S)
    connection.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    metadata = ext_proc.TYPES["Metadata"]()
    if served:
        metadata.filter_metadata["envoy.lb"]["x-gateway-destination-endpoint-served"] = served
    fields = {":status": str(answer.status), "content-type": answer.getheader("Content-Type")}
    exchange.send(response_headers=ext_proc.headers(fields), metadata_context=metadata)
    assert exchange.next().HasField("response_headers")
    taken, count = b"", 0
    while True:
        data = answer.read1(65536)
        exchange.send(response_body=ext_proc.TYPES["HttpBody"](body=data, end_of_stream=not data))
        reply = exchange.next().response_body.response
        if exchange.modes[1] == ext_proc.FULL_DUPLEX_STREAMED:
            assert reply.body_mutation.streamed_response.body == data and reply.body_mutation.streamed_response.end_of_stream == (not data)
        else:
            assert not reply.HasField("body_mutation")
        taken, count = taken + data, count + 1
        if not data or (stop_after and count >= stop_after):
            connection.close()
            return answer.status, taken


def serve(running, body, name, modes=None, **more):
    exchange = running.exchange(**(modes or {}))
    endpoints, back = ask(exchange, body, name, **more)
    status, text = relay(exchange, endpoints[0], body)
    return endpoints, back, status, text


def immediate(exchange):
    answer = exchange.next().immediate_response
    return answer.status.code, {h.header.key.lower(): h.header.raw_value.decode() for h in answer.headers.set_headers}, answer.body


def test_a_stream_in_full_duplex_is_routed_watched_and_unchanged():
    with picker() as running:
        body = b" " * 150_000 + chat("x" * 10_000)
        endpoints, back, status, text = serve(running, body, "full")
        assert back == body and status == 200 and text.endswith(b"data: [DONE]\n\n")
        assert len(endpoints) == 3 and set(endpoints) == set(running.endpoints), endpoints
        [decision] = running.ended("full")
        assert decision["chosen_name"] == running.endpoints[endpoints[0]].name and decision["mode"] == "kv"
        assert 10_000 < decision["prompt_tokens"] < 11_000 and decision["after"]["state"] == "completed", decision["after"]
        assert decision["after"]["output_tokens"] >= 2 and decision["after"]["ttft_ms"] > 0, decision["after"]
        assert decision["after"]["cached_tokens"] == 0, decision["after"]


def test_messages_of_many_streams_keep_their_order():
    with picker(workers=1) as running:
        bodies, wrong = [chat(f"{i} " + "z" * 4000) for i in range(300)], []

        def drive(some):
            for i, body in some:
                exchange = running.exchange()
                _, back = ask(exchange, body, f"order-{i}", pieces=12)
                wrong.extend([i] if back != body else [])
                exchange.reset()

        threads = [threading.Thread(target=drive, args=(list(enumerate(bodies))[first::8],)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts = running.metrics()
        assert not wrong and counts['kvist_epp_requests_total{event="picked"}'] == len(bodies), (wrong, counts)
        assert counts['kvist_epp_requests_total{event="malformed"}'] == 0, counts


def test_the_guide_has_each_metric():
    with picker(workers=1) as running:
        page = {name.split("{")[0] for name in running.metrics() if name.startswith("kvist_epp_")}
        guide = (pathlib.Path(__file__).parents[2] / "docs/guide/metrics.md").read_text()
        assert page == set(re.findall(r"(?m)^\| `(kvist_epp_\w+)` \|", guide)), page
        promtool_accepts("the endpoint picker", request(running.process.admin + "/metrics")[2])


def test_a_buffered_body_and_an_answer_in_one_piece():
    with picker() as running:
        modes = {"request_mode": ext_proc.BUFFERED, "response_mode": ext_proc.STREAMED}
        endpoints, _, status, text = serve(running, chat("hello", stream=False), "whole", modes)
        assert status == 200 and json.loads(text)["usage"]["completion_tokens"] > 0
        [decision] = running.ended("whole")
        assert decision["chosen_name"] == running.endpoints[endpoints[0]].name and decision["after"]["state"] == "completed"


def test_a_conversation_stays_where_its_prefix_is_cached():
    with picker() as running:
        messages, places = [], []
        for turn in range(4):
            messages.append({"role": "user", "content": f"turn {turn} " + "word " * 300})
            body = json.dumps({"model": "test-model", "messages": messages, "max_tokens": 20}).encode()
            endpoints, _, status, text = serve(running, body, f"turn-{turn}")
            places.append(endpoints[0])
            assert status == 200
            messages.append({"role": "assistant", "content": json.loads(text)["choices"][0]["message"]["content"]})
            [decision] = running.ended(f"turn-{turn}")
            if turn:
                chosen = next(c for c in decision["candidates"] if c["worker"] == decision["chosen"])
                assert chosen["cached_tokens"] > 1000 * turn, chosen
                assert decision["after"]["cached_tokens"] == chosen["cached_tokens"], decision["after"]
        assert len(set(places)) == 1, places


def test_only_endpoints_of_the_subset_are_picked():
    with picker(mode="round_robin") as running:
        for i, endpoint in enumerate(sorted(running.endpoints)):
            for again in range(3):
                endpoints, _ = ask(running.exchange(), chat("x"), f"subset-{i}-{again}", subset=[endpoint, "10.9.9.9:80"])
                assert endpoints == [endpoint], endpoints
        for subset in ([], ["10.9.9.9:80"]):
            exchange = running.exchange()
            exchange.send_request(chat("x"), subset=subset)
            status, fields, body = immediate(exchange)
            assert status == 503 and fields["content-type"] == "application/json" and json.loads(body)["error"]["message"], (status, fields, body)


def test_the_proxy_that_had_to_fall_back_says_so():
    with picker() as running:
        exchange = running.exchange()
        body = chat("fall back")
        endpoints, _ = ask(exchange, body, "moved")
        status, _ = relay(exchange, endpoints[1], body, served=endpoints[1])
        assert status == 200
        second, first = running.ended("moved")
        assert first["chosen_name"] == running.endpoints[endpoints[0]].name and first["after"]["state"] == "failed", first["after"]
        assert second["chosen_name"] == running.endpoints[endpoints[1]].name and second["after"]["state"] == "completed", second["after"]
        assert second["after"]["output_tokens"] >= 2
        assert running.metrics()['kvist_epp_requests_total{event="moved"}'] == 1


def test_a_client_that_leaves_is_no_load_any_more():
    with picker(time_scale=1.0) as running:
        for name, how in (("reset", "reset"), ("closed", "half_close")):
            exchange = running.exchange()
            body = chat("leaves early", max_tokens=2000)
            endpoints, _ = ask(exchange, body, name)
            relay(exchange, endpoints[0], body, stop_after=2)
            getattr(exchange, how)()
            [decision] = running.ended(name)
            assert decision["after"]["failure"] == "client_gone", decision["after"]
        eventually(lambda: running.metrics()["kvist_epp_streams"] == 0, "no stream is open")
        assert running.metrics()['kvist_epp_requests_total{event="unended"}'] == 2
        status = get_json(running.process.admin + "/admin/status")
        assert all(w["in_flight"] == 0 for w in status["workers"]), status["workers"]


def test_an_answer_that_the_proxy_made_up_counts_against_the_worker():
    with picker() as running:
        exchange = running.exchange()
        ask(exchange, chat("unreachable"), "made-up")
        attributes = ext_proc.TYPES["ProcessingRequest"]()
        attributes.attributes["envoy.filters.http.ext_proc"]["response.code_details"] = "upstream_reset_before_response_started{connection_failure}"
        exchange.send(response_headers=ext_proc.headers({":status": "503"}, True), attributes=dict(attributes.attributes))
        status, _, body = immediate(exchange)
        assert status == 503 and "error" in json.loads(body), (status, body)
        [decision] = running.ended("made-up")
        assert decision["after"]["state"] == "failed" and "connection_failure" in decision["after"]["failure"], decision["after"]


def test_what_the_gateway_refuses_is_answered_by_the_picker():
    with picker(more="  max_in_flight: 1\n  max_body: 100 kB\n") as running:
        first = running.exchange()
        ask(first, chat("takes the only place"), "first")
        exchange = running.exchange()
        exchange.send_request(chat("no room"))
        status, fields, body = immediate(exchange)
        assert status == 503 and int(fields["retry-after"]) >= 1 and json.loads(body)["error"]["message"], (status, fields, body)
        first.reset()
        eventually(lambda: get_json(running.process.admin + "/admin/status")["in_flight"] == 0, "there is room again")
        exchange = running.exchange()
        exchange.send_request(chat("y" * 200_000))
        assert immediate(exchange)[0] == 413
        exchange = running.exchange()
        exchange.send_request(b"", path="/admin/status", method="GET")
        assert immediate(exchange)[0] == 404
        exchange = running.exchange()
        exchange.send_request(b"", path="/v1/models", method="GET")
        status, _, body = immediate(exchange)
        assert status == 200 and json.loads(body)["data"][0]["id"] == "test-model", (status, body)
        # What cannot be read as a chat is the worker's to judge.
        exchange = running.exchange()
        body = b'{"model": "test-model", "messages": 7}'
        endpoints, back = ask(exchange, body, "unread")
        assert back == body and relay(exchange, endpoints[0], body)[0] == 400
        assert running.ended("unread")[0]["after"]["failure"] == "refused"


def test_streams_that_are_none_end_with_an_error_that_says_why():
    with picker(workers=1) as running:
        for request_mode, response_mode, word in ((ext_proc.STREAMED, ext_proc.STREAMED, "request_body_mode is STREAMED"),
                                                  (ext_proc.BUFFERED, ext_proc.NONE, "response_body_mode is NONE")):
            exchange = running.exchange(request_mode=request_mode, response_mode=response_mode)
            exchange.send(request_headers=ext_proc.headers({":method": "POST", ":path": "/v1/chat/completions"}))
            error = status_of(exchange)
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION and word in error.details(), error
        call = running.channel.stream_stream(ext_proc.PROCESS)
        garbage = call(iter([b"\x0b\xff\xff"]), timeout=DEADLINE_S)
        with contextlib.suppress(grpc.RpcError):
            next(garbage)
        assert garbage.code() == grpc.StatusCode.INVALID_ARGUMENT, garbage
        other = running.channel.unary_unary("/envoy.service.other.v3.Other/Do")
        try:
            other(b"", timeout=DEADLINE_S)
            raise AssertionError("no service of another name is served")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error


def status_of(exchange):
    try:
        exchange.next()
    except grpc.RpcError as error:
        return error
    raise AssertionError("the stream goes on")


def test_health_says_whether_a_worker_can_be_picked():
    with deployment(workers=1, gateway=False) as (_, started), tempfile.TemporaryDirectory() as folder:
        running = Picker(folder, started, more="  health_interval: 100 ms\n  doubt_interval: 100 ms\n").await_workers()
        try:
            for service in ("", "readiness", "liveness", "envoy.service.ext_proc.v3.ExternalProcessor"):
                assert ext_proc.check_health(running.channel, service) == 1, service
            try:
                ext_proc.check_health(running.channel, "another")
                raise AssertionError("there is no service of that name")
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.NOT_FOUND
            started[0].process.send_signal(signal.SIGKILL)
            eventually(lambda: ext_proc.check_health(running.channel) == 2, "not serving without a worker")
            assert ext_proc.check_health(running.channel, "liveness") == 1
        finally:
            running.stop()


def test_sigterm_lets_answers_end_and_takes_no_new_ones():
    with picker(workers=1, time_scale=20.0, more="  drain_timeout: 60 s\n") as running:
        exchange = running.exchange()
        body = chat("goes on while the picker drains", max_tokens=200, ignore_eos=True)
        endpoints, _ = ask(exchange, body, "drained")
        result = []
        thread = threading.Thread(target=lambda: result.append(relay(exchange, endpoints[0], body)))
        thread.start()
        running.process.process.send_signal(signal.SIGTERM)
        eventually(lambda: ext_proc.check_health(running.channel) == 2, "not serving")
        late = running.exchange()
        late.send_request(chat("too late"))
        assert immediate(late)[0] == 503
        thread.join(DEADLINE_S)
        [(status, text)] = result
        assert status == 200 and text.endswith(b"data: [DONE]\n\n")
        assert running.process.process.wait(DEADLINE_S) == 0


def test_tls_with_certificates_of_both_sides():
    with deployment(workers=1, gateway=False) as (_, started), tempfile.TemporaryDirectory() as folder:
        authority = Authority(folder, "authority")
        authority.issue("picker")
        authority.issue("proxy")
        read = lambda name: pathlib.Path(folder, name).read_bytes()
        more = (f"  tls: {{certificate: {folder}/picker.pem, key: {folder}/picker.key, client_ca: {folder}/authority.pem, "
                "client_certificates: required}\n")
        running = Picker(folder, started, more=more, credentials=grpc.ssl_channel_credentials(read("authority.pem"), read("proxy.key"), read("proxy.pem")))
        try:
            running.await_workers()
            assert serve(running, chat("over TLS"), "tls")[2] == 200
            for credentials in (grpc.ssl_channel_credentials(read("authority.pem")), None):
                target = f"localhost:{running.process.ports['grpc']}"
                with (grpc.secure_channel(target, credentials) if credentials else grpc.insecure_channel(target)) as channel:
                    try:
                        ext_proc.check_health(channel)
                        raise AssertionError("who shows no certificate is not served")
                    except grpc.RpcError as error:
                        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        finally:
            running.stop()


def test_a_worker_without_an_address_is_named_at_the_start():
    import subprocess
    from deployment import BINARY
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "epp.yaml")
        path.write_text("gateway:\n  model: m\n  workers: [{name: a, url: \"http://worker.example:8000\"}]\n")
        done = subprocess.run([BINARY, "epp", "-f", path], capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode != 0 and "worker a" in done.stderr and "no IP address" in done.stderr, done


if __name__ == "__main__":
    run([
        test_a_stream_in_full_duplex_is_routed_watched_and_unchanged,
        test_messages_of_many_streams_keep_their_order,
        test_the_guide_has_each_metric,
        test_a_buffered_body_and_an_answer_in_one_piece,
        test_a_conversation_stays_where_its_prefix_is_cached,
        test_only_endpoints_of_the_subset_are_picked,
        test_the_proxy_that_had_to_fall_back_says_so,
        test_a_client_that_leaves_is_no_load_any_more,
        test_an_answer_that_the_proxy_made_up_counts_against_the_worker,
        test_what_the_gateway_refuses_is_answered_by_the_picker,
        test_streams_that_are_none_end_with_an_error_that_says_why,
        test_health_says_whether_a_worker_can_be_picked,
        test_sigterm_lets_answers_end_and_takes_no_new_ones,
        test_tls_with_certificates_of_both_sides,
        test_a_worker_without_an_address_is_named_at_the_start,
    ])
