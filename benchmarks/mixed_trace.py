"""A short trace of very different prompts, for runs on real processes."""
import itertools
import json
import random

SEED = 20261125
SHORTEST, LONGEST = 200, 60_000  # tokens of a prompt


def write(path, seconds, rate):
    """Poisson arrivals, so many a second. Two prompts of three share nothing, with lengths that are even over their logarithm; the third
    is a question behind one of six documents."""
    draw, ids = random.Random(SEED), itertools.count()
    documents = [[next(ids) for _ in range(draw.randint(8, 60))] for _ in range(6)]
    rows, at = [], 0.0
    while (at := at + draw.expovariate(rate)) < seconds:
        if draw.random() < 1 / 3:
            blocks = draw.choice(documents)
            length = 512 * len(blocks) + draw.randint(20, 400)
        else:
            blocks, length = [], round(SHORTEST * (LONGEST / SHORTEST) ** draw.random())
        blocks = [*blocks, *(next(ids) for _ in range(-(-length // 512) - len(blocks)))]
        rows.append({"timestamp": round(at * 1000), "input_length": length, "output_length": draw.randint(20, 150), "hash_ids": blocks})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
