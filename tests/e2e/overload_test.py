"""Admission by forecast wait: what is refused and how, with real processes under ten times what they can do."""
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import tempfile
import threading
import time

from deployment import BINARY, Process, WORKER, eventually, get_json, request, run

SLOTS = 4
WORKERS = 3
FLOOD = 60 * WORKERS * SLOTS


def create_key(name, *options):
    done = subprocess.run([BINARY, "key", "create", "--name", name, *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


class Fleet:
    def __init__(self, folder, settings="", mode="kv", threads=2):
        self.workers = [Process(folder, "worker", f"w{i}", WORKER.format(name=f"w{i}", kv_blocks=2000, slots=SLOTS, time_scale=10))
                        for i in range(WORKERS)]
        upstreams = ", ".join(f"{{name: w{i}, url: '{w.url}'}}" for i, w in enumerate(self.workers))
        self.gateway = Process(folder, "gateway", "gateway", f"gateway:\n  model: test-model\n  block_size: 32\n  mode: {mode}\n"
                               f"  threads: {threads}\n  connect_timeout: 60 s\n{settings}  workers: [{upstreams}]\n")
        eventually(lambda: all(w["healthy"] for w in get_json(self.gateway.admin + "/admin/status")["workers"]), "workers healthy")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gateway.stop()
        for worker in self.workers:
            worker.stop()

    def ask(self, number=0, headers=None, **fields):
        body = {"model": "test-model", "max_tokens": 400, "messages": [{"role": "user", "content": f"question {number}"}], **fields}
        return request(self.gateway.url + "/v1/chat/completions", body, headers=headers)

    def counts(self, name, *labels):
        """The counter's values by these labels."""
        found = collections.Counter()
        for line in request(self.gateway.admin + "/metrics")[2].splitlines():
            if line.startswith(name + "{"):
                values = dict(re.findall(r'(\w+)="([^"]*)"', line))
                found[tuple(values[label] for label in labels)] += int(float(line.rsplit(" ", 1)[1]))
        return found

    def refused(self):
        return self.counts("kvist_gateway_admission_refused_total", "reason", "class")


def check_refusal(headers, text):
    error = json.loads(text)["error"]
    assert error["code"] == 429 and "would wait" in error["message"], error
    assert 1 <= int(headers["Retry-After"]) <= 60, headers["Retry-After"]


def everything_ends_and_every_refusal_says_when_to_come_back(mode, threads):
    with tempfile.TemporaryDirectory() as folder, Fleet(folder, "  admission: {max_wait: 1 s}\n", mode, threads) as fleet:
        with concurrent.futures.ThreadPoolExecutor(160) as pool:
            answers = [pool.submit(fleet.ask, i, stream=i % 2 == 0) for i in range(FLOOD)]
            # What decides about the fleet is not refused.
            for _ in range(20):
                assert request(fleet.gateway.url + "/health")[0] == 200
                assert request(fleet.gateway.admin + "/admin/status")[0] == 200
            answers = [answer.result() for answer in answers]
        counts = collections.Counter(status for status, _, _ in answers)
        assert set(counts) == {200, 429}, counts
        assert counts[200] >= WORKERS * SLOTS and counts[429] > 0, counts
        for status, headers, text in answers:
            if status == 429:
                check_refusal(headers, text)
        # Words and counts agree.
        assert sum(fleet.refused().values()) == counts[429], (fleet.refused(), counts)
        assert {reason for reason, _ in fleet.refused()} == {"wait"}, fleet.refused()
        outcomes = fleet.counts("kvist_gateway_requests_total", "outcome")
        assert outcomes == {("rejected",): counts[429], ("completed",): counts[200]}, (outcomes, counts)
        # An idle fleet takes everything.
        assert fleet.ask(headers={"X-SLO-TTFT-MS": "1", "X-Request-Priority": "100"})[0] == 200


def a_flood_in_mode_kv():
    everything_ends_and_every_refusal_says_when_to_come_back("kv", 2)


def a_flood_in_mode_round_robin_on_one_thread():
    everything_ends_and_every_refusal_says_when_to_come_back("round_robin", 1)


def fields_that_are_wrong_are_named():
    with tempfile.TemporaryDirectory() as folder, Fleet(folder) as fleet:
        for name, value in [("X-SLO-TTFT-MS", "soon"), ("X-Request-Timeout", "-3"), ("X-Request-Priority", "high")]:
            status, _, text = fleet.ask(headers={name: value})
            assert status == 400 and name in json.loads(text)["error"]["message"], (status, text)
        assert fleet.ask(headers={"X-Stainless-Timeout": "none"})[0] == 200
        assert fleet.ask(priority=-3)[0] == 200


def switched_off_nothing_is_refused():
    with tempfile.TemporaryDirectory() as folder, Fleet(folder, "  admission: {enabled: false, max_wait: 1 s}\n") as fleet:
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            answers = [answer.result() for answer in [pool.submit(fleet.ask, i) for i in range(100)]]
        assert {status for status, _, _ in answers} == {200}
        assert not fleet.refused()


def refusals_are_counted_by_class_of_key_and_reason():
    alice, first = create_key("alice", "--class", "gold")
    bob, second = create_key("bob", "--class", "batch")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "keys.txt").write_text(f"{first} weight=3 priority=-1\n{second} priority=1\n")
        with Fleet(folder, "  api_keys: keys.txt\n  admission: {max_wait: 2 s}\n") as fleet:
            asked, refused, answered = collections.Counter(), collections.Counter(), collections.Counter()

            def ask_until_all_slots_turned_over(client):
                """Refused clients come back, for however slow the machine is, places must become free beneath the flood."""
                key_class = "gold" if client % 10 == 0 else "batch"
                while sum(answered.values()) < 10 * WORKERS * SLOTS:
                    status, _, text = fleet.ask(client, {"X-API-Key": alice if key_class == "gold" else bob})
                    assert status in {200, 429}, (status, text)
                    with counting:
                        asked[key_class] += 1
                        (answered if status == 200 else refused)[key_class] += 1
                    if status == 429:
                        time.sleep(0.1)

            counting = threading.Lock()
            with concurrent.futures.ThreadPoolExecutor(160) as pool:
                for client in [pool.submit(ask_until_all_slots_turned_over, i) for i in range(160)]:
                    client.result()
            counted = collections.Counter()
            for (_, key_class), count in fleet.refused().items():
                counted[key_class] += count
            assert counted == refused, (fleet.refused(), refused)
            assert refused["batch"] / asked["batch"] > refused["gold"] / asked["gold"], (refused, asked)


run([a_flood_in_mode_kv, a_flood_in_mode_round_robin_on_one_thread, fields_that_are_wrong_are_named, switched_off_nothing_is_refused,
     refusals_are_counted_by_class_of_key_and_reason])
