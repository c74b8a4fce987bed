"""Strangers who send what no client sends: TLS handshakes without an end, heads without an end."""
import asyncio
import contextlib
import os
import ssl
import tempfile
import time

from deployment import eventually
from fleet import check_answers, fleet
from tls_test import Authority

MIB = 1 << 20


def client_hello(name="localhost"):
    """The first bytes of a handshake."""
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


class Flood:
    """Connections, so many at a time, each of which sends `first` and then reads until the server has answered or closed; until stop()."""

    def __init__(self, background, port, first, at_once=50):
        self.over, self.sent = False, 0

        async def one():
            while not self.over:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(first)
                    await asyncio.wait_for(reader.read(4096), 30)
                except ConnectionError:
                    pass  # an answer, too: what was left unread is reset
                finally:
                    writer.transport.abort()
                self.sent += 1

        async def all_of_them():
            await asyncio.gather(*(one() for _ in range(at_once)))

        self.future = background.start(all_of_them())

    def stop(self):
        self.over = True
        self.future.result(60)
        return self.sent


async def held(port, first, count):
    """Connections that send this and then nothing."""
    readers = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        readers.append((reader, writer))  # both, as a connection is closed with the last of them
    return readers


async def closed(connections, seconds=60):
    """How many of them the server ends, sooner or later."""
    async def one(reader):
        with contextlib.suppress(ConnectionError):
            while await reader.read(4096):
                pass

    done, waiting = await asyncio.wait([asyncio.ensure_future(one(reader)) for reader, _ in connections], timeout=seconds)
    for task in waiting:
        task.cancel()
    return len(done)


def tls_handshakes(case, streams):
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(folder, "ca")
        authority.issue("gateway")
        settings = {"tls": f"{{certificate: {authority.path('gateway.pem')}, key: {authority.path('gateway.key')}}}",
                    "http_limits": "{head_timeout: 5 s}"}
        trust = ssl.create_default_context(cafile=authority.path("ca.pem"))
        with fleet(**settings) as deployed:
            check_answers(case, deployed.crowd(streams, tls=trust).answers(), when="undisturbed: ")
            port, memory = deployed.gateway.ports["http"], deployed.gateway_memory()
            hello = client_hello()
            waiting = deployed.background.call(held(port, hello[:40], 500))
            floods = [Flood(deployed.background, port, hello), Flood(deployed.background, port, os.urandom(300))]
            crowd = deployed.crowd(streams, tls=trust)
            answers = crowd.answers()
            began = time.monotonic()
            begun, nonsense = (flood.stop() for flood in floods)
            check_answers(case, answers)
            case.least("handshakes begun and left", begun, 500)
            case.least("connections that sent random bytes", nonsense, 500)
            case.note("seconds of the flood", crowd.seconds + time.monotonic() - began)
            failed = lambda: deployed.metric("tls_failed_handshakes_total")
            case.equal("connections closed that sent half of a first message and waited", deployed.background.call(closed(waiting)), len(waiting))
            all_of_them = begun + nonsense + len(waiting)
            eventually(lambda: failed() >= all_of_them, "all of them are counted", 30)
            case.least("kvist_gateway_tls_failed_handshakes_total", failed(), all_of_them)
            case.most("MiB by which the gateway grew", max(0, deployed.gateway_memory() - memory) // MIB, 128)
            check_answers(case, deployed.crowd(streams, tls=trust).answers(), when="afterwards: ")


POST = "POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
HEADS = {
    "a field of 70 KiB": (f"{POST}Host: x\r\nX-Long: {'x' * 70_000}\r\n\r\n", 431),
    "300 fields": (POST + "Host: x\r\n" + "".join(f"X-{i}: 1\r\n" for i in range(300)) + "\r\n", 431),
    "a path of 70 KiB": (f"GET /{'x' * 70_000} HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    "two Hosts": (f"{POST}Host: x\r\nHost: y\r\nContent-Length: 0\r\n\r\n", 400),
    "gzip, chunked": (f"{POST}Host: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "a length beside chunks": (f"{POST}Host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
    "a body of 17 MiB": (f"{POST}Host: x\r\nContent-Length: {17 * MIB}\r\n\r\n", 413),
    "no HTTP": ("\x16\x03\x01 hello\r\n\r\n", 400),
    "half a head, then silence": (f"{POST}Host: x\r\nX-Half", 408),
}


async def status_of(port, data):
    """The status of the answer to these bytes; 0: the connection was closed without one."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data.encode("latin-1"))
            line = await asyncio.wait_for(reader.readline(), 60)
            return int(line.split()[1]) if line else 0
        finally:
            writer.transport.abort()
    return 0


async def drip(port, count):
    """Connections that send a field of a head every half second, for as long as they may: how long that was, in seconds."""
    async def one():
        began = time.monotonic()
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{POST}Host: x\r\n".encode())
            ended = asyncio.ensure_future(reader.read(4096))
            while not ended.done() and time.monotonic() - began < 60:
                writer.write(b"X-More: 1\r\n")
                await asyncio.wait([ended], timeout=0.5)
            writer.transport.abort()
            ended.cancel()
        return time.monotonic() - began

    return await asyncio.gather(*(one() for _ in range(count)))


def hostile_heads(case, streams, count=50):
    with fleet(http_limits="{head_timeout: 3 s}") as deployed:
        port, memory = deployed.gateway.ports["http"], deployed.gateway_memory()
        crowd = deployed.crowd(streams)
        slow = deployed.background.start(drip(port, count))

        async def ask():
            return {what: await asyncio.gather(*(status_of(port, data) for _ in range(count))) for what, (data, _) in HEADS.items()}

        statuses = deployed.background.call(ask(), 300)
        check_answers(case, crowd.answers())
        for what, (_, wanted) in HEADS.items():
            case.equal(f"{what}: {count} times {wanted}", statuses[what].count(wanted), count)
        longest = max(slow.result(100))
        case.equal("heads that come field by field and were cut off", sum(seconds < 60 for seconds in slow.result(100)), count)
        case.note("seconds that the slowest head took", longest)
        case.most("MiB by which the gateway grew", max(0, deployed.gateway_memory() - memory) // MIB, 64)
        check_answers(case, deployed.crowd(streams).answers(), when="afterwards: ")


CASES = {
    "tls-handshakes": ("A flood of TLS handshakes that nobody ends, and of bytes that are none", tls_handshakes),
    "hostile-heads": ("Heads that are too large, too slow, or that two servers could read differently", hostile_heads),
}
