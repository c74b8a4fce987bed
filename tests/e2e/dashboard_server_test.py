"""The dashboard's server with real processes: what it tells equals what the APIs tell, controls act, viewers may be hostile."""
import contextlib
import http.client
import json
import pathlib
import re
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.request

from deployment import BINARY, DEADLINE_S, Process, get_json, read_line, request, run
from engine_like_vllm import EngineLikeVllm
from tls_test import Authority
from websocket import Closed, Page, frame, handshake

ROOT = pathlib.Path(__file__).parents[2]
REFERENCE = ROOT / "data/reference/trtllm-3xh200-rr-vs-kv-40-120.json"

DEPLOYMENT = """deployment:
  name: for-the-dashboard
  gateway:
    mode: round_robin
    http: {host: 127.0.0.1, port: 0}
    admission: {enabled: false}
    health_interval: 1 s
  workers:
    count: 2
    block_size: 32
    kv_blocks: 3000
    max_batch_size: 16
    max_num_tokens: 2048
    time_scale: 20
    output_length: {mean_tokens: 60, standard_deviation_tokens: 10}
"""
WORKLOAD = """workload:
  seed: 7
  turns_min: 2
  turns_max: 3
  starters: 4
  starter_tokens_min: 500
  starter_tokens_max: 700
  max_tokens: 100
  target_rps: 0
"""
SWEEP = """name: small
deployment:
  name: small
  workers:
    count: 2
    kv_blocks: 3000
    max_batch_size: 16
    time_scale: 20
    output_length: {mean_tokens: 40, standard_deviation_tokens: 5}
workload:
  turns_min: 2
  turns_max: 3
  starters: 4
  starter_tokens_min: 300
  starter_tokens_max: 400
  max_tokens: 60
  target_rps: 0
method: {warmup: 1 s, snapshots: 2, snapshot_interval: 2 s, window: 2 s, drain_timeout: 10 s, max_error_pct: 5}
modes: [round_robin, kv]
levels: [4, 8]
output_directory: out
"""


def file_of(folder, name, text):
    path = pathlib.Path(folder) / name
    path.write_text(text)
    return path


@contextlib.contextmanager
def running(*command, folder=None, code=0):
    """Runs a command of kvist until Ctrl-C: (its lines by their first word, process)."""
    process = subprocess.Popen([BINARY, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, text=False)
    lines, end = {}, time.monotonic() + DEADLINE_S
    try:
        while "dashboard" not in lines and time.monotonic() < end:
            line = read_line(process.stdout, DEADLINE_S)
            if not line and process.poll() is not None:
                break
            lines.setdefault(line.split(" ")[0], line)
        assert "dashboard" in lines, (lines, process.poll(), process.stderr.read().decode() if process.poll() is not None else "")
        yield re.search(r"https?://\S+", lines["dashboard"]).group(0), lines, process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            ended = process.wait(DEADLINE_S)
        finally:
            if process.poll() is None:
                process.kill()
            errors = process.stderr.read().decode()
            process.stdout.close()
            process.stderr.close()
    assert code is None or ended == code, (ended, errors[-3000:])


@contextlib.contextmanager
def up(*options, deployment=DEPLOYMENT):
    with tempfile.TemporaryDirectory() as folder:
        file = file_of(folder, "deployment.yaml", deployment)
        workload = file_of(folder, "workload.yaml", WORKLOAD)
        with running("up", "-f", file, "--workload", workload, *options, folder=folder) as (url, lines, process):
            admin = re.search(r"administration (http://\S+)", lines["gateway"]).group(1)
            yield url, admin, process


def page_of(url, **options):
    return Page(url + "ws", **options)


def number_of_events(page, kind):
    return sum(event["kind"] == kind for event in page.events)


def figures_equal_the_apis_and_controls_act():
    with up("--baseline", REFERENCE, "--slo", "ttft_p95=600ms", "--concurrency", "6") as (url, admin, _), page_of(url) as page:
        page.until(lambda: page.seen["sample"]["workers"], "workers are seen")
        hello, sample = page.seen["hello"], page.seen["sample"]
        assert hello["source"] == "up" and hello["title"] == "for-the-dashboard" and hello["time_scale"] == 20, hello
        assert hello["controls"]["concurrency"] and "kv" in hello["controls"]["modes"] and not hello["controls"]["token_required"], hello
        assert hello["slo"] == [{"figure": "ttft_p95_ms", "limit": 600, "warn": 480, "is_least": False}], hello["slo"]
        assert sample["load"]["state"] == "idle" and sample["live"]["ttft_p50_ms"] is None and sample["baseline"] is None, sample
        assert sample["mode"] == "round_robin" and [w["name"] for w in sample["workers"]] == ["worker-0", "worker-1"], sample

        # The load starts with what the command line said, and is seen at the gateway.
        assert page.result("start") == {}
        page.until(lambda: page.seen["sample"]["live"]["ttft_p95_ms"] is not None and page.seen["sample"]["live"]["in_flight"] == 6, "six are in flight")
        status = get_json(url.replace("dashboard/", "status"))
        assert status["state"] == "running" and status["concurrency"] == 6, status
        assert get_json(admin + "/admin/status")["in_flight"] > 0
        assert not page.ask("start")["ok"], "it runs already"

        # More conversations at once, live; the baseline has none so low.
        assert page.result("set_concurrency", concurrency=12) == {"concurrency": 12}
        page.until(lambda: page.seen["sample"]["load"]["concurrency"] == 12 and page.seen["sample"]["live"]["in_flight"] == 12, "twelve are in flight")
        assert page.seen["sample"]["baseline"] == {"round_robin": None, "kv": None}, page.seen["sample"]["baseline"]
        assert page.result("set_concurrency", concurrency=3) == {"concurrency": 3}
        page.until(lambda: page.seen["sample"]["live"]["in_flight"] == 3, "only three are left")

        # Workers: slots, blocks and steps are those of their own pages; the mode is the gateway's.
        page.result("set_concurrency", concurrency=45)
        assert page.result("set_mode", mode="kv") == {"mode": "kv"}
        assert get_json(admin + "/admin/router_mode") == {"mode": "kv"}
        page.until(lambda: page.seen["sample"]["mode"] == "kv" and page.seen["sample"]["baseline"]["round_robin"], "mode and baseline are seen")
        line = page.seen["sample"]["baseline"]["round_robin"]
        assert line["interpolated"] and line["between"] == [40, 50], line
        expected = (271.4 + 255.5) / 2 / 20  # the workers run 20 times faster than what was measured
        assert abs(line["figures"]["ttft_p50_ms"] - expected) < 0.01, (line, expected)
        assert page.seen["baseline"]["baseline"]["time_factor"] == 0.05, page.seen["baseline"]["baseline"]["time_factor"]
        page.until(lambda: all(w["step_ms"] and w["hit_rate_pct"] is not None and w["last_event_s"] is not None and w["share_pct"]
                               for w in page.seen["sample"]["workers"]), "workers' figures")
        for worker in page.seen["sample"]["workers"]:
            assert worker["slots"] == 16 and worker["kv_blocks"] == 3000 and worker["state"] == "healthy" and worker["answers"], worker
            assert worker["index_trust"] == "exact" and worker["acceptance_rate_pct"] is None, worker
        assert abs(sum(w["share_pct"] for w in page.seen["sample"]["workers"]) - 100) < 0.1

        # Stopped: nothing is in flight, and the totals are those of the load generator's API.
        assert page.result("stop") == {}
        page.until(lambda: page.seen["sample"]["load"]["state"] == "idle", "the load has stopped")
        status, load = get_json(url.replace("dashboard/", "status")), page.seen["sample"]["load"]
        assert (status["turns"]["succeeded"], status["turns"]["failed"]) == (load["turns_succeeded"], load["turns_failed"]), (status, load)
        assert status["conversations_started"] == load["conversations_started"] and status["output_tokens"] == load["output_tokens"]
        assert load["turns_failed"] == 0 and load["turns_succeeded"] > 20, load
        for kind, least in (("start", 1), ("concurrency", 3), ("mode", 1), ("stop", 1), ("end", 1)):
            assert number_of_events(page, kind) >= least, (kind, page.events)
        assert not page.ask("stop")["ok"], "nothing runs"

        # What was seen second by second is in the history, and the newest state is there for programs.
        history = page.result("history", of="live", window_s=600, points=600)
        by_time = dict(zip(history["t_ms"], history["series"]["in_flight"]))
        compared = [(by_time[s["t_ms"]], s["live"]["in_flight"]) for s in page.samples if s["t_ms"] in by_time]
        assert len(compared) == len(page.samples) and all(a == b for a, b in compared), (compared, len(page.samples))
        workers = page.result("history", of="workers", window_s=60)["workers"]
        assert set(workers) == {"worker-0", "worker-1"} and len(workers["worker-0"]["queue"]) >= len(page.samples), workers.keys()
        state = get_json(url + "api/state")
        assert state["hello"]["server_id"] == hello["server_id"] and state["sample"]["seq"] >= page.seen["sample"]["seq"]


def conversations_and_decisions_are_shown():
    with up("--concurrency", "4") as (url, admin, _), page_of(url) as page:
        page.result("set_mode", mode="kv")
        page.result("subscribe", topic="conversations")
        page.result("subscribe", topic="decisions")
        page.result("start")
        page.until(lambda: any(c["status"] == "done" and c["turns"] >= 2 for c in page.seen["conversations"]["conversations"]), "a conversation is over")
        done = next(c for c in page.seen["conversations"]["conversations"] if c["status"] == "done" and c["turns"] >= 2)
        whole = page.result("conversation", conversation=done["conversation"])
        assert whole["messages_kept"] and whole["turns_done"] == len(whole["turns_list"]) == done["turns"], whole
        for number, turn in enumerate(whole["turns_list"], 1):
            assert turn["turn"] == number and turn["status"] == "succeeded" and turn["worker"].startswith("worker-"), turn
            assert turn["messages"][-1]["role"] == "user" and turn["messages"][-1]["text"] and turn["answer"], turn
            assert 0 < turn["ttft_ms"] <= turn["latency_ms"] and 0 <= turn["cached_tokens"] < turn["prompt_tokens"], turn
        assert len(whole["turns_list"][1]["messages"]) == 1, "a later turn adds what the user says"
        page.until(lambda: page.seen["decisions"]["decisions"], "decisions")
        newest = page.seen["decisions"]["decisions"][0]
        own = get_json(admin + f"/admin/decisions?request={newest['request']}")["decisions"]
        same = next(d for d in own if d["number"] == newest["number"])
        assert [(c["name"], c["cost"]) for c in same["candidates"]] == [(c["name"], c["cost"]) for c in newest["candidates"]], (same, newest)
        assert newest["chosen_name"] == same["chosen_name"] and abs(newest["t_ms"] - time.time() * 1000) < 60_000, newest
        page.result("unsubscribe", topic="decisions")
        assert not page.ask("conversation", conversation="9-9")["ok"]


def several_viewers_see_the_same_and_one_that_does_not_read_disturbs_nobody():
    with up("--concurrency", "4") as (url, _, process), page_of(url) as one, page_of(url) as two, page_of(url, receive_buffer=4096) as slow:
        one.result("start")
        # A question whose answer is long, again and again, and nothing is read.
        for number in range(15):
            slow.socket.sendall(frame(1, json.dumps({"command": "history", "id": number, "of": "workers", "window_s": 86400, "points": 4800}).encode()))
        for page in (one, two):
            page.samples.clear()
        for _ in range(5):
            one.until(lambda: len(one.samples) >= 5, "samples")
            two.until(lambda: len(two.samples) >= 5, "samples")
        first, second = ({s["seq"]: s for s in page.samples} for page in (one, two))
        common = set(first) & set(second)
        assert len(common) >= 3 and all(first[seq] == second[seq] for seq in common), common
        memory = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text()).group(1))
        assert memory < 400_000, f"{memory} kB"


def hostile_viewers_are_closed_and_others_go_on():
    with up() as (url, _, process), page_of(url) as good:
        codes = {}
        for what, data in (("unmasked", b"\x81\x02{}"), ("not UTF-8", frame(1, b"\xff\xfe")), ("too big", frame(1, b"x" * 70_000)[:20]),
                           ("endless", b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff"), ("reserved", b"\xf1\x80\0\0\0\0"), ("binary", frame(2, b"x")),
                           ("flood", b"".join(frame(1, json.dumps({"command": "runs", "id": i}).encode()) for i in range(100)))):
            with page_of(url) as bad:
                bad.socket.sendall(data)
                try:
                    while True:
                        bad.receive()
                except Closed as closed:
                    codes[what] = closed.code
        assert codes == {"unmasked": 1002, "not UTF-8": 1007, "too big": 1009, "endless": 1009, "reserved": 1002, "binary": 1003, "flood": 1008}, codes
        for text in (b"nonsense", b"[1]", b'{"command":"dance","id":1}', b'{"command":"start","id":1,"concurrency":-4}', b'{"command":"start","id":1,"consurrency":4}'):
            good.socket.sendall(frame(1, text))
            good.until(lambda: "reply" in good.seen and not good.seen["reply"]["ok"] and good.seen["reply"]["error"], "a refusal with its reason")
            good.seen.pop("reply")
        many = [page_of(url) for _ in range(31)]
        with page_of(url) as one_too_many:
            try:
                one_too_many.receive()
                raise AssertionError("the viewer beyond the bound was greeted")
            except Closed as closed:
                assert closed.code == 1013, closed.code
        for page in many:
            page.close()
        good.samples.clear()
        good.until(lambda: len(good.samples) >= 2, "samples go on")
        assert process.poll() is None


def origins_paths_and_fields_are_as_they_should_be():
    with up() as (url, _, _):
        base = url.replace("/dashboard/", "")
        for origin, expected in (("http://evil.example", 403), ("null", 403), (base, 101)):
            sock, status, _, _ = handshake(url + "ws", headers=[f"Origin: {origin}"])
            sock.close()
            assert status == expected, (origin, status)
        sock, status, _, _ = handshake(url + "ws", protocol="other")
        sock.close()
        assert status == 400, status
        status, headers, text = request(url)
        assert status == 200 and headers["Content-Type"].startswith("text/html"), (status, headers)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy, policy
        assert headers["X-Content-Type-Options"] == "nosniff" and "<script>" not in text and "style=" not in text, text
        for name in re.findall(r'(?:src|href)="([^"]+)"', text):
            assert not name.startswith(("http", "//")), name
            assert name.startswith(("data:", "#")) or request(url + name)[0] == 200, name
        tag = headers["ETag"]
        assert request(url, headers={"If-None-Match": tag})[0] == 304
        assert request(url + "../status")[0] in (200, 404) and request(url + "%2e%2e/secret")[0] == 404 and request(url + "nothing.js")[0] == 404
        assert request(url, method="POST", body={})[0] == 405


def a_page_that_comes_back_after_a_restart_sees_that_it_is_another_server():
    with tempfile.TemporaryDirectory() as folder:
        file, workload = file_of(folder, "deployment.yaml", DEPLOYMENT), file_of(folder, "workload.yaml", WORKLOAD)
        command = ("up", "-f", file, "--workload", workload)
        with running(*command, folder=folder) as (url, _, _):
            port = int(re.search(r":(\d+)/", url).group(1))
            page = page_of(url)
            page.until(lambda: "sample" in page.seen, "a sample")
            first = page.seen["hello"]["server_id"]
        try:
            while True:
                page.receive()
        except Closed as closed:
            assert closed.code == 1001, closed.code
        with running(*command, "--port", port, folder=folder) as (again, _, _):
            assert again == url, (again, url)
            with page_of(again) as back:
                back.until(lambda: "sample" in back.seen, "a sample")
                assert back.seen["hello"]["server_id"] != first


def a_load_generator_of_its_own_has_it_on_its_listener():
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([BINARY, "loadgen", "reference", "--first", "20ms", "--gap", "5ms"], stdout=subprocess.PIPE)
        try:
            target = re.search(r"http=(\d+)|http://\S+", read_line(server.stdout, DEADLINE_S)).group(0).replace("http=", "http://127.0.0.1:")
            with running("loadgen", "--target", target, "--model", "m", "--progress", "0s", folder=folder) as (url, lines, _), page_of(url) as page:
                port = re.search(r"http=(\d+)", lines["ready"]).group(1)
                assert f":{port}/" in url, (lines, url)
                page.until(lambda: page.seen["sample"]["load"]["state"] == "idle", "idle")
                assert page.seen["hello"]["controls"]["modes"] is None and page.seen["sample"]["workers"] is None
                status, _, text = request(f"http://127.0.0.1:{port}/start", {"concurrency": 3})
                assert status == 200 and json.loads(text)["concurrency"] == 3, text
                page.until(lambda: page.seen["sample"]["live"]["turns_per_s"] and page.seen["sample"]["load"]["concurrency"] == 3, "the load that the API started is seen")
                assert number_of_events(page, "start") == 1
                assert not page.ask("set_mode", mode="kv")["ok"], "there is no gateway"
                status, headers, text = request(f"http://127.0.0.1:{port}/metrics")
                assert status == 200 and "loadgen_requests_total" in text
                assert json.loads(request(f"http://127.0.0.1:{port}/stop", {"drain": False})[2])["state"] == "idle"
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(DEADLINE_S)
            server.stdout.close()


def beyond_loopback_changes_need_the_token():
    with up("--host", "0.0.0.0", "--concurrency", "2") as (url, _, _):
        place, _, token = url.partition("#token=")
        assert len(token) >= 20, url
        place = place.replace("localhost", "127.0.0.1")
        with page_of(place) as page:
            page.until(lambda: "sample" in page.seen, "everybody may look")
            assert page.seen["hello"]["controls"]["token_required"]
            for fields in ({}, {"token": ""}, {"token": token[:-1]}, {"token": token + "x"}):
                reply = page.ask("start", **fields)
                assert not reply["ok"] and "token" in reply["error"], reply
            api = place.replace("/dashboard/", "/start")
            assert [request(api, {"concurrency": 1}, headers=fields)[0] for fields in ({}, {"Authorization": "Bearer x" + token})] == [401, 401]
            assert page.seen["sample"]["load"]["state"] == "idle"
            assert page.result("start", token=token) == {}
            page.until(lambda: page.seen["sample"]["load"]["state"] == "running", "it runs")
            assert page.result("history", of="live", window_s=60)["series"], "questions need none"
            assert request(place.replace("/dashboard/", "/status"))[0] == 200
            assert request(place.replace("/dashboard/", "/stop"), {"drain": False}, headers={"Authorization": f"Bearer {token}"})[0] == 200


def over_tls_it_is_the_same():
    """The page, its WebSocket and the control API; and the load generator's listener without a dashboard."""
    with tempfile.TemporaryDirectory() as certificates:
        authority = Authority(certificates, "ca")
        authority.issue("own", "IP:127.0.0.1,DNS:localhost")
        listen = ("--listen-certificate", authority.path("own.pem"), "--listen-key", authority.path("own.key"))
        trust = ssl.create_default_context(cafile=authority.path("ca.pem"))

        def ask_with(token, url, body=None, **headers):
            call = urllib.request.Request(url, data=json.dumps(body).encode() if body is not None else None,
                                          headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}", **headers})
            with urllib.request.urlopen(call, timeout=DEADLINE_S, context=trust) as answer:
                return answer.status, answer.read().decode()

        with up("--host", "0.0.0.0", "--concurrency", "2", *listen) as (url, _, _):
            place, _, token = url.partition("#token=")
            place = place.replace("localhost", "127.0.0.1")
            assert place.startswith("https://") and ask_with("", place)[1].startswith("<!doctype html>"), place
            assert ask_with("", place, Host="gpu.example")[0] == 200, "the certificate says who it is"
            with page_of(place, tls=trust) as page:
                page.until(lambda: "sample" in page.seen, "wss")
                assert not page.ask("start")["ok"] and page.result("start", token=token) == {}
                page.until(lambda: page.seen["sample"]["load"]["state"] == "running", "it runs")
                assert json.loads(ask_with(token, place.replace("/dashboard/", "/stop"), {"drain": False})[1])["state"] == "idle"
                page.until(lambda: page.seen["sample"]["load"]["state"] == "idle", "stopped by the API")
            try:
                request(place.replace("https://", "http://"))
                raise AssertionError("plain HTTP is served")
            except (OSError, http.client.HTTPException):
                pass

        folder = pathlib.Path(certificates)
        loadgen = subprocess.Popen([BINARY, "loadgen", "--target", "http://127.0.0.1:1", "--model", "m", "--no-dashboard", *listen], stdout=subprocess.PIPE, cwd=folder)
        try:
            port = re.search(r"http=(\d+)", read_line(loadgen.stdout, DEADLINE_S)).group(1)
            assert json.loads(ask_with("", f"https://127.0.0.1:{port}/status")[1])["state"] == "idle"
        finally:
            loadgen.send_signal(signal.SIGINT)
            loadgen.wait(DEADLINE_S)
            loadgen.stdout.close()
        for options, wanted in ((listen[:2], "--listen-key"), ((*listen[:2], "--listen-key", authority.path("ca.key")), "own.pem")):
            done = subprocess.run([BINARY, "dashboard", "--gateway", "http://127.0.0.1:1", *options], capture_output=True, text=True, timeout=60)
            assert done.returncode != 0 and wanted in done.stderr, (options, done.stderr)


def a_sweep_is_followed_and_then_its_results_are_looked_at():
    with tempfile.TemporaryDirectory() as folder:
        file_of(folder, "sweep.yaml", SWEEP)
        states, figures = [], 0
        with running("sweep", "-f", "sweep.yaml", folder=folder, code=None) as (url, _, process), page_of(url) as page:
            assert page.receive()["source"] == "sweep"
            try:
                while True:
                    message = page.receive()
                    if message["type"] == "sweep":
                        states.append([level["state"] for level in message["levels"]])
                        figures = max(figures, sum(level["figures"] is not None for level in message["levels"]))
                    if message["type"] == "sample" and message["sweep"]["state"] == "running":
                        assert 0 <= message["sweep"]["progress"] <= 1, message["sweep"]
            except Closed as closed:
                assert closed.code == 1001, closed.code
            assert process.wait(DEADLINE_S) == 0
        assert ["planned"] * 4 in states and any(row.count("running") == 1 for row in states) and figures == 4, (states, figures)
        assert any(s["load"]["state"] == "running" and s["live"]["ttft_p50_ms"] for s in page.samples if s["load"]), "the load was seen"
        assert any(s["sweep"]["phase"] == "measuring" and s["sweep"]["estimated_end_ms"] for s in page.samples)
        (results,) = (pathlib.Path(folder) / "out").iterdir()
        look_at_stored(results)


def look_at_stored(results):
    report = json.loads((results / "report.json").read_text())
    with running("dashboard", results) as (url, _, _), page_of(url) as page:
        assert page.receive()["source"] == "stored" and page.seen["hello"]["controls"] is None
        (only,) = page.result("runs")["runs"]
        assert only["name"] == "small" and only["modes"] == ["round_robin", "kv"] and only["concurrencies"] == [4, 8] and only["levels"] == 4 and only["finished"], only
        whole = page.result("run", run=only["run"])
        for mode, key in ((0, "round_robin"), (1, "kv_aware")):
            for index, level in enumerate(whole["modes"][mode]["levels"]):
                own = report["levels"][index][key]["kvist"]["headline"]["ttft_p50_ms"]
                shown = level["figures"]["ttft_p50_ms"]
                assert abs(shown["value"] - own["value"]) < 0.01 * own["value"], (shown, own)
                assert len(level["level_ids"]) == 1
        measured = page.result("level", run=only["run"], level=whole["modes"][1]["levels"][1]["level_ids"][0])
        assert measured["mode"] == "kv" and measured["concurrency"] == 8 and len(measured["t_s"]) == len(measured["series"]["turns_per_s"]), measured.keys()
        assert measured["conversations"] and measured["conversations"][0]["turns_list"][0]["ttft_ms"] > 0
        same = page.result("compare", baseline=only["run"], candidate=only["run"])
        assert len(same["levels"]) == 4 and same["levels"][0]["figures"]["ttft_p50_ms"]["ratio"] == 1, same
        for name in whole["files"]:
            status, headers, text = request(url + f"api/run/{only['run']}/{name}")
            assert status == 200 and f'filename="{name}"' in headers["Content-Disposition"] and len(text) > 100, (name, status, text[:200])
        assert json.loads(request(url + f"api/run/{only['run']}/report.json")[2])["levels"] == report["levels"]
        for wrong in ("9-9/report.md", "x/report.md", f"{only['run']}/../../etc/passwd", f"{only['run']}/nothing"):
            assert request(url + "api/run/" + wrong)[0] == 404, wrong
        for fields in ({"run": "9-1"}, {"run": "0-99"}, {"run": ""}):
            assert not page.ask("run", **fields)["ok"], fields
        assert not page.ask("start")["ok"], "a stored run cannot be started"


def of_an_engine_that_tells_little_the_rest_is_unknown_and_not_0():
    with tempfile.TemporaryDirectory() as folder:
        engine = EngineLikeVllm("vllm-0")
        gateway = Process(folder, "gateway", "gateway", "gateway:\n  model: test-model\n  block_size: 32\n  mode: kv\n  workers:\n" + engine.yaml())
        try:
            with running("dashboard", "--gateway", gateway.admin, folder=folder) as (url, _, _), page_of(url) as page:
                page.until(lambda: page.seen["sample"]["workers"][0]["state"] == "healthy", "the worker is seen")
                worker = page.seen["sample"]["workers"][0]
                for key in ("slots", "slots_source", "evictions", "evictions_per_s", "acceptance_rate_pct", "step_ms", "hit_rate_pct", "last_event_s", "kv_blocks_used"):
                    assert worker[key] is None, (key, worker)
                assert worker["in_flight"] == 0 and worker["indexed_blocks"] == 0, worker
                hello = page.seen["hello"]
                assert hello["source"] == "gateway" and page.seen["sample"]["load"] is None and not hello["controls"]["start"] and hello["controls"]["modes"], hello
                for number in range(3):
                    status, _, text = request(gateway.url + "/v1/completions", {"model": "test-model", "prompt": f"{number} " * 100, "max_tokens": 1})
                    assert status == 200, text
                page.until(lambda: page.seen["sample"]["workers"][0]["last_event_s"] is not None and page.seen["sample"]["workers"][0]["indexed_blocks"] > 0, "its events are seen")
                assert page.result("set_mode", mode="random") == {"mode": "random"}
                page.until(lambda: page.seen["sample"]["mode"] == "random", "the mode is seen")
        finally:
            gateway.stop()
            engine.close()


def what_cannot_be_shown_is_refused_with_its_name():
    with tempfile.TemporaryDirectory() as folder:
        file = file_of(folder, "deployment.yaml", DEPLOYMENT)
        for command, words in ((["dashboard"], ["results"]), (["dashboard", folder], ["results.sqlite"]), (["dashboard", "/no/where"], ["/no/where"]),
                               (["up", "-f", file, "--baseline", "/no/where.json"], ["--baseline", "/no/where.json"]),
                               (["up", "-f", file, "--slo", "speed=1"], ["--slo", "speed"])):
            done = subprocess.run([BINARY, *map(str, command)], capture_output=True, text=True, timeout=DEADLINE_S, cwd=folder)
            assert done.returncode == 1 and all(word in done.stderr for word in words), (command, done.stderr)


run([figures_equal_the_apis_and_controls_act, conversations_and_decisions_are_shown,
     several_viewers_see_the_same_and_one_that_does_not_read_disturbs_nobody, hostile_viewers_are_closed_and_others_go_on,
     origins_paths_and_fields_are_as_they_should_be, a_page_that_comes_back_after_a_restart_sees_that_it_is_another_server,
     a_load_generator_of_its_own_has_it_on_its_listener, beyond_loopback_changes_need_the_token, over_tls_it_is_the_same,
     a_sweep_is_followed_and_then_its_results_are_looked_at, of_an_engine_that_tells_little_the_rest_is_unknown_and_not_0, what_cannot_be_shown_is_refused_with_its_name])
