"""A proxy of bytes between a worker's KV events and the gateway, which knows ZMTP's frames and can spoil them."""
import asyncio
import contextlib
import random

GREETING = 64
MORE, LONG, COMMAND = 1, 2, 4
GROUP = 6  # messages that are shuffled together


def frame(flags, body):
    """A frame as ZMTP 3 has it on the wire."""
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | LONG]) + len(body).to_bytes(8, "big") + body


async def read_frame(reader):
    """(flags, the frame's bytes as they came, where its body begins)."""
    head = await reader.readexactly(2)
    if head[0] & LONG:
        head += await reader.readexactly(7)
    size = int.from_bytes(head[1:], "big")
    return head[0], head + await reader.readexactly(size), len(head)


class EventWire:
    """`fault`: None, or what is done to each message from here on: "cut" (no connection at all), "silent" (nothing passes,
    connections stay), "gap" (each third message is lost), "reorder", "duplicate", "payload" (each third message has random bytes
    in place of its events). `rubbish`: so many of the next connections get random bytes in place of a publisher's."""

    def __init__(self, background, publisher_port, seed=1):
        self.background, self.publisher_port, self.random = background, publisher_port, random.Random(seed)
        self.fault, self.rubbish = None, 0
        self.connections = 0  # that the gateway has made
        self.messages = 0     # that the publisher has sent
        self.spoilt = 0       # of those, the ones that were lost, moved, doubled or changed
        self.taken = 0        # bytes of injected ones that the gateway has taken
        self.writers, self.shuffled = set(), []
        self.server = background.call(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20))
        self.port = self.server.sockets[0].getsockname()[1]

    def set(self, fault):
        """None forgets nothing of what was held back: it is sent, late."""
        async def change():
            self.fault = fault
            if fault == "cut":
                self._close_all()
            elif fault != "reorder":
                self._send(self.shuffled)
                self.shuffled = []

        self.background.call(change())

    def break_connections(self):
        async def close():
            self._close_all()

        self.background.call(close())

    def inject(self, pieces):
        """Sends these bytes between two messages; returns when they were taken or the gateway has closed the connection."""
        async def send():
            for writer in list(self.writers):
                with contextlib.suppress(OSError):
                    for piece in pieces:
                        writer.write(piece)
                        await writer.drain()
                        self.taken += len(piece)
                        if writer.transport.is_closing():
                            break

        self.background.call(send())

    def _close_all(self):
        for writer in list(self.writers):
            writer.transport.abort()

    async def _serve(self, reader, writer):
        self.connections += 1
        if self.fault == "cut":
            writer.transport.abort()
            return
        if self.rubbish > 0:
            self.rubbish -= 1
            with contextlib.suppress(OSError):
                writer.write(self.random.randbytes(4096))
                await writer.drain()
                await reader.read(1 << 16)
            writer.transport.abort()
            return
        if self.fault == "silent":
            with contextlib.suppress(OSError):
                while await reader.read(1 << 16):
                    pass
            writer.transport.abort()
            return
        try:
            source, sink = await asyncio.open_connection("127.0.0.1", self.publisher_port, limit=1 << 20)
        except OSError:
            writer.transport.abort()
            return
        back = asyncio.ensure_future(self._pass_on(reader, sink))
        try:
            writer.write(await source.readexactly(GREETING))
            self.writers.add(writer)
            await self._forward(source, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writers.discard(writer)
            back.cancel()
            sink.transport.abort()
            writer.transport.abort()

    async def _pass_on(self, reader, sink):
        """From the gateway: subscriptions and signs of life."""
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if self.fault != "silent":
                    sink.write(data)
        sink.transport.abort()

    async def _forward(self, source, writer):
        message = []
        while True:
            flags, data, body = await read_frame(source)
            if self.fault == "silent":
                continue
            if flags & COMMAND:
                writer.write(data)
                continue
            message.append((data, body))
            if not flags & MORE:
                self.messages += 1
                self._message(message)
                message = []
            await writer.drain()

    def _message(self, frames):
        whole = b"".join(data for data, _ in frames)
        third = self.messages % 3 == 0
        if self.fault == "gap" and third:
            self.spoilt += 1
        elif self.fault == "duplicate":
            self.spoilt += 1
            self._send([whole, whole])
        elif self.fault == "payload" and third:
            self.spoilt += 1
            *others, (last, body) = frames
            self._send([b"".join(data for data, _ in others) + frame(0, self.random.randbytes(len(last) - body))])
        elif self.fault == "reorder":
            self.shuffled.append(whole)
            if len(self.shuffled) == GROUP:
                self.random.shuffle(self.shuffled)
                self.spoilt += GROUP
                self._send(self.shuffled)
                self.shuffled = []
        else:
            self._send([whole])

    def _send(self, messages):
        for writer in self.writers:
            writer.write(b"".join(messages))
