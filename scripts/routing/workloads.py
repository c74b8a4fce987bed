"""The workloads of docs/results/routing.md: what is asked, of which fleet, for how long."""
import dataclasses
import json
import math
import pathlib
import subprocess

# No trace of these seeds (201 to 203) was looked at while choosing kv's rules and weights; those of SEARCH_SEED and later are for finding
# capacities only.
FIRST_SEED = 201
SEARCH_SEED = 901


SLOWNESS = 2


@dataclasses.dataclass(frozen=True)
class Fleet:
    workers: int
    engine: str = "trtllm"
    model: str = "llama-3.1-70b-fp8"
    slots: int = 64
    context: int = 140_000  # tokens of a prompt and its answer
    side_by_side: int = 0  # tokens of a prompt in a step, at most, while there are others
    slow: int = 0  # workers whose steps take SLOWNESS times as long

    def yaml(self, workers=None, memory=""):
        settings = f"""model: {self.model}
    block_size: 32
    max_batch_size: {self.slots}
    max_num_tokens: {16384 if self.engine == "trtllm" else 8192}
    max_model_len: {self.context}
    long_prefill_token_threshold: {self.side_by_side}
    profile: {{gpu: h200, model: {self.model}, engine: {self.engine}, tensor_parallel: 1, memory_fraction: 0.90}}
    output_length: {{mean_tokens: 905, standard_deviation_tokens: 250}}
"""
        if not self.slow or workers:
            return f"  workers:\n    count: {workers or self.workers}{memory}\n    {settings}"
        rows = ["  workers:\n"]
        for i in range(self.workers):
            scale = 1 / SLOWNESS if i >= self.workers - self.slow else 1
            rows.append(f"  - name: worker-{i}{memory}\n    time_scale: {scale:g}\n    {settings}")
        return "".join(rows)

    def __str__(self):
        engine = {"trtllm": "TensorRT-LLM", "vllm": "vLLM"}[self.engine]
        size = "Llama 3.1 8B" if "8b" in self.model else "Llama 3.1 70B"
        side_by_side = f", {self.side_by_side:,} tokens of a prompt in a step" if self.side_by_side else ""
        slow = f", {self.slow} of them half as fast" if self.slow else ""
        return f"{self.workers} workers with {size} (FP8) under {engine}{side_by_side}{slow}"


@dataclasses.dataclass(frozen=True)
class Part:
    """A kind of `kvist trace generate --kind`, or of GENERATORS here, in a mixture: starts a second between two instants."""
    kind: str
    rate: float
    begin: float = 0
    end: float = math.inf
    bursts: tuple = ()  # period and length in seconds: what comes in a period comes in the first seconds of it

    def in_bursts(self, ms):
        if not self.bursts:
            return ms
        period, length = self.bursts
        periods, rest = divmod(ms, period * 1000)
        return periods * period * 1000 + rest * length / period


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    text: str
    fleet: Fleet
    parts: tuple = ()  # none: conversations in a closed loop, whose load is a number of users
    seconds: int = 400
    seeds: int = 3
    swing: tuple = ()  # period in seconds and depth of a rate that goes up and down
    guess: float = 1  # the capacity is searched from here

    @property
    def closed(self):
        return not self.parts

    @property
    def warmup(self):
        return self.seconds // 10

    def write_trace(self, kvist, path, rate, seed):
        """Parts at once; ids of one never are those of another."""
        rows = []
        for number, part in enumerate(self.parts):
            until = min(part.end, self.seconds)
            for row in generate(kvist, path.with_suffix(".part"), part.kind, rate * part.rate, self.seconds, 100 * seed + number):
                if part.begin * 1000 <= row["timestamp"] < until * 1000:
                    row["timestamp"] = part.in_bursts(row["timestamp"])
                    ids = [number * 10_000_000 + i for i in row["hash_ids"]]
                    rows.append({**row, "timestamp": round(self.swung(row["timestamp"])), "hash_ids": ids})
        rows.sort(key=lambda row: row["timestamp"])
        write_rows(path, rows)

    def swung(self, ms):
        """The instant at which something of an even stream comes in one whose rate swings around the same mean, from its least on."""
        if not self.swing:
            return ms
        period, depth = self.swing
        turn = 2 * math.pi / (period * 1000)
        at = ms
        for _ in range(60):  # so many have come by `at`: at - depth / turn * sin(turn * at); its slope is at least 1 - depth
            at -= (at - depth / turn * math.sin(turn * at) - ms) / (1 + depth)
        return at


def call(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr or done.stdout}")
    return done.stdout


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def generate(kvist, path, kind, rate, seconds, seed):
    if kind in GENERATORS:
        return GENERATORS[kind](kvist, path, rate, seconds, seed)
    call(kvist, "trace", "generate", "--kind", kind, "--rate", f"{rate:.9g}", "--duration", f"{seconds} s", "--seed", seed, "-o", path)
    return read_rows(path)


CHAT = "turns_min: {turns}, turns_max: {turns}, starters: 10, starter_tokens_min: 3500, starter_tokens_max: 4000, " \
       "follow_up_tokens_min: 14, follow_up_tokens_max: 200, max_tokens: 600"


def chats(kvist, path, rate, seconds, seed):
    """Conversations of three turns that begin at random; their users read and think between the turns."""
    settings = path.with_suffix(".yaml")
    settings.write_text(f"workload: {{{CHAT.format(turns=3)}, target_rps: {rate:.9g}}}\n")
    call(kvist, "trace", "generate", "-f", settings, "--conversations", max(1, math.ceil(rate * seconds * 1.1)), "--seed", seed, "-o", path)
    return [row for row in read_rows(path) if row["timestamp"] < seconds * 1000]


GENERATORS = {"chats": chats}

EVERYTHING = (Part("chats", 1), Part("long_prompts", 0.5), Part("retrieval", 1.5), Part("retrieval", 1.5, bursts=(30, 5)), Part("agents", 0.03),
              Part("code_completion", 5), Part("short_answers", 5), Part("reasoning", 0.1))
WORKLOADS = [
    Workload("chat_closed", "Conversations of five turns after one of ten instructions of 3,500 to 4,000 tokens, answers of 850; each user "
             "sends the next turn when the answer is there", Fleet(4), seconds=300),
    Workload("chat", "The same kind of conversations, begun at random instants, with pauses to read and think", Fleet(12),
             (Part("chats", 1),), guess=20),
    Workload("long_prompts", "Prompts that share nothing, log-normal around 4,000 tokens, up to 128,000", Fleet(12),
             (Part("long_prompts", 1),), guess=7),
    Workload("side_by_side", "The same prompts, to engines that compute up to eight of them at once, 1,024 tokens of each in a step",
             Fleet(12, "vllm", side_by_side=1024), (Part("long_prompts", 1),), guess=7),
    Workload("retrieval", "60 documents of 4,096 to 24,576 tokens, a few asked for often, with a question behind", Fleet(12),
             (Part("retrieval", 1),), guess=30),
    Workload("question_first", "The same questions and documents, the question before the document, so that no cache helps", Fleet(12, "vllm"),
             (Part("retrieval_question_first", 1),), guess=8),
    Workload("agents", "Conversations of 20 to 60 turns with tool results, up to 120,000 tokens, one turn in ten begins three branches",
             Fleet(12), (Part("agents", 1),), guess=0.2),
    Workload("code_completion", "200 files of 2,048 to 15,360 tokens, answers of 5 to 40 tokens", Fleet(4, "vllm"),
             (Part("code_completion", 1),), guess=20),
    Workload("short_answers", "Four instructions of 2,048 tokens, short questions, answers of 1 to 16 tokens from fast engines",
             Fleet(4, "trtllm", "llama-3.1-8b-fp8"), (Part("short_answers", 1),), seconds=40, guess=900),
    Workload("reasoning", "Prompts of 200 to 2,000 tokens that share nothing, answers of 6,000 to 10,000", Fleet(4),
             (Part("reasoning", 1),), seconds=1200, guess=0.6),
    Workload("mixture", "Chats, long prompts, retrieval (half of it in bursts of 5 s every 30 s), agents, code completion, short answers and reasoning at once, their rates "
             "rising to 1.6 times and falling to 0.4 times the mean every 200 s", Fleet(12),
             EVERYTHING, swing=(200, 0.6), guess=1.8),
    Workload("day", "The same mixture over a day in 400 s: a night at a tenth of the mean rate, a noon at 1.9 times", Fleet(4, "vllm"),
             EVERYTHING, swing=(400, 0.9), guess=0.5),
    Workload("mixed_speeds", "Chats, retrieval and long prompts at once, and a third of the workers takes twice as long for each step",
             Fleet(12, slow=4), (Part("chats", 1), Part("retrieval", 1.5), Part("long_prompts", 0.3)), guess=5),
    Workload("flood", "Retrieval, and between the 150th and the 200th second a tenant who sends long prompts that share nothing", Fleet(4),
             (Part("retrieval", 1), Part("long_prompts", 1, 150, 200)), guess=6),
    Workload("retrieval_and_agents", "Retrieval and agents at once", Fleet(4, "vllm"), (Part("retrieval", 1), Part("agents", 0.01)), guess=4),
    Workload("large_fleet", "Chats, retrieval and code completion on 64 workers", Fleet(64),
             (Part("chats", 1), Part("retrieval", 3), Part("code_completion", 5)), seconds=60, seeds=2, guess=35),
]


def find(name):
    return next(workload for workload in WORKLOADS if workload.name == name)
