"""A worker that is up, healthy and idle by all that can be asked of it, and whose answers to requests are bad in one way."""
import asyncio
import contextlib
import json
import random

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODELS = json.dumps({"object": "list", "data": [{"id": "test-model", "object": "model", "max_model_len": 16384}]}).encode()


def whole(status, body, kind="application/json"):
    return (f"HTTP/1.1 {status} Whatever\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


def chunk(data):
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def error(status, text):
    return lambda _: whole(status, json.dumps({"error": {"message": text, "type": "some_error", "code": status}}).encode())


def slowly(data):
    """A byte every half second, for as long as anybody listens."""
    async def answer(writer):
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.5)
        await asyncio.sleep(600)

    return answer


def for_ever(head, piece, pause=0.0):
    async def answer(writer):
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return answer


async def never(_):
    await asyncio.sleep(600)


EVENT = json.dumps({"id": "chatcmpl-x", "object": "chat.completion.chunk", "created": 1, "model": "test-model",
                    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hello"}, "finish_reason": None}]}).encode()

# What is answered to a POST: bytes by what is asked (then the connection is kept), or what writes until it is cancelled or done (then
# it is closed).
ANSWERS = {
    "401": error(401, "no such key"),
    "403": error(403, "not for you"),
    "404": error(404, "no such model"),
    "429": error(429, "full"),
    "500": error(500, "broken"),
    "503": error(503, "full"),
    "redirect": lambda _: b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "web page": lambda _: whole(200, b"<html>welcome</html>", "text/html"),
    "other JSON": lambda _: whole(200, b'{"hello": "world"}'),
    "random bytes": lambda source: source.randbytes(2000),
    "bad chunk size": lambda _: STREAM_HEAD + b"zz\r\ndata: {}\r\n\r\n",
    "empty stream": lambda _: STREAM_HEAD + b"0\r\n\r\n",
    "error at the start of the stream": lambda _: STREAM_HEAD + chunk(b'data: {"error": {"message": "broken", "code": 500}}\n\n') + b"0\r\n\r\n",
    "connection closed": None,
    "nothing at all": never,
    "head of 1 MiB": for_ever(b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"x" * 1000 + b"\r\n"),
    "endless 1xx": for_ever(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 0.001),
    "event without an end": for_ever(STREAM_HEAD, chunk(b"data: " + b"x" * 65536)),
    "slow head": slowly(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" * 20),
    "slow body": slowly(STREAM_HEAD + chunk(b"data: " + EVENT + b"\n\n")),
    "broken off in mid-stream": lambda _: STREAM_HEAD + chunk(b"data: " + EVENT + b"\n\n"),
}
CLOSES_BEHIND = {"broken off in mid-stream", "bad chunk size", "random bytes"}


class BadWorker:
    """Each connection serves one request after another until an answer ends it."""

    def __init__(self, background, kind, name="bad"):
        self.kind, self.name, self.posts, self.random = kind, name, 0, random.Random(1)
        self.server = background.call(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512))
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):  # the last when the case is over
            while await self._one(reader, writer):
                pass
        writer.transport.abort() if self.kind == "connection closed" else writer.close()

    async def _one(self, reader, writer):
        """Whether another request may follow."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        method, path = head.split()[:2]
        length = next((int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length:")), 0)
        await reader.readexactly(length)
        if method == "get":
            writer.write(whole(200, MODELS if path == "/v1/models" else b"{}" if path != "/metrics" else b"", "application/json"))
            return True
        if path == "/tokenize":
            writer.write(whole(404, b"{}"))
            return True
        self.posts += 1
        answer = ANSWERS[self.kind]
        if answer is None:
            return False
        if asyncio.iscoroutinefunction(answer):
            await answer(writer)
            return False
        writer.write(answer(self.random))
        await writer.drain()
        return self.kind not in CLOSES_BEHIND
