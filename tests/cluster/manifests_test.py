"""The chart and the kustomize base: rendered, held against the API server's own schemas, applied to it, and the rights they give used by a gateway."""
import json
import pathlib
import subprocess
import sys
import tempfile

import yaml

import schemas
from cluster import CACHE, ROOT, Refused, cluster, installed_or_skip, path_of
from deployment import Process, eventually, get_json
from results import Results

CHART = ROOT / "deploy" / "helm" / "kvist"
NAMESPACE = "llm"
# As far as the chart uses it.
SERVICE_MONITOR = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
    "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
             "names": {"plural": "servicemonitors", "singular": "servicemonitor", "kind": "ServiceMonitor", "listKind": "ServiceMonitorList"},
             "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                 "spec": {"type": "object", "required": ["selector", "endpoints"], "properties": {
                     "selector": {"type": "object", "properties": {"matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}}},
                     "endpoints": {"type": "array", "items": {"type": "object", "properties": {
                         "port": {"type": "string"}, "path": {"type": "string"}, "interval": {"type": "string"},
                         "relabelings": {"type": "array", "items": {"type": "object", "properties": {
                             "targetLabel": {"type": "string"}, "replacement": {"type": "string"}}}}}}}}}}}}]}}


def run(*command, text=None):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, input=text, timeout=120)
    assert done.returncode == 0, (command, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def renderings():
    """Name -> the manifests as text."""
    helm = CACHE / "helm"
    everything = ["--set", "autoscaling.enabled=true", "--set", "serviceMonitor.enabled=true"]
    yield "chart, default values", run(helm, "template", "kvist", CHART, "-n", NAMESPACE)
    for values in sorted((CHART / "examples").glob("values-*.yaml")):
        yield f"chart, {values.name}", run(helm, "template", "kvist", CHART, "-n", NAMESPACE, "-f", values, *everything)
    yield "kustomize base", run(CACHE / "kubectl", "kustomize", ROOT / "deploy" / "kustomize" / "base")


def conforms(manifests, location, results, name):
    told = json.loads(run(CACHE / "kubeconform", "-strict", "-output", "json", "-summary", "-schema-location", location, "-", text=manifests))["summary"]
    assert told["invalid"] == told["errors"] == told["skipped"] == 0, (name, told)
    return told["valid"]


def a_wrong_manifest_is_refused(location):
    wrong = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {replica: 1}\n"
    done = subprocess.run([str(CACHE / "kubeconform"), "-strict", "-schema-location", location, "-"], input=wrong, capture_output=True, text=True)
    assert done.returncode != 0, "the schemas refuse nothing"


def kvists_own_containers_start(objects, folder):
    """kvist's image has no shell: its containers name no command, and the file of its workers is one that a worker starts with."""
    for each in objects:
        if each["kind"] != "Deployment":
            continue
        for container in each["spec"]["template"]["spec"]["containers"]:
            assert "command" not in container and container["args"][0] in ("gateway", "worker"), container
    files = [each["data"]["worker.yaml"] for each in objects if each["kind"] == "ConfigMap" and "worker.yaml" in each["data"]]
    assert len(files) == 1, files
    settings = yaml.safe_load(files[0])
    assert settings["worker"]["http"] == {"host": "0.0.0.0", "port": 8000}, settings
    settings["worker"].update(http={"host": "127.0.0.1", "port": 0}, kv_events_port=0, kv_replay_port=0, drain_timeout="0 s")
    Process(folder, "worker", "of-the-chart", yaml.safe_dump(settings)).stop()


def the_gateway_has_the_rights_it_needs(servers, folder):
    """As the chart's service account, with a token of the API server's own."""
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/kvist-gateway/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = servers.call("POST", account, body)["status"]["token"]
    (pathlib.Path(folder) / "token").write_text(token)
    kubeconfig = servers.kubeconfig("account", token_file=pathlib.Path(folder) / "token", namespace=NAMESPACE)
    map_of = servers.call("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/kvist-gateway")["data"]["gateway.yaml"]
    settings = yaml.safe_load(map_of)
    settings["gateway"].update(http={"host": "127.0.0.1", "port": 0}, admin={"host": "127.0.0.1", "port": 0})
    settings["gateway"].pop("tokenizer", None)
    settings["gateway"]["workers"][0]["kubernetes"]["kubeconfig"] = str(kubeconfig)
    gateway = Process(folder, "gateway", "gateway", yaml.safe_dump(settings))
    try:
        discovery = lambda: get_json(gateway.admin + "/admin/workers")["discovery"]
        try:
            eventually(lambda: discovery()[0]["state"] == "synced", "the chart's rights suffice")
        except AssertionError as error:
            raise AssertionError(f"{error}: {discovery()}") from None
    finally:
        gateway.stop()
    for path in (f"/api/v1/namespaces/{NAMESPACE}/secrets", "/api/v1/namespaces/default/pods", f"/api/v1/namespaces/{NAMESPACE}/configmaps"):
        try:
            servers.call("GET", path, token=token)
            raise AssertionError(f"{path} may be read")
        except Refused as why:
            assert why.code == 403, why


def main():
    installed_or_skip()
    results = Results("manifests")
    run(sys.executable, ROOT / "scripts" / "render-kustomize", "--check")
    with tempfile.TemporaryDirectory() as folder, cluster(folder) as servers:
        servers.apply(SERVICE_MONITOR)
        servers.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        monitors = "monitoring.coreos.com.v1.ServiceMonitor"
        described = lambda: any(name.endswith(monitors.split(".", 3)[-1]) for name in servers.call("GET", "/openapi/v2")["definitions"])
        eventually(described, "the API server describes the new kind")
        location = schemas.write(servers.call("GET", "/openapi/v2"), pathlib.Path(folder) / "schemas")
        a_wrong_manifest_is_refused(location)
        for name, manifests in renderings():
            valid = conforms(manifests, location, results, name)
            objects = [each for each in yaml.safe_load_all(manifests) if each]
            assert valid == len(objects), (name, valid, len(objects))
            for each in objects:
                servers.apply(each)
                servers.call("GET", path_of(each))
            results.fact(f"{name}: objects that conform to the schemas and were applied", valid)
            if name == "chart, values-kvist.yaml":
                kvists_own_containers_start(objects, folder)
                results.fact("its containers need no shell, and a worker starts with the file that they have", "yes")
            if name == "chart, default values":
                the_gateway_has_the_rights_it_needs(servers, folder)
                results.fact("a gateway with the chart's service account: synced; secrets, config maps and other namespaces refused", "yes")
        for each in yaml.safe_load_all(run(CACHE / "helm", "template", "kvist", CHART, "-n", NAMESPACE)):
            servers.call("DELETE", path_of(each))
    results.write()
    print("ok")


if __name__ == "__main__":
    main()
