"""The figures and bars of scripts/routing on cases worked out by hand."""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/routing"))
import capacity  # noqa: E402
import draws  # noqa: E402
import figures  # noqa: E402
import learning  # noqa: E402
import reasons  # noqa: E402
import simulation  # noqa: E402
import untuned  # noqa: E402
import workloads  # noqa: E402


def turn(ttft, output=11, answer=200.0, outcome="succeeded", ended=10_000.0):
    return simulation.Turn(1, 0, outcome, 0, ttft, answer, ended, 1000, 500, output)


def goodput_counts_what_was_soon_enough_and_fast_enough():
    turns = [turn(100), turn(500), turn(501), turn(100, answer=601.0), turn(100, outcome="timed_out")]
    found = figures.of_turns(turns, lambda _: 100, 0)
    assert found["goodput"] == 40, found  # the third is too late, the fourth too slow, the last failed
    assert found["failed"] == 20 and found["hit_rate"] == 50 and found["tokens_per_s"] == 4.4, found
    assert found["slowdown_p50"] == 1 and found["slowdown_p99"] == 5.01, found


def run(kv, dynamo, clairvoyant):
    def of(scale):
        return {figure: 100 / scale if figure in figures.LARGER_IS_BETTER else 100 * scale for figure in figures.TITLES}
    return {"kv": of(kv), "dynamo": of(dynamo), "clairvoyant": of(clairvoyant)}


def bars_are_held_against_the_best_other_and_never_against_clairvoyant():
    cell = figures.Cell(60, 1, [run(1.04, 1, 0.5)])
    assert cell.misses() == ["tpot_p50", "tokens_per_s", "goodput"], cell.misses()
    assert cell.best_other("ttft_p50") == (100, "dynamo")
    assert figures.Cell(60, 1, [run(1.0, 1, 0.5)]).misses() == []


def beyond_saturation_only_the_tail_and_goodput_count():
    assert figures.Cell(120, 1, [run(0.95, 1, 0.5)]).misses() == ["ttft_p95"]
    assert figures.Cell(120, 1, [run(0.89, 1, 0.5)]).misses() == []


def the_oracle_is_compared_where_it_ran():
    first, second = run(1.0, 1.0, 0.8), run(3.0, 1.0, 0.8)
    del second["clairvoyant"]
    cell = figures.Cell(60, 1, [first, second])
    assert cell.ratio("ttft_p50") == 2 and cell.misses()
    assert cell.ratio("ttft_p50", "kv", "clairvoyant") == 1.25
    assert cell.ratio("ttft_p50", "clairvoyant") == 0.8 and cell.meets("goodput", "clairvoyant") is True
    assert cell.ratio("ttft_p50", "kv", "dynamo") == 2


def a_draw_is_its_number_and_its_conversations_go_on():
    for number in range(30):
        traffic = draws.Traffic(draws.Draw(number), 1)
        assert traffic.rows == draws.Traffic(draws.Draw(number), 1).rows and traffic.rows != draws.Traffic(draws.Draw(number), 2).rows
        assert len(traffic.rows) >= traffic.draw.requests
        before = {}
        for row in traffic.rows:
            assert 20 <= row["input_length"] and 1 <= row["output_length"] <= draws.LONGEST_ANSWER, (number, row)
            assert len(row["hash_ids"]) == math.ceil(row["input_length"] / draws.BLOCK), (number, row)
            if "session_id" not in row:
                continue
            last = before.get(row["session_id"])
            assert (last is not None) == ("delay" in row), (number, row)
            if last:
                kept = (last["input_length"] + last["output_length"]) // draws.BLOCK
                whole = last["input_length"] // draws.BLOCK
                assert row["hash_ids"][:whole] == last["hash_ids"][:whole] and len(row["hash_ids"]) >= kept, (number, row)
            before[row["session_id"]] = row


def how_much_better_another_is():
    of = {"kv": {"ttft_p95": 120.0, "tokens_per_s": 90.0}, "smg": {"ttft_p95": 100.0, "tokens_per_s": 99.0}, "dynamo": {"ttft_p95": 240.0, "tokens_per_s": 30.0}}
    assert draws.best_other("ttft_p95", of) == "smg" == draws.best_other("tokens_per_s", of)
    assert draws.worse("ttft_p95", of["kv"], of["smg"]) == 1.2 and draws.worse("ttft_p95", of["kv"], of["dynamo"]) == 0.5
    assert math.isclose(draws.worse("tokens_per_s", of["kv"], of["smg"]), 1.1)
    assert draws.worse("tpot_p50", {"tpot_p50": math.nan}, {"tpot_p50": math.nan}) == 1 == draws.worse("tpot_p50", {"tpot_p50": 0}, {"tpot_p50": 0})


def intervals_are_students():
    mean, low, high = figures.interval([0.5, 2.0])
    assert math.isclose(mean, 1) and math.isclose(low * high, 1)
    assert math.isclose(math.log(high), 12.706 * math.log(2) * math.sqrt(2) / math.sqrt(2), rel_tol=1e-9), high


def a_swinging_rate_keeps_the_order_and_the_mean():
    day = workloads.find("day")
    instants = [day.swung(ms) for ms in range(0, day.seconds * 1000, 100)]
    assert instants == sorted(instants)
    half = sum(at < day.seconds * 500 for at in instants)
    assert abs(half - len(instants) / 2) <= 1, half
    first_tenth = sum(at < day.seconds * 100 for at in instants) / len(instants)
    assert first_tenth < 0.02, "the night"


def every_workload_has_a_capacity():
    assert set(capacity.known()) == {workload.name for workload in [*workloads.WORKLOADS, *untuned.WORKLOADS]}


def untuned_traces_are_whole_and_the_same_for_a_seed():
    for workload in untuned.WORKLOADS:
        generate = workloads.GENERATORS[workload.parts[0].kind]
        rows = generate(None, None, workload.guess, workload.seconds, 7)
        assert rows == generate(None, None, workload.guess, workload.seconds, 7) and rows != generate(None, None, workload.guess, workload.seconds, 8)
        assert len(rows) > 1000, (workload.name, len(rows))
        instants = [row["timestamp"] for row in rows]
        assert instants == sorted(instants) and 0 <= instants[0] and instants[-1] <= workload.seconds * 1000, workload.name
        assert all(len(row["hash_ids"]) == math.ceil(row["input_length"] / untuned.BLOCK) for row in rows), workload.name
        assert max(row["input_length"] + row["output_length"] for row in rows) <= workload.fleet.context, workload.name


def reasons_are_of_workloads_and_only_of_those_with_misses():
    assert set(reasons.OF) <= {workload.name for workload in workloads.WORKLOADS}
    assert reasons.text(["chat"]).count("\n- ") == 2 and "`chat`" in reasons.text(["chat"]) and "`day`" not in reasons.text(["chat"])


def a_load_is_saturated_by_its_percentage_unless_it_is_known_better():
    assert [figures.Cell(load, 1, []).saturated for load in (95, 120)] == [False, True]
    found = figures.Cell(8, 0, [run(0.95, 1, 0.5)], "8 workers", True)
    assert found.title == "8 workers" and found.misses() == ["ttft_p95"]


def learning_is_over_when_all_that_comes_later_is_as_good():
    def came(at, ttft):
        return simulation.Turn(1, 0, "succeeded", at * 1000.0, ttft, 200.0, 0, 1000, 500, 11)
    usual = [came(at, 100) for at in range(100, 240)]
    assert learning.settled(usual, usual, 100) == 0
    slow_at_first = [came(at, 300 if at < 112 else 104) for at in range(100, 240)]
    assert learning.settled(slow_at_first, usual, 100) == 10, "two of the 130 that come from then on are still slow"
    assert learning.settled([came(at, 120) for at in range(100, 240)], usual, 100) is None


for test in [goodput_counts_what_was_soon_enough_and_fast_enough, bars_are_held_against_the_best_other_and_never_against_clairvoyant,
             beyond_saturation_only_the_tail_and_goodput_count, intervals_are_students, a_swinging_rate_keeps_the_order_and_the_mean,
             every_workload_has_a_capacity, untuned_traces_are_whole_and_the_same_for_a_seed, reasons_are_of_workloads_and_only_of_those_with_misses,
             learning_is_over_when_all_that_comes_later_is_as_good, a_load_is_saturated_by_its_percentage_unless_it_is_known_better,
             the_oracle_is_compared_where_it_ran, a_draw_is_its_number_and_its_conversations_go_on, how_much_better_another_is]:
    test()
    print("ok     ", test.__name__)
