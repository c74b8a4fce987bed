"""Models with Llama 3's and with Qwen's special tokens on a real vLLM: the gateway reads every prompt as vLLM does and predicts its hits,
and what a client sees is the same with and without it."""
import collections
import json
import pathlib
import tempfile
import time
import uuid

import api_cases
import peer
from conversations import starter
from deployment import Process, gateway_config, get_json, metrics, request
from index_check import await_known, status_of
from probes import LLAMA3, QWEN, probes
from small_models import llama3, qwen
from vllm_worker import instances

PEERS = ["vllm"]

report = peer.Report("vllm_requests", "vLLM: requests read and answered alike", 12, PEERS)


class Family:
    """One model, one instance, one gateway."""

    def __init__(self, folder, name, worker, special):
        self.name, self.worker, self.special = name, worker, special
        self.gateway = Process(folder, "gateway", f"gateway-{name}", gateway_config([worker], "kv", worker.model))

    def asked(self, path, body):
        """(status, usage, cached tokens, prompt tokens as the gateway read them, tokens it predicted) of one request."""
        number = f"probe-{uuid.uuid4()}"
        asked = {"model": "test-model", "max_tokens": 1, **body}
        status, headers, text = request(self.gateway.url + path, asked, headers={"X-Request-Id": number})
        if status != 200:
            return status, {}, 0, 0, 0
        usage = json.loads(text)["usage"]
        decision = get_json(f"{self.gateway.admin}/admin/decisions?request={number}")["decisions"][0]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return status, usage, cached, decision["prompt_tokens"], int(headers.get("x-kvist-predicted-cached-tokens", 0))

    def settled(self):
        """Until the index has not changed for a moment: the events of what was asked have come."""
        before = None
        while before != (now := status_of(self.gateway, self.worker.name)["indexed_blocks"]):
            before = now
            time.sleep(0.15)


def longer(path, body):
    """The same probe behind enough text for several blocks, so that there is something to predict."""
    if path.endswith("chat/completions"):
        first = {"role": "system", "content": starter(5, 60)}
        messages = body["messages"] if body["messages"][0]["role"] != "system" else body["messages"][1:]
        return {**body, "messages": [first, *messages]}
    prompt = body["prompt"]
    return {**body, "prompt": starter(5, 60) + prompt} if isinstance(prompt, str) else body


def tokenizers_are_the_same():
    """The tokenizer check accepts vLLM, whatever special tokens the model has."""
    for family in families:
        await_known(family.gateway, [family.worker.name])
        shown = status_of(family.gateway, family.worker.name)["tokenizer"]
        report.check(f"{family.name}: the tokenizer check says the same", shown == "same", shown)


def prompts_are_read_alike():
    """Every probe becomes as many tokens in the gateway as in vLLM, and its second asking is predicted."""
    for family in families:
        read = wrong = predicted = counted = 0
        for what, path, body in probes(family.special):
            for form in (body, longer(path, body)):
                status, usage, cached, tokens, _ = family.asked(path, form)
                if status != 200:
                    continue
                family.settled()
                _, usage, cached, tokens, said = family.asked(path, form)
                read += 1
                counted += tokens == usage["prompt_tokens"]
                predicted += said == cached
                if tokens != usage["prompt_tokens"] or said != cached:
                    wrong += 1
                    print(f"        {family.name}: {what}: {usage['prompt_tokens']} tokens there, {tokens} here; {cached} cached, "
                          f"{said} predicted", flush=True)
        report.check(f"{family.name}: prompts are read as vLLM reads them", counted == read, f"{counted} of {read} of the same length")
        report.check(f"{family.name}: what is asked again is predicted", predicted == read, f"{predicted} of {read}")


def sessions_are_counted():
    """session_id in BlockStored."""
    family = families[0]
    before = metrics(family.gateway)
    prompt = [(3 * i) % 800 + 40 for i in range(100)]
    request(family.gateway.url + "/v1/completions", {"model": "test-model", "prompt": prompt, "max_tokens": 1},
            headers={"X-Session-ID": "session-7"})
    family.settled()
    after = metrics(family.gateway)
    name = "kvist_gateway_kv_unknown_fields_total"
    report.check("events with a session_id are counted", after.get(name, 0) > before.get(name, 0), f"{name} {after.get(name, 0):.0f}")


def answers_are_the_same():
    """The same requests direct and through the gateway."""
    family = families[0]
    results = api_cases.run_cases(family.worker.url, family.gateway.url, "test-model")
    wrong = api_cases.unintended(results)
    api_cases.print_report(results)
    same = sum(not result.differences for result in results)
    report.check("bodies, statuses and frames are the same direct and through the gateway, but for what is meant", not wrong,
                 f"{len(results)} requests: {same} the same, {len(results) - same - len(wrong)} with a difference that is meant, "
                 f"{len(wrong)} with another")
    for result in wrong[:8]:
        report.note(f"Differs: {result.case.name}: {'; '.join(result.differences)[:300]}")
    meant = collections.Counter(result.intended for result in results if result.differences and result.intended)
    if meant:
        report.table("Differences that are meant", ["why", "requests"], sorted(meant.items()))


report.require("vllm")
with tempfile.TemporaryDirectory() as folder:
    models = [llama3(pathlib.Path(folder) / "llama3"), qwen(pathlib.Path(folder) / "qwen")]
    with instances(folder, models) as workers:
        families = [Family(folder, name, worker, special)
                    for name, worker, special in zip(("Llama 3", "Qwen 3"), workers, (LLAMA3, QWEN))]
        try:
            report.run(tokenizers_are_the_same, prompts_are_read_alike, sessions_are_counted, answers_are_the_same)
        finally:
            for family in families:
                family.gateway.stop()
