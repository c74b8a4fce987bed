"""`kvist simulate` gives the same database whatever the time, the number of threads and the build, except for the one provenance
row. The golden digest compares the builds: every preset must reproduce it. After an intended change of the simulated system, run
this test once with KVIST_RENEW_GOLDEN=1 and commit the new digest with the change.
"""
import hashlib
import os
import pathlib
import sqlite3
import subprocess
import tempfile

from deployment import BINARY, run

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/simulated_sweep.sha256"

SWEEP = """name: golden
deployment:
  workers:
    count: 3
    block_size: 32
    kv_blocks: 900
    max_batch_size: 8
    max_num_tokens: 1024
    output_length: {mean_tokens: 60, standard_deviation_tokens: 15}
workload:
  seed: 7
  turns_min: 2
  turns_max: 4
  starters: 4
  starter_tokens_min: 700
  starter_tokens_max: 900
  max_tokens: 100
  target_rps: 10
method: {warmup: 3 s, snapshots: 2, snapshot_interval: 10 s, window: 10 s, drain_timeout: 20 s, repetitions: 2}
modes: [round_robin, kv, random]
levels: [4, 12, 30]
"""


def simulate(folder, *arguments):
    path = pathlib.Path(folder) / "sweep.yaml"
    path.write_text(SWEEP)
    output = pathlib.Path(tempfile.mkdtemp(dir=folder))
    done = subprocess.run([BINARY, "simulate", "-f", path, "--output", output, *arguments], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(output.glob("golden-*"))


def dump(results):
    """All statements that rebuild the database, without its provenance."""
    database = sqlite3.connect(results / "results.sqlite")
    lines = list(database.iterdump())
    provenance = [line for line in lines if line.startswith('INSERT INTO "provenance"')]
    assert len(provenance) == 1, provenance
    return [line for line in lines if line not in provenance]


def digest(lines):
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def first_difference(a, b):
    return next(((x[:300], y[:300]) for x, y in zip(a, b) if x != y), (len(a), len(b)))


def one_thread_and_two_and_again():
    with tempfile.TemporaryDirectory() as folder:
        one, two, again = (dump(simulate(folder, "--threads", n)) for n in ("1", "2", "2"))
        assert one == two, first_difference(one, two)
        assert two == again, first_difference(two, again)
        assert sum(line.startswith('INSERT INTO "levels"') for line in one) == 3 * 3 * 2
        assert sum(line.startswith('INSERT INTO "turns"') for line in one) > 1000


def rows_are_in_plan_order():
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(simulate(folder) / "results.sqlite")
        levels = database.execute("SELECT mode, repetition, concurrency FROM levels ORDER BY id").fetchall()
        assert levels == [(m, r, c) for m in ("round_robin", "kv", "random") for r in (0, 1) for c in (4, 12, 30)], levels
        turns = database.execute("SELECT level, position, ended_ns FROM turns").fetchall()
        assert turns == sorted(turns), "by level, position and end"


def this_build_gives_the_golden_dump():
    with tempfile.TemporaryDirectory() as folder:
        # The version changes with every release without any change of the simulation.
        lines = [line for line in dump(simulate(folder)) if not line.startswith('INSERT INTO "runs"')]
    found = digest(lines)
    if os.environ.get("KVIST_RENEW_GOLDEN"):
        GOLDEN.write_text(found + "\n")
    assert found == GOLDEN.read_text().strip(), f"this build's dump has the digest {found}"


run([one_thread_and_two_and_again, rows_are_in_plan_order, this_build_gives_the_golden_dump])
