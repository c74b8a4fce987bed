"""LoRA adapters and cache salts: adapters are served under their names, by the workers that have them, and no prompt under one identity
is taken for cached under another."""
import contextlib
import json
import tempfile

from deployment import Process, eventually, get_json, request, run
from engine_like_vllm import BLOCK_SIZE, EngineLikeVllm

PROMPT = "The same beginning for everybody, whatever adapter computes it. " * 4


def config_of(engines, mode="kv"):
    return ("gateway:\n  model: test-model\n  model_aliases: [alias]\n  block_size: 32\n  model_interval: 200 ms\n  health_interval: 200 ms\n"
            f"  mode: {mode}\n  workers:\n" + "".join(engine.yaml() for engine in engines))


@contextlib.contextmanager
def before(*engines, **settings):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for engine in engines:
            stack.callback(engine.close)
        gateway = Process(folder, "gateway", "gateway", config_of(engines, **settings))
        stack.callback(gateway.stop)
        eventually(lambda: all(w["healthy"] and w["index_exact"] for w in workers_of(gateway)), "workers healthy, their events whole")
        yield gateway


def workers_of(gateway):
    return get_json(gateway.admin + "/admin/status")["workers"]


def complete(gateway, model, prompt=PROMPT, **fields):
    """(worker, tokens predicted to be cached, tokens that were)."""
    status, head, text = request(gateway.url + "/v1/completions", {"model": model, "prompt": prompt, "max_tokens": 1, **fields})
    assert status == 200, (model, status, text)
    cached = json.loads(text)["usage"]["prompt_tokens_details"]["cached_tokens"]
    return head["x-kvist-worker"], int(head["x-kvist-predicted-cached-tokens"]), cached


def settled(gateway, engines):
    """All published blocks are in the index."""
    known = {worker["name"]: worker["indexed_blocks"] for worker in workers_of(gateway)}
    return all(known[engine.name] == len(engine.cached) for engine in engines)


def adapters_are_served_under_their_names():
    engines = EngineLikeVllm("worker-0", adapters=["alpha", "beta"]), EngineLikeVllm("worker-1", adapters=["beta"])
    with before(*engines, mode="round_robin") as gateway:
        listed = {card["id"]: card for card in get_json(gateway.url + "/v1/models")["data"]}
        assert {name: card.get("parent") for name, card in listed.items()} == \
            {"test-model": None, "alpha": "test-model", "beta": "test-model", "alias": None}, listed
        assert get_json(gateway.url + "/v1/models/alpha") == listed["alpha"]
        assert [worker["model"]["adapters"] for worker in workers_of(gateway)] == [["alpha", "beta"], ["beta"]]
        taken = {model: {complete(gateway, model, f"{i} {PROMPT}")[0] for i in range(12)} for model in ("alpha", "beta", "test-model", "alias")}
        assert taken["alpha"] == {"worker-0"}, taken
        assert taken["beta"] == taken["test-model"] == taken["alias"] == {"worker-0", "worker-1"}, taken
        models = {body["model"] for engine in engines for body in engine.bodies}
        assert models == {"alpha", "beta", "test-model"}, models
        decision = get_json(gateway.admin + "/admin/decisions?limit=48")["decisions"][-1]
        assert decision["adapter"] == "alpha" and len(decision["candidates"]) == 1, decision


def no_identity_is_taken_for_another():
    engines = [EngineLikeVllm("worker-0", adapters=["alpha", "beta"])]
    with before(*engines) as gateway:
        identities = [("test-model", {}), ("alpha", {}), ("beta", {}), ("test-model", {"cache_salt": "alpha"}), ("test-model", {"cache_salt": "s"}),
                      ("alpha", {"cache_salt": "s"}), ("beta", {"cache_salt": "alpha"})]
        whole = (len(PROMPT) - 1) // BLOCK_SIZE * BLOCK_SIZE
        for model, fields in identities:
            assert complete(gateway, model, **fields)[1:] == (0, 0), (model, fields, "nothing of it was computed yet")
            eventually(lambda: settled(gateway, engines), "its events are known")
        for model, fields in identities:
            assert complete(gateway, model, **fields)[1:] == (whole, whole), (model, fields)
            continued = PROMPT + "and then goes on in a way of its own for a while, to the end" + json.dumps(fields)
            assert complete(gateway, model, continued, **fields)[1] >= whole, (model, fields)
        assert [body.get("cache_salt") for body in engines[0].bodies[:len(identities)]] == [f.get("cache_salt") for _, f in identities]
        refused = request(gateway.admin + "/metrics")[2]
        assert 'kvist_gateway_worker_adapters{worker="worker-0"} 2' in refused, refused


def adapters_come_and_go():
    engines = EngineLikeVllm("worker-0", adapters=["alpha"]), EngineLikeVllm("worker-1", adapters=["alpha"])
    with before(*engines, mode="round_robin") as gateway:
        # It is gone from one worker: the next request there is refused, goes to the other, and nobody is ejected for it.
        engines[0].adapters.clear()
        for i in range(10):
            assert complete(gateway, "alpha", f"{i} {PROMPT}")[0] == "worker-1"
        eventually(lambda: [w["model"]["adapters"] for w in workers_of(gateway)] == [[], ["alpha"]], "the gateway notices")
        assert all(w["ejection"]["times"] == 0 and w["healthy"] for w in workers_of(gateway)), workers_of(gateway)
        assert complete(gateway, "test-model", "x")[0]
        # One that nobody has any more is refused in the worker's own words.
        engines[1].adapters.clear()
        eventually(lambda: not workers_of(gateway)[1]["model"]["adapters"], "the gateway notices")
        status, _, text = request(gateway.url + "/v1/completions", {"model": "alpha", "prompt": "x"})
        assert status == 404 and "does not exist" in text, (status, text)
        # A new one is served as soon as a worker lists it.
        engines[0].adapters.append("gamma")
        eventually(lambda: workers_of(gateway)[0]["model"]["adapters"] == ["gamma"], "the gateway notices")
        assert {complete(gateway, "gamma", f"{i} {PROMPT}")[0] for i in range(4)} == {"worker-0"}


run([adapters_are_served_under_their_names, no_identity_is_taken_for_another, adapters_come_and_go])
