"""A worker dies: requests that had not begun to be answered are retried elsewhere, begun answers end with an error, the fleet keeps
serving."""
import json
import signal
import urllib.request

from deployment import DEADLINE_S, deployment, eventually, get_json, request, run

CHAT = {"model": "test-model", "messages": [{"role": "user", "content": "hello there " * 50}], "max_tokens": 20}


def requests_go_to_the_living():
    with deployment(workers=2, mode="round_robin") as (gateway, workers):
        workers[0].process.send_signal(signal.SIGKILL)
        workers[0].process.wait()
        for _ in range(10):
            status, headers, text = request(gateway.url + "/v1/chat/completions", CHAT)
            assert status == 200, text
            assert headers["x-kvist-worker"] == "worker-1"
        eventually(lambda: [w["healthy"] for w in get_json(gateway.admin + "/admin/status")["workers"]] == [False, True], "seen as dead")


def a_stream_that_breaks_ends_with_an_error():
    with deployment(workers=1, time_scale=1) as (gateway, workers):
        body = {**CHAT, "max_tokens": 4000, "ignore_eos": True, "stream": True}
        call = urllib.request.Request(gateway.url + "/v1/chat/completions", data=json.dumps(body).encode(),
                                      headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(call, timeout=DEADLINE_S) as answer:
            seen = b""
            while seen.count(b'"content"') < 3:
                seen += answer.readline()
            workers[0].process.send_signal(signal.SIGKILL)
            try:
                rest = answer.read()
            except Exception as error:  # the connection is broken off after the error frame
                rest = getattr(error, "partial", b"")
        assert b'"error"' in rest and b"[DONE]" not in rest, rest[-500:]


def without_workers_the_answer_is_503_with_retry_after():
    with deployment(workers=1) as (gateway, workers):
        workers[0].process.send_signal(signal.SIGKILL)
        workers[0].process.wait()
        status, headers, text = request(gateway.url + "/v1/chat/completions", CHAT)
        assert status == 503 and headers["Retry-After"], (status, text)
        assert json.loads(text)["error"]["message"]


run([requests_go_to_the_living, a_stream_that_breaks_ends_with_an_error, without_workers_the_answer_is_503_with_retry_after])
