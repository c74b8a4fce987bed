"""Workers that compute a tiny model with random weights, and a gateway before them."""
import contextlib
import json
import pathlib
import tempfile

from deployment import Process, create_model, eventually, get_json, request

WORKER = """worker:
  name: {name}
  model: test-model
  block_size: 16
  max_batch_size: {slots}
  max_num_tokens: 64
  {more}
  cpu: {{model: {model}, threads: 1, memory: 256 MiB}}
"""
GATEWAY = """gateway:
  model: test-model
  tokenizer: {model}
  mode: kv
  block_size: 16
  connect_timeout: 60 s
  {more}
  workers:
"""


def start_worker(folder, name, model, more="kv_blocks: 512", slots=8):
    return Process(folder, "worker", name, WORKER.format(name=name, model=model, more=more, slots=slots))


def start_gateway(folder, model, workers, more="threads: 2"):
    """Waits until all workers are healthy."""
    config = GATEWAY.format(model=model, more=more)
    for worker in workers:
        config += (f"    - {{name: {worker.name}, url: '{worker.url}', kv_events: 'tcp://127.0.0.1:{worker.ports['kv_events']}', "
                   f"kv_replay: 'tcp://127.0.0.1:{worker.ports['kv_replay']}'}}\n")
    gateway = Process(folder, "gateway", "gateway", config)
    try:
        eventually(lambda: all(w["healthy"] for w in get_json(gateway.admin + "/admin/status")["workers"]), "the workers are healthy")
    except AssertionError:
        gateway.stop()
        raise
    return gateway


@contextlib.contextmanager
def serving(*settings, slots=8):
    """(folder, model, workers): a worker for each of the settings."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        model = create_model(pathlib.Path(folder) / "model")
        workers = []
        for i, more in enumerate(settings):
            workers.append(start_worker(folder, f"worker-{i}", model, more, slots))
            stack.callback(workers[-1].stop)
        yield pathlib.Path(folder), model, workers


def complete(worker, prompt, **fields):
    body = {"model": "test-model", "prompt": prompt, "max_tokens": 24, "temperature": 0, "ignore_eos": True, "logprobs": 2, **fields}
    status, _, text = request(worker.url + "/v1/completions", body)
    assert status == 200, (status, text)
    return json.loads(text)


def content(answer):
    """Of all choices: text, tokens and their log probabilities."""
    return [(c["text"], c["logprobs"]["tokens"], c["logprobs"]["token_logprobs"]) for c in answer["choices"]]
