"""The load generator's certificate: what it says of its own part in the figures, held against the record of a server of known times, while
it is left alone, stopped and starved. And calibration: what this machine can drive, and loads beyond it."""
import json
import os
import pathlib
import subprocess
import tempfile

from deployment import BINARY, DEADLINE_S, run
from reference_load import busy_processor, finish, percentile, reference_server, start_client, stop_now_and_then, urgent_bursts

STOP_S = 0.25
# From the server's note of a token to its packet: a fraction of a millisecond, unless the server is interrupted right there.
TOLERANCE_MS = 5


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
    if max(grades) == 0 and verdict != "valid":  # turns begun late
        assert all("dispatch" in reason for reason in summary["client"]["reasons"]), summary["client"]


def left_alone_its_bounds_are_what_happened():
    with reference_server() as url, tempfile.TemporaryDirectory() as folder:
        summary, ttfts, gaps = finish(start_client(url, folder, 2), url, folder)
        check_bounds(summary, ttfts, gaps)
        certificate = summary["client"]["certificate"]
        assert certificate["receive_delay_p50_ms"] <= certificate["receive_delay_p99_ms"] <= certificate["receive_delay_max_ms"]
        assert 0 <= certificate["stamped_chunks"] <= certificate["chunks"]
        for share in ("run_queue_share", "steal_share"):
            assert certificate[share] is None or 0 <= certificate[share] <= 1, certificate
        pauses = certificate["pauses"]
        assert 0 <= pauses["share"] <= 1 and 0 <= pauses["p99_ms"] <= pauses["p999_ms"] <= pauses["max_ms"], pauses
        assert (pauses["count"] > 0) == (pauses["share"] > 0) and 0 < pauses["cpu_share"] < 0.5, pauses
        # Pauses are in the bounds: whatever the hypervisor took, there is no other limit on it.
        assert not any("hypervisor" in reason for reason in summary["client"]["reasons"]), summary["client"]


def stopped_now_and_then_it_is_invalid_by_the_length_of_the_stops():
    with reference_server() as url, tempfile.TemporaryDirectory() as folder:
        client = start_client(url, folder, 4)
        stops, longest = stop_now_and_then(client, STOP_S, 2 * STOP_S, 3.5)
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
    with busy_processor(3) as last_in_line, reference_server() as url, tempfile.TemporaryDirectory() as folder:
        summary, ttfts, gaps = finish(start_client(url, folder, 4, last_in_line), url, folder)
    check_bounds(summary, ttfts, gaps)
    assert summary["client"]["verdict"] != "valid", summary["client"]
    certificate = summary["client"]["certificate"]
    assert certificate["run_queue_share"] is None or certificate["run_queue_share"] > 0.01, certificate
    assert certificate["loop_stalls"] > 0 or certificate["receive_delay_p99_ms"] > 1, certificate


def starved_by_bursts_of_urgent_work_it_is_not_valid():
    with urgent_bursts(0.03, 0.1) as places, tempfile.TemporaryDirectory() as folder:
        if places is None:
            print("not permitted to have a real-time priority, or one processor only: left out")
            return
        in_its_place, beside_it = places
        with reference_server(beside_it) as url:
            summary, ttfts, gaps = finish(start_client(url, folder, 4, in_its_place), url, folder)
    check_bounds(summary, ttfts, gaps)
    # Nearly a third of the chunks come in a burst: their gaps are longer by some 15 ms in the mean.
    assert summary["client"]["verdict"] == "invalid", summary["client"]
    assert summary["client"]["certificate"]["shares"]["itl_p99_ms"]["high"] >= 5, summary["client"]


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
     starved_by_busy_processes_it_is_not_valid, starved_by_bursts_of_urgent_work_it_is_not_valid, calibrated_loads_beyond_it_are_marked_or_refused])
