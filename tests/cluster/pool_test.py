"""kvist epp that follows an InferencePool on a real API server, while requests are picked by ext_proc: the pool comes, its pods come, are unready and go, its
selector changes, the pool goes. The definition of the pool is the published one; pods are written as a kubelet would."""
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from cluster import CACHE, MERGE, cluster, installed_or_skip

import yaml
from black_hole_test import status
from deployment import BINARY, Process, eventually, get_json
from endpoint_picker_test import Picker, chat, serve
from pods import PORTS, Pods
from results import Results

SOON_S = 2.0  # from a write that the API server has answered to a fleet that is what it says
EPP = """gateway:
  model: test-model
  mode: kv
  block_size: 32
  drain_timeout: 30 s
  admission: {{enabled: false}}
  workers:
    - name: pool
      kubernetes: {{inference_pool: llama, role: worker, kubeconfig: {kubeconfig}}}
      kv_events_port: {events}
      kv_replay_port: {replay}
"""
# Rights for the one pool, as least rights have it.
ROLE = [
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "picker", "namespace": "default"}, "rules": [
        {"apiGroups": ["inference.networking.k8s.io"], "resources": ["inferencepools"], "resourceNames": ["llama"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "picker", "namespace": "default"},
     "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "picker"},
     "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "picker"}]},
]
POOL_PATH = "/apis/inference.networking.k8s.io/v1/namespaces/default/inferencepools/llama"


def pool(**labels):
    return {"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": {"name": "llama", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "targetPorts": [{"number": PORTS["http"]}],
                     "endpointPickerRef": {"name": "kvist-epp", "port": {"number": 9002}, "failureMode": "FailClose"}}}


class PickedUsers:
    """Users who each ask again and again, by way of the picker."""

    def __init__(self, picker, pods, count):
        self.picker, self.pods, self.stopping = picker, pods, threading.Event()
        self.served, self.failed, self.lock = {}, [], threading.Lock()
        self.threads = [threading.Thread(target=self.go_on, args=(i,)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def go_on(self, user):
        names = lambda: {f"{host}:{PORTS['http']}": name for name, host in self.pods.hosts.items()}
        turn = 0
        while not self.stopping.is_set():
            turn += 1
            try:
                endpoints, _, code, text = serve(self.picker, chat(f"user {user} " * 40 + "and on " * turn), f"u{user}-{turn}")
                good, worker = code == 200 and text.endswith(b"data: [DONE]\n\n"), names().get(endpoints[0])
            except Exception as why:  # noqa: BLE001: whatever it is, the user was not served
                good, worker, code = False, None, repr(why)
            with self.lock:
                self.served[worker] = self.served.get(worker, 0) + 1
                if not good:
                    self.failed.append((user, turn, code))

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


class Run:
    def __init__(self, results, picker, pods, servers):
        self.results, self.picker, self.pods, self.servers = results, picker, pods, servers
        self.admin = picker.process.admin

    def serving(self):
        return {w["name"] for w in get_json(self.admin + "/admin/workers")["workers"] if w["admission"] == "serving"}

    def discovery(self):
        return get_json(self.admin + "/admin/workers")["discovery"][0]

    def becomes(self, what, wanted):
        since = time.monotonic()
        while self.serving() != wanted:
            assert time.monotonic() - since < 60, (what, self.serving(), wanted, self.discovery())
            time.sleep(0.005)
        took = time.monotonic() - since
        self.results.row(what, len(wanted), took)
        assert took <= SOON_S, f"{what}: {took:.2f} s"
        eventually(lambda: {n for n, w in status(self.picker.process).items() if w["state"] == "healthy"} >= wanted, "all are healthy")

    def patch(self, pod, change, part=""):
        self.servers.call("PATCH", f"/api/v1/namespaces/default/pods/{pod}{part}", change, MERGE)

    def set_ready(self, pod, ready):
        self.patch(pod, {"status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}, "/status")


def follows_its_pods(run):
    run.pods.create("pod-2")
    run.becomes("a pod comes", {"pod-0", "pod-1", "pod-2"})
    time.sleep(0.5)  # it gets its share of the load
    run.set_ready("pod-1", False)
    run.becomes("a pod is unready", {"pod-0", "pod-2"})
    run.set_ready("pod-1", True)
    run.becomes("it is ready again", {"pod-0", "pod-1", "pod-2"})
    # Its kubelet keeps a pod that is being deleted until its grace period is over.
    run.patch("pod-0", {"metadata": {"finalizers": ["kvist.io/test"]}})
    run.servers.call("DELETE", "/api/v1/namespaces/default/pods/pod-0")
    run.becomes("a pod terminates", {"pod-1", "pod-2"})
    eventually(lambda: "pod-0" not in status(run.picker.process), "its answers have ended")
    run.pods.processes.pop("pod-0").stop()
    run.patch("pod-0", {"metadata": {"finalizers": None}})


def follows_its_selector(run):
    run.patch("pod-2", {"metadata": {"labels": {"tier": "gold"}}})
    run.servers.apply(pool(app="llm", tier="gold"))
    run.becomes("the pool selects fewer pods", {"pod-2"})
    time.sleep(0.5)
    run.servers.apply(pool(app="llm"))
    run.becomes("it selects all again", {"pod-1", "pod-2"})


def main():
    installed_or_skip()
    definitions = sorted(CACHE.glob("inferencepools-*.yaml"))
    if not definitions:
        print("the definition of InferencePools is missing: run scripts/install-cluster-test")
        sys.exit(77)
    results = Results("pool")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = stack.enter_context(cluster(folder, ["picker"]))
        for manifest in ROLE:
            servers.apply(manifest)
        pods = Pods(servers, folder)
        stack.callback(pods.stop)
        for name in ("pod-0", "pod-1"):
            pods.create(name)
        pods.create("prefill-0", role="prefill")  # of another role: selected, and out of the fleet
        kubeconfig = servers.kubeconfig("picker", "picker-token")
        text = EPP.format(kubeconfig=kubeconfig, events=PORTS["kv-events"], replay=PORTS["kv-replay"])
        picker = Picker.before(Process(folder, "epp", "epp", text))
        stack.callback(picker.stop)
        run = Run(results, picker, pods, servers)
        eventually(lambda: "404" in run.discovery()["problem"], "the cluster knows no InferencePools, which is told")
        servers.apply(yaml.safe_load(definitions[-1].read_text()))
        eventually(lambda: "there is no InferencePool llama" in run.discovery()["problem"], "there is none of that name, which is told")
        servers.apply(pool(app="llm"))
        run.becomes("the pool comes", {"pod-0", "pod-1"})
        assert run.discovery()["problem"] == "" and run.discovery()["state"] == "synced", run.discovery()
        users = PickedUsers(picker, pods, 8)
        try:
            time.sleep(1)
            follows_its_pods(run)
            follows_its_selector(run)
            time.sleep(1)
        finally:
            users.stop()
        results.fact("requests picked during all of this", sum(users.served.values()))
        results.fact("of these failed", len(users.failed))
        examined = pathlib.Path(folder) / "examined.yaml"
        examined.write_text(text + "  http: {port: 0}\n  admin: {port: 0}\n")
        found = subprocess.run([BINARY, "doctor", "-f", examined], capture_output=True, text=True, timeout=60).stdout
        assert "api_" not in found and "service_without_workers" not in found, found
        servers.call("DELETE", POOL_PATH)
        run.becomes("the pool is gone", set())
        found = subprocess.run([BINARY, "doctor", "-f", examined], capture_output=True, text=True, timeout=60).stdout
        assert "no InferencePool of that name" in found, found
        assert not users.failed, users.failed[:3]
        assert set(users.served) == {"pod-0", "pod-1", "pod-2"}, users.served
    results.write()
    print(f"ok: {sum(users.served.values())} requests, 0 failed")


if __name__ == "__main__":
    main()
