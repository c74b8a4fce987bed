"""Workers die, stop and restart in the middle of streamed answers, and no client notices: every answer is the one that an
undisturbed worker gives, to the byte."""
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import signal
import tempfile
import threading

from black_hole_test import config_of, metric, status
from deployment import WORKER, Process, create_model, eventually, run

PORTS = "  http: {{host: 127.0.0.1, port: {http}}}\n  kv_events_port: {kv_events}\n  kv_replay_port: {kv_replay}\n"
CPU = """worker:
  name: {name}
  model: test-model
  tokenizer: {model}
  block_size: 32
  max_batch_size: 32
  max_num_tokens: 256
  cpu: {{model: {model}, threads: 1, memory: 512 MiB}}
"""


class Stream:
    """A streamed request, read by a thread of its own."""

    def __init__(self, pool, server, path, body, name):
        self.events, self.broken, self.lock = [], False, threading.Lock()
        self.path, self.body, self.name = path, {"model": "test-model", "stream": True, **body}, name
        self.done = pool.submit(self.read, server)

    def read(self, server):
        connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=200)
        headers = {"Content-Type": "application/json", "X-Request-Id": self.name}
        connection.request("POST", self.path, json.dumps(self.body), headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        self.worker, self.promise = answer.headers["x-kvist-worker"], answer.headers["x-kvist-resumable"]
        try:
            for line in answer:
                if line != b"\n":
                    with self.lock:
                        self.events.append(line.decode().strip())
        except (http.client.IncompleteRead, ConnectionError):
            self.broken = True
        connection.close()
        return self

    def begun(self):
        with self.lock:
            return len(self.events) >= 4


def told(stream):
    """What a client makes of the stream, which has to be one whole answer: text, log probabilities, end, usage."""
    assert not stream.broken and stream.events[-1] == "data: [DONE]", stream.events[-3:]
    assert stream.promise is None and not any(event.startswith(":") for event in stream.events), "notes are for the gateway"
    chunks = [json.loads(event.removeprefix("data: ")) for event in stream.events[:-1]]
    for field in ("id", "created", "model", "object"):
        assert len({chunk[field] for chunk in chunks}) == 1, (field, stream.name)
    roles = [i for i, chunk in enumerate(chunks) if chunk["choices"] and "role" in chunk["choices"][0].get("delta", {})]
    assert roles == ([0] if "chat" in stream.path else []), roles
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    text = "".join(choice["text"] if "text" in choice else choice["delta"].get("content", "") for choice in choices)
    logprobs = [list(choice["logprobs"].items()) for choice in choices if choice["logprobs"]]
    ends = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    usage = [(chunk["usage"]["prompt_tokens"], chunk["usage"]["completion_tokens"]) for chunk in chunks if chunk.get("usage")]
    assert len(ends) == 1 and len(usage) == ("stream_options" in stream.body), (ends, usage)
    merged = {}  # the lists of all chunks one after another, as how many tokens a chunk has is the engine's choice
    for name, values in (item for items in logprobs for item in items):
        merged.setdefault(name, []).extend(values or [])
    return text, merged, ends, usage


@contextlib.contextmanager
def fleet(configs, **settings):
    """(folder, gateway, workers): workers with these configurations, by name, and a gateway before them."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        workers = {}
        stack.callback(lambda: [worker.stop() for worker in workers.values()])
        for name, config in configs.items():
            workers[name] = Process(folder, "worker", name, config)
        gateway = Process(folder, "gateway", "gateway", config_of(workers.values(), connect_timeout="60 s", **{"mode": "round_robin", **settings}))
        stack.callback(gateway.stop)
        eventually(lambda: all(w["healthy"] for w in status(gateway).values()), "workers healthy")
        yield folder, gateway, workers


def timed(name, time_scale):
    """Who is to be stopped is slow, so that its answers last longer than any machine takes to stop it."""
    return WORKER.format(name=name, kv_blocks=4000, slots=128, time_scale=time_scale)


def kill(worker):
    worker.process.send_signal(signal.SIGKILL)
    worker.process.wait()


def chat(i, **fields):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": f"hello {i} " * 20}], **fields}


def completion(i, **fields):
    return "/v1/completions", {"prompt": f"once {i} " * 20, **fields}


def check_equal(streams, undisturbed):
    """Each stream is the answer of a worker that nothing happened to."""
    pool, worker = undisturbed
    expected = [Stream(pool, worker, stream.path, stream.body, stream.name) for stream in streams]
    for stream, other in zip(streams, expected):
        assert told(stream) == told(other.done.result()), stream.name


def timed_workers_are_killed_under_many_streams():
    usage = {"stream_options": {"include_usage": True}}
    kinds = [lambda i: chat(i, max_tokens=600, ignore_eos=True, temperature=0, **usage),
             lambda i: chat(i, max_tokens=600, min_tokens=590, seed=i),
             lambda i: completion(i, max_tokens=600, ignore_eos=True, seed=i, **usage),
             lambda i: completion(i, max_tokens=600, ignore_eos=True, stop=["e a b c", "qq q"], logprobs=1)]
    configs = {"worker-0": timed("worker-0", 0.2), "worker-1": timed("worker-1", 100.0), "worker-2": timed("worker-2", 100.0)}
    with fleet(configs) as (_, gateway, workers), concurrent.futures.ThreadPoolExecutor(100) as pool:
        streams = [Stream(pool, gateway, *kinds[i % 4](i), f"r-{i}") for i in range(90)]
        eventually(lambda: sum(stream.begun() for stream in streams) == 90, "all stream")
        kill(workers["worker-0"])
        for stream in streams:
            stream.done.result()
        moved = metric(gateway, "kvist_gateway_migrations_total")
        assert 10 <= moved <= 30, moved
        assert metric(gateway, "kvist_gateway_requests_total", outcome="completed") == 90
        assert metric(gateway, "kvist_gateway_migrations_refused_total") == 0
        assert metric(gateway, "kvist_gateway_retries_over_budget_total") == 0
        assert metric(gateway, "kvist_gateway_migrated_tokens_total") >= moved
        check_equal(streams, (pool, workers["worker-1"]))


def cpu_workers_are_killed_under_many_streams():
    sampled = {"temperature": 0.9, "top_p": 0.95}
    kinds = [lambda i, n: chat(i, max_tokens=n, ignore_eos=True, temperature=0),
             lambda i, n: completion(i, max_tokens=n, ignore_eos=True, temperature=0, stop=["zzz", "qqx"]),
             lambda i, n: completion(i, max_tokens=n, ignore_eos=True, seed=i, frequency_penalty=0.5, min_tokens=n - 5, **sampled),
             lambda i, n: chat(i, max_tokens=n, ignore_eos=True, logprobs=True, top_logprobs=2, **sampled)]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(32) as pool:
        model = create_model(pathlib.Path(folder) / "model")
        # Twice as long each time, should this machine be so slow to kill that nothing is left to move.
        for tokens in (400, 800, 1600):
            configs = {f"worker-{i}": CPU.format(name=f"worker-{i}", model=model) for i in range(2)}
            with fleet(configs, tokenizer=model, mode="kv") as (_, gateway, workers):
                streams = [Stream(pool, gateway, *kinds[i % 4](i, tokens), f"r-{i}") for i in range(16)]
                eventually(lambda: sum(stream.begun() for stream in streams) == 16, "all stream")
                kill(workers["worker-0"])
                for stream in streams:
                    stream.done.result()
                assert metric(gateway, "kvist_gateway_requests_total", outcome="completed") == 16
                assert metric(gateway, "kvist_gateway_migrations_refused_total") == 0
                check_equal(streams, (pool, workers["worker-1"]))
                if metric(gateway, "kvist_gateway_migrations_total") >= 1:
                    return
        raise AssertionError("nothing was left to move")


def answers_leave_a_stopped_worker():
    configs = {"slow": timed("slow", 0.2), "fast": timed("fast", 1000.0)}
    with fleet(configs, stream_idle_timeout="5 s") as (_, gateway, workers), concurrent.futures.ThreadPoolExecutor(20) as pool:
        streams = [Stream(pool, gateway, *chat(i, max_tokens=1000, ignore_eos=True, seed=i), f"r-{i}") for i in range(10)]
        eventually(lambda: sum(stream.begun() for stream in streams) == 10, "all stream")
        workers["slow"].process.send_signal(signal.SIGSTOP)
        try:
            for stream in streams:
                stream.done.result()
        finally:
            workers["slow"].process.send_signal(signal.SIGCONT)
        assert {stream.worker for stream in streams} == {"slow", "fast"}, "the head names the first worker"
        assert metric(gateway, "kvist_gateway_migrations_total") >= 5
        assert metric(gateway, "kvist_gateway_requests_total", outcome="completed") == 10
        check_equal(streams, (pool, workers["fast"]))


def one_answer_outlives_a_restart_and_a_kill():
    """A worker that shuts down in order, then the other one killed: back at the first, which is a new process."""
    configs = {name: timed(name, 0.2).replace("drain_timeout: 1 s", "drain_timeout: 0 s") for name in ("worker-0", "worker-1")}
    with fleet(configs) as (folder, gateway, workers), concurrent.futures.ThreadPoolExecutor(2) as pool:
        stream = Stream(pool, gateway, *chat(1, max_tokens=5000, ignore_eos=True), "the-one")
        eventually(stream.begun, "it streams")
        first, other = ("worker-0", "worker-1") if status(gateway)["worker-0"]["in_flight"] else ("worker-1", "worker-0")
        ports = workers[first].ports
        workers[first].stop()
        eventually(lambda: metric(gateway, "kvist_gateway_migrations_total") == 1, "it moved")

        def restart():
            workers[first] = Process(folder, "worker", first, timed(first, 1000.0) + PORTS.format(**ports))
            return True

        eventually(restart, "started again on its ports")
        eventually(lambda: status(gateway)[first]["state"] == "healthy", "taken back")
        kill(workers[other])
        stream.done.result()
        assert stream.worker == first
        assert metric(gateway, "kvist_gateway_migrations_total") == 2
        assert metric(gateway, "kvist_gateway_requests_total", outcome="completed") == 1
        check_equal([stream], (pool, workers[first]))


def what_cannot_go_on_ends_as_before_and_says_why():
    def broken(gateway, workers, pool, reason, **fields):
        stream = Stream(pool, gateway, *chat(0, max_tokens=2000, ignore_eos=True, **fields), reason)
        eventually(stream.begun, "it streams")
        other = "worker-1" if stream.worker == "worker-0" else "worker-0"
        for name in ([other] if reason == "no_worker" else []) + [stream.worker]:
            kill(workers[name])
        stream.done.result()
        assert '"error"' in stream.events[-1] and "data: [DONE]" not in stream.events, stream.events[-3:]
        assert metric(gateway, "kvist_gateway_migrations_refused_total", reason=reason) == 1
        assert metric(gateway, "kvist_gateway_migrations_refused_total") == 1
        assert metric(gateway, "kvist_gateway_requests_total", outcome="broken_stream") == 1

    cases = [("several_choices", {"n": 2}, {}), ("too_long", {}, {"migration": "{max_tokens: 2}"}),
             ("off", {}, {"migration": "{enabled: false}"}), ("no_worker", {}, {})]
    for reason, fields, settings in cases:
        configs = {"worker-0": timed("worker-0", 0.2), "worker-1": timed("worker-1", 0.2)}
        with fleet(configs, **settings) as (_, gateway, workers), concurrent.futures.ThreadPoolExecutor(1) as pool:
            broken(gateway, workers, pool, reason, **fields)


def whole_answers_are_begun_anew():
    """Nothing of them was sent, so that an ordinary retry is right."""
    configs = {"slow": timed("slow", 0.2), "fast": timed("fast", 1000.0)}
    with fleet(configs) as (_, gateway, workers), concurrent.futures.ThreadPoolExecutor(10) as pool:
        def ask(i):
            connection = http.client.HTTPConnection("127.0.0.1", gateway.ports["http"], timeout=200)
            path, body = chat(i, max_tokens=1000, ignore_eos=True)
            connection.request("POST", path, json.dumps({"model": "test-model", **body}), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        answers = [pool.submit(ask, i) for i in range(10)]
        eventually(lambda: status(gateway)["slow"]["in_flight"] == 5 and status(gateway)["fast"]["in_flight"] == 0, "five wait")
        kill(workers["slow"])
        for answer in answers:
            code, whole = answer.result()
            assert code == 200 and whole["usage"]["completion_tokens"] == 1000, whole
        assert metric(gateway, "kvist_gateway_migrations_total") == 0
        assert metric(gateway, "kvist_gateway_free_retries_total") == 5


if __name__ == "__main__":
    run([timed_workers_are_killed_under_many_streams, cpu_workers_are_killed_under_many_streams, answers_leave_a_stopped_worker,
         one_answer_outlives_a_restart_and_a_kill, what_cannot_go_on_ends_as_before_and_says_why, whole_answers_are_begun_anew])
