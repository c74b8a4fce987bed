"""Two models in one gateway, each with two workers, a tokenizer and a mode of its own; a third that comes and one that goes."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile

from black_hole_test import metric
from deployment import BINARY, Process, create_model, eventually, get_json, request, run
from metrics_test import promtool_accepts
from migration_test import Stream, kill, told

TIMED = """worker:
  name: {name}
  model: {model}
  block_size: 32
  kv_blocks: 4000
  max_batch_size: 64
  time_scale: {time_scale}
  drain_timeout: 1 s
  output_length: {{mean_tokens: 200, standard_deviation_tokens: 30}}
"""
CPU = """worker:
  name: {name}
  model: vendor/computed
  block_size: 16
  tokenizer: {directory}
  drain_timeout: 1 s
  cpu: {{model: {directory}, threads: 1, memory: 256 MiB}}
"""
TEXT = "Rivers of the north carry more water in spring than in any other season. " * 8


def config(models):
    """The gateway's file with these models: (name, settings, workers)."""
    lines = ["gateway:", "  drain_timeout: 20 s", "  connect_timeout: 60 s", "  admission: {enabled: false}", "  access_log: access.log", "  models:"]
    for name, settings, workers in models:
        lines += [f"    - name: {name}", *[f"      {key}: {value}" for key, value in settings.items()], "      workers:"]
        for worker in workers:
            zmq = {key: f"tcp://127.0.0.1:{worker.ports[key]}" for key in ("kv_events", "kv_replay")}
            lines += [f"        - {json.dumps({'name': worker.name, 'url': worker.url, **zmq})}"]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def fleets(time_scale=100.0, threads=None):
    """(folder, gateway, workers by name, models): a gateway before `timed` and `vendor/computed`; `third` waits outside."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        directory = create_model(str(pathlib.Path(folder) / "model"))
        texts = {name: TIMED.format(name=name, model="timed", time_scale=time_scale) for name in ("t0", "t1")}
        texts |= {name: CPU.format(name=name, directory=directory) for name in ("c0", "c1")}
        texts["x0"] = TIMED.format(name="x0", model="third", time_scale=time_scale)
        workers = {}
        for name, text in texts.items():
            workers[name] = Process(folder, "worker", name, text)
            stack.callback(workers[name].stop)
        models = [("timed", {"mode": "round_robin", "block_size": 32, "aliases": "[gpt-4o]"}, [workers["t0"], workers["t1"]]),
                  ("vendor/computed", {"mode": "kv", "block_size": 16, "tokenizer": directory}, [workers["c0"], workers["c1"]])]
        text = config(models) + (f"  threads: {threads}\n" if threads else "")
        gateway = Process(folder, "gateway", "gateway", text)
        stack.callback(gateway.stop)
        await_healthy(gateway, ["t0", "t1", "c0", "c1"])
        eventually(lambda: {w["tokenizer"] for w in status(gateway).values()} == {"same"}, "tokenizers are compared")
        yield pathlib.Path(folder), gateway, workers, models


def models_of(gateway):
    return {model["model"]: model for model in get_json(gateway.admin + "/admin/status")["models"]}


def status(gateway):
    return {worker["name"]: worker for model in models_of(gateway).values() for worker in model["workers"]}


def await_healthy(gateway, names):
    eventually(lambda: {n for n, w in status(gateway).items() if w["state"] == "healthy"} == set(names), f"{names} healthy")


def ask(gateway, model, text="hello", path="/v1/chat/completions", expected=200, headers=None, **fields):
    prompt = {"prompt": text} if path == "/v1/completions" else {"messages": [{"role": "user", "content": text}]}
    code, answer_headers, body = request(gateway.url + path, {"model": model, "max_tokens": 4, **prompt, **fields}, "POST", headers=headers)
    assert code == expected, (code, body)
    return answer_headers["x-kvist-worker"], json.loads(body)


def each_model_has_its_workers_tokenizer_and_mode():
    with fleets(threads=2) as (folder, gateway, _, _):
        assert [ask(gateway, "timed", f"{i}")[0] for i in range(4)].count("t0") == 2, "round robin"
        assert ask(gateway, "gpt-4o")[0] in ("t0", "t1")
        worker, answer = ask(gateway, "gpt-4o", path="/v1/messages")
        assert worker in ("t0", "t1") and answer["type"] == "message", answer
        assert ask(gateway, "gpt-4o", path="/v1/completions")[0] in ("t0", "t1")
        first, answer = ask(gateway, "vendor/computed", TEXT)
        assert answer["model"] == "vendor/computed"
        eventually(lambda: status(gateway)[first]["indexed_blocks"] > 5 and status(gateway)[first]["index_exact"], "its events are followed")
        code, headers, body = request(gateway.url + "/v1/chat/completions",
                                      {"model": "vendor/computed", "max_tokens": 4, "messages": [{"role": "user", "content": TEXT}]})
        used = json.loads(body)["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert (headers["x-kvist-worker"], int(headers["x-kvist-predicted-cached-tokens"])) == (first, used) and used > 80, "kv, with its tokenizer"
        # The same text has other tokens for each model, and is tokenized by one of its workers.
        count = {model: len(json.loads(request(gateway.url + "/tokenize", {"model": model, "prompt": TEXT})[2])["tokens"])
                 for model in ("timed", "vendor/computed")}
        assert count["timed"] == len(TEXT) > count["vendor/computed"], count

        listed = {card["id"]: card for card in get_json(gateway.url + "/v1/models")["data"]}
        assert set(listed) == {"timed", "gpt-4o", "vendor/computed"} and all(card["max_model_len"] > 0 for card in listed.values()), listed
        assert get_json(gateway.url + "/v1/models/vendor%2Fcomputed")["id"] == "vendor/computed"
        _, unknown = ask(gateway, "gpt-5", expected=404)
        assert unknown["error"]["code"] == "model_not_found" and "\"timed\", \"vendor/computed\"" in unknown["error"]["message"], unknown
        code, _, body = request(gateway.url + "/v1/chat/completions", {"messages": []})
        assert code == 400 and "this gateway serves" in body, body

        assert metric(gateway, "kvist_gateway_requests_total", model="timed", outcome="completed") >= 7
        assert metric(gateway, "kvist_gateway_requests_total", model="vendor/computed", worker=first, outcome="completed") == 2
        assert metric(gateway, "kvist_gateway_router_mode", model="timed", mode="round_robin") == 1
        assert metric(gateway, "kvist_gateway_router_mode", model="vendor/computed", mode="kv") == 1
        assert metric(gateway, "kvist_gateway_kv_index_blocks", model="vendor/computed", worker=first) > 5
        assert metric(gateway, "kvist_gateway_refused_requests_total", model="") == 2
        promtool_accepts("two models", request(gateway.admin + "/metrics")[2])
        eventually(lambda: all(f"model={name} " in (folder / "access.log").read_text() for name in ("timed", "vendor/computed")), "models in the access log")


def one_models_death_does_not_disturb_the_other():
    with fleets(time_scale=3.0) as (_, gateway, workers, _), concurrent.futures.ThreadPoolExecutor(40) as pool:
        body = {"model": "timed", "messages": [{"role": "user", "content": "go on"}], "max_tokens": 300, "ignore_eos": True}
        streams = [Stream(pool, gateway, "/v1/chat/completions", body, f"r-{i}") for i in range(20)]
        eventually(lambda: all(stream.begun() for stream in streams), "all stream")
        for name in ("c0", "c1"):
            kill(workers[name])
        _, refused = ask(gateway, "vendor/computed", expected=503)
        eventually(lambda: status(gateway)["c0"]["state"] == status(gateway)["c1"]["state"] == "unhealthy", "found dead")
        for stream in streams:
            told(stream.done.result())
        assert metric(gateway, "kvist_gateway_requests_total", model="timed", outcome="completed") == 20
        assert metric(gateway, "kvist_gateway_retries_total", model="timed") == metric(gateway, "kvist_gateway_migrations_total", model="timed") == 0
        assert metric(gateway, "kvist_gateway_attempt_failures_total", model="timed") == 0
        assert metric(gateway, "kvist_gateway_worker_healthy", model="timed") == 2 and metric(gateway, "kvist_gateway_worker_healthy", model="vendor/computed") == 0
        assert request(gateway.url + "/health")[0] == 200
        assert {card["id"] for card in get_json(gateway.url + "/v1/models")["data"]} == {"timed", "gpt-4o", "vendor/computed"}


def a_model_comes_and_another_goes():
    for threads in (1, 3):
        with fleets(time_scale=2.0, threads=threads) as (folder, gateway, workers, models), concurrent.futures.ThreadPoolExecutor(40) as pool:
            file, log = folder / "gateway.yaml", folder / "gateway.log"

            def write(next_models):
                (folder / "new.yaml").write_text(config(next_models) + f"  threads: {threads}\n")
                os.rename(folder / "new.yaml", file)

            ask(gateway, "third", expected=404)
            third = ("third", {"mode": "least_loaded", "aliases": "[newest]"}, [workers["x0"]])
            write([*models, third])
            await_healthy(gateway, ["t0", "t1", "c0", "c1", "x0"])
            assert ask(gateway, "newest")[0] == "x0" and models_of(gateway)["third"]["mode"] == "least_loaded"
            eventually(lambda: status(gateway)["x0"]["index_exact"], "its events are followed")
            assert "third" in {card["id"] for card in get_json(gateway.url + "/v1/models")["data"]}

            # A model that cannot be loaded, and a worker that has one already, change nothing else.
            broken = ("broken", {"tokenizer": "/nowhere"}, [workers["x0"]])
            (folder / "new.yaml").write_text(config([*models, third, broken]) + f"  threads: {threads}\n")
            os.rename(folder / "new.yaml", file)
            eventually(lambda: "a worker serves one model" in log.read_text() or "the worker \"x0\" is that of" in log.read_text(), "refused")
            assert ask(gateway, "third")[0] == "x0"

            # The first one leaves: no new request for it, but its streams go on to their end.
            body = {"model": "timed", "messages": [{"role": "user", "content": "go on"}], "max_tokens": 800, "ignore_eos": True}
            streams = [Stream(pool, gateway, "/v1/chat/completions", body, f"r-{i}") for i in range(20)]
            eventually(lambda: all(stream.begun() for stream in streams), "all stream")
            write([models[1], third])
            eventually(lambda: request(gateway.url + "/v1/chat/completions", {**body, "max_tokens": 1})[0] == 404, "not served any more")
            ask(gateway, "gpt-4o", expected=404)
            assert models_of(gateway)["timed"]["leaving"] and models_of(gateway)["timed"]["in_flight"] > 0
            for stream in streams:
                told(stream.done.result())
            eventually(lambda: set(models_of(gateway)) == {"vendor/computed", "third"}, "it is gone")
            assert metric(gateway, "kvist_gateway_worker_healthy", model="timed") == 0
            assert ask(gateway, "vendor/computed")[0] in ("c0", "c1")

            # And comes back, from nothing, while nobody else notices.
            write([models[1], third, models[0]])
            await_healthy(gateway, ["t0", "t1", "c0", "c1", "x0"])
            assert ask(gateway, "gpt-4o")[0] in ("t0", "t1")
            assert metric(gateway, "kvist_gateway_requests_total", model="timed") == 1
            write([("vendor/computed", {**models[1][1], "mode": "random"}, models[1][2]), third, models[0]])
            eventually(lambda: "these need a restart: mode of vendor/computed" in log.read_text(), "said")


def the_doctor_looks_at_each_model():
    with fleets() as (folder, gateway, workers, models):
        def doctor(*arguments):
            done = subprocess.run([BINARY, "doctor", "--json", *arguments], capture_output=True, text=True)
            return json.loads(done.stdout)["findings"]

        wrong = ("third", {"mode": "kv", "block_size": 64}, [workers["x0"]])
        (folder / "file.yaml").write_text(config([*models, wrong]))
        ids = {(finding["id"], finding["where"]) for finding in doctor("--file", str(folder / "file.yaml")) if finding["severity"] != "info"}
        assert ("block_size_differs", "worker x0") in ids, ids
        assert not any("worker t" in where or "worker c" in where for _, where in ids), ids
        assert not [f for f in doctor("--gateway", gateway.admin) if f["severity"] == "error" and "worker" in f["where"]]
        kill(workers["c1"])
        eventually(lambda: status(gateway)["c1"]["state"] == "unhealthy", "found dead")
        ids = {(f["id"], f["where"]) for f in doctor("--gateway", gateway.admin) if f["severity"] == "error"}
        assert ("worker_unreachable", "worker c1") in ids, ids


if __name__ == "__main__":
    run([each_model_has_its_workers_tokenizer_and_mode, one_models_death_does_not_disturb_the_other, a_model_comes_and_another_goes,
         the_doctor_looks_at_each_model])
