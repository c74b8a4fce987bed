"""A gateway records what passes; simulate and what-if make something of it; what what-if says of kv's cache hits is what kv then has.

Only counts and contents are asserted. How near predicted times come to measured ones is a verdict of `make bench`
(benchmarks/what_if.py).
"""
import http.client
import json
import pathlib
import subprocess
import tempfile

from deployment import BINARY, deployment, eventually, metrics, run

WORKERS, SLOTS, KV_BLOCKS, TIME_SCALE = 3, 16, 2000, 10.0
FLEET = f"""deployment:
  workers:
    count: {WORKERS}
    block_size: 32
    kv_blocks: {KV_BLOCKS}
    max_batch_size: {SLOTS}
    max_num_tokens: 2048
    time_scale: {TIME_SCALE}
"""
WORKLOAD = """workload:
  seed: 5
  turns_min: 3
  turns_max: 4
  starters: 4
  starter_tokens_min: 600
  starter_tokens_max: 1200
  follow_up_tokens_min: 20
  follow_up_tokens_max: 120
  max_tokens: 30
  arrivals: poisson
"""


def kvist(*arguments, code=0):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=200)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def recorded(folder, mode, also=lambda front: None):
    """(path, head, rows) of the same conversations, recorded under a mode; how many the gateway says it completed."""
    path = pathlib.Path(folder) / f"{mode}.jsonl"
    workload = pathlib.Path(folder) / "workload.yaml"
    workload.write_text(WORKLOAD)
    with deployment(WORKERS, mode, kv_blocks=KV_BLOCKS, slots=SLOTS, time_scale=TIME_SCALE, record=path) as (front, _):
        kvist("loadgen", "--target", front.url, "--model", "test-model", "-f", workload, "--concurrency", 480, "--duration", "10s")
        also(front)
        eventually(lambda: metrics(front)["kvist_gateway_in_flight"] == 0, "all answered")
        counts = metrics(front)
        assert counts["kvist_gateway_record_lost_total"] == 0, counts
        eventually(lambda: metrics(front)["kvist_gateway_record_waiting"] == 0, "all written")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) - 1 == counts["kvist_gateway_requests_total"] == counts["kvist_gateway_record_requests_total"], counts
    return path, lines[0], lines[1:]


def leave_early(front):
    """A client that goes while its answer comes."""
    connection = http.client.HTTPConnection("127.0.0.1", front.ports["http"])
    connection.request("POST", "/v1/chat/completions", json.dumps({
        "model": "test-model", "stream": True, "max_tokens": 5000, "ignore_eos": True,
        "messages": [{"role": "user", "content": "a secret of mine that nobody should read " * 3}]}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    while b"content" not in answer.readline():
        pass
    connection.close()


def hit_rate(rows):
    return 100 * sum(row["cached_tokens"] for row in rows) / sum(row["input_length"] for row in rows)


def what_passed_is_in_the_record_and_its_texts_are_not():
    with tempfile.TemporaryDirectory() as folder:
        path, head, rows = recorded(folder, "round_robin", leave_early)
        assert head["kvist_record"] == 1 and head["tokens_per_hash"] == 32 and len(head["workers"]) == WORKERS, head
        text = path.read_text()
        assert "secret" not in text and "content" not in text, text[:2000]
        gone = [row for row in rows if row["outcome"] == "client_gone"]
        assert len(gone) == 1 and gone[0]["output_length"] > 0 and "session_id" not in gone[0], gone
        rows = [row for row in rows if row["outcome"] != "client_gone"]
        assert all(row["outcome"] == "completed" and row["mode"] == "round_robin" and row["stream"] for row in rows)
        assert all(len(row["hash_ids"]) == row["input_length"] // 32 for row in rows)
        assert all(0 < row["ttft_ms"] <= row["latency_ms"] and row["tpot_ms"] > 0 and row["output_length"] <= 30 for row in rows)
        served = [sum(row["worker"] == worker for row in rows) for worker in head["workers"]]
        assert max(served) - min(served) <= 2, served
        # Turns of one session go on from each other; sessions with one starter begin alike and then differ.
        sessions = {}
        for row in sorted(rows, key=lambda row: row["timestamp"]):
            sessions.setdefault(row["session_id"], []).append(row)
        assert 3 <= max(map(len, sessions.values())) <= 4, "conversations of three to four turns"
        for turns in sessions.values():
            for before, after in zip(turns, turns[1:]):
                assert after["hash_ids"][:len(before["hash_ids"])] == before["hash_ids"]
                assert after["timestamp"] >= before["timestamp"] + before["latency_ms"] - 0.002, "each waited for the answer before"
        assert len({turns[0]["hash_ids"][0] for turns in sessions.values()}) == 4, "starters"

        # The record is a trace to the simulator: as many turns, with as many tokens.
        sweep = pathlib.Path(folder) / "sweep.yaml"
        sweep.write_text(FLEET + f"name: again\nworkload: {{trace: {{file: {path.name}}}}}\nmodes: [kv]\nlevels: [1]\n"
                         "method: {warmup: 0 s, snapshots: 1, snapshot_interval: 60 s, window: 60 s}\n")
        said = kvist("simulate", "-f", sweep, "--output", pathlib.Path(folder) / "out")
        assert f"{len(rows) + 1} turns, 0 failed" in said, said


def what_if_says_what_kv_then_does():
    with tempfile.TemporaryDirectory() as folder:
        path, _, rows = recorded(folder, "round_robin")
        fleet, answer = pathlib.Path(folder) / "fleet.yaml", pathlib.Path(folder) / "answer.json"
        fleet.write_text(FLEET)
        # A machine that stands still now and then is no reason to refuse here: what is asserted does not depend on times.
        said = kvist("what-if", path, "-f", fleet, "--mode", "kv", "--workers", 2, "--max-error", 1e6, "--json", answer)
        assert "as it was" in said, said
        told = json.loads(answer.read_text())
        assert told["requests"] == len(rows) and told["refusal"] is None, told
        assert told["following"] == len(rows) - len({row["session_id"] for row in rows}), told
        cases = [(case["mode"], case["workers"]) for case in told["predictions"]]
        assert cases == [("round_robin", 3), ("kv", 3), ("round_robin", 2), ("kv", 2)], cases
        was, predicted = (case["figures"]["kv_hit_rate_pct"] for case in told["predictions"][:2])
        _, _, then = recorded(folder, "kv")
        last = max(row["timestamp"] for row in rows)
        compared = [row for row in rows if row["timestamp"] >= 0.1 * last]
        assert abs(was - hit_rate(compared)) < 6, ("round-robin's hit rate", was, hit_rate(compared))
        compared = [row for row in then if row["timestamp"] >= 0.1 * last]
        assert abs(predicted - hit_rate(compared)) < 6, ("kv's hit rate", predicted, hit_rate(compared))
        assert predicted > was + 3, (predicted, was)


def what_if_refuses_what_it_does_not_understand():
    with tempfile.TemporaryDirectory() as folder:
        path, _, _ = recorded(folder, "round_robin")
        rows = path.read_text().splitlines()
        # First tokens that no engine's steps explain: every third took a second.
        changed = [json.loads(row) for row in rows]
        for row in changed[1::3]:
            row["ttft_ms"] = row.get("ttft_ms", 0) + 1000
        path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in changed))
        fleet = pathlib.Path(folder) / "fleet.yaml"
        fleet.write_text(FLEET)
        said = kvist("what-if", path, "-f", fleet, "--mode", "kv", code=1)
        assert "Nothing is predicted: TTFT" in said and "does not meet what was recorded" in said, said
        fleet.write_text(FLEET.replace("count: 3", "count: 4"))
        said = kvist("what-if", path, "-f", fleet, code=1)
        assert "the record is of 3 workers and the deployment has 4" in said, said


run([what_passed_is_in_the_record_and_its_texts_are_not, what_if_says_what_kv_then_does, what_if_refuses_what_it_does_not_understand])
