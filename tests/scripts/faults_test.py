"""What scripts/faults makes of bytes and counts, and its event wire before a publisher written here."""
import asyncio
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/faults"))
import background  # noqa: E402
import event_wire  # noqa: E402
import expectations  # noqa: E402
import streams  # noqa: E402

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(*events):
    return b"".join(f"{len(event):x}\r\n".encode() + event + b"\r\n" for event in events)


def event(delta, end="null", number="a"):
    return (f'data: {{"id": "{number}", "created": 1, "model": "m", "choices": [{{"index": 0, "delta": {delta}, "finish_reason": {end}}}]}}\n\n').encode()


EVENTS = [event('{"role": "assistant", "content": ""}'), event('{"content": "one "}'), event('{"content": "two"}', '"length"'),
          b'data: {"id": "a", "created": 1, "model": "m", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}\n\n',
          b"data: [DONE]\n\n"]


def a_whole_answer_is_whole():
    answer = streams.Answer(HEAD + chunked(*EVENTS) + b"0\r\n\r\n")
    assert answer.whole and answer.said == ("one two", ["length"], 3, 2), answer.said


def what_is_not_whole_is_seen():
    broken = {"no last chunk": chunked(*EVENTS), "no [DONE]": chunked(*EVENTS[:-1]) + b"0\r\n\r\n",
              "two roles": chunked(EVENTS[0], *EVENTS) + b"0\r\n\r\n",
              "two ends": chunked(EVENTS[2], *EVENTS) + b"0\r\n\r\n",
              "two ids": chunked(event('{"content": "x"}', number="b"), *EVENTS) + b"0\r\n\r\n",
              "no usage": chunked(*EVENTS[:3], EVENTS[4]) + b"0\r\n\r\n",
              "an error": chunked(*EVENTS[:2], b'data: {"error": {"message": "broken"}}\n\n') + b"0\r\n\r\n",
              "cut in a chunk": chunked(*EVENTS)[:-5]}
    for what, body in broken.items():
        answer = streams.Answer(HEAD + body)
        assert not answer.whole, what
        assert answer.told == (what == "an error"), what
    assert not streams.Answer(b"").whole and streams.Answer(b"").status == 0


def a_refusal_is_told_if_it_has_an_error_in_its_body():
    head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: {}\r\n\r\n{}"
    body = '{"error": {"message": "full"}}'
    assert streams.Answer(head.format(len(body), body).encode()).told
    assert not streams.Answer(head.format(len(body) + 1, body).encode()).told, "cut off"
    assert not streams.Answer(head.format(2, "no").encode()).told


def a_case_that_raises_did_not_hold():
    case = expectations.Case("name", "title")
    assert case.run(lambda it: it.equal("what", 3, 3)) and case.held
    other = expectations.Case("other", "title")
    assert not other.run(lambda it: 1 / 0) and "ZeroDivisionError" in other.rows[0].counted
    page = expectations.page("# head\n", [("group", [case, other]), ("empty", [])])
    assert "1 of 2 expectations held, in 1 of 2 cases." in page and "| what | 3 | 3 | yes |" in page and "**no**" in page, page
    assert "empty" not in page


def message(number):
    return event_wire.frame(event_wire.MORE, b"") + event_wire.frame(event_wire.MORE, number.to_bytes(8, "big")) + event_wire.frame(0, bytes(300))


class Publisher:
    """The bytes of so many messages behind a greeting, a command between them."""

    def __init__(self, loop, count):
        async def serve(_, writer):
            writer.write(b"G" * event_wire.GREETING + event_wire.frame(event_wire.COMMAND, b"\x05READY"))
            writer.write(b"".join(message(i) for i in range(count)))
            await writer.drain()

        self.server = loop.call(asyncio.start_server(serve, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]


def passed_on(loop, fault, count=12):
    """The numbers of the messages that come through a wire with this fault."""
    wire = event_wire.EventWire(loop, Publisher(loop, count).port)
    wire.set(fault)

    async def read():
        reader, writer = await asyncio.open_connection("127.0.0.1", wire.port)
        numbers = []
        try:
            await reader.readexactly(event_wire.GREETING)
            assert (await event_wire.read_frame(reader))[0] == event_wire.COMMAND
            while True:
                parts = [await asyncio.wait_for(event_wire.read_frame(reader), 1) for _ in range(3)]
                assert [flags & event_wire.MORE for flags, _, _ in parts] == [1, 1, 0]
                numbers.append(int.from_bytes(parts[1][1][parts[1][2]:], "big"))
        except (asyncio.TimeoutError, asyncio.IncompleteReadError):
            return numbers
        finally:
            writer.close()

    return loop.call(read()), wire


def a_wire_spoils_what_it_says():
    loop = background.Background()
    numbers = list(range(12))
    assert passed_on(loop, None)[0] == numbers
    lost, wire = passed_on(loop, "gap")
    assert lost == [n for n in numbers if n % 3 != 2] and wire.spoilt == 4, lost
    assert passed_on(loop, "duplicate")[0] == [n for n in numbers for _ in range(2)]
    moved, _ = passed_on(loop, "reorder")
    assert moved != numbers and sorted(moved) == numbers, moved
    assert passed_on(loop, "payload")[0] == numbers
    assert passed_on(loop, "cut")[0] == []
    loop.close()


for test in [a_whole_answer_is_whole, what_is_not_whole_is_seen, a_refusal_is_told_if_it_has_an_error_in_its_body, a_case_that_raises_did_not_hold,
             a_wire_spoils_what_it_says]:
    test()
    print("ok     ", test.__name__)
