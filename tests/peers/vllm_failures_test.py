"""What clients and the gateway observe when a real vLLM's engine or server dies or stalls, and the state afterwards."""
import collections
import os
import pathlib
import signal
import tempfile
import threading
import time

import peer
from deployment import Process, eventually, gateway_config, request
from index_check import Follower, await_known, check_equal, status_of
from small_models import llama3
from turns import chat, converse_all
from vllm_worker import instances

PEERS = ["vllm"]
LONG_TOKENS = 300
OPEN_STREAMS = 6
LIMIT_S = 90  # no client waits longer for an end

report = peer.Report("vllm_failures", "vLLM: engine killed, server killed, worker stopped", 11, PEERS)


class Streams:
    """Long streams, opened at once; what became of each."""

    def __init__(self, port, count=OPEN_STREAMS, tokens=LONG_TOKENS):
        self.answers, self.first_tokens = [], 0
        self.threads = [threading.Thread(target=self._one, args=(port, number, tokens)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def _one(self, port, number, tokens):
        message = [{"role": "user", "content": f"{number}: count the waves, one after the other. " * 4}]
        self.answers.append(chat(port, message, True, tokens, timeout=LIMIT_S))

    def ends(self):
        for thread in self.threads:
            thread.join(LIMIT_S + 10)
        return self.answers


class Asking:
    """Short requests, one after the other from each of a few clients, until stopped."""

    def __init__(self, port, clients=3):
        self.answers, self.over = [], threading.Event()
        self.threads = [threading.Thread(target=self._one, args=(port, number)) for number in range(clients)]
        for thread in self.threads:
            thread.start()

    def _one(self, port, client):
        number = 0
        while not self.over.is_set():
            number += 1
            message = [{"role": "user", "content": f"{client}.{number}: a short question about waves."}]
            self.answers.append(chat(port, message, number % 2 == 0, 4, timeout=LIMIT_S))

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(LIMIT_S + 10)
        return self.answers


def running(worker):
    """Requests in the worker's batch, by its metrics."""
    for line in request(worker.url + "/metrics", timeout=10)[2].splitlines():
        if line.startswith("vllm:num_requests_running"):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def outcomes(answers):
    counts = collections.Counter(answer.outcome for answer in answers)
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("whole", "told", "silent") if counts[kind]) or "none"


def healthy(worker):
    return status_of(gateway, worker.name)["healthy"]


def struck(what, worker, strike, may_fail_before_first_byte=False):
    """Strikes the worker while streams are open and requests come in; the clients' outcomes and the gateway's view."""
    streams = Streams(gateway.ports["http"])
    eventually(lambda: all(running(one) > 0 for one in workers), "streams on both workers")
    asking = Asking(gateway.ports["http"])
    time.sleep(0.5)
    begun = time.monotonic()
    strike(worker)
    seen = None
    try:
        eventually(lambda: not healthy(worker) or status_of(gateway, worker.name)["stalled"], "the gateway sees it", LIMIT_S)
        seen = time.monotonic() - begun
    except AssertionError:
        pass
    time.sleep(3)
    short = asking.stop()
    opened = streams.ends()
    report.check(f"{what}: the gateway sees it", seen is not None, f"after {seen:.1f} s" if seen else "not at all")
    report.check(f"{what}: no open stream ends silently", all(answer.outcome != "silent" for answer in opened), outcomes(opened))
    report.check(f"{what}: streams of the other worker end whole",
                 all(answer.outcome == "whole" for answer in opened if answer.worker not in ("", worker.name)),
                 outcomes([answer for answer in opened if answer.worker != worker.name]))
    silent = [answer for answer in short if answer.outcome == "silent"]
    failed = [answer for answer in short if answer.outcome != "whole"]
    for answer in failed[:5]:
        print(f"        {answer.outcome}: {answer.status} {answer.worker} {answer.error[:300]}", flush=True)
    report.check(f"{what}: requests that come in are answered by the other worker", not silent and len(failed) <= 3, outcomes(short))
    rows.append([what, outcomes(opened), outcomes(short), f"{seen:.1f}" if seen else ""])


def recovers(what, worker, follower_of):
    """Healthy again, used again, its index right."""
    await_known(gateway, [worker.name], LIMIT_S)
    follower = follower_of(worker)
    answers = converse_all(gateway.ports["http"], 16, 2, True)
    there = sum(answer.worker == worker.name for answer in answers)
    report.check(f"{what}: afterwards it is used again", there > 0 and all(answer.succeeded for answer in answers),
                 f"{there} of {len(answers)} requests")
    check_equal(report, f"{what}: afterwards", gateway, follower)
    follower.close()


def worker_stopped():
    """A worker that stands still (SIGSTOP)."""
    worker = workers[0]
    struck("SIGSTOP", worker, lambda one: one.signal_all(signal.SIGSTOP))
    worker.signal_all(signal.SIGCONT)
    recovers("SIGSTOP", worker, Follower)


def server_killed():
    """A worker whose processes are all killed in mid-stream."""
    worker = workers[0]
    struck("server killed", worker, lambda one: one.kill())
    worker.start().await_ready()
    recovers("server killed", worker, Follower)


def engine_killed():
    """A worker whose engine is killed, its server alive."""
    worker = workers[1]
    struck("engine killed", worker, lambda one: os.kill(one.engine(), signal.SIGKILL))
    worker.stop()
    worker.start().await_ready()
    recovers("engine killed", worker, Follower)


def summary():
    """The outcomes in one table."""
    report.table("What clients saw", ["strike", f"{OPEN_STREAMS} open streams", "requests during it", "seen after (s)"], rows,
                 "whole: as without it; told: an error in the API's words, by status or in the stream; silent: neither.")


report.require("vllm")
rows = []
with tempfile.TemporaryDirectory() as folder:
    model = llama3(pathlib.Path(folder) / "model")
    with instances(folder, [model, model]) as workers:
        gateway = Process(folder, "gateway", "gateway", gateway_config(workers, "round_robin", model))
        try:
            await_known(gateway, [worker.name for worker in workers])
            report.run(worker_stopped, server_killed, engine_killed, summary)
        finally:
            gateway.stop()
