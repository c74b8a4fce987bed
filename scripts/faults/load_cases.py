"""More requests than the fleet can answer, and clients that read slowly or not at all."""
import asyncio
import json
import resource
import socket
import time

from deployment import eventually, request
from fleet import check_answers, fleet, worker_config
from streams import CHAT, Answer, Stream, greedy, median

SLOTS, TOKENS, SCALE = 8, 100, 2.0
PATIENCE_S = 10  # of a client without a token
MIB = 1 << 20


class Closed:
    """As many clients as the fleet has slots, each with one request after the other, for so long: what the fleet can do."""

    def __init__(self, deployed, clients, seconds, first_number):
        self.numbers, self.end = iter(range(first_number, 1 << 30)), time.monotonic() + seconds
        self.streams = []

        async def client():
            while time.monotonic() < self.end:
                number = next(self.numbers)
                stream = Stream(f"closed-{number}", greedy(number, TOKENS))
                await stream.run(deployed.gateway.ports["http"])
                self.streams.append(stream)

        async def clients_of():
            await asyncio.gather(*(client() for _ in range(clients)))

        began = time.monotonic()
        deployed.background.call(clients_of(), seconds + 100)
        self.per_second = sum(Answer(stream.data).whole for stream in self.streams) / (time.monotonic() - began)
        self.ttft = median(stream.ttft for stream in self.streams if stream.ttft)


class Open:
    """So many requests a second for so long, whatever becomes of them."""

    def __init__(self, deployed, per_second, seconds, first_number):
        self.streams = []

        async def arrivals():
            began, tasks = time.monotonic(), []
            for i in range(int(per_second * seconds)):
                await asyncio.sleep(max(0, began + i / per_second - time.monotonic()))
                number = first_number + i
                self.streams.append(Stream(f"open-{number}", greedy(number, TOKENS), PATIENCE_S))
                tasks.append(asyncio.ensure_future(self.streams[-1].run(deployed.gateway.ports["http"])))
            self.lasted = time.monotonic() - began
            await asyncio.gather(*tasks)

        self.future = deployed.background.start(arrivals())


def overload(case, streams, seconds=60.0, times=10):
    """Holds for any gateway: every request ends in one of three ways, the gateway itself stays reachable and recovers."""
    configs = [worker_config(f"worker-{i}", SCALE, SLOTS) for i in range(3)]
    with fleet(configs=configs) as deployed:
        clients = len(configs) * SLOTS
        alone = Closed(deployed, 1, 3, 10_000)
        peak = Closed(deployed, clients, seconds / 4, 20_000)
        load = Open(deployed, times * peak.per_second, seconds, 30_000)
        asked = answered = 0
        while not load.future.done():
            for url in (deployed.gateway.url + "/health", deployed.gateway.admin + "/admin/status"):
                asked += 1
                answered += request(url, timeout=30)[0] == 200
            time.sleep(1)
        load.future.result()
        answers = [Answer(stream.data) for stream in load.streams]
        whole = [stream for stream, answer in zip(load.streams, answers) if answer.whole]
        refused = [answer for answer in answers if answer.status in (429, 503)]
        left = sum(stream.left for stream in load.streams)
        case.equal("requests that were answered, refused, or given up by their client", len(whole) + len(refused) + left, len(answers))
        case.equal("refusals that say when to come back, in the API's words", sum(a.told and "retry-after" in a.fields for a in refused), len(refused))
        case.equal("questions for health and administration answered meanwhile", answered, asked)
        in_time = sum(stream.ttft <= PATIENCE_S for stream in whole)
        case.note("requests", len(answers))
        case.note("refused", len(refused))
        case.note("given up by their client", left)
        case.note(f"answers/s at their peak ({clients} clients in a closed loop)", peak.per_second)
        case.note(f"answers/s at {times} times that", in_time / load.lasted)
        case.least("percent of the peak that is answered in time", round(100 * in_time / load.lasted / peak.per_second), 90)
        case.note("median seconds to the first token alone, at the peak, of the admitted in the overload",
                  f"{alone.ttft:.2f}, {peak.ttft:.2f}, {median(stream.ttft for stream in whole):.2f}")
        eventually(lambda: all(worker["in_flight"] == 0 for worker in deployed.status().values()), "nothing is under way")
        check_answers(case, deployed.crowd(clients).answers(), when="afterwards: ")


class SlowReader:
    """Reads 16 bytes every half second of an answer of megabytes."""

    def __init__(self, number):
        self.body = {**greedy(number, 4000), "logprobs": True, "top_logprobs": 20}
        self.broken = False

    async def run(self, port):
        loop = asyncio.get_running_loop()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            await loop.sock_connect(connection, ("127.0.0.1", port))
            payload = json.dumps(self.body).encode()
            await loop.sock_sendall(connection, (f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                                 f"Content-Length: {len(payload)}\r\n\r\n").encode() + payload)
            try:
                while await loop.sock_recv(connection, 16):
                    await asyncio.sleep(0.5)
            except OSError:
                pass
            self.broken = True


def slow_readers(case, streams, count=20):
    with fleet(scales=(20.0, 20.0, 20.0), http_limits="{idle_timeout: 4 s}") as deployed:
        memory = deployed.gateway_memory()
        readers = [SlowReader(50_000 + i) for i in range(count)]
        futures = [deployed.background.start(reader.run(deployed.gateway.ports["http"])) for reader in readers]
        eventually(lambda: deployed.metric("slow_client_pauses_total") >= count // 2, "their workers are slowed")
        check_answers(case, deployed.crowd(streams).answers())
        case.least("times that a worker was slowed for them", deployed.metric("slow_client_pauses_total"), count // 2)
        case.most("MiB by which the gateway grew", max(0, deployed.gateway_memory() - memory) // MIB, 64)
        eventually(lambda: all(worker["in_flight"] == 0 for worker in deployed.status().values()), "they are broken off")
        case.equal("requests under way after the slow readers' time is over", sum(w["in_flight"] for w in deployed.status().values()), 0)
        case.equal("answers that the slow readers completed", deployed.metric("requests_total", outcome="completed") - streams, 0)
        for future in futures:
            future.cancel()


def allow_descriptors(wanted):
    """As many as this user may have, for this process and those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (max(hard, wanted), hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            break
        except (ValueError, OSError):
            continue
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connect(port, count):
    found = []
    for _ in range(count):
        try:
            found.append(socket.create_connection(("127.0.0.1", port), timeout=30))
        except OSError:
            break
    return found


def open_ones(connections):
    """Those that the server has neither answered nor closed."""
    still = 0
    for connection in connections:
        connection.setblocking(False)
        try:
            connection.recv(1)
        except BlockingIOError:
            still += 1
        except OSError:
            pass
    return still


def idle_connections(case, streams, count=10_000):
    """The gateway takes as many clients as half of its descriptors; where the machine allows it fewer, there are fewer idle ones."""
    allowed = allow_descriptors(3 * count)
    count = min(count, allowed // 2 - 1000)
    case.note("file descriptors that each process may have", allowed)
    with fleet() as deployed:
        memory = deployed.gateway_memory()
        began = time.monotonic()
        idle = connect(deployed.gateway.ports["http"], count)
        try:
            case.equal("idle connections", len(idle), count)
            case.note("seconds to make them", time.monotonic() - began)
            check_answers(case, deployed.crowd(streams).answers())
            case.equal("of them, still open", open_ones(idle), count)
            case.note("KiB of the gateway's memory for each", (deployed.gateway_memory() - memory) / 1024 / max(1, len(idle)))
        finally:
            for connection in idle:
                connection.close()
        check_answers(case, deployed.crowd(streams).answers(), when="afterwards: ")


def idle_beyond_the_limit(case, streams):
    """More than may be open, none of which times out: who asks for something takes the place of one that only holds it."""
    limit = 600
    with fleet(http_limits=f"{{connections: {limit}, idle_timeout: 1 h}}") as deployed:
        crowd = deployed.crowd(streams)
        eventually(lambda: crowd.begun() == streams, "all stream")
        idle = connect(deployed.gateway.ports["http"], 2 * limit)
        try:
            health = sum(request(deployed.gateway.url + "/health", timeout=30)[0] == 200 for _ in range(20))
            admin = sum(request(deployed.gateway.admin + "/admin/status", timeout=30)[0] == 200 for _ in range(20))
            case.equal("of 20 health checks beside twice as many connections as allowed, answered", health, 20)
            case.equal("of 20 looks at the administration, answered", admin, 20)
            case.most("connections held", open_ones(idle), limit)
            check_answers(case, deployed.crowd(streams).answers(), when="that came beside them: ")
            check_answers(case, crowd.answers())
            case.least("idle connections that made room", deployed.metric("connections_closed_total", reason="made_room"), limit)
            case.equal("newcomers without a place", deployed.metric("connections_closed_total", reason="no_place"), 0)
            case.least("strangers still there", open_ones(idle), 1)
        finally:
            for connection in idle:
                connection.close()


CASES = {
    "overload": ("Ten times as many requests as the fleet can answer, for a minute", overload),
    "slow-readers": ("20 clients that read 32 bytes a second of answers of megabytes", slow_readers),
    "idle-connections": ("10,000 idle connections, or as many as the machine's file descriptors allow", idle_connections),
    "idle-beyond-limit": ("Twice as many idle connections as are allowed", idle_beyond_the_limit),
}
