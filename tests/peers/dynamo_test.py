"""NVIDIA Dynamo: its simulated engines behind kvist's gateway, its index on kvist's events, both frontends under one load, its replay of
traces beside kvist's simulator. In a network of its own, as Dynamo binds every address."""
import concurrent.futures
import contextlib
import glob
import itertools
import json
import math
import pathlib
import random
import sqlite3
import statistics
import subprocess
import tempfile
import time

import own_network
import peer
import deployment
import dynamo_peer
import fronts
import kvist_loadgen
from dynamo_peer import BLOCK_SIZE, KV_BLOCKS, MODEL, SLOTS, STEP_TIME, STEP_TOKENS
from paced_server import percentile
from timed_fleet import timed_fleet

PEERS = ["dynamo"]
report = peer.Report("dynamo", "NVIDIA Dynamo", 30, PEERS)
report.require("dynamo")
if not own_network.enter():
    report.skip("dynamo", "this machine allows no network namespace, and Dynamo binds every address")
    report.write()
    raise SystemExit(peer.SKIPPED)

WORKER = {"kv_blocks": KV_BLOCKS, "max_batch_size": SLOTS, "max_num_tokens": STEP_TOKENS, "step_time": STEP_TIME}


def words(seed, count):
    draw = random.Random(seed)
    return " ".join(draw.choice(["river", "lantern", "copper", "meadow", "quiet", "signal", "harbour", "winter"]) for _ in range(count))


def conversation(url, number, turns):
    """The turns of one chat, one after the other: [(predicted, cached) tokens of each]."""
    messages, seen = [{"role": "system", "content": words(number % 3, 200)}], []
    for turn in range(turns):
        messages.append({"role": "user", "content": words(100 * number + turn, 60)})
        status, headers, answer = dynamo_peer.chat(url, messages, 16)
        assert status == 200, (status, answer)
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        seen.append((int(headers["x-kvist-predicted-cached-tokens"]), cached))
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        time.sleep(0.3)  # its events come with the step after the one that ended the answer
    return seen


def mockers_behind_kvist():
    """Dynamo's mockers behind kvist's gateway"""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = pathlib.Path(folder)
        model = dynamo_peer.padded_model(folder / "model")
        lines = ["gateway:", f"  model: {MODEL}", "  mode: kv", f"  block_size: {BLOCK_SIZE}", f"  tokenizer: {model}", "  workers:"]
        frontends = []
        for i in range(2):
            place = folder / f"dynamo-{i}"
            place.mkdir()
            events, replay = peer.free_port(), peer.free_port()
            stack.callback(dynamo_peer.mocker(place, model, 1, events, replay).stop)
            frontends.append(dynamo_peer.Frontend(place))
            stack.callback(frontends[-1].stop)
            lines += [f"    - name: dynamo-{i}", f"      url: {frontends[-1].url}", f"      kv_events: tcp://127.0.0.1:{events}",
                      f"      kv_replay: tcp://127.0.0.1:{replay}"]
        for frontend in frontends:
            frontend.await_ready()
        gateway = deployment.Process(folder, "gateway", "gateway", "\n".join(lines) + "\n")
        stack.callback(gateway.stop)
        status = lambda: deployment.get_json(gateway.admin + "/admin/status")
        deployment.eventually(lambda: all(worker["healthy"] for worker in status()["workers"]), "mockers healthy", 60)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            seen = [turn for turns in pool.map(lambda number: conversation(gateway.url, number, 4), range(8)) for turn in turns]
        right = sum(predicted == cached for predicted, cached in seen)
        report.check("two mockers behind kvist kv: 32 turns answered, some cached", len(seen) == 32 and any(cached for _, cached in seen),
                     f"{sum(cached for _, cached in seen)} tokens cached")
        report.check("predicted cached tokens equal to what Dynamo's engines report in at least 95 % of the turns", right >= 0.95 * len(seen),
                     f"{right} of {len(seen)}; others: {[turn for turn in seen if turn[0] != turn[1]][:4]}")
        blocks = deployment.metrics(gateway)["kvist_gateway_kv_index_blocks"]
        report.check("their events are indexed", blocks > 0, f"{blocks:,.0f} blocks held by the gateway's index")


def prompts(seed, count):
    """Token lists of 4 to 40 blocks; every third continues an earlier one."""
    draw, made = random.Random(seed), []
    for _ in range(count):
        begin = draw.choice(made) if made and draw.random() < 0.33 else []
        made.append(begin[:1_000] + [draw.randrange(1, 255) for _ in range(draw.randrange(4 * BLOCK_SIZE, 40 * BLOCK_SIZE))])
    return made


def indexer_on_kvist_events():
    """Dynamo's indexer on the events of kvist's workers"""
    with timed_fleet(2, **{**WORKER, "kv_blocks": 600, "time_scale": 500, "max_model_len": 8192}) as (folder, workers), \
            contextlib.ExitStack() as stack:
        process, url = dynamo_peer.indexer(folder, [f"tcp://127.0.0.1:{worker.ports['kv_events']}" for worker in workers])
        stack.callback(process.stop)
        time.sleep(1)  # a subscription is not acknowledged: events published before it takes effect are missed

        def ask(worker, tokens):
            status, _, text = deployment.request(worker.url + "/v1/completions", {"model": MODEL, "prompt": tokens, "max_tokens": 4})
            assert status == 200, text
            return json.loads(text)["usage"]["prompt_tokens_details"]["cached_tokens"]

        asked = prompts(1, 120)
        for i, tokens in enumerate(asked):
            ask(workers[i % 2], tokens)
        names = lambda worker: {int(name) for name, _ in deployment.get_json(worker.admin + "/debug/kv_blocks")["blocks"]}
        indexed = lambda number: {block["block_hash"] for model in deployment.get_json(url + "/dump").values() for event in model["events"]
                                  if event["worker_id"] == number for block in event["event"]["data"].get("stored", {}).get("blocks", [])}
        with contextlib.suppress(AssertionError):
            deployment.eventually(lambda: all(indexed(i + 1) == names(worker) for i, worker in enumerate(workers)), "equal indexes", 20)
        evictions = [deployment.get_json(worker.admin + "/debug/kv_blocks")["evictions"] for worker in workers]
        sizes = [(len(indexed(i + 1)), len(names(worker))) for i, worker in enumerate(workers)]
        report.check("Dynamo's index holds the blocks of kvist's workers, evictions and all",
                     all(indexed(i + 1) == names(worker) for i, worker in enumerate(workers)) and min(evictions) > 0,
                     f"(indexed, in the pool): {sizes} after {evictions} evictions")
        wrong = []
        for tokens in asked[-30:]:
            _, _, text = deployment.request(url + "/query", {"model_name": MODEL, "token_ids": tokens})
            found = json.loads(text)["instances"].get("1", {}).get("longest_matched", 0)
            # The last token of a prompt is always computed.
            expected = min(found, (len(tokens) - 1) // BLOCK_SIZE * BLOCK_SIZE)
            cached = ask(workers[0], tokens)
            if cached != expected:
                wrong.append((found, cached))
            time.sleep(0.05)
        report.check("what its /query finds is what the worker then takes from its cache", not wrong, f"{30 - len(wrong)} of 30 {wrong[:3]}")


def load(folder, url, process_id_or_peer):
    """32 streams for 6 s: (summary, processor seconds, resident bytes)."""
    workload = {"seed": 3, "turns_min": 2, "turns_max": 3, "starters": 4, "starter_tokens_min": 1_500, "starter_tokens_max": 1_500,
                "max_tokens": 100, "ignore_eos": "true", "target_rps": 1_000}
    cpu = process_id_or_peer.cpu_seconds()
    said = kvist_loadgen.run(folder, url, workload, 32, 6, MODEL)
    return said, process_id_or_peer.cpu_seconds() - cpu, process_id_or_peer.memory_bytes()


def frontends():
    """Both frontends under the same load"""
    rows = []

    def add(title, started, said, cpu, memory):
        report.check(f"{title}: every turn of the load answered", said.failed == 0 and said.succeeded > 0,
                     f"{said.succeeded} turns {said.error}".strip())
        rows.append([title, f"{started:.1f} s", f"{said.ttft['p50']:.0f} ms", f"{said.tpot['p50']:.1f} ms", f"{said.tokens_per_s:,.0f}",
                     f"{said.hit_rate_pct:.1f} %", f"{1e3 * cpu / max(1, said.succeeded):.2f} ms",
                     f"{1e6 * cpu / max(1, 100 * said.succeeded):.0f} us", f"{memory / 2**20:,.0f} MiB"])

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = pathlib.Path(folder)
        model = dynamo_peer.padded_model(folder / "model")
        mocker = dynamo_peer.mocker(folder, model, 3, step_table=dynamo_peer.write_step_table(folder / "steps.npz"))
        stack.callback(mocker.stop)
        mocker.await_ready(lambda: any(path.is_file() for path in (folder / "discovery").rglob("*")), 60)
        time.sleep(3)  # all three have announced themselves
        begun = time.monotonic()
        frontend = dynamo_peer.Frontend(folder, "kv").await_ready()
        started = time.monotonic() - begun
        stack.callback(frontend.stop)
        add("Dynamo's frontend, kv, three mockers", started, *load(folder, frontend.url, frontend.process))
    with tempfile.TemporaryDirectory() as models, \
            timed_fleet(3, **WORKER, tokenizer=dynamo_peer.padded_model(pathlib.Path(models) / "model")) as (folder, workers):
        begun = time.monotonic()
        gateway = fronts.Kvist("kvist kv", folder, workers, MODEL, BLOCK_SIZE, tokenizer=pathlib.Path(models) / "model").start()
        started = time.monotonic() - begun
        try:
            add("kvist's gateway, kv, three timed workers", started, *load(folder, gateway.url, gateway))
        finally:
            gateway.stop()
    report.table("32 conversations of 2 or 3 turns at once, prompts of 1,500 characters and more, answers of 100 tokens",
                 ["frontend", "first answer after", "TTFT p50", "TPOT p50", "tokens/s", "hit rate", "processor time a request", "a chunk",
                  "memory"],
                 rows, "The engines behind have the same step times, both frontends read prompts with the same tokenizer. Dynamo's mockers answer with "
                 "random tokens. First answer: from the frontend's start, its engines being up.")


def fleet():
    """Three of Dynamo's mockers, as a deployment's workers."""
    step = ", ".join(f"{name}: {value}" for name, value in STEP_TIME.items())
    return f"""  workers:
    count: 3
    block_size: {BLOCK_SIZE}
    kv_blocks: {KV_BLOCKS}
    max_batch_size: {SLOTS}
    max_num_tokens: {STEP_TOKENS}
    max_model_len: 32768
    step_time: {{{step}}}
"""


WHAT_IF = {"seed": 3, "turns_min": 2, "turns_max": 5, "starters": 4, "starter_tokens_min": 1_500, "starter_tokens_max": 1_500,
           "max_tokens": 100, "ignore_eos": "true", "target_rps": 1_000}


def recorded(folder, mode):
    """(the trace that Dynamo writes of 36 streams over 45 s to three mockers, the client's summary)"""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        model = dynamo_peer.padded_model(folder / "model")
        mocker = dynamo_peer.mocker(folder, model, 3, step_table=dynamo_peer.write_step_table(folder / "steps.npz"))
        stack.callback(mocker.stop)
        mocker.await_ready(lambda: any(path.is_file() for path in (folder / "discovery").rglob("*")), 60)
        time.sleep(3)
        frontend = dynamo_peer.Frontend(folder, mode, folder / "trace.jsonl.gz").await_ready()
        stack.callback(frontend.stop)
        said = kvist_loadgen.run(folder, frontend.url, WHAT_IF, 36, 45, MODEL)
        time.sleep(3)  # its rows are written every second
    return sorted(folder.glob("trace.*.jsonl.gz"))[0], said


def what_if():
    """What Dynamo wrote of its requests, read by kvist what-if: what happened under round-robin, and what under its kv"""
    rows, answers = [], {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "fleet.yaml").write_text("deployment:\n" + fleet())
        runs = {mode: recorded(folder / mode, mode) for mode in ("round-robin", "kv")}
        names = {"round-robin": "round_robin", "kv": "dynamo"}
        other_of = {"round-robin": "kv", "kv": "round-robin"}
        for mode, (trace, said) in runs.items():
            other = other_of[mode]
            done = subprocess.run([deployment.BINARY, "what-if", trace, "-f", folder / "fleet.yaml", "--recorded-mode", names[mode], "--mode",
                                   names[other], "--json", folder / f"{mode}.json"], capture_output=True, text=True)
            report.check(f"what Dynamo wrote of its {mode}, simulated: within the limits of what-if", done.returncode == 0,
                         (done.stderr or done.stdout)[-400:] if done.returncode else "")
            if done.returncode:
                continue
            answers[mode] = json.loads((folder / f"{mode}.json").read_text())
            report.check("every turn of the client and the one that found the frontend ready are in it",
                         answers[mode]["requests"] == said.succeeded + 1 and said.failed == 0,
                         f"{answers[mode]['requests']} requests, {said.succeeded} turns {said.error}".strip())
        for mode, answer in answers.items():
            other = other_of[mode]
            if other not in answers:
                continue
            predicted = next(each for each in answer["predictions"] if each["mode"] == names[other])
            measured = answers[other]["observed"]
            for figure in ("ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "latency_p50_ms"):
                rows.append([f"{mode} -> {other}", figure.removesuffix("_ms").replace("_", " "), f"{answer['observed'][figure]:.1f} ms",
                             f"{100 * (answer['fitted'][figure] / answer['observed'][figure] - 1):+.1f} %",
                             f"{predicted['figures'][figure]:.1f} ms", f"{measured[figure]:.1f} ms",
                             f"{100 * (predicted['figures'][figure] / measured[figure] - 1):+.1f} %"])
    report.table("Dynamo's request traces in kvist what-if: 36 conversations at once over 45 s at three mockers under one routing mode of Dynamo's, "
                 "what the other mode would do, and what it did", ["from -> to", "figure", "observed", "simulated", "predicted", "measured", "off"], rows,
                 "Times are Dynamo's own, of two runs. Simulated: with fitted times, on half of the run that the fit has not seen.")


SEEDS, STUDENT = 10, 2.262  # traces of each kind; the 97.5 % quantile of Student's t with one degree of freedom less
TRACES = [
    ("chat: 10 starters of 3,500 to 4,000 tokens, 3 to 5 turns",
     {"seed": 11, "turns_min": 3, "turns_max": 5, "starters": 10, "starter_tokens_min": 3_500, "starter_tokens_max": 4_000, "max_tokens": 512,
      "target_rps": 1.2}, 1_000, [1.0, 3.0, 4.5]),
    ("long prompts: 60 starters of 6,000 to 14,000 tokens, 1 to 4 turns",
     {"seed": 12, "turns_min": 1, "turns_max": 4, "starters": 60, "starter_tokens_min": 6_000, "starter_tokens_max": 14_000,
      "follow_up_tokens_min": 50, "follow_up_tokens_max": 800, "max_tokens": 400, "target_rps": 1.0}, 600, [1.0, 2.0]),
]


def simulated(folder, trace, speed, mode, seed):
    """kvist's simulator on a trace: per turn [TTFT in ms, prompt tokens, cached tokens]. The seed breaks ties between workers."""
    (folder / "sweep.yaml").write_text(f"""name: replay
deployment:
  name: three
  gateway: {{seed: {seed}}}
{fleet()}workload:
  request_timeout: 900 s
  trace: {{file: {trace}, loop: open, speed: {speed}, tokens_per_hash: 512}}
method: {{warmup: 0 s, snapshots: 1, snapshot_interval: 1000 s, window: 1000 s, drain_timeout: 900 s}}
simulation: {{client_hop: 0 us, gateway_time: 0 us, worker_hop: 0 us, kv_event_delay: 0 us, timeline_period: 0 s, keep_token_gaps: false}}
modes: [{mode}]
levels: [1]
output_directory: {folder}/out
""")
    done = subprocess.run([deployment.BINARY, "simulate", "-f", folder / "sweep.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    path = max(glob.glob(f"{folder}/out/*/results.sqlite"), key=lambda name: pathlib.Path(name).stat().st_mtime_ns)
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT (first_token_ns - sent_ns) / 1e6, prompt_tokens, cached_tokens FROM turns "
                                "WHERE outcome = 'succeeded'").fetchall()


def replayed(folder, trace, speed, router_mode, table):
    job = {"trace": str(trace), "speed": speed, "router_mode": router_mode, "workers": 3, "kv_blocks": KV_BLOCKS, "block_size": BLOCK_SIZE,
           "slots": SLOTS, "step_tokens": STEP_TOKENS, "step_table": str(table), "report": f"{folder}/replay.jsonl",
           "output": f"{folder}/replay.json"}
    (folder / "job.json").write_text(json.dumps(job))
    subprocess.run([peer.program("dynamo"), pathlib.Path(__file__).with_name("dynamo_replay.py"), folder / "job.json"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=200)
    return json.loads((folder / "replay.json").read_text())


def compare(ours, theirs):
    """Cells of a row: medians of the traces' percentiles, and by how much ours are longer: the geometric mean over the traces with its 95 %
    interval by Student's t. Which worker a conversation begins at decides all that follows, so that single traces differ by far more."""
    cells = []
    for share in (50, 95, 99):
        mine, others = ([percentile([ttft for ttft, _, _ in run], share) for run in runs] for runs in (ours, theirs))
        logarithms = [math.log(one / other) for one, other in zip(mine, others, strict=True)]
        mean, half = statistics.mean(logarithms), STUDENT * statistics.stdev(logarithms) / math.sqrt(len(logarithms))
        percent = lambda logarithm: f"{100 * math.expm1(logarithm):+.1f}"
        cells.append(f"{statistics.median(mine):,.0f} / {statistics.median(others):,.0f} ms ({percent(mean)} %; {percent(mean - half)} to "
                     f"{percent(mean + half)})")
    rate = lambda runs: 100 * sum(cached for run in runs for _, _, cached in run) / sum(prompt for run in runs for _, prompt, _ in run)
    return [*cells, f"{rate(ours):.1f} / {rate(theirs):.1f} %"]


def generated(folder, workload, conversations):
    trace = folder / "trace.jsonl"
    (folder / "workload.yaml").write_text(kvist_loadgen.workload_yaml(workload))
    subprocess.run([deployment.BINARY, "trace", "generate", "-f", folder / "workload.yaml", "--conversations", str(conversations), "-o", trace],
                   check=True, capture_output=True)
    return trace


def replay():
    """Dynamo's replay beside kvist's simulator"""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        table = dynamo_peer.write_step_table(folder / "steps.npz")
        for name, workload, conversations, speeds in TRACES:
            title, runs, requests = name.split(":")[0], {}, []
            for number in range(SEEDS):
                trace = generated(folder, {**workload, "seed": workload["seed"] + number}, conversations)
                requests.append(len(trace.read_text().splitlines()))
                for speed, (mode, router_mode) in itertools.product(speeds, (("dynamo", "kv_router"), ("round_robin", "round_robin"))):
                    ours, theirs = runs.setdefault((speed, mode), ([], []))
                    ours.append(simulated(folder, trace, speed, mode, number))
                    theirs.append(replayed(folder, trace, speed, router_mode, table))
            for (speed, mode), (ours, theirs) in runs.items():
                counts = [len(run) for run in ours], [len(run) for run in theirs]
                report.check(f"{title}, speed {speed:g}, {mode}: both replay every request of {SEEDS} traces", counts == (requests, requests),
                             f"{sum(counts[0]):,} and {sum(counts[1]):,} of {sum(requests):,}")
                rows.append([title, f"{speed:g}", mode, *compare(ours, theirs)])
    report.table(f"{SEEDS} traces each in virtual time: kvist simulate / Dynamo's replay (kvist's are longer by; 95 % interval)",
                 ["trace", "speed", "router", "TTFT p50", "TTFT p95", "TTFT p99", "hit rate"], rows,
                 "Three workers of equal step times (10 ms, 94 us a prompt token, 40 ns a context token), 64 slots, 2,048 tokens a step, no delays of "
                 "a network. Medians over the traces; the deviation is the geometric mean of the traces' ratios. Ties between workers are broken by "
                 "chance, and which worker a conversation begins at decides all that follows: on one trace p99 may differ by a quarter. Dynamo's steps "
                 "without a decode lack the 10 ms. Traces are `kvist trace generate`'s, in Mooncake's format: " + "; ".join(name for name, *_ in TRACES) + ".")


report.run(mockers_behind_kvist, indexer_on_kvist_events, frontends, what_if, replay)
