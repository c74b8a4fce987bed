"""Faults under load: KV events cut, late, out of order; a worker restarted with an empty cache; a worker that hangs.

No request may be lost, the gateway's index must converge to the workers' caches again, and the metrics must show each worker's
trust level at any time. The time to converge is measured by benchmarks/routing_faults.py: here it depends on the load of the
machine.
"""
import itertools
import signal
import time

from conversations import Users, chat, starter
from deployment import eventually, request, run
from faulty_fleet import fleet

USERS = 6


def warm(users, turns=20):
    eventually(lambda: len(users.turns) >= turns, "the load runs")


def all_succeeded(turns):
    failed = [turn for turn in turns if not turn.succeeded]
    assert turns and not failed, (len(turns), failed[:3])


def heal_and_compare(deployed, users):
    """Ends the fault, then the load; the index must converge to the pools' content."""
    for line in deployed.lines:
        line.fault = None
    warm(users, len(users.turns) + 2 * USERS)
    turns = users.stop()
    deployed.publish_once_more()  # only a frame after the fault reveals the missing ones
    eventually(lambda: deployed.levels() == ["exact", "exact"], "exact again")
    eventually(deployed.index_is_the_truth, "the index is the truth")
    deployed.predictions_come_true()
    return turns


def events_that_are_cut_make_room_for_predictions_and_come_back_whole():
    with fleet() as deployed:
        users = Users(deployed.port, USERS)
        warm(users)
        deployed.lines[0].fault = "cut"
        eventually(lambda: deployed.levels() == ["predicted", "exact"], "the silence is noticed")
        at = len(users.turns)
        eventually(lambda: any(turn.cached_tokens > 0 and turn.worker == "worker-0" for turn in users.turns[at:]),
                   "routed prompts still count")
        all_succeeded(heal_and_compare(deployed, users))


def events_that_are_two_seconds_late_cost_no_request():
    with fleet() as deployed:
        users = Users(deployed.port, USERS)
        warm(users)
        for line in deployed.lines:
            line.fault = "delay"
        end = time.monotonic() + 4
        warm(users, len(users.turns) + 4 * USERS)
        time.sleep(max(0, end - time.monotonic()))
        all_succeeded(heal_and_compare(deployed, users))


def events_out_of_order_are_replayed():
    with fleet() as deployed:
        users = Users(deployed.port, USERS)
        warm(users)
        for line in deployed.lines:
            line.fault = "reorder"
        warm(users, len(users.turns) + 6 * USERS)
        all_succeeded(heal_and_compare(deployed, users))
        page = request(deployed.gateway.admin + "/metrics")[2]
        gaps = sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith("kvist_gateway_kv_gaps_total"))
        assert gaps > 0, "nothing came out of order"


def a_restarted_worker_is_empty_and_comes_back():
    with fleet() as deployed:
        users = Users(deployed.port, USERS)
        warm(users)
        before = len(users.turns)
        deployed.restart(0)
        eventually(lambda: [w["health"] for w in deployed.status()] == ["healthy", "healthy"], "healthy again")
        # The users' prompts are cached at the other worker, which six of them do not fill. What is cached nowhere comes here.
        new_prompts = itertools.count(200)

        def is_used():
            turn, _ = chat(deployed.port, [{"role": "user", "content": starter(next(new_prompts))}], 8)
            return turn.worker == "worker-0"

        eventually(is_used, "it is used again")
        turns = heal_and_compare(deployed, users)
        all_succeeded(turns[:max(0, before - USERS)])
        # Begun streams on it end with an error, at most one per user; all other requests are answered elsewhere.
        broken = [turn for turn in turns if not turn.succeeded]
        assert len(broken) <= USERS and all(turn.error for turn in broken), broken


def a_hung_worker_gets_nothing_more_until_it_goes_on():
    with fleet(patient=True) as deployed:
        users = Users(deployed.port, USERS)
        warm(users)
        deployed.workers[0].process.send_signal(signal.SIGSTOP)
        try:
            eventually(lambda: deployed.status()[0]["stalled"] or deployed.status()[0]["health"] != "healthy", "noticed")
            for i in range(6):
                turn, _ = chat(deployed.port, [{"role": "user", "content": starter(i % 4)}], 8)
                assert turn.succeeded and turn.worker == "worker-1", turn
        finally:
            deployed.workers[0].process.send_signal(signal.SIGCONT)
        eventually(lambda: [(w["health"], w["stalled"]) for w in deployed.status()] == [("healthy", False)] * 2, "goes on")
        turns = heal_and_compare(deployed, users)
        all_succeeded(turns)


run([events_that_are_cut_make_room_for_predictions_and_come_back_whole, events_that_are_two_seconds_late_cost_no_request,
     events_out_of_order_are_replayed, a_restarted_worker_is_empty_and_comes_back, a_hung_worker_gets_nothing_more_until_it_goes_on])
