"""Several gateways before the same workers: they see each other's load, decide alike, and go on alone where NATS is gone."""
import contextlib
import json
import signal
import subprocess
import tempfile
import time

import nats_accounts
import peer_messages
from conversations import Users
from black_hole_test import metric
from deployment import BINARY, WORKER, Process, eventually, gateway_config, get_json, request, run
from drain_test import stream
from nats_server import NatsServer
from tls_test import Authority

LONG = 100_000  # tokens: minutes of them


class Group:
    def __init__(self, stack, folder, nats, workers, mode):
        self.stack, self.folder, self.nats, self.mode = stack, folder, nats, mode
        self.workers = []
        for i in range(workers):
            config = WORKER.format(name=f"worker-{i}", kv_blocks=8000, slots=16, time_scale=10.0) + "  max_model_len: 200000\n"
            self.workers.append(Process(folder, "worker", f"worker-{i}", config))
            stack.callback(self.workers[-1].stop, signal.SIGKILL)
        self.gateways = []

    def join(self, name, more="", await_peers=True):
        config = gateway_config(self.workers, self.mode, patient=True).replace("drain_timeout: 1 s", "drain_timeout: 60 s")
        config += f"  peers: {{nats: \"{self.nats.url}\", name: {name}, group: test{more}}}\n"
        gateway = Process(self.folder, "gateway", name, config)
        self.stack.callback(gateway.stop, signal.SIGKILL)
        self.gateways.append(gateway)
        eventually(lambda: all(w["healthy"] for w in get_json(gateway.admin + "/admin/status")["workers"]), "workers healthy")
        if await_peers:
            eventually(lambda: all(len(peers_of(g)) == len(self.gateways) - 1 for g in self.gateways), "all hear all")
        return gateway


@contextlib.contextmanager
def group(gateways=3, workers=3, mode="kv", nats_options=(), jetstream=True):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        nats = NatsServer(folder, *nats_options, jetstream=jetstream)
        stack.callback(nats.stop, signal.SIGKILL)
        made = Group(stack, folder, nats, workers, mode)
        for i in range(gateways):
            made.join(f"gateway-{i}")
        yield made


def peers_of(gateway):
    return {peer["name"]: peer for model in get_json(gateway.admin + "/admin/peers")["models"] for peer in model["peers"]}


def problem_of(gateway):
    """Why it has no connection."""
    return get_json(gateway.admin + "/admin/peers")["problem"]


def loads(gateway):
    """Requests at each worker, as the gateway believes."""
    return {worker["name"]: worker["in_flight"] for worker in get_json(gateway.admin + "/admin/workers")["workers"]}


def mode_of(gateway):
    return get_json(gateway.admin + "/admin/router_mode")["mode"]


def admission_of(gateway, worker):
    return {w["name"]: w["admission"] for w in get_json(gateway.admin + "/admin/workers")["workers"]}.get(worker, "gone")


def post(gateway, path, body):
    status, _, text = request(gateway.admin + path, body, "POST")
    assert status in (200, 202), (status, text)


def health(gateway):
    return json.loads(request(gateway.url + "/health")[2])["peers"]


def all_agree_on_loads(gateways, total):
    seen = [loads(gateway) for gateway in gateways]
    return all(one == seen[0] for one in seen) and sum(seen[0].values()) == total


def loads_of_peers_count():
    with group() as made:
        a, b, c = made.gateways
        streams = [stream(a, LONG), stream(a, LONG)]
        eventually(lambda: all_agree_on_loads(made.gateways, 2), "all gateways see both requests")
        streams.append(stream(b, LONG))
        eventually(lambda: all_agree_on_loads(made.gateways, 3), "all gateways see all three requests")
        assert sorted(loads(c).values()) == [1, 1, 1], ("each went to a worker that nobody had used", loads(c))
        assert metric(c, "kvist_gateway_peer_requests", peer="gateway-0") == 2
        assert metric(c, "kvist_gateway_peer_worker_requests") == 3 and metric(a, "kvist_gateway_peer_worker_requests") == 1
        assert health(a) == "together" and metric(a, "kvist_gateway_peers") == 2
        for connection, _ in streams:
            connection.close()
        eventually(lambda: all_agree_on_loads(made.gateways, 0), "and that they are over")
        assert metric(c, "kvist_gateway_peer_lost_messages_total") == 0


def a_gateway_that_is_killed_is_given_up():
    with group() as made:
        a, b, c = made.gateways
        held = [stream(a, LONG), stream(b, LONG)]
        eventually(lambda: all_agree_on_loads(made.gateways, 2), "all see both requests")
        a.stop(signal.SIGKILL)
        eventually(lambda: all_agree_on_loads([b, c], 1) and len(peers_of(b)) == 1, "its load drops out")
        held[1][0].close()
        again = made.join("gateway-0", await_peers=False)
        eventually(lambda: set(peers_of(again)) == {"gateway-1", "gateway-2"} and "gateway-0" in peers_of(b), "it is back")
        again.stop()
        eventually(lambda: "gateway-0" not in peers_of(c), "it has said goodbye")


def decisions_hold_for_all_and_for_one_that_joins_later():
    with group() as made:
        a, b, c = made.gateways
        status, _, text = request(a.admin + "/admin/router_mode", {"mode": "least_loaded"}, "PUT")
        assert status == 200, text
        eventually(lambda: [mode_of(g) for g in made.gateways] == ["least_loaded"] * 3, "the mode reaches all")
        post(b, "/admin/workers/cordon", {"name": "worker-1"})
        eventually(lambda: [admission_of(g, "worker-1") for g in made.gateways] == ["cordoned"] * 3, "the cordon reaches all")
        post(c, "/admin/workers/drain", {"name": "worker-2"})
        eventually(lambda: [admission_of(g, "worker-2") for g in made.gateways] == ["gone"] * 3, "the drain reaches all")
        late = made.join("gateway-3")
        eventually(lambda: mode_of(late) == "least_loaded" and admission_of(late, "worker-1") == "cordoned"
                   and admission_of(late, "worker-2") == "gone", "one that joins later")
        post(a, "/admin/workers/uncordon", {"name": "worker-1"})
        eventually(lambda: {admission_of(g, "worker-1") for g in made.gateways} == {"serving"}, "and is taken back at all")
        assert metric(late, "kvist_gateway_peers_unreadable_decisions_total") == 0


def a_removal_and_a_drains_time_hold_at_all_gateways():
    """Each gateway has a stream that lasts minutes at each of two workers, and a minute to drain unless it is told otherwise."""
    with group(gateways=2, workers=2, mode="round_robin") as made:
        a, b = made.gateways
        held = [stream(gateway, LONG)[0] for gateway in (a, b, a, b)]
        eventually(lambda: all_agree_on_loads(made.gateways, 4) and sorted(loads(a).values()) == [2, 2], "both have streams at both")
        post(a, "/admin/workers/drain", {"name": "worker-0"})
        eventually(lambda: [admission_of(g, "worker-0") for g in made.gateways] == ["draining"] * 2, "it drains at both")
        post(a, "/admin/workers/remove", {"name": "worker-0"})
        eventually(lambda: [admission_of(g, "worker-0") for g in made.gateways] == ["gone"] * 2, "and is removed at both", 30)
        post(b, "/admin/workers/drain", {"name": "worker-1", "timeout": "200 ms"})
        eventually(lambda: [admission_of(g, "worker-1") for g in made.gateways] == ["gone"] * 2, "its time is over at both", 30)
        for connection in held:
            connection.close()


def without_nats_each_routes_alone_and_rejoins():
    with group() as made:
        a, b, _ = made.gateways
        users = [Users(gateway.ports["http"], 3, max_tokens=32) for gateway in made.gateways]
        time.sleep(1)
        made.nats.stop(signal.SIGKILL)
        eventually(lambda: [health(g) for g in made.gateways] == ["alone"] * 3, "each says that it is alone")
        eventually(lambda: not any(peers_of(g) for g in made.gateways), "and believes nothing of the others any more")
        assert metric(a, "kvist_gateway_peers_connected") == 0
        found = subprocess.run([BINARY, "doctor", "--gateway", a.admin, "--json"], capture_output=True, text=True, timeout=100)
        assert "peers_cut_off" in {finding["id"] for finding in json.loads(found.stdout)["findings"]}, found.stdout
        assert request(b.admin + "/admin/router_mode", {"mode": "power_of_two"}, "PUT")[0] == 200
        made.nats.start()
        eventually(lambda: [health(g) for g in made.gateways] == ["together"] * 3, "they rejoin by themselves")
        eventually(lambda: all(len(peers_of(g)) == 2 for g in made.gateways), "and hear each other")
        eventually(lambda: [mode_of(g) for g in made.gateways] == ["power_of_two"] * 3, "and what was decided meanwhile holds for all")
        time.sleep(1)
        turns = [turn for group_of in users for turn in group_of.stop()]
        failed = [turn for turn in turns if not turn.succeeded]
        assert len(turns) > 20 and not failed, (len(turns), failed[:3])
        eventually(lambda: all_agree_on_loads(made.gateways, 0), "nothing is left")


def what_is_decided_while_nats_refuses_a_gateway_holds_for_all_later():
    """A client that is refused ends, and the gateway tries it with the next one."""
    with group(gateways=2, workers=2) as made:
        a, b = made.gateways
        assert request(a.admin + "/admin/router_mode", {"mode": "least_loaded"}, "PUT")[0] == 200
        eventually(lambda: mode_of(b) == "least_loaded", "the mode reaches the other one")
        made.nats.stop(signal.SIGKILL)
        open_command = made.nats.command
        made.nats.command = [*open_command, "--auth", "secret"]
        made.nats.start()
        eventually(lambda: all("refuse" in problem_of(g) or "Authorization" in problem_of(g) for g in made.gateways), "refused")
        assert request(a.admin + "/admin/router_mode", {"mode": "power_of_two"}, "PUT")[0] == 200
        post(b, "/admin/workers/cordon", {"name": "worker-1"})
        time.sleep(5)  # a client is tried every 2 s
        made.nats.stop(signal.SIGKILL)
        made.nats.command = open_command
        made.nats.start()
        eventually(lambda: [health(g) for g in made.gateways] == ["together"] * 2, "they rejoin")
        eventually(lambda: [mode_of(g) for g in made.gateways] == ["power_of_two"] * 2
                   and [admission_of(g, "worker-1") for g in made.gateways] == ["cordoned"] * 2, "and both decisions hold at both")


def a_gateway_starts_without_nats():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        nats = NatsServer(folder)
        stack.callback(nats.stop, signal.SIGKILL)
        nats.stop(signal.SIGKILL)
        made = Group(stack, folder, nats, 1, "kv")
        first = made.join("first", await_peers=False)
        assert health(first) == "alone"
        nats.start()
        eventually(lambda: health(first) == "together", "it connects when there is a server")
        made.join("second")


def what_others_say_is_read_as_it_is_documented():
    """A gateway that is not kvist's code, one that has the name of another, and one that says nothing that can be read."""
    with group(gateways=1) as made:
        gateway, subject = made.gateways[0], "test.load." + peer_messages.model_key("test-model")
        made.nats.publish(subject, peer_messages.message("foreign", 1, 1, [0, *peer_messages.routed(1, "worker-1", blocks=[1, 2, 3])],
                                                         [0, *peer_messages.routed(2, "unknown")]))
        eventually(lambda: loads(gateway)["worker-1"] == 1 and peers_of(gateway)["foreign"]["elsewhere"] == 1, "its request counts")
        eventually(lambda: not peers_of(gateway) and loads(gateway)["worker-1"] == 0, "until it is silent for too long")
        made.nats.publish(subject, peer_messages.message("gateway-0", 1, 1, [5]))
        made.nats.publish(subject, b"\x95\x01garbage")
        made.nats.publish(subject, b"")
        eventually(lambda: metric(gateway, "kvist_gateway_peer_unused_messages_total", reason="namesake") == 1
                   and metric(gateway, "kvist_gateway_peer_unused_messages_total", reason="unreadable") == 2, "and is counted")
        found = subprocess.run([BINARY, "doctor", "--gateway", gateway.admin, "--json"], capture_output=True, text=True, timeout=100)
        assert "peers_same_name" in {finding["id"] for finding in json.loads(found.stdout)["findings"]}, found.stdout


def a_token_is_asked_for_and_without_jetstream_only_decisions_are_alone():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        nats = NatsServer(folder, "--auth", "secret", jetstream=False)
        stack.callback(nats.stop, signal.SIGKILL)
        token = f"{folder}/token"
        with open(token, "w") as file:
            file.write("secret\n")
        made = Group(stack, folder, nats, 1, "kv")
        made.join("first", f", token_file: {token}")
        made.join("second", f", token_file: {token}")
        eventually(lambda: metric(made.gateways[0], "kvist_gateway_peers_share_decisions") == 0, "it says so")
        stranger = made.join("stranger", await_peers=False)
        assert health(stranger) == "alone"


def tls_with_certificates_and_passwords_and_credentials_are_as_nats_has_them():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        authority = Authority(folder, "ca")
        ca = authority.path("ca.pem")
        for name in ("nats", "gateway"):
            authority.issue(name)
        nats = NatsServer(folder, "--tls", "--tlscert", authority.path("nats.pem"), "--tlskey", authority.path("nats.key"), "--tlsverify",
                          "--tlscacert", ca, "--user", "gateways", "--pass", "secret", jetstream=False)
        stack.callback(nats.stop, signal.SIGKILL)
        nats.url = nats.url.replace("nats:", "tls:")
        password, wrong = f"{folder}/password", f"{folder}/wrong"
        for path, text in ((password, "secret\n"), (wrong, "guess\n")):
            with open(path, "w") as file:
                file.write(text)
        certificate = f"certificate: {authority.path('gateway.pem')}, key: {authority.path('gateway.key')}"
        made = Group(stack, folder, nats, 1, "kv")
        for name in ("first", "second"):
            made.join(name, f", user: gateways, password_file: {password}, tls: {{ca: {ca}, {certificate}}}")
        strangers = {"without-certificate": f", user: gateways, password_file: {password}, tls: {{ca: {ca}}}",
                     "wrong-password": f", user: gateways, password_file: {wrong}, tls: {{ca: {ca}, {certificate}}}",
                     "trusts-others": f", user: gateways, password_file: {password}, tls: {{{certificate}}}"}
        for name, more in strangers.items():
            assert health(made.join(name, more, await_peers=False)) == "alone", name
            made.gateways.pop()
        assert all(len(peers_of(gateway)) == 1 for gateway in made.gateways), "nobody else was heard"

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        config, credentials = nats_accounts.make(folder)
        nats = NatsServer(folder, "--config", str(config), jetstream=False)
        stack.callback(nats.stop, signal.SIGKILL)
        made = Group(stack, folder, nats, 1, "kv")
        for name in ("first", "second"):
            made.join(name, f", credentials_file: {credentials}")
        assert health(made.join("stranger", await_peers=False)) == "alone"


if __name__ == "__main__":
    run([loads_of_peers_count, a_gateway_that_is_killed_is_given_up, decisions_hold_for_all_and_for_one_that_joins_later,
         a_removal_and_a_drains_time_hold_at_all_gateways,
         without_nats_each_routes_alone_and_rejoins, what_is_decided_while_nats_refuses_a_gateway_holds_for_all_later,
         a_gateway_starts_without_nats, what_others_say_is_read_as_it_is_documented,
         a_token_is_asked_for_and_without_jetstream_only_decisions_are_alone,
         tls_with_certificates_and_passwords_and_credentials_are_as_nats_has_them])
