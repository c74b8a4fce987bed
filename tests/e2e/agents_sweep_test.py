"""A sweep whose levels are driven by agents in processes of their own: what is stored and reported of them; an agent, or the sweep itself, that
is killed in the middle of a level."""
import contextlib
import json
import pathlib
import re
import signal
import sqlite3
import subprocess
import tempfile

from agent_process import agents, names_of
from deployment import BINARY, DEADLINE_S, eventually, run
from websocket import Page

SWEEP = """name: agents
deployment:
  workers:
    count: 2
    block_size: 32
    kv_blocks: 600
    time_scale: 20
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
method: {{warmup: 500 ms, snapshots: 2, snapshot_interval: {interval}, window: 1 s, drain_timeout: 20 s}}
modes: [round_robin, kv]
levels: [4, 8]
{agents}
"""


def write(folder, text="", interval="1 s"):
    path = pathlib.Path(folder) / "sweep.yaml"
    path.write_text(SWEEP.format(agents=text, interval=interval))
    return path


def sweep(*arguments, ok=True):
    done = subprocess.run([BINARY, "sweep", "--no-dashboard", *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode == 0) == ok, (done.returncode, done.stdout, done.stderr[-3000:])
    return done


def results_in(folder):
    return max(pathlib.Path(folder).glob("agents-*"))


def rows(results, query):
    with contextlib.closing(sqlite3.connect(results / "results.sqlite")) as database:
        return database.execute(query).fetchall()


def the_levels_are_driven_by_two_agents():
    with agents((), ("--threads", 2)) as two, tempfile.TemporaryDirectory() as folder:
        done = sweep("-f", write(folder), "--output", folder, "--agents", names_of(two))
        results = results_in(folder)
        levels = rows(results, "SELECT id, mode, concurrency FROM levels WHERE complete ORDER BY position")
        assert [(mode, level) for _, mode, level in levels] == [("round_robin", 4), ("round_robin", 8), ("kv", 4), ("kv", 8)]
        for level, mode, concurrency in levels:
            # Parts of the conversations, by id: one of three is the first agent's.
            turns = rows(results, f"SELECT conversation % 3 = 0, count(*) FROM turns WHERE level = {level} GROUP BY 1 ORDER BY 1 DESC")
            told = rows(results, f"SELECT agent, threads, turns, clock_ahead_ns, clock_bound_ns, clock_drift_ns, lost, chunks FROM load_agents WHERE level = {level} ORDER BY position")
            assert [agent[0] for agent in told] == [agent.address for agent in two] and [agent[1] for agent in told] == [1, 2]
            assert [agent[2] for agent in told] == [count for _, count in turns] and len(turns) == 2, (told, turns)
            for _, _, _, ahead, bound, drift, lost, chunks in told:
                assert abs(ahead) <= bound and drift is not None and lost is None and chunks > 0, told  # one machine has one clock
            first, most = rows(results, f"""SELECT min(conversation), (SELECT max(running) FROM (SELECT (SELECT count(*) FROM turns o WHERE o.level = t.level
                AND o.sent_ns <= t.sent_ns AND o.ended_ns > t.sent_ns) running FROM turns t WHERE level = {level})) FROM turns WHERE level = {level}""")[0]
            assert first == 0 and most == concurrency, (first, most, concurrency)
            # The published method's figures are of all samples, not of one agent's.
            for at, ttft, in_flight in rows(results, f"SELECT at_ns, ttft_p50_ms, in_flight FROM snapshots WHERE level = {level}"):
                exact = [row[0] for row in rows(results, f"""SELECT (first_token_ns - sent_ns) / 1e6 FROM turns WHERE level = {level}
                    AND chunks > 0 AND first_token_ns > {at} - 1000000000 AND first_token_ns <= {at} ORDER BY 1""")]
                middle = (exact[(len(exact) - 1) // 2] + exact[len(exact) // 2]) / 2
                assert abs(ttft - middle) < 1e-6 and in_flight <= concurrency, (ttft, exact, in_flight)
        # Both arms had the same conversations.
        lengths = [dict(rows(results, f"SELECT conversation, prompt_tokens FROM turns WHERE level = {level} AND turn = 0 AND outcome = 'succeeded'"))
                   for level, _, concurrency in levels if concurrency == 8]
        shared = lengths[0].keys() & lengths[1].keys()
        assert len(shared) > 20 and all(lengths[0][key] == lengths[1][key] for key in shared)
        report = json.loads((results / "report.json").read_text())
        told = report["levels"][0]["kv_aware"]["kvist"]["agents"]
        assert [agent["agent"] for agent in told] == [agent.address for agent in two] and told[0]["client"]["certificate"]["chunks"] > 0
        assert report["levels"][0]["kv_aware"]["kvist"]["client"]["certificate"]["chunks"] == sum(agent["client"]["certificate"]["chunks"] for agent in told)
        markdown = (results / "report.md").read_text()
        assert "### Agents" in markdown and two[1].address in markdown, markdown
        assert "Not compared" not in done.stdout
        assert all(agent.state() == "idle" for agent in two)


def the_dashboard_shows_what_agents_drive():
    with agents((), ()) as two, tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([BINARY, "sweep", "-f", write(folder, interval="3 s"), "--output", folder, "--agents", names_of(two)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        url = next(re.search(r"http://\S+", line).group(0) for line in process.stdout if line.startswith("dashboard"))
        with Page(url + "ws") as page:
            for level in (4, 8):
                page.until(lambda: page.seen["sample"]["load"]["concurrency"] == level and page.seen["sample"]["live"]["in_flight"] == level
                           and page.seen["sample"]["live"]["ttft_p50_ms"] and page.seen["sample"]["live"]["output_tokens_per_s"], f"level {level} is seen")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE_S)
        assert "interrupted" in err, (process.returncode, out, err[-3000:])
        assert all(agent.state() == "idle" for agent in two), "they were told"


def an_agent_that_is_killed_fails_its_level_which_is_measured_again():
    with agents(()) as (first,), tempfile.TemporaryDirectory() as folder:
        with agents(()) as (second,):
            path = write(folder, f'agents: {{urls: ["{first.address}", "{second.address}"]}}', interval="3 s")
            process = subprocess.Popen([BINARY, "sweep", "--no-dashboard", "-f", path, "--output", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for line in process.stdout:
                if "round_robin 8: snapshot 1/2" in line:
                    break
            second.stop(signal.SIGKILL)
            out, err = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 1 and f"agent {second.address} was lost" in err and "round_robin 8" in err, (process.returncode, out, err[-3000:])
        results = results_in(folder)
        stored = rows(results, "SELECT mode, concurrency, complete FROM levels ORDER BY position")
        assert stored == [("round_robin", 4, 1)], stored
        eventually(lambda: first.state() == "idle", "the other agent is free")
        with agents((), ()) as others:
            # They moved: the option goes before what the interrupted run had.
            done = sweep("--resume", results, "--agents", f"{first.address},{others[0].address}")
            assert "1 of 4 levels are there already" in done.stdout, done.stdout
        stored = rows(results, "SELECT mode, concurrency, (SELECT group_concat(agent) FROM load_agents WHERE level = levels.id) FROM levels WHERE complete ORDER BY position")
        before, after = f"{first.address},{second.address}", f"{first.address},{others[0].address}"
        assert stored == [("round_robin", 4, before), ("round_robin", 8, after), ("kv", 4, after), ("kv", 8, after)], stored


def a_sweep_that_is_killed_goes_on_when_its_agents_have_given_the_load_up():
    with agents(()) as (agent,), tempfile.TemporaryDirectory() as folder:
        path = write(folder, f'agents: {{urls: ["{agent.address}"]}}')
        process = subprocess.Popen([BINARY, "sweep", "--no-dashboard", "-f", path, "--output", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if "round_robin 8: warm-up" in line:
                break
        eventually(lambda: agent.state() == "running", "the instant has come that the agents agreed on")
        process.kill()
        process.communicate(timeout=DEADLINE_S)
        done = sweep("--resume", results_in(folder))
        assert "waiting: agent" in done.stdout and "drives a load of another coordinator" in done.stdout, done.stdout
        assert len(rows(results_in(folder), "SELECT 1 FROM levels WHERE complete")) == 4


def what_agents_cannot_do_is_refused_before_anything_starts():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder)
        for options, wanted in ((("--agents", "h:1,h:1"), "--agents: agent \"http://h:1\": is named twice"), (("--agents-key-file", "x"), "--agents-key-file requires --agents"),
                                (("--agents", "127.0.0.1:1", "--agents-ca", "x"), "is for agents with https")):
            done = sweep("-f", path, "--output", folder, *options, ok=False)
            assert wanted in done.stderr + done.stdout, (options, done.stdout, done.stderr)
        path.write_text(path.read_text().replace("drain_timeout", "between_levels: continue, drain_timeout"))
        done = sweep("-f", path, "--output", folder, "--agents", "127.0.0.1:1", ok=False)
        assert "--agents: agents drive each level as a load of its own" in done.stderr, done.stderr
        # One that is elsewhere cannot reach a gateway of this machine alone.
        done = sweep("-f", write(folder), "--output", folder, "--agents", "192.0.2.1:9400", ok=False)
        assert "cannot reach http://127.0.0.1" in done.stderr, done.stderr


run([the_levels_are_driven_by_two_agents, the_dashboard_shows_what_agents_drive, an_agent_that_is_killed_fails_its_level_which_is_measured_again,
     a_sweep_that_is_killed_goes_on_when_its_agents_have_given_the_load_up, what_agents_cannot_do_is_refused_before_anything_starts])
