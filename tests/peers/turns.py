"""Chats with a server, streamed or not, and the outcome of each. vLLM omits the cached tokens if there are none."""
import concurrent.futures
import dataclasses
import http.client
import json
import random
import time

from conversations import Turn, starter
from deployment import DEADLINE_S


@dataclasses.dataclass
class Answer(Turn):
    seconds: float = None   # from the request to the end of the answer
    text: str = ""
    finished: bool = False  # a stream's [DONE], or a whole body
    output_tokens: int = 0
    told: bool = False      # the server itself said what went wrong, by a status or in the stream

    @property
    def outcome(self):
        """whole, told or silent: a client that is not told cannot know that its answer is no whole one."""
        if self.told:
            return "told"
        return "whole" if self.succeeded and self.finished else "silent"


def chat(port, messages, streamed, max_tokens=16, headers=None, timeout=DEADLINE_S, **members):
    """One turn; further members of the body are keyword arguments."""
    body = {"model": "test-model", "messages": messages, "max_tokens": max_tokens, "min_tokens": max_tokens, "ignore_eos": True,
            "temperature": 0, "stream": streamed, **members}
    if streamed:
        body["stream_options"] = {"include_usage": True}
    return ask(port, "/v1/chat/completions", body, headers, timeout)


def ask(port, path, body, headers=None, timeout=DEADLINE_S):
    """One request to a generating path."""
    answer = Answer(sent=time.monotonic())
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        reply = connection.getresponse()
        answer.status = reply.status
        answer.worker = reply.headers.get("x-kvist-worker", "")
        answer.predicted_tokens = int(reply.headers.get("x-kvist-predicted-cached-tokens", 0))
        if reply.status != 200:
            text = reply.read().decode()
            answer.error, answer.told = text or f"status {reply.status}", '"message"' in text
        elif body.get("stream"):
            read_stream(reply, answer)
        else:
            take(json.loads(reply.read()), answer)
            answer.finished = True
    except (OSError, ValueError, http.client.HTTPException) as error:
        answer.error = answer.error or f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    answer.seconds = time.monotonic() - answer.sent
    return answer


def read_stream(reply, answer):
    for line in reply:
        if not line.startswith(b"data: "):
            continue
        if line.strip() == b"data: [DONE]":
            answer.finished = True
            continue
        take(json.loads(line[6:]), answer)
    if not answer.finished and not answer.error:
        answer.error = "the stream ended without [DONE]"


def take(chunk, answer):
    """A chunk of a stream, or a whole body."""
    if "error" in chunk:
        answer.error, answer.told = json.dumps(chunk["error"]), True
        return
    for choice in chunk["choices"]:
        part = choice.get("delta") or choice.get("message") or choice
        text = part.get("content") or part.get("text") or ""
        if text and answer.ttft is None:
            answer.ttft = time.monotonic() - answer.sent
        answer.text += text
    if chunk.get("usage"):
        answer.prompt_tokens, answer.output_tokens = chunk["usage"]["prompt_tokens"], chunk["usage"]["completion_tokens"]
        answer.cached_tokens = (chunk["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0


def converse(port, number, streamed, turns, starters=0, words=40, max_tokens=16, document=0, think_s=0, **members):
    """One user's turns, one after the other. With `starters`, the conversations share that many beginnings; with `document`, the first message
    has so many words; with `think_s`, users come within that time and think so long on average. Further members of each body as keywords."""
    source, pauses = random.Random(number), random.Random(-1 - number)
    time.sleep(pauses.uniform(0, think_s))
    messages = [{"role": "system", "content": starter(number % starters, 60)}] if starters else []
    answers = []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"{number}.{turn}: {starter(1000 * (number + 1) + turn, words if turn or not document else document)}"})
        answers.append(chat(port, messages, streamed, max_tokens, seed=source.randrange(1 << 30), **members))
        if not answers[-1].succeeded:
            break
        messages.append({"role": "assistant", "content": answers[-1].text})
        if think_s:
            time.sleep(pauses.expovariate(1 / think_s))
    return answers


def converse_all(port, conversations, turns, streamed, parallel=4, first=0, **options):
    """So many conversations, `parallel` at a time; all their answers, in the order of the conversations' numbers, which begin with `first`."""
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        jobs = [pool.submit(converse, port, first + number, streamed, turns, **options) for number in range(conversations)]
        return [answer for job in jobs for answer in job.result()]


def quantile(values, share):
    """The smallest value that so many are not above; None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
