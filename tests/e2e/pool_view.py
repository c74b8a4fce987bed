"""The content of a worker's prefix cache, rebuilt from its KV events by a subscriber that uses nothing of kvist.

Only Debian's python3-zmq and python3-msgpack, and the wire format of docs/formats/kv-events.md."""
import collections

import msgpack
import zmq

from deployment import DEADLINE_S, request

BLOCK_SIZE = 32


class PoolView:
    """The pool's content by the events: hash -> copies, and hash -> the tokens of its block and its parent."""

    def __init__(self):
        self.copies = collections.Counter()
        self.content = {}
        self.keyed = set()     # names of blocks with keys beside their tokens: a salt, an adapter
        self.expected_sequence = 0
        self.last_events = []  # of the batch applied last

    def apply(self, sequence, payload):
        assert sequence == self.expected_sequence, (sequence, self.expected_sequence)
        self.expected_sequence += 1
        timestamp, events, *_ = msgpack.unpackb(payload)
        assert timestamp > 1.7e9
        self.last_events = events
        for event in events:
            getattr(self, event["type"])(event)

    def BlockStored(self, event):
        names, tokens, parent = event["block_hashes"], event["token_ids"], event.get("parent_block_hash")
        assert event["block_size"] == BLOCK_SIZE and len(tokens) == len(names) * BLOCK_SIZE
        assert parent is None or self.copies[parent] > 0, "a block is stored under a parent that is not there"
        keys = event.get("extra_keys") or [None] * len(names)
        self.keyed.update(name for name, key in zip(names, keys) if key)
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
        """The frames that have arrived or arrive within `wait_ms` of the previous one."""
        frames = []
        while self.socket.poll(wait_ms):
            topic, sequence, payload = self.socket.recv_multipart()
            assert topic == b"", "vLLM's default, which its router insists on"
            frames.append((int.from_bytes(sequence, "big"), payload))
        return frames

    def join(self, worker, view):
        """Follows the live stream from here on without a gap. ZeroMQ does not report when a subscription takes effect: so blocks
        are stored until an event arrives, and the earlier events come by replay."""
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
