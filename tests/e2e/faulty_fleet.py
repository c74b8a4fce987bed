"""Two workers, an event proxy with faults before each, and a gateway."""
import contextlib
import pathlib
import signal
import tempfile
import time

from conversations import chat, starter
from deployment import WORKER, Process, eventually, gateway_config, get_json, request
from event_line import EventLine

PORTS = """  http: {{host: 127.0.0.1, port: {http}}}
  kv_events_port: {kv_events}
  kv_replay_port: {kv_replay}
"""


class Behind:
    """A worker whose events come through the test's event proxy."""

    def __init__(self, worker, line):
        self.name, self.url, self.ports = worker.name, worker.url, line.ports


class Fleet:
    """Started when made; stopped by `stack`."""

    def __init__(self, folder, stack, mode="kv", time_scale=10.0, patient=False):
        self.folder, self.stack, self.time_scale = folder, stack, time_scale
        self.published = 0
        self.workers = [self._worker(f"worker-{i}") for i in range(2)]
        self.lines = [EventLine(w.ports["kv_events"], w.ports["kv_replay"]) for w in self.workers]
        for line in self.lines:
            stack.callback(line.close)
        behind = [Behind(*pair) for pair in zip(self.workers, self.lines)]
        self.gateway = Process(folder, "gateway", "gateway", gateway_config(behind, mode, patient=patient))
        stack.callback(self.gateway.stop)
        eventually(lambda: self.levels() == ["exact", "exact"], "all events connected")

    def _worker(self, name, ports=None):
        config = WORKER.format(name=name, kv_blocks=4000, slots=16, time_scale=self.time_scale)
        worker = Process(self.folder, "worker", name, config + (PORTS.format(**ports) if ports else ""))
        self.stack.callback(worker.stop)
        return worker

    def restart(self, i):
        ports = self.workers[i].ports
        self.workers[i].process.send_signal(signal.SIGKILL)
        self.workers[i].process.wait()
        # A port that another process took for a connection meanwhile is soon free again.
        eventually(lambda: self._replace(i, ports), f"worker-{i} started again on its ports")

    def _replace(self, i, ports):
        self.workers[i] = self._worker(self.workers[i].name, ports)
        return True

    @property
    def port(self):
        return self.gateway.ports["http"]

    def status(self):
        return get_json(self.gateway.admin + "/admin/status")["workers"]

    def levels(self):
        """The trust level of each worker's index; checks that metrics and status agree."""
        of_status = [w["cache"]["trust"] for w in self.status()]
        page = request(self.gateway.admin + "/metrics")[2]
        named = [line for line in page.splitlines() if line.startswith("kvist_gateway_cache_trust{") and line.endswith(" 1")]
        assert len(named) == len(of_status)
        return of_status

    def publish_once_more(self):
        """Each worker stores a block of new text, so that each event proxy carries a frame."""
        for worker in self.workers:
            self.published += 1
            text = f"{self.published}: {starter(100 + self.published, 50)}"
            status, _, answer = request(worker.url + "/v1/completions", {"model": "test-model", "prompt": text, "max_tokens": 1})
            assert status == 200, answer

    def index_is_the_truth(self):
        """Per worker the index has as many distinct blocks as the pool, and each starter's prediction equals the cached tokens reported."""
        truth = [len(get_json(w.admin + "/debug/kv_blocks")["blocks"]) for w in self.workers]
        indexed = [w["indexed_blocks"] for w in self.status()]
        assert indexed == truth, (indexed, truth)
        return True

    def predictions_come_true(self):
        cached = 0
        for i in range(4):
            turn, _ = chat(self.port, [{"role": "user", "content": starter(i)}], 1)
            assert turn.succeeded and turn.predicted_tokens == turn.cached_tokens, turn
            cached += turn.cached_tokens
            time.sleep(0.1)
        assert cached > 0, "nothing of what was asked for before is cached"


@contextlib.contextmanager
def fleet(**options):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        yield Fleet(pathlib.Path(folder), stack, **options)
