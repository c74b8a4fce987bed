"""Texts that are scored, not written: log probabilities of a prompt, as evaluation harnesses ask for them, and the best of several
answers. The requests are those of lm-eval's `local-completions` (tests/peers/lm_eval_test.py has the harness itself)."""
import json
import math

from computing import complete, serving, start_gateway
from conversations import starter
from deployment import deployment, metrics, request, run


def tokens_of(worker, text):
    status, _, answer = request(worker.url + "/tokenize", {"model": "test-model", "prompt": text})
    assert status == 200, answer
    return json.loads(answer)["tokens"]


def post(server, **fields):
    return request(server.url + "/v1/completions", {"model": "test-model", "temperature": 0, **fields})


def ask(server, **fields):
    status, _, text = post(server, **fields)
    assert status == 200, (status, text)
    return json.loads(text)


def is_near(one, other):
    """Two ways to compute the same, up to the order of a few sums."""
    return len(one) == len(other) and all(a == b if None in (a, b) else math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-4)
                                          for a, b in zip(one, other))


def a_prompt_has_the_log_probabilities_that_its_tokens_have_as_answers():
    """Whatever computes the answer's tokens one by one is the judge of the prompt's."""
    with serving("kv_blocks: 512") as (_, _, (worker,)):
        prompt = tokens_of(worker, starter(1, 20))
        answer = complete(worker, prompt, max_tokens=40, logprobs=3, return_token_ids=True)["choices"][0]
        whole = prompt + answer["token_ids"]
        for most, given in ((1, len(whole) + 1), (0, len(whole))):
            scored = ask(worker, prompt=whole, max_tokens=most, logprobs=3, echo=True)
            choice, usage = scored["choices"][0], scored["usage"]
            logprobs = choice["logprobs"]
            assert {len(values) for values in logprobs.values()} == {given}, {key: len(v) for key, v in logprobs.items()}
            assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
            here = slice(len(prompt), len(whole))
            assert is_near(logprobs["token_logprobs"][here], answer["logprobs"]["token_logprobs"])
            assert logprobs["tokens"][here] == answer["logprobs"]["tokens"]
            for one, other in zip(logprobs["top_logprobs"][here], answer["logprobs"]["top_logprobs"]):
                assert list(one) == list(other) and is_near(list(one.values()), list(other.values())), (one, other)
            ends = [offset + len(token) for offset, token in zip(logprobs["text_offset"], logprobs["tokens"])]
            assert logprobs["text_offset"][:len(prompt)] == [0] + ends[:len(prompt) - 1], "the answer's tokens may be parts of characters"
            assert usage["prompt_tokens"] == len(whole) and usage["completion_tokens"] == most, usage
            assert choice["finish_reason"] == "length", choice["finish_reason"]


def what_is_cached_is_computed_again_for_it():
    with serving("kv_blocks: 512") as (_, _, (worker,)):
        prompt = starter(2, 100)
        score = {"prompt": prompt, "max_tokens": 1, "logprobs": 1, "echo": True}
        cold = ask(worker, **score)
        before = metrics(worker)["vllm:prefix_cache_queries_total"]
        warm = ask(worker, **score)
        assert cold["choices"] == warm["choices"]
        assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert metrics(worker)["vllm:prefix_cache_queries_total"] == before, "it asked nothing of the cache"
        plain = ask(worker, prompt=prompt, max_tokens=1)
        assert plain["usage"]["prompt_tokens_details"]["cached_tokens"] > 80, "what it computed is cached for others"


def an_echo_is_the_text_and_a_stream_has_the_same():
    with serving("kv_blocks: 512") as (_, _, (worker,)):
        prompt = starter(3, 60) + " naïve\n"
        plain = ask(worker, prompt=prompt, max_tokens=5)["choices"][0]["text"]
        for fields in ({}, {"logprobs": 1}, {"logprobs": 0, "n": 2, "max_tokens": 9}, {"max_tokens": 0, "logprobs": 2}):
            body = {"prompt": prompt, "echo": True, "max_tokens": 5, **fields}
            whole = ask(worker, **body)["choices"]
            assert whole[0]["text"].startswith(prompt) and (fields or whole[0]["text"] == prompt + plain)
            status, _, text = post(worker, stream=True, **body)
            assert status == 200, text
            events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
            for choice in whole:
                mine = [e["choices"][0] for e in events if e["choices"][0]["index"] == choice["index"]]
                assert "".join(c["text"] for c in mine) == choice["text"]
                for name, values in (choice["logprobs"] or {}).items():
                    assert sum((c["logprobs"][name] for c in mine if c["logprobs"]), []) == values, name
        several = ask(worker, prompt=["one", "two"], echo=True, n=2, max_tokens=1)["choices"]
        assert [c["text"][:3] for c in several] == ["one", "one", "two", "two"] and [c["index"] for c in several] == [0, 1, 2, 3]


def prompt_logprobs_are_by_token_id():
    """In vLLM's form: null for the first token, then {id: {logprob, rank, decoded_token}}, the token itself before the likeliest."""
    with serving("kv_blocks: 512") as (_, _, (worker,)):
        prompt = tokens_of(worker, starter(4, 30))
        echoed = ask(worker, prompt=prompt, max_tokens=1, echo=True, logprobs=2)["choices"][0]["logprobs"]
        choice = ask(worker, prompt=prompt, max_tokens=1, prompt_logprobs=2)["choices"][0]
        assert choice["logprobs"] is None
        positions = choice["prompt_logprobs"]
        assert positions[0] is None and len(positions) == len(prompt)
        for i, position in enumerate(positions[1:], 1):
            own, *others = position.items()
            assert own[0] == str(prompt[i]) and set(own[1]) == {"logprob", "rank", "decoded_token"}, position
            assert math.isclose(own[1]["logprob"], echoed["token_logprobs"][i], rel_tol=1e-5)
            ranked = {value["rank"]: value["logprob"] for value in position.values()}
            assert {1, 2} <= set(ranked) and sorted(ranked.values(), reverse=True) == [ranked[r] for r in sorted(ranked)]
        chat = {"model": "test-model", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "prompt_logprobs": 0}
        status, _, text = request(worker.url + "/v1/chat/completions", chat)
        answer = json.loads(text)
        assert status == 200 and len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"], text
        assert "prompt_logprobs" not in answer["choices"][0]


def mean(choice):
    values = choice["logprobs"]["token_logprobs"]
    return sum(values) / len(values)


def the_best_answers_are_the_likeliest_per_token():
    with serving("kv_blocks: 512") as (_, _, (worker,)):
        for prompts in (["Once upon"], ["Once upon", "a time"]):
            drawn = {"prompt": prompts, "temperature": 1.2, "seed": 5, "max_tokens": 12, "logprobs": 0, "ignore_eos": True}
            every = ask(worker, n=6, **drawn)["choices"]
            best = ask(worker, n=2, best_of=6, **drawn)
            for number in range(len(prompts)):
                ranked = sorted(every[6 * number:6 * number + 6], key=mean, reverse=True)
                given = best["choices"][2 * number:2 * number + 2]
                assert [c["text"] for c in given] == [c["text"] for c in ranked[:2]], (given, ranked)
            assert [c["index"] for c in best["choices"]] == list(range(2 * len(prompts)))
            assert best["usage"]["completion_tokens"] == 12 * 6 * len(prompts), "what was generated was computed"
        drawn.pop("logprobs")
        one = ask(worker, best_of=6, **drawn)
        assert one["choices"][0]["logprobs"] is None and one["choices"][0]["text"] == best["choices"][0]["text"]


def refused(server, status, what, **fields):
    got, _, text = post(server, prompt="a", **fields)
    assert got == status and what in json.loads(text)["error"]["message"], (got, text)


def what_cannot_be_is_refused_by_name():
    with serving("kv_blocks: 512") as (_, _, (worker,)):
        refused(worker, 400, "best_of: expected at least n, which is 3, got 2", n=3, best_of=2)
        refused(worker, 400, "best_of: the best answers are known when all have ended", best_of=2, stream=True)
        refused(worker, 400, "best_of: expected an integer from 1 to 128", best_of=129)
        refused(worker, 400, "prompt_logprobs: only a whole answer has them", prompt_logprobs=1, stream=True)
        refused(worker, 400, "prompt_logprobs: expected an integer from 0 to 20, got -1", prompt_logprobs=-1)
        refused(worker, 400, "max_tokens: expected an integer from 1", max_tokens=0)
        got, _, text = post(worker, prompt=[[5] * 400] * 100, prompt_logprobs=20, max_tokens=1)
        assert got == 400 and "840000 log probabilities of the prompt, at most 262144" in text, (got, text)
        got, _, text = post(worker, prompt=["a"] * 100, best_of=3)
        assert got == 400 and "best_of: 3 answers to 100 prompts are more than 256" in text, (got, text)
    with deployment(workers=1, gateway=False) as (_, (timed,)):
        refused(timed, 422, "prompt_logprobs: not supported by the timed engine", prompt_logprobs=1)
        refused(timed, 422, "echo: log probabilities of the prompt are not supported by the timed engine", echo=True, logprobs=1)
        plain = ask(timed, prompt="Once", max_tokens=4, seed=1)["choices"][0]["text"]
        assert ask(timed, prompt="Once", max_tokens=4, seed=1, echo=True)["choices"][0]["text"] == "Once" + plain
        assert len(ask(timed, prompt="Once", max_tokens=4, best_of=3, temperature=1)["choices"]) == 1


def it_is_the_same_through_the_gateway():
    with serving("kv_blocks: 512") as (folder, model, workers):
        gateway = start_gateway(folder, model, workers)
        try:
            prompt = starter(5, 80)
            for fields in ({"echo": True, "logprobs": 1, "max_tokens": 1}, {"prompt_logprobs": 1, "max_tokens": 1}, {"best_of": 3, "max_tokens": 4}):
                assert ask(gateway, prompt=prompt, **fields)["choices"] == ask(workers[0], prompt=prompt, **fields)["choices"]
            status, headers, text = post(gateway, prompt=prompt, echo=True, logprobs=1, max_tokens=1)
            assert status == 200 and headers["x-kvist-predicted-cached-tokens"] == "0", (headers, text)
        finally:
            gateway.stop()


if __name__ == "__main__":
    run([a_prompt_has_the_log_probabilities_that_its_tokens_have_as_answers, what_is_cached_is_computed_again_for_it,
         an_echo_is_the_text_and_a_stream_has_the_same, prompt_logprobs_are_by_token_id, the_best_answers_are_the_likeliest_per_token,
         what_cannot_be_is_refused_by_name, it_is_the_same_through_the_gateway])
