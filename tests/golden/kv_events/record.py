#!/usr/bin/python3
"""Records the golden KV-event batches next to this file, one per published form, with Debian's python3-msgpack.

The encoder is not ours, so the files show that we read what others write. kv_event_golden_test.cc says what each of them
means. The same files seed the fuzz target. Run it again after a change and commit the result.
"""

import pathlib
import struct

import msgpack

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parents[1] / "fuzz" / "corpus" / "kv_events"

TS = 1754000000.25
TOKENS = [1, 200, 40000, 128000, 5, 6, 7, 8]
BIG = 0xFEDCBA9876543210
RAW_A = bytes(range(32))
RAW_B = bytes(range(32, 64))


def stored_map(**changes):
    event = {
        "type": "BlockStored",
        "block_hashes": [11, BIG],
        "parent_block_hash": None,
        "token_ids": TOKENS,
        "block_size": 4,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }
    event.update(changes)
    return event


def prompt_of(first, lora_id=None, lora_name=None, salt=None):
    """One prompt of three blocks under an identity, as vLLM publishes it: a chunk of two blocks, then the third."""
    def keys(salted):
        found = ([lora_name] if lora_name else []) + ([salt] if salt and salted else [])
        return found or None
    lora = {"lora_id": lora_id, "lora_name": lora_name}
    tokens = list(b"abcdefghijkl")
    return [stored_map(block_hashes=[first, first + 1], token_ids=tokens[:8], extra_keys=[keys(True), keys(False)], **lora),
            stored_map(block_hashes=[first + 2], parent_block_hash=first + 1, token_ids=tokens[8:], extra_keys=[keys(False)], **lora)]


def one_block(key, **changes):
    return stored_map(block_hashes=[key], token_ids=TOKENS[:4], **changes)


STORED = ["BlockStored", [11, BIG], None, TOKENS, 4, None, "GPU", None]
REMOVED = ["BlockRemoved", [10], "GPU"]
CLEARED = ["AllBlocksCleared"]

VARIANTS = {
    # What vLLM publishes now: array envelope, map events. Our encoder writes these bytes.
    "map_events": [TS, [stored_map(), {"type": "BlockRemoved", "block_hashes": [10], "medium": "GPU"},
                        {"type": "AllBlocksCleared"}], 2],
    # What it published before: everything positional.
    "array_events": [TS, [STORED, REMOVED, CLEARED], 2],
    "rank_nil": [TS, [STORED, REMOVED, CLEARED], None],
    "rank_missing": [TS, [STORED, REMOVED, CLEARED]],
    "map_envelope": {"ts": TS, "events": [STORED, stored_map(), REMOVED], "data_parallel_rank": 2, "node": "a"},
    "integer_timestamp": [1754000000, [REMOVED], -3],
    "signed_hashes": [TS, [["BlockStored", [-1, -(2**63)], -81985529216486896, TOKENS, 4, None, "GPU", None],
                           ["BlockRemoved", [-1], "GPU"]], None],
    "raw_hashes": [TS, [["BlockStored", [RAW_A, RAW_B], RAW_A, TOKENS, 4, None, "GPU", None],
                        {"type": "BlockRemoved", "block_hashes": [RAW_B], "medium": "GPU"}], None],
    # SGLang: a short tuple.
    "sglang": [TS, [["BlockStored", [11, 12], 10, TOKENS, 4, None], ["BlockRemoved", [11]], CLEARED], 0],
    "newer_trailing_fields": [
        TS,
        [STORED + [None, 3, "full_attention", None, "local", "owner", "from the future", {"a": [1, 2]}],
         REMOVED + [3, "full_attention", 4096, "local", "owner", "from the future"],
         ["AllBlocksCleared", "owner"]],
        None, "extra"],
    "newer_map_fields": [
        TS,
        [stored_map(extra_keys=None, group_idx=3, kv_cache_spec_kind="sliding_window",
                    kv_cache_spec_sliding_window=4096, locality="local", ownership=None, from_the_future=[1, {}]),
         {"medium": None, "group_idx": 3, "block_hashes": [10], "type": "BlockRemoved", 7: "seven"}],
        None],
    # A prompt with a salt, its continuation, a LoRA with and without a salt, images, and unknown keys.
    "extra_keys": [
        TS,
        [stored_map(extra_keys=[["salty"], None]),
         stored_map(parent_block_hash=9, extra_keys=[None, None]),
         stored_map(lora_id=1, lora_name="adapter", extra_keys=[["adapter", "salty"], ["adapter"]]),
         stored_map(lora_id=1, lora_name="adapter", extra_keys=[["adapter"], ["adapter"]]),
         stored_map(extra_keys=[None, [["imagehash", 3]]]),
         stored_map(extra_keys=[[["imagehash", -2], "salty"], None]),
         stored_map(parent_block_hash=9, extra_keys=[["no salt here"], None]),
         stored_map(extra_keys=[None, [b"prompt embeddings"]]),
         stored_map(extra_keys="unknown form"),
         stored_map(extra_keys=["unknown", {"form": 1}]),
         stored_map(lora_id=7),
         stored_map(lora_id=0)],
        None],
    # The same prompt under seven identities, and once for a LoRA of which only the number is known.
    "identities": [
        TS,
        prompt_of(10) + prompt_of(20, 1, "a") + prompt_of(30, 2, "b") + prompt_of(40, salt="s") + prompt_of(50, salt="t") +
        prompt_of(60, 1, "a", "s") + prompt_of(70, 2, "b", "a") + prompt_of(80, 3),
        None],
    "media": [TS, [one_block(i, medium=name) for i, name in enumerate(
        [None, "", "GPU", "DEVICE", "CPU", "CPU_PINNED", "CPU_TIER1", "CPU_TIER2", "DISK", "NVME", "STORAGE",
         "OBJECT_STORE"])], None],
    # vLLM's offloading connector says which blocks are in host memory now, and no more of them; SGLang says all again.
    "offloaded": [
        TS,
        [stored_map(),
         stored_map(medium="CPU", token_ids=[], block_size=0),
         {"type": "BlockRemoved", "block_hashes": [11, BIG], "medium": "GPU", "group_idx": 0},
         ["BlockStored", [21], None, TOKENS[:4], 4, None, "CPU_PINNED"],
         {"type": "BlockRemoved", "block_hashes": [BIG], "medium": "CPU"}],
        None],
    # One bad event never affects the others.
    "bad_events": [
        TS,
        [REMOVED,
         ["BlockUpdated", 1, 2], {"type": "BlockMoved"}, {"block_hashes": [1]}, [], 7, None, "BlockRemoved", [None],
         ["BlockRemoved"], ["BlockRemoved", 10], ["BlockRemoved", [1.5]], ["BlockRemoved", [10], 3],
         ["BlockStored", [11], None, TOKENS, 4, None], ["BlockStored", [11], None, [1, 2, -3, 4], 4, None],
         ["BlockStored", [11], None, [1, 2, 3, 2**32], 4, None], ["BlockStored", [11], [], TOKENS[:4], 4, None],
         ["BlockStored", [], None, [], 4, None], ["BlockStored", [11], None, [], -1, None],
         ["BlockStored", [11], None, TOKENS[:4], 4, None, "GPU", 5],
         CLEARED],
        None],
    "empty_batch": [TS, [], None],
    # Every part our encoder can write.
    "encoder": [
        TS,
        [stored_map(extra_keys=[["salty"], None]),
         stored_map(parent_block_hash=BIG, medium="CPU"),
         stored_map(lora_name="adapter", extra_keys=[["adapter", "salty"], ["adapter"]], medium="DISK", group_idx=300),
         stored_map(extra_keys=[[["other", 0]], None], medium="REMOTE"),
         stored_map(block_hashes=list(range(100, 120)), token_ids=list(range(65500, 65580))),
         {"type": "BlockRemoved", "block_hashes": [10, 2**32], "medium": "GPU", "group_idx": 70000},
         {"type": "AllBlocksCleared"}],
        -200],
}

# Written by no encoder; seeds for the fuzzer only.
HOSTILE = {
    "huge_array": b"\x92\xcb" + struct.pack(">d", TS) + b"\xdd\xff\xff\xff\xff",
    "deep_nesting": b"\x92\x00\x91" + b"\x91" * 5000 + b"\xc0",
    "huge_hash_list": b"\x92\x00\x91\x92\xacBlockRemoved\xdd\x7f\xff\xff\xff\x01",
    "never_used_byte": b"\x92\x00\x91\xc1",
    "all_kinds": msgpack.packb([TS, [[msgpack.ExtType(5, b"abcd"), msgpack.ExtType(5, b"x" * 300), 1.5, True, False,
                                      -1, -200, -40000, -(2**40), 2**63, "s" * 40, "s" * 300, b"b" * 300,
                                      list(range(20)), {i: i for i in range(20)}]]]),
}


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, batch in VARIANTS.items():
        payload = msgpack.packb(batch, use_bin_type=True)
        (HERE / f"{name}.bin").write_bytes(payload)
        (CORPUS / f"{name}.bin").write_bytes(payload)
    # Old encoders had only one type for bytes and text, so a raw hash looks like text.
    (HERE / "raw_hashes_as_text.bin").write_bytes(msgpack.packb(VARIANTS["raw_hashes"], use_bin_type=False))
    for name, payload in HOSTILE.items():
        (CORPUS / f"{name}.bin").write_bytes(payload)


if __name__ == "__main__":
    main()
