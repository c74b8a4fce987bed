"""kvist doctor, before good and bad deployments."""
import contextlib
import email.utils
import json
import pathlib
import subprocess
import tempfile
import time

from deployment import BINARY, Process, WORKER, deployment, eventually, gateway_config, get_json, request, run
from dns_server import A, SRV, DnsServer
from tls_test import Authority


def doctor(*arguments):
    """(exit status, ids of the findings that are no hints, all of the answer)"""
    done = subprocess.run([BINARY, "doctor", *map(str, arguments), "--json"], capture_output=True, text=True, timeout=100)
    answer = json.loads(done.stdout)
    assert (done.returncode == 1) == (answer["errors"] > 0), (done.returncode, answer, done.stderr)
    # What this machine is like is not the test's business.
    ours = [f for f in answer["findings"] if f["where"] != "this machine"]
    assert all(f["what"] and f["right"] for f in ours), ours
    return done.returncode, sorted(f["id"] for f in ours if f["severity"] != "info"), answer


@contextlib.contextmanager
def file_with(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "gateway.yaml"
        path.write_text(text)
        yield path


def a_good_file_and_a_good_gateway():
    with deployment() as (gateway, workers):
        with file_with(gateway_config(workers, "kv")) as file:
            assert doctor("-f", file)[:2] == (0, []), doctor("-f", file)
        eventually(lambda: all(w["index_exact"] for w in get_json(gateway.admin + "/admin/status")["workers"]), "exact")
        assert doctor("--gateway", gateway.admin)[:2] == (0, []), doctor("--gateway", gateway.admin)
        for url in (gateway.url, gateway.admin, workers[0].url):  # by which it compares clocks
            date = request(url + "/health")[1]["Date"]
            assert abs(time.time() - email.utils.parsedate_to_datetime(date).timestamp()) < 60, date


def wrong_settings_are_named():
    with deployment(gateway=False, workers=1) as (_, workers):
        good = gateway_config(workers, "kv")
        events = f"tcp://127.0.0.1:{workers[0].ports['kv_events']}"
        replay = f"tcp://127.0.0.1:{workers[0].ports['kv_replay']}"
        for changed, wanted in ((good.replace("block_size: 32", "block_size: 16"), ["block_size_differs"]),
                                (good.replace("model: test-model", "model: another"), ["model_differs"]),
                                (good.replace(replay, "tcp://127.0.0.1:9"), ["replay_refused"]),
                                (good.replace(events, workers[0].url.replace("http", "tcp")), ["events_unreachable"]),
                                (good.replace(events, "@").replace(replay, events).replace("@", replay), ["events_unreachable", "replay_refused"]),
                                (good.replace(events, "tcp://*:5557"), ["events_listen"]),
                                (good.replace(f"      kv_replay: {replay}\n", ""), ["no_replay"]),
                                (good.replace(workers[0].url, "http://127.0.0.1:9"), ["worker_unreachable"]),
                                (good + f"  http: {{port: {workers[0].ports['http']}}}\n  admin: {{port: 0}}\n", ["port_in_use"]),
                                (good + "  tls: {certificate: none.pem, key: none.key}\n", ["file_unusable", "file_unusable"])):
            with file_with(changed) as file:
                assert doctor("-f", file, "--timeout", "3s")[1] == wanted, (changed, doctor("-f", file))


def alive_is_what_health_says():
    """With a worker down and keys for administration, of which an examination makes errors."""
    def alive(url):
        return subprocess.run([BINARY, "doctor", "--gateway", url, "--alive"], capture_output=True, text=True, timeout=100)

    with tempfile.TemporaryDirectory() as folder, deployment(gateway=False, workers=1) as (_, workers):
        created = subprocess.run([BINARY, "key", "create", "--name", "operator"], capture_output=True, text=True, check=True)
        (pathlib.Path(folder) / "admin.keys").write_text(created.stdout.splitlines()[1] + "\n")
        config = gateway_config(workers, "kv") + "    - {name: gone, url: 'http://127.0.0.1:9'}\n  api_keys: {admin_file: admin.keys}\n"
        gateway = Process(folder, "gateway", "gateway", config)
        try:
            eventually(lambda: request(gateway.admin + "/health")[0] == 200, "it takes requests")
            assert request(gateway.admin + "/admin/status")[0] == 401
            for url in (gateway.admin, gateway.admin + "/", gateway.url):
                done = alive(url)
                assert (done.returncode, done.stdout) == (0, "alive\n"), done
            workers[0].stop()
            eventually(lambda: request(gateway.admin + "/health")[0] == 503, "no worker is left")
            done = alive(gateway.admin)
            assert done.returncode == 1 and "/health answers 503" in done.stderr, done
        finally:
            gateway.stop()
        done = alive(gateway.admin)
        assert done.returncode == 1 and "refused" in done.stderr, done


def a_profile_that_is_none_is_named_before_the_start():
    for setting, wanted in (("speculation: {drafter: eagle4}", 'no drafter "eagle4"; did you mean eagle3?'),
                            ("profile: {gpu: h100, model: llama, engine: trtllm}", 'unknown model "llama"')):
        with file_with("worker: {name: w, http: {port: 0}, " + setting + "}") as file:
            status, found, answer = doctor("-f", file)
            assert (status, found) == (1, ["profile_unusable"]) and wanted in str(answer["findings"]), answer
            started = subprocess.run([BINARY, "worker", "-f", file], capture_output=True, text=True, timeout=100)
            assert started.returncode == 1 and wanted in started.stderr, started


def a_gateway_without_events_says_so_in_its_log():
    with tempfile.TemporaryDirectory() as folder, deployment(gateway=False, workers=1) as (_, workers):
        events = f"tcp://127.0.0.1:{workers[0].ports['kv_events']}"
        gateway = Process(folder, "gateway", "gateway", gateway_config(workers, "kv").replace(events, "tcp://127.0.0.1:9"))
        try:
            log = pathlib.Path(gateway.log.name)
            told = "no KV events from tcp://127.0.0.1:9: Connection refused"
            eventually(lambda: told in log.read_text(), "the log says that no events come")
            time.sleep(2)
            assert log.read_text().count(told) == 1, log.read_text()
        finally:
            gateway.stop()


def another_tokenizer_is_noticed():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BINARY, "model", "create", folder + "/model", "--size", "tiny"], check=True, capture_output=True)
        with deployment(gateway=False, workers=1) as (_, workers), file_with(gateway_config(workers, "kv", folder + "/model")) as file:
            assert "tokenizer_differs" in doctor("-f", file)[1]


def a_running_gateway_tells_of_its_workers():
    with tempfile.TemporaryDirectory() as folder:
        worker = Process(folder, "worker", "w", WORKER.format(name="w", kv_blocks=100, slots=4, time_scale=100).replace("test-model", "another"))
        config = gateway_config([worker], "kv").replace("block_size: 32", "block_size: 64")
        gateway = Process(folder, "gateway", "gateway", config)
        try:
            def found():
                return doctor("--gateway", gateway.admin)[1]
            eventually(lambda: {"model_differs", "block_size_differs"} <= set(found()), "model and block size")
        finally:
            gateway.stop()
            worker.stop()


def beside_its_own_gateway_the_ports_are_no_error():
    with deployment(workers=1) as (gateway, workers):
        ports = f"  http: {{port: {gateway.ports['http']}}}\n  admin: {{port: {gateway.ports['admin']}}}\n"
        with file_with(gateway_config(workers, "kv") + ports) as file:
            code, ids, answer = doctor("-f", file)
            assert (code, ids) == (0, []), answer
            assert [f["where"] for f in answer["findings"] if f["id"] == "gateway_runs"] == ["gateway.http", "gateway.admin"], answer
        # With TLS nobody can be asked there; that the other listener is a gateway's is enough.
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(folder, "ca")
            authority.issue("own")
            tls = f"  tls: {{certificate: {authority.path('own.pem')}, key: {authority.path('own.key')}}}\n"
            with file_with(gateway_config(workers, "kv") + ports + tls) as file:
                assert doctor("-f", file)[:2] == (0, []), doctor("-f", file)


def workers_behind_dns_names_are_examined():
    server = DnsServer()
    with deployment(gateway=False, workers=1) as (_, workers):
        port = workers[0].ports["http"]
        server.records = {("llm.test", A): ["127.0.0.1"], ("_http._tcp.llm.test", SRV): [(0, port, "llm.test")]}
        head = "gateway:\n  model: {model}\n  mode: kv\n  block_size: 32\n  http: {{port: 0}}\n  admin: {{port: 0}}\n  workers:\n"
        events = f"      kv_events_port: {workers[0].ports['kv_events']}\n      kv_replay_port: {workers[0].ports['kv_replay']}\n"
        entry = '    - name: pool\n      dns: {{name: {name}, server: "' + server.address + '", {more}}}\n' + events
        for model, name, more, wanted in (("test-model", "llm.test", f"port: {port}", []),
                                          ("test-model", "_http._tcp.llm.test", "record: srv", []),
                                          ("another", "llm.test", f"port: {port}", ["model_differs"]),
                                          ("test-model", "llm.test", "port: 9", ["worker_unreachable"]),
                                          ("test-model", "nowhere.test", f"port: {port}", ["dns_fails"])):
            with file_with(head.format(model=model) + entry.format(name=name, more=more)) as file:
                assert doctor("-f", file, "--timeout", "3s")[1] == wanted, (name, doctor("-f", file))
    server.close()


def other_files_and_what_cannot_be_examined():
    with file_with("worker:\n  model: m\n") as file:
        assert doctor("-f", file)[0] == 0
    with file_with("deployment:\n  workers: {count: 2}\n") as file:
        assert doctor("-f", file)[0] == 0
    with file_with("gateway:\n  nonsense: 1\n") as file:
        for arguments, wanted in ((["-f", file], "nonsense"), ([], "either --file or --gateway"), (["--gateway", "http://127.0.0.1:9"], "127.0.0.1:9")):
            done = subprocess.run([BINARY, "doctor", *arguments], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and wanted in done.stderr, (arguments, done.stderr)


if __name__ == "__main__":
    run([a_good_file_and_a_good_gateway, alive_is_what_health_says, wrong_settings_are_named, a_profile_that_is_none_is_named_before_the_start,
         a_gateway_without_events_says_so_in_its_log, another_tokenizer_is_noticed, a_running_gateway_tells_of_its_workers,
         beside_its_own_gateway_the_ports_are_no_error, workers_behind_dns_names_are_examined, other_files_and_what_cannot_be_examined])
