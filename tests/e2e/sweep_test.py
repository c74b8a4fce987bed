"""A small but complete sweep: two modes, two levels, real processes; then the report is compared with the raw samples and the workers."""
import json
import pathlib
import re
import sqlite3
import subprocess
import tempfile

from deployment import BINARY, run

SWEEP = """name: test
deployment:
  gateway: {block_size: 32}
  workers:
    count: 3
    block_size: 32
    kv_blocks: 4000
    time_scale: 100
    output_length: {mean_tokens: 80, standard_deviation_tokens: 15}  # spread: equal lengths would make round-robin sticky by lockstep
workload:
  seed: 11
  turns_min: 3
  turns_max: 5
  starters: 5
  starter_tokens_min: 1500
  starter_tokens_max: 2000
  max_tokens: 120
  target_rps: 100
method: {warmup: 1 s, snapshots: 2, snapshot_interval: 2 s, window: 2 s, drain_timeout: 20 s}
modes: [round_robin, kv]
levels: [5, 10]
"""


def sweep(folder):
    path = pathlib.Path(folder) / "sweep.yaml"
    path.write_text(SWEEP)
    done = subprocess.run([BINARY, "sweep", "-f", path, "--output", folder], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    results = next(pathlib.Path(folder).glob("test-*"))
    return done.stdout, results


def rows(database, query, *arguments):
    return database.execute(query, arguments).fetchall()


def everything_fits_together():
    with tempfile.TemporaryDirectory() as folder:
        output, results = sweep(folder)
        print(output)
        for name in ("results.sqlite", "report.md", "report.json", "report.html", "levels.csv"):
            assert (results / name).stat().st_size > 1000, name
        assert str(results / "report.html") in output

        report = json.loads((results / "report.json").read_text())
        assert [level["concurrency"] for level in report["levels"]] == [5, 10]
        database = sqlite3.connect(results / "results.sqlite")
        for level in report["levels"]:
            for mode, key in (("round_robin", "round_robin"), ("kv", "kv_aware")):
                check_level(database, level, mode, level[key])
        for level in report["levels"]:
            rr, kv = level["round_robin"], level["kv_aware"]
            assert kv["kv_hit_rate_pct"] > rr["kv_hit_rate_pct"], level
            assert prefilled(database, "kv", level["concurrency"]) < prefilled(database, "round_robin", level["concurrency"])

        markdown = (results / "report.md").read_text()
        assert "| Concurrency | RR TTFT p50 | KV TTFT p50 | p50 Improvement |" in markdown
        assert "**Time scale:** 100." in markdown
        html = (results / "report.html").read_text()
        assert "<svg" in html and not re.search(r'(src|href)="https?://', html)


def level_id(database, mode, concurrency):
    return rows(database, "SELECT id FROM levels WHERE mode = ? AND concurrency = ?", mode, concurrency)[0][0]


def prefilled(database, mode, concurrency):
    level = level_id(database, mode, concurrency)
    turns, tokens = rows(database, "SELECT (SELECT count(*) FROM turns WHERE level = ?1), sum(prefilled_tokens) FROM workers WHERE level = ?1", level)[0]
    return tokens / turns


def check_level(database, level, mode, published):
    row = level_id(database, mode, level["concurrency"])
    outcomes = dict(rows(database, "SELECT outcome, count(*) FROM turns WHERE level = ? GROUP BY outcome", row))
    errors = rows(database, "SELECT DISTINCT error FROM turns WHERE level = ?", row)
    assert set(outcomes) == {"succeeded"} and outcomes["succeeded"] > 30, (outcomes, errors)
    # The client's hit rate comes from usage; the workers' own counters must agree.
    cached, prompt = rows(database, "SELECT sum(cached_tokens), sum(prompt_tokens) FROM turns WHERE level = ?", row)[0]
    hits, queries = rows(database, "SELECT sum(prefix_hit_tokens), sum(prefix_query_tokens) FROM workers WHERE level = ?", row)[0]
    assert (hits, queries) == (cached, prompt), "after a drained level both sides have counted every request"
    assert abs(published["kv_hit_rate_pct"] - 100 * hits / queries) < 1
    # Both modes drove the same conversations: the first turns' prompts are equal.
    assert published["ttft_p50_ms"] > 0 and published["tops"] > 0


def both_modes_got_the_same_conversations():
    with tempfile.TemporaryDirectory() as folder:
        _, results = sweep(folder)
        database = sqlite3.connect(results / "results.sqlite")
        for concurrency in (5, 10):
            turns = [
                dict(((c, t), (p, n)) for c, t, p, n in rows(
                    database, "SELECT conversation, turn, prompt_tokens, completion_tokens FROM turns WHERE level = ?",
                    level_id(database, mode, concurrency)))
                for mode in ("round_robin", "kv")
            ]
            shared = turns[0].keys() & turns[1].keys()
            assert len(shared) > 20
            assert all(turns[0][key] == turns[1][key] for key in shared)
        first, second = (rows(database, "SELECT prompt_tokens FROM turns WHERE level = ? ORDER BY conversation, turn LIMIT 20",
                              level_id(database, "kv", c)) for c in (5, 10))
        assert first != second, "levels draw different conversations"


run([everything_fits_together, both_modes_got_the_same_conversations])
