"""Workers that compute: a tiny random model behind the real server, alone and behind the gateway.

An answer depends on its request alone, not on caching, drafting, preemption or other requests of the batch.
"""
import filecmp
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

from computing import complete, content, serving, start_gateway
from conversations import chat, starter
from deployment import BINARY, create_model, eventually, get_json, metrics, run


def a_model_is_created_the_same_to_the_byte():
    with tempfile.TemporaryDirectory() as folder:
        one, two = (create_model(pathlib.Path(folder) / name) for name in ("one", "two"))
        names = sorted(path.name for path in one.iterdir())
        assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= set(names), names
        same, different, wrong = filecmp.cmpfiles(one, two, names, shallow=False)
        assert not different and not wrong and sorted(same) == names, (different, wrong)


def the_command_line_serves_a_model_and_says_where_the_memory_goes():
    with tempfile.TemporaryDirectory() as folder:
        model = create_model(pathlib.Path(folder) / "model")
        command = [BINARY, "worker", "--engine", "cpu", "--model", model, "--memory", "256 MiB", "--threads", "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
            try:
                ready = ""
                while not ready.startswith("ready "):
                    ready = worker.stdout.readline()
                    assert ready, worker.stderr.read()
                port = dict(item.split("=") for item in ready.split()[1:])["http"]
                models = get_json(f"http://127.0.0.1:{port}/v1/models")["data"]
                assert [m["id"] for m in models] == ["model"], models
            finally:
                worker.send_signal(signal.SIGTERM)
                log = worker.stderr.read()
        assert "weights" in log and "KV blocks" in log, log
        refused = subprocess.run([*command[:6], "--memory", "1 MiB"], capture_output=True, text=True)
        assert refused.returncode == 1 and "MiB" in refused.stderr, refused


def it_listens_on_addresses_of_both_kinds():
    with tempfile.TemporaryDirectory() as folder:
        model = create_model(pathlib.Path(folder) / "model")
        command = [BINARY, "worker", "--engine", "cpu", "--model", model, "--memory", "256 MiB", "--threads", "1", "--host", "::"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
            try:
                ready = worker.stdout.readline()
                assert ready.startswith("ready "), worker.stderr.read()
                ports = dict(item.split("=") for item in ready.split()[1:])
                for host in ("[::1]", "127.0.0.1"):
                    assert [m["id"] for m in get_json(f"http://{host}:{ports['http']}/v1/models")["data"]] == ["model"]
                for host in ("::1", "127.0.0.1"):
                    socket.create_connection((host, int(ports["kv_events"])), timeout=10).close()
            finally:
                worker.send_signal(signal.SIGTERM)
                worker.stderr.read()


def what_is_cached_changes_no_answer():
    with serving("kv_blocks: 512") as (_, _, (worker,)):
        prompt = starter(1, 120)
        cold = complete(worker, prompt)
        warm = complete(worker, prompt)
        assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        cached = warm["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert cached >= warm["usage"]["prompt_tokens"] - 17, warm["usage"]
        assert content(cold) == content(warm)


def another_text_with_the_same_hash_changes_no_answer():
    # Two first blocks of prompts to test-model, of one hash (tests/engine/block_contents_test.cc says how the second was found).
    one = list(range(10, 26))
    other = [1076, 1184, 34, 581, 14, 15, 16, 17, 18, 19, 102, 473, 1005, 1117, 566, 904]
    with serving("kv_blocks: 512", "kv_blocks: 512") as (_, _, (clean, poisoned)):
        expected = content(complete(clean, one + [30, 31]))
        complete(poisoned, other + [30, 31])
        assert len(get_json(poisoned.admin + "/debug/kv_blocks")["blocks"]) == 2, "the prompt's block and one of the answer"
        assert content(complete(poisoned, one + [30, 31])) == expected
        names = {name for name, _ in get_json(clean.admin + "/debug/kv_blocks")["blocks"]}
        shared = [copies for name, copies in get_json(poisoned.admin + "/debug/kv_blocks")["blocks"] if name in names]
        assert sorted(shared) == [1, 2], "both first blocks have one name"
        again = complete(poisoned, one + [30, 31])
        assert content(again) == expected and again["usage"]["prompt_tokens_details"]["cached_tokens"] == 16


def drafts_change_no_answer_and_some_are_right():
    drafting = "speculation: {drafter: prompt_lookup, draft_length: fixed, draft_tokens: 5}"
    with serving("kv_blocks: 512", drafting) as (_, _, (plain, speculative)):
        for fields in ({}, {"temperature": 0.8, "seed": 3}, {"temperature": 1, "seed": 4, "top_p": 0.9, "frequency_penalty": 0.5}):
            for number in range(3):
                prompt = starter(number, 40)
                assert content(complete(plain, prompt, max_tokens=60, **fields)) == content(complete(speculative, prompt, max_tokens=60, **fields))
        # A step may have drafts behind the token that completes a stop string.
        prompt = "the harbour the lantern " * 4
        stop = content(complete(plain, prompt, max_tokens=60))[0][0][-3:]
        for least in range(20, 30):
            fields = {"max_tokens": 60, "stop": [stop], "min_tokens": least, "return_token_ids": True}
            one, other = ({"tokens": answer["usage"]["completion_tokens"], "choices": answer["choices"]}
                          for answer in (complete(worker, prompt, **fields) for worker in (plain, speculative)))
            assert one == other and least < one["tokens"] < 60, (least, one, other)
        counts = metrics(speculative)
        drafted = counts["vllm:spec_decode_num_draft_tokens_total"]
        assert drafted > 0 and counts["vllm:spec_decode_num_accepted_tokens_total"] > 0, counts


def what_is_computed_beside_it_or_twice_changes_no_answer():
    # 40 blocks of 16 tokens: some of eight requests are preempted and computed again.
    with serving("kv_blocks: 512", "kv_blocks: 40\n  admission: greedy") as (_, _, (roomy, tight)):
        prompts = [starter(10 + i, 30) for i in range(8)]
        alone = [content(complete(roomy, prompt, max_tokens=90)) for prompt in prompts]
        together = [[choice] for choice in content(complete(tight, prompts, max_tokens=90))]  # one request: they run at the same time
        assert alone == together
        assert metrics(tight)["vllm:num_preemptions_total"] > 0


def sampling_follows_seed_stop_and_number():
    with serving("kv_blocks: 512") as (_, _, (worker,)):
        prompt = starter(2, 30)
        drawn = [content(complete(worker, prompt, temperature=1, seed=seed)) for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]
        both = complete(worker, prompt, temperature=1, seed=1, n=2)
        assert content(both)[0] == drawn[0][0] and content(both)[1] != drawn[0][0]
        text, tokens, logprobs = content(complete(worker, prompt))[0]
        assert len(tokens) == len(logprobs) == 24 and all(p <= 0 for p in logprobs)
        # The second half of the answer, as a stop string, ends it earlier.
        stop = text[len(text) // 2:][:6]
        stopped = complete(worker, prompt, stop=[stop])["choices"][0]
        assert stopped["finish_reason"] == "stop" and stopped["text"] == text[:text.index(stop)], (stopped, text, stop)
        eventually(lambda: metrics(worker)["vllm:num_requests_running"] == 0, "the stopped request left the engine")
        banned = complete(worker, prompt, logit_bias={"5": 100}, max_tokens=3)
        assert len(set(banned["choices"][0]["logprobs"]["tokens"])) == 1


def special_tokens_are_left_out_or_spelled():
    with serving("kv_blocks: 512") as (_, model, (worker,)):
        tokens = json.loads((model / "tokenizer.json").read_text())["added_tokens"]
        special = next(token for token in tokens if token["special"] and "end" not in token["content"])

        def text(**fields):
            return complete(worker, "Once", max_tokens=2, logit_bias={str(special["id"]): 100}, **fields)["choices"][0]["text"]
        assert text() == text(skip_special_tokens=True) == ""
        assert text(skip_special_tokens=False) == 2 * special["content"]
        # What ends an answer is no part of it, unless asked for.
        assert text(skip_special_tokens=False, stop_token_ids=[special["id"]]) == ""
        assert text(skip_special_tokens=False, stop_token_ids=[special["id"]], include_stop_str_in_output=True) == special["content"]


def a_conversation_goes_on_when_its_worker_dies():
    with serving("kv_blocks: 512", "kv_blocks: 512") as (folder, model, workers):
        gateway = start_gateway(folder, model, workers)
        try:
            messages, homes = [{"role": "user", "content": starter(3, 100)}], []
            alive = list(workers)

            def index_is_the_truth():
                status = {w["name"]: w["indexed_blocks"] for w in get_json(gateway.admin + "/admin/status")["workers"]}
                return all(status[w.name] == len(get_json(w.admin + "/debug/kv_blocks")["blocks"]) for w in alive)

            for turn_number in range(6):
                # KV events use another connection than answers and may arrive later.
                eventually(index_is_the_truth, "the gateway knows what the workers hold")
                turn, text = chat(gateway.ports["http"], messages, 16)
                assert turn.succeeded and text, turn
                homes.append(turn.worker)
                if turn_number in (1, 2, 4, 5):
                    assert turn.cached_tokens > 150 and turn.predicted_tokens == turn.cached_tokens, (turn_number, turn)
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"Tell me more of it, {turn_number}."}]
                if turn_number == 2:
                    assert len(set(homes)) == 1, homes
                    home = next(w for w in workers if w.name == homes[0])
                    alive.remove(home)
                    home.process.kill()
                    home.process.wait()
            assert homes[3] != homes[2] and len(set(homes[3:])) == 1, homes
        finally:
            gateway.stop()


run([a_model_is_created_the_same_to_the_byte, the_command_line_serves_a_model_and_says_where_the_memory_goes,
     it_listens_on_addresses_of_both_kinds, what_is_cached_changes_no_answer,
     another_text_with_the_same_hash_changes_no_answer, drafts_change_no_answer_and_some_are_right,
     what_is_computed_beside_it_or_twice_changes_no_answer, sampling_follows_seed_stop_and_number, special_tokens_are_left_out_or_spelled,
     a_conversation_goes_on_when_its_worker_dies])
