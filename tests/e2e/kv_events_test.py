"""An independent subscriber decodes a worker's KV events and rebuilds exactly the content of its block pool.

Nothing of kvist is used to read them: Debian's python3-zmq and python3-msgpack, and the wire format of docs/formats/kv-events.md.
"""
import collections
import json
import random
import threading

import msgpack
import zmq

from deployment import DEADLINE_S, deployment, eventually, get_json, request, run

BLOCK_SIZE = 32
SEED = 20261121


class PoolView:
    """What the events say the pool holds: name -> copies, and name -> the tokens of its block and its parent."""

    def __init__(self):
        self.copies = collections.Counter()
        self.content = {}
        self.expected_sequence = 0

    def apply(self, sequence, payload):
        assert sequence == self.expected_sequence, (sequence, self.expected_sequence)
        self.expected_sequence += 1
        timestamp, events, *_ = msgpack.unpackb(payload)
        assert timestamp > 1.7e9
        for event in events:
            getattr(self, event["type"])(event)

    def BlockStored(self, event):
        names, tokens, parent = event["block_hashes"], event["token_ids"], event.get("parent_block_hash")
        assert event["block_size"] == BLOCK_SIZE and len(tokens) == len(names) * BLOCK_SIZE
        assert parent is None or self.copies[parent] > 0, "a block is stored under a parent that is not there"
        for i, name in enumerate(names):
            block = tuple(tokens[i * BLOCK_SIZE:(i + 1) * BLOCK_SIZE])
            assert self.content.setdefault(name, (parent, block)) == (parent, block), "one name, two contents"
            self.copies[name] += 1
            parent = name

    def BlockRemoved(self, event):
        for name in event["block_hashes"]:
            assert self.copies[name] > 0, "a block is removed that was not stored"
            self.copies[name] -= 1

    def AllBlocksCleared(self, event):
        self.copies.clear()

    def findable(self):
        return {name: count for name, count in self.copies.items() if count}

    def prefix(self, name):
        """All tokens from the start of the prompt to the end of this block."""
        tokens = ()
        while name is not None:
            parent, block = self.content[name]
            tokens, name = block + tokens, parent
        return tokens


class Subscriber:
    def __init__(self, worker):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.set_hwm(0)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.socket.connect(f"tcp://127.0.0.1:{worker.ports['kv_events']}")
        self.replay_endpoint = f"tcp://127.0.0.1:{worker.ports['kv_replay']}"

    def replay(self, start):
        dealer = self.context.socket(zmq.DEALER)
        dealer.connect(self.replay_endpoint)
        dealer.send_multipart([b"", start.to_bytes(8, "big")])
        frames = []
        while True:
            assert dealer.poll(DEADLINE_S * 1000), "the replay does not end"
            *_, sequence, payload = dealer.recv_multipart()
            if sequence == b"\xff" * 8:
                assert payload == b""
                break
            frames.append((int.from_bytes(sequence, "big"), payload))
        dealer.close()
        return frames

    def live(self, wait_ms=0):
        """What has come, or comes within `wait_ms` of what came before it."""
        frames = []
        while self.socket.poll(wait_ms):
            topic, sequence, payload = self.socket.recv_multipart()
            assert topic == b"", "vLLM's default, which its router insists on"
            frames.append((int.from_bytes(sequence, "big"), payload))
        return frames

    def join(self, worker, view):
        """Follows the live stream from here on without a gap. When a subscription takes effect nobody tells the subscriber: so
        blocks are stored until one is heard of, and what was before that comes by replay."""
        frames, number = [], 0
        while not frames:
            number += 1
            assert number < 1000, "nothing is ever published"
            status, _, text = request(worker.url + "/v1/completions", {"model": "test-model", "max_tokens": 1,
                                                                       "prompt": f"{number} " * BLOCK_SIZE})
            assert status == 200, text
            frames = self.live(100)
        for frame in self.replay(0):
            if frame[0] < frames[0][0]:
                view.apply(*frame)
        for frame in frames:
            view.apply(*frame)

    def close(self):
        self.socket.close(0)
        self.context.term()


def truth(worker):
    """The pool's content by the worker itself: name -> copies."""
    return {int(name): copies for name, copies in get_json(worker.url + "/debug/kv_blocks")["blocks"]}


def drive(worker, random_source, requests, words=900):
    """Chats in parallel that share starters, so that blocks are stored, hit, copied and evicted."""
    starters = [" ".join(random_source.choice("the river runs down to sea and back again".split()) for _ in range(words)) for _ in range(6)]

    answers = []

    def chat(content, seed):
        answers.append(request(worker.url + "/v1/chat/completions", {"model": "test-model", "max_tokens": 150, "seed": seed,
                                                                     "messages": [{"role": "user", "content": content}]}))

    threads = []
    for i in range(requests):
        content = random_source.choice(starters)[:random_source.randrange(200, 4000)]
        threads.append(threading.Thread(target=chat, args=(content, i)))
    for start in range(0, len(threads), 12):
        for thread in threads[start:start + 12]:
            thread.start()
        for thread in threads[start:start + 12]:
            thread.join()
    assert [status for status, _, _ in answers] == [200] * requests, answers


def rebuild(worker, subscriber, view):
    expected = truth(worker)

    def rebuilt():
        for frame in subscriber.live(100):
            view.apply(*frame)
        return view.findable() == expected

    eventually(rebuilt, "the events say what the pool holds")


def the_pool_is_rebuilt_exactly_under_eviction():
    print(f"seed {SEED}")
    source = random.Random(SEED)
    with deployment(workers=1, gateway=False, kv_blocks=700, time_scale=2000) as (_, workers):
        subscriber, view = Subscriber(workers[0]), PoolView()
        subscriber.join(workers[0], view)
        for _ in range(3):
            drive(workers[0], source, 36)
            rebuild(workers[0], subscriber, view)
        evictions = get_json(workers[0].url + "/debug/kv_blocks")["evictions"]
        assert evictions > 100, f"the pool was too large to show removals: {evictions}"
        assert request(workers[0].url + "/reset_prefix_cache", method="POST")[0] == 200
        rebuild(workers[0], subscriber, view)
        assert view.findable() == {}
        subscriber.close()


def late_subscribers_catch_up_by_replay():
    source = random.Random(SEED + 1)
    with deployment(workers=1, gateway=False, kv_blocks=700, time_scale=2000) as (_, workers):
        drive(workers[0], source, 24)
        subscriber, view = Subscriber(workers[0]), PoolView()
        for frame in subscriber.replay(0):
            view.apply(*frame)
        assert view.findable() == truth(workers[0]) != {}
        middle = view.expected_sequence // 2
        assert [sequence for sequence, _ in subscriber.replay(middle)] == list(range(middle, view.expected_sequence))
        subscriber.close()


def the_tokens_are_those_of_the_prompt():
    with deployment(workers=1, gateway=False, time_scale=2000) as (_, workers):
        subscriber, view = Subscriber(workers[0]), PoolView()
        messages = [{"role": "user", "content": "A sentence of some length about nothing. " * 9}]
        status, _, text = request(workers[0].url + "/v1/chat/completions", {"model": "test-model", "max_tokens": 100, "messages": messages})
        assert status == 200, text
        answer = json.loads(text)["choices"][0]["message"]["content"]
        for frame in subscriber.replay(0):
            view.apply(*frame)
        conversation = messages + [{"role": "assistant", "content": answer}]
        tokens = json.loads(request(workers[0].url + "/tokenize", {"messages": conversation})[2])["tokens"]
        longest = max((view.prefix(name) for name in view.findable()), key=len)
        assert list(longest) == tokens[:len(longest)]
        prompt_tokens = json.loads(text)["usage"]["prompt_tokens"]
        assert len(longest) > prompt_tokens, "blocks of the answer are findable too"
        subscriber.close()


run([the_pool_is_rebuilt_exactly_under_eviction, late_subscribers_catch_up_by_replay, the_tokens_are_those_of_the_prompt])
