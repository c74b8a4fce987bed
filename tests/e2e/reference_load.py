"""The load generator driving the reference server, whose record says what happened: a run's own figures beside the true ones."""
import contextlib
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from deployment import BINARY, DEADLINE_S, get_json, read_line

FIRST_MS, GAP_MS, TOKENS, STREAMS = 50, 20, 50, 8
SEED = 11


@contextlib.contextmanager
def reference_server(before_start=None):
    server = subprocess.Popen([BINARY, "loadgen", "reference", "--first", f"{FIRST_MS}ms", "--gap", f"{GAP_MS}ms"], stdout=subprocess.PIPE,
                              preexec_fn=before_start)
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


def stop_now_and_then(client, stop_s, every_s, seconds):
    """SIGSTOP for `stop_s` once every `every_s`. Returns how often, and the longest in seconds."""
    stops, longest = 0, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(every_s - stop_s)
        client.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        time.sleep(stop_s)
        longest = max(longest, time.monotonic() - begin)
        client.send_signal(signal.SIGCONT)
        stops += 1
    return stops, longest


@contextlib.contextmanager
def busy_processor(processes):
    """Processes that compute on one processor. Yields what a client has to do to be the last in line for it."""
    cpu = {sorted(os.sched_getaffinity(0))[-1]}

    def last_in_line():
        os.sched_setaffinity(0, cpu)
        os.nice(19)

    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, cpu)) for _ in range(processes)]
    try:
        yield last_in_line
    finally:
        for process in busy:
            process.kill()
            process.wait()


@contextlib.contextmanager
def urgent_bursts(busy_s, every_s):
    """A process that has one processor for `busy_s` once every `every_s`, before everything that has no real-time priority. Yields what a
    client has to do to share that processor, and its server to stay away from it, so that only the client is held up; nothing where this is not
    permitted, or there is but one processor."""
    all_of_them = os.sched_getaffinity(0)
    cpu = {max(all_of_them)}
    code = (f"import os, time\nos.sched_setaffinity(0, {cpu})\nos.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))\nprint('ready', flush=True)\n"
            f"while os.getppid() == {os.getpid()}:\n  end = time.monotonic() + {busy_s}\n  while time.monotonic() < end: pass\n  time.sleep({every_s - busy_s})")
    urgent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        permitted = urgent.stdout.readline() and len(all_of_them) > 1
        yield ((lambda: os.sched_setaffinity(0, cpu)), (lambda: os.sched_setaffinity(0, all_of_them - cpu))) if permitted else None
    finally:
        urgent.kill()
        urgent.wait()
