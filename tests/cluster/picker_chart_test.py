"""The endpoint picker's chart: its examples for Istio, kgateway and Envoy Gateway held against the published definitions of what they name, and applied; then
installed by helm on a real API server, where a picker with the chart's file, certificate and rights picks pods over TLS as a gateway's proxy asks it to."""
import base64
import pathlib
import ssl
import subprocess
import tempfile

from cluster import CACHE, ROOT, Refused, cluster, installed_or_skip, path_of

import grpc
import yaml
from deployment import Process, eventually, get_json
from endpoint_picker_test import Picker, chat, serve
from manifests_test import conforms, run
from pods import PORTS, Pods
from results import Results
import schemas

CHART = ROOT / "deploy" / "helm" / "kvist-endpoint-picker"
DEFINITIONS = {"inferencepools": None, "gateway-api": None, "istio": ["destinationrules.networking.istio.io"]}
KINDS = ["io.k8s.networking.inference.v1.InferencePool", "io.k8s.networking.gateway.v1.HTTPRoute", "io.istio.networking.v1.DestinationRule"]
SETTINGS = ["--set", "pool.matchLabels.app=llm", "--set", "picker.settings.model=test-model", "--set", "picker.settings.admission.enabled=false",
            "--set", f"pool.ports={{{PORTS['http']}}}", "--set", f"picker.kvEventsPort={PORTS['kv-events']}", "--set", f"picker.kvReplayPort={PORTS['kv-replay']}"]


def definitions():
    """The published definitions that the chart's objects are of."""
    for name, wanted in DEFINITIONS.items():
        found = sorted(CACHE.glob(f"{name}-*.yaml"))
        if not found:
            print(f"{name}-*.yaml is missing: run scripts/install-cluster-test")
            raise SystemExit(77)
        for each in yaml.safe_load_all(found[-1].read_text()):
            if each and (wanted is None or each["metadata"]["name"] in wanted):
                yield each


def the_examples_conform(servers, folder, results):
    described = lambda: all(kind in servers.call("GET", "/openapi/v2")["definitions"] for kind in KINDS)
    eventually(described, "the API server describes the kinds that gateways have")
    location = schemas.write(servers.call("GET", "/openapi/v2"), pathlib.Path(folder) / "schemas")
    servers.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "llm"}})
    for values in sorted((CHART / "examples").glob("values-*.yaml")):
        manifests = run(CACHE / "helm", "template", values.stem.removeprefix("values-"), CHART, "-n", "llm", "-f", values)
        objects = [each for each in yaml.safe_load_all(manifests) if each]
        valid = conforms(manifests, location, results, values.name)
        assert valid == len(objects), (values.name, valid, len(objects))
        kinds = {each["kind"] for each in objects}
        assert {"InferencePool", "HTTPRoute"} <= kinds, kinds
        assert ("DestinationRule" in kinds) == (values.name == "values-istio.yaml"), kinds
        for each in objects:
            servers.apply(each)
            servers.call("GET", path_of(each))
        results.fact(f"{values.name}: objects that conform to the schemas and were applied", valid)
    wrong = manifests.replace("failureMode: FailOpen", "failureMode: FailSoftly")
    assert wrong != manifests
    try:
        for each in yaml.safe_load_all(wrong):
            if each and each["kind"] == "InferencePool":
                servers.apply(each)
        raise AssertionError("the published definition refuses nothing")
    except Refused as why:
        assert why.code == 422, why


def installed(servers, kubeconfig):
    """The chart's Secret and file after an installation and an upgrade, which keeps the certificate."""
    helm = [CACHE / "helm", "--kubeconfig", kubeconfig, "-n", "default"]
    run(*helm, "install", "llama", CHART, *SETTINGS)
    secret = lambda: servers.call("GET", "/api/v1/namespaces/default/secrets/llama-epp-tls")["data"]
    first = secret()
    run(*helm, "upgrade", "llama", CHART, *SETTINGS, "--set", "picker.replicas=2")
    assert secret() == first, "an upgrade changed the certificate"
    assert servers.call("GET", "/apis/apps/v1/namespaces/default/deployments/llama-epp")["spec"]["replicas"] == 2
    without = subprocess.run([str(part) for part in [*helm, "install", "other", CHART]], capture_output=True, text=True)
    assert without.returncode != 0 and "pool.matchLabels" in without.stderr, without.stderr
    text = servers.call("GET", "/api/v1/namespaces/default/configmaps/llama-epp")["data"]["epp.yaml"]
    return yaml.safe_load(text), {name: base64.b64decode(value) for name, value in first.items()}


def account_of(servers, folder):
    """A kubeconfig with a token of the chart's service account, and the token."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = servers.call("POST", "/api/v1/namespaces/default/serviceaccounts/llama-epp/token", body)["status"]["token"]
    (pathlib.Path(folder) / "token").write_text(token)
    return servers.kubeconfig("account", token_file=pathlib.Path(folder) / "token"), token


def has_no_more_rights_than_it_needs(servers, token):
    group = "/apis/inference.networking.k8s.io/v1/namespaces"
    assert servers.call("GET", f"{group}/default/inferencepools?fieldSelector=metadata.name%3Dllama", token=token)["items"]
    for path in ("/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/llm/pods",
                 f"{group}/default/inferencepools", f"{group}/llm/inferencepools"):
        try:
            servers.call("GET", path, token=token)
            raise AssertionError(f"{path} may be read")
        except Refused as why:
            assert why.code == 403, why


def picks_over_tls(settings, secret, kubeconfig, folder, pods):
    """Requests served by each pod, of 40 that are asked for as a gateway's proxy does."""
    for name, content in secret.items():
        (pathlib.Path(folder) / name).write_bytes(content)
    gateway = settings["gateway"]
    assert gateway["tls"] == {"certificate": "/etc/kvist-tls/tls.crt", "key": "/etc/kvist-tls/tls.key"}, gateway["tls"]
    gateway.update(http={"host": "127.0.0.1", "port": 0}, admin={"host": "127.0.0.1", "port": 0},
                   tls={"certificate": f"{folder}/tls.crt", "key": f"{folder}/tls.key"})
    gateway["workers"][0]["kubernetes"]["kubeconfig"] = str(kubeconfig)
    process = Process(folder, "epp", "epp", yaml.safe_dump(settings))
    picker = Picker.before(process)
    picker.channel.close()
    # A client that does look at the certificate finds the Service's name in it.
    picker.channel = grpc.secure_channel(f"localhost:{process.ports['grpc']}", grpc.ssl_channel_credentials(secret["tls.crt"]),
                                         options=[("grpc.ssl_target_name_override", "llama-epp.default.svc")])
    try:
        workers = lambda: {w["name"] for w in get_json(process.admin + "/admin/status")["workers"] if w["healthy"]}
        eventually(lambda: workers() == {"pod-0", "pod-1"}, "the pool's pods are the picker's workers")
        plain = ssl.get_server_certificate(("127.0.0.1", process.ports["grpc"]))
        assert plain.strip() == secret["tls.crt"].decode().strip(), "another certificate than the chart's"
        picked = {}
        for i in range(40):
            endpoints, _, code, text = serve(picker, chat(f"question {i}"), f"q{i}")
            assert code == 200 and text.endswith(b"data: [DONE]\n\n"), (code, text[-200:])
            picked[endpoints[0]] = picked.get(endpoints[0], 0) + 1
        assert set(picked) <= {f"{host}:{PORTS['http']}" for host in pods.hosts.values()}, picked
        return picked
    finally:
        picker.stop()


def main():
    installed_or_skip()
    results = Results("picker_chart")
    with tempfile.TemporaryDirectory() as folder, cluster(folder) as servers:
        for each in definitions():
            servers.apply(each)
        the_examples_conform(servers, folder, results)
        pods = Pods(servers, folder)
        try:
            for name in ("pod-0", "pod-1"):
                pods.create(name)
            settings, secret = installed(servers, servers.kubeconfig("admin"))
            results.fact("helm install and helm upgrade, which keeps the certificate", "yes")
            kubeconfig, token = account_of(servers, folder)
            has_no_more_rights_than_it_needs(servers, token)
            results.fact("the service account may list and watch this pool and the pods; other pools, secrets, config maps, namespaces are refused", "yes")
            picked = picks_over_tls(settings, secret, kubeconfig, folder, pods)
            results.fact("requests picked over TLS by a picker with the chart's file, certificate and rights, of 40", sum(picked.values()))
        finally:
            pods.stop()
    results.write()
    print("ok")


if __name__ == "__main__":
    main()
