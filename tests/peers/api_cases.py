"""The same requests sent to a worker directly and through the gateway: what a client sees must be the same.

    results = run_cases("http://127.0.0.1:8000", "http://127.0.0.1:9000", "served-model-name")
    print_report(results); assert not unintended(results)

Needs Python's standard library, and nothing of the worker but that it answers the same request the same way twice: the cases ask
for greedy tokens or give a seed. api_compare.py compares. Intended differences are listed in INTENDED, each with its reason:
docs/guide/api-fidelity.md says the same for users.

By hand: python3 tests/peers/api_cases.py DIRECT_URL GATEWAY_URL MODEL
"""
import dataclasses
import http.client
import json
import math
import re
import sys
import urllib.parse

from api_compare import Answer, compare

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
TIMEOUT_S = 120
HELLO = [{"role": "user", "content": "Tell me about the river, please."}]
TEXT = "The river runs to the sea and"
TOOL = {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


@dataclasses.dataclass
class Case:
    """One request. `body`: what is sent as JSON, or bytes that are sent as they are, or None."""
    name: str
    method: str
    path: str
    body: object = None
    headers: dict = dataclasses.field(default_factory=dict)
    refused_here: bool = False  # never sent to the worker: the gateway must answer 404


@dataclasses.dataclass
class CaseResult:
    case: Case
    direct: Answer
    gateway: Answer
    differences: list  # of text
    intended: str = ""  # the reasons; empty if a difference is not intended


@dataclasses.dataclass
class Intended:
    """An intended difference: which cases (a pattern of their names), which difference (a pattern of its text), why."""
    case: str
    difference: str
    why: str


INTENDED = [
    Intended(r"^(dev|page): ", r"^only the gateway",
             "what steers a worker (its cache, sleep, adapters, profiler) and its pages of numbers are not for the gateway's clients"),
    Intended(r"^path: unknown( posted)?$", r"^(body|header)",
             "a path that no OpenAI-compatible server has is refused by the gateway itself, with the worker's status"),
    Intended(r"^path: (responses|messages)( streamed)?$", r"",
             "the gateway translates these APIs itself, for workers that know them and for others"),
    Intended(r"^path: one model$", r"", "OpenAI has this path and vLLM has not: the gateway answers from the workers' lists"),
]


# ---- the cases -------------------------------------------------------------------------------------------------


def _chat_cases(model):
    base = {"model": model, "messages": HELLO, "max_tokens": 12, "temperature": 0, "seed": 11}
    said = {
        "as it is": {},
        "a seed and a temperature": {"temperature": 0.8, "seed": 5},
        "max_completion_tokens": {"max_tokens": None, "max_completion_tokens": 5},
        "one token": {"max_tokens": 1},
        "three choices": {"n": 3, "temperature": 0.9},
        "a stop string": {"stop": "e"},
        "stop strings": {"stop": ["qq", "a"], "include_stop_str_in_output": True},
        "stop token ids": {"stop_token_ids": [5, 7]},
        "logprobs": {"logprobs": True},
        "top logprobs": {"logprobs": True, "top_logprobs": 3},
        "sampling fields": {"top_p": 0.9, "top_k": 20, "min_p": 0.05, "temperature": 0.7},
        "penalties": {"presence_penalty": 0.5, "frequency_penalty": 0.25, "repetition_penalty": 1.1},
        "a logit bias": {"logit_bias": {"40": 50}},
        "min_tokens and ignore_eos": {"min_tokens": 6, "ignore_eos": True},
        "a system message": {"messages": [{"role": "system", "content": "Be short."}, *HELLO]},
        "several turns": {"messages": [*HELLO, {"role": "assistant", "content": "It is long."}, {"role": "user", "content": "How long?"}]},
        "content parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]}]},
        "an empty content": {"messages": [{"role": "user", "content": ""}]},
        "many scripts": {"messages": [{"role": "user", "content": "Héllo, 你好, привет, 🌊 שלום \u0000 \" \\ \n\t end"}]},
        "special tokens in a text": {"messages": [{"role": "user", "content": "a <|im_end|> b <|eot_id|> c <s> d </s>"}]},
        "a user and metadata": {"user": "u-1", "metadata": {"a": "b"}, "store": False},
        "unknown fields": {"kvist_unknown": {"a": [1, 2]}, "another": None},
        "a cache salt": {"cache_salt": "salt"},
        "response_format text": {"response_format": {"type": "text"}},
        "response_format json_object": {"response_format": {"type": "json_object"}},
        "tools and no choice": {"tools": [TOOL], "tool_choice": "none"},
        "tools and auto": {"tools": [TOOL], "tool_choice": "auto"},
        "no generation prompt": {"add_generation_prompt": False},
        "a continued message": {"messages": [*HELLO, {"role": "assistant", "content": "It"}], "add_generation_prompt": False,
                                "continue_final_message": True},
        "template arguments": {"chat_template_kwargs": {"enable_thinking": False}},
        "echo": {"echo": True},
        "special tokens added": {"add_special_tokens": True},
        "a truncated prompt": {"truncate_prompt_tokens": 8},
        "return_token_ids": {"return_token_ids": True},
        "prompt_logprobs": {"prompt_logprobs": 1},
        "no model": {"model": None},
    }
    for name, fields in said.items():
        body = {key: value for key, value in {**base, **fields}.items() if value is not None or key == "another"}
        yield Case(f"chat: {name}", "POST", CHAT, body)
    streamed = ["as it is", "three choices", "a stop string", "top logprobs", "min_tokens and ignore_eos", "many scripts", "tools and no choice",
                "one token", "return_token_ids", "no model", "unknown fields"]
    for name in streamed:
        body = {key: value for key, value in {**base, **said[name], "stream": True}.items() if value is not None}
        yield Case(f"chat stream: {name}", "POST", CHAT, body)
    for name, options in _stream_options().items():
        yield Case(f"chat stream: {name}", "POST", CHAT, {**base, "stream": True, "stream_options": options})
    yield Case("chat stream: three choices with usage", "POST", CHAT,
               {**base, "n": 3, "temperature": 0.9, "stream": True, "stream_options": {"include_usage": True}})


def _stream_options():
    return {
        "options null": None,
        "options empty": {},
        "usage": {"include_usage": True},
        "no usage": {"include_usage": False},
        "continuous usage alone": {"continuous_usage_stats": True},
        "continuous usage and none at the end": {"include_usage": False, "continuous_usage_stats": True},
        "usage, continuous too": {"include_usage": True, "continuous_usage_stats": True},
        "unknown options": {"include_usage": True, "include_obfuscation": False},
    }


def _completion_cases(model):
    base = {"model": model, "prompt": TEXT, "max_tokens": 12, "temperature": 0, "seed": 11}
    said = {
        "as it is": {},
        "a seed and a temperature": {"temperature": 0.8, "seed": 5},
        "tokens": {"prompt": [11, 12, 13, 14, 15, 16, 17]},
        "prompts": {"prompt": [TEXT, "Another text", "A third one, which is longer than the others"]},
        "prompts of tokens": {"prompt": [[11, 12, 13], [14, 15, 16, 17]]},
        "echo": {"echo": True},
        "echo and logprobs": {"echo": True, "logprobs": 2},
        "echo and no token": {"echo": True, "max_tokens": 0},
        "two choices": {"n": 2, "temperature": 0.9},
        "best of": {"best_of": 2, "temperature": 0.9},
        "logprobs": {"logprobs": 2},
        "logprobs of the chosen": {"logprobs": 0},
        "a suffix": {"suffix": " end"},
        "a stop string": {"stop": ["e"]},
        "no max_tokens": {"max_tokens": None},
        "an empty prompt": {"prompt": ""},
        "many scripts": {"prompt": "Héllo, 你好, привет, 🌊 שלום"},
        "a truncated prompt": {"truncate_prompt_tokens": 4},
        "no model": {"model": None},
    }
    for name, fields in said.items():
        body = {key: value for key, value in {**base, **fields}.items() if value is not None}
        yield Case(f"completion: {name}", "POST", COMPLETIONS, body)
    for name in ["as it is", "tokens", "prompts", "echo", "two choices", "logprobs", "a stop string", "no model"]:
        body = {key: value for key, value in {**base, **said[name], "stream": True}.items() if value is not None}
        yield Case(f"completion stream: {name}", "POST", COMPLETIONS, body)
    for name, options in _stream_options().items():
        yield Case(f"completion stream: {name}", "POST", COMPLETIONS, {**base, "stream": True, "stream_options": options})


def _bad_cases(model):
    raw = {
        "nothing": b"",
        "no JSON": b"{broken",
        "a list": b"[1, 2]",
        "a string": b"\"hello\"",
        "null": b"null",
        "cut off": b"{\"model\": \"m\", \"messages\": [{\"role\": \"user\"",
        "a comma too many": b"{\"model\": \"m\", \"messages\": [],}",
        "bytes that are no UTF-8": b"{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"\xff\xfe\"}]}",
        "a field twice": json.dumps({"messages": HELLO, "model": model, "temperature": 0, "max_tokens": 3}).encode()[:-1] + b", \"max_tokens\": 5}",
        "NaN": json.dumps({"model": model, "messages": HELLO, "max_tokens": 3, "temperature": math.nan}).encode(),
        "very deep": b"[" * 2000 + b"]" * 2000,
    }
    for name, body in raw.items():
        yield Case(f"bad chat: {name}", "POST", CHAT, body)
        if name in ("nothing", "no JSON"):
            yield Case(f"bad completion: {name}", "POST", COMPLETIONS, body)
    base = {"model": model, "messages": HELLO, "max_tokens": 4, "temperature": 0}
    wrong = {
        "another model": {"model": "another"},
        "a model that is a number": {"model": 5},
        "no messages": {"messages": None},
        "messages empty": {"messages": []},
        "messages that are a string": {"messages": "hello"},
        "a message without role": {"messages": [{"content": "x"}]},
        "a role that is a number": {"messages": [{"role": 1, "content": "x"}]},
        "a content that is a number": {"messages": [{"role": "user", "content": 3}]},
        "a part of no known type": {"messages": [{"role": "user", "content": [{"type": "smell", "smell": "x"}]}]},
        "max_tokens 0": {"max_tokens": 0},
        "max_tokens negative": {"max_tokens": -1},
        "max_tokens a word": {"max_tokens": "many"},
        "max_tokens too large": {"max_tokens": 10_000_000},
        "temperature negative": {"temperature": -1},
        "temperature a word": {"temperature": "hot"},
        "top_p too large": {"top_p": 2},
        "n 0": {"n": 0},
        "too many logprobs": {"logprobs": True, "top_logprobs": 1000},
        "stream a word": {"stream": "maybe"},
        "stream_options a word": {"stream": True, "stream_options": "usage"},
        "include_usage a word": {"stream": True, "stream_options": {"include_usage": "maybe"}},
        "stream_options without a stream": {"stream_options": {"include_usage": True}},
        "a response_format of no known type": {"response_format": {"type": "poem"}},
        "tools that are a string": {"tools": "weather"},
        "a seed too large": {"seed": 2**70},
        "a prompt too long": {"messages": [{"role": "user", "content": "word " * 40_000}]},
        "an empty cache salt": {"cache_salt": ""},
    }
    for name, fields in wrong.items():
        body = {key: value for key, value in {**base, **fields}.items() if value is not None}
        yield Case(f"bad chat: {name}", "POST", CHAT, body)
    base = {"model": model, "prompt": TEXT, "max_tokens": 4, "temperature": 0}
    wrong = {
        "another model": {"model": "another"},
        "no prompt": {"prompt": None},
        "prompt empty": {"prompt": []},
        "prompt a number": {"prompt": 5},
        "prompt mixed": {"prompt": ["a", 5]},
        "a token that is none": {"prompt": [1, 10_000_000]},
        "a token that is negative": {"prompt": [-5]},
        "max_tokens negative": {"max_tokens": -1},
        "too many logprobs": {"logprobs": 1000},
        "stop a number": {"stop": 5},
    }
    for name, fields in wrong.items():
        body = {key: value for key, value in {**base, **fields}.items() if value is not None}
        yield Case(f"bad completion: {name}", "POST", COMPLETIONS, body)
    good = json.dumps(base).encode()
    yield Case("bad completion: a content type that is none", "POST", COMPLETIONS, good, {"Content-Type": "text/plain"})
    yield Case("completion: no content type", "POST", COMPLETIONS, good, {"Content-Type": None})
    yield Case("completion: a charset", "POST", COMPLETIONS, good, {"Content-Type": "application/json; charset=utf-8"})
    yield Case("completion: a request id", "POST", COMPLETIONS, good, {"X-Request-Id": "abc-1"})
    yield Case("completion: a query", "POST", COMPLETIONS + "?a=b", good)


def _path_cases(model):
    yield Case("models: list", "GET", "/v1/models")
    yield Case("path: one model", "GET", "/v1/models/" + urllib.parse.quote(model, safe=""))
    yield Case("path: version", "GET", "/version")
    yield Case("path: ping", "GET", "/ping")
    yield Case("path: ping posted", "POST", "/ping")
    yield Case("path: chat got", "GET", CHAT)
    yield Case("path: chat put", "PUT", CHAT, {"model": model})
    yield Case("path: completions deleted", "DELETE", COMPLETIONS)
    yield Case("path: models posted", "POST", "/v1/models", {})
    yield Case("path: tokenize got", "GET", "/tokenize")
    yield Case("path: unknown below v1", "POST", "/v1/nothing", {"model": model})
    yield Case("path: unknown", "GET", "/nothing")
    yield Case("path: unknown posted", "POST", "/nothing/at/all", {"a": 1})
    posts = {
        "tokenize": ("/tokenize", {"model": model, "prompt": TEXT}),
        "tokenize a chat": ("/tokenize", {"model": model, "messages": HELLO}),
        "tokenize without a model": ("/tokenize", {"prompt": "Héllo 🌊"}),
        "tokenize nothing": ("/tokenize", {"model": model}),
        "detokenize": ("/detokenize", {"model": model, "tokens": [11, 12, 13]}),
        "detokenize words": ("/detokenize", {"model": model, "tokens": ["a"]}),
        "embeddings": ("/v1/embeddings", {"model": model, "input": TEXT}),
        "score": ("/score", {"model": model, "text_1": "a", "text_2": "b"}),
        "v1 score": ("/v1/score", {"model": model, "text_1": "a", "text_2": "b"}),
        "rerank": ("/rerank", {"model": model, "query": "a", "documents": ["b", "c"]}),
        "v1 rerank": ("/v1/rerank", {"model": model, "query": "a", "documents": ["b", "c"]}),
        "v2 rerank": ("/v2/rerank", {"model": model, "query": "a", "documents": ["b", "c"]}),
        "pooling": ("/pooling", {"model": model, "input": TEXT}),
        "classify": ("/classify", {"model": model, "input": TEXT}),
        "responses": ("/v1/responses", {"model": model, "input": "Tell me.", "max_output_tokens": 8, "temperature": 0, "store": False}),
        "responses streamed": ("/v1/responses", {"model": model, "input": "Tell me.", "max_output_tokens": 8, "temperature": 0,
                                                 "store": False, "stream": True}),
        "messages": ("/v1/messages", {"model": model, "max_tokens": 8, "temperature": 0, "messages": HELLO}),
        "messages streamed": ("/v1/messages", {"model": model, "max_tokens": 8, "temperature": 0, "messages": HELLO, "stream": True}),
    }
    for name, (path, body) in posts.items():
        yield Case(f"path: {name}", "POST", path, body)
    for path in ["/reset_prefix_cache", "/sleep", "/wake_up", "/collective_rpc", "/v1/load_lora_adapter", "/v1/unload_lora_adapter",
                 "/start_profile", "/v1/../reset_prefix_cache", "/v1/%2e%2e/sleep", "/v1//sleep", "/pause", "/scale_elastic_ep"]:
        yield Case(f"dev: {path}", "POST", path, {}, refused_here=True)
    for path in ["/server_info", "/is_sleeping", "/docs", "/openapi.json", "/debug/kv_blocks"]:
        yield Case(f"page: {path}", "GET", path, refused_here=True)


def all_cases(model):
    """The cases for a server of this model, in the order in which they are sent."""
    return [*_chat_cases(model), *_completion_cases(model), *_bad_cases(model), *_path_cases(model)]


# ---- sending ---------------------------------------------------------------------------------------------------


def send(base_url, case):
    """The answer to one case, on a connection of its own."""
    url = urllib.parse.urlsplit(base_url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=TIMEOUT_S)
    body = case.body
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if body is not None else {}
    headers = {name: value for name, value in {**headers, **case.headers}.items() if value is not None}
    try:
        connection.request(case.method, case.path, body, headers)
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        problem = ""
        try:
            data = answer.read()
        except http.client.IncompleteRead as error:
            data, problem = error.partial, "the answer broke off"
        return Answer(answer.status, names, data, problem)
    finally:
        connection.close()


# ---- comparing -------------------------------------------------------------------------------------------------


def _why_intended(case, differences):
    """The reasons, if every difference has one."""
    reasons = []
    for difference in differences:
        found = [rule.why for rule in INTENDED if re.search(rule.case, case.name) and re.search(rule.difference, difference)]
        if not found:
            return ""
        reasons += [why for why in found[:1] if why not in reasons]
    return "; ".join(reasons)


def run_case(direct_url, gateway_url, case):
    if case.refused_here:
        gateway = send(gateway_url, case)
        differences = ["only the gateway was asked: it refuses this path"] if gateway.status == 404 else \
            [f"status: {gateway.status} through the gateway, which must not pass this on"]
        return CaseResult(case, None, gateway, differences, _why_intended(case, differences))
    direct = send(direct_url, case)
    gateway = send(gateway_url, case)
    differences = compare(case.headers, direct, gateway)
    return CaseResult(case, direct, gateway, differences, _why_intended(case, differences))


def run_cases(direct_url, gateway_url, model, only=""):
    """All cases whose name matches the pattern `only`. The gateway has this worker behind it, or others that answer as it does."""
    return [run_case(direct_url, gateway_url, case) for case in all_cases(model) if re.search(only, case.name)]


def unintended(results):
    return [result for result in results if result.differences and not result.intended]


def print_report(results, to=sys.stdout):
    """Each difference, the intended ones with their reason, and the counts."""
    for result in results:
        for difference in result.differences:
            print(f"{'meant ' if result.intended else 'WRONG '} {result.case.name}: {difference}", file=to)
    print("Meant are:", file=to)
    for why in dict.fromkeys(rule.why for rule in INTENDED):
        print(f"  - {why}", file=to)
    same = sum(not result.differences for result in results)
    statuses = {}
    for result in results:
        if result.direct:
            statuses[result.direct.status] = statuses.get(result.direct.status, 0) + 1
    print(f"{len(results)} requests: {same} answered the same, {len(results) - same - len(unintended(results))} with a difference that is meant, "
          f"{len(unintended(results))} with another; statuses of the worker: "
          f"{', '.join(f'{count} x {status}' for status, count in sorted(statuses.items()))}", file=to)


if __name__ == "__main__":
    outcome = run_cases(*sys.argv[1:4], *(sys.argv[4:5]))
    print_report(outcome)
    sys.exit(1 if unintended(outcome) else 0)
