"""Timed workers, event wires before them and a gateway in mode kv, of real processes, for one case."""
import contextlib
import os
import pathlib
import signal
import tempfile
import time

from background import Background
from black_hole_test import metric, status
from deployment import WORKER, Process, eventually, get_json, metrics, request
from event_wire import EventWire
from streams import Answer, Crowd, greedy

PORTS = "  http: {{host: 127.0.0.1, port: {http}}}\n  kv_events_port: {kv_events}\n  kv_replay_port: {kv_replay}\n"
BLOCKS, SLOTS = 6000, 128


def worker_config(name, time_scale=1.0, slots=SLOTS, model="test-model"):
    return WORKER.format(name=name, kv_blocks=BLOCKS, slots=slots, time_scale=time_scale).replace("test-model", model)


class Fleet:
    """Started when made; stopped by `stack`. `scales`: of each timed worker's time; `configs`: in place of timed workers;
    `others`: further workers, which the case made; `wired`: events come through proxies; `settings`: of the gateway."""

    def __init__(self, stack, scales=(1.0, 1.0, 1.0), configs=None, others=(), wired=False, tokenizer=None, extra="", **settings):
        self.stack, self.others, self.settings, self.tokenizer = stack, list(others), settings, tokenizer
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.background = Background()
        stack.callback(self.background.close)
        self.configs = configs or [worker_config(f"worker-{i}", scale) + extra for i, scale in enumerate(scales)]
        self.workers = [Process(self.folder, "worker", f"worker-{i}", config) for i, config in enumerate(self.configs)]
        self.wires = []
        if wired:
            self.wires = [EventWire(self.background, worker.ports["kv_events"]) for worker in self.workers]
        self.gateway = None
        stack.callback(self._stop)
        self.start_gateway()

    def _stop(self):
        """Also those that a case left stopped."""
        for process in filter(None, [self.gateway, *self.workers]):
            if process.process.poll() is None:
                process.process.send_signal(signal.SIGCONT)
            process.stop()

    def start_gateway(self):
        self.launch_gateway()
        eventually(self.is_well, "all workers healthy, all events connected")

    def launch_gateway(self, port=0, admin=0):
        """Returns when it says that it is ready, whatever it knows by then."""
        lines = ["gateway:", "  model: test-model", "  mode: kv", "  block_size: 32", f"  http: {{host: 127.0.0.1, port: {port}}}",
                 f"  admin: {{port: {admin}}}", "  connect_timeout: 60 s"]
        lines += [f"  tokenizer: {self.tokenizer}"] if self.tokenizer else []
        lines += [f"  {key}: {value}" for key, value in self.settings.items()] + ["  workers:"]
        for i, worker in enumerate(self.workers):
            events = self.wires[i].port if self.wires else worker.ports["kv_events"]
            lines += [f"    - name: {worker.name}", f"      url: {worker.url}", f"      kv_events: tcp://127.0.0.1:{events}",
                      f"      kv_replay: tcp://127.0.0.1:{worker.ports['kv_replay']}"]
        for worker in self.others:
            lines += [f"    - name: {worker.name}", f"      url: {worker.url}"]
        self.gateway = Process(self.folder, "gateway", "gateway", "\n".join(lines) + "\n")

    def is_well(self):
        return all(w["healthy"] for w in self.status().values()) and self.is_exact()

    def is_exact(self):
        return all(self.status()[worker.name]["index_exact"] for worker in self.workers)

    def status(self):
        return status(self.gateway)

    def metric(self, name, **labels):
        return int(metric(self.gateway, "kvist_gateway_" + name, **labels))

    def crowd(self, count, max_tokens=150, first=0, **options):
        """Requests `first`, `first` + 1, ..., at once."""
        bodies = [greedy(i, max_tokens) for i in range(first, first + count)]
        return Crowd(self.background, self.gateway.ports["http"], bodies, prefix=f"r{first}", **options)

    def signal(self, i, number):
        self.workers[i].process.send_signal(number)
        if number == signal.SIGKILL:
            self.workers[i].process.wait()

    def start_again(self, i, config=None):
        """On its old ports. A port that another process took for a connection meanwhile is soon free again."""
        ports = self.workers[i].ports

        def started():
            self.workers[i] = Process(self.folder, "worker", f"worker-{i}", (config or self.configs[i]) + PORTS.format(**ports))
            return True

        eventually(started, f"worker-{i} started again on its ports")

    def pools(self):
        """Distinct blocks that each worker's cache really holds."""
        return [len(get_json(worker.admin + "/debug/kv_blocks")["blocks"]) for worker in self.workers]

    def indexed(self):
        return [self.status()[worker.name]["indexed_blocks"] for worker in self.workers]

    def publish(self, number):
        """Each worker stores a block of new text: only a message after a loss reveals it."""
        for worker in self.workers:
            body = {"model": "test-model", "prompt": f"{number} of {worker.name} " * 10, "max_tokens": 1}
            assert request(worker.url + "/v1/completions", body)[0] == 200

    def index_is_whole(self):
        return self.is_exact() and self.indexed() == self.pools()

    def finished(self, i):
        """Requests that worker i answered to their end, by its own count."""
        return int(metrics(self.workers[i]).get("vllm:request_success_total", 0))

    def gateway_memory(self):
        """Resident bytes."""
        pages = int(pathlib.Path(f"/proc/{self.gateway.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class Undisturbed:
    """What a worker answers that nothing happens to, by the number of tokens; computed once each."""

    def __init__(self):
        self.known = {}

    def said(self, count, max_tokens, first, config):
        known = self.known.setdefault((max_tokens, config), {})
        missing = [i for i in range(first, first + count) if i not in known]
        if missing:
            with contextlib.ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                worker = Process(folder, "worker", "undisturbed", config or worker_config("undisturbed", 1000.0))
                stack.callback(worker.stop)
                background = Background()
                stack.callback(background.close)
                answers = Crowd(background, worker.ports["http"], [greedy(i, max_tokens) for i in missing]).answers()
                assert all(answer.whole for answer in answers), [answer.problem() for answer in answers if not answer.whole][:3]
                known.update(zip(missing, (answer.said for answer in answers)))
        return [known[i] for i in range(first, first + count)]


UNDISTURBED = Undisturbed()


def check_answers(case, answers, max_tokens=150, first=0, config=None, when=""):
    """The three counts that every case has: whole answers, errors that a client sees, answers equal to the undisturbed ones."""
    expected = UNDISTURBED.said(len(answers), max_tokens, first, config)
    failed = [answer for answer in answers if not answer.whole]
    case.equal(f"{when}answers that are whole", len(answers) - len(failed), len(answers))
    case.equal(f"{when}errors that a client sees", len(failed), 0)
    case.equal(f"{when}answers equal to the undisturbed ones", sum(a.said == e for a, e in zip(answers, expected)), len(answers))
    if failed:
        case.note("the first error", failed[0].problem())


def check_index(case, deployed, seconds=60, probes=20):
    """The index is the pools' content, by the number of blocks and by predictions of single prompts."""
    began, last = time.monotonic(), 0.0
    with contextlib.suppress(AssertionError):
        number = iter(range(1 << 30))

        def whole():
            nonlocal last
            if time.monotonic() - last > 1:
                deployed.publish(f"{case.name} {next(number)}")
                last = time.monotonic()
                time.sleep(0.1)
            return deployed.index_is_whole()

        eventually(whole, "the index is the pools' content", seconds)
    took = time.monotonic() - began
    case.equal("blocks in the index, per worker", " ".join(map(str, deployed.indexed())), " ".join(map(str, deployed.pools())))
    right = cached = 0
    for i in range(probes):
        answer = one(deployed, greedy(i, 1), f"probe-{i}")
        found = answer.usages[0]["prompt_tokens_details"]["cached_tokens"] if answer.usages else -1
        right += int(answer.fields.get("x-kvist-predicted-cached-tokens", -2)) == found
        cached += max(0, found)
    case.equal("predictions of cached tokens that are right", right, probes)
    case.least("cached tokens of those prompts", cached, 1)
    case.note("index whole after", f"{took:.1f} s")


def one(deployed, body, name="one"):
    """One request by itself."""
    crowd = Crowd(deployed.background, deployed.gateway.ports["http"], [body], prefix=name)
    crowd.future.result(120)
    return Answer(crowd.streams[0].data)


@contextlib.contextmanager
def fleet(**options):
    with contextlib.ExitStack() as stack:
        yield Fleet(stack, **options)
