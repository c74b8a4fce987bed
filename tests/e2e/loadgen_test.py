"""kvist loadgen by options alone: open and closed loops, data sets, what it prints and writes, and the other tools' formats."""
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import urllib.request

from deployment import BINARY, DEADLINE_S, deployment, eventually, run
from chat_server import GAP_S, TOKENS, ChatServer

def loadgen(url, *options, ok=True):
    done = subprocess.run([BINARY, "loadgen", "--target", url, *([] if "--model" in options else ["--model", "m"]), *map(str, options)], capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode == 0) == ok, (done.returncode, done.stdout, done.stderr[-3000:])
    return done


def an_open_loop_sends_its_requests_and_says_what_it_measured():
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        done = loadgen(server.url, "--rate", 40, "--requests", 60, "--input-tokens", "30-50", "--output-tokens", TOKENS, "--ignore-eos", "--seed", 5,
                       "--header", "X-Team: blue", "--output", out, "--export", "all", "--progress", "200ms")
        assert len(server.requests) == 60
        path, headers, body = server.requests[0]
        assert path == "/v1/chat/completions" and headers["X-Team"] == "blue"
        assert body["max_tokens"] == TOKENS and body["ignore_eos"] is True and body["stream"] is True
        lengths = [len(r[2]["messages"][0]["content"]) for r in server.requests]
        assert min(lengths) >= 30 and max(lengths) <= 50 and len(set(lengths)) > 3, lengths
        assert "60 succeeded, 0 failed" in done.stdout, done.stdout
        for row in ("TTFT ", "TPOT (mean of a request)", "ITL (gaps, pooled)", "latency ", "TTFT from the schedule", "arrivals poisson: 40/s ordered", "client   "):
            assert row in done.stdout, (row, done.stdout)
        assert re.search(r"\d+ in flight, \d+ done, 0 failed, .*TTFT p50 .* p95", done.stderr), done.stderr[-2000:]

        lines = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
        assert len(lines) == 60 and all(len(line["gaps_ms"]) == TOKENS - 1 for line in lines)
        assert all(line["sent_s"] >= line["intended_s"] for line in lines)
        summary = json.loads((out / "summary.json").read_text())
        assert summary["requests"]["succeeded"] == 60 and summary["arrivals"]["law"] == "poisson"
        assert summary["tokens"] == {"prompt": 2400, "cached": 600, "output": 60 * TOKENS, "output_counted_by": "usage"}
        assert "X-Team: ..." in summary["command"] and "blue" not in summary["command"]
        check_exports(out, summary)
        compare = lambda old, new: subprocess.run([BINARY, "report", "regression", old, new], capture_output=True, text=True, timeout=DEADLINE_S)
        assert "0 worse by more than 5%" in compare(out, out).stdout
        other = pathlib.Path(folder) / "other"
        loadgen(server.url, "--concurrency", 2, "--requests", 4, "--input-tokens", 20, "--output-tokens", TOKENS, "--output", other)
        refused = compare(out, other)
        assert refused.returncode == 1 and "synthetic, 40/s poisson" in refused.stderr and "synthetic, 2 at once" in refused.stderr, refused


def check_exports(out, summary):
    """The same request figures in every format, by the tools' own names."""
    ttft = summary["figures"]["ttft_p95_ms"]["value"]
    rate = summary["figures"]["output_tokens_per_s"]["value"]
    vllm = json.loads((out / "vllm.json").read_text())
    aiperf = json.loads((out / "profile_export_aiperf.json").read_text())
    guidellm = json.loads((out / "benchmarks.json").read_text())["benchmarks"][0]["metrics"]
    perf = json.loads((out / "summary_lifecycle_metrics.json").read_text())["successes"]
    for found in (vllm["p95_ttft_ms"], aiperf["time_to_first_token"]["p95"], guidellm["time_to_first_token_ms"]["successful"]["percentiles"]["p95"],
                  1e3 * perf["latency"]["time_to_first_token"]["p95"]):
        assert abs(found - ttft) < 1e-4, (found, ttft)
    for found in (vllm["output_throughput"], aiperf["output_token_throughput"]["avg"], guidellm["output_tokens_per_second"]["successful"]["mean"],
                  perf["throughput"]["output_tokens_per_sec"]):
        assert abs(found - rate) < 1e-3, (found, rate)
    assert vllm["completed"] == aiperf["request_count"]["avg"] == guidellm["request_totals"]["successful"] == perf["count"] == 60
    records = [json.loads(line) for line in (out / "profile_export.jsonl").read_text().splitlines()]
    assert len(records) == 60 and all(r["metrics"]["inter_chunk_latency"]["unit"] == "ms" for r in records)


def the_same_seed_is_the_same_schedule_and_the_same_texts():
    sent = []
    for _ in range(2):
        server = ChatServer()
        with tempfile.TemporaryDirectory() as folder:
            loadgen(server.url, "--rate", 50, "--arrivals", "gamma", "--variation", 3, "--requests", 30, "--input-tokens", 20, "--output-tokens", 4,
                    "--seed", 9, "--output", folder)
            lines = [json.loads(line) for line in (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()]
        start = min(line["intended_s"] for line in lines)
        sent.append((sorted(round(line["intended_s"] - start, 6) for line in lines), sorted(r[2]["messages"][0]["content"] for r in server.requests)))
    assert sent[0] == sent[1]


def rates_count_what_falls_into_the_window():
    """20 streams of 6 tokens in 30 ms at most: what is counted can exceed neither that nor what the server saw."""
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        loadgen(server.url, "--concurrency", 4, "--duration", "1s", "--warmup", "200ms", "--input-tokens", 20, "--output-tokens", TOKENS, "--output", folder)
        summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()]
    window = summary["window_s"]
    begin = summary["warmup_s"]
    inside = sum(begin <= line["ended_s"] <= begin + window for line in lines)
    assert abs(summary["completed_per_s"] * window - inside) < 1.01, (summary["completed_per_s"], window, inside)
    assert summary["figures"]["output_tokens_per_s"]["value"] <= 4 / GAP_S


def the_drain_of_a_load_that_ends_itself_is_not_in_its_window():
    """100 requests within half a second, whose answers take 0.3 s each: the window ends with the last request."""
    server = ChatServer(gap_s=0.05)
    with tempfile.TemporaryDirectory() as folder:
        for options in (("--rate", 200, "--requests", 100), ("--rate", 200, "--rate-profile", "0s:1,300ms:1,300ms:0"), ("--concurrency", 4, "--requests", 4)):
            done = loadgen(server.url, *options, "--input-tokens", 20, "--output-tokens", TOKENS, "--output", folder)
            summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
            lines = [json.loads(line) for line in (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()]
            assert abs(summary["window_s"] - max(line["sent_s"] for line in lines)) < 0.002, (options, summary["window_s"])
            assert summary["requests"]["sent"] == summary["requests"]["succeeded"] == len(lines) and all(line["measured"] for line in lines)
        assert "when the last request was sent, 0 of 4 answers had ended" in done.stdout, done.stdout


def a_load_that_is_shorter_than_its_answers_says_so():
    """Answers take 1.2 s each; the load lasts 0.6 s, the first half of which is warm-up."""
    done = loadgen(ChatServer(gap_s=0.2).url, "--concurrency", 2, "--duration", "600ms", "--warmup", "300ms", "--input-tokens", 20, "--output-tokens", TOKENS)
    assert "remark   no request was sent after the warm-up" in done.stdout, done.stdout


def arrivals_that_are_held_back_are_not_as_ordered():
    """One place, and answers that take ten times as long as the gaps between arrivals."""
    server = ChatServer(gap_s=0.01)
    with tempfile.TemporaryDirectory() as folder:
        done = loadgen(server.url, "--rate", 200, "--max-in-flight", 1, "--duration", "1s", "--input-tokens", 20, "--output-tokens", TOKENS, "--output", folder)
        assert re.search(r"\d+ held back for lack of a place, \d+ of them never sent: NOT as ordered", done.stdout), done.stdout
        arrivals = json.loads((pathlib.Path(folder) / "summary.json").read_text())["arrivals"]
        assert arrivals["as_ordered"] is False and arrivals["never_sent"] > 100 and arrivals["held_back"] > arrivals["never_sent"], arrivals


def without_usage_answers_count_by_chunks():
    server = ChatServer(usage=False)
    done = loadgen(server.url, "--concurrency", 2, "--requests", 12, "--input-tokens", 20, "--output-tokens", TOKENS)
    assert "cache    -:" in done.stdout and "one token per chunk" in done.stdout, done.stdout
    rate = float(re.search(r"([\d.,]+) output tokens/s", done.stdout).group(1).replace(",", ""))
    assert rate > 0
    assert not re.search(r"TPOT.* -  ", done.stdout), done.stdout


def prompts_of_token_ids_have_exact_lengths_and_common_prefixes():
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        loadgen(server.url, "--concurrency", 2, "--requests", 40, "--input-tokens", "20-60", "--output-tokens", TOKENS, "--turns", 2, "--follow-up-tokens", 7,
                "--prefix-groups", 3, "--prefix-tokens", 100, "--prompt-ids", "1000-30000", "--output", folder, "--export", "all")
        assert {path for path, _, _ in server.requests} == {"/v1/completions"} and not any("messages" in body for _, _, body in server.requests)
        prompts = [body["prompt"] for _, _, body in server.requests]
        assert all(1000 <= id <= 30000 for prompt in prompts for id in prompt)
        groups = {tuple(prompt[:100]) for prompt in prompts}
        assert len(groups) == 3, len(groups)
        first = [prompt for prompt in prompts if len(prompt) <= 160]
        assert all(120 <= len(prompt) for prompt in first)
        for prompt in prompts:
            if len(prompt) > 160:  # a second turn begins with the first one, then come the answer's tokens and the next message
                assert any(prompt[:len(earlier)] == earlier and len(prompt) == len(earlier) + TOKENS + 7 for earlier in first), len(prompt)
        assert json.loads((pathlib.Path(folder) / "vllm.json").read_text())["backend"] == "openai"
        server.requests.clear()
        trace = pathlib.Path(folder) / "trace.jsonl"
        trace.write_text("".join(json.dumps({"timestamp": i, "input_length": 1000 + i, "output_length": 4, "hash_ids": [1, 10 + i]}) + "\n" for i in range(4)))
        loadgen(server.url, "--dataset", trace, "--prompt-ids", "1000-30000")
        prompts = sorted((body["prompt"] for _, _, body in server.requests), key=len)
        assert [len(prompt) for prompt in prompts] == [1000, 1001, 1002, 1003]
        assert len({tuple(prompt[:512]) for prompt in prompts}) == 1 and len({tuple(prompt[:528]) for prompt in prompts}) == 4


def workloads_are_mixed_by_weight():
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        files = {"chat": "workload: {starters: 0, starter_tokens_min: 20, starter_tokens_max: 30, turns_min: 3, turns_max: 3, max_tokens: 11}\n",
                 "summary": "workload: {starters: 0, starter_tokens_min: 900, starter_tokens_max: 1000, turns_min: 1, turns_max: 1, max_tokens: 22}\n",
                 "asked.jsonl": json.dumps({"prompt": "from the file", "max_tokens": 33}) + "\n"}
        for name, text in files.items():
            (pathlib.Path(folder) / name).write_text(text)
        mix = [option for part in ("2:chat", "2:summary", "1:asked.jsonl") for option in ("--mix", part.split(":")[0] + ":" + str(pathlib.Path(folder) / part.split(":")[1]))]
        loadgen(server.url, "--concurrency", 8, "--requests", 400, *mix, "--output", folder)
        assert json.loads((pathlib.Path(folder) / "summary.json").read_text())["dataset"].startswith("mix of 2:")
        first = [body for _, _, body in server.requests if len(body["messages"]) == 1]
        count = {limit: sum(body["max_tokens"] == limit for body in first) for limit in (11, 22, 33)}
        assert sum(count.values()) == len(first) and 0.3 < count[11] / len(first) < 0.5 and 0.3 < count[22] / len(first) < 0.5 and count[33] > 10, count
        for _, _, body in server.requests:
            length = len(body["messages"][0]["content"])
            assert {11: 20 <= length <= 30, 22: 900 <= length <= 1000, 33: body["messages"][0]["content"] == "from the file"}[body["max_tokens"]], body
            assert len(body["messages"]) == 1 or body["max_tokens"] == 11


def users_think_before_they_go_on():
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        loadgen(server.url, "--concurrency", 4, "--requests", 24, "--input-tokens", 20, "--output-tokens", TOKENS, "--turns", 3, "--think-time", "100ms-200ms", "--output", folder)
        lines = {(line["conversation"], line["turn"]): line for line in map(json.loads, (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines())}
        later = [(lines[conversation, turn - 1], line) for (conversation, turn), line in lines.items() if turn > 0]
        assert len(lines) == 24 and len(later) > 8 and all(line["intended_s"] - before["ended_s"] >= 0.1 for before, line in later), later
    # Places of requests: while one user thinks for a minute, its place is others'.
    with tempfile.TemporaryDirectory() as folder:
        done = loadgen(server.url, "--concurrency", 2, "--concurrency-of", "requests", "--requests", 30, "--input-tokens", 20, "--output-tokens", TOKENS, "--turns", 3,
                       "--think-time", "60s", "--output", folder)
        assert "30 succeeded" in done.stdout, done.stdout
        summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()]
        assert summary["think_time_s"]["frees_place"] is True
        assert {(line["conversation"], line["turn"]) for line in lines} == {(i, 0) for i in range(30)}
        for line in lines:  # at no instant of a sending were more than two in flight
            assert sum(other["sent_s"] <= line["sent_s"] < other["ended_s"] for other in lines) <= 2, line
    refused = loadgen(server.url, "--concurrency", 2, "--concurrency-of", "requests", "--turns", 2, "--requests", 3, ok=False)
    assert "without --think-time" in refused.stderr, refused.stderr


def token_ids_reach_the_workers_of_a_deployment():
    with deployment(workers=2) as (gateway, _):
        done = loadgen(gateway.url, "--model", "test-model", "--concurrency", 4, "--requests", 20, "--input-tokens", 200, "--output-tokens", 8, "--prompt-ids", "10-200")
        assert "20 succeeded, 0 failed" in done.stdout and re.search(r"of 4,000 prompt tokens", done.stdout), done.stdout


def data_sets_are_sent_with_live_replies():
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        share = pathlib.Path(folder) / "share.json"
        share.write_text(json.dumps([{"conversations": [{"from": "human", "value": "first"}, {"from": "gpt", "value": "never sent"},
                                                        {"from": "human", "value": "second"}]}]))
        loadgen(server.url, "--concurrency", 1, "--requests", 2, "--dataset", share)
        first, second = (r[2]["messages"] for r in server.requests)
        assert [m["content"] for m in first] == ["first"]
        assert [m["role"] for m in second] == ["user", "assistant", "user"] and second[1]["content"] == "w0 w1 w2 w3 w4 w5 " and second[2]["content"] == "second"
        trace = pathlib.Path(folder) / "trace.jsonl"
        trace.write_text("".join(json.dumps({"timestamp": 20 * i, "input_length": 40, "output_length": 4, "hash_ids": [i]}) + "\n" for i in range(5)))
        done = loadgen(server.url, "--dataset", trace)  # ends by itself with the trace
        assert "5 succeeded" in done.stdout and len(server.requests) == 7, done.stdout
        rows = [json.loads(line) for line in trace.read_text().splitlines()]
        trace.write_text("".join(json.dumps(row | ({"follows": i - 1, "delay": 1} if i in (1, 2) else {})) + "\n" for i, row in enumerate(rows)))
        loadgen(server.url, "--dataset", trace, "--output", folder)
        lines = sorted(map(json.loads, (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()), key=lambda line: line["conversation"])
        assert [line["session"] for line in lines] == [0, 0, 0, 3, 4], lines
        server.requests = server.requests[:7]
        done = loadgen(server.url, "--dataset", trace.rename(pathlib.Path(folder) / "trace"))  # by its content, whatever its name
        assert "5 succeeded" in done.stdout and len(server.requests) == 12, done.stdout


def a_load_of_the_control_api_that_runs_out_leaves_it_idle():
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "trace.jsonl").write_text("".join(json.dumps({"timestamp": i, "input_length": 40, "output_length": 4, "hash_ids": [i]}) + "\n" for i in range(5)))
        workload = pathlib.Path(folder) / "workload.yaml"
        workload.write_text("workload: {trace: {file: trace.jsonl, loop: closed}}\n")
        process = subprocess.Popen([BINARY, "loadgen", "--target", server.url, "--model", "m", "-f", workload], stdout=subprocess.PIPE, text=True)
        try:
            url = "http://127.0.0.1:" + re.search(r"ready http=(\d+)", process.stdout.readline()).group(1)

            def ask(path, body=None):
                request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                    return json.load(answer)

            for turns in (5, 10):
                ask("/start", {"concurrency": 2})
                eventually(lambda: ask("/status")["state"] == "idle", "the load runs out")
                status = ask("/status")
                assert status["turns"]["succeeded"] == turns and status["in_flight"] == 0, status
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()
            process.wait()


def what_is_started_after_a_stop_is_in_no_figure():
    """The command ordered two conversations at once; who stops them and starts twenty others gets the two in the summary."""
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([BINARY, "loadgen", "--target", server.url, "--model", "m", "--concurrency", "2", "--input-tokens", "20",
                                    "--output-tokens", str(TOKENS), "--output", folder], stdout=subprocess.PIPE, text=True)
        try:
            url = "http://127.0.0.1:" + re.search(r"ready http=(\d+)", process.stdout.readline()).group(1)

            def ask(path, body):
                asked = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
                with urllib.request.urlopen(asked, timeout=DEADLINE_S) as answer:
                    return json.load(answer)

            eventually(lambda: len(server.requests) >= 20, "the ordered load")
            ask("/stop", {})
            ordered = len(server.requests)
            ask("/start", {"concurrency": 20, "seed": 77})
            eventually(lambda: len(server.requests) >= ordered + 100, "the other load")
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=DEADLINE_S)[0]
            assert process.returncode == 0 and "stopped through the control API" in said, said
        finally:
            process.kill()
            process.wait()
        summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
        lines = (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()
        assert summary["requests"]["sent"] == ordered == len(lines), (summary["requests"], ordered, len(lines))
        assert summary["concurrency"] == 2, summary


def what_was_measured_outlives_the_terminal():
    """Nobody reads what it prints, and the terminal is closed: the files are written."""
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([BINARY, "loadgen", "--target", server.url, "--model", "m", "--concurrency", "2", "--input-tokens", "20",
                                    "--output-tokens", str(TOKENS), "--output", folder], stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        process.stdout.close()
        eventually(lambda: len(server.requests) >= 4, "the load")
        process.send_signal(signal.SIGHUP)
        assert process.wait(DEADLINE_S) == 0
        summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
        assert summary["requests"]["succeeded"] >= 4, summary["requests"]


def files_of_an_earlier_load_are_not_mixed_with_those_of_a_later_one():
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        loadgen(server.url, "--concurrency", 2, "--requests", 6, "--input-tokens", 20, "--output-tokens", TOKENS, "--output", folder, "--export", "all")
        (pathlib.Path(folder) / "notes.txt").write_text("mine")
        loadgen(server.url, "--concurrency", 2, "--requests", 4, "--input-tokens", 20, "--output-tokens", TOKENS, "--output", folder, "--export", "vllm")
        assert sorted(path.name for path in pathlib.Path(folder).iterdir()) == ["notes.txt", "requests.jsonl", "summary.json", "vllm.json"]


def cached_tokens_that_nobody_reports_are_unknown():
    server = ChatServer(cached=False)
    with tempfile.TemporaryDirectory() as folder:
        done = loadgen(server.url, "--concurrency", 2, "--requests", 4, "--input-tokens", 20, "--output-tokens", TOKENS, "--output", folder)
        assert "cache    -: the target does not say how many prompt tokens were cached" in done.stdout, done.stdout
        assert json.loads((pathlib.Path(folder) / "summary.json").read_text())["tokens"]["cached"] is None
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()]
        assert lines and all(line["cached_tokens"] is None and line["prompt_tokens"] > 0 for line in lines), lines[:2]


def the_progress_line_leaves_the_window_of_the_metrics_as_it_is():
    server = ChatServer()
    process = subprocess.Popen([BINARY, "loadgen", "--target", server.url, "--model", "m", "--concurrency", "2", "--input-tokens", "20", "--progress", "100ms"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        url = "http://127.0.0.1:" + re.search(r"ready http=(\d+)", process.stdout.readline()).group(1)
        eventually(lambda: len(server.requests) > 20, "requests")
        with urllib.request.urlopen(url + "/status", timeout=DEADLINE_S) as answer:
            status = json.load(answer)
        assert status["window_s"] == 60 and status["target_rps"] == 0 and status["dropped_start_slots"] == 0, status
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0 and re.search(r"2 in flight, \d+ done, 0 failed, .* turns/s", errors), errors[-2000:]
    finally:
        process.kill()
        process.wait()


def a_wrong_model_ends_the_load_at_once():
    with deployment(gateway=False, workers=1) as (_, workers):
        for threads in (1, 2):
            done = loadgen(workers[0].url, "--model", "none", "--concurrency", 4, "--duration", "1h", "--input-tokens", 20, "--threads", threads, ok=False)
            wanted = "the first 8 answers all refuse the load, so there is nothing to measure: HTTP 404: model: \"none\" is not served here"
            assert wanted in done.stderr and "check the model's name" in done.stderr, (threads, done.stderr)


def secrets_are_in_no_file():
    """Neither those of the command line nor those that a server quotes in its refusal."""
    server = ChatServer(refuse_quoting="Authorization")
    with tempfile.TemporaryDirectory() as folder:
        key = pathlib.Path(folder) / "key"
        key.write_text("sk-first-secret\n")
        for i, options in enumerate((("--api-key-file", key), ("--header", "Authorization: Bearer sk-first-secret", "--header=X-Api-Key: sk-second-secret",
                                                               "--path", "/v1/chat/completions?key=sk-third-secret"))):
            out = pathlib.Path(folder) / f"out{i}"
            done = loadgen(server.url, "--concurrency", 1, "--requests", 2, "--input-tokens", 20, *options, "--output", out, "--export", "all", ok=False)
            assert "HTTP 401" in done.stdout and "no access with" in done.stdout, done.stdout
            assert len(server.requests) == 2 * (i + 1) and server.requests[-1][1]["Authorization"] == "Bearer sk-first-secret"
            for text in (done.stdout, done.stderr, *(path.read_text() for path in out.iterdir())):
                assert "secret" not in text.replace("api-key-file", ""), text
        assert server.requests[-1][1]["X-Api-Key"] == "sk-second-secret" and server.requests[-1][0].endswith("sk-third-secret")
        done = loadgen(server.url, "--concurrency", 1, "--header", "X-A: b", "Authorization: Bearer sk-first-secret", "--output", folder, ok=False)
        assert len(server.requests) == 4, "a second value of one --header is no header"


def patch(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="PATCH")
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        return json.load(answer)


def a_load_is_changed_while_it_runs():
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        load = subprocess.Popen([BINARY, "loadgen", "--target", server.url, "--model", "m", "--rate", "0.01", "--arrivals", "constant", "--input-tokens", "20",
                                 "--port", "0", "--output", folder, "--progress", "0s", "--calibration", "none"], stdout=subprocess.PIPE, text=True)
        control = f"http://127.0.0.1:{load.stdout.readline().split('http=')[1].strip()}/load"
        eventually(lambda: len(server.requests) == 1, "the first request")
        assert patch(control, {"rate": 100})["target_rps"] == 100
        eventually(lambda: len(server.requests) >= 50, "fifty requests")
        assert patch(control, {"rate": 0.01})["concurrency"] == 1  # starts per minute
        load.send_signal(signal.SIGINT)
        out, _ = load.communicate(timeout=DEADLINE_S)
        summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()]
    assert "the load was changed: 100 starts/s" in out, out
    first, second = summary["changes"]
    assert (first["rate_per_s"], second["rate_per_s"]) == (100, 0.01) and first["at_s"] < second["at_s"], summary["changes"]
    # A hundredth of a gap at the old rate has passed for each second before the change; then there is one every 10 ms.
    due = sorted(line["intended_s"] for line in lines)
    begin = first["at_s"] + (1 - 0.01 * first["at_s"]) / 100
    assert all(abs(at - (begin + 0.01 * i)) < 1e-6 for i, at in enumerate(due[1:]) if at <= second["at_s"]), (first, due[:5])
    assert all(first["at_s"] < at <= second["at_s"] for at in due[1:])


def connections_come_from_the_addresses_that_were_given():
    server = ChatServer()
    peers = set()
    process = server.server.process_request
    server.server.process_request = lambda request, address: (peers.add(address[0]), process(request, address))
    done = loadgen(server.url, "--concurrency", 6, "--requests", 24, "--input-tokens", 20, "--source-addresses", "127.0.0.2-127.0.0.4")
    assert "24 succeeded" in done.stdout, done.stdout
    assert peers == {"127.0.0.2", "127.0.0.3", "127.0.0.4"}, peers
    done = loadgen(server.url, "--concurrency", 1, "--source-addresses", "192.0.2.1", ok=False)
    assert "--source-addresses: cannot connect from 192.0.2.1" in done.stderr, done.stderr


def lengths_are_in_the_tokens_of_a_tokenizer():
    server = ChatServer(usage=False)
    folder = pathlib.Path(__file__).parents[1] / "golden" / "vllm" / "llama3"
    with tempfile.TemporaryDirectory() as out:
        done = loadgen(server.url, "--concurrency", 1, "--requests", 3, "--input-tokens", 33, "--tokenizer", folder, "--prompt-ids", "encoded", "--output", out)
        summary = json.loads((pathlib.Path(out) / "summary.json").read_text())
    assert [len(body["prompt"]) for _, _, body in server.requests] == [33] * 3
    assert "by the tokenizer" in done.stdout and summary["tokens"]["output_counted_by"] == "tokenizer"
    # "w0 w1 ... " has more tokens than chunks.
    assert summary["tokens"]["output"] > 3 * TOKENS


def follow_ups_and_recorded_replies_are_what_is_said():
    server = ChatServer()
    with tempfile.TemporaryDirectory() as folder:
        chats = pathlib.Path(folder) / "chats.jsonl"
        chats.write_text(json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "recorded"}, {"role": "user", "content": "b"}]}))
        loadgen(server.url, "--concurrency", 1, "--requests", 2, "--dataset", chats, "--replies", "recorded")
        lines = pathlib.Path(folder) / "follow.txt"
        lines.write_text("Why?\nAnd then?\n")
        loadgen(server.url, "--concurrency", 1, "--requests", 4, "--turns", "list:4", "--follow-ups", lines)
    assert [message["content"] for message in server.requests[1][2]["messages"]] == ["a", "recorded", "b"]
    said = [body["messages"][-1]["content"] for _, _, body in server.requests[3:]]
    assert set(said) <= {"Why?", "And then?"} and len(said) == 3, said


def threads_send_what_one_thread_sends():
    asked, due = [], []
    for threads in (1, 3):
        server = ChatServer()
        with tempfile.TemporaryDirectory() as folder:
            done = loadgen(server.url, "--rate", 100, "--requests", 60, "--input-tokens", 40, "--seed", 4, "--threads", threads, "--output", folder)
            summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
            lines = [json.loads(line) for line in (pathlib.Path(folder) / "requests.jsonl").read_text().splitlines()]
        assert "60 succeeded" in done.stdout, done.stdout
        assert len(summary.get("client_loops", [None])) == threads
        asked.append(sorted((headers["X-Request-Id"], body["messages"][0]["content"]) for _, headers, body in server.requests))
        instants = {line["conversation"]: line["intended_s"] for line in lines}
        due.append([instants[i] - instants[0] for i in range(60)])
    assert asked[0] == asked[1], "the same requests"
    assert all(abs(a - b) < 1e-8 for a, b in zip(*due)), "at the same instants"
    with tempfile.TemporaryDirectory() as folder:  # a trace, whose chains stay together
        trace = pathlib.Path(folder) / "trace.jsonl"
        trace.write_text("".join(json.dumps({"timestamp": 10 * i, "input_length": 600, "output_length": 5, "hash_ids": [i, 50 + i]}) + "\n" for i in range(25)))
        sent = []
        for threads in (1, 3):
            server = ChatServer()
            loadgen(server.url, "--dataset", trace, "--threads", threads)
            sent.append(sorted((headers["X-Request-Id"], json.dumps(body)) for _, headers, body in server.requests))
        assert len(sent[0]) == 25 and sent[0] == sent[1]
    done = loadgen("http://127.0.0.1:1", "--concurrency", 2, "--threads", 3, ok=False)
    assert "2 conversations at once on 3 threads" in done.stderr, done.stderr


def several_threads_are_controlled_and_shown_as_one():
    """The control API, and the dashboard's page, at the port of a load on two threads."""
    server = ChatServer()
    for options, path in ((("--no-dashboard",), "/status"), ((), "/dashboard/")):
        load = subprocess.Popen([BINARY, "loadgen", "--target", server.url, "--model", "m", "--concurrency", "4", "--threads", "2", "--port", "0",
                                 "--input-tokens", "20", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = "http://127.0.0.1:" + re.match(r"ready http=(\d+)", load.stdout.readline()).group(1)
            with urllib.request.urlopen(url + path, timeout=DEADLINE_S) as answer:
                assert answer.status == 200
            if options:
                change = urllib.request.Request(url + "/load", data=b'{"concurrency": 9}', method="PATCH", headers={"Content-Type": "application/json"})
                with urllib.request.urlopen(change, timeout=DEADLINE_S) as answer:
                    assert json.load(answer)["concurrency"] == 9
            before = len(server.requests)
            eventually(lambda: len(server.requests) > before + 30, "turns")
            load.send_signal(signal.SIGINT)
            out, _ = load.communicate(timeout=DEADLINE_S)
            assert load.returncode == 0 and ("the load was changed: 9 at once" in out) == bool(options), out
        finally:
            load.kill()


def a_deployment_is_driven_to_its_end():
    with deployment(workers=2) as (gateway, _):
        done = loadgen(gateway.url, "--model", "test-model", "--concurrency", 8, "--requests", 40, "--input-tokens", 200, "--output-tokens", "5-20", "--turns", "2-3")
        assert "40 succeeded, 0 failed" in done.stdout, done.stdout


def wrong_options_are_refused_with_what_would_be_right():
    for options, wanted in ((("--rate", 0), "--rate"), (("--rate", 1, "--arrivals", "uniform"), "poisson, constant, gamma, bursts"),
                            (("--concurrency", 1, "--input-tokens", "9-3"), "the first end is above the second"),
                            (("--concurrency", 1, "--header", "no colon"), "want \"Name: value\""),
                            (("--rate", 1, "--rate-profile", "5"), "like 0s:0.1,60s:1"),
                            (("--concurrency", 1, "--output", "/tmp", "--export", "k6"), "there are vllm, aiperf"),
                            (("--concurrency", 1, "--requests", -5), "-5: want a whole number"),
                            (("--concurrency", 1, "--no-dashboard", "--slo", "ttft_p95=1s"), "--slo excludes --no-dashboard"),
                            (("--concurrency", 1, "--dataset", "/nowhere"), "/nowhere: cannot be opened")):
        done = loadgen("http://127.0.0.1:1", *options, ok=False)
        assert wanted in done.stderr, (options, done.stderr)


run([what_is_started_after_a_stop_is_in_no_figure, what_was_measured_outlives_the_terminal, files_of_an_earlier_load_are_not_mixed_with_those_of_a_later_one,
     cached_tokens_that_nobody_reports_are_unknown, an_open_loop_sends_its_requests_and_says_what_it_measured, the_same_seed_is_the_same_schedule_and_the_same_texts,
     rates_count_what_falls_into_the_window, the_drain_of_a_load_that_ends_itself_is_not_in_its_window,
     a_load_that_is_shorter_than_its_answers_says_so, arrivals_that_are_held_back_are_not_as_ordered, a_wrong_model_ends_the_load_at_once, secrets_are_in_no_file, a_load_of_the_control_api_that_runs_out_leaves_it_idle,
     the_progress_line_leaves_the_window_of_the_metrics_as_it_is, without_usage_answers_count_by_chunks, data_sets_are_sent_with_live_replies,
     prompts_of_token_ids_have_exact_lengths_and_common_prefixes, workloads_are_mixed_by_weight, users_think_before_they_go_on,
     token_ids_reach_the_workers_of_a_deployment, a_load_is_changed_while_it_runs, connections_come_from_the_addresses_that_were_given,
     threads_send_what_one_thread_sends, several_threads_are_controlled_and_shown_as_one, lengths_are_in_the_tokens_of_a_tokenizer, follow_ups_and_recorded_replies_are_what_is_said,
     a_deployment_is_driven_to_its_end, wrong_options_are_refused_with_what_would_be_right])
