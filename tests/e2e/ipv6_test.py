"""IPv6 from the client to the worker's KV events: listeners, URLs, names with AAAA records, a name server, doctor."""
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile

from deployment import BINARY, Process, WORKER, eventually, get_json, request, run
from dns_server import AAAA, DnsServer


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def url(process, which="http"):
    return f"http://[::1]:{process.ports[which]}"


def chat(process, text="hello " * 100):
    body = {"model": "test-model", "max_tokens": 3, "messages": [{"role": "user", "content": text}]}
    return request(url(process) + "/v1/chat/completions", body)


@contextlib.contextmanager
def fleet(workers):
    """A worker at [::1], and a gateway on [::] whose administration is at [::1]. `workers`: the list, made of the worker."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        worker = Process(folder, "worker", "w", WORKER.format(name="w", kv_blocks=500, slots=16, time_scale=100) +
                         "  http: {host: '::1'}\n  admin: {host: '::1'}\n")
        stack.callback(worker.stop)
        gateway = Process(folder, "gateway", "gateway", "gateway:\n  model: test-model\n  mode: kv\n  block_size: 32\n  drain_timeout: 1 s\n"
                          "  connect_timeout: 60 s\n  http: {host: '::'}\n  admin: {host: '::1'}\n  workers:\n" + workers(worker))
        stack.callback(gateway.stop)
        eventually(lambda: request(url(gateway) + "/health")[0] == 200, "the worker is healthy")
        yield pathlib.Path(folder), gateway, worker


def listed(worker):
    return (f"    - {{name: w, url: '{url(worker)}', kv_events: 'tcp://[::1]:{worker.ports['kv_events']}', "
            f"kv_replay: 'tcp://[::1]:{worker.ports['kv_replay']}'}}\n")


def chats_events_and_administration():
    with fleet(listed) as (folder, gateway, worker):
        def state():
            return get_json(url(gateway, "admin") + "/admin/status")["workers"][0]

        eventually(lambda: state()["index_exact"], "the stream of KV events is whole")
        for _ in range(3):
            code, _, text = chat(gateway)
            assert code == 200, (code, text)
        # What it has stored came as events, and the second chat found it.
        eventually(lambda: "kvist_gateway_kv_index_blocks{worker=\"w\"} 0\n" not in request(url(gateway, "admin") + "/metrics")[2], "blocks are in the index")
        page = request(url(worker) + "/metrics")[2]
        assert 'vllm:prefix_cache_hits_total{model_name="test-model",engine="0"} 0\n' not in page, page
        # One socket for both families: a client of IPv4 is served as well.
        assert request(f"http://127.0.0.1:{gateway.ports['http']}/health")[0] == 200
        done = subprocess.run([BINARY, "doctor", "-f", str(folder / "gateway.yaml"), "--json"], capture_output=True, text=True, timeout=100)
        found = [f["id"] for f in json.loads(done.stdout)["findings"] if f["severity"] == "error"]
        assert found == [], done.stdout
        done = subprocess.run([BINARY, "doctor", "--gateway", url(gateway, "admin"), "--json"], capture_output=True, text=True, timeout=100)
        assert [f["id"] for f in json.loads(done.stdout)["findings"] if f["severity"] == "error"] == [], done.stdout


def a_name_leads_to_the_address():
    """Asked of a name server that has an address of IPv6 too."""
    server = DnsServer(host="::1")
    server.records = {("llm.test", AAAA): ["::1"]}
    with contextlib.closing(server):
        def group(worker):
            return (f"    - name: pool\n      dns: {{name: llm.test, server: '{server.address}', port: {worker.ports['http']}, interval: 1 s}}\n"
                    f"      kv_events_port: {worker.ports['kv_events']}\n      kv_replay_port: {worker.ports['kv_replay']}\n")

        with fleet(group) as (_, gateway, _):
            names = set(json_status(gateway))
            assert len(names) == 1 and next(iter(names)).startswith("pool-__1-"), names
            assert chat(gateway)[0] == 200
            eventually(lambda: all(worker["index_exact"] for worker in json_status(gateway).values()), "its events come too")
            assert server.questions > 0


def json_status(gateway):
    return {worker["name"]: worker for worker in get_json(url(gateway, "admin") + "/admin/status")["workers"]}


if __name__ == "__main__":
    if has_ipv6():
        run([chats_events_and_administration, a_name_leads_to_the_address])
    else:
        print("skipped: this machine has no IPv6", file=sys.stderr)
