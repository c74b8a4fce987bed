"""A gateway that follows a Service on a real API server, under load: scaling, endpoints that are not ready, a restart of the API server, a watch that
has expired, rights and tokens that are missing. Pods and EndpointSlices are written as a kubelet and a controller would."""
import contextlib
import pathlib
import subprocess
import tempfile
import time

from cluster import Proxy, cluster, installed_or_skip
from black_hole_test import metric, status
from conversations import Users
from deployment import BINARY, Process, eventually, get_json
from pods import SERVICE, Pods
from results import Results

SOON_S = 2.0  # from a write that the API server has answered to a fleet that is equal to the slices
GATEWAY = """gateway:
  model: test-model
  mode: round_robin
  block_size: 32
  drain_timeout: 30 s
  admission: {{enabled: false}}
  workers:
    - name: pool
      kubernetes: {{service: {service}, port: http, pods: "app={service}", role: worker, kubeconfig: {kubeconfig}}}
"""
ROLE = [
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "gateway", "namespace": "default"},
     "rules": [{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
               {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "gateway", "namespace": "default"},
     "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gateway"},
     "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "gateway"}]},
]


def discovery(gateway):
    return get_json(gateway.admin + "/admin/workers")["discovery"][0]


def serving(gateway):
    """The workers that get requests."""
    return {w["name"] for w in get_json(gateway.admin + "/admin/workers")["workers"] if w["admission"] == "serving"}


class Run:
    def __init__(self, results, gateway, pods):
        self.results, self.gateway, self.pods = results, gateway, pods

    def becomes_equal(self, what, since=None):
        """The fleet is that of the slices within SOON_S of now."""
        since = since or time.monotonic()
        wanted = self.pods.ready()
        while serving(self.gateway) != wanted:
            assert time.monotonic() - since < 60, (what, serving(self.gateway), wanted, discovery(self.gateway))
            time.sleep(0.005)
        took = time.monotonic() - since
        self.results.row(what, len(wanted), took)
        assert took <= SOON_S, f"{what}: {took:.2f} s"

    def await_healthy(self):
        eventually(lambda: {n for n, w in status(self.gateway).items() if w["state"] == "healthy"} >= self.pods.ready(), "all are healthy")

    def await_gone(self, name):
        eventually(lambda: name not in status(self.gateway), f"{name} is drained")


def scales_up_and_down(run):
    for name in ("pod-2", "pod-3"):
        run.pods.create(name)
    run.pods.publish()
    run.becomes_equal("two pods come")
    run.await_healthy()
    time.sleep(1)  # they get their share of the load
    run.pods.set("pod-0", ready=False, terminating=True)
    run.becomes_equal("a pod terminates")
    run.await_gone("pod-0")
    run.pods.end("pod-0")
    run.pods.publish()
    run.becomes_equal("its endpoint is gone")


def drains_what_is_not_ready(run):
    run.pods.set("pod-1", ready=False, serving=False)
    run.becomes_equal("an endpoint is unready")
    run.await_gone("pod-1")
    run.pods.set("pod-1", ready=True, serving=True)
    run.becomes_equal("it is ready again")
    run.await_healthy()


def outlives_the_api_server(run, servers):
    before = serving(run.gateway)
    servers.kill_api()
    eventually(lambda: discovery(run.gateway)["state"] == "stale", "the gateway says so")
    assert metric(run.gateway, "kvist_gateway_discovery_state", state="stale") == 1
    assert serving(run.gateway) == before and discovery(run.gateway)["workers"] == len(before)
    took = servers.start_api()
    since = time.monotonic()
    eventually(lambda: discovery(run.gateway)["state"] == "synced", "synced again")
    run.results.row(f"the API server restarts ({took:.0f} s): synced", len(before), time.monotonic() - since)
    run.pods.create("pod-4")
    run.pods.publish()
    run.becomes_equal("a pod comes after the restart")
    run.await_healthy()
    time.sleep(1)


def lists_again_when_the_version_is_too_old(run, servers, proxy):
    expired = metric(run.gateway, "kvist_gateway_discovery_expired_total")
    proxy.cut()
    eventually(lambda: discovery(run.gateway)["state"] == "stale", "cut off")
    for i in range(20):
        run.pods.set("pod-4", ready=i % 2 == 0)
    run.pods.set("pod-2", ready=False, terminating=True)
    servers.kill_api()
    servers.compact()
    servers.start_api()
    run.pods.set("pod-3", ready=True)  # the new server's history begins after what the gateway has seen
    since = time.monotonic()
    proxy.open()
    run.becomes_equal("a version that is too old (410)", since)
    eventually(lambda: discovery(run.gateway)["state"] == "synced", "synced again")
    grown = metric(run.gateway, "kvist_gateway_discovery_expired_total") - expired
    assert grown >= 1, "nothing had expired"
    run.results.fact("versions that were too old (410), each followed by a whole list", int(grown))
    run.await_gone("pod-2")


def needs_rights_and_a_token(servers, folder, results):
    """A gateway without rights says what is missing, doctor too; a token that is replaced is read again."""
    token = pathlib.Path(folder) / "token"
    token.write_text("stranger-token")
    kubeconfig = servers.kubeconfig("stranger", token_file=token)
    gateway = Process(folder, "gateway", "stranger", GATEWAY.format(service=SERVICE, kubeconfig=kubeconfig))
    try:
        eventually(lambda: "forbidden (403)" in discovery(gateway)["problem"], "403 is told")
        assert discovery(gateway)["state"] == "starting"
        config = pathlib.Path(folder) / "examined.yaml"
        config.write_text(GATEWAY.format(service=SERVICE, kubeconfig=kubeconfig) + "  http: {port: 0}\n  admin: {port: 0}\n")
        found = subprocess.run([BINARY, "doctor", "-f", config], capture_output=True, text=True, timeout=60).stdout
        assert "api_forbidden" in found and "list endpointslices" in found and "watch pods" in found, found
        token.write_text("nobody")
        eventually(lambda: "unauthorized (401)" in discovery(gateway)["problem"], "401 is told")
        token.write_text("gateway-token\n")
        eventually(lambda: discovery(gateway)["state"] == "synced", "the new token is read")
    finally:
        gateway.stop()
    found = subprocess.run([BINARY, "doctor", "-f", config], capture_output=True, text=True, timeout=60).stdout
    assert "api_forbidden" not in found and "api_server_unreachable" not in found, found
    results.fact("answers 401 and 403 told by gateway and doctor, a replaced token read again", "yes")


def main():
    installed_or_skip()
    results = Results("discovery")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = stack.enter_context(cluster(folder, ["gateway", "stranger"]))
        for manifest in ROLE:
            servers.apply(manifest)
        pods = Pods(servers, folder)
        stack.callback(pods.stop)
        for name in ("pod-0", "pod-1"):
            pods.create(name)
        pods.create("prefill-0", role="prefill")
        pods.publish()  # the one of another role stays in the slice, and out of the fleet
        proxy = Proxy(servers.port)
        stack.callback(proxy.cut)
        kubeconfig = servers.kubeconfig("gateway", "gateway-token", proxy.port)
        gateway = Process(folder, "gateway", "gateway", GATEWAY.format(service=SERVICE, kubeconfig=kubeconfig))
        stack.callback(gateway.stop)
        run = Run(results, gateway, pods)
        eventually(lambda: serving(gateway) == pods.ready(), "the first two")
        run.await_healthy()
        users = Users(gateway.ports["http"], 12, max_tokens=60)
        try:
            time.sleep(1)
            scales_up_and_down(run)
            drains_what_is_not_ready(run)
            outlives_the_api_server(run, servers)
            lists_again_when_the_version_is_too_old(run, servers, proxy)
            time.sleep(1)
        finally:
            turns = users.stop()
        failed = [turn for turn in turns if not turn.succeeded]
        results.fact("requests during all of this", len(turns))
        results.fact("of these failed", len(failed))
        needs_rights_and_a_token(servers, folder, results)
        assert not failed, failed[:3]
        assert {turn.worker for turn in turns} == {f"pod-{i}" for i in range(5)}, "every pod but that of another role had requests"
    results.write()
    print(f"ok: {len(turns)} requests, 0 failed")


if __name__ == "__main__":
    main()
