"""What mode kv is told beside what it learns: weights of other media than device memory, the bound of new workers, sessions that stay."""
import contextlib
import json
import pathlib
import subprocess
import tempfile

from deployment import BINARY, Process, eventually, get_json, request, run
from engine_like_vllm import BLOCK_SIZE, EngineLikeVllm

PROMPT = "A prompt of some length, that one worker has and the others do not have. " * 8
WHOLE = (len(PROMPT) - 1) // BLOCK_SIZE * BLOCK_SIZE


@contextlib.contextmanager
def before(*engines, settings=""):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for engine in engines:
            stack.callback(engine.close)
        config = "gateway:\n  model: test-model\n  mode: kv\n  block_size: 32\n  health_interval: 200 ms\n" + settings
        gateway = Process(folder, "gateway", "gateway", config + "  workers:\n" + "".join(engine.yaml() for engine in engines))
        stack.callback(gateway.stop)
        eventually(lambda: all(w["healthy"] and w["index_exact"] for w in workers_of(gateway).values()), "workers healthy, their events whole")
        yield gateway


def workers_of(gateway):
    return {worker["name"]: worker for worker in get_json(gateway.admin + "/admin/status")["workers"]}


def complete(gateway, prompt=PROMPT, **fields):
    """(worker, tokens predicted to be cached)."""
    status, head, text = request(gateway.url + "/v1/completions", {"model": "test-model", "prompt": prompt, "max_tokens": 1, **fields})
    assert status == 200, (status, text)
    return head["x-kvist-worker"], int(head["x-kvist-predicted-cached-tokens"])


def explained(gateway):
    """The latest decision, and what kvist explain says of it."""
    status, _, text = request(gateway.admin + "/admin/decisions?limit=1")
    assert status == 200, text
    decision = json.loads(text)["decisions"][0]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "decisions.json"
        file.write_text(text)
        done = subprocess.run([BINARY, "explain", file, "--request", decision["request"]], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return decision, done.stdout


def blocks_in_host_memory_count_by_their_weight():
    engines = [EngineLikeVllm(f"worker-{i}") for i in range(3)]
    with before(*engines) as gateway:
        home = complete(gateway)[0]
        engine = next(engine for engine in engines if engine.name == home)
        blocks = len(engine.cached)
        eventually(lambda: workers_of(gateway)[home]["indexed_blocks"] == blocks, "its events are known")
        engine.offload()
        eventually(lambda: workers_of(gateway)[home]["indexed_lower_tier_blocks"]["cpu"] == blocks and
                   workers_of(gateway)[home]["indexed_blocks"] == 0, "they are in host memory only")
        assert f'kvist_gateway_kv_index_lower_tier_blocks{{worker="{home}",medium="cpu"}} {blocks}' in request(gateway.admin + "/metrics")[2]
        # A moment after a request its blocks count as on the device, whatever the events say.
        prompt = PROMPT + "And it goes on."
        eventually(lambda: complete(gateway, prompt) == (home, WHOLE), "it goes where the blocks are, and all are predicted to be cached")
        whole = WHOLE // BLOCK_SIZE
        decision, text = explained(gateway)
        candidate = next(c for c in decision["candidates"] if c["name"] == home)
        assert candidate["lower_tier_blocks"] >= whole - 1, candidate
        assert f"{candidate['lower_tier_blocks']} blocks lower" in text, text
        engine.lose_host_memory()
        eventually(lambda: workers_of(gateway)[home]["indexed_lower_tier_blocks"]["cpu"] == 0, "they are gone")


def a_new_worker_begins_with_few_requests():
    old, new = EngineLikeVllm("worker-0"), EngineLikeVllm("worker-1")
    with before(old, settings="  warm_up: {requests: 1, until_answers: 3}\n  max_workers: 4\n") as gateway, contextlib.closing(new):
        assert workers_of(gateway)["worker-0"]["most_waiting"] == 0, "it was there from the start"
        body = {"name": new.name, "url": new.url, "kv_events": f"tcp://127.0.0.1:{new.events_port}", "kv_replay": f"tcp://127.0.0.1:{new.replay_port}"}
        status, _, text = request(gateway.admin + "/admin/workers", body, method="POST")
        assert status in (200, 201), (status, text)
        eventually(lambda: workers_of(gateway).get("worker-1", {}).get("healthy"), "the new one is healthy")
        assert workers_of(gateway)["worker-1"]["most_waiting"] == 1
        assert 'kvist_gateway_worker_most_waiting{worker="worker-1"} 1' in request(gateway.admin + "/metrics")[2]
        numbers = iter(range(1000))
        eventually(lambda: complete(gateway, f"{next(numbers)} {PROMPT}") and len(new.bodies) >= 3, "it is tried")
        eventually(lambda: workers_of(gateway)["worker-1"]["most_waiting"] == 0, "and known after three answers")


def a_session_stays_until_its_worker_drains():
    engines = [EngineLikeVllm(f"worker-{i}") for i in range(3)]
    with before(*engines, settings="  session_affinity: {form: hard, ttl: 1 min}\n") as gateway:
        homes = {user: complete(gateway, f"{user} begins", user=user)[0] for user in ("ann", "bob", "cid", "dan")}
        for i in range(5):
            for user, home in homes.items():
                assert complete(gateway, f"{i} something else altogether {user}", user=user)[0] == home
        decision, text = explained(gateway)
        assert decision["session_worker"] == decision["chosen"] and f"was at {homes['dan']}" in text, (decision, text)
        gone = homes["ann"]
        status, _, text = request(gateway.admin + "/admin/workers/drain", {"name": gone}, method="POST")
        assert status in (200, 202), (status, text)
        next_home = complete(gateway, "where now?", user="ann")[0]
        assert next_home != gone
        assert all(complete(gateway, f"and {i}?", user="ann")[0] == next_home for i in range(5))
        page = request(gateway.admin + "/metrics")[2]
        # When the drained worker has left its place, what was remembered of it is gone, and its sessions are new ones.
        stayed = 1 + sum(home != gone for home in homes.values())
        assert f"kvist_gateway_sessions {stayed}\n" in page or "kvist_gateway_sessions 4\n" in page, page
        assert 'kvist_gateway_session_requests_total{at="same_worker"} 25' in page, page


run([blocks_in_host_memory_count_by_their_weight, a_new_worker_begins_with_few_requests, a_session_stays_until_its_worker_drains])
