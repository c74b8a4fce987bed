#!/usr/bin/env python3
"""A real Envoy before kvist epp: the same decisions as the gateway's for the same requests, long streams, and what happens when a client,
a worker or the picker dies. KVIST_PICKER_REQUESTS: requests in all that are compared."""
import contextlib
import http.client
import json
import multiprocessing
import os
import signal
import subprocess
import tempfile
import threading
import time

import peer
import deployment
import envoy_picker
import fronts
from timed_fleet import BLOCK_SIZE, MODEL, timed_fleet

PEERS = ["envoy"]
REQUESTS = int(os.environ.get("KVIST_PICKER_REQUESTS", "10000"))
# By rules that leave nothing to measured times; kv, which learns from those, is compared besides.
MODES = ["round_robin", "random", "vllm_kv_aware", "session"]
WORKERS, CONVERSATIONS = 3, 40
STREAMS, STREAM_SECONDS = 8, 60

report = peer.Report("endpoint_picker", "Envoy that asks kvist epp", 55, PEERS)
report.require("envoy")


class Gateway(fronts.Kvist):
    """Ready without a chat of its own, so that both fronts number their requests alike."""

    def is_ready(self):
        return all(worker["healthy"] for worker in deployment.get_json(f"http://127.0.0.1:{self.admin_port}/admin/status")["workers"])

    def command(self):
        self.admin_port = peer.free_port()
        command = super().command()
        command[-1].write_text(command[-1].read_text().replace("admin: {port: 0}", f"admin: {{port: {self.admin_port}}}"))
        return command


class Envoy(envoy_picker.EnvoyWithPicker):
    def is_ready(self):
        return deployment.request(f"http://127.0.0.1:{self.admin_port}/ready", timeout=5)[0] == 200 and self.sees_picker()


@contextlib.contextmanager
def running(front):
    front.start()
    try:
        yield front
    finally:
        front.stop()


@contextlib.contextmanager
def picker_and_envoy(folder, workers, mode, settings="", **envoy):
    with running(envoy_picker.Picker(folder, workers, MODEL, BLOCK_SIZE, mode, settings)) as picker:
        with running(Envoy(folder, workers, MODEL, BLOCK_SIZE, picker.port, **envoy)) as front:
            yield picker, front


def body_of(number):
    """Conversations in turns: a turn repeats what its conversation said before, and 40 others speak in between."""
    conversation, turn = number % CONVERSATIONS, number // CONVERSATIONS
    text = "".join(f"conversation {conversation} turn {i}; " for i in range(turn % 12 + 1))
    return json.dumps({"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 2, "ignore_eos": True,
                       "stream": number % 2 == 0, "user": f"user-{conversation}"}).encode()


def decisions_of(url, requests, admin):
    """One request after the other; what went where, by the decision log, and how many answers were no 200."""
    host = url.removeprefix("http://")
    connection, chosen, bad = http.client.HTTPConnection(host, timeout=60), {}, 0
    for number in range(requests):
        connection.request("POST", "/v1/chat/completions", body_of(number), {"Content-Type": "application/json", "X-Request-Id": f"r-{number}"})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            bad += 1
            print(f"request {number} at {url}: {answer.status} {said[:200]}", flush=True)
        if number % 250 == 249 or number == requests - 1:
            log = deployment.get_json(f"http://127.0.0.1:{admin}/admin/decisions?limit=512")
            chosen.update({d["request"]: (d["chosen_name"], d["prompt_tokens"], len(d["candidates"])) for d in log["decisions"]})
    return chosen, bad


def explained(admin, folder):
    """The last line of `kvist explain` on the newest decisions: each is made again from what it saw."""
    path = folder / "decisions.json"
    path.write_text(deployment.request(f"http://127.0.0.1:{admin}/admin/decisions?limit=512")[2])
    done = subprocess.run([deployment.BINARY, "explain", path], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip().splitlines()[-1] if done.stdout else done.stderr


def by_a_gateway(mode, requests):
    with timed_fleet(WORKERS, time_scale=1000) as (folder, workers):
        with running(Gateway("kvist", folder, workers, MODEL, BLOCK_SIZE, mode)) as gateway:
            return decisions_of(gateway.url, requests, gateway.admin_port)


def count_same(some, others, requests):
    return sum(some.get(f"r-{i}") == others.get(f"r-{i}") is not None for i in range(requests))


def compare(mode, requests):
    by_gateway, bad_gateway = by_a_gateway(mode, requests)
    with timed_fleet(WORKERS, time_scale=1000) as (folder, workers):
        with picker_and_envoy(folder, workers, mode) as (picker, envoy):
            by_picker, bad_picker = decisions_of(envoy.url, requests, picker.admin_port)
            again = explained(picker.admin_port, folder)
    return count_same(by_gateway, by_picker, requests), bad_gateway + bad_picker, again, by_gateway


def decisions_are_the_gateways():
    """The same decisions as the gateway's for the same requests"""
    each = REQUESTS // len(MODES)
    for mode in MODES:
        same, bad, again, _ = compare(mode, each)
        report.check(f"mode {mode}: {each} requests, one after the other: the same decisions as the gateway's", same == each and bad == 0,
                     f"{same} of {each} the same (worker, prompt tokens, candidates), {bad} answers that are not 200")
        report.check(f"mode {mode}: `kvist explain` repeats the picker's last decisions", again[0] == 0, again[1])
    each = min(1000, REQUESTS)
    same, bad, again, by_gateway = compare("kv", each)
    noise = count_same(by_gateway, by_a_gateway("kv", each)[0], each)
    report.check(f"mode kv: {each} requests; kv learns from measured times, so equal costs may be decided otherwise", bad == 0 and again[0] == 0,
                 f"{same} of {each} the same as the gateway's, {noise} of a second run of the gateway; {bad} answers that are not 200; explain: {again[1]}")


def stream(url, tokens, results, headers=None):
    """One stream: (status, events with content, whole)."""
    try:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=200)
        connection.request("POST", "/v1/chat/completions", json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x" * 200}],
                           "max_tokens": tokens, "ignore_eos": True, "stream": True}), {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
        results.append((answer.status, text.count(b'"delta":{"content"'), text.endswith(b"data: [DONE]\n\n")))
    except (OSError, http.client.HTTPException) as error:
        results.append((type(error).__name__, 0, False))


def answered(url):
    results = []
    stream(url, 1, results)
    return results[0][0] == 200


def in_flight(picker):
    return deployment.get_json(picker.url + "/admin/status")["in_flight"]


def long_streams_are_whole():
    """Streams of a minute"""
    with timed_fleet(WORKERS, time_scale=1, max_model_len=16384) as (folder, workers):
        with picker_and_envoy(folder, workers, "kv") as (picker, envoy):
            results, begun = [], time.monotonic()
            tokens = int(STREAM_SECONDS / 0.0213)
            threads = [threading.Thread(target=stream, args=(envoy.url, tokens, results)) for _ in range(STREAMS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            took = time.monotonic() - begun
            whole = sum(status == 200 and end and count >= 0.99 * tokens for status, count, end in results)
            report.check(f"{STREAMS} streams of {tokens} tokens at once", whole == STREAMS, f"{whole} whole within {took:.0f} s")
            log = deployment.get_json(picker.url + "/admin/decisions?limit=512")["decisions"]
            report.check("each is complete in the decision log, with its first token and all others",
                         all(d["after"]["state"] == "completed" and d["after"]["output_tokens"] >= 0.99 * tokens for d in log) and len(log) == STREAMS,
                         f"{sum(d['after']['output_tokens'] for d in log)} tokens of {len(log)} requests")


def a_killed_client_is_no_load():
    """A client that is killed"""
    with timed_fleet(WORKERS, time_scale=1) as (folder, workers):
        with picker_and_envoy(folder, workers, "kv") as (picker, envoy):
            clients = [multiprocessing.Process(target=stream, args=(envoy.url, 5000, []), daemon=True) for _ in range(6)]
            for client in clients:
                client.start()
            deployment.eventually(lambda: in_flight(picker) == 6, "all are under way")
            time.sleep(1)
            for client in clients:
                os.kill(client.pid, signal.SIGKILL)
            begun = time.monotonic()
            deployment.eventually(lambda: in_flight(picker) == 0, "none is under way", 20)
            freed = time.monotonic() - begun
            deployment.eventually(lambda: sum(deployment.metrics(w)["vllm:num_requests_running"] for w in workers) == 0, "the workers have stopped", 20)
            log = deployment.get_json(picker.url + "/admin/decisions?limit=512")["decisions"]
            report.check("6 clients killed within their streams: no load at picker and workers any more",
                         [d["after"].get("failure") for d in log] == ["client_gone"] * 6, f"after {freed:.1f} s: {', '.join(str(d['after'].get('failure')) for d in log)}")


class Silent:
    """A worker without KV events, whose end would tell of it before the first request does."""

    def __init__(self, worker):
        self.name, self.url, self.ports = worker.name, worker.url, {}


def a_killed_worker_is_replaced():
    """A worker that is killed"""
    with timed_fleet(WORKERS, time_scale=100) as (folder, workers):
        # Between two looks at the workers' health, which are far apart, only a failure tells of the dead one.
        with picker_and_envoy(folder, [Silent(w) for w in workers], "round_robin", settings="  health_interval: 1 h\n") as (picker, envoy):
            results = []
            for _ in range(30):
                stream(envoy.url, 5, results)
            workers[0].process.send_signal(signal.SIGKILL)
            workers[0].process.wait()
            for _ in range(300):
                stream(envoy.url, 5, results)
            good = sum(status == 200 and end for status, _, end in results)
            report.check("330 requests one after the other, a worker killed behind the 30th: all answered", good == 330, f"{good} of 330")
            moved = sum(int(v) for k, v in metrics(picker).items() if 'event="moved"' in k)
            report.check("Envoy went on to the fall-back endpoint, and the picker learned of it", moved >= 1, f"{moved} requests moved")
            status = {w["name"]: w["healthy"] for w in deployment.get_json(picker.url + "/admin/status")["workers"]}
            report.check("the picker has found the worker dead", not status[workers[0].name] and sum(status.values()) == WORKERS - 1, str(status))


def a_worker_killed_within_streams():
    """A worker that is killed within its streams"""
    with timed_fleet(WORKERS, time_scale=1) as (folder, workers):
        with picker_and_envoy(folder, workers, "round_robin") as (picker, envoy):
            results = []
            threads = [threading.Thread(target=stream, args=(envoy.url, 400, results)) for _ in range(6)]
            for thread in threads:
                thread.start()
            deployment.eventually(lambda: in_flight(picker) == 6, "all are under way")
            time.sleep(2)
            workers[0].process.send_signal(signal.SIGKILL)
            for thread in threads:
                thread.join()
            whole = sum(status == 200 and end for status, _, end in results)
            deployment.eventually(lambda: in_flight(picker) == 0, "none is under way", 20)
            report.check("6 streams on 3 workers, one worker killed: its 2 break visibly, the others are whole", whole == 4, f"{whole} whole, {len(results) - whole} broken")


def metrics(picker):
    _, _, text = deployment.request(picker.url + "/metrics")
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line and line[0] != "#"}


def a_killed_picker():
    """The picker that is killed"""
    for allow in (True, False):
        with timed_fleet(WORKERS, time_scale=100) as (folder, workers), contextlib.ExitStack() as stack:
            picker = envoy_picker.Picker(folder, workers, MODEL, BLOCK_SIZE)
            stack.enter_context(running(picker))
            envoy = stack.enter_context(running(Envoy(folder, workers, MODEL, BLOCK_SIZE, picker.port, allow=allow)))
            # Envoy's threads learn of the picker's health one after the other.
            deployment.eventually(lambda: all(answered(envoy.url) for _ in range(8)), "Envoy's threads know the picker", 20)
            before, without, again = [], [], []
            for _ in range(50):
                stream(envoy.url, 3, before)
            os.kill(picker.process.pid, signal.SIGKILL)
            picker.process.process.wait()
            begun = time.monotonic()
            deployment.eventually(lambda: not envoy.sees_picker(), "Envoy has seen that the picker is gone", 20)
            noticed = time.monotonic() - begun
            for _ in range(50):
                stream(envoy.url, 3, without)
            picker.start()
            deployment.eventually(lambda: envoy.sees_picker() and all(answered(envoy.url) for _ in range(8)), "Envoy's threads know the new picker", 20)
            for _ in range(50):
                stream(envoy.url, 3, again)
            good = [sum(status == 200 and whole for status, _, whole in results) for results in (before, without, again)]
            expected = [50, 50 if allow else 0, 50]
            statuses = sorted({str(status) for status, _, _ in without})
            others = sorted({str(status) for status, _, _ in before + again} - {"200"})
            report.check(f"50 requests before the picker was killed, 50 without it, 50 with a new one; failure_mode_allow: {str(allow).lower()}",
                         good == expected, f"answered: {good[0]}, {good[1]} (statuses {', '.join(statuses)}), {good[2]}; Envoy noticed after {noticed:.1f} s{'; else ' if others else ''}{', '.join(others)}")


def the_example_is_valid():
    """The file of examples/envoy"""
    done = subprocess.run([peer.program("envoy"), "--mode", "validate", "-c", peer.ROOT / "examples/envoy/envoy.yaml", "--base-id", str(peer.free_port())],
                          capture_output=True, text=True, timeout=60)
    report.check("Envoy validates examples/envoy/envoy.yaml", done.returncode == 0, "" if done.returncode == 0 else (done.stdout + done.stderr)[-200:])


def a_buffered_body():
    """The body sent as a whole"""
    with timed_fleet(WORKERS, time_scale=100) as (folder, workers):
        with picker_and_envoy(folder, workers, "round_robin", buffered=True) as (picker, envoy):
            results = []
            for _ in range(60):
                stream(envoy.url, 5, results)
            good = sum(status == 200 and end for status, _, end in results)
            spread = [int(deployment.metrics(w).get("vllm:request_success_total", 0)) for w in workers]
            report.check("request_body_mode BUFFERED: 60 requests, each worker a third", good == 60 and spread == [20] * 3, f"{good} answered, {spread}")


if __name__ == "__main__":
    parts = [the_example_is_valid, a_buffered_body, a_killed_client_is_no_load, a_killed_worker_is_replaced, a_worker_killed_within_streams, a_killed_picker,
             long_streams_are_whole, decisions_are_the_gateways]
    wanted = os.environ.get("KVIST_PICKER_ONLY")
    report.run(*[part for part in parts if not wanted or part.__name__ in wanted.split(",")])
