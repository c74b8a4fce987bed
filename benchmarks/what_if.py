#!/usr/bin/env python3
"""What-if against what then was: traffic recorded under one routing mode; other modes and fleets predicted from it, and run.

Three timed workers behind a gateway answer conversations that start at random instants (the same ones for every mode) while the gateway
records them under round_robin. `kvist what-if` predicts from the record what kv would have made of them, on three workers and on two; once
more from a deployment file whose step times are wrong, which the fit has to find out. Then the same conversations are sent to these
fleets, and the predictions are held against what their gateways recorded. Bars: medians within 5 %, 95th percentiles within 12 %. Exit
status 1 where one is missed.

usage: what_if.py KVIST [--seconds S] [--starts PER_MINUTE] [--write MARKDOWN]
  --write   replace the table between the markers of this Markdown file
"""
import argparse
import contextlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from deviation_table import markdown, quantile, write_between_markers

MEDIAN_BAR, TAIL_BAR = 5.0, 12.0
MOST_LOOP_DELAY_MS = 7.0  # the shortest step
MOST_TRIES = 5
WARMUP = 0.1  # of the recorded time, as kvist what-if leaves it out

DEPLOYMENT = """deployment:
  gateway: {{mode: {mode}, record: {record}}}
  workers:
    count: {workers}
    block_size: 32
    kv_blocks: 6000
    max_batch_size: 64
    max_num_tokens: 2048
    time_scale: 3
    step_time: {{fixed: {fixed}, per_prefill_token: {per_prefill_token}}}
    output_length: {{mean_tokens: 60, standard_deviation_tokens: 12}}
"""
TRUE_TIMES = {"fixed": "21 ms", "per_prefill_token": "94 us"}
WRONG_TIMES = {"fixed": "17 ms", "per_prefill_token": "110 us"}
WORKLOAD = """workload:
  seed: 20261123
  turns_min: 3
  turns_max: 5
  starters: 8
  starter_tokens_min: 800
  starter_tokens_max: 1600
  follow_up_tokens_min: 20
  follow_up_tokens_max: 400
  max_tokens: 100
  arrivals: poisson
"""
METRICS = [("TTFT p50", "ttft_p50_ms", "ttft_ms", 0.50), ("TTFT p95", "ttft_p95_ms", "ttft_ms", 0.95),
           ("TPOT p50", "tpot_p50_ms", "tpot_ms", 0.50), ("TPOT p95", "tpot_p95_ms", "tpot_ms", 0.95),
           ("latency p50", "latency_p50_ms", "latency_ms", 0.50), ("latency p95", "latency_p95_ms", "latency_ms", 0.95)]


def kvist(binary, *arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"kvist {arguments[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def running(binary, deployment):
    """The gateway's URL while a deployment runs."""
    up = subprocess.Popen([binary, "up", "-f", deployment], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = None
        while url is None:
            line = up.stdout.readline()
            if not line:
                sys.exit("kvist up ended before its gateway was there")
            match = re.search(r"gateway\s+(http://\S+)", line)
            url = match.group(1) if match else None
        yield url
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate()


def record(binary, folder, mode, workers, arguments):
    """Drives the load under a mode: (deployment file, record). A run in which the load generator's own loop was later than a step takes
    measured the machine's other work, not the deployment: it is made again, four times at most."""
    for _ in range(MOST_TRIES):
        deployment, traffic, late_ms = record_once(binary, folder, mode, workers, arguments)
        if late_ms <= MOST_LOOP_DELAY_MS:
            return deployment, traffic
        print(f"{mode}, {workers} workers: the load generator was {late_ms} ms late at p99, so this run does not count\n", flush=True)
    sys.exit("the machine is too busy for a comparison: the load generator was late in every run")


def record_once(binary, folder, mode, workers, arguments):
    deployment, traffic = folder / f"{mode}-{workers}.yaml", folder / f"{mode}-{workers}.jsonl"
    deployment.write_text(DEPLOYMENT.format(mode=mode, record=traffic, workers=workers, **TRUE_TIMES))
    workload = folder / "workload.yaml"
    workload.write_text(WORKLOAD)
    # A folder of its own per attempt: only a whole summary of this run counts.
    output = pathlib.Path(tempfile.mkdtemp(prefix=f"{mode}-{workers}-", dir=folder))
    with running(binary, deployment) as url:
        said = kvist(binary, "loadgen", "--target", url, "--model", "kvist-timed", "-f", workload, "--concurrency", arguments.starts,
                     "--duration", f"{arguments.seconds}s", "--output", output)
    print(f"{mode}, {workers} workers\n{said}", flush=True)
    return deployment, traffic, loop_delay_p99_ms(output)


def loop_delay_p99_ms(output):
    """How late the load generator's own loop was, from the summary that it wrote to the folder. What it prints says so only where it has
    no bounds of its own share in the figures."""
    return json.loads((output / "summary.json").read_text())["client"]["loop_delay_p99_ms"]


def measured(traffic):
    """The figures of a record, over the requests that what-if compares."""
    rows = [json.loads(line) for line in traffic.read_text().splitlines()[1:]]
    first, last = min(row["timestamp"] for row in rows), max(row["timestamp"] for row in rows)
    rows = [row for row in rows if row["outcome"] == "completed" and row["timestamp"] >= first + WARMUP * (last - first)]
    figures = {key: quantile([row[field] for row in rows if field in row], q) for _, key, field, q in METRICS}
    figures["kv_hit_rate_pct"] = 100 * sum(row["cached_tokens"] for row in rows) / sum(row["input_length"] for row in rows)
    return figures, len(rows)


def predict(binary, folder, traffic, deployment):
    """The answer to "kv, on these workers and on two", as JSON."""
    answer = folder / "answer.json"
    print(kvist(binary, "what-if", traffic, "-f", deployment, "--mode", "kv", "--workers", "2", "--json", answer), flush=True)
    return json.loads(answer.read_text())


def prediction_of(answer, mode, workers):
    return next(p for p in answer["predictions"] if (p["mode"], p["workers"]) == (mode, workers))["figures"]


def compare(name, answer, predicted, then):
    """Rows of the table, and how many of them miss their bar."""
    rows, missed = [], 0
    for title, key, _, q in METRICS:
        bar = MEDIAN_BAR if q == 0.5 else TAIL_BAR
        deviation = 100 * (predicted[key] / then[key] - 1)
        missed += abs(deviation) > bar
        rows.append([name, title, f"{answer['observed'][key]:.2f} ms", f"{predicted[key]:.2f} ms", f"{then[key]:.2f} ms",
                     f"{deviation:+.1f} %", f"{bar:.0f} %", "within" if abs(deviation) <= bar else "MISSED"])
    key = "kv_hit_rate_pct"
    rows.append([name, "hit rate", f"{answer['observed'][key]:.1f} %", f"{predicted[key]:.1f} %", f"{then[key]:.1f} %",
                 f"{predicted[key] - then[key]:+.1f} points", "", ""])
    return rows, missed


HEAD = ["what if", "figure", "recorded: round_robin, 3 workers", "predicted", "then measured", "deviation", "bar", "verdict"]


def main():
    parser = argparse.ArgumentParser(description="Predictions of kvist what-if against the live system.")
    parser.add_argument("kvist", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--seconds", type=int, default=90)
    parser.add_argument("--starts", type=int, default=720, help="conversations a minute")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the records, which then stay")
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        deployment, traffic = record(arguments.kvist, folder, "round_robin", 3, arguments)
        answer = predict(arguments.kvist, folder, traffic, deployment)
        wrong = folder / "wrong.yaml"
        wrong.write_text(DEPLOYMENT.format(mode="round_robin", record=traffic, workers=3, **WRONG_TIMES))
        from_wrong = predict(arguments.kvist, folder, traffic, wrong)
        then = {workers: measured(record(arguments.kvist, folder, "kv", workers, arguments)[1]) for workers in (3, 2)}
    rows, missed = [], 0
    for name, told, workers in (("kv", answer, 3), ("kv, from wrong step times", from_wrong, 3), ("kv on 2 workers", answer, 2)):
        more, missing = compare(name, told, prediction_of(told, "kv", workers), then[workers][0])
        rows, missed = rows + more, missed + missing
    figures = sum(1 for row in rows if row[-1])
    verdict = (f"what-if: {figures - missed} of {figures} figures within their bars; {answer['compared']} recorded requests compared, "
               f"{then[3][1]} and {then[2][1]} of the runs that were predicted")
    if arguments.write:
        write_between_markers(arguments.write, "what-if", verdict + ".\n\n" + markdown(HEAD, rows))
    print(markdown(HEAD, rows))
    print(verdict)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
