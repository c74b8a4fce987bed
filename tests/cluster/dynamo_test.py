"""A sweep of round-robin and KV-aware routing on a DynamoGraphDeployment, switched by DYN_ROUTER_MODE: the published experiment in small. The graph's
pods are kvist processes that a stand-in operator starts."""
import contextlib
import json
import pathlib
import sqlite3
import subprocess
import tempfile

from cluster import Refused, cluster, free_port, installed_or_skip
from deployment import BINARY, eventually
from dynamo_definition import DEFINITION
from dynamo_operator import GRAPH, MODEL, Operator, SWEEP
from results import Results


def sweep(folder, *arguments):
    return subprocess.run([BINARY, "sweep", "-f", pathlib.Path(folder) / "sweep.yaml", "--output", folder, *arguments],
                          capture_output=True, text=True, timeout=300)


def is_known(servers, path):
    """Some moments after its definition, a kind has a path."""
    try:
        return servers.call("GET", path)
    except Refused as refused:
        assert refused.code in (404, 429), refused
        return None


def main():
    installed_or_skip()
    results = Results("dynamo")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = stack.enter_context(cluster(folder))
        port = free_port()
        kubeconfig = servers.kubeconfig("sweep")
        write = lambda more: (pathlib.Path(folder) / "sweep.yaml").write_text(
            SWEEP.format(model=MODEL, port=port, kubeconfig=kubeconfig, more=more))
        write(GRAPH)
        servers.apply(DEFINITION)
        operator = Operator(servers.call, folder, "llama-70b", port, MODEL)
        stack.callback(operator.stop)
        eventually(lambda: is_known(servers, operator.path.rsplit("/", 1)[0]), "the kind is known")
        done = sweep(folder)
        assert done.returncode == 0, done.stdout + done.stderr
        assert operator.modes == ["round-robin", "kv"], operator.modes
        graph = servers.call("GET", operator.path)
        assert graph["metadata"]["generation"] == 2, "one deployment for each arm"
        managers = {each["manager"] for each in graph["metadata"]["managedFields"] if each["operation"] == "Apply"}
        assert managers == {"kvist"}, managers
        found = max(path for path in pathlib.Path(folder).glob("dynamo-*") if path.is_dir())
        measured = sqlite3.connect(found / "results.sqlite").execute("SELECT count(*) FROM levels").fetchone()[0]
        assert measured == 8, measured
        report = json.loads((found / "report.json").read_text())
        level = report["levels"][-1]
        results.fact("levels measured on the graph (2 modes, 2 levels, 2 repetitions)", measured)
        results.fact("redeployments", len(operator.modes))
        for mode in ("round_robin", "kv_aware"):
            results.fact(f"KV hit rate at 4 users, {mode} (%)", level[mode].get("kv_hit_rate_pct"))

        # Somebody else sets the mode: the conflict names the field and its owner, and nothing is changed.
        write("")
        other = {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "llama-70b"}, "spec": {"components": [
            {"name": "Frontend", "podTemplate": {"spec": {"containers": [{"name": "main", "env": [{"name": "DYN_ROUTER_MODE", "value": "random"}]}]}}}]}}
        servers.apply(other, manager="somebody")
        eventually(lambda: operator.modes[-1] == "random", "their mode runs")
        done = sweep(folder)
        assert done.returncode == 1 and "field_manager_conflict (409)" in done.stderr and '"somebody"' in done.stderr, done.stderr
        assert "DYN_ROUTER_MODE" in done.stderr and "target.dynamo.force" in done.stderr, done.stderr
        assert servers.call("GET", operator.path)["metadata"]["generation"] == 3
        write("\n    force: true")
        done = sweep(folder)
        assert done.returncode == 0, done.stdout + done.stderr
        assert operator.modes[-2:] == ["round-robin", "kv"], operator.modes
        results.fact("conflict of field managers", "told with field and owner; taken with force: true")
        assert operator.problem is None, operator.problem
    results.write()
    print("ok")


if __name__ == "__main__":
    main()
