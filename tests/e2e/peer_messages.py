"""Messages between gateways, written and read without kvist's code (docs/formats/peers.md)."""
import struct

import msgpack

MASK = (1 << 64) - 1


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def mix(*parts):
    state = 0x6B76697374
    for part in parts:
        z = ((state ^ part) + 0x9E3779B97F4A7C15) & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        state = z ^ z >> 31
    return state


def worker_key(name):
    return mix(fnv("worker"), fnv(name))


def model_key(name):
    return f"{mix(fnv('name between gateways'), fnv(name)):016x}"


def routed(attempt, worker, prompt=400, uncached=300, known=100, own=20, new=22, flags=1, output=0, session=0, blocks=None):
    packed = None if blocks is None else struct.pack(f"<{len(blocks)}Q", *blocks)
    return [attempt, worker_key(worker), prompt, uncached, known, own, new, flags, output, session, packed]


def message(gateway, run, sequence, *events):
    return msgpack.packb([2, gateway, run, sequence, list(events)])
