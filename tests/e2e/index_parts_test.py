"""A gateway that comes late before workers whose replay does not reach back learns their caches from another gateway of its group, and
knows and predicts from then on what that one does."""
import contextlib
import json
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import time
import uuid

from black_hole_test import metric
from deployment import BINARY, WORKER, Process, eventually, gateway_config, get_json, request, run
from engine_like_vllm import EngineLikeVllm
from nats_server import NatsServer

SEED = 20261126
# A worker refuses it after the gateway has routed it: the decision shows what the index says, and no cache changes.
REFUSED = {"max_tokens": 1, "logprobs": 1000}


# What a user of NATS needs, without the right to ask for parts of indexes or to answer.
SUBJECTS = '["parts.load.*", "$JS.API.>", "$KV.parts-fleet.>", "_INBOX.>"]'
RIGHTS = 'authorization {users: [{user: gateway, password: secret, permissions: {publish: %s, subscribe: %s}}]}\n' % (SUBJECTS, SUBJECTS)


class Scene:
    def __init__(self, folder, stack, nats, identity):
        self.folder, self.stack, self.nats, self.identity = folder, stack, nats, identity

    def engine(self, name, **settings):
        made = EngineLikeVllm(name, **settings)
        self.stack.callback(made.close)
        return made

    def worker(self, name, **settings):
        made = Process(self.folder, "worker", name, WORKER.format(name=name, slots=16, time_scale=2000.0, **settings))
        self.stack.callback(made.stop)
        return made

    def gateway(self, name, config, grouped=True):
        if grouped:
            config += f"  peers: {{nats: \"{self.nats.url}\", name: {name}, group: parts{self.identity}}}\n"
        made = Process(self.folder, "gateway", name, config)
        self.stack.callback(made.stop)
        eventually(lambda: all(worker["healthy"] for worker in workers_of(made).values()), "workers healthy")
        return made


@contextlib.contextmanager
def scene(rights=None):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        options, identity = [], ""
        if rights:
            pathlib.Path(folder, "nats.conf").write_text(rights)
            pathlib.Path(folder, "password").write_text("secret")
            options, identity = ["--config", f"{folder}/nats.conf"], f", user: gateway, password_file: {folder}/password"
        nats = NatsServer(folder, *options)
        stack.callback(nats.stop, signal.SIGKILL)
        yield Scene(folder, stack, nats, identity)


def config_of(engines):
    return ("gateway:\n  model: test-model\n  block_size: 32\n  mode: kv\n  drain_timeout: 1 s\n  connect_timeout: 60 s\n  model_interval: 200 ms\n"
            "  admission: {enabled: false}\n  workers:\n" + "".join(engine.yaml() for engine in engines))


def workers_of(gateway):
    return {worker["name"]: worker for worker in get_json(gateway.admin + "/admin/status")["workers"]}


def exact(gateway):
    return all(worker["index_exact"] for worker in workers_of(gateway).values())


def blocks_of(gateway):
    """Of each worker, in all media."""
    found = {}
    for name, worker in workers_of(gateway).items():
        found[name] = (worker["indexed_blocks"], worker.get("indexed_lower_tier_blocks"))
    return found


def parts_of(gateway):
    return get_json(gateway.admin + "/admin/peers")["models"][0]["index_parts"]


def serves_adapter(gateway):
    return "alpha" in {card["id"] for card in get_json(gateway.url + "/v1/models")["data"]}


def predicted(gateway, prompt, model="test-model", **fields):
    """The cached tokens of the prompt that the gateway expects at each worker."""
    number = f"probe-{uuid.uuid4()}"
    status, _, text = request(gateway.url + "/v1/completions", {"model": model, "prompt": prompt, **REFUSED, **fields},
                              headers={"X-Request-Id": number})
    assert status == 400, (status, text)
    decision = get_json(f"{gateway.admin}/admin/decisions?request={number}")["decisions"][0]
    return {entry["name"]: entry["cached_tokens"] for entry in decision["candidates"]}


def complete(gateway, prompt, model="test-model", tokens=1, **fields):
    status, _, text = request(gateway.url + "/v1/completions", {"model": model, "prompt": prompt, "max_tokens": tokens, **fields})
    assert status == 200, (status, text)


def prompts(source, count, words=40):
    starters = [" ".join(source.choice("the river runs down to the sea and back again".split()) for _ in range(words)) for _ in range(4)]
    return [source.choice(starters) + f" and then {source.random()} " * source.randrange(1, 12) for _ in range(count)]


def together(gateways, asked):
    threads = [threading.Thread(target=complete, args=(gateways[i % len(gateways)], prompt)) for i, prompt in enumerate(asked)]
    for start in range(0, len(threads), 8):
        for thread in threads[start:start + 8]:
            thread.start()
        for thread in threads[start:start + 8]:
            thread.join()


def equal_predictions(one, other, asked, **fields):
    """That there are some, and no two differ. A prompt under way counts as cached, at a peer as well, until word of its end has come: so one gateway is
    asked after the other, and not in the same moment."""
    def said(gateway):
        time.sleep(1.2)
        return [predicted(gateway, prompt, **fields) for prompt in asked]

    def same():
        first = said(one)
        return first == said(other) and any(sum(each.values()) > 0 for each in first)

    eventually(same, "both predict the same")


def a_late_gateway_knows_what_its_peer_knows():
    source = random.Random(SEED)
    print(f"seed {SEED}")
    with scene() as made:
        engines = [made.engine(f"worker-{i}", adapters=["alpha"], buffer_steps=3) for i in range(2)]
        first = made.gateway("gateway-a", config_of(engines))
        eventually(lambda: exact(first) and serves_adapter(first), "its events are whole from the start")
        asked = prompts(source, 24)
        for number, prompt in enumerate(asked):
            model = "alpha" if number % 3 == 0 else "test-model"
            complete(first, prompt, model, **({"cache_salt": "s"} if number % 4 == 0 else {}))
        engines[0].offload()
        engines[1].evict(5)
        for prompt in prompts(source, 6):
            complete(first, prompt)
        eventually(lambda: blocks_of(first)["worker-1"][0] == len(engines[1].cached), "the first has had all events")
        assert exact(first), "it has followed from the start"

        alone = made.gateway("gateway-alone", config_of(engines), grouped=False)
        late = made.gateway("gateway-b", config_of(engines))
        eventually(lambda: exact(late) and serves_adapter(late), "it has learned the caches")
        assert blocks_of(late) == blocks_of(first), (blocks_of(late), blocks_of(first))
        for fields in ({}, {"model": "alpha"}, {"cache_salt": "s"}, {"model": "alpha", "cache_salt": "s"}):
            equal_predictions(first, late, asked, **fields)
        parts = parts_of(late)
        assert (parts["taken"], parts["wanted"], parts["taking"], parts["last_problem"]) == (2, 0, None, ""), parts
        assert parts["taken_blocks"] >= sum(blocks for blocks, _ in blocks_of(first).values()), parts
        assert parts_of(first)["given"] == 2
        assert metric(late, "kvist_gateway_peer_parts_taken_total") == 2 == metric(first, "kvist_gateway_peer_parts_given_total")
        assert metric(late, "kvist_gateway_peer_parts_wanted") == 0
        log = open(late.log.name).read()
        assert "blocks of its cache are known from gateway-a" in log, log

        # One that has nobody to ask does not know them, from the same replays.
        assert not any(worker["index_exact"] for worker in workers_of(alone).values()), workers_of(alone)
        assert sum(blocks for blocks, _ in blocks_of(alone).values()) < sum(blocks for blocks, _ in blocks_of(first).values())
        known = [(sum(predicted(alone, prompt).values()), sum(predicted(first, prompt).values())) for prompt in asked]
        assert sum(a < b for a, b in known) > len(asked) // 3, known

        # From there on both follow the same events.
        for gateway in (late, first):
            together([gateway], prompts(source, 8))
        engines[0].evict(7)
        engines[0].lose_host_memory()
        eventually(lambda: blocks_of(late) == blocks_of(first) and exact(late) and exact(first), "both follow on")
        equal_predictions(first, late, asked)


def under_load_nothing_is_missed():
    source = random.Random(SEED + 1)
    with scene() as made:
        engines = [made.engine(f"worker-{i}", buffer_steps=2) for i in range(2)]
        first = made.gateway("gateway-a", config_of(engines))
        eventually(lambda: exact(first), "its events are whole from the start")
        together([first], prompts(source, 30))
        over = threading.Event()

        def load():
            while not over.is_set():
                complete(first, source.choice("abcdef") * source.randrange(100, 900) + str(source.random()))
                engines[source.randrange(2)].evict(2)

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for name in ("gateway-b", "gateway-c"):
                late = made.gateway(name, config_of(engines))
                eventually(lambda: exact(late), f"{name} has learned the caches while they change")
        finally:
            over.set()
            for thread in threads:
                thread.join()
        for engine in engines:
            eventually(lambda: all(blocks_of(gateway)[engine.name][0] == len(engine.cached) for gateway in (first, late)), "and has missed nothing")
        assert exact(late) and exact(first)


def workers_without_replay_are_learned_too():
    """kvist's own workers under eviction, of which a gateway that comes late hears new events only."""
    source = random.Random(SEED + 2)
    with scene() as made:
        workers = [made.worker(f"worker-{i}", kv_blocks=300) for i in range(2)]
        config = gateway_config(workers, "kv", patient=True)
        without_replay = "\n".join(line for line in config.splitlines() if "kv_replay" not in line) + "\n"
        first = made.gateway("gateway-a", config)
        together([first], prompts(source, 60, words=200))
        late = made.gateway("gateway-b", without_replay)

        def learned():
            together([first], prompts(source, 4, words=200))
            return exact(late) and parts_of(late)["taken"] == 2

        eventually(learned, "the first event of each shows what is missing, and the peer has it")

        def truth():
            return {worker.name: len(get_json(worker.admin + "/debug/kv_blocks")["blocks"]) for worker in workers}

        asked = prompts(source, 30, words=200)
        together([first, late], asked)
        eventually(lambda: {name: blocks for name, (blocks, _) in blocks_of(late).items()} == truth(), "the late one knows what they hold")
        assert exact(late) and sum(get_json(worker.admin + "/debug/kv_blocks")["evictions"] for worker in workers) > 50
        equal_predictions(first, late, asked[::3] + ["x" * 3000])


def who_knows_nothing_helps_nobody():
    source = random.Random(SEED + 3)
    with scene() as made:
        engine = made.engine("worker-0", buffer_steps=2)
        for prompt in prompts(source, 10):
            engine.complete({"model": "test-model", "prompt": prompt})
        pair = [made.gateway(name, config_of([engine])) for name in ("gateway-a", "gateway-b")]
        for gateway in pair:
            eventually(lambda: metric(gateway, "kvist_gateway_peer_parts_failed_total", reason="not_exact") > 0, "it has asked")
            assert not exact(gateway) and parts_of(gateway)["taken"] == 0
            assert parts_of(gateway)["wanted"] == 1 and "not_exact" in parts_of(gateway)["last_problem"], parts_of(gateway)
        # A cache that is emptied is known to both.
        with engine.lock:
            engine.cached = {}
            engine.publish({"type": "AllBlocksCleared"})
        eventually(lambda: all(exact(gateway) and parts_of(gateway)["wanted"] == 0 for gateway in pair), "both know it")


def a_worker_that_restarts_is_followed():
    source = random.Random(SEED + 4)
    with scene() as made:
        engine = made.engine("worker-0", buffer_steps=2)
        first = made.gateway("gateway-a", config_of([engine]))
        eventually(lambda: exact(first), "its events are whole from the start")
        together([first], prompts(source, 10))
        late = made.gateway("gateway-b", config_of([engine]))
        eventually(lambda: exact(late) and blocks_of(late) == blocks_of(first), "it has learned the cache")
        engine.restart()
        together([late], prompts(source, 4))
        eventually(lambda: all(exact(g) and blocks_of(g)["worker-0"][0] == len(engine.cached) for g in (first, late)), "both have the new run only")


def gateways_that_stop_are_not_waited_for():
    source = random.Random(SEED + 5)
    with scene() as made:
        engine = made.engine("worker-0", buffer_steps=2)
        first = made.gateway("gateway-a", config_of([engine]))
        second = made.gateway("gateway-b", config_of([engine]))
        eventually(lambda: exact(first) and exact(second), "their events are whole from the start")
        together([first, second], prompts(source, 12))
        second.process.send_signal(signal.SIGSTOP)
        try:
            late = made.gateway("gateway-c", config_of([engine]))
            eventually(lambda: exact(late) and blocks_of(late) == blocks_of(first), "the one that lives has it")
        finally:
            second.process.send_signal(signal.SIGCONT)
        # Hostile answers and requests are of no consequence.
        for subject in ("parts.index.0123456789abcdef.0123456789abcdef", "parts.index.x"):
            made.nats.publish(subject, b"\x96\x01")
        assert exact(late) and json.loads(request(late.url + "/health")[2])["peers"] == "together"


def who_may_not_ask_shares_loads_all_the_same():
    source = random.Random(SEED + 6)
    with scene(RIGHTS) as made:
        engine = made.engine("worker-0", buffer_steps=2)
        first = made.gateway("gateway-a", config_of([engine]))
        eventually(lambda: exact(first), "its events are whole from the start")
        together([first], prompts(source, 8))
        late = made.gateway("gateway-b", config_of([engine]))
        eventually(lambda: metric(late, "kvist_gateway_peer_parts_failed_total", reason="no_answer") > 0, "it has asked for nothing")
        assert parts_of(late)["wanted"] == 1 and not exact(late), parts_of(late)
        for gateway in (first, late):
            assert metric(gateway, "kvist_gateway_peers") == 1 and json.loads(request(gateway.url + "/health")[2])["peers"] == "together"
        found = subprocess.run([BINARY, "doctor", "--gateway", late.admin, "--json"], capture_output=True, text=True, timeout=100)
        assert "peers_lack_caches" in {finding["id"] for finding in json.loads(found.stdout)["findings"]}, found.stdout


run([a_late_gateway_knows_what_its_peer_knows, under_load_nothing_is_missed, workers_without_replay_are_learned_too, who_knows_nothing_helps_nobody,
     a_worker_that_restarts_is_followed, gateways_that_stop_are_not_waited_for, who_may_not_ask_shares_loads_all_the_same])
