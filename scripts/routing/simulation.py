"""Simulates a workload at a rate in several modes with `kvist simulate` and reads the turns from its store."""
import dataclasses
import shutil
import sqlite3

import figures
import workloads

SCENARIO = """name: routing
deployment:
  name: routing
  gateway: {{mode: round_robin{gateway}}}
{workers}
workload: {{{workload}, request_timeout: 900 s}}
method: {{warmup: {warmup} s, snapshots: 1, snapshot_interval: {window} s, window: {window} s, drain_timeout: 900 s, max_error_pct: 100}}
simulation: {{keep_token_gaps: false, timeline_period: 0 s{changes}}}
modes: [{modes}]
levels: [{level}]
output_directory: out
"""
USERS = "turns_min: 5, turns_max: 5, starters: 10, starter_tokens_min: 3500, starter_tokens_max: 4000, follow_up_tokens_min: 14, " \
        "follow_up_tokens_max: 18, max_tokens: 1024, target_rps: {rate}, seed: {seed}"
# An idle worker that holds all that was ever asked: its time to first token is the least a request can have.
AMPLE_MEMORY = "\n    kv_blocks: 1000000"
SHIPS = ", admission: {enabled: true}, hold: {enabled: true}"
IDLE_SECONDS = 90  # more than the longest prompt takes
IDLE_ANSWER = 3  # one token ends the prefill, and the way into an engine takes as long as its last decode step lets it


@dataclasses.dataclass
class Turn:
    conversation: int
    turn: int
    outcome: str
    begun: float  # times in milliseconds
    ttft: float
    answer: float  # from the first token to the last
    ended: float
    prompt: int
    cached: int
    output: int

    @property
    def tpot(self):
        return self.answer / (self.output - 1) if self.output > 1 else 0.0

    @property
    def good(self):
        return self.outcome == "succeeded"


def simulate(kvist, folder, scenario):
    """Turns of each mode, {mode: [turn]}, without those before the measurement."""
    path, output = folder.with_suffix(".yaml"), folder
    path.write_text(scenario)
    workloads.call(kvist, "simulate", "-f", path, "--output", output, "--threads", 1)
    turns = {}
    with sqlite3.connect(next(output.glob("**/*.sqlite"))) as store:
        for mode, *turn in store.execute(
                "SELECT mode, conversation, turn, outcome, intended_ns / 1e6, (first_token_ns - intended_ns) / 1e6, "
                "(last_token_ns - first_token_ns) / 1e6, last_token_ns / 1e6, prompt_tokens, cached_tokens, completion_tokens "
                "FROM turns JOIN levels ON turns.level = levels.id WHERE intended_ns >= measure_from_ns AND intended_ns < measure_to_ns"):
            turns.setdefault(mode, []).append(Turn(*turn))
    shutil.rmtree(output)
    return turns


def run_trace(kvist, folder, workload, trace, modes, workers=None, memory="", warmup=None, seconds=None, gateway="", changes=""):
    warmup = workload.warmup if warmup is None else warmup
    return simulate(kvist, folder, SCENARIO.format(workers=workload.fleet.yaml(workers, memory), workload=f"trace: {{file: {trace}}}",
                                                   warmup=warmup, window=(seconds or workload.seconds) - warmup, modes=", ".join(modes), level=1, gateway=gateway, changes=changes))


def run_users(kvist, folder, workload, users, seed, modes, workers=None, memory="", seconds=None, gateway=""):
    text = USERS.format(rate=max(1, users // 15), seed=seed)
    return simulate(kvist, folder, SCENARIO.format(workers=workload.fleet.yaml(workers, memory), workload=text, warmup=workload.warmup,
                                                   window=(seconds or workload.seconds) - workload.warmup, modes=", ".join(modes), level=users, gateway=gateway, changes=""))


def ideal_of_trace(kvist, folder, workload, trace):
    """The time to first token of each request on an idle worker that has cached all that came before it."""
    alone = folder.with_suffix(".alone.jsonl")
    rows = workloads.read_rows(trace)
    workloads.write_rows(alone, [{**row, "timestamp": i * IDLE_SECONDS * 1000, "output_length": min(IDLE_ANSWER, row["output_length"])}
                                 for i, row in enumerate(rows)])
    turns = run_trace(kvist, folder.with_name(folder.name + "-alone"), workload, alone, ["round_robin"], 1, AMPLE_MEMORY, 0,
                      len(rows) * IDLE_SECONDS)
    ideal = {turn.conversation: turn.ttft for turn in turns["round_robin"]}
    return lambda turn: ideal[turn.conversation]


def ideal_of_users(kvist, folder, workload, seed):
    """The median of a user who is alone with the worker, by the number of the turn."""
    turns = run_users(kvist, folder.with_name(folder.name + "-alone"), workload, 1, seed, ["round_robin"], 1, AMPLE_MEMORY, 4000)
    by_number = {}
    for turn in turns["round_robin"]:
        by_number.setdefault(turn.turn, []).append(turn.ttft)
    ideal = {number: sorted(ttfts)[len(ttfts) // 2] for number, ttfts in by_number.items()}
    return lambda turn: ideal[turn.turn]


def measure(kvist, folder, workload, rate, seed, modes):
    """Turns of each mode and the function of a turn that gives its ideal time to first token."""
    # Without a point, behind which with_suffix() would take the rest for a suffix, and give the files of two rates one name.
    folder = folder / f"{workload.name}-{rate:g}-{seed}".replace(".", "_")
    trace = folder.with_suffix(".jsonl")

    def run(chosen, gateway=""):
        if workload.closed:
            return run_users(kvist, folder, workload, round(rate), seed, chosen, gateway=gateway)
        return run_trace(kvist, folder, workload, trace, chosen, gateway=gateway)

    if not workload.closed:
        workload.write_trace(kvist, trace, rate, seed)
    alone = [mode for mode in modes if mode != figures.SHIPPED]
    turns = run(alone) if alone else {}
    if figures.SHIPPED in modes:
        turns[figures.SHIPPED] = run([figures.CANDIDATE], SHIPS)[figures.CANDIDATE]
    if workload.closed:
        return turns, ideal_of_users(kvist, folder, workload, seed)
    ideal = ideal_of_trace(kvist, folder, workload, trace)
    for path in folder.parent.glob(folder.name + ".*"):
        path.unlink()
    return turns, ideal
