"""The highest concurrency within limits, by bisection on a live deployment and on a target; a figure that was not measured ends the search."""
import json
import pathlib
import subprocess
import tempfile

from deployment import BINARY, deployment, run

SWEEP = """name: knee
{what}
workload: {{seed: 3, starters: 3, starter_tokens_min: 500, starter_tokens_max: 700, turns_min: 2, turns_max: 2, follow_up_tokens_min: 20, follow_up_tokens_max: 60, max_tokens: 40, target_rps: 0}}
method: {{warmup: 200 ms, snapshots: 1, snapshot_interval: 500 ms, window: 500 ms, drain_timeout: 20 s}}
{arms}
levels: [4]
"""
DEPLOYMENT = """deployment:
  workers: {count: 1, block_size: 32, kv_blocks: 4000, max_batch_size: 4, time_scale: 20, output_length: {mean_tokens: 40, standard_deviation_tokens: 1}}
"""


def plan(folder, text, slo, *more, succeeds=True):
    path = pathlib.Path(folder) / "sweep.yaml"
    path.write_text(text)
    answer = pathlib.Path(folder) / "plan.json"
    done = subprocess.run([BINARY, "plan", "capacity", "-f", path, "--slo", slo, "--live", "--seeds", "3", "--json", answer, "--logs", pathlib.Path(folder) / "logs", *more],
                          capture_output=True, text=True, timeout=200)
    assert (done.returncode == 0) == succeeds, done.stdout + done.stderr
    return json.loads(answer.read_text()), done


def a_worker_with_four_places_breaks_a_limit_when_turns_have_to_wait():
    """A turn of 40 tokens takes some 40 ms; with more conversations than places, first tokens wait for the end of another's turn."""
    with tempfile.TemporaryDirectory() as folder:
        answer, done = plan(folder, SWEEP.format(what=DEPLOYMENT, arms="modes: [kv]"), "ttft_p50=25ms", "--max-users", "32")
        found = answer["capacities"][0]
        assert found["mode"] == "kv" and 2 <= found["users"] <= 12, (found["users"], done.stderr)
        levels = {level["users"]: level["verdict"] for level in found["levels"]}
        assert levels[max(levels)] == "breaks" and levels[min(levels)] == "holds", levels
        assert "kv: starting a gateway" in done.stderr


def a_target_is_searched_too_and_what_it_does_not_do_breaks_the_limit():
    with deployment(workers=1, gateway=False) as (_, workers), tempfile.TemporaryDirectory() as folder:
        what = f"target: {{url: '{workers[0].url}', model: test-model, settle: 20 ms}}"
        answer, _ = plan(folder, SWEEP.format(what=what, arms="arms: [{name: it}]"), "latency_p95=10s", "--max-users", "4")
        found = answer["capacities"][0]
        assert found["mode"] == "it" and found["users"] == 4, found
        wrong = what.replace("test-model", "other-model")
        text = SWEEP.format(what=wrong, arms="arms: [{name: it}]")
        path = pathlib.Path(folder) / "sweep.yaml"
        path.write_text(text)
        simulated = subprocess.run([BINARY, "plan", "capacity", "-f", path, "--slo", "latency_p95=10s"], capture_output=True, text=True, timeout=60)
        assert simulated.returncode != 0 and "say --live" in simulated.stderr, simulated.stderr


def a_figure_that_was_not_measured_is_neither_red_nor_green():
    """Answers of one token have no gaps, so nobody can say whether ITL is within its limit."""
    text = SWEEP.format(what=DEPLOYMENT, arms="modes: [kv]").replace("max_tokens: 40", "max_tokens: 1")
    with tempfile.TemporaryDirectory() as folder:
        answer, done = plan(folder, text, "itl_p95=1s,ttft_p95=10s", "--max-users", "4", succeeds=False)
        assert "kv: ITL p95 was not measured at" in done.stderr, done.stderr
        found = answer["capacities"][0]
        assert found["users"] is None and found["unknown"]["figure"] == "itl_p95_ms", found
        assert [level["verdict"] for level in found["levels"]] == ["unknown"], found
        path = pathlib.Path(folder) / "sweep.yaml"
        refused = subprocess.run([BINARY, "plan", "capacity", "-f", path, "--slo", "good=90%"], capture_output=True, text=True, timeout=60)
        assert refused.returncode != 0 and "method.goodput" in refused.stderr, refused.stderr


run([a_worker_with_four_places_breaks_a_limit_when_turns_have_to_wait, a_target_is_searched_too_and_what_it_does_not_do_breaks_the_limit,
     a_figure_that_was_not_measured_is_neither_red_nor_green])
