"""TLS from the client to the gateway, to its administration, and on to the workers, with certificates made by openssl."""
import contextlib
import json
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request

from authority import Authority
from deployment import BINARY, DEADLINE_S, Process, WORKER, eventually, run


def https(process, which="http"):
    return f"https://127.0.0.1:{process.ports[which]}"


def ask(url, ca, body=None, own=None):
    """(status, text) of a call that trusts `ca`."""
    context = ssl.create_default_context(cafile=ca)
    if own:
        context.load_cert_chain(f"{own}.pem", f"{own}.key")
    data = json.dumps(body).encode() if body is not None else None
    call = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(call, timeout=DEADLINE_S, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def refused(*arguments, **options):
    try:
        ask(*arguments, **options)
    except (urllib.error.URLError, OSError) as error:
        return str(error)
    raise AssertionError("it was served")


CHAT = {"model": "test-model", "max_tokens": 5, "stream": True, "messages": [{"role": "user", "content": "hello"}]}


@contextlib.contextmanager
def secure(workers_tls="{ca: ca.pem}", worker="worker", threads=2, client_certificates="", keys=None):
    """An authority, a worker with TLS and a gateway with TLS on both of its listeners; `keys` are those of both (lines of key files)."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for name, line in (keys or {}).items():
            (pathlib.Path(folder) / f"{name}.txt").write_text(line + "\n")
        authority = Authority(folder, "ca")
        authority.issue("gateway")
        authority.issue("worker")
        authority.issue("elsewhere", "DNS:gpu.example")
        authority.issue("client", "DNS:client.example")
        for copy in ("fleet", "clients"):
            shutil.copy(authority.path("ca.pem"), authority.path(f"{copy}.pem"))
        behind = Process(folder, "worker", "w", WORKER.format(name="w", kv_blocks=500, slots=16, time_scale=100) +
                         f"  tls: {{certificate: {worker}.pem, key: {worker}.key{client_certificates}}}\n")
        stack.callback(behind.stop)
        gateway = Process(folder, "gateway", "gateway", f"""gateway:
  model: test-model
  block_size: 32
  threads: {threads}
  connect_timeout: 60 s
  tls: {{certificate: gateway.pem, key: gateway.key}}
  admin_tls: {{certificate: gateway.pem, key: gateway.key, client_ca: ca.pem, client_certificates: required}}
  worker_tls: {workers_tls}
  {"api_keys: {file: public.txt, admin_file: admin.txt}" if keys else ""}
  workers: [{{name: w, url: '{https(behind)}'}}]
""")
        stack.callback(gateway.stop)
        yield authority, gateway, behind


def a_chat_is_encrypted_all_the_way():
    for threads in (1, 4):
        with secure(threads=threads) as (authority, gateway, worker):
            ca = authority.path("ca.pem")
            eventually(lambda: ask(https(gateway) + "/health", ca)[0] == 200, "the worker is healthy")
            for _ in range(3):
                status, text = ask(https(gateway) + "/v1/chat/completions", ca, CHAT)
                assert status == 200 and text.endswith("data: [DONE]\n\n"), (status, text)
            assert ask(https(gateway) + "/v1/models", ca)[0] == 200


def administration_asks_for_a_certificate():
    with secure() as (authority, gateway, _):
        status = https(gateway, "admin") + "/admin/status"
        assert ask(status, authority.path("ca.pem"), own=authority.path("client"))[0] == 200
        refused(status, authority.path("ca.pem"))
        Authority(authority.folder, "strangers").issue("stranger")
        refused(status, authority.path("ca.pem"), own=authority.path("stranger"))
        page = ask(https(gateway, "admin") + "/metrics", authority.path("ca.pem"), own=authority.path("client"))[1]
        assert 'kvist_gateway_tls_failed_handshakes_total{listener="admin"} 2' in page, page


def what_is_wrong_with_a_workers_certificate_is_said():
    cases = (("{ca: other.pem}", "worker", "an authority that is not trusted here"),
             ("{ca: ca.pem}", "elsewhere", "is not for 127.0.0.1 but for gpu.example"))
    for tls, worker, wanted in cases:
        with tempfile.TemporaryDirectory() as other:
            Authority(other, "other")
            with secure(tls.replace("other.pem", f"{other}/other.pem"), worker) as (authority, gateway, _):
                def problem():
                    status = ask(https(gateway, "admin") + "/admin/status", authority.path("ca.pem"), own=authority.path("client"))[1]
                    return json.loads(status)["workers"][0]["last_problem"]

                eventually(lambda: wanted in problem(), wanted)
    with secure("{ca: ca.pem, server_name: gpu.example}", "elsewhere") as (authority, gateway, _):
        eventually(lambda: ask(https(gateway) + "/health", authority.path("ca.pem"))[0] == 200, "its name is told")


def a_worker_may_ask_for_the_gateways_certificate():
    with secure("{ca: ca.pem, certificate: client.pem, key: client.key}", client_certificates=", client_ca: ca.pem") as (authority, gateway, worker):
        eventually(lambda: ask(https(gateway) + "/health", authority.path("ca.pem"))[0] == 200, "the worker is healthy")
        refused(https(worker) + "/health", authority.path("ca.pem"))


def what_gateway_and_worker_show_each_other_changes_without_a_restart():
    """Both get certificates of another authority, and trust only that one from then on."""
    with secure("{ca: fleet.pem, certificate: client.pem, key: client.key}", client_certificates=", client_ca: clients.pem") as (authority, gateway, worker):
        def answers():
            return ask(https(gateway) + "/v1/chat/completions", authority.path("ca.pem"), CHAT)[0] == 200

        eventually(answers, "the worker is healthy")
        following = Authority(authority.folder, "next")
        for name in ("worker", "client"):
            following.issue(name)
        for copy in ("fleet", "clients"):
            shutil.copy(following.path("next.pem"), following.path(f"{copy}.pem"))
        health = https(worker) + "/health"
        eventually(lambda: is_trusted(health, following.path("next.pem"), following.path("client")), "the worker has its new files")
        refused(health, authority.path("ca.pem"))
        log = authority.folder / "gateway.log"
        eventually(lambda: "client.key read again, for 1 workers" in log.read_text(), "the gateway reads its own")
        eventually(answers, "they know each other")
        assert all(answers() for _ in range(8))


def a_new_certificate_is_taken_without_a_restart():
    with secure() as (authority, gateway, _):
        url, old = https(gateway) + "/health", authority.path("ca.pem")
        eventually(lambda: ask(url, old)[0] == 200, "the worker is healthy")
        (authority.folder / "gateway.pem").write_text("nonsense")
        log = authority.folder / "gateway.log"
        eventually(lambda: "the certificate stays as it was" in log.read_text(), "the bad file is noticed")
        assert ask(url, old)[0] == 200
        Authority(authority.folder, "next").issue("gateway")
        eventually(lambda: ask(url, authority.path("next.pem"))[0] == 200, "the new certificate is in force")
        refused(url, old)


def a_workers_new_certificate_is_taken_without_a_restart():
    """Of both its listeners, each after a change of its files; a stream under way goes on."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(folder, "ca")
        authority.issue("worker")
        authority.issue("admin")
        authority.issue("client", "DNS:client.example")
        worker = Process(folder, "worker", "w", WORKER.format(name="w", kv_blocks=500, slots=16, time_scale=1) +
                         "  tls: {certificate: worker.pem, key: worker.key}\n"
                         "  admin_tls: {certificate: admin.pem, key: admin.key, client_ca: ca.pem}\n")
        try:
            old, url, blocks = authority.path("ca.pem"), https(worker) + "/health", https(worker, "admin") + "/debug/kv_blocks"
            assert ask(url, old)[0] == 200
            assert ask(blocks, old, own=authority.path("client"))[0] == 200
            refused(blocks, old)
            stream = urllib.request.urlopen(
                urllib.request.Request(https(worker) + "/v1/chat/completions", headers={"Content-Type": "application/json"},
                                       data=json.dumps({**CHAT, "max_tokens": 400, "ignore_eos": True}).encode()),
                timeout=DEADLINE_S, context=ssl.create_default_context(cafile=old))
            assert stream.readline().startswith(b"data: ")
            (authority.folder / "worker.pem").write_text("nonsense")
            log = authority.folder / "w.log"
            worker.process.send_signal(signal.SIGHUP)
            eventually(lambda: "the certificate stays as it was" in log.read_text(), "the bad file is noticed")
            assert ask(url, old)[0] == 200
            following = Authority(authority.folder, "next")
            following.issue("worker")
            eventually(lambda: is_trusted(url, following.path("next.pem")), "the new certificate is in force")
            refused(url, old)
            assert ask(blocks, old, own=authority.path("client"))[0] == 200  # whose files are the same
            following.issue("admin")
            eventually(lambda: is_trusted(blocks, following.path("next.pem"), authority.path("client")), "administration has it too")
            assert stream.read().endswith(b"data: [DONE]\n\n")
        finally:
            worker.stop()


def is_trusted(url, ca, own=None):
    try:
        return ask(url, ca, own=own)[0] == 200
    except (urllib.error.URLError, OSError):
        return False


def the_load_generator_speaks_it_too():
    with secure() as (authority, gateway, _):
        ca = authority.path("ca.pem")
        eventually(lambda: ask(https(gateway) + "/health", ca)[0] == 200, "the worker is healthy")

        def loadgen(*options):
            return subprocess.run([BINARY, "loadgen", "--target", https(gateway), "--model", "test-model", "--concurrency", "2",
                                   "--duration", "2s", *options], capture_output=True, text=True, timeout=DEADLINE_S)

        done = loadgen("--ca", ca)
        assert done.returncode == 0 and " 0 failed" in done.stdout, (done.stdout, done.stderr[-2000:])
        done = loadgen()
        assert done.returncode == 1 and "not trusted here" in done.stdout + done.stderr, (done.stdout, done.stderr[-2000:])
        done = loadgen("--insecure")
        assert done.returncode == 0 and " 0 failed" in done.stdout and "certificate of the target was not verified" in done.stdout, (done.stdout, done.stderr[-2000:])


def new_key(name):
    """(key, line of the file)"""
    done = subprocess.run([BINARY, "key", "create", "--name", name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    key, line = done.stdout.splitlines()
    return key, line


SWEEP = """name: secure
target:
  url: {url}
  admin: {admin}
  model: test-model
  api_key_file: public.key
  admin_api_key_file: admin.key
  tls: {{ca: ca.pem, certificate: client.pem, key: client.key}}
  workers: [{{name: w, url: '{worker}', admin: '{worker_admin}'}}]
workload: {{seed: 3, turns_min: 2, turns_max: 2, starters: 4, starter_tokens_min: 200, starter_tokens_max: 300, max_tokens: 10, target_rps: 100}}
method: {{warmup: 200 ms, snapshots: 1, snapshot_interval: 1 s, window: 1 s, drain_timeout: 20 s, repetitions: 1}}
modes: [round_robin, kv]
levels: [2]
"""


def a_sweep_measures_a_target_that_speaks_it():
    keys = {name: new_key(name) for name in ("public", "admin")}
    with secure(keys={name: line for name, (_, line) in keys.items()}) as (authority, gateway, worker):
        for name, (key, _) in keys.items():
            (authority.folder / f"{name}.key").write_text(key + "\n")
        eventually(lambda: ask(https(gateway) + "/health", authority.path("ca.pem"))[0] == 200, "the worker is healthy")
        text = SWEEP.format(url=https(gateway), admin=https(gateway, "admin"), worker=https(worker), worker_admin=worker.admin)

        def sweep(text):
            (authority.folder / "sweep.yaml").write_text(text)
            return subprocess.run([BINARY, "sweep", "-f", authority.path("sweep.yaml"), "--output", authority.path("out")],
                                  capture_output=True, text=True, timeout=3 * DEADLINE_S)

        done = sweep(text)
        assert done.returncode == 0, (done.stdout, done.stderr)
        report = json.loads(next(pathlib.Path(authority.path("out")).glob("secure-*/report.json")).read_text())
        for arm in ("round_robin", "kv_aware"):
            own = report["levels"][0][arm]["kvist"]
            assert own["workers_hit_rate_pct"] is not None, own
        done = sweep(text.replace("ca: ca.pem", "ca: gateway.pem"))
        assert done.returncode == 1 and "not trusted here" in done.stdout + done.stderr, (done.stdout, done.stderr)
        done = sweep(text.replace("admin_api_key_file: admin.key", "admin_api_key_file: public.key"))
        assert done.returncode == 1 and "status 401" in done.stdout + done.stderr, (done.stdout, done.stderr)
        done = subprocess.run([BINARY, "doctor", "--gateway", https(gateway, "admin"), "--ca", authority.path("ca.pem"), "--api-key-file", authority.path("admin.key"),
                               "--certificate", authority.path("client.pem"), "--key", authority.path("client.key")],
                              capture_output=True, text=True, timeout=DEADLINE_S)
        assert "expected the gateway" not in done.stdout + done.stderr and "trusted" not in done.stderr, (done.stdout, done.stderr)


def files_that_are_not_good_are_said_at_the_start():
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(folder, "ca")
        authority.issue("a")
        file = pathlib.Path(folder) / "gateway.yaml"
        for settings, wanted in (("tls: {certificate: none.pem, key: a.key}", "gateway.tls: " + folder + "/none.pem: no such file"),
                                 ("peers: {nats: 'tls://127.0.0.1:9', tls: {ca: none.pem}}", "gateway.peers.tls.ca: " + folder + "/none.pem: no such file"),
                                 ("tls: {certificate: a.pem, key: ca.key}", "ca.key: "),
                                 ("tls: {certificate: a.pem}", "needs both certificate and key"),
                                 ("tls: {certificate: gateway.yaml, key: a.key}", "no certificate in PEM form")):
            file.write_text(f"gateway:\n  {settings}\n  workers: [{{url: 'http://127.0.0.1:1'}}]\n")
            done = subprocess.run([BINARY, "gateway", "-f", file], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and wanted in done.stderr, (settings, done.stderr)


if __name__ == "__main__":
    run([a_chat_is_encrypted_all_the_way, administration_asks_for_a_certificate, what_is_wrong_with_a_workers_certificate_is_said,
         a_worker_may_ask_for_the_gateways_certificate, what_gateway_and_worker_show_each_other_changes_without_a_restart, a_new_certificate_is_taken_without_a_restart,
         a_workers_new_certificate_is_taken_without_a_restart, the_load_generator_speaks_it_too,
         a_sweep_measures_a_target_that_speaks_it, files_that_are_not_good_are_said_at_the_start])
