"""Workers behind a Service of Kubernetes: endpoints that come and go, and an API server that fails. Against a small one of our own; the real one
is in tests/cluster."""
import contextlib
import pathlib
import socket
import subprocess
import tempfile

from black_hole_test import chat, metric, status
from conversations import Users
from deployment import BINARY, Process, eventually, get_json, run
from kubernetes_api import ApiServer, slice_of
from migration_test import timed

GATEWAY = """gateway:
  model: test-model
  mode: round_robin
  block_size: 32
  drain_timeout: 5 s
  workers:
    - name: pool
      kubernetes: {{service: llm, kubeconfig: {kubeconfig}{more}}}
"""
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: test
contexts:
- {{name: test, context: {{cluster: test, user: test, namespace: default}}}}
clusters:
- {{name: test, cluster: {{server: "{server}"}}}}
users:
- {{name: test, user: {{tokenFile: token}}}}
"""
READY, UNREADY = {"ready": True}, {"ready": False, "serving": False}
ENDS = {"ready": False, "serving": True, "terminating": True}


def shared_port(hosts):
    """A port that nobody has on any of the addresses."""
    for _ in range(100):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            port = 0
            for host in hosts:
                probe = stack.enter_context(socket.socket())
                probe.bind((host, port))
                port = probe.getsockname()[1]
            return port
    raise AssertionError(f"no port is free on all of {hosts}")


class Fleet:
    """An API server, a gateway that follows it, and workers that share a port on addresses of the loopback interface, as pods do."""

    def __init__(self, stack, count, more=""):
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.api = ApiServer()
        stack.callback(self.api.close)
        (self.folder / "token").write_text("first\n")
        (self.folder / "kubeconfig").write_text(KUBECONFIG.format(server=self.api.url))
        self.pods = {f"pod-{i}": f"127.0.0.{i + 2}" for i in range(count)}
        self.port = shared_port(self.pods.values())
        for name, host in self.pods.items():
            worker = Process(self.folder, "worker", name, timed(name, 100.0) + f"  http: {{host: {host}, port: {self.port}}}\n")
            stack.callback(worker.stop)
        self.config = GATEWAY.format(kubeconfig=self.folder / "kubeconfig", more=more)
        self.gateway = Process(self.folder, "gateway", "gateway", self.config)
        stack.callback(self.gateway.stop)

    def say(self, conditions, name="llm-1"):
        """The slice's endpoints: pod -> conditions."""
        self.api.put("EndpointSlice", name, **slice_of([(pod, self.pods[pod], of) for pod, of in conditions.items()],
                                                       [{"name": "http", "port": self.port}]))

    def is_served_by(self, *pods):
        return {name: worker["state"] for name, worker in status(self.gateway).items()} == {pod: "healthy" for pod in pods}

    def discovery(self):
        (report,) = get_json(self.gateway.admin + "/admin/workers")["discovery"]
        return report


@contextlib.contextmanager
def fleet(count=3, more=""):
    with contextlib.ExitStack() as stack:
        yield Fleet(stack, count, more)


def endpoints_come_and_go():
    with fleet() as f:
        eventually(lambda: f.discovery()["state"] == "synced" and f.discovery()["workers"] == 0, "synced with nothing")
        f.say({"pod-0": READY, "pod-1": UNREADY})
        eventually(lambda: f.is_served_by("pod-0"), "the ready one")
        f.say({"pod-0": READY, "pod-1": {}})
        f.say({"pod-2": READY, "pod-1": READY}, "llm-2")
        eventually(lambda: f.is_served_by("pod-0", "pod-1", "pod-2"), "all three, of two slices")
        assert {chat(f.gateway, i)[1]["x-kvist-worker"] for i in range(9)} == {"pod-0", "pod-1", "pod-2"}
        sources = {w["name"]: w["source"] for w in get_json(f.gateway.admin + "/admin/workers")["workers"]}
        assert set(sources.values()) == {"kubernetes"}, sources
        f.say({"pod-0": ENDS, "pod-1": READY})
        eventually(lambda: f.is_served_by("pod-1", "pod-2"), "the one that ends is drained")
        f.api.delete("EndpointSlice", "llm-1")
        eventually(lambda: f.is_served_by("pod-1", "pod-2"), "a deleted slice; the other one has pod-1 too")
        f.api.delete("EndpointSlice", "llm-2")
        eventually(lambda: f.is_served_by(), "none is left")


def an_api_server_that_is_gone_changes_nothing():
    with fleet(2) as f:
        f.say({"pod-0": READY, "pod-1": READY})
        eventually(lambda: f.is_served_by("pod-0", "pod-1"), "both")
        f.api.close()
        eventually(lambda: f.discovery()["state"] == "stale", "it says so")
        report = f.discovery()
        assert report["workers"] == 2 and report["stale_s"] >= 0 and "unreachable" in report["problem"], report
        assert metric(f.gateway, "kvist_gateway_discovery_state", state="stale") == 1
        assert f.is_served_by("pod-0", "pod-1") and chat(f.gateway)[0] == 200
        f.say({"pod-1": READY})  # nobody hears of it
        f.api.open()
        eventually(lambda: f.is_served_by("pod-1"), "what was missed is told")
        eventually(lambda: f.discovery()["state"] == "synced", "synced again")
        lists = [path for path, query in f.api.log if "watch" not in query]
        assert len(lists) == 1, ("a watch goes on from where it was", f.api.log)


def a_version_that_is_too_old_leads_to_a_list():
    with fleet(2) as f:
        f.say({"pod-0": READY})
        eventually(lambda: f.is_served_by("pod-0"), "one")
        f.api.close()
        f.api.delete("EndpointSlice", "llm-1")
        for i in range(3):
            f.say({"pod-1": READY}, f"llm-{i + 2}")
        f.api.forget_history()
        f.api.open()
        eventually(lambda: f.is_served_by("pod-1"), "the deleted slice is not missed, though nobody told of its end")
        assert metric(f.gateway, "kvist_gateway_discovery_expired_total") == 1
        assert metric(f.gateway, "kvist_gateway_discovery_lists_total") == 2


def clients_do_not_notice():
    """Pods come, become unready, end, and the API server is gone for a while, all under load."""
    with fleet(4) as f:
        f.say({"pod-0": READY, "pod-1": READY})
        eventually(lambda: f.is_served_by("pod-0", "pod-1"), "the first two")
        users = Users(f.gateway.ports["http"], 8, max_tokens=40)
        for conditions in ({"pod-0": READY, "pod-1": READY, "pod-2": READY, "pod-3": READY}, {"pod-0": ENDS, "pod-1": UNREADY, "pod-2": READY, "pod-3": READY},
                           {"pod-1": READY, "pod-2": READY, "pod-3": READY}):
            f.say(conditions)
            ready = [pod for pod, of in conditions.items() if of is READY]
            eventually(lambda: f.is_served_by(*ready), f"{ready} serve")
            before = len(users.turns)
            # A turn at a worker that is gone may be written down only now.
            eventually(lambda: len(users.turns) > before + 16 and {turn.worker for turn in users.turns[-16:]} == set(ready), f"{ready} are asked")
        f.api.close()
        eventually(lambda: f.discovery()["state"] == "stale", "the API server is gone")
        f.api.forget_history()
        f.api.open()
        eventually(lambda: f.discovery()["state"] == "synced", "it is back")
        turns = users.stop()
        failed = [turn for turn in turns if not turn.succeeded]
        assert not failed, (len(turns), failed[:3])


def the_token_is_read_again():
    with fleet(1) as f:
        f.api.token = "first"
        f.say({"pod-0": READY})
        eventually(lambda: f.is_served_by("pod-0"), "with the first token")
        f.api.token = "second"
        f.api.break_off()
        eventually(lambda: "unauthorized (401)" in f.discovery()["problem"], "the first one has expired")
        (f.folder / "token").write_text("second\n")
        eventually(lambda: f.discovery()["state"] == "synced", "the second one is read")


def pods_say_their_model_and_role():
    with fleet(3, ', pods: "app=llm", role: decode') as f:
        f.say({"pod-0": READY, "pod-1": READY, "pod-2": READY})
        eventually(lambda: f.discovery()["state"] == "synced", "synced")
        assert f.is_served_by(), "of no pod anything is known"
        f.api.put("Pod", "pod-0", metadata={"labels": {"kvist.io/role": "decode"}})
        f.api.put("Pod", "pod-1", metadata={"labels": {"kvist.io/role": "prefill"}})
        f.api.put("Pod", "pod-2", metadata={"annotations": {"kvist.io/model": "org/another"}})
        eventually(lambda: f.is_served_by("pod-0"), "the one that fits")
        f.api.put("Pod", "pod-2", metadata={"annotations": {"kvist.io/model": "test-model"}})
        eventually(lambda: f.is_served_by("pod-0", "pod-2"), "another one fits now")
        selectors = {query.get("labelSelector") for _, query in f.api.log}
        assert selectors == {"app=llm", "kubernetes.io/service-name=llm"}, selectors


def a_group_follows_the_file():
    """A group that changes, goes and comes back with the gateway's file, without a restart."""
    with fleet(3) as f:
        file, log = f.folder / "gateway.yaml", f.folder / "gateway.log"
        f.say({"pod-0": READY, "pod-1": READY})
        for pod, role in (("pod-0", "decode"), ("pod-1", "prefill")):
            f.api.put("Pod", pod, metadata={"labels": {"kvist.io/role": role}})
        eventually(lambda: f.is_served_by("pod-0", "pod-1"), "both")
        for i in range(4):
            assert chat(f.gateway, i)[0] == 200
        served = metric(f.gateway, "kvist_gateway_requests_total", worker="pod-0")
        file.write_text(GATEWAY.format(kubeconfig=f.folder / "kubeconfig", more=', pods: "app=llm", role: decode'))
        eventually(lambda: f.is_served_by("pod-0"), "the one that fits")
        assert served == 2 == metric(f.gateway, "kvist_gateway_requests_total", worker="pod-0"), "it has stayed"

        plain = GATEWAY[:GATEWAY.index("    - name: pool")] + f"    - {{name: plain, url: 'http://{f.pods['pod-2']}:{f.port}'}}\n"
        file.write_text(plain)
        eventually(lambda: f.is_served_by("plain"), "the group is gone")
        assert get_json(f.gateway.admin + "/admin/workers")["discovery"] == []
        f.say({"pod-0": READY, "pod-1": READY, "pod-2": READY})  # nobody listens
        file.write_text(plain + f.config[f.config.index("    - name: pool"):].replace("name: pool", "name: other"))
        eventually(lambda: f.is_served_by("plain", "pod-0", "pod-1", "pod-2"), "a group beside a plain worker")
        assert f.discovery()["group"] == "other" and "need a restart" not in log.read_text(), log.read_text()


def doctor_asks_the_api_server():
    def findings(config):
        (f.folder / "examined.yaml").write_text(config.replace("  workers:", "  http: {port: 0}\n  admin: {port: 0}\n  workers:"))
        done = subprocess.run([BINARY, "doctor", "-f", f.folder / "examined.yaml"], capture_output=True, text=True, timeout=60)
        return done.stdout

    with fleet(1) as f:
        assert "service_without_workers" in findings(f.config), findings(f.config)
        f.say({"pod-0": READY})
        assert "service_without_workers" not in findings(f.config)
        f.api.token = "another"
        assert "api_server_unreachable" in findings(f.config) and "unauthorized (401)" in findings(f.config)


if __name__ == "__main__":
    run([endpoints_come_and_go, an_api_server_that_is_gone_changes_nothing, a_version_that_is_too_old_leads_to_a_list, clients_do_not_notice, the_token_is_read_again,
         pods_say_their_model_and_role, a_group_follows_the_file, doctor_asks_the_api_server])
