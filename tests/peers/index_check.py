"""Compares a gateway's KV index with a replay of the worker's raw events: the number of blocks, and the predictions for single prompts."""
import random
import time
import uuid

from deployment import eventually, get_json, request
from pool_view import BLOCK_SIZE, PoolView, Subscriber

# vLLM refuses it after the gateway has routed it: the decision reveals the index's content, and no cache changes.
REFUSED = {"model": "test-model", "max_tokens": 1, "logprobs": 1000}


class Follower:
    """Follows one run of a worker from its start."""

    def __init__(self, worker):
        self.worker, self.subscriber, self.view = worker, Subscriber(worker), PoolView()
        self.subscriber.join(worker, self.view)

    def held(self):
        """Hashes of the blocks that the worker holds now, by the events."""
        for frame in self.subscriber.live():
            self.view.apply(*frame)
        return set(self.view.findable())

    def paths(self, names):
        """The blocks without children: their tokens from the start of the prompt on. Without salted prompts."""
        parents = {self.view.content[name][0] for name in names}
        return [self.view.prefix(name) for name in sorted(names - parents) if self.root(name) not in self.view.keyed]

    def root(self, name):
        while self.view.content[name][0] is not None:
            name = self.view.content[name][0]
        return name

    def depth(self, tokens):
        """The length of these tokens' longest prefix that the blocks held now cover."""
        held = {self.view.content[name]: name for name in self.view.findable() if name not in self.view.keyed}
        parent, depth = None, 0
        while depth + BLOCK_SIZE <= len(tokens):
            name = held.get((parent, tuple(tokens[depth:depth + BLOCK_SIZE])))
            if name is None:
                break
            parent, depth = name, depth + BLOCK_SIZE
        return depth

    def close(self):
        self.subscriber.close()


def status_of(gateway, name):
    return next(worker for worker in get_json(gateway.admin + "/admin/status")["workers"] if worker["name"] == name)


def predicted(gateway, name, tokens):
    """The gateway's prediction of the worker's cached tokens of this prompt."""
    number = f"probe-{uuid.uuid4()}"
    status, _, text = request(gateway.url + "/v1/completions", {**REFUSED, "prompt": list(tokens)}, headers={"X-Request-Id": number})
    assert status == 400, (status, text)
    decision = get_json(f"{gateway.admin}/admin/decisions?request={number}")["decisions"][0]
    return next(entry["cached_tokens"] for entry in decision["candidates"] if entry["name"] == name)


def compare(gateway, follower, samples=20, seconds=30):
    """(blocks by the raw events, blocks in the index, prompts asked for, predictions of them that are right). Waits for the events
    that are still in flight."""
    name = follower.worker.name
    end, looks = time.monotonic() + seconds, []
    # Unchanged in three successive reads: no event is in flight any more.
    while time.monotonic() < end and not (len(looks) >= 3 and len(set(looks[-3:])) == 1 and looks[-1][0] == looks[-1][1]):
        looks.append((status_of(gateway, name)["indexed_blocks"], len(follower.held())))
        time.sleep(0.3)
    held = follower.held()
    gone = set(follower.view.content) - held
    source = random.Random(len(held))
    right = asked = 0
    for names in (held, gone):
        paths = follower.paths(names)
        for path in source.sample(paths, min(samples, len(paths))):
            prompt = path[:2000] + (1,)  # the last token is always computed
            asked += 1
            said, true = predicted(gateway, name, prompt), follower.depth(prompt)
            right += said == true
            if said != true:
                print(f"        {name}: {said} of {len(prompt)} tokens predicted, {true} held", flush=True)
    return len(held), status_of(gateway, name)["indexed_blocks"], asked, right


def check_equal(report, what, gateway, follower):
    """A line of the report: the index equals the raw events' content."""
    held, indexed, asked, right = compare(gateway, follower)
    return report.check(f"{what}: the index equals the raw events", held == indexed and right == asked,
                        f"{held} blocks held, {indexed} indexed; {right} of {asked} predictions right")


def await_known(gateway, names, seconds=60):
    """Waits until the workers are healthy and their tokenizers are compared."""
    eventually(lambda: all(status_of(gateway, name)["healthy"] and status_of(gateway, name)["tokenizer"] != "unknown" for name in names),
               "workers known", seconds)
