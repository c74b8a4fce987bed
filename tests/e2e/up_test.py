"""`kvist up`: the example deployment starts, answers curl, and leaves nothing behind."""
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from deployment import BINARY, DEADLINE_S, read_line, request, run

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/deployments/three-timed-workers.yaml"


def children_of(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def the_example_comes_up_answers_and_goes_down():
    with tempfile.TemporaryDirectory() as folder:
        up = subprocess.Popen([BINARY, "up", "-f", EXAMPLE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder)
        try:
            url, seen, end = None, "", time.monotonic() + DEADLINE_S
            while url is None and time.monotonic() < end:
                line = read_line(up.stdout, DEADLINE_S)
                seen += line + "\n"
                match = re.search(r"gateway\s+(http://[\d.]+:\d+)", line)
                url = match.group(1) if match else None
            assert url, seen
            children = children_of(up.pid)
            assert len(children) == 4, children
            status, headers, text = request(url + "/v1/chat/completions", {
                "model": json.loads(request(url + "/v1/models")[2])["data"][0]["id"], "max_tokens": 5,
                "messages": [{"role": "user", "content": "hello"}]})
            assert status == 200 and headers["x-kvist-worker"], text
        finally:
            up.send_signal(signal.SIGINT)
            code = up.wait(DEADLINE_S)
        assert code == 0, code
        gone = [pid for pid in children if not pathlib.Path(f"/proc/{pid}").exists()]
        assert gone == children


def a_bad_file_is_refused_with_its_line():
    with tempfile.TemporaryDirectory() as folder:
        bad = pathlib.Path(folder) / "bad.yaml"
        bad.write_text("deployment:\n  workers:\n    count: 2\n    block_sice: 16\n")
        done = subprocess.run([BINARY, "up", "-f", bad], capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == 1, done
        assert "bad.yaml:4" in done.stderr and "block_sice" in done.stderr and "block_size" in done.stderr, done.stderr


run([the_example_comes_up_answers_and_goes_down, a_bad_file_is_refused_with_its_line])
