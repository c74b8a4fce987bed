"""A sweep that is killed at any moment, or whose disk is full, loses nothing that was finished and goes on with --resume."""
import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import sqlite3
import subprocess
import tempfile
import time

from deployment import BINARY, run

MOMENTS = int(os.environ.get("KVIST_KILLS", "50"))
LIVE_MOMENTS = 3

SWEEP = """name: killed
deployment:
  workers:
    count: 2
    block_size: 32
    kv_blocks: 600
    {speed}
    output_length: {{mean_tokens: 40, standard_deviation_tokens: 8}}
workload:
  seed: 7
  turns_min: 2
  turns_max: 4
  starters: 4
  starter_tokens_min: 700
  starter_tokens_max: 900
  follow_up_tokens_min: 20
  follow_up_tokens_max: 60
  max_tokens: 60
  target_rps: 50
method: {{{method}}}
modes: [round_robin, kv]
{comparison}
levels: [4, 8, 12]
"""
SIMULATED = SWEEP.format(speed="", method="warmup: 2 s, snapshots: 2, snapshot_interval: 8 s, window: 8 s, drain_timeout: 20 s, repetitions: 3", comparison="")
CONTINUED = SIMULATED.replace("repetitions: 3", "repetitions: 3, between_levels: continue")
STOPPING = SIMULATED.replace("modes: [", "comparison: {order: abba, stop_when: {metric: ttft_p50_ms, half_width: 40}}\nmodes: [").replace("repetitions: 3", "repetitions: 6")
LIVE = SWEEP.format(speed="time_scale: 100", method="warmup: 100 ms, snapshots: 1, snapshot_interval: 400 ms, window: 400 ms, drain_timeout: 20 s", comparison="")


def command(kind, folder, text, *more):
    path = pathlib.Path(folder) / "sweep.yaml"
    path.write_text(text)
    return [BINARY, kind, "-f", path, "--output", folder, *more]


def dump(results):
    """All statements that rebuild the database, without its row of times."""
    return [line for line in sqlite3.connect(results / "results.sqlite").iterdump() if not line.startswith('INSERT INTO "provenance"')]


def levels(results):
    database = sqlite3.connect(results / "results.sqlite")
    return {row[0]: row[1:] for row in database.execute(
        "SELECT position, mode, concurrency, repetition, seed, started_ns, measure_to_ns, (SELECT count(*) FROM turns WHERE level = levels.id) FROM levels WHERE complete")}


def kill_after(arguments, seconds):
    """Whether it was still running."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True


def resume(kind, results):
    done = subprocess.run([BINARY, kind, "--resume", results], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def whole_run(folder, text):
    started = time.monotonic()
    done = subprocess.run(command("simulate", folder, text), capture_output=True, text=True, timeout=200)
    took = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    return dump(next(pathlib.Path(folder).glob("killed-*"))), took


def killed_at_random_moments(text, moments, seed):
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        undisturbed, took = whole_run(folder, text)
    killed = lost = 0
    for _ in range(moments):
        with tempfile.TemporaryDirectory() as folder:
            if not kill_after(command("simulate", folder, text, "--threads", chance.choice("12")), chance.uniform(0, took)):
                continue
            places = list(pathlib.Path(folder).glob("killed-*"))
            if not places or not (places[0] / "results.sqlite").exists():
                continue
            try:
                before = levels(places[0])
                runs = sqlite3.connect(places[0] / "results.sqlite").execute("SELECT count(*) FROM runs").fetchone()[0]
            except sqlite3.DatabaseError as error:  # killed while the file was being made
                assert "no such table" in str(error), error
                continue
            if runs == 0:
                continue
            killed += 1
            while True:  # some are killed again
                if chance.random() < 0.7 or not kill_after([BINARY, "simulate", "--resume", places[0]], chance.uniform(0, took)):
                    break
            middle = levels(places[0])
            if "continue" not in text:  # a load through several levels begins again as a whole
                assert before.items() <= middle.items(), "a finished level is lost"
            lost += len(before)
            resume("simulate", places[0])
            after = dump(places[0])
            assert after == undisturbed, next((x[:200], y[:200]) for x, y in zip(after, undisturbed) if x != y)
    print(f"{killed} of {moments} moments found a sweep under way, with {lost} finished levels")
    return killed


def fifty_moments_in_virtual_time():
    seed = int(os.environ.get("KVIST_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"KVIST_SEED={seed}")
    killed = killed_at_random_moments(SIMULATED, MOMENTS, seed)
    assert killed >= MOMENTS // 4, killed
    killed_at_random_moments(CONTINUED, MOMENTS // 10, seed + 1)
    killed_at_random_moments(STOPPING, MOMENTS // 10, seed + 2)


def a_few_moments_live():
    chance = random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command("sweep", folder, LIVE), stdout=subprocess.PIPE, text=True)
        # Kill when the first levels are done, so that there is something to keep.
        for line in process.stdout:
            if " 8: done:" in line:
                break
        time.sleep(chance.uniform(0, 0.5))
        process.kill()
        process.wait()
        process.stdout.close()
        results = next(pathlib.Path(folder).glob("killed-*"))
        before = levels(results)
        assert before
        for _ in range(LIVE_MOMENTS - 1):
            kill_after([BINARY, "sweep", "--resume", results], chance.uniform(0.5, 3))
            between = levels(results)
            assert before.items() <= between.items()
            before = between
        output = resume("sweep", results)
        after = levels(results)
        assert before.items() <= after.items() and len(after) == 6, after
        assert f"{len(before)} of 6 levels are there already" in output, output
        assert (results / "report.html").exists()
        # Once more: there is nothing left to do.
        assert "6 of 6 levels are there already" in resume("sweep", results)
        assert levels(results) == after


def a_full_disk_keeps_what_was_finished():
    with tempfile.TemporaryDirectory() as folder:
        undisturbed, _ = whole_run(folder, SIMULATED)
        size = (next(pathlib.Path(folder).glob("killed-*")) / "results.sqlite").stat().st_size
    with tempfile.TemporaryDirectory() as folder:
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write that does not fit is an error, as on a full disk
            # Room for some ten of the levels. With half of the size it was one, and none if two were written by turns.
            resource.setrlimit(resource.RLIMIT_FSIZE, (size * 3 // 4, size * 3 // 4))

        full = subprocess.run(command("simulate", folder, SIMULATED), capture_output=True, text=True, timeout=200, preexec_fn=small_files)
        assert full.returncode != 0, full.stdout
        assert "full" in full.stderr or "I/O" in full.stderr or "too large" in full.stderr, full.stderr
        results = next(pathlib.Path(folder).glob("killed-*"))
        before = levels(results)
        assert 0 < len(before) < 18, before
        resume("simulate", results)
        assert before.items() <= levels(results).items()
        assert dump(results) == undisturbed


def a_sweep_is_gone_on_with_as_it_began():
    with tempfile.TemporaryDirectory() as folder:
        wrong = subprocess.run([BINARY, "simulate", "--resume", folder], capture_output=True, text=True)
        assert wrong.returncode != 0 and "no such file" in wrong.stderr
        whole_run(folder, SIMULATED)
        results = next(pathlib.Path(folder).glob("killed-*"))
        live = subprocess.run([BINARY, "sweep", "--resume", results], capture_output=True, text=True)
        assert live.returncode != 0 and "kvist simulate" in live.stderr, live.stderr
        both = subprocess.run([BINARY, "simulate", "--resume", results, "--level", "4"], capture_output=True, text=True)
        assert both.returncode != 0
        with contextlib.closing(sqlite3.connect(results / "results.sqlite")) as database:
            database.execute("UPDATE runs SET kvist_version = '0.0.7'")
            database.commit()
        other = subprocess.run([BINARY, "simulate", "--resume", results], capture_output=True, text=True)
        assert other.returncode != 0 and "begun with kvist 0.0.7" in other.stderr, other.stderr


def two_do_not_measure_into_one_folder():
    """And an interrupted sweep is not called finished."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command("sweep", folder, LIVE), stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if " 8: done:" in line:
                break
        results = next(pathlib.Path(folder).glob("killed-*"))
        second = subprocess.run([BINARY, "sweep", "--resume", results], capture_output=True, text=True, timeout=200)
        assert second.returncode != 0 and "another kvist is measuring into it" in second.stderr, second.stderr
        process.send_signal(signal.SIGINT)
        process.communicate()
        report = json.loads((results / "report.json").read_text())
        assert 0 < len(levels(results)) < 6 and not report["kvist"]["finished"], report["kvist"]
        assert "Not finished" in (results / "report.md").read_text()
        resume("sweep", results)
        assert json.loads((results / "report.json").read_text())["kvist"]["finished"]


run([fifty_moments_in_virtual_time, a_few_moments_live, a_full_disk_keeps_what_was_finished, a_sweep_is_gone_on_with_as_it_began, two_do_not_measure_into_one_folder])
