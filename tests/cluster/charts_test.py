"""What the charts make of values: rendered by helm alone, and the gateway's file given to a gateway. It needs no API server."""
import re
import subprocess
import sys
import tempfile

import yaml

from cluster import CACHE, ROOT, SKIPPED
from deployment import Process, get_json, run

GATEWAY, PICKER = ROOT / "deploy" / "helm" / "kvist", ROOT / "deploy" / "helm" / "kvist-endpoint-picker"
HELM = CACHE / "helm"


def rendered(chart, values=None, release="kvist"):
    """(kind, name) -> the object."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values or {}, file)
        file.flush()
        done = subprocess.run([HELM, "template", release, chart, "-n", "llm", "-f", file.name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout) if each}


def the_monitor_gives_the_job_the_name_that_the_alerts_want():
    monitor = rendered(GATEWAY, {"serviceMonitor": {"enabled": True}}, release="blue")["ServiceMonitor", "blue-gateway"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "kvist-gateway"}], endpoint
    assert 'up{job="kvist-gateway"} == 0' in (ROOT / "deploy" / "prometheus" / "rules.yaml").read_text()


def a_gateway_starts_with_the_file_of_several_models():
    models = [{"name": "a", "block_size": 16, "workers": [{"name": "w0", "url": "http://127.0.0.1:9"}]},
              {"name": "b", "mode": "least_loaded", "workers": [{"name": "w1", "url": "http://127.0.0.1:10"}]}]
    text = rendered(GATEWAY, {"gateway": {"settings": {"models": models}}})["ConfigMap", "kvist-gateway"]["data"]["gateway.yaml"]
    settings = yaml.safe_load(text)
    assert settings["gateway"]["models"] == models and settings["gateway"]["log"] == {"format": "json"}, settings
    settings["gateway"].update(http={"host": "127.0.0.1", "port": 0}, admin={"host": "127.0.0.1", "port": 0}, drain_timeout="0 s")
    with tempfile.TemporaryDirectory() as folder:
        gateway = Process(folder, "gateway", "gateway", yaml.safe_dump(settings))
        try:
            assert {each["name"] for each in get_json(gateway.admin + "/admin/workers")["workers"]} == {"w0", "w1"}
        finally:
            gateway.stop()
    one = yaml.safe_load(rendered(GATEWAY)["ConfigMap", "kvist-gateway"]["data"]["gateway.yaml"])["gateway"]
    assert one["model"] == "kvist-timed" and one["workers"][0]["kubernetes"]["service"] == "llm-workers", one


def further_ways_out_can_be_opened():
    rule = {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tracing"}}}], "ports": [{"port": 4318, "protocol": "TCP"}]}
    for chart, name, values in ((GATEWAY, "kvist-gateway", {}), (PICKER, "kvist-epp", {"pool": {"matchLabels": {"app": "llm"}}})):
        before = rendered(chart, values)["NetworkPolicy", name]["spec"]["egress"]
        after = rendered(chart, {**values, "networkPolicy": {"extraEgress": [rule]}})["NetworkPolicy", name]["spec"]["egress"]
        assert after == [*before, rule], (name, after)


def the_examples_workers_serve_the_gateways_model():
    """By the name that they are given, or that trtllm-serve takes from the directory."""
    seen = 0
    for path in sorted((GATEWAY / "examples").glob("values-*.yaml")):
        values = yaml.safe_load(path.read_text())
        command = " ".join(values["workers"].get("args", []))
        served = [re.search(pattern, command) for pattern in (r"--served-model-name=(\S+)", r"trtllm-serve /models/(\S+)")]
        for name in filter(None, served):
            assert name.group(1) == values["gateway"]["settings"]["model"], path.name
            seen += 1
    assert seen == 3, seen


if __name__ == "__main__":
    if not HELM.exists():
        print(f"{HELM} is missing: run scripts/install-cluster-test helm")
        sys.exit(SKIPPED)
    run([the_monitor_gives_the_job_the_name_that_the_alerts_want, a_gateway_starts_with_the_file_of_several_models, further_ways_out_can_be_opened,
         the_examples_workers_serve_the_gateways_model])
