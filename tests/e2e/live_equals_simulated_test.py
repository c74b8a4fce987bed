"""The same sweep on real processes and in virtual time: the same turns, tokens, cache hits, engine steps and routing decisions.

Only counts are compared here, where timing cannot change them; times are a verdict of `make bench` (benchmarks/live_vs_simulated.py).

Engine steps are equal, kind by kind, while a worker has one request at a time: its prompt takes so many chunks, its answer a step per
token. Where requests meet on one worker they are not, and cannot be: whether the second one arrives just before or just after a
step begins decides whether its prompt rides in that step or in the next, and with it how many steps are mixed, how many chunks
fill up, and when both end. In virtual time the instant of arrival is exact; a socket and a scheduler of an operating system move
it by a fraction of a millisecond. What the steps compute together (tokens, hits) is the same again. Step for step under full batches
the simulator is held against engines driven by hand (tests/simulation/hand_driven_test.cc).
"""
import pathlib
import sqlite3
import subprocess
import tempfile

from deployment import BINARY, run

# One conversation each second, which ends long before the next one (its three turns take 0.3 s): every decision is
# determined. The load stops half a second after the last one has started, and before the next would. A cached prefix
# saves several milliseconds, so that disturbances of the machine do not outweigh it in the router's observations.
SWEEP = """name: counts
deployment:
  workers:
    count: 3
    block_size: 32
    kv_blocks: {kv_blocks}
    max_batch_size: 8
    max_num_tokens: 512
    time_scale: 10
    output_length: {{mean_tokens: 40, standard_deviation_tokens: 10}}
workload:
  seed: 3
  turns_min: 3
  turns_max: 3
  starters: 2
  starter_tokens_min: 600
  starter_tokens_max: 900
  max_tokens: 60
  target_rps: 1
method: {{warmup: 2 s, snapshots: 2, snapshot_interval: 2.75 s, window: 2 s, drain_timeout: 60 s}}
modes: [round_robin, kv]
levels: [4]
"""
TURNS = 8 * 3  # conversations at 0, 1, ... 7 s; the load stops at 7.5 s

# Two conversations at a time on two workers, in an order that nothing disturbs: one begins each 3.3 s, every turn takes
# 1.3 to 1.4 s, so any two decisions lie at least 0.55 s apart, and none meets another request on its worker. In mode
# kv, if idle workers are otherwise equal, the observed times to first token decide where a new text goes, and those
# depend on the machine: so both modes here use counts only.
OVERLAPPING = SWEEP
for old, new in (("count: 3", "count: 2"), ("time_scale: 10", "time_scale: 1"), ("target_rps: 1", "target_rps: 0.3"),
                 ("mean_tokens: 40, standard_deviation_tokens: 10", "mean_tokens: 60, standard_deviation_tokens: 0"),
                 ("snapshot_interval: 2.75 s", "snapshot_interval: 5 s"),
                 ("modes: [round_robin, kv]", "modes: [round_robin, least_loaded]"), ("turns_min: 3", "turns_min: 4"),
                 ("turns_max: 3", "turns_max: 4"), ("starters: 2", "starters: 50")):
    assert old in SWEEP, old
    OVERLAPPING = OVERLAPPING.replace(old, new)
OVERLAPPING_TURNS = 3 * 4 + 2  # conversations at 0, 3.3, 6.7, 10 s; the load stops at 12 s, 0.6 s after one turn and before the next


def measure(folder, command, text):
    path = pathlib.Path(folder) / "sweep.yaml"
    path.write_text(text)
    output = pathlib.Path(folder) / command
    done = subprocess.run([BINARY, command, "-f", path, "--output", output], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return sqlite3.connect(next(output.glob("counts-*")) / "results.sqlite")


def turns(database, mode):
    """The turns in the order of sending, which is that of the routing decisions, with the fields that must not depend on time."""
    return database.execute(
        "SELECT conversation, turn, outcome, worker, prompt_tokens, cached_tokens, completion_tokens, chunks "
        "FROM turns JOIN levels ON turns.level = levels.id WHERE mode = ? ORDER BY sent_ns", (mode,)).fetchall()


def worker_counters(database, mode):
    return database.execute(
        "SELECT workers.worker, prefix_query_tokens, prefix_hit_tokens, prompt_tokens, prefilled_tokens, generated_tokens, evictions, "
        "preemptions, engine_steps.prefill, engine_steps.mixed, engine_steps.decode "
        "FROM workers JOIN levels ON workers.level = levels.id "
        "JOIN engine_steps ON engine_steps.level = levels.id AND engine_steps.worker = workers.position "
        "WHERE mode = ? ORDER BY workers.worker", (mode,)).fetchall()


def in_order_of_use(turns, workers):
    """The same with workers numbered in the order of their first turn. The deployer's own first request, which proves that a live
    deployment answers, takes the first place of the rotation: which worker is the first is not part of the comparison."""
    number = {}
    for turn in turns:
        number.setdefault(turn[3], len(number))
    return ([turn[:3] + (number[turn[3]],) + turn[4:] for turn in turns],
            sorted((number[worker[0]],) + worker[1:] for worker in workers if worker[0] in number))


def both(text, modes=("round_robin", "kv")):
    with tempfile.TemporaryDirectory() as folder:
        databases = [measure(folder, command, text) for command in ("sweep", "simulate")]
        return {mode: [in_order_of_use(turns(d, mode), worker_counters(d, mode)) for d in databases] for mode in modes}


def check_equal(results, count=TURNS, one_at_a_time=True):
    for mode, ((live_turns, live_workers), (simulated_turns, simulated_workers)) in results.items():
        assert len(live_turns) == count, (mode, len(live_turns))
        assert all(turn[2] == "succeeded" for turn in live_turns), live_turns
        for a, b in zip(live_turns, simulated_turns):
            assert a == b, (mode, "live", a, "simulated", b)
        assert len(live_turns) == len(simulated_turns), mode
        if not one_at_a_time:
            # Which steps concurrent conversations share depends on real time: everything but the steps must be equal.
            assert [w[:8] for w in live_workers] == [w[:8] for w in simulated_workers], (mode, live_workers, simulated_workers)
            continue
        assert live_workers == simulated_workers, (mode, live_workers, simulated_workers)
        for worker in live_workers:
            prefill, mixed, decode = worker[8:]
            # A prompt's last chunk yields the first token of its answer; each further token takes a step.
            answers = sum(turn[3] == worker[0] for turn in live_turns)
            assert mixed == 0 and prefill >= answers and decode == worker[5] - answers, (mode, worker, answers)


def turns_hits_and_decisions_are_the_same():
    results = both(SWEEP.format(kv_blocks=2000))
    check_equal(results)
    hits = {mode: sum(turn[5] for turn in results[mode][0][0]) for mode in results}
    assert hits["kv"] > hits["round_robin"] > 0, hits


def under_eviction_too():
    # Little more than one conversation fits: the caches evict, and both must evict the same blocks.
    results = both(SWEEP.format(kv_blocks=60).replace("    max_batch_size", "    max_model_len: 1600\n    max_batch_size"))
    check_equal(results)
    assert all(sum(worker[6] for worker in results[mode][0][1]) > 0 for mode in results), "evictions"


def several_conversations_at_a_time():
    results = both(OVERLAPPING.format(kv_blocks=2000), ("round_robin", "least_loaded"))
    check_equal(results, OVERLAPPING_TURNS, one_at_a_time=False)
    for mode, ((live_turns, _), _) in results.items():
        order = [turn[0] for turn in live_turns]
        assert order != sorted(order), (mode, "turns of conversations alternate", order)


run([turns_hits_and_decisions_are_the_same, under_eviction_too, several_conversations_at_a_time])
