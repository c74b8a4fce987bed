"""A real vLLM on the CPU: one instance on one core, with KV events and replay, as kvist's gateway needs them."""
import contextlib
import json
import os
import pathlib
import signal
import time

import peer
from deployment import request

START_S = 900  # a minute on an idle machine, many on a busy one
ENVIRONMENT = {"PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_SERVER_DEV_MODE": "1",
               "VLLM_NO_USAGE_STATS": "1", "VLLM_TARGET_DEVICE": "cpu"}


class VllmWorker:
    """`name`, `ports` and `url` as of a kvist Process, so that a gateway's configuration accepts either."""

    def __init__(self, folder, name, model, core=0, blocks=1000, buffer_steps=10000, options=()):
        self.folder, self.name, self.model, self.core = pathlib.Path(folder), name, model, core
        self.blocks, self.buffer_steps, self.options = blocks, buffer_steps, list(options)
        self.ports = {kind: peer.free_port() for kind in ("http", "kv_events", "kv_replay")}
        self.kind, self.starts, self.process = "vllm", 0, None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.ports['http']}"

    def start(self):
        """Does not wait: several may start at the same time."""
        self.starts += 1
        events = {"enable_kv_cache_events": True, "publisher": "zmq", "topic": "", "buffer_steps": self.buffer_steps,
                  "endpoint": f"tcp://*:{self.ports['kv_events']}", "replay_endpoint": f"tcp://*:{self.ports['kv_replay']}"}
        command = [peer.program("vllm"), "serve", self.model, "--served-model-name", "test-model", "--host", "127.0.0.1",
                   "--port", self.ports["http"], "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048",
                   "--block-size", "32", "--enable-prefix-caching", "--enable-prompt-tokens-details", "--max-num-seqs", "16",
                   "--num-gpu-blocks-override", self.blocks, "--kv-events-config", json.dumps(events), *self.options]
        environment = {**ENVIRONMENT, "VLLM_CPU_OMP_THREADS_BIND": str(self.core % os.cpu_count())}
        self.process = peer.PeerProcess(command, self.folder / f"{self.name}-{self.starts}.log", env=environment)
        return self

    def await_ready(self):
        try:
            self.process.await_ready(lambda: request(self.url + "/health", timeout=5)[0] == 200, START_S)
        except BaseException:
            self.stop()
            raise
        return self

    @property
    def log(self):
        return self.process.log_path.read_text(errors="replace")

    def engine(self):
        """The engine's process, a child of the server."""
        for pid in self.process.processes():
            with contextlib.suppress(OSError):
                if "EngineCore" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                    return pid
        raise AssertionError("no EngineCore below the server")

    def run_on(self, cores):
        """All threads of the server and of all below it, instead of the one core that it was started on."""
        for pid in self.process.processes():
            for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):  # ended meanwhile
                    os.sched_setaffinity(int(thread.name), cores)

    def signal_all(self, number):
        """Sends a signal, e.g. SIGSTOP, to the server and its descendants."""
        for pid in self.process.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self):
        """As if the machine had been switched off."""
        self.signal_all(signal.SIGKILL)
        self.process.stop(5)

    def stop(self):
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                self.signal_all(signal.SIGCONT)
            self.process.stop()

    def reset(self):
        """Empties the prefix cache. vLLM publishes that with its next step: a short prompt of less than a block makes one."""
        end = time.monotonic() + 30
        while True:  # refused while requests are running
            status, _, text = request(self.url + "/reset_prefix_cache", method="POST")
            if status == 200:
                break
            assert time.monotonic() < end, (status, text)
            time.sleep(0.1)
        self.step()

    def step(self):
        status, _, text = request(self.url + "/v1/completions", {"model": "test-model", "prompt": "x", "max_tokens": 1})
        assert status == 200, text


@contextlib.contextmanager
def instances(folder, models, **options):
    """One instance per model, each on a core of its own, all started at once. Yields them when they answer."""
    with contextlib.ExitStack() as stack:
        workers = [VllmWorker(folder, f"vllm-{i}", model, core=i, **options) for i, model in enumerate(models)]
        for worker in workers:
            stack.callback(worker.stop)
            worker.start()
        for worker in workers:
            worker.await_ready()
        yield workers


