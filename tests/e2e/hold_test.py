"""Requests that wait at the gateway until a worker's cache has room for them, with real processes and conversations that need more memory
than there is."""
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import signal
import tempfile
import threading
import time

from deployment import WORKER, Process, eventually, get_json, metrics, request, run

BLOCKS = 200  # of 32 tokens: a worker has room for three conversations
SPEED = 4


@contextlib.contextmanager
def fleet(settings, per_token_ms=1):
    """Workers at which a prompt takes seconds if nothing of it is cached, and a gateway that knows how fast they are: with so little memory
    it would see few prompts that do not wait, from which it learns that."""
    slow = f"  step_time: {{fixed: 2 ms, per_prefill_token: {per_token_ms} ms}}\n"
    prior = f"  latency_prior: {{fixed: {2 / SPEED} ms, per_prefill_token: {per_token_ms / SPEED} ms}}\n"
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        workers = []
        for i in range(2):
            config = WORKER.format(name=f"w{i}", kv_blocks=BLOCKS, slots=64, time_scale=SPEED) + slow
            workers.append(Process(folder, "worker", f"w{i}", config))
            stack.callback(workers[-1].stop)
        upstreams = ", ".join(f"{{name: {w.name}, url: '{w.url}', kv_events: 'tcp://127.0.0.1:{w.ports['kv_events']}', "
                              f"kv_replay: 'tcp://127.0.0.1:{w.ports['kv_replay']}'}}" for w in workers)
        gateway = Process(folder, "gateway", "gateway", "gateway:\n  model: test-model\n  block_size: 32\n  mode: kv\n  threads: 3\n"
                          f"  connect_timeout: 60 s\n{prior}{settings}  workers: [{upstreams}]\n")
        stack.callback(gateway.stop)
        eventually(lambda: all(w["healthy"] for w in get_json(gateway.admin + "/admin/status")["workers"]), "workers healthy")
        gateway.folder = pathlib.Path(folder)
        yield gateway


class Agent:
    """A conversation whose prompts grow, each of which begins with the one before it."""

    def __init__(self, gateway, number):
        self.gateway, self.number = gateway, number
        self.messages = [{"role": "user", "content": f"conversation {number} " * 120}]

    def turn(self, stream=True, **fields):
        body = {"model": "test-model", "messages": self.messages, "max_tokens": 4, "ignore_eos": True, "stream": stream, **fields}
        answer = request(self.gateway.url + "/v1/chat/completions", body)
        self.messages += [{"role": "assistant", "content": "so"}, {"role": "user", "content": f"and {self.number}?"}]
        return answer


def held(gateway):
    return metrics(gateway)["kvist_gateway_held"]


def agents_beyond_memory(gateway, agents, until, what):
    """Runs agents in a closed loop until `until()` holds, which is `what`; returns the statuses of all answers."""
    stop = threading.Event()

    def converse(number):
        agent, codes = Agent(gateway, number), []
        while not stop.is_set():
            codes.append(agent.turn(stream=number % 2 == 0)[0])
        return codes

    with concurrent.futures.ThreadPoolExecutor(agents) as pool:
        running = [pool.submit(converse, number) for number in range(agents)]
        try:
            eventually(until, what)
        finally:
            stop.set()
        return [code for future in running for code in future.result()]


def requests_wait_and_all_are_answered():
    with fleet("  hold: {enabled: true, max_wait: 20 s}\n  admission: {enabled: false}\n") as gateway:
        codes = agents_beyond_memory(gateway, 12, lambda: metrics(gateway)["kvist_gateway_held_seconds_total"] > 1, "requests are held")
        assert len(codes) >= 12 and set(codes) == {200}, codes
        totals = metrics(gateway)
        assert totals["kvist_gateway_held_total"] >= 1 and totals["kvist_gateway_held"] == 0, totals
        assert get_json(gateway.admin + "/admin/status")["held_requests"] == 0
        assert totals["kvist_gateway_in_flight"] == 0
        assert 0 <= totals["kvist_gateway_recomputed_blocks_ratio"] <= 4, totals


def who_leaves_while_held_is_forgotten():
    with fleet("  hold: {enabled: true, max_wait: 600 s}\n  admission: {enabled: false}\n", per_token_ms=2) as gateway:
        def leave():
            agent = Agent(gateway, 99)
            agent.messages[0]["content"] *= 2  # too long for any room beside the others
            connection = http.client.HTTPConnection("127.0.0.1", gateway.ports["http"], timeout=100)
            body = {"model": "test-model", "messages": agent.messages, "max_tokens": 4, "stream": True}
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            time.sleep(0.2)
            connection.close()

        def gone():
            if held(gateway) >= 1:
                leave()
            return "client_gone" in request(gateway.admin + "/metrics")[2]

        codes = agents_beyond_memory(gateway, 12, gone, "one that left is counted")
        assert set(codes) == {200}, codes
        eventually(lambda: held(gateway) == 0 and metrics(gateway)["kvist_gateway_in_flight"] == 0, "nothing is left")


def without_it_none_is_held():
    with fleet("  admission: {enabled: false}\n") as gateway:
        codes = agents_beyond_memory(gateway, 12, lambda: metrics(gateway)["kvist_gateway_prompt_tokens_total"] > 40_000, "tokens")
        assert set(codes) == {200}, codes
        assert metrics(gateway)["kvist_gateway_held_total"] == 0


def whoever_is_held_at_the_end_is_told():
    """A gateway that is told to end answers those that it holds, and ends."""
    with fleet("  hold: {enabled: true, max_wait: 600 s}\n  admission: {enabled: false}\n  drain_timeout: 50 ms\n  access_log: access.log\n"
               "  log: {format: json}\n", per_token_ms=2) as gateway:
        stop, answers = threading.Event(), []

        def converse(number):
            agent = Agent(gateway, number)
            while not stop.is_set():
                try:
                    code, _, text = agent.turn(stream=False)
                except (OSError, http.client.HTTPException) as error:  # the listener is closed by then
                    return answers.append((0, str(error)))
                answers.append((code, text))
                if code != 200:
                    return None
            return None

        with concurrent.futures.ThreadPoolExecutor(14) as pool:
            running = [pool.submit(converse, number) for number in range(14)]
            try:
                eventually(lambda: held(gateway) >= 3, "some are held")
                gateway.process.send_signal(signal.SIGTERM)
            finally:
                stop.set()
            assert gateway.process.wait(100) == 0
            for future in running:
                future.result()
        refused = [json.loads(text)["error"]["message"] for code, text in answers if code == 503]
        assert all(code in (0, 200, 503) for code, _ in answers), answers
        assert any("shutting down" in message for message in refused), refused
        lines = [json.loads(line) for line in (gateway.folder / "access.log").read_text().splitlines()]
        assert "no_worker" not in {line["outcome"] for line in lines}, "there were workers, which nobody asked"
        assert any((line["status"], line["outcome"]) == (503, "rejected") for line in lines), lines


if __name__ == "__main__":
    run([requests_wait_and_all_are_answered, who_leaves_while_held_is_forgotten, without_it_none_is_held, whoever_is_held_at_the_end_is_told])
