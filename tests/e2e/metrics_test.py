"""The metric pages of gateway, worker and load generator: names that promtool accepts, docs/guide/metrics.md that lists exactly them, and
files of deploy/ that name no others."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

from deployment import BINARY, DEADLINE_S, Process, WORKER, eventually, gateway_config, get_json, read_line, request, run

ROOT = pathlib.Path(__file__).parent.parent.parent
DOCS = ROOT / "docs" / "guide" / "metrics.md"
PROMTOOL = shutil.which("promtool")


def families(page):
    """Name -> type"""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))


class Pages:
    """One scrape of each service after traffic of each kind; taken once, for all tests."""

    texts = None

    @classmethod
    def get(cls):
        if cls.texts is None:
            cls.texts = cls.scrape()
        return cls.texts

    @staticmethod
    def scrape():
        with tempfile.TemporaryDirectory() as folder:
            worker = Process(folder, "worker", "w0", WORKER.format(name="w0", kv_blocks=300, slots=8, time_scale=10)
                             + "  speculation: {drafter: prompt_lookup, draft_tokens: 2}\n")
            created = subprocess.run([BINARY, "key", "create", "--name", "alice", "--class", "gold", "--requests-per-minute", "600",
                                      "--concurrency", "1"], capture_output=True, text=True, check=True)
            key, line = created.stdout.splitlines()
            (pathlib.Path(folder) / "keys.txt").write_text(line + "\n")
            subprocess.run([BINARY, "model", "create", folder + "/model", "--size", "tiny"], check=True, capture_output=True)
            config = gateway_config([worker], "kv", patient=True) + (
                "  api_keys: keys.txt\n  access_log: access.log\n  record: record.jsonl\n"
                "  tokenizer: model\n  otlp: {endpoint: 'http://127.0.0.1:1/v1/traces'}\n")
            config = config.replace("", "")
            gateway = Process(folder, "gateway", "gateway", config)
            loadgen = subprocess.Popen([BINARY, "loadgen", "--target", gateway.url, "--model", "test-model"], stdout=subprocess.PIPE)
            try:
                ready = read_line(loadgen.stdout, DEADLINE_S)
                port = re.search(r"http=(\d+)", ready).group(1)
                eventually(lambda: get_json(gateway.admin + "/admin/status")["workers"][0]["healthy"], "the worker is healthy")
                for stream in (False, True):
                    body = {"model": "test-model", "max_tokens": 50, "stream": stream, "messages": [{"role": "user", "content": "hello " * 99}]}
                    status, _, text = request(gateway.url + "/v1/chat/completions", body, headers={"Authorization": f"Bearer {key}"})
                    assert status == 200, text
                assert request(gateway.url + "/v1/chat/completions", {"model": "test-model"})[0] == 401
                assert request(gateway.url + "/v1/chat/completions", {**body, "model": "another"}, headers={"Authorization": f"Bearer {key}"})[0] == 404
                ended = 'kvist_gateway_requests_total{worker="w0",outcome="completed"} 2'
                eventually(lambda: ended in request(gateway.admin + "/metrics")[2], "both have ended")
                return {"gateway": request(gateway.admin + "/metrics")[2], "worker": request(worker.url + "/metrics")[2],
                        "loadgen": request(f"http://127.0.0.1:{port}/metrics")[2]}
            finally:
                loadgen.terminate()
                loadgen.wait()
                loadgen.stdout.close()
                gateway.stop()
                worker.stop()


def promtool_accepts(service, page):
    assert PROMTOOL, "promtool is missing: scripts/install-dependencies --tests"
    # vLLM's names are vLLM's: promtool finds fault with their colons.
    own = "".join(line + "\n" for line in page.splitlines() if not re.match(r"(# (HELP|TYPE) )?vllm:", line))
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=own, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (service, done.stdout, done.stderr)
    # Those are parsed too, and so their format is checked; 3 is promtool's word for a name that it does not like.
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 3) and "error while parsing" not in done.stderr, (service, done.stderr)


def promtool_accepts_the_pages():
    for service, page in Pages.get().items():
        promtool_accepts(service, page)


def requests_are_timed_by_model_worker_and_class():
    page = Pages.get()["gateway"]
    for name in ("e2e_request_latency", "time_to_first_token", "inter_token_latency", "routing_time"):
        count = re.search(r'^kvist_gateway_%s_seconds_count\{model="test-model",worker="w0",class="gold"\} (\d+)$' % name, page, re.M)
        wanted = {"e2e_request_latency": 2, "time_to_first_token": 1, "routing_time": 2}.get(name)
        assert count and (int(count.group(1)) == wanted if wanted else 1 <= int(count.group(1)) <= 49), (name, count)
    for kind, wanted in (("predicted", 2), ("observed", 1)):
        sample = 'kvist_gateway_request_queue_time_seconds_count{model="test-model",worker="w0",class="gold",kind="%s"} %d' % (kind, wanted)
        assert sample in page, sample
    for service, text in Pages.get().items():
        assert re.search(r'^kvist_build_info\{version="[0-9.]+",service="%s"\} 1$' % service, text, re.M), service


def the_documentation_lists_exactly_the_names_of_the_pages():
    listed = {}
    for service, text in re.findall(r"^## (?:The )?(\w+).*?\n(.*?)(?=^## |\Z)", DOCS.read_text(), re.M | re.S):
        rows = re.findall(r"^\| `([a-zA-Z0-9_:]+)` \| (\w+) \|(.*)$", text, re.M)
        listed[service.lower()] = {name: (kind, rest) for name, kind, rest in rows}
    for service, page in Pages.get().items():
        shown, known = families(page), listed[service]
        for name, kind in shown.items():
            assert name in known, f"{DOCS.name} does not list {name} of the {service}"
            assert known[name][0] == kind, (name, known[name][0], kind)
        # What this fleet has no occasion to show is marked.
        for name, (_, rest) in known.items():
            assert name in shown or "only " in rest, f"{DOCS.name} lists {name}, which the {service} does not show"


def names_in(expression):
    """The metrics of a PromQL expression."""
    text = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|on|without|group_left|ignoring) \([^)]*\)', " ", expression)
    return {name for name in re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", text)
            if name not in {"sum", "rate", "increase", "max", "avg", "scalar", "histogram_quantile", "label_values", "instance", "class", "model", "or", "and", "unless", "absent", "le"}}


def the_files_for_a_deployment_are_good_and_name_metrics_that_exist():
    folder = ROOT / "deploy" / "prometheus"
    for what, file in (("rules", "rules.yaml"), ("config", "prometheus.yaml")):
        done = subprocess.run([PROMTOOL, "check", what, folder / file], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (file, done.stdout, done.stderr)
    rules = re.sub(r"(?m)^\s*#.*$", "", (folder / "rules.yaml").read_text())
    recorded = set(re.findall(r"- record: (\S+)", rules))
    used = {"rules.yaml": set().union(*(names_in(text) for text in re.findall(r"expr: ((?:\|\n(?:\s{10,}.*\n)+)|.*)", rules)))}
    board = json.loads((ROOT / "deploy" / "grafana" / "kvist.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    used["kvist.json"] = set().union(*(names_in(query) for query in queries))
    known = {"up"} | recorded | set(re.findall(r"^\| `(\w+)`.*only ", DOCS.read_text(), re.M))
    for page in Pages.get().values():
        for name, kind in families(page).items():
            known |= {name} if kind != "histogram" else {name + end for end in ("_bucket", "_sum", "_count")}
    # promtool knows rules, so the dashboard's queries are put to it as such.
    as_rules = [{"record": f"query:{i}", "expr": re.sub(r"\$__rate_interval", "1m", query)}
                for i, query in enumerate(queries) if not query.startswith("label_values")]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump({"groups": [{"name": "board", "rules": as_rules}]}, file)
        file.flush()
        done = subprocess.run([PROMTOOL, "check", "rules", file.name], capture_output=True, text=True, timeout=60)
        assert f"{len(as_rules)} rules found" in done.stdout, (done.stdout, done.stderr)
    for file, names in used.items():
        assert len(names) > 15 and names <= known, (file, sorted(names - known))


def queries_of(title):
    board = json.loads((ROOT / "deploy" / "grafana" / "kvist.json").read_text())
    (panel,) = [panel for panel in board["panels"] if panel["title"] == title]
    return [target["expr"].replace("$gateway", ".*").replace("$model", "m") for target in panel["targets"]]


def the_dashboard_counts_a_worker_of_two_gateways_once():
    """With the model chosen, which a gateway of one model has in no label of its workers."""
    series = []
    for gateway, loads in (("g0", (4, 1)), ("g1", (2, 1))):
        for worker, load in zip(("w0", "w1"), loads):
            series += [(f'kvist_gateway_worker_in_flight{{instance="{gateway}",worker="{worker}"}}', load),
                       (f'kvist_gateway_worker_prefill_tokens{{instance="{gateway}",worker="{worker}"}}', 100 * load),
                       (f'kvist_gateway_worker_state{{instance="{gateway}",worker="{worker}",state="healthy"}}', 1),
                       (f'kvist_gateway_worker_state{{instance="{gateway}",worker="{worker}",state="ejected"}}', 0)]
    wanted = {"Workers by state": [[('{state="healthy"}', 2), ('{state="ejected"}', 0)]], "Busiest worker over the mean": 2 * [[("{}", 1.5)]]}
    tests = [{"expr": expression, "eval_time": "1m", "exp_samples": [{"labels": labels, "value": value} for labels, value in samples]}
             for title, all_samples in wanted.items() for expression, samples in zip(queries_of(title), all_samples, strict=True)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump({"tests": [{"interval": "15s", "input_series": [{"series": name, "values": f"{value}x8"} for name, value in series], "promql_expr_test": tests}]}, file)
        file.flush()
        done = subprocess.run([PROMTOOL, "test", "rules", file.name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.stdout, done.stderr)


def alerts_fire_when_they_should():
    done = subprocess.run([PROMTOOL, "test", "rules", ROOT / "tests" / "e2e" / "alerts.yaml"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.stdout, done.stderr)


if __name__ == "__main__":
    run([promtool_accepts_the_pages, requests_are_timed_by_model_worker_and_class, the_documentation_lists_exactly_the_names_of_the_pages,
         the_files_for_a_deployment_are_good_and_name_metrics_that_exist, alerts_fire_when_they_should,
         the_dashboard_counts_a_worker_of_two_gateways_once])
