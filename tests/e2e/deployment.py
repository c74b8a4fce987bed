"""Starts kvist processes for a test and stops them when it ends."""
import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

BINARY = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/kvist").resolve()
DEADLINE_S = 100  # for events that must happen at all: a slow machine is no failure

WORKER = """worker:
  name: {name}
  model: test-model
  block_size: 32
  kv_blocks: {kv_blocks}
  max_batch_size: {slots}
  max_num_tokens: 2048
  time_scale: {time_scale}
  drain_timeout: 1 s
  output_length: {{mean_tokens: 200, standard_deviation_tokens: 30}}
"""


class Process:
    """One kvist process; `ports` holds the ports of its ready line."""

    def __init__(self, folder, kind, name, config):
        self.name, self.kind = name, kind
        path = pathlib.Path(folder) / f"{name}.yaml"
        path.write_text(config)
        self.log = open(pathlib.Path(folder) / f"{name}.log", "wb")
        self.process = subprocess.Popen([BINARY, kind, "-f", path], stdout=subprocess.PIPE, stderr=self.log)
        self.ports = self._await_ready()

    def _await_ready(self):
        line = read_line(self.process.stdout, DEADLINE_S)
        if not line.startswith("ready "):
            self.stop(signal.SIGKILL)
            raise AssertionError(f"{self.name} did not get ready: {line!r}\n{pathlib.Path(self.log.name).read_text()}")
        return {key: int(value) for key, value in (item.split("=") for item in line.split()[1:])}

    @property
    def url(self):
        return f"http://127.0.0.1:{self.ports['http']}"

    @property
    def admin(self):
        """The listener of what changes the process or shows its inside."""
        return f"http://127.0.0.1:{self.ports['admin']}"

    def stop(self, how=signal.SIGTERM):
        """Who is asked to end does so without an error; a sanitizer's report is one."""
        asked = self.process.poll() is None
        if asked:
            self.process.send_signal(how)
        try:
            code = self.process.wait(DEADLINE_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.log.close()
        if asked and how == signal.SIGTERM and code != 0:
            raise AssertionError(f"{self.name} ended with {code}\n{pathlib.Path(self.log.name).read_text()[-10000:]}")


def create_model(directory, *options):
    """A tiny model with random weights, the same each time."""
    done = subprocess.run([BINARY, "model", "create", directory, "--size", "tiny", "--seed", "5", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return directory


def read_line(stream, seconds):
    """Reads one line of a pipe, or the part of it that arrived until the deadline."""
    end, data = time.monotonic() + seconds, b""
    arrivals = select.poll()  # select.select() takes no descriptor above 1023, and a test may have opened thousands
    arrivals.register(stream, select.POLLIN)
    while not data.endswith(b"\n"):
        if not arrivals.poll(1000 * max(0, end - time.monotonic())):
            break
        byte = os.read(stream.fileno(), 1)
        if not byte:
            break
        data += byte
    return data.decode().strip()


@contextlib.contextmanager
def deployment(workers=2, mode="kv", kv_blocks=2000, slots=16, time_scale=100.0, gateway=True, tokenizer=None, tokenizers=None,
               specials=(), record=None, kv_events_buffer=10_000):
    """Workers and, unless told otherwise, a gateway before them. Yields (gateway, workers). `tokenizer`: a model's directory, for
    all; `tokenizers`: one per worker, where they differ. `specials`: numbers of workers to which special tokens that users write
    are special. `record`: the file that the gateway records traffic into. `kv_events_buffer`: batches that a replay has as they were."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        started = []
        for i in range(workers):
            name = f"worker-{i}"
            config = WORKER.format(name=name, kv_blocks=kv_blocks, slots=slots, time_scale=time_scale)
            config += tokenizer_line(tokenizers[i] if tokenizers else tokenizer)
            config += f"  kv_events_buffer: {kv_events_buffer}\n"
            config += "  special_tokens_in_messages: true\n" if i in specials else ""
            started.append(Process(folder, "worker", name, config))
            stack.callback(started[-1].stop)
        front = None
        if gateway:
            front = Process(folder, "gateway", "gateway", gateway_config(started, mode, tokenizer, patient=True, record=record))
            stack.callback(front.stop)
            eventually(lambda: all(w["healthy"] for w in get_json(front.admin + "/admin/status")["workers"]), "workers healthy")
        yield front, started


def tokenizer_line(directory):
    return f"  tokenizer: {directory}\n" if directory else ""


def gateway_config(workers, mode, tokenizer=None, patient=False, record=None):
    """`patient`: health checks, three of which make a worker unhealthy, wait longer than any machine stands still by itself, and no
    request is refused for how long it would wait."""
    lines = ["gateway:", "  model: test-model", f"  mode: {mode}", "  block_size: 32", "  drain_timeout: 1 s", *tokenizer_line(tokenizer).splitlines(),
             *(["  connect_timeout: 60 s", "  admission: {enabled: false}"] if patient else []), *([f"  record: {record}"] if record else []), "  workers:"]
    for worker in workers:
        lines += [
            f"    - name: {worker.name}",
            f"      url: {worker.url}",
            f"      kv_events: tcp://127.0.0.1:{worker.ports['kv_events']}",
            f"      kv_replay: tcp://127.0.0.1:{worker.ports['kv_replay']}",
        ]
    return "\n".join(lines) + "\n"


def request(url, body=None, method=None, timeout=DEADLINE_S, headers=None):
    """(status, headers, text) of one call, also for error statuses."""
    data = json.dumps(body).encode() if body is not None else None
    call = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(call, timeout=timeout) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def get_json(url):
    status, _, text = request(url)
    assert status == 200, (url, status, text)
    return json.loads(text)


def metrics(process):
    """Metric name -> sum over its label sets, of one scrape."""
    _, _, text = request((process.admin if process.kind == "gateway" else process.url) + "/metrics")
    totals = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name = line.split("{")[0].split(" ")[0]
            totals[name] = totals.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
    return totals


def eventually(condition, what, seconds=DEADLINE_S):
    """Waits until the condition holds; a condition that raises does not hold yet."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            if condition():
                return
            last = None
        except (OSError, KeyError, AssertionError) as error:
            last = error
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what} ({last})")


def run(tests):
    """Runs test functions in order, prints one line each, exits non-zero on a failure."""
    import traceback

    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok      {test.__name__}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {test.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
