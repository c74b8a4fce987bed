"""A target that answers no more: what was measured until then is kept, by a load that is told twice to end and by a sweep that is told once."""
import json
import pathlib
import signal
import subprocess
import tempfile
import time

from deployment import BINARY, DEADLINE_S, eventually, run
from chat_server import TOKENS, ChatServer

ONE_SIGNAL_S = 0.2  # two that are closer are one request to end


def a_load_is_given_up_by_a_second_signal(*options):
    server = ChatServer(answers=6)
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([BINARY, "loadgen", "--target", server.url, "--model", "m", "--concurrency", "2", "--input-tokens", "20",
                                    "--output-tokens", str(TOKENS), "--timeout", "600s", "--port", "0", "--output", folder, *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            eventually(lambda: len(server.requests) == 8, "requests that hang")
            process.send_signal(signal.SIGINT)
            said = next(line for line in process.stderr if "interrupted" in line)
            assert "again to give up 2 requests in flight" in said, said
            time.sleep(2 * ONE_SIGNAL_S)
            assert process.poll() is None, "the first lets them end"
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0, process.returncode
        finally:
            process.kill()
            process.wait()
        assert "6 succeeded, 0 failed, 2 abandoned" in output, output
        summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
        assert summary["requests"]["succeeded"] == 6 and summary["requests"]["abandoned"] == 2, summary["requests"]
        outcomes = [json.loads(line)["outcome"] for line in (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()]
        assert sorted(outcomes) == ["abandoned"] * 2 + ["succeeded"] * 6, outcomes


def so_is_one_of_several_threads():
    a_load_is_given_up_by_a_second_signal("--threads", "2")


def a_sweep_ends_at_the_first_signal_and_keeps_its_levels():
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sweep.yaml"
        path.write_text(f"""name: hanging
target: {{url: {server.url}, model: m}}
workload: {{seed: 3, turns: 1, starters: 4, starter_tokens: 50, max_tokens: {TOKENS}, request_timeout: 600 s}}
method: {{warmup: 100 ms, snapshots: 1, snapshot_interval: 500 ms, window: 500 ms, drain_timeout: 500 s}}
arms: [{{name: only}}]
comparison: {{caches: none}}
levels: [1, 2]
""")
        process = subprocess.Popen([BINARY, "sweep", "-f", path, "--output", folder, "--no-dashboard"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            seen = []
            for line in process.stdout:
                seen.append(line)
                if " 1: done:" in line:
                    server.answers = 0  # from now on nothing ends
                if " 2: draining" in line:
                    break
            else:
                raise AssertionError("".join(seen) + process.stderr.read())
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
            process.wait()
        assert process.returncode != 0 and "interrupted" in output + errors, output + errors
        results = max(pathlib.Path(folder).glob("hanging-*"))
        levels = json.loads((results / "report.json").read_text())["levels"]
        assert [level["concurrency"] for level in levels] == [1], levels


run([a_load_is_given_up_by_a_second_signal, so_is_one_of_several_threads, a_sweep_ends_at_the_first_signal_and_keeps_its_levels])
