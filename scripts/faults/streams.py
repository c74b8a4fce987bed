"""Streamed chats in great numbers, as a client has them: the bytes as they came, and afterwards what they say.

While the streams run, nothing is decoded: the client shares the machine with what it tries."""
import asyncio
import concurrent.futures
import json
import random
import time

WORDS = "the river runs down to the sea and comes back again as rain over hills and fields in the long evening".split()
STARTERS = 20
CHAT = "/v1/chat/completions"
NEW = 10_000  # the first number of requests of which nothing is cached anywhere


def prose(number, words):
    source = random.Random(number)
    return " ".join(source.choice(WORDS) for _ in range(words))


def greedy(number, max_tokens=150):
    """The body of request `number`: one of a few beginnings, then text of its own; what it answers depends on nothing else. Each
    10,000 numbers have beginnings of their own."""
    beginning = number // 10_000 * STARTERS + number % STARTERS
    content = f"{prose(1_000_000 + beginning, 60)}. Question {number}: {prose(2000 + number, 12)}?"
    return {"model": "test-model", "messages": [{"role": "user", "content": content}], "max_tokens": max_tokens, "temperature": 0,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}


def head_and_body(data):
    """(status, fields, body, whether the body is whole) of an answer's bytes; status 0: there is no complete head."""
    head, separator, rest = bytes(data).partition(b"\r\n\r\n")
    if not separator:
        return 0, {}, b"", False
    lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if fields.get("transfer-encoding", "").lower() != "chunked":
        return int(lines[0].split()[1]), fields, rest, len(rest) == int(fields.get("content-length", -1))
    return int(lines[0].split()[1]), fields, *unchunked(rest)


def unchunked(data):
    """(what the complete chunks hold, whether the last one was there)."""
    parts, at = [], 0
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return b"".join(parts), False
        try:
            size = int(data[at:end].split(b";")[0], 16)
        except ValueError:
            return b"".join(parts), False
        if size == 0:
            return b"".join(parts), data[end + 2:end + 4] == b"\r\n"
        if end + 4 + size > len(data):
            return b"".join(parts), False
        parts.append(data[end + 2:end + 2 + size])
        at = end + 2 + size + 2


class Answer:
    """What a client makes of the bytes of one streamed answer."""

    def __init__(self, data):
        self.status, self.fields, self.body, self.complete = head_and_body(data)
        self.text, self.ends, self.usages, self.errors, self.roles, self.ids, self.done = "", [], [], [], 0, set(), False
        if self.status == 200:
            for line in self.body.split(b"\n"):
                if line.startswith(b"data: "):
                    self._event(line[6:].strip())

    def _event(self, data):
        if data == b"[DONE]":
            self.done = True
            return
        try:
            self._chunk(json.loads(data))
        except (ValueError, KeyError, TypeError, AttributeError):
            self.errors.append(f"no chunk of a chat: {data[:100]!r}")

    def _chunk(self, chunk):
        if "error" in chunk:
            self.errors.append(chunk["error"].get("message", "an error"))
            return
        self.ids.add((chunk["id"], chunk["created"], chunk["model"]))
        for choice in chunk["choices"]:
            delta = choice["delta"]
            self.roles += "role" in delta
            self.text += delta.get("content") or ""
            if choice["finish_reason"]:
                self.ends.append(choice["finish_reason"])
        if chunk.get("usage"):
            self.usages.append(chunk["usage"])

    @property
    def whole(self):
        """One unbroken answer: one id, one role, one end, one usage, and the end of the stream behind them."""
        return (self.status == 200 and self.complete and self.done and not self.errors
                and (len(self.ids), self.roles, len(self.ends), len(self.usages)) == (1, 1, 1, 1))

    @property
    def told(self):
        """A failure of which the client is told: a status with an error's body, or an error frame."""
        if self.status == 200:
            return bool(self.errors)
        try:
            return self.status >= 400 and self.complete and bool(json.loads(self.body)["error"])
        except (ValueError, KeyError, TypeError):
            return False

    @property
    def said(self):
        usage = self.usages[0] if self.usages else {}
        return self.text, self.ends, usage.get("prompt_tokens"), usage.get("completion_tokens")

    def problem(self):
        if self.errors:
            return f"{self.status}: {self.errors[0]}"
        if self.status != 200:
            return f"{self.status}: {self.body[:200].decode(errors='replace')}"
        return "whole" if self.whole else f"ended after {len(self.text)} characters without a word"


class Stream:
    """One request, and the bytes of its answer so far. `gives_up_s`: the client leaves if no token came until then."""

    def __init__(self, name, body, gives_up_s=None):
        self.name, self.body, self.gives_up_s = name, body, gives_up_s
        self.data, self.sent, self.first, self.ended, self.left, self.failure = bytearray(), None, None, None, False, ""

    async def run(self, port, tls=None):
        self.sent = time.monotonic()
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
            payload = json.dumps(self.body).encode()
            writer.write((f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-Request-Id: {self.name}\r\n"
                          f"Connection: close\r\nContent-Length: {len(payload)}\r\n\r\n").encode() + payload)
            await asyncio.wait_for(self._until_first(reader), self.gives_up_s)
            while data := await reader.read(1 << 16):
                self.data += data
        except asyncio.TimeoutError:
            self.left = True
        except OSError as error:
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self.ended = time.monotonic()
            if writer:
                writer.transport.abort() if self.left else writer.close()

    async def _until_first(self, reader):
        while data := await reader.read(1 << 16):
            self.data += data
            if b'"content":"' in self.data.replace(b'"content":""', b""):  # not only the empty one beside the role
                self.first = time.monotonic()
                return

    @property
    def ttft(self):
        """Seconds; None: no token came."""
        return self.first - self.sent if self.first else None


class Crowd:
    """Streams that begin at once, each on a connection of its own."""

    def __init__(self, background, port, bodies, tls=None, prefix="r"):
        self.streams = [Stream(f"{prefix}-{i}", body) for i, body in enumerate(bodies)]

        async def all_of_them():
            await asyncio.gather(*(stream.run(port, tls) for stream in self.streams))

        self.started = time.monotonic()
        self.future = background.start(all_of_them())

    def begun(self):
        return sum(stream.first is not None or stream.ended is not None for stream in self.streams)

    def answers(self, seconds=75):
        """All of them, when the last one has ended. One that has not by then never does, and counts as it is."""
        try:
            self.future.result(seconds)
        except concurrent.futures.TimeoutError:
            self.future.cancel()
        self.seconds = time.monotonic() - self.started
        return [Answer(stream.data) for stream in self.streams]

    def slowest_first(self):
        return max((stream.ttft for stream in self.streams if stream.first), default=float("nan"))


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else float("nan")
