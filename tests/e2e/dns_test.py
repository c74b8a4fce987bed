"""Workers behind DNS names: addresses and services that come and go, and name servers that fail."""
import contextlib
import pathlib
import tempfile

from black_hole_test import chat, metric, status
from deployment import Process, eventually, get_json, request, run
from dns_server import A, SRV, DnsServer
from migration_test import timed

GATEWAY = """gateway:
  model: test-model
  mode: round_robin
  block_size: 32
  drain_timeout: 5 s
  workers:
    - name: pool
      dns: {{name: {name}, record: {record}, server: "{server}", interval: 1 s{more}}}
"""


@contextlib.contextmanager
def fleet(workers, records, record, name="llm.test", more=""):
    """(gateway, workers, server, log): workers on addresses of the loopback interface; `records` is made of them."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        started = {}
        for host, port in workers:
            config = timed(f"w-{host}-{len(started)}", 100.0) + f"  http: {{host: {host}, port: {port}}}\n"
            started[host, len(started)] = Process(folder, "worker", f"w-{host}-{len(started)}", config)
            stack.callback(started[host, len(started) - 1].stop)
        server = DnsServer()
        stack.callback(server.close)
        server.records = records(started)
        extra = more(started) if callable(more) else more
        gateway = Process(folder, "gateway", "gateway", GATEWAY.format(name=name, record=record, server=server.address, more=extra))
        stack.callback(gateway.stop)
        yield gateway, started, server, pathlib.Path(folder) / "gateway.log"


def healthy(gateway):
    return {name for name, worker in status(gateway).items() if worker["state"] == "healthy"}


def addresses_come_and_go():
    """Two workers with one port on two addresses; a free port is found with the first."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        first = Process(folder, "worker", "first", timed("first", 100.0) + "  http: {host: 127.0.0.2, port: 0}\n")
        stack.callback(first.stop)
        port = first.ports["http"]
        second = Process(folder, "worker", "second", timed("second", 100.0) + f"  http: {{host: 127.0.0.3, port: {port}}}\n")
        stack.callback(second.stop)
        server = DnsServer()
        stack.callback(server.close)
        config = GATEWAY.format(name="llm.test", record="a", server=server.address, more=f", port: {port}")
        gateway = Process(folder, "gateway", "gateway", config)
        stack.callback(gateway.stop)
        log = pathlib.Path(folder) / "gateway.log"
        one, other = f"pool-127.0.0.2-{port}", f"pool-127.0.0.3-{port}"
        eventually(lambda: "its 0 workers stay as they are" in log.read_text(), "there is no such name yet")
        assert request(gateway.url + "/health")[0] == 503
        server.records = {("llm.test", A): ["127.0.0.2"]}
        eventually(lambda: healthy(gateway) == {one}, "found")
        assert chat(gateway)[0] == 200
        server.records = {("llm.test", A): ["127.0.0.2", "127.0.0.3", "127.0.0.3"]}
        eventually(lambda: healthy(gateway) == {one, other}, "the second is found")
        assert {chat(gateway, i)[1]["x-kvist-worker"] for i in range(6)} == {one, other}
        sources = {w["name"]: w["source"] for w in get_json(gateway.admin + "/admin/workers")["workers"]}
        assert sources == {one: "dns", other: "dns"}, sources
        server.records = {("llm.test", A): ["127.0.0.3"]}
        eventually(lambda: set(status(gateway)) == {other}, "the first is drained")
        decisions_outlast_the_list(gateway, server, one, other)
        for fault in ("failing", "silent"):
            setattr(server, fault, True)
            asked = server.questions
            eventually(lambda: server.questions > asked + 2, "asked again")
            setattr(server, fault, False)
            assert set(status(gateway)) == {other}, "a name server that fails takes nobody away"
        server.records = {}
        asked = server.questions
        eventually(lambda: server.questions > asked + 4, "asked again")
        assert set(status(gateway)) == {other} and chat(gateway)[0] == 200, "neither does an answer without an address"


def decisions_outlast_the_list(gateway, server, one, other):
    def decide(what, name):
        assert request(gateway.admin + f"/admin/workers/{what}", {"name": name}, "POST")[0] in (200, 202), (what, name)

    def listed(*addresses):
        server.records = {("llm.test", A): [f"127.0.0.{last}" for last in addresses]}

    decide("cordon", other)
    listed(2)
    eventually(lambda: set(status(gateway)) == {one}, "the other one is gone")
    listed(2, 3)
    eventually(lambda: status(gateway)[other]["state"] == "cordoned", "it is cordoned still")
    decide("drain", one)
    eventually(lambda: set(status(gateway)) == {other}, "drained")
    listed(3)
    asked = server.questions
    eventually(lambda: server.questions > asked + 2, "it is not listed")
    listed(2, 3)
    eventually(lambda: get_json(gateway.admin + "/admin/workers")["waiting"], "it waits for the one who drained it")
    assert set(status(gateway)) == {other}
    for name in (one, other):
        decide("uncordon", name)
    eventually(lambda: healthy(gateway) == {one, other}, "both are back")
    listed(3)
    eventually(lambda: set(status(gateway)) == {other}, "as before")


def services_name_ports():
    with fleet([("127.0.0.1", 0), ("127.0.0.1", 0), ("127.0.0.1", 0)], lambda started: {}, "srv", "_llm._tcp.test") as \
            (gateway, started, server, _):
        ports = [worker.ports["http"] for worker in started.values()]
        server.records = {("_llm._tcp.test", SRV): [(10, ports[0], "a.test"), (10, ports[1], "b.test"), (20, ports[2], "a.test")],
                          ("a.test", A): ["127.0.0.1"], ("b.test", A): ["127.0.0.1"]}
        eventually(lambda: healthy(gateway) == {f"pool-127.0.0.1-{port}" for port in ports[:2]}, "those of the first priority")
        assert {chat(gateway, i)[0] for i in range(4)} == {200}
        server.records[("_llm._tcp.test", SRV)] = [(20, ports[2], "a.test")]
        eventually(lambda: set(status(gateway)) == {f"pool-127.0.0.1-{ports[2]}"}, "the others are drained")


def groups_follow_the_file():
    """Groups that come, change and go with the gateway's file, without a restart."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        port, server, file, log = 0, DnsServer(), pathlib.Path(folder) / "gateway.yaml", pathlib.Path(folder) / "gateway.log"
        stack.callback(server.close)
        for last in (2, 3):
            worker = Process(folder, "worker", f"w-{last}", timed(f"w-{last}", 100.0) + f"  http: {{host: 127.0.0.{last}, port: {port}}}\n")
            stack.callback(worker.stop)
            port = worker.ports["http"]
        server.records = {("first.test", A): ["127.0.0.2"], ("second.test", A): ["127.0.0.3"], ("both.test", A): ["127.0.0.2", "127.0.0.3"]}

        def listed(*groups, more=""):
            head = GATEWAY[:GATEWAY.index("    - name: pool")]
            entries = [f'    - {{name: {group}, dns: {{name: {name}, server: "{server.address}", port: {port}, interval: 1 s}}{rest}}}\n'
                       for group, name, rest in groups]
            return head + "".join(entries) + more

        def changes_to(config, *names):
            file.write_text(config)
            eventually(lambda: healthy(gateway) == set(names) == set(status(gateway)), f"{names} serve")

        gateway = Process(folder, "gateway", "gateway", listed(("pool", "first.test", "")))
        stack.callback(gateway.stop)
        eventually(lambda: healthy(gateway) == {f"pool-127.0.0.2-{port}"}, "the first")
        assert chat(gateway)[0] == 200
        changes_to(listed(("pool", "first.test", ""), ("more", "second.test", "")), f"pool-127.0.0.2-{port}", f"more-127.0.0.3-{port}")
        changes_to(listed(("pool", "both.test", "")), f"pool-127.0.0.2-{port}", f"pool-127.0.0.3-{port}")
        served = metric(gateway, "kvist_gateway_requests_total", worker=f"pool-127.0.0.2-{port}")
        assert served == 1, ("who is behind the old name and the new one has stayed", served)

        asked = server.questions
        file.write_text(listed(("pool", "nobody.test", "")))
        eventually(lambda: "pool: its 2 workers stay as they are" in log.read_text(), "the new name is asked for")
        eventually(lambda: server.questions > asked + 4, "and asked for again")
        assert healthy(gateway) == {f"pool-127.0.0.2-{port}", f"pool-127.0.0.3-{port}"}

        before = get_json(gateway.admin + "/admin/status")["workers"]
        assert all(worker["limits"]["max_batch_size"] != 7 for worker in before), before
        file.write_text(listed(("pool", "both.test", ", limits: {max_batch_size: 7}")))
        eventually(lambda: all(worker["limits"]["max_batch_size"] == 7 for worker in status(gateway).values()), "limits of a group")
        assert metric(gateway, "kvist_gateway_requests_total", worker=f"pool-127.0.0.2-{port}") == served, "nobody was replaced"

        changes_to(listed(more=f"    - {{name: plain, url: 'http://127.0.0.3:{port}'}}\n"), "plain")
        assert chat(gateway)[0] == 200
        asked = server.questions
        changes_to(listed(("pool", "first.test", "")), f"pool-127.0.0.2-{port}")
        assert server.questions > asked
        assert "need a restart" not in log.read_text(), log.read_text()


if __name__ == "__main__":
    run([addresses_come_and_go, services_name_ports, groups_follow_the_file])
