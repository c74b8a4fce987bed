"""Streams that are kept alive while their answer is being prepared: `stream_keepalive`."""
import contextlib
import http.client
import json
import tempfile
import threading

from black_hole_test import before, metric
from deployment import DEADLINE_S, eventually, run
from fake_worker import FakeWorker

CHUNK = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "test-model"}
EVENTS = "".join(f"data: {json.dumps({**CHUNK, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': reason}]})}\n\n"
                 for delta, reason in (({"role": "assistant", "content": ""}, None), ({"content": "hi"}, None), ({}, "stop"))) + "data: [DONE]\n\n"
GOOD = (200, "text/event-stream", EVENTS)
COMMENT = b": keep-alive\n\n"
KEPT = {"stream_keepalive": "100 ms", "silence_timeout": "100 s", "admission": "{enabled: false}", "connect_timeout": "60 s"}


class Held:
    """An answer that a worker gives when the test says so."""

    def __init__(self, answer):
        self.answer, self.may_answer = answer, threading.Event()

    def __call__(self, handler):
        assert self.may_answer.wait(DEADLINE_S)
        if self.answer is None:
            handler.close_connection = True
            return handler.connection.close()
        handler.send(*self.answer)


@contextlib.contextmanager
def stream(gateway, path="/v1/chat/completions", **fields):
    """An answer whose head and first comment have come, which is the proof that no worker has answered yet."""
    body = {"model": "test-model", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5, "stream": True, **fields}
    connection = http.client.HTTPConnection("127.0.0.1", gateway.ports["http"], timeout=DEADLINE_S)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "X-Request-Id": "mine"})
    answer = connection.getresponse()
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream"), (answer.status, answer.headers.items())
    assert answer.headers["X-Request-Id"] == "mine" and "x-kvist-worker" not in answer.headers
    assert answer.read(len(COMMENT)) == COMMENT
    yield answer
    connection.close()


@contextlib.contextmanager
def kept(*answers):
    """(gateway, workers), each of which gives its answer when it is told to."""
    with contextlib.ExitStack() as stack:
        workers = [FakeWorker(f"worker-{i}", Held(answer)) for i, answer in enumerate(answers)]
        for worker in workers:
            stack.callback(worker.close)
        yield stack.enter_context(before(workers, **KEPT)), workers


def rest_of(answer):
    return answer.read().replace(COMMENT, b"").decode()


def comments_come_until_the_answer_does():
    with kept(GOOD) as (gateway, (worker,)):
        with stream(gateway) as answer:
            assert answer.read(len(COMMENT)) == COMMENT, "and again"
            worker.answer.may_answer.set()
            assert rest_of(answer) == EVENTS
        assert metric(gateway, "kvist_gateway_stream_keepalives_total") >= 2
        assert metric(gateway, "kvist_gateway_late_errors_total") == 0


def another_worker_may_still_take_over():
    with kept(None, GOOD) as (gateway, workers):
        workers[1].answer.may_answer.set()
        # Whichever is asked first, one of two is asked in vain.
        for _ in range(2):
            workers[0].answer.may_answer.clear()
            status = {w.name: w.posts for w in workers}
            connection = None
            with contextlib.suppress(AssertionError):
                with stream(gateway) as answer:
                    connection = answer
                    workers[0].answer.may_answer.set()
                    assert rest_of(answer) == EVENTS
                    break
            del status, connection
        else:
            raise AssertionError("no stream was sent to the worker that fails")
        assert metric(gateway, "kvist_gateway_late_errors_total") == 0


def what_goes_wrong_later_is_told_in_an_event():
    refusal = {"error": {"message": "too long", "type": "BadRequestError", "param": None, "code": 400}}
    for answer, message, code in (((400, "application/json", json.dumps(refusal, indent=1)), "too long", 400), (None, "worker-0", 503)):
        with kept(answer) as (gateway, (worker,)):
            for path in ("/v1/chat/completions", "/v1/messages"):
                worker.answer.may_answer.clear()
                with stream(gateway, path) as begun:
                    worker.answer.may_answer.set()
                    text = rest_of(begun)
                data = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
                assert len(data) == 1 and "[DONE]" not in text, text
                if path == "/v1/messages":
                    assert text.startswith("event: error\n") and data[0]["type"] == "error", text
                elif code == 400:
                    assert data[0] == refusal, text
                else:
                    assert data[0]["error"]["code"] >= 500, text
                eventually(lambda: worker.posts > 0, "asked")
            assert metric(gateway, "kvist_gateway_late_errors_total") == 2


def none_come_unless_they_are_asked_for():
    worker = FakeWorker("worker-0", Held(GOOD))
    settings = {key: value for key, value in KEPT.items() if key != "stream_keepalive"}
    with contextlib.closing(worker), before([worker], **settings) as gateway:
        threading.Timer(0.5, worker.answer.may_answer.set).start()
        connection = http.client.HTTPConnection("127.0.0.1", gateway.ports["http"], timeout=DEADLINE_S)
        body = {"model": "test-model", "messages": [{"role": "user", "content": "hello"}], "stream": True}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.headers["x-kvist-worker"] == "worker-0" and answer.read().decode() == EVENTS
        connection.close()


if __name__ == "__main__":
    run([comments_come_until_the_answer_does, another_worker_may_still_take_over, what_goes_wrong_later_is_told_in_an_event,
         none_come_unless_they_are_asked_for])
