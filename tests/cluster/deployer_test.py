"""kvist sweep and kvist up deploy to a cluster: two workers and a gateway as Deployments and Services, made, measured, restarted for each arm, removed."""
import contextlib
import json
import pathlib
import signal
import sqlite3
import subprocess
import tempfile
import urllib.request

from cluster import cluster, installed_or_skip
from deployment import BINARY, eventually, read_line
from results import Results
from stand_ins import StandIns

PARTS = ["bench-gateway", "bench-worker-0", "bench-worker-1"]
DEPLOYMENT = """  name: bench
  kubernetes: {{image: "kvist:test", kubeconfig: {kubeconfig}, ready_timeout: {patience}, worker: {{cpu: "2", memory: 4Gi}}, {more}}}
  gateway: {{mode: kv}}
  workers:
    count: 2
    model: test-model
    block_size: 32
    kv_blocks: 4000
    max_batch_size: 16
    time_scale: 50
    drain_timeout: 1 s
    output_length: {{mean_tokens: 60, standard_deviation_tokens: 10}}
"""
SWEEP = """name: cluster
deployment:
{deployment}
workload:
  seed: 11
  turns_min: 2
  turns_max: 3
  starters: 4
  starter_tokens_min: 500
  starter_tokens_max: 900
  follow_up_tokens_min: 20
  follow_up_tokens_max: 60
  max_tokens: 40
  target_rps: 100
method: {{warmup: 300 ms, snapshots: 1, snapshot_interval: 1500 ms, window: 1500 ms, drain_timeout: 20 s}}
modes: [round_robin, kv]
levels: [2, 4]
"""
# What a sweep needs, and no more.
ROLE = [
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "deployer", "namespace": "default"}, "rules": [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "create", "patch", "delete"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "deployer", "namespace": "default"},
     "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
     "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "deployer"}]}]


def names(servers, kind, group="/apis/apps/v1"):
    items = servers.call("GET", f"{group}/namespaces/default/{kind}?labelSelector=kvist.io/deployment%3Dbench")["items"]
    return sorted(each["metadata"]["name"] for each in items)


def text(kubeconfig, patience="60 s", more="keep: false"):
    return DEPLOYMENT.format(kubeconfig=kubeconfig, patience=patience, more=more)


def sweeps(folder, servers, stand_ins, kubeconfig, results):
    file = pathlib.Path(folder) / "sweep.yaml"
    file.write_text(SWEEP.format(deployment=text(kubeconfig)))
    done = subprocess.run([BINARY, "sweep", "-f", file, "--output", folder], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(stand_ins.started) == sorted(2 * PARTS), "each arm is measured on new pods: " + str(stand_ins.started)
    assert names(servers, "deployments") == [] and names(servers, "services", "/api/v1") == [], "all is removed"
    found = max(path for path in pathlib.Path(folder).glob("cluster-*") if path.is_dir())
    database = sqlite3.connect(found / "results.sqlite")
    assert database.execute("SELECT count(*) FROM levels").fetchone()[0] == 4
    outcomes = dict(database.execute("SELECT outcome, count(*) FROM turns GROUP BY outcome"))
    assert outcomes["succeeded"] > 100 and "failed" not in outcomes, outcomes
    level = json.loads((found / "report.json").read_text())["levels"][-1]
    results.fact("levels measured by a sweep over two modes, each on new pods", 4)
    for mode in ("round_robin", "kv_aware"):
        results.fact(f"KV hit rate at 4 users, {mode} (%)", level[mode].get("kv_hit_rate_pct"))
        assert level[mode].get("kv_hit_rate_pct") is not None, "workers' counters were read at their pods"


def is_up_until_asked_to_end(folder, servers, kubeconfig, results):
    file = pathlib.Path(folder) / "up.yaml"
    file.write_text("deployment:\n" + text(kubeconfig))
    dry = subprocess.run([BINARY, "up", "-f", file, "--dry-run"], capture_output=True, text=True, timeout=60)
    assert dry.returncode == 0 and dry.stdout.count('"kind": "Deployment"') == 3 and names(servers, "deployments") == [], dry.stdout + dry.stderr
    up = subprocess.Popen([BINARY, "up", "-f", file, "--no-dashboard"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = []
    while not any(line.startswith("gateway ") for line in lines):
        lines.append(read_line(up.stdout, 100))
        assert lines[-1] or up.poll() is None, lines
    url = next(line.split()[1] for line in lines if line.startswith("gateway "))
    body = json.dumps({"model": "test-model", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]}).encode()
    answer = json.loads(urllib.request.urlopen(urllib.request.Request(url + "/v1/chat/completions", body, {"Content-Type": "application/json"}), timeout=30).read())
    assert answer["usage"]["completion_tokens"] == 5, answer
    assert names(servers, "deployments") == PARTS and names(servers, "services", "/api/v1") == PARTS
    # A pod that is replaced ends it, with the reason: what it shows would no longer be one deployment.
    path = "/apis/apps/v1/namespaces/default/deployments/bench-worker-1"
    servers.call("DELETE", path)
    assert up.wait(60) == 1, "a part is gone"
    said = up.stdout.read().decode()
    assert "bench-worker-1" in said and "no pod is ready" in said, said
    assert names(servers, "deployments") == [] and names(servers, "services", "/api/v1") == [], "all is removed"
    results.fact("kvist up: answered through its gateway; a worker's Deployment deleted: told, all removed", "yes")


def keeps_what_is_to_be_kept(folder, servers, kubeconfig):
    file = pathlib.Path(folder) / "kept.yaml"
    file.write_text("deployment:\n" + text(kubeconfig, more="keep: true"))
    up = subprocess.Popen([BINARY, "up", "-f", file, "--no-dashboard"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while "Ctrl-C" not in read_line(up.stdout, 100):
        assert up.poll() is None
    up.send_signal(signal.SIGINT)
    assert up.wait(60) == 0
    assert names(servers, "deployments") == PARTS, "it was to be kept"


def leaves_alone_what_is_not_its_own(folder, servers, kubeconfig, results):
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bench-worker-1", "namespace": "default", "labels": {"app.kubernetes.io/part-of": "bench"}},
             "spec": {"selector": {"app": "other"}, "ports": [{"name": "http", "port": 80}]}}
    servers.apply(other)
    file = pathlib.Path(folder) / "other.yaml"
    file.write_text("deployment:\n" + text(kubeconfig))
    done = subprocess.run([BINARY, "up", "-f", file, "--no-dashboard"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 1 and "services default/bench-worker-1 is there already and is not of this deployment" in done.stderr, done.stdout + done.stderr
    assert names(servers, "deployments") == [], "nothing was begun"
    path = "/api/v1/namespaces/default/services/bench-worker-1"
    assert servers.call("GET", path)["spec"]["selector"] == {"app": "other"}, "it is as it was"
    servers.call("DELETE", path)
    results.fact("a Service of that name which is another's: refused, and left as it was", "yes")


def tells_why_nothing_runs(folder, servers, stand_ins, kubeconfig, results):
    stand_ins.paused = True
    file = pathlib.Path(folder) / "stuck.yaml"
    file.write_text("deployment:\n" + text(kubeconfig, patience="2 s"))
    done = subprocess.run([BINARY, "up", "-f", file, "--no-dashboard"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 1 and "bench-worker-0: waiting for its pod" in done.stderr, done.stdout + done.stderr
    assert names(servers, "deployments") == [], "nothing of it is left"
    stand_ins.paused = False
    stranger = servers.kubeconfig("stranger", "stranger-token")
    file.write_text("deployment:\n" + text(stranger))
    done = subprocess.run([BINARY, "up", "-f", file, "--no-dashboard"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 1 and "forbidden (403)" in done.stderr, done.stdout + done.stderr
    results.fact("no pod in time, no rights: told with part and reason, nothing left behind", "yes")


def main():
    installed_or_skip()
    results = Results("deployer")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = stack.enter_context(cluster(folder, ["deployer", "stranger"]))
        for manifest in ROLE:
            servers.apply(manifest)
        stand_ins = StandIns(servers.call, folder)
        stack.callback(stand_ins.stop)
        kubeconfig = servers.kubeconfig("deployer", "deployer-token")
        sweeps(folder, servers, stand_ins, kubeconfig, results)
        is_up_until_asked_to_end(folder, servers, kubeconfig, results)
        keeps_what_is_to_be_kept(folder, servers, kubeconfig)
        tells_why_nothing_runs(folder, servers, stand_ins, kubeconfig, results)
        leaves_alone_what_is_not_its_own(folder, servers, kubeconfig, results)
        eventually(lambda: not stand_ins.pods, "no pod is left")
        assert stand_ins.problem is None, repr(stand_ins.problem)
    results.write()
    print("ok")


if __name__ == "__main__":
    main()
