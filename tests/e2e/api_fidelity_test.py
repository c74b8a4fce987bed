"""A client gets the same answers through the gateway as from the worker: the requests of tests/peers/api_cases.py, here against a
worker of kvist's own that computes; `make peers PEER=vllm` sends the same to a real vLLM."""
import contextlib
import pathlib
import sys
import tempfile

from deployment import Process, create_model, eventually, get_json, metrics, request, run

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "peers"))
import api_cases  # noqa: E402
import api_compare  # noqa: E402

WORKER = """worker:
  name: {name}
  model: test-model
  tokenizer: {model}
  block_size: 16
  max_batch_size: 8
  max_num_tokens: 64
  cpu: {{model: {model}, threads: 1, memory: 64 MiB}}
"""
GATEWAY = """gateway:
  model: test-model
  tokenizer: {model}
  mode: kv
  block_size: 16
  connect_timeout: 60 s
  workers:
    - {{name: worker-0, url: "{url}", kv_events: "tcp://127.0.0.1:{kv_events}", kv_replay: "tcp://127.0.0.1:{kv_replay}"}}
"""


@contextlib.contextmanager
def served():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        model = create_model(pathlib.Path(folder) / "model")
        worker = Process(folder, "worker", "worker-0", WORKER.format(name="worker-0", model=model))
        stack.callback(worker.stop)
        gateway = Process(folder, "gateway", "gateway", GATEWAY.format(model=model, url=worker.url, **worker.ports))
        stack.callback(gateway.stop)
        eventually(lambda: get_json(gateway.admin + "/admin/status")["workers"][0]["healthy"], "worker healthy")
        yield gateway, worker


def the_gateway_answers_as_the_worker_does():
    with served() as (gateway, worker):
        results = api_cases.run_cases(worker.url, gateway.url, "test-model")
        api_cases.print_report(results)
        assert len(results) >= 150, len(results)
        assert sum(result.direct is not None and result.direct.status == 200 for result in results) >= 70
        wrong = api_cases.unintended(results)
        assert not wrong, [(result.case.name, result.differences) for result in wrong]
        seen = metrics(gateway)
        assert seen["kvist_gateway_passed_on_total"] > 0, "some bodies the gateway does not read"
        assert seen["kvist_gateway_worker_healthy"] == 1
        eventually(lambda: metrics(gateway)["kvist_gateway_in_flight"] == 0, "nothing stays under way")


def the_comparison_finds_differences():
    """Makes each kind of difference on purpose, to show that the comparison can fail."""
    json_type, stream_type = {"content-type": "application/json"}, {"content-type": "text/event-stream"}

    def differences(direct, gateway):
        return api_compare.compare({}, api_compare.Answer(*direct), api_compare.Answer(*gateway))

    def stream(*frames):
        return 200, stream_type, b"".join(b"data: " + frame + b"\n\n" for frame in frames)

    text = b'{"id":"%d","choices":[{"index":0,"delta":{"content":"%s"}}]}'
    good = stream(text % (1, b"ab"), b"[DONE]")
    assert not differences(good, stream(text % (2, b"ab"), b"[DONE]"))
    assert not differences(good, stream(text % (2, b"a"), text % (2, b"b"), b"[DONE]")), "tokens put together differently"
    assert not differences((200, json_type, b'{"id":"a","x":0.50000001}'), (200, json_type, b'{"x":0.5, "id":"b"}'))
    for other in [stream(text % (1, b"ac"), b"[DONE]"), stream(text % (1, b"ab")), (200, json_type, good[2]), (500, *good[1:]),
                  stream(text % (1, b"ab"), b'{"choices":[],"usage":{}}', b"[DONE]"), (*good, "the answer broke off"),
                  stream(b'{"id":"1","choices":[{"index":0,"delta":{"content":"ab"}}],"more":1}', b"[DONE]")]:
        assert differences(good, other), other
    for body in [b'{"x":1}', b'{"x":0.6}', b"{}", b"no json", b'{"x":0.5,"y":null}']:
        assert differences((200, json_type, b'{"x":0.5}'), (200, json_type, body)), body


run([the_comparison_finds_differences, the_gateway_answers_as_the_worker_does])
