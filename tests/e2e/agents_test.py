"""One load by agents in processes of their own, coordinated by `kvist loadgen --agents`: what they send together is what one process sends;
agents that die, are of another version, or are busy; keys, certificates, files and changes of the load."""
import http.server
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import threading

from agent_process import agents, names_of
from authority import Authority
from deployment import BINARY, DEADLINE_S, deployment, eventually, get_json, request, run
from chat_server import TOKENS, ChatServer
from websocket import Page


def command(url, *options):
    return [BINARY, "loadgen", "--target", url, "--model", "test-model", "--progress", "0s", *map(str, options)]


def loadgen(url, *options, ok=True):
    done = subprocess.run(command(url, *options), capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode == 0) == ok, (done.returncode, done.stdout, done.stderr[-3000:])
    return done


def results(folder):
    lines = [json.loads(line) for line in (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()]
    return json.loads((pathlib.Path(folder) / "summary.json").read_text()), lines


def two_agents_send_what_one_process_sends():
    """Whole conversations of several turns, by a profile that ends: an agent of one thread and one of two against one process."""
    with tempfile.TemporaryDirectory() as folder, agents((), ("--threads", 2)) as two:
        follow_ups = pathlib.Path(folder) / "follow-ups"
        follow_ups.write_text("go on\nand then?\nwhy\n")
        load = ("--rate", 40, "--rate-profile", "0s:1,1s:1,1s:0", "--turns", "2-3", "--input-tokens", "30-50", "--output-tokens", TOKENS, "--ignore-eos",
                "--follow-ups", follow_ups, "--replies", "recorded", "--seed", 5)
        found = []
        for how in ((), ("--agents", names_of(two))):
            server, output = ChatServer(), pathlib.Path(folder) / f"out-{len(found)}"
            done = loadgen(server.url, *load, *how, "--output", output)
            summary, lines = results(output)
            assert all(line["outcome"] == "succeeded" for line in lines) and summary["requests"]["failed"] == 0
            sent = sorted((headers["X-Request-Id"], headers["X-Session-ID"], json.dumps(body, sort_keys=True)) for _, headers, body in server.requests)
            assert len(sent) == len(lines)
            first = {line["conversation"]: line["intended_s"] for line in lines if line["turn"] == 0}
            found.append((sent, {(line["conversation"], line["turn"]) for line in lines}, first, summary, done))
        alone, together = found
        assert alone[0] == together[0] and alone[1] == together[1] and len(alone[0]) > 80
        summary, done = together[3], together[4]
        assert "agents" not in alone[3] and [agent["threads"] for agent in summary["agents"]] == [1, 2]
        assert sum(agent["turns"] for agent in summary["agents"]) == len(together[1]) and len(summary["client_loops"]) == 3
        assert summary["tokens"] == alone[3]["tokens"]
        for agent in summary["agents"]:
            # One machine has one clock: the offset that was measured is its error.
            assert abs(agent["clock_ahead_ms"]) <= agent["clock_bound_ms"] and agent["clock_drift_ms"] is not None and agent["lost"] is None, agent
            assert agent["client"]["verdict"] in ("valid", "degraded", "invalid") and agent["client"]["certificate"]["chunks"] > 0, agent
            assert f"agent    {agent['agent']}: " in done.stdout, done.stdout
        # Each agent is told its instants by one offset, and they are told back by others.
        tolerance = 1e-8 + 4e-3 * max(agent["clock_bound_ms"] for agent in summary["agents"])
        for conversation in alone[2]:
            apart = [how[2][conversation] - how[2][0] for how in found]
            assert abs(apart[0] - apart[1]) <= tolerance, (conversation, apart, tolerance)
        worst = max(agent["client"]["certificate"]["receive_delay_max_ms"] for agent in summary["agents"])
        assert summary["client"]["certificate"]["receive_delay_max_ms"] == worst
        chunks = [agent["client"]["certificate"]["chunks"] for agent in summary["agents"]]
        assert summary["client"]["certificate"]["chunks"] == sum(chunks) and min(chunks) > 0
        eventually(lambda: all(agent.state() == "idle" for agent in two), "released")


def a_closed_loop_is_divided_exactly():
    with deployment(workers=1, gateway=False) as (_, workers), agents((), ()) as two, tempfile.TemporaryDirectory() as folder:
        loadgen(workers[0].url, "--concurrency", 7, "--requests", 61, "--input-tokens", 200, "--output-tokens", "5-20", "--agents", names_of(two), "--output", folder)
        summary, lines = results(folder)
        assert summary["requests"]["succeeded"] == len(lines) == 61 and [agent["turns"] for agent in summary["agents"]] == [31, 30]
        assert sorted(line["conversation"] for line in lines) == sorted([2 * i for i in range(31)] + [2 * i + 1 for i in range(30)])
        refused = loadgen(workers[0].url, "--concurrency", 1, "--requests", 5, "--agents", names_of(two), ok=False)
        assert "1 conversations at once on 2 threads of 2 agents" in refused.stderr, refused.stderr


def an_agent_that_is_killed_is_lost_alone():
    with deployment(workers=1, gateway=False) as (_, workers), agents((), ()) as two, tempfile.TemporaryDirectory() as folder:
        load = subprocess.Popen(command(workers[0].url, "--rate", 20, "--duration", "9s", "--input-tokens", 100, "--output-tokens", 5, "--port", 0,
                                        "--agents", names_of(two), "--output", folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ready = load.stdout.readline()
        status = f"http://127.0.0.1:{ready.split('=')[1].strip()}/status"
        eventually(lambda: all(agent["samples"] >= 5 for agent in get_json(status)["agents"]), "samples of both")
        two[1].stop(signal.SIGKILL)
        out, err = load.communicate(timeout=DEADLINE_S)
        assert load.returncode == 1 and f"lost of the 2 agents: {two[1].address}" in err, (load.returncode, out, err[-3000:])
        summary, lines = results(folder)
        assert summary["agents"][0]["lost"] is None and summary["agents"][1]["lost"], summary["agents"]
        assert any(f"agent {two[1].address} was lost" in remark for remark in summary["remarks"]), summary["remarks"]
        by_agent = [[line for line in lines if line["conversation"] % 2 == i] for i in (0, 1)]
        assert [len(part) for part in by_agent] == [agent["turns"] for agent in summary["agents"]]
        # All that were ordered of the one: 20 a second, of which half is its own; of the other those that had come.
        assert max(line["conversation"] for line in by_agent[0]) > max(line["conversation"] for line in by_agent[1])
        assert {line["conversation"] for line in by_agent[0]} == set(range(0, 2 * len(by_agent[0]), 2)) and len(by_agent[0]) > 50
        assert 5 <= len(by_agent[1]) < len(by_agent[0])
        assert two[0].state() == "idle"


class StrangeAgent:
    """Answers as an agent of another version, or one that would drive another load."""

    def __init__(self, version, schedule):
        strange = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                report = {"kvist_version": version, "protocol": 3, "threads": 1, "state": "ready" if strange.load else "idle", "load": strange.load,
                          "schedule": schedule, "error": "", "progress": {}, "client": {"loops": []}}
                body = json.dumps(report).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.answer()

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                strange.load = "" if self.path.endswith("/release") else body["load"]
                self.answer()

        self.load = ""
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.server.server_port}"


def what_would_not_drive_the_same_load_is_refused():
    version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    server = ChatServer()
    with agents(()) as (agent,):
        for strange, wanted in ((StrangeAgent("0.0.1", ""), "runs kvist 0.0.1"), (StrangeAgent(version, "f" * 64), "would drive another load")):
            done = loadgen(server.url, "--concurrency", 4, "--requests", 8, "--agents", f"{agent.address},{strange.address}", ok=False)
            assert f"agent {strange.address}: {wanted}" in done.stderr, done.stderr
            assert agent.state() == "idle"
        done = loadgen(server.url, "--concurrency", 4, "--requests", 8, "--agents", f"{agent.address},127.0.0.1:1", ok=False)
        assert "agent 127.0.0.1:1: " in done.stderr and agent.state() == "idle", done.stderr
    assert server.requests == []


def an_agent_drives_one_load_at_a_time_and_that_is_changed_and_stopped():
    server = ChatServer()
    with agents((), ()) as two, tempfile.TemporaryDirectory() as folder:
        load = subprocess.Popen(command(server.url, "--rate", 10, "--input-tokens", 20, "--output-tokens", TOKENS, "--port", 0, "--agents", names_of(two),
                                        "--output", folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        api = "http://127.0.0.1:" + load.stdout.readline().split("=")[1].strip()
        eventually(lambda: get_json(api + "/status")["succeeded"] > 3, "turns")
        second = loadgen(server.url, "--concurrency", 2, "--requests", 2, "--agents", two[0].address, ok=False)
        assert "drives a load of another coordinator" in second.stderr, second.stderr
        assert request(api + "/start", {"concurrency": 3})[0] == 422
        status, _, text = request(api + "/load", {"rate": 80}, method="PATCH")
        assert status == 200 and json.loads(text)["changes"] == 1, text
        assert request(api + "/load", {"concurrency": 80}, method="PATCH")[0] == 422
        before = get_json(api + "/status")["succeeded"]
        eventually(lambda: get_json(api + "/status")["succeeded"] > before + 80, "more turns")
        _, _, metrics = request(api + "/metrics")
        assert re.search(r'loadgen_agent_lost\{agent="127.0.0.1:\d+"\} 0', metrics), metrics
        load.send_signal(signal.SIGINT)
        out, err = load.communicate(timeout=DEADLINE_S)
        assert load.returncode == 0, (out, err[-3000:])
        summary, lines = results(folder)
        assert [change["rate_per_s"] for change in summary["changes"]] == [80], summary["changes"]
        for part in (0, 1):  # each agent stops when it hears of it
            ids = sorted(line["conversation"] for line in lines if line["conversation"] % 2 == part)
            assert ids == list(range(part, part + 2 * len(ids), 2)), ids
        assert len(server.requests) == len(lines)


def at_once(lines):
    """The most requests that were under way at one instant."""
    edges = sorted([(line["sent_s"], 1) for line in lines] + [(line["ended_s"], -1) for line in lines])
    running = most = 0
    for _, step in edges:
        running += step
        most = max(most, running)
    return most


def the_dashboard_shows_the_load_of_all_and_changes_it_exactly():
    with deployment(workers=1, gateway=False) as (_, workers), agents((), ("--threads", 2)) as two, tempfile.TemporaryDirectory() as folder:
        load = subprocess.Popen(command(workers[0].url, "--concurrency", 5, "--input-tokens", 100, "--output-tokens", "30-60", "--ignore-eos", "--slo", "ttft_p95=600ms",
                                        "--agents", names_of(two), "--output", folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        api = "http://127.0.0.1:" + load.stdout.readline().split("=")[1].strip()
        url = re.search(r"http://\S+", load.stdout.readline()).group(0)
        with Page(url + "ws") as page:
            page.until(lambda: page.seen["sample"]["load"]["concurrency"] == 5 and page.seen["sample"]["live"]["in_flight"] == 5, "five are in flight")
            page.until(lambda: page.seen["sample"]["live"]["ttft_p95_ms"] and page.seen["sample"]["live"]["itl_p95_ms"] and page.seen["sample"]["live"]["output_tokens_per_s"],
                       "figures of all agents")
            assert not page.ask("start")["ok"], "it runs already"
            for number in (11, 4):
                assert page.result("set_concurrency", concurrency=number) == {"concurrency": number}
                page.until(lambda: page.seen["sample"]["load"]["concurrency"] == number and page.seen["sample"]["live"]["in_flight"] == number, f"{number} are in flight")
            assert get_json(api + "/status")["concurrency"] == 4
            assert request(api + "/load", {"concurrency": 2}, method="PATCH")[0] == 400, "one for each of three threads"
            assert page.result("stop") == {}
            out, err = load.communicate(timeout=DEADLINE_S)
            assert load.returncode == 0, (out, err[-3000:])
        summary, lines = results(folder)
        assert [change["concurrency"] for change in summary["changes"]] == [11, 4], summary["changes"]
        assert summary["requests"]["failed"] == 0 and len(lines) > 20
        # Places are divided as threads are: 4, 4 and 3 of eleven.
        assert at_once(lines) == 11 and [at_once([line for line in lines if line["conversation"] % 3 in part]) for part in ((0,), (1, 2))] == [4, 7]


def keys_certificates_and_targets():
    server = ChatServer()
    refused = subprocess.run([BINARY, "loadgen", "agent", "--host", "0.0.0.0"], capture_output=True, text=True, timeout=DEADLINE_S)
    assert refused.returncode == 1 and "--listen-key-file" in refused.stderr, refused
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(folder, "ca")
        authority.issue("agent")
        key, other = pathlib.Path(folder) / "key", pathlib.Path(folder) / "other"
        key.write_text("secret-of-agents\n")
        other.write_text("another\n")
        (pathlib.Path(folder) / "target-key").write_text("key-of-target\n")
        with agents(("--listen-certificate", authority.path("agent.pem"), "--listen-key", authority.path("agent.key"), "--listen-key-file", key,
                     "--target", server.url, "--api-key-file", authority.path("target-key"))) as (agent,):
            load = ("--concurrency", 2, "--requests", 6, "--input-tokens", 20, "--output-tokens", TOKENS, "--agents", f"https://{agent.address}")
            trusted = (*load, "--agents-ca", authority.path("ca.pem"))
            assert f"agent {agent.address}: " in loadgen(server.url, *load, "--agents-key-file", key, ok=False).stderr
            assert "API key" in loadgen(server.url, *trusted, ok=False).stderr
            assert "API key" in loadgen(server.url, *trusted, "--agents-key-file", other, ok=False).stderr
            elsewhere = loadgen("http://127.0.0.1:1", *trusted, "--agents-key-file", key, ok=False)
            assert "this agent sends to" in elsewhere.stderr, elsewhere.stderr
            assert server.requests == []
            done = loadgen(server.url, *trusted, "--agents-key-file", key)
            assert "6 succeeded, 0 failed" in done.stdout, done.stdout
    assert {headers["Authorization"] for _, headers, _ in server.requests} == {"Bearer key-of-target"}


def options_that_are_the_agents_own_are_refused():
    for options, wanted in ((("--threads", 2), "--threads: is each agent's own"), (("--api-key-file", "x"), "--api-key-file: is each agent's own"),
                            (("--calibration", "none"), "--calibration"),
                            (("--agents-ca", "x"), "--agents-ca: is for agents with https")):
        assert wanted in loadgen("http://127.0.0.1:1", "--concurrency", 2, "--agents", "127.0.0.1:1", *options, ok=False).stderr, options
    assert "--agents: needs a load" in loadgen("http://127.0.0.1:1", "--agents", "127.0.0.1:1", ok=False).stderr


run([two_agents_send_what_one_process_sends, a_closed_loop_is_divided_exactly, an_agent_that_is_killed_is_lost_alone,
     what_would_not_drive_the_same_load_is_refused, an_agent_drives_one_load_at_a_time_and_that_is_changed_and_stopped, keys_certificates_and_targets, the_dashboard_shows_the_load_of_all_and_changes_it_exactly,
     options_that_are_the_agents_own_are_refused])
