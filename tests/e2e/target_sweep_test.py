"""Sweeps of targets that run already: a kvist deployment whose modes are switched by its gateway, two endpoints, a command per arm; and
comparisons that must be refused."""
import json
import pathlib
import re
import sqlite3
import subprocess
import tempfile
import threading

from deployment import BINARY, deployment, metrics, request, run

SWEEP = """name: target
target:
  url: {url}
  model: test-model
{target}
workload:
  seed: 11
  turns_min: 2
  turns_max: 3
  starters: 4
  starter_tokens_min: 1500
  starter_tokens_max: 2000
  follow_up_tokens_min: 20
  follow_up_tokens_max: 60
  max_tokens: 40
  target_rps: 100
method: {{warmup: 300 ms, snapshots: 1, snapshot_interval: 1500 ms, window: 1500 ms, drain_timeout: 20 s, repetitions: {repetitions}}}
{arms}
comparison: {comparison}
levels: [4]
"""


def sweep(folder, url, target, arms, comparison, repetitions=1, resume=None):
    path = pathlib.Path(folder) / "sweep.yaml"
    path.write_text(SWEEP.format(url=url, target=target, arms=arms, comparison=comparison, repetitions=repetitions))
    done = subprocess.run([BINARY, "sweep", "-f", path, "--output", folder], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    results = max(pathlib.Path(folder).glob("target-*"))
    return done.stdout, results, json.loads((results / "report.json").read_text())


def workers_of(workers):
    lines = ["  workers:"]
    for worker in workers:
        lines.append(f"    - {{name: {worker.name}, url: {worker.url}, admin: {worker.admin}}}")
    return "\n".join(lines)


def rows(results, query, *arguments):
    return sqlite3.connect(results / "results.sqlite").execute(query, arguments).fetchall()


def a_deployment_that_runs_is_switched_by_its_gateway():
    with deployment(workers=2, mode="random") as (gateway, workers), tempfile.TemporaryDirectory() as folder:
        target = f"  admin: {gateway.admin}\n  block_size: 32\n" + workers_of(workers)
        output, results, report = sweep(folder, gateway.url, target, "modes: [round_robin, kv]", "{order: abba, caches: reset}", repetitions=2)
        assert "Not compared" not in output, output
        level = report["levels"][0]
        for key in ("round_robin", "kv_aware"):
            own = level[key]["kvist"]
            assert own["workers"] and own["workers_hit_rate_pct"] is not None, own
            assert abs(own["hit_rate_difference_points"]) < 1, own
            assert own["reusable_tokens"]["fleet"] is None, "nobody told how large the caches are"
            assert own["client_cached_tokens"] <= own["reusable_tokens"]["endless"] + 64 * 100
        order = rows(results, "SELECT mode, repetition FROM levels ORDER BY position")
        assert order == [("round_robin", 0), ("kv", 0), ("kv", 1), ("round_robin", 1)], order
        assert gateway.process.poll() is None and all(w.process.poll() is None for w in workers), "they are not the sweep's to end"
        markdown = (results / "report.md").read_text()
        assert "A target that ran already" in markdown and "2 known" in markdown


def two_endpoints_are_two_arms_and_what_they_do_not_tell_is_unknown():
    with deployment(workers=2, gateway=False) as (_, workers), tempfile.TemporaryDirectory() as folder:
        arms = f"arms:\n  - {{name: a, url: {workers[0].url}}}\n  - {{name: b, url: {workers[1].url}}}\n"
        output, results, report = sweep(folder, workers[0].url, "  settle: 100 ms\n", arms, "{order: random}", repetitions=3)
        assert "Not compared" not in output, output
        assert report["kvist"]["modes"] == ["a", "b"]
        for arm in ("a", "b"):
            own = report["levels"][0][arm]["kvist"]
            assert own["workers"] == [] and own["workers_hit_rate_pct"] is None and own["prefilled_tokens"] is None, own
            assert own["headline"]["ttft_p50_ms"]["value"] > 0
        figures = report["kvist"]["comparison"]["levels"][0]
        assert figures["mode"] == "b" and figures["ttft_p50_ms"]["pairs"] == 3 and figures["ttft_p50_ms"]["detectable_pct"] > 0
        markdown = (results / "report.md").read_text()
        assert "| - |" in markdown
        # Nobody knows their workers: neither how fast their engines ran nor what their counters say of hits.
        assert "- **Time:** wall-clock as measured" in markdown and "ran at different speeds" not in markdown, markdown
        assert re.search(r" done: .* KV hit rate \d", output) and "KV hit rate none" not in output, output
        # Each measurement's conversations begin with a text of their own, and share what they share.
        assert all(m["vllm:prompt_tokens_total"] > 0 for m in map(metrics, workers))
        hits = rows(results, "SELECT sum(cached_tokens) > 0 FROM turns GROUP BY level")
        assert hits == [(1,)] * 6, hits


def an_arm_is_made_by_its_command():
    with deployment(workers=2, mode="random") as (gateway, _), tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        put = f"curl -sf -X PUT {gateway.admin}/admin/router_mode -H Content-Type:application/json -d"
        arms = "arms:\n" + "".join(f"""  - {{name: by-{mode}, command: '{put} "{{\\"mode\\":\\"{mode}\\"}}" && echo {mode} >> {log}'}}\n"""
                                   for mode in ("round_robin", "kv"))
        _, results, report = sweep(folder, gateway.url, "  settle: 50 ms\n", arms, "{order: abba}", repetitions=2)
        assert log.read_text().split() == ["round_robin", "kv", "kv", "round_robin"]
        assert report["kvist"]["modes"] == ["by-round_robin", "by-kv"]


def a_command_that_fails_ends_the_sweep_and_says_so():
    with deployment(workers=1, gateway=False) as (_, workers), tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sweep.yaml"
        path.write_text(SWEEP.format(url=workers[0].url, target="", arms="arms: [{name: a, command: exit 7}]", comparison="{}", repetitions=1))
        done = subprocess.run([BINARY, "sweep", "-f", path, "--output", folder], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and "exit status 7" in done.stderr, done.stderr


def a_warm_cache_in_one_arm_is_refused():
    with deployment(workers=1, gateway=False) as (_, workers), tempfile.TemporaryDirectory() as folder:
        arms = "arms: [{name: first}, {name: second}]"
        output, results, report = sweep(folder, workers[0].url, "  settle: 50 ms\n", arms, "{caches: none}")
        assert "Not compared: second at 4: second: its caches were warm" in output, output
        assert "Not compared" in (results / "report.md").read_text()
        refused = subprocess.run([BINARY, "report", "compare", results], capture_output=True, text=True, timeout=60)
        assert refused.returncode != 0 and "refused" in refused.stdout and "must not be compared" in refused.stderr, refused


def load_that_leaks_into_one_arm_is_refused():
    with deployment(workers=1, mode="kv") as (gateway, workers), tempfile.TemporaryDirectory() as folder:
        marker = pathlib.Path(folder) / "second"
        arms = f"arms:\n  - {{name: first, mode: kv}}\n  - {{name: second, mode: kv, command: touch {marker}}}\n"
        end = threading.Event()

        def leak():
            """On its way past the gateway, once the second measurement is under way: what begins before it, the proof of idleness sees.
            Under way is what took more than the few tokens by which a sweep asks whether the target answers."""
            taken = lambda: metrics(workers[0])["vllm:prompt_tokens_total"]
            while not marker.exists() and not end.wait(0.01):
                pass
            before = taken()
            while not end.wait(0.01) and taken() < before + 1000:
                pass
            for number in range(80):
                request(workers[0].url + "/v1/chat/completions",
                        {"model": "test-model", "max_tokens": 2, "messages": [{"role": "user", "content": f"{number} leaks " * 300}]})

        other = threading.Thread(target=leak)
        other.start()
        try:
            target = f"  admin: {gateway.admin}\n  block_size: 32\n  settle: 500 ms\n" + workers_of(workers)
            output, _, _ = sweep(folder, gateway.url, target, arms, "{caches: nonce}")
        finally:
            end.set()
            other.join()
        assert "second: other load was on its workers" in output, output


def runs_are_merged_and_measurements_left_out_without_measuring_again():
    with deployment(workers=1, gateway=False) as (_, workers), tempfile.TemporaryDirectory() as folder:
        parts = []
        for seed, arm in ((11, "a"), (11, "b"), (12, "c")):
            place = pathlib.Path(folder) / arm
            place.mkdir()
            path = place / "sweep.yaml"
            text = SWEEP.format(url=workers[0].url, target="  settle: 50 ms\n", arms=f"arms: [{{name: {arm}}}]", comparison="{}", repetitions=1)
            path.write_text(text.replace("seed: 11", f"seed: {seed}"))
            done = subprocess.run([BINARY, "sweep", "-f", path, "--output", place], capture_output=True, text=True, timeout=100)
            assert done.returncode == 0, done.stderr
            parts.append(next(place.glob("target-*")))

        def merge(name, *places):
            out = pathlib.Path(folder) / name
            done = subprocess.run([BINARY, "report", "merge", *places, "--output", out], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            return done.stdout, out

        output, both = merge("both", parts[0], parts[1])
        assert "Not compared" not in output, output
        assert rows(both, "SELECT mode, repetition FROM levels ORDER BY position") == [("a", 0), ("b", 0)]
        report = (both / "report.md").read_text()
        assert "# Combined Benchmark Sweep" in report and "(combined from 2 sweep sessions)" in report, report[:400]
        assert f"- **a at 4:** `{parts[0]}` (" in report and f"- **b at 4:** `{parts[1]}` (" in report, report
        output, others = merge("others", parts[0], parts[2])
        assert "other seeds" in output, output
        left = subprocess.run([BINARY, "report", both / "results.sqlite", "--output", both / "less", "--exclude", "b:4"], capture_output=True, text=True)
        assert left.returncode == 0, left.stderr
        text = (both / "less" / "report.md").read_text()
        assert "Left out by hand: b:4" in text
        assert json.loads((both / "less" / "report.json").read_text())["kvist"]["modes"] == ["a"]
        wrong = subprocess.run([BINARY, "report", both / "results.sqlite", "--exclude", "b:5"], capture_output=True, text=True)
        assert wrong.returncode != 0 and "no such measurement" in wrong.stderr

        files = {kind: pathlib.Path(folder) / f"phases.{kind}" for kind in ("md", "html", "json")}
        compare = lambda *places: subprocess.run(
            [BINARY, "report", "compare", *places, "--runs", "--markdown", files["md"], "--html", files["html"], "--json", files["json"]],
            capture_output=True, text=True, timeout=60)
        done = compare(f"Phase 0={parts[0]}", f"Phase 1={parts[1]}")
        assert done.returncode == 0 and "Phase 1 against Phase 0" in done.stdout, done.stdout + done.stderr
        assert "## Analysis: Phase 1 vs Phase 0" in files["md"].read_text()
        assert "<h1>Phase 1 against Phase 0</h1>" in files["html"].read_text()
        level = json.loads(files["json"].read_text())["changes"][0]["levels"][0]
        assert (level["before_mode"], level["after_mode"], level["concurrency"]) == ("a", "b", 4), level
        ttft = level["figures"]["ttft_p50_ms"]
        ratio = ttft["after"]["value"] / ttft["before"]["value"]
        assert abs(ttft["change_pct"]["value"] - 100 * (ratio - 1)) < 0.01, ttft
        alone = compare(parts[0])
        assert alone.returncode != 0 and "want 2 to 8" in alone.stderr, alone.stderr


def manifests_are_printed_and_nothing_is_done():
    """Of the published experiment: one document for each mode, with the workers of its deployment."""
    root = pathlib.Path(__file__).resolve().parents[2]
    described = root / "examples" / "experiments" / "trtllm-4x2h100-none-vs-kv-plan" / "deployment.yaml"
    dynamo = ("  dynamo:\n    name: llama-70b\n    namespace: llm\n"
              "    graph: {backend: trtllm, image: 'registry/trtllm:1', model_path: /models/llama}\n")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sweep.yaml"
        write = lambda target, arms: path.write_text(f"deployment: {described}\n" + SWEEP.format(
            url="http://127.0.0.1:9", target=target, arms=arms, comparison="{order: as_listed}", repetitions=1))
        dry_run = lambda: subprocess.run([BINARY, "sweep", "-f", path, "--dry-run"], capture_output=True, text=True, timeout=60)
        write(dynamo, "modes: [round_robin, kv]")
        done = dry_run()
        assert done.returncode == 0, done.stderr
        documents = [json.loads(part.split("\n", 1)[1]) for part in done.stdout.split("---\n")]
        assert [document["metadata"] for document in documents] == 2 * [{"name": "llama-70b", "namespace": "llm"}], documents
        container = lambda document, component: document["spec"]["components"][component]["podTemplate"]["spec"]["containers"][0]
        assert [container(document, 0)["env"][0]["value"] for document in documents] == ["round-robin", "kv"], documents
        arguments = container(documents[0], 1)["args"]
        assert documents[0]["spec"]["components"][1]["replicas"] == 4, documents[0]
        assert arguments[arguments.index("--max-num-tokens") + 1] == "16384", arguments
        write("", "arms: [{name: a}]")
        done = dry_run()
        assert done.returncode == 1 and "target.dynamo" in done.stderr, (done.stdout, done.stderr)


run([a_deployment_that_runs_is_switched_by_its_gateway, two_endpoints_are_two_arms_and_what_they_do_not_tell_is_unknown,
     an_arm_is_made_by_its_command, a_command_that_fails_ends_the_sweep_and_says_so, a_warm_cache_in_one_arm_is_refused,
     load_that_leaks_into_one_arm_is_refused, runs_are_merged_and_measurements_left_out_without_measuring_again,
     manifests_are_printed_and_nothing_is_done])
