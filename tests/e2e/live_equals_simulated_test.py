"""The same sweep on real processes and in virtual time: the same turns, tokens, cache hits and routing decisions.

Only counts are compared here, where timing cannot change them; times are a verdict of `make bench` (benchmarks/live_vs_simulated.py).
"""
import pathlib
import sqlite3
import subprocess
import tempfile

from deployment import BINARY, run

# One conversation each half second, over long before the next one: every decision is determined. The last one starts 0.4 s before
# the load stops.
SWEEP = """name: counts
deployment:
  workers:
    count: 3
    block_size: 32
    kv_blocks: {kv_blocks}
    max_batch_size: 8
    max_num_tokens: 512
    time_scale: 100
    output_length: {{mean_tokens: 40, standard_deviation_tokens: 10}}
workload:
  seed: 3
  turns_min: 3
  turns_max: 3
  starters: 2
  starter_tokens_min: 600
  starter_tokens_max: 900
  max_tokens: 60
  target_rps: 2
method: {{warmup: 2 s, snapshots: 2, snapshot_interval: 2.2 s, window: 2 s, drain_timeout: 20 s}}
modes: [round_robin, kv]
levels: [4]
"""
CONVERSATIONS = 13  # at 0, 0.5, ... 6.0 s; the load stops at 6.4 s


def measure(folder, command, text):
    path = pathlib.Path(folder) / "sweep.yaml"
    path.write_text(text)
    output = pathlib.Path(folder) / command
    done = subprocess.run([BINARY, command, "-f", path, "--output", output], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return sqlite3.connect(next(output.glob("counts-*")) / "results.sqlite")


def turns(database, mode):
    """Each turn in the order of sending, with what must not depend on time."""
    return database.execute(
        "SELECT conversation, turn, outcome, worker, prompt_tokens, cached_tokens, completion_tokens, chunks "
        "FROM turns JOIN levels ON turns.level = levels.id WHERE mode = ? ORDER BY sent_ns", (mode,)).fetchall()


def worker_counters(database, mode):
    return database.execute(
        "SELECT worker, prefix_query_tokens, prefix_hit_tokens, prompt_tokens, prefilled_tokens, generated_tokens, evictions, preemptions "
        "FROM workers JOIN levels ON workers.level = levels.id WHERE mode = ? ORDER BY worker", (mode,)).fetchall()


def in_order_of_use(turns, workers):
    """The same with workers numbered in the order of their first turn. The deployer's own first request, which proves that a live
    deployment answers, takes the first place of the rotation: which worker is the first is not part of the comparison."""
    number = {}
    for turn in turns:
        number.setdefault(turn[3], len(number))
    return ([turn[:3] + (number[turn[3]],) + turn[4:] for turn in turns],
            sorted((number[worker[0]],) + worker[1:] for worker in workers if worker[0] in number))


def both(text):
    with tempfile.TemporaryDirectory() as folder:
        databases = [measure(folder, command, text) for command in ("sweep", "simulate")]
        return {mode: [in_order_of_use(turns(d, mode), worker_counters(d, mode)) for d in databases] for mode in ("round_robin", "kv")}


def check_equal(results):
    for mode, ((live_turns, live_workers), (simulated_turns, simulated_workers)) in results.items():
        assert len(live_turns) == 3 * CONVERSATIONS, (mode, len(live_turns))
        assert all(turn[2] == "succeeded" for turn in live_turns), live_turns
        for a, b in zip(live_turns, simulated_turns):
            assert a == b, (mode, "live", a, "simulated", b)
        assert len(live_turns) == len(simulated_turns), mode
        assert live_workers == simulated_workers, (mode, live_workers, simulated_workers)


def turns_hits_and_decisions_are_the_same():
    results = both(SWEEP.format(kv_blocks=2000))
    check_equal(results)
    hits = {mode: sum(turn[5] for turn in results[mode][0][0]) for mode in results}
    assert hits["kv"] > hits["round_robin"] > 0, hits


def under_eviction_too():
    # Hardly more than one conversation fits: the caches forget, and both must forget the same.
    results = both(SWEEP.format(kv_blocks=60).replace("    max_batch_size", "    max_model_len: 1600\n    max_batch_size"))
    check_equal(results)
    assert all(sum(worker[6] for worker in results[mode][0][1]) > 0 for mode in results), "evictions"


run([turns_hits_and_decisions_are_the_same, under_eviction_too])
