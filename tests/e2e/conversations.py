"""Users in a closed loop: conversations with shared starters, one turn after the other, streamed. Records every turn's outcome."""
import dataclasses
import http.client
import json
import random
import threading
import time

from deployment import DEADLINE_S

WORDS = "the river runs down to the sea and comes back again as rain over hills and fields in the long evening".split()


@dataclasses.dataclass
class Turn:
    sent: float             # time.monotonic()
    ttft: float = None      # seconds; None: no token came
    status: int = 0         # HTTP
    worker: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    predicted_tokens: int = 0
    error: str = ""         # what went wrong, in the API's or the socket's words; empty: nothing did

    @property
    def succeeded(self):
        return self.status == 200 and not self.error


def starter(number, words=500):
    source = random.Random(1000 + number)
    return " ".join(source.choice(WORDS) for _ in range(words))


def chat(port, messages, max_tokens, seed=1, timeout=DEADLINE_S):
    """One streamed turn: (Turn, the answer's text)."""
    turn, text = Turn(sent=time.monotonic()), ""
    body = {"model": "test-model", "messages": messages, "max_tokens": max_tokens, "seed": seed, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        turn.status = answer.status
        turn.worker = answer.headers.get("x-kvist-worker", "")
        turn.predicted_tokens = int(answer.headers.get("x-kvist-predicted-cached-tokens", 0))
        if answer.status != 200:
            turn.error = answer.read().decode()
            return turn, text
        done = False
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                done = True
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                turn.error = json.dumps(chunk["error"])
                continue
            for choice in chunk["choices"]:
                content = choice["delta"].get("content") or ""
                if content and turn.ttft is None:
                    turn.ttft = time.monotonic() - turn.sent
                text += content
            if chunk.get("usage"):
                turn.prompt_tokens = chunk["usage"]["prompt_tokens"]
                turn.cached_tokens = chunk["usage"]["prompt_tokens_details"]["cached_tokens"]
        if not done and not turn.error:
            turn.error = "the stream ended without [DONE]"
    except (OSError, http.client.HTTPException) as error:
        turn.error = turn.error or f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return turn, text


class Users:
    """`count` users until stop(); `turns` holds the outcomes in the order of completion."""

    def __init__(self, port, count, max_tokens=64, turns=4, starters=4):
        self.port, self.max_tokens, self.length, self.starters = port, max_tokens, turns, starters
        self.turns = []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._converse, args=(i,), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def _converse(self, user):
        source = random.Random(user)
        while not self.over.is_set():
            messages = [{"role": "user", "content": starter(source.randrange(self.starters))}]
            for _ in range(self.length):
                turn, text = chat(self.port, messages, self.max_tokens, source.randrange(1 << 30))
                self.turns.append(turn)
                if not turn.succeeded:
                    time.sleep(0.2)
                    break
                if self.over.is_set():
                    return
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"And then? {source.random()}"}]

    def stop(self, seconds=2 * DEADLINE_S):
        """Waits for the turns in flight; returns all outcomes."""
        self.over.set()
        end = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(0, end - time.monotonic()))
            assert not thread.is_alive(), "a request neither ended nor failed"
        return self.turns
