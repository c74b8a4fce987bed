"""kvist's router and others before the same three timed workers, one after the other with fresh workers each, in the order ABBA."""
import itertools
import os
import pathlib
import statistics
import sys
import tempfile

import peer
import deployment
import fronts
import kvist_loadgen
from timed_fleet import BLOCK_SIZE, MODEL, STEP_TIME, requests_per_worker, timed_fleet

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import mixed_trace  # noqa: E402
import routing_live  # noqa: E402

PEERS = ["vllm-router", "smg"]
SECONDS = float(os.environ.get("KVIST_ROUTERS_SECONDS", "5.5"))
CLEAR = 1.1  # a difference that virtual time tells
WARMUP = 0.3  # this share of a run, with cold caches; long enough for every starter to have been computed

report = peer.Report("routers", "Routers before the same workers", 40, PEERS)

# Title, peer that it needs, how it is started, what virtual time has for it.
ROUTERS = [
    ("kvist kv", None, lambda *where: fronts.Kvist("kvist kv", *where, mode="kv"), "kv"),
    ("kvist dynamo", None, lambda *where: fronts.Kvist("kvist dynamo", *where, mode="dynamo"), "dynamo"),
    ("kvist round_robin", None, lambda *where: fronts.Kvist("kvist round_robin", *where, mode="round_robin"), "round_robin"),
    ("vllm-router kv_aware", "vllm-router", lambda *where: fronts.VllmRouter("vllm-router kv_aware", *where, policy="kv_aware"), "vllm_kv_aware"),
    ("vllm-router cache_aware", "vllm-router", lambda *where: fronts.VllmRouter("vllm-router cache_aware", *where, policy="cache_aware"), "smg"),
    ("smg cache_aware", "smg", lambda *where: fronts.Smg("smg cache_aware", *where, policy="cache_aware"), "smg"),
]
SIMULATED = """name: routers
deployment:
  name: routers
  gateway: {{mode: round_robin, block_size: {block_size}, max_in_flight: 4096}}
  workers:
    count: 3
    block_size: {block_size}
{settings}
workload: {{{workload}}}
method: {{warmup: {warmup:.3f} s, snapshots: 1, snapshot_interval: {window:.3f} s, window: {window:.3f} s, drain_timeout: 60 s, repetitions: {repetitions}}}
modes: [{modes}]
levels: [{levels}]
output_directory: out
"""

# Name, workers, workload, loads (conversations at once), seconds of a run. Turns of short answers from unscaled workers are 25 a second with
# 30 conversations, so that in a shorter run a p99 is one request.
WORKLOADS = [
    ("multi-turn chat: 10 starters of 3,500 to 4,000 tokens, 3 to 5 turns, answers of about 400 tokens",
     {"kv_blocks": 11_500, "max_batch_size": 64, "max_num_tokens": 2_048, "time_scale": 10, "step_time": STEP_TIME,
      "output_length": {"mean_tokens": 400, "standard_deviation_tokens": 50}},
     {"seed": 7, "turns_min": 3, "turns_max": 5, "starters": 10, "starter_tokens_min": 3_500, "starter_tokens_max": 4_000, "max_tokens": 512,
      "target_rps": 100}, [24, 48], SECONDS),
    ("short answers and few hot prefixes: 10 starters of 3,000 tokens, one turn, answers of 100 tokens",
     {"kv_blocks": 11_500, "max_batch_size": 64, "max_num_tokens": 2_048, "time_scale": 1,
      "step_time": {"fixed": "10.5 ms", "per_prefill_token": "47 us", "per_sequence": "35 us", "per_kv_token": "20 ns"}},
     {"seed": 7, "turns_min": 1, "turns_max": 1, "starters": 10, "starter_tokens_min": 3_000, "starter_tokens_max": 3_000, "max_tokens": 100,
      "ignore_eos": "true", "target_rps": 1_000}, [30, 60], 2.4 * SECONDS),
    (f"prompts of {mixed_trace.SHORTEST} to {mixed_trace.LONGEST:,} tokens: a trace in open arrivals, five a second, a third of them behind one of "
     "six documents; workers with an 8B model on an H200",
     {"max_batch_size": 64, "max_num_tokens": 8_192, "max_model_len": 66_000,
      "profile": {"gpu": "h200", "model": "llama-3.1-8b-fp8", "engine": "vllm", "tensor_parallel": 1, "memory_fraction": 0.9}},
     {"trace": None, "request_timeout": "120 s"}, [None], 30.0),
]
TRACE_RATE, TRACE_WARMUP = 5, 0.1


def warmup_s(workload, seconds):
    return (TRACE_WARMUP if "trace" in workload else WARMUP) * seconds


def measure(make, settings, workload, load, seconds):
    """One router before fresh workers: (client's summary, requests per worker, its processor seconds, late client or not)."""
    with timed_fleet(3, **settings) as (folder, workers):
        if "trace" in workload:
            mixed_trace.write(folder / "mixed.jsonl", seconds, TRACE_RATE)
            workload = {**workload, "trace": "{file: mixed.jsonl}"}
        front = make(folder, workers, MODEL, BLOCK_SIZE).start()
        try:
            before, cpu = requests_per_worker(workers), front.cpu_seconds()
            said = kvist_loadgen.run(folder, front.url, workload, load or 1, seconds, MODEL, warmup_s=warmup_s(workload, seconds))
            used = front.cpu_seconds() - cpu
            return said, [after - first for after, first in zip(requests_per_worker(workers), before, strict=True)], used
        finally:
            front.stop()


def load_name(load):
    """A trace says itself when its requests come."""
    return "by trace" if load is None else load


def row(title, load, runs):
    """The mean of the two runs of a pair; requests per worker of both together, the busiest first."""
    mean = lambda value: statistics.mean(value(said) for said, _, _ in runs)
    requests = sum(sum(counts) for _, counts, _ in runs)
    shares = [sum(counts) for counts in zip(*(sorted(counts, reverse=True) for _, counts, _ in runs), strict=True)]
    late = [said.verdict for said, _, _ in runs if said.verdict and not said.verdict.startswith("valid")]
    return [load_name(load), title, f"{mean(lambda s: s.ttft['p50']):.1f} ms", f"{mean(lambda s: s.ttft['p95']):.1f} ms", f"{mean(lambda s: s.ttft['p99']):.1f} ms",
            f"{mean(lambda s: s.tpot['p50']):.2f} ms", f"{mean(lambda s: s.tokens_per_s):,.0f}", f"{mean(lambda s: s.hit_rate_pct):.1f} %",
            " / ".join(map(str, shares)), f"{1e3 * sum(used for _, _, used in runs) / max(1, requests):.2f} ms", "late" if late else "kept up"]


def flow(value):
    return "{" + ", ".join(f"{key}: {inner}" for key, inner in value.items()) + "}" if isinstance(value, dict) else value


def in_virtual_time(settings, workload, loads, seconds):
    """(load, mode) -> figures of the same runs by `kvist simulate`; of five seeds where the workload has some."""
    warmup = warmup_s(workload, seconds)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if "trace" in workload:
            mixed_trace.write(folder / "mixed.jsonl", seconds, TRACE_RATE)
            workload = {**workload, "trace": "{file: mixed.jsonl}"}
        sweep = folder / "routers.yaml"
        sweep.write_text(SIMULATED.format(
            block_size=BLOCK_SIZE, settings="\n".join(f"    {key}: {flow(value)}" for key, value in settings.items()),
            workload=", ".join(f"{key}: {value}" for key, value in workload.items()), warmup=warmup, window=seconds - warmup,
            repetitions=1 if "trace" in workload else 5, modes=", ".join(dict.fromkeys(mode for *_, mode in ROUTERS)),
            levels=", ".join(str(load or 1) for load in loads)))
        try:
            return routing_live.measure(deployment.BINARY, "simulate", sweep, folder)
        except SystemExit as end:
            raise RuntimeError(f"in virtual time: {end}") from end


def live_figures(runs):
    mean = lambda value: statistics.mean(value(said) for said, _, _ in runs)
    return {"ttft_p50": mean(lambda s: s.ttft["p50"]), "ttft_p95": mean(lambda s: s.ttft["p95"]), "ttft_p99": mean(lambda s: s.ttft["p99"]),
            "tpot_p50": mean(lambda s: s.tpot["p50"]), "tokens_per_s": mean(lambda s: s.tokens_per_s)}


def ratio_rows(load, live, virtual):
    """Each figure as a multiple of kv's, live and in virtual time. `live`: title -> figures."""
    rows = []
    for title, _, _, mode in ROUTERS:
        if title not in live or mode == "kv" or "kvist kv" not in live:
            continue
        cells = [f"{live[title][key] / live['kvist kv'][key]:.2f} / {virtual[load or 1, mode][key] / virtual[load or 1, 'kv'][key]:.2f}"
                 for key, *_ in routing_live.FIGURES]
        rows.append([load_name(load), title, f"`{mode}`", *cells])
    return rows


def orders(load, live, virtual):
    """How many pairs of routers virtual time tells apart by a tenth, and those that come out the other way round live."""
    told, differing = 0, []
    there = [(title, mode) for title, _, _, mode in ROUTERS if title in live]
    for (key, name, _, _), ((a, mode_a), (b, mode_b)) in itertools.product(routing_live.FIGURES, itertools.combinations(there, 2)):
        expected = virtual[load or 1, mode_a][key] / virtual[load or 1, mode_b][key]
        if max(expected, 1 / expected) < CLEAR:
            continue
        told += 1
        seen = live[a][key] / live[b][key]
        if (seen - 1) * (expected - 1) < 0:
            differing.append(f"{load_name(load)}, {name}: {a} / {b} {seen:.2f} live, {expected:.2f} in virtual time")
    return told, differing


def workload_part(name, settings, workload, loads, seconds):
    def part():
        there = [(title, make) for title, needed, make, _ in ROUTERS if needed is None or peer.why_missing(needed) is None]
        virtual = in_virtual_time(settings, workload, loads, seconds)
        rows, ratios, told, differing = [], [], 0, []
        for load in loads:
            driven = f"{load} conversations" if load else "a trace"
            runs = {title: [] for title, _ in there}
            for title, make in [*there, *reversed(there)]:
                try:
                    runs[title].append(measure(make, settings, workload, load, seconds))
                except Exception as error:
                    report.check(f"{title} serves {driven}: {name.split(':')[0]}", False, f"{type(error).__name__}: {error}"[:400])
            for title, _ in there:
                failed = [said.error or f"{said.failed} failed" for said, _, _ in runs[title] if said.failed or not said.succeeded]
                lost = [said.succeeded - sum(counts) for said, counts, _ in runs[title] if said.succeeded > sum(counts)]
                report.check(f"{title}, {driven}, {name.split(':')[0]}: every turn answered, and by a worker",
                             len(runs[title]) == 2 and not failed and not lost,
                             failed[0] if failed else f"{sum(said.succeeded for said, _, _ in runs[title])} turns")
                if runs[title]:
                    rows.append(row(title, load, runs[title]))
            live = {title: live_figures(of) for title, of in runs.items() if of}
            ratios += ratio_rows(load, live, virtual)
            more, others = orders(load, live, virtual)
            told, differing = told + more, differing + others
        report.table(name, ["conversations", "router", "TTFT p50", "TTFT p95", "TTFT p99", "TPOT p50", "tokens/s", "hit rate", "requests per worker",
                            "processor time a request", "client"], rows,
                     f"Means of two runs of {seconds:g} s, without the turns of the first {warmup_s(workload, seconds):.1f} s; requests per worker of both runs whole, the busiest first.")
        report.table(f"{name.split(':')[0]}, beside virtual time", ["conversations", "router", "simulated as", *(name for _, name, _, _ in routing_live.FIGURES)],
                     ratios, f"Multiples of kvist kv's, live / in virtual time. Of {told} pairs of routers and figures that virtual time sees a tenth apart, "
                     f"{told - len(differing)} have the same order live" + ("." if not differing else "; not so " + "; ".join(differing) + "."))
    part.__doc__ = name
    return part


for needed in PEERS:
    report.has(needed)
report.note("Three timed kvist workers, started anew for each run, the beginning of which warms the caches; "
            "routers in order, then in reverse order. What is driven is the same for all: texts, lengths and seeds follow from one seed. The "
            "client is kvist loadgen; its last column says whether it kept up.")
report.run(*(workload_part(*workload) for workload in WORKLOADS))
