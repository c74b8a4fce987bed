"""The load generator's certificate: what it says of its own part in the figures, held against the record of a server of known times, while
it is left alone, stopped and starved. And calibration: what this machine can drive, and loads beyond it."""
import contextlib
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from deployment import BINARY, DEADLINE_S, get_json, read_line, run

FIRST_MS, GAP_MS, TOKENS, STREAMS = 50, 20, 50, 8
STOP_S = 0.25
SEED = 11
# From the server's note of a token to its packet: a fraction of a millisecond, unless the server is interrupted right there.
TOLERANCE_MS = 5


@contextlib.contextmanager
def reference_server():
    server = subprocess.Popen([BINARY, "loadgen", "reference", "--first", f"{FIRST_MS}ms", "--gap", f"{GAP_MS}ms"], stdout=subprocess.PIPE)
    try:
        yield "http://127.0.0.1:" + read_line(server.stdout, DEADLINE_S).split("http=")[1].strip()
    finally:
        server.terminate()
        server.wait(DEADLINE_S)


def start_client(url, folder, seconds, before_start=None):
    client = subprocess.Popen([BINARY, "loadgen", "--target", url, "--model", "reference", "--concurrency", str(STREAMS), "--duration", f"{seconds}s",
                               "--input-tokens", "20", "--output-tokens", str(TOKENS), "--ignore-eos", "--seed", str(SEED), "--output", folder,
                               "--calibration", "none"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=before_start)
    assert client.stdout.readline().startswith("ready ")
    return client


def percentile(values, share):
    """Linear between the two nearest ranks, as kvist has it."""
    ordered = sorted(values)
    rank = share / 100 * (len(ordered) - 1)
    below = ordered[int(rank)]
    return below + (rank - int(rank)) * (ordered[min(int(rank) + 1, len(ordered) - 1)] - below)


def finish(client, url, folder):
    """The summary, and what happened by the server's record to the turns that are in its figures: from the client's sending to the server's
    first token, and between its tokens, in milliseconds."""
    out, _ = client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 0, out
    summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
    lines = [json.loads(line) for line in (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()]
    record = {stream["request"]: stream for stream in get_json(url + "/record")["streams"]}
    begins, gaps, delays, chunks = [], [], [], 0
    for line in lines:
        assert len(line["late_ms"]) == line["chunks"], line
        if not line["measured"]:
            continue
        stream = record[f"loadgen-{SEED:x}-{line['conversation']}-{line['turn']}"]
        assert len(stream["sent_ns"]) == line["chunks"] == TOKENS
        chunks += line["chunks"]
        sent = [(stream["arrived_ns"] + after) / 1e6 for after in stream["sent_ns"]]
        read = list(itertools.accumulate(line["gaps_ms"], initial=1e3 * line["first_token_s"]))
        begins.append((sent[0], 1e3 * line["sent_s"]))
        delays += [r - s for r, s in zip(read, sent)]
        gaps += [b - a for a, b in zip(sent, sent[1:])]
    # The client's instants are from the start of its load. The token that was read soonest after it was sent tells when that was.
    start = min(delays)
    ttfts = [first + start - begin for first, begin in begins]
    assert summary["client"]["certificate"]["chunks"] == chunks > 0
    assert summary["client"]["verdict"] in out
    return summary, ttfts, gaps


def check_bounds(summary, ttfts, gaps):
    """What the client measured too much or too little is within what it says may be its own; the verdict follows from that."""
    shares = summary["client"]["certificate"]["shares"]
    for key, true, share in (("ttft_p50_ms", ttfts, 50), ("itl_p50_ms", gaps, 50), ("itl_p95_ms", gaps, 95), ("itl_p99_ms", gaps, 99)):
        bound = shares[key]
        own = summary["figures"][key]["value"] - percentile(true, share)
        assert bound["low"] - TOLERANCE_MS <= own <= bound["high"] + TOLERANCE_MS, (key, own, bound)
    grades = [0]
    for key, bound in shares.items():
        worst, figure = max(abs(bound["low"]), abs(bound["high"])), summary["figures"][key]["value"]
        grades.append(2 if worst > max(5, 0.25 * figure) else 1 if worst > max(1, 0.05 * figure) else 0)
    verdict = summary["client"]["verdict"]
    assert ["valid", "degraded", "invalid"].index(verdict) >= max(grades), (verdict, shares)
    assert verdict == "valid" or summary["client"]["reasons"], summary["client"]
    if max(grades) == 0 and verdict != "valid":  # turns begun late, or a hypervisor
        assert all("dispatch" in reason or "hypervisor" in reason for reason in summary["client"]["reasons"]), summary["client"]


def left_alone_its_bounds_are_what_happened():
    with reference_server() as url, tempfile.TemporaryDirectory() as folder:
        summary, ttfts, gaps = finish(start_client(url, folder, 2), url, folder)
        check_bounds(summary, ttfts, gaps)
        certificate = summary["client"]["certificate"]
        assert certificate["receive_delay_p50_ms"] <= certificate["receive_delay_p99_ms"] <= certificate["receive_delay_max_ms"]
        assert 0 <= certificate["stamped_chunks"] <= certificate["chunks"]
        for share in ("run_queue_share", "steal_share"):
            assert certificate[share] is None or 0 <= certificate[share] <= 1, certificate


def stopped_now_and_then_it_is_invalid_by_the_length_of_the_stops():
    with reference_server() as url, tempfile.TemporaryDirectory() as folder:
        client = start_client(url, folder, 4)
        stops, longest = 0, 0
        end = time.monotonic() + 3.5
        while time.monotonic() < end:
            time.sleep(STOP_S)
            client.send_signal(signal.SIGSTOP)
            begin = time.monotonic()
            time.sleep(STOP_S)
            longest = max(longest, time.monotonic() - begin)
            client.send_signal(signal.SIGCONT)
            stops += 1
        summary, ttfts, gaps = finish(client, url, folder)
        check_bounds(summary, ttfts, gaps)
        assert summary["client"]["verdict"] == "invalid", summary["client"]
        certificate = summary["client"]["certificate"]
        # A tick is due every 10 ms, so that of each stop all but 10 ms is counted at least.
        stop_ms = 1e3 * STOP_S
        assert certificate["loop_stalls"] >= stops, (certificate, stops)
        assert certificate["loop_stalled_ms"] >= stops * (stop_ms - 10), (certificate, stops)
        assert summary["client"]["loop_delay_max_ms"] >= stop_ms - 10
        # Each stop makes one long gap of each stream, and half of the time is stops: more than one gap of a hundred.
        p99 = certificate["shares"]["itl_p99_ms"]
        assert stop_ms / 2 <= p99["high"] <= 2e3 * longest, (p99, longest)
        assert percentile(gaps, 99) < stop_ms / 2, "the server was not stopped"


def starved_by_busy_processes_it_is_not_valid():
    cpu = {sorted(os.sched_getaffinity(0))[-1]}

    def last_in_line():
        os.sched_setaffinity(0, cpu)
        os.nice(19)

    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, cpu)) for _ in range(3)]
    try:
        with reference_server() as url, tempfile.TemporaryDirectory() as folder:
            summary, ttfts, gaps = finish(start_client(url, folder, 4, last_in_line), url, folder)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    check_bounds(summary, ttfts, gaps)
    assert summary["client"]["verdict"] != "valid", summary["client"]
    certificate = summary["client"]["certificate"]
    assert certificate["run_queue_share"] is None or certificate["run_queue_share"] > 0.01, certificate
    assert certificate["loop_stalls"] > 0 or certificate["receive_delay_p99_ms"] > 1, certificate


def calibrated_loads_beyond_it_are_marked_or_refused():
    with reference_server() as url, tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "XDG_STATE_HOME": folder}

        def loadgen(*options):
            return subprocess.run([BINARY, "loadgen", *map(str, options)], capture_output=True, text=True, timeout=DEADLINE_S, env=env)

        def load(streams, *options):
            return loadgen("--target", url, "--model", "reference", "--concurrency", streams, "--requests", 2 * streams, "--output-tokens", 5, *options)

        refused = load(1, "--within-calibration")
        assert refused.returncode != 0 and "run kvist loadgen calibrate first" in refused.stderr, refused
        done = loadgen("calibrate", "--max-streams", 6, "--step", "300ms", "--tokens", 10, "--gap", "5ms")
        path = pathlib.Path(folder) / "kvist" / "loadgen-calibration.json"
        found = json.loads(path.read_text())
        # On a machine that others use, it may be that nothing holds.
        assert (done.returncode == 0) == (found["limit"] is not None), (done, found)
        assert found["steps"] and all(step["turns"] > 0 and step["failed"] == 0 for step in found["steps"]), found
        assert all(step["holds"] == (max(step["ttft_error_p99_ms"], step["itl_error_p99_ms"]) < 1) for step in found["steps"]), found
        assert "streams" in done.stdout and str(path) in done.stdout, done.stdout

        good = {**found["steps"][0], "streams": 2, "ttft_error_p99_ms": 0.1, "itl_error_p99_ms": 0.1, "events_per_s": 1e9, "turns_per_s": 1e9}
        path.write_text(json.dumps({**found, "steps": [good, {**good, "streams": 4, "itl_error_p99_ms": 7}]}))
        within, beyond = load(2), load(4)
        assert within.returncode == beyond.returncode == 0, (within, beyond)
        assert "calibrated" not in within.stdout and "beyond what this machine was calibrated for" in beyond.stdout, beyond.stdout
        assert "4 streams at once (2)" in beyond.stdout, beyond.stdout
        assert "calibrated" not in load(4, "--calibration", "none").stdout
        assert load(2, "--within-calibration").returncode == 0
        refused = load(4, "--within-calibration")
        assert refused.returncode != 0 and "4 streams at once (2)" in refused.stderr, refused
        other = pathlib.Path(folder) / "other.json"
        other.write_text(json.dumps({**found, "machine": {"cores": "1000"}}))
        refused = load(1, "--calibration", other)
        assert refused.returncode != 0 and "another machine" in refused.stderr, refused


run([left_alone_its_bounds_are_what_happened, stopped_now_and_then_it_is_invalid_by_the_length_of_the_stops,
     starved_by_busy_processes_it_is_not_valid, calibrated_loads_beyond_it_are_marked_or_refused])
