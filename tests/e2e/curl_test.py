"""curl, as a user types it, against gateway and worker."""
import json
import pathlib
import subprocess

from deployment import DEADLINE_S, deployment, eventually, get_json, request, run

CHAT = {"model": "test-model", "messages": [{"role": "user", "content": "Tell me about rivers. " * 10}], "max_tokens": 40, "seed": 7}


def curl(*arguments):
    done = subprocess.run(["curl", "--silent", "--show-error", "--max-time", str(DEADLINE_S), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def post(url, body, *options):
    return curl("-X", "POST", url, "-H", "Content-Type: application/json", "-d", json.dumps(body), *options)


def events_of(stream):
    """The data of each server-sent event."""
    return [block[len("data: "):] for block in stream.split("\n\n") if block.startswith("data: ")]


def text_of(stream):
    events = events_of(stream)
    assert events[-1] == "[DONE]", events[-1]
    chunks = [json.loads(event) for event in events[:-1]]
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"]), chunks


def answers_are_the_same_through_gateway_and_worker_streamed_and_whole():
    with deployment() as (gateway, workers):
        texts = set()
        for server in (gateway, workers[0], workers[1]):
            whole = json.loads(post(server.url + "/v1/chat/completions", CHAT))
            texts.add(whole["choices"][0]["message"]["content"])
            assert whole["usage"]["completion_tokens"] == 40, whole["usage"]
            assert whole["choices"][0]["finish_reason"] == "length"
            streamed, chunks = text_of(post(server.url + "/v1/chat/completions", {**CHAT, "stream": True}, "-N"))
            texts.add(streamed)
            assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
            assert not any(c.get("usage") for c in chunks), "usage was not asked for"
        assert len(texts) == 1, "an answer depends on its request alone"
        assert len(texts.pop()) == 40


def usage_comes_when_asked_for_and_tells_the_cache_hits():
    with deployment(workers=1) as (gateway, workers):
        body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
        cached = []
        for _ in range(2):
            _, chunks = text_of(post(gateway.url + "/v1/chat/completions", body, "-N"))
            assert chunks[-1]["choices"] == []
            cached.append(chunks[-1]["usage"]["prompt_tokens_details"]["cached_tokens"])
        prompt = chunks[-1]["usage"]["prompt_tokens"]
        assert cached[0] == 0 and cached[1] == (prompt - 1) // 32 * 32, (cached, prompt)


def completions_take_text_and_tokens():
    with deployment(workers=1) as (gateway, workers):
        text = "The river runs to the sea and does not come back."
        by_text = json.loads(post(gateway.url + "/v1/completions", {"model": "test-model", "prompt": text, "max_tokens": 8, "seed": 1}))
        tokens = json.loads(post(workers[0].url + "/tokenize", {"prompt": text}))["tokens"]
        by_tokens = json.loads(post(gateway.url + "/v1/completions", {"model": "test-model", "prompt": tokens, "max_tokens": 8, "seed": 1}))
        assert by_text["choices"][0]["text"] == by_tokens["choices"][0]["text"] != ""
        assert by_text["usage"]["prompt_tokens"] == len(tokens) == len(text)


def headers_say_who_answered():
    with deployment(mode="round_robin") as (gateway, workers):
        seen = []
        for _ in range(4):
            head = post(gateway.url + "/v1/chat/completions", {**CHAT, "max_tokens": 2}, "-D", "-", "-o", "/dev/null", "-H", "X-Request-Id: abc-1")
            fields = dict(line.lower().split(": ", 1) for line in head.splitlines() if ": " in line)
            seen.append(fields["x-kvist-worker"])
            assert fields["x-request-id"] == "abc-1"
            assert fields["x-kvist-predicted-cached-tokens"].isdigit()
        assert seen == ["worker-0", "worker-1"] * 2 or seen == ["worker-1", "worker-0"] * 2, seen


def errors_are_openai_errors():
    with deployment() as (gateway, workers):
        for server in (gateway, workers[0]):
            for body, expected in [
                ({**CHAT, "model": "other"}, 404),
                ({**CHAT, "messages": []}, 400),
                ({**CHAT, "messages": "hello"}, 400),
                ({**CHAT, "max_tokens": -1}, 400),
                ({**CHAT, "messages": [{"role": "user", "content": "x" * 20_000}]}, 400),
            ]:
                status, _, text = request(server.url + "/v1/chat/completions", body)
                assert status == expected, (server.name, status, text)
                error = json.loads(text)["error"]
                assert error["message"] and error["type"], text
            assert request(server.url + "/v1/nothing")[0] == 404
            assert request(server.url + "/v1/chat/completions")[0] == 405
            assert curl("-o", "/dev/null", "-w", "%{http_code}", "-d", "{broken", server.url + "/v1/chat/completions") == "400"


def the_mode_switches_at_run_time():
    with deployment(mode="round_robin") as (gateway, workers):
        assert get_json(gateway.admin + "/admin/router_mode") == {"mode": "round_robin"}
        assert request(gateway.admin + "/admin/router_mode", {"mode": "kv-aware"}, "PUT")[0] == 200
        assert get_json(gateway.admin + "/admin/router_mode") == {"mode": "kv"}
        status, _, text = request(gateway.admin + "/admin/router_mode", {"mode": "fastest"}, "PUT")
        assert status == 400 and "round_robin" in text, (status, text)
        # Setting the current value is not logged as a change.
        assert request(gateway.admin + "/admin/router_mode", {"mode": "kv"}, "PUT")[0] == 200
        switches = [line for line in log_of(gateway).splitlines() if "routing mode " in line and "->" in line]
        assert len(switches) == 1 and "round_robin -> kv" in switches[0], switches


def a_cache_is_spoken_of_when_its_worker_has_answered():
    with deployment(mode="round_robin") as (gateway, _):
        status = lambda: get_json(gateway.admin + "/admin/status")["workers"]
        eventually(lambda: all(worker["index_exact"] for worker in status()), "both caches are known exactly")
        assert "cache of" not in log_of(gateway), log_of(gateway)
        body = {"model": "test-model", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}
        answered, headers, text = request(gateway.url + "/v1/chat/completions", body)
        assert answered == 200, text
        # All workers are checked together, so the other one would be listed by now.
        eventually(lambda: f"cache of {headers['x-kvist-worker']}: " in log_of(gateway), "the worker's cache in the log")
        assert log_of(gateway).count("cache of") == 1, log_of(gateway)


def log_of(process):
    return pathlib.Path(process.log.name).read_text()


def small_pages_answer():
    with deployment() as (gateway, workers):
        for server in (gateway, workers[0]):
            assert request(server.url + "/health")[0] == 200
            assert get_json(server.url + "/v1/models")["data"][0]["id"] == "test-model"
        assert request(workers[0].admin + "/reset_prefix_cache", method="POST")[0] == 200


run([
    answers_are_the_same_through_gateway_and_worker_streamed_and_whole,
    usage_comes_when_asked_for_and_tells_the_cache_hits,
    completions_take_text_and_tokens,
    headers_say_who_answered,
    errors_are_openai_errors,
    the_mode_switches_at_run_time,
    a_cache_is_spoken_of_when_its_worker_has_answered,
    small_pages_answer,
])
