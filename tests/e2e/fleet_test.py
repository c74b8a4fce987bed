"""A fleet that changes while it serves: through the API of administration, and by the gateway's file."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import tempfile
import threading

from black_hole_test import config_of, metric, status
from deployment import Process, eventually, get_json, request, run
from drain_test import stream
from migration_test import Stream, chat, check_equal, kill, timed, told


@contextlib.contextmanager
def fleet(names, in_file, time_scale=100.0, **settings):
    """(folder, gateway, workers): workers of these names, of which the gateway's file has some."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        workers = {}
        for name in names:
            workers[name] = Process(folder, "worker", name, timed(name, time_scale))
            stack.callback(workers[name].stop)
        gateway = Process(folder, "gateway", "gateway", config(workers, in_file, **settings))
        stack.callback(gateway.stop)
        await_healthy(gateway, in_file)
        yield pathlib.Path(folder), gateway, workers


def config(workers, names, **settings):
    lines = config_of([], connect_timeout="60 s", **{"mode": "kv", "drain_timeout": "60 s", **settings}).splitlines()
    for name in names:
        lines += [f"    - {json.dumps(upstream(workers[name]))}"]
    return "\n".join(lines) + "\n"


def upstream(worker):
    return {"name": worker.name, "url": worker.url, "kv_events": f"tcp://127.0.0.1:{worker.ports['kv_events']}",
            "kv_replay": f"tcp://127.0.0.1:{worker.ports['kv_replay']}"}


def await_healthy(gateway, names):
    eventually(lambda: {n: w["state"] for n, w in status(gateway).items()} == {n: "healthy" for n in names}, f"{names} healthy")


def change(gateway, what, body, expected):
    path = "/admin/workers" + (f"/{what}" if what else "")
    code, _, text = request(gateway.admin + path, body, "POST")
    assert code == expected, (code, text)
    return json.loads(text)


def places(gateway):
    return get_json(gateway.admin + "/admin/workers")


def ask(gateway, number=0, tokens=5):
    code, headers, text = request(gateway.url + "/v1/chat/completions", {"model": "test-model", "max_tokens": tokens, **chat(number)[1]})
    assert code == 200, (code, text)
    return headers["x-kvist-worker"]


def workers_come_and_go_under_streams():
    """200 streams, while workers are added, drained and removed: each answer is the one of an undisturbed worker."""
    with fleet(["a", "b", "c", "d"], ["a", "b"], time_scale=5.0, mode="round_robin") as (_, gateway, workers), \
            concurrent.futures.ThreadPoolExecutor(100) as pool:
        streams = []

        def more(count):
            streams.extend(Stream(pool, gateway, *chat(len(streams), max_tokens=400, ignore_eos=True, seed=1), f"r-{len(streams)}")
                           for _ in range(count))
            eventually(lambda: all(stream.begun() for stream in streams), "all stream")

        more(40)
        change(gateway, "", upstream(workers["c"]), 201)
        await_healthy(gateway, ["a", "b", "c"])
        more(40)
        assert metric(gateway, "kvist_gateway_requests_total", worker="c") + status(gateway)["c"]["in_flight"] >= 10
        assert change(gateway, "drain", {"name": "a"}, 202)["admission"] == "draining"
        more(40)
        assert change(gateway, "remove", {"name": "b"}, 202)["admission"] in ("leaving", "vacant")
        change(gateway, "", upstream(workers["d"]), 201)
        more(40)
        for stream in streams:
            stream.done.result()
        eventually(lambda: {w["name"] for w in places(gateway)["workers"]} == {"c", "d"}, "a and b are gone")
        assert metric(gateway, "kvist_gateway_requests_total", outcome="broken_stream") == 0
        assert metric(gateway, "kvist_gateway_migrations_total") >= 10, "those of b moved"
        check_equal(streams, (pool, workers["a"]))


def a_new_worker_in_an_old_place_begins_from_nothing():
    with fleet(["a", "b", "c"], ["a", "b"], max_workers=2) as (_, gateway, workers):
        for i in range(30):
            ask(gateway, i)
        eventually(lambda: status(gateway)["a"]["indexed_blocks"] > 50 and status(gateway)["a"]["index_exact"], "blocks are indexed")
        refused = change(gateway, "", upstream(workers["c"]), 429)
        assert "all 2 places" in refused["error"]["message"], refused
        change(gateway, "drain", {"name": "a", "timeout": "10 s"}, 202)
        eventually(lambda: places(gateway)["vacant"] == 1, "its place is vacant")
        assert set(status(gateway)) == {"b"} and metric(gateway, "kvist_gateway_kv_index_blocks", worker="a") == 0
        change(gateway, "", upstream(workers["c"]), 201)
        assert places(gateway)["workers"][0]["name"] == "c", "in the place of a"
        await_healthy(gateway, ["b", "c"])
        new = status(gateway)["c"]
        assert (new["indexed_blocks"], new["cache"]["predicted_prompts"], new["cache"]["usage_reports"]) == (0, 0, 0), new
        assert metric(gateway, "kvist_gateway_requests_total", worker="c") == 0
        assert metric(gateway, "kvist_gateway_forecasts_observed_total", worker="c") == 0
        decisions = get_json(gateway.admin + "/admin/decisions?limit=100")["decisions"]
        assert {c["name"] for d in decisions for c in d["candidates"]} == {"a", "b"}, "what was recorded keeps its names"
        for i in range(20):
            assert ask(gateway, 1000 + i) in ("b", "c")
        eventually(lambda: status(gateway)["c"]["index_exact"] and status(gateway)["c"]["indexed_blocks"] > 0, "its events are followed")


def a_cordon_keeps_new_requests_away():
    with fleet(["a", "b"], ["a", "b"], mode="round_robin") as (_, gateway, _):
        assert change(gateway, "cordon", {"name": "a"}, 200)["admission"] == "cordoned"
        assert {ask(gateway, i) for i in range(6)} == {"b"} and status(gateway)["a"]["state"] == "cordoned"
        change(gateway, "cordon", {"name": "b"}, 200)
        assert request(gateway.url + "/health")[0] == 503
        assert request(gateway.url + "/v1/chat/completions", {"model": "test-model", **chat(0)[1]})[0] == 503
        for name in ("a", "b"):
            assert change(gateway, "uncordon", {"name": name}, 200)["admission"] == "serving"
        assert {ask(gateway, i) for i in range(6)} == {"a", "b"}


def requests_that_are_wrong_say_so():
    with fleet(["a"], ["a"]) as (_, gateway, workers):
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for path in ("", "/drain", "/remove", "/cordon", "/uncordon"):
            assert request(gateway.admin + "/admin/workers" + path, {"name": "a"}, "POST", headers=form)[0] == 415
            assert request(gateway.url + "/admin/workers" + path, {"name": "a"}, "POST")[0] == 404, "clients have none of it"
        assert request(gateway.admin + "/admin/workers/remove", method="GET")[0] == 405
        for what, body, code, words in [
            ("", upstream(workers["a"]), 400, "there is a worker \"a\" already"),
            ("", {"name": "b"}, 400, "key \"url\" is missing"),
            ("", {"url": "http://127.0.0.1:1"}, 400, "key \"name\" is missing"),
            ("", {"name": "b", "url": "ftp://x:1"}, 400, "expected http://host:port"),
            ("", {"name": "b c", "url": "http://127.0.0.1:1"}, 400, "is not a name"),
            ("", {"name": "b", "url": "http://127.0.0.1:1", "colour": "red"}, 400, "colour"),
            ("", {"name": "b", "url": "http://127.0.0.1:1", "api_key_file": "/etc/shadow"}, 400, "in the gateway's file only"),
            ("", [], 400, "expected an object"),
            ("drain", {"name": "nobody"}, 404, "there is no worker \"nobody\""),
            ("drain", {"name": "a", "timeout": "soon"}, 400, "timeout"),
            ("remove", {}, 400, "key \"name\" is missing"),
            ("cordon", {"name": "a", "timeout": "1 s"}, 400, "timeout"),
        ]:
            assert words in change(gateway, what, body, code)["error"]["message"], (what, body)
        assert [w["name"] for w in places(gateway)["workers"]] == ["a"]


def the_file_is_followed():
    with fleet(["a", "b", "c"], ["a", "b"], time_scale=5.0) as (folder, gateway, workers), \
            concurrent.futures.ThreadPoolExecutor(40) as pool:
        file, log = folder / "gateway.yaml", folder / "gateway.log"
        streams = [Stream(pool, gateway, *chat(i, max_tokens=400, ignore_eos=True, seed=1), f"r-{i}") for i in range(20)]
        eventually(lambda: all(stream.begun() for stream in streams), "all stream")
        # Replaced by renaming, as editors and Kubernetes do.
        (folder / "new.yaml").write_text(config(workers, ["b", "c"]))
        os.rename(folder / "new.yaml", file)
        await_healthy_but_draining(gateway, ["b", "c"])
        for stream in streams:
            told(stream.done.result())
        assert metric(gateway, "kvist_gateway_migrations_total") == 0, "those of a had time to end"
        eventually(lambda: {w["name"] for w in places(gateway)["workers"]} == {"b", "c"}, "a is gone")

        file.write_text("gateway: {workers: [{url: nonsense}]}\n")
        gateway.process.send_signal(signal.SIGHUP)
        eventually(lambda: "the fleet stays as it was" in log.read_text() and "expected http://host:port" in log.read_text(), "refused")
        assert set(status(gateway)) == {"b", "c"}

        file.write_text(config(workers, ["a", "b", "c"], mode="round_robin", max_in_flight=7))
        await_healthy(gateway, ["a", "b", "c"])
        eventually(lambda: "these need a restart: max_in_flight, mode" in log.read_text(), "said")
        assert get_json(gateway.admin + "/admin/router_mode") == {"mode": "kv"}

        other = config(workers, ["a", "b", "c"]).replace(workers["a"].url, workers["b"].url)
        file.write_text(other)
        eventually(lambda: status(gateway)["a"]["url"] == workers["b"].url, "replaced")
        kill(workers["a"])
        await_healthy(gateway, ["a", "b", "c"])
        # What administration removed is not brought back by a change of something else.
        change(gateway, "remove", {"name": "c"}, 202)
        eventually(lambda: set(status(gateway)) == {"a", "b"}, "removed")
        file.write_text(other + "  max_retries: 1\n")
        eventually(lambda: "these need a restart: max_retries" in log.read_text(), "read again")
        assert set(status(gateway)) == {"a", "b"}


def await_healthy_but_draining(gateway, names):
    eventually(lambda: {n for n, w in status(gateway).items() if w["state"] == "healthy"} == set(names), f"{names} healthy")


def who_comes_back_while_draining_has_never_left():
    with fleet(["a", "b"], ["a", "b"], time_scale=1.0, mode="round_robin") as (folder, gateway, workers):
        streams = [stream(gateway, 3000)[0] for _ in range(4)]
        (folder / "gateway.yaml").write_text(config(workers, ["b"]))
        eventually(lambda: status(gateway)["a"]["state"] == "draining", "drains")
        (folder / "gateway.yaml").write_text(config(workers, ["a", "b"]))
        await_healthy(gateway, ["a", "b"])
        assert status(gateway)["a"]["in_flight"] == 2 and places(gateway)["waiting"] == []
        for connection in streams:
            connection.close()
        eventually(lambda: status(gateway)["a"]["in_flight"] == 0, "idle")


def who_finds_no_place_waits_for_one():
    with fleet(["a", "b", "c"], ["a", "b"], max_workers=2) as (folder, gateway, workers):
        (folder / "gateway.yaml").write_text(config(workers, ["a", "b", "c"], max_workers=3))
        eventually(lambda: places(gateway)["waiting"], "c waits")
        (waits,) = places(gateway)["waiting"]
        assert (waits["name"], waits["source"]) == ("c", "file") and "all 2 places" in waits["problem"], waits
        assert "these need a restart: max_workers" in (folder / "gateway.log").read_text()
        change(gateway, "remove", {"name": "b"}, 202)
        await_healthy(gateway, ["a", "c"])
        assert places(gateway)["waiting"] == []


def a_storm_of_changes_under_load():
    """Adds, drains and removes at random for a while, with requests that never stop: none fails."""
    with fleet(["a", "b", "c", "d"], ["a"], time_scale=50.0, max_workers=3, mode="kv") as (_, gateway, workers), \
            concurrent.futures.ThreadPoolExecutor(20) as pool:
        over = threading.Event()
        failed, done = [], []

        def client(number):
            while not over.is_set():
                code, _, text = request(gateway.url + "/v1/chat/completions", {"model": "test-model", "max_tokens": 20, **chat(number % 7)[1]})
                (done if code == 200 else failed).append(text)

        clients = [pool.submit(client, i) for i in range(12)]
        for i in range(60):
            name = "bcd"[i % 3]
            code, _, _ = request(gateway.admin + "/admin/workers", upstream(workers[name]), "POST")
            assert code in (201, 400, 429), code
            if code == 201:
                eventually(lambda: status(gateway).get(name, {}).get("state") == "healthy", "healthy")
            victim = "bcd"[(i + 1) % 3]
            code, _, _ = request(gateway.admin + f"/admin/workers/{('drain', 'remove')[i % 2]}", {"name": victim}, "POST")
            assert code in (202, 400, 404), code
        over.set()
        for each in clients:
            each.result()
        assert not failed and len(done) > 100, (failed[:3], len(done))
        eventually(lambda: status(gateway)["a"]["in_flight"] == 0, "idle")


if __name__ == "__main__":
    run([workers_come_and_go_under_streams, a_new_worker_in_an_old_place_begins_from_nothing, a_cordon_keeps_new_requests_away,
         requests_that_are_wrong_say_so, the_file_is_followed, who_comes_back_while_draining_has_never_left,
         who_finds_no_place_waits_for_one, a_storm_of_changes_under_load])
