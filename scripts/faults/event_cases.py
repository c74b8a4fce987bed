"""KV events that are cut, lost, moved, doubled or nonsense, and a gateway that starts anew beside full caches."""
import random
import signal
import time

from deployment import eventually, metrics
from event_wire import MORE, frame
from fleet import check_answers, check_index, fleet, one
from streams import greedy

MIB = 1 << 20
MEMORY = 64 * MIB  # by which a gateway may grow because of one publisher's nonsense


def spoilt_messages(fault, counters, seconds=4.0):
    """Every worker's messages, for as long as the load runs. `counters`: the gateway's, which have to notice."""
    def case_of(case, streams):
        with fleet(wired=True) as deployed:
            for wire in deployed.wires:
                wire.set(fault)
            began = time.monotonic()
            answers = deployed.crowd(streams).answers()
            time.sleep(max(0, seconds - (time.monotonic() - began)))
            if fault in ("cut", "silent"):
                eventually(lambda: not any(deployed.status()[w.name]["index_exact"] for w in deployed.workers), "noticed")
                case.equal("workers whose index is said not to be exact", sum(not w["index_exact"] for w in deployed.status().values()), 3)
            for wire in deployed.wires:
                wire.set(None)
            check_answers(case, answers)
            if fault not in ("cut", "silent"):
                case.least("messages that were spoilt", sum(wire.spoilt for wire in deployed.wires), max(1, streams // 20))
            check_index(case, deployed)
            for counter in counters:
                case.least(f"kvist_gateway_{counter}", deployed.metric(counter), 1)
            check_answers(case, deployed.crowd(streams).answers(), when="afterwards: ")

    return case_of


def injected(pieces_of, most_taken=None):
    """Bytes between two messages of one worker's stream, under load."""
    def case_of(case, streams):
        with fleet(wired=True) as deployed:
            wire = deployed.wires[0]
            before = wire.connections
            crowd = deployed.crowd(streams)
            eventually(lambda: crowd.begun() >= streams // 2, "the load runs")
            memory = deployed.gateway_memory()
            wire.inject(pieces_of())
            eventually(lambda: wire.connections > before, "the gateway connects again")
            grown = deployed.gateway_memory() - memory
            check_answers(case, crowd.answers())
            case.least("connections that the gateway made anew", wire.connections - before, 1)
            case.most("MiB by which the gateway grew", max(0, grown) // MIB, MEMORY // MIB)
            if most_taken:
                case.most("MiB that it took before it closed the connection", wire.taken // MIB, most_taken // MIB)
            check_index(case, deployed)
            check_answers(case, deployed.crowd(streams).answers(), when="afterwards: ")

    return case_of


def big_message():
    """One frame of 65 MiB: 1 MiB more than the gateway takes."""
    size = 65 * MIB
    yield bytes([2]) + size.to_bytes(8, "big")
    for _ in range(65):
        yield bytes(MIB)


def unfinished_parts():
    """3,000 frames of 1 MiB, each of which says that another one follows."""
    part = frame(MORE, bytes(MIB))
    for _ in range(3000):
        yield part


def unreadable_batches(case, streams):
    """What was in them nobody knows: the index may not be called exact until all was asked for again."""
    with fleet(wired=True) as deployed:
        for wire in deployed.wires:
            wire.set("payload")
        crowd = deployed.crowd(streams)
        eventually(lambda: not any(deployed.status()[w.name]["index_exact"] for w in deployed.workers), "noticed")
        case.equal("workers whose index is said not to be exact", sum(not w["index_exact"] for w in deployed.status().values()), 3)
        answers = crowd.answers()
        for wire in deployed.wires:
            wire.set(None)
        check_answers(case, answers)
        spoilt = sum(wire.spoilt for wire in deployed.wires)
        case.least("messages that were spoilt", spoilt, max(1, streams // 20))
        eventually(lambda: deployed.metric("kv_undecodable_batches_total") >= spoilt, "all have come")
        case.equal("kvist_gateway_kv_undecodable_batches_total", deployed.metric("kv_undecodable_batches_total"), spoilt)
        check_answers(case, deployed.crowd(streams).answers(), when="afterwards: ")
        check_index(case, deployed)


def rubbish_at_reconnects(case, streams):
    with fleet(wired=True) as deployed:
        wire = deployed.wires[0]
        wire.rubbish = 5
        crowd = deployed.crowd(streams)
        wire.break_connections()
        eventually(lambda: wire.rubbish == 0, "it connects again and again")
        check_answers(case, crowd.answers())
        case.equal("connections that got rubbish", 5 - wire.rubbish, 5)
        check_index(case, deployed)


def gateway_restarted(extra):
    def case_of(case, streams):
        with fleet(extra=extra) as deployed:
            check_answers(case, deployed.crowd(streams).answers(), when="before: ")
            crowd = deployed.crowd(streams, 400)
            eventually(lambda: crowd.begun() == streams, "all stream")
            ports = deployed.gateway.ports
            deployed.gateway.process.send_signal(signal.SIGKILL)
            deployed.gateway.process.wait()
            case.equal("streams that the client sees break off", sum(not answer.whole for answer in crowd.answers()), streams)
            began = time.monotonic()
            restarted(case, deployed, ports, began)
            # What nobody reads any more, the workers have given up.
            eventually(lambda: sum(metrics(w).get("vllm:num_requests_running", 0) for w in deployed.workers) == 0, "nothing runs")
            check_index(case, deployed)
            check_answers(case, deployed.crowd(streams).answers(), when="afterwards: ")

    return case_of


def restarted(case, deployed, ports, began):
    """Starts it on its ports; from `began` on, until it serves and until its index is the pools' content."""
    def start():
        deployed.launch_gateway(ports["http"], ports["admin"])
        return True

    eventually(start, "started again on its ports", 20)
    answer = None
    while answer is None or not answer.whole:
        answer = one(deployed, greedy(0, 1), "first")
        assert time.monotonic() - began < 60, answer.problem()
    serving = time.monotonic() - began
    eventually(deployed.index_is_whole, "the index is the pools' content", 60)
    whole = time.monotonic() - began
    case.most("seconds from its start until it serves", round(serving, 2), 1)
    case.most("seconds until its index equals the pools", round(whole, 2), 5)


def lines_of(fault, *counters):
    return spoilt_messages(fault, counters)


CASES = {
    "events-cut": ("KV events are cut off", lines_of("cut")),
    "events-silent": ("KV events stop, the connections stay", lines_of("silent")),
    "events-gapped": ("Each third KV message is lost", lines_of("gap", "kv_gaps_total")),
    "events-reordered": ("KV messages come in another order", lines_of("reorder", "kv_gaps_total")),
    "events-duplicated": ("Each KV message comes twice", lines_of("duplicate", "kv_duplicates_total")),
    "events-random-payload": ("Each third KV message has random bytes in place of its events", unreadable_batches),
    "events-0xff": ("100 bytes of 0xFF between two KV messages", injected(lambda: [b"\xff" * 100])),
    "events-random-bytes": ("10,000 random bytes between two KV messages", injected(lambda: [random.Random(3).randbytes(10_000)])),
    "events-random-reconnects": ("Random bytes in place of a publisher at five connections", rubbish_at_reconnects),
    "events-65-mib": ("One KV message of 65 MiB", injected(big_message)),
    "events-3000-parts": ("A KV message of 3,000 parts of 1 MiB that does not end", injected(unfinished_parts, 72 * MIB)),
    "gateway-killed": ("The gateway is killed under load and started again", gateway_restarted("")),
    "gateway-killed-old-workers": ("The same beside workers that have published more than they can replay",
                                   gateway_restarted("  kv_events_buffer: 40\n")),
}
