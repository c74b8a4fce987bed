"""Timed kvist workers with fresh caches for one measurement of a router."""
import contextlib
import pathlib
import tempfile

import deployment

BLOCK_SIZE = 32
MODEL = "m"
# The published fleet's step times (an H200 with a 70B model), run ten times faster than that.
STEP_TIME = {"fixed": "21 ms", "per_prefill_token": "94 us", "per_sequence": "70 us", "per_kv_token": "40 ns"}


def worker_config(name, settings):
    """`settings` in addition to name, model and block size; a value may be a mapping."""
    lines = ["worker:", f"  name: {name}", f"  model: {MODEL}", f"  block_size: {BLOCK_SIZE}"]
    for key, value in settings.items():
        inner = "{" + ", ".join(f"{k}: {v}" for k, v in value.items()) + "}" if isinstance(value, dict) else value
        lines.append(f"  {key}: {inner}")
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def timed_fleet(count, **settings):
    """Yields (folder, workers)."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        workers = []
        for i in range(count):
            workers.append(deployment.Process(folder, "worker", f"worker-{i}", worker_config(f"worker-{i}", settings)))
            stack.callback(workers[-1].stop)
        yield pathlib.Path(folder), workers


def requests_per_worker(workers):
    """Finished requests of each worker, from its metrics."""
    return [int(deployment.metrics(worker).get("vllm:request_success_total", 0)) for worker in workers]
