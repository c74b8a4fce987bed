"""A fleet's capacity for a workload: the largest rate at which the best of some good policies still keeps up.

Keeping up: every request succeeds, and those of the last third of the trace wait on average at most 2 % of the trace's length longer for
their first token than they would on an idle worker. Above capacity the queues grow for as long as requests come, so that the wait grows
with the length of the trace; 2 % stands for a load that is about that much too high. The policies differ in which rate they keep up
with; the capacity is that of the fleet, so the best one counts. Where the rate swings, it is that of the same requests at an even rate. A
closed loop never has more requests than users: its capacity is the number of batch slots."""
import dataclasses
import json
import pathlib
import statistics
import tempfile

import simulation
import workloads

FILE = pathlib.Path(__file__).with_name("capacities.json")
POLICIES = ["kv", "lmetric", "llm_d"]
MOST_WAIT = 0.02
STRIDE = 1.25  # of the search for two rates that enclose the capacity
PRECISION = 1.06  # between the rate that is kept up with and one that is not


def keeps_up(kvist, folder, workload, rate):
    for policy in POLICIES:  # one after the other: usually the first is enough
        turns, ideal = simulation.measure(kvist, folder, workload, rate, workloads.SEARCH_SEED, [policy])
        last = [turn for turn in turns[policy] if turn.begun >= workload.seconds * 2000 / 3]
        if all(turn.good for turn in turns[policy]) and last:
            if statistics.mean(turn.ttft - ideal(turn) for turn in last) <= MOST_WAIT * workload.seconds * 1000:
                return True
    return False


def search(kvist, workload):
    if workload.closed:
        return workload.fleet.workers * workload.fleet.slots
    workload = dataclasses.replace(workload, swing=())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        low = high = workload.guess
        if keeps_up(kvist, folder, workload, low):
            while keeps_up(kvist, folder, workload, high := low * STRIDE):
                low = high
        else:
            while not keeps_up(kvist, folder, workload, low := high / STRIDE):
                high = low
        while high / low > PRECISION:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if keeps_up(kvist, folder, workload, middle) else (low, middle)
        return float(f"{low:.3g}")


def known():
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def remember(found):
    FILE.write_text(json.dumps(known() | found, indent=2) + "\n")
