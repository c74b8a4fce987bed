"""docs/results/routing.md: tables of every workload, the verdicts, what is missed and why, and the plots."""
import json
import math
import pathlib
import statistics
import tempfile

import chat
import figures
import reasons
import workloads
from figures import CANDIDATE, ORACLE, SHIPPED, TITLES

# The colours of src/kvist/render/svg_plot.cc are nine; the modes without one are in the tables only.
COLOURS = {"round_robin": 0, "kv": 1, "dynamo": 2, "sglang": 3, "llm_d": 4, "lmetric": 5, "smetric": 6, "preble": 7, "clairvoyant": 8}
PLOTS = [("ttft_p50", "TTFT p50", "ms", True), ("ttft_p95", "TTFT p95", "ms", True), ("ttft_p99", "TTFT p99", "ms", True),
         ("goodput", "goodput", "%", False)]
HEADER = ["load", "policy", "TTFT p50", "p95", "p99", "slowdown p50", "p95", "p99", "TPOT p50", "tokens/s", "goodput", "hit rate"]


def table(header, rows):
    align = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, align, *rows]) + "\n"


def row(cell, mode):
    mean = {figure: cell.mean(mode, figure) for figure in cell.runs[0][mode]}
    failed = f" ({mean['failed']:.1f} % failed)" if mean["failed"] > 0 else ""
    name = f"`{CANDIDATE}` as a gateway ships" if mode == SHIPPED else f"`{mode}`"
    if len(cell.runs_with(mode)) < len(cell.runs):
        name += ", first trace"
    return [cell.title if mode == cell.modes[0] else "", f"{name}{failed}",
            *(f"{mean[f'ttft_{name}'] / 1e3:,.2f} s" for name, _ in figures.SHARES),
            *(f"{mean[f'slowdown_{name}']:,.1f}" for name, _ in figures.SHARES), f"{mean['tpot_p50']:,.0f} ms",
            f"{mean['tokens_per_s']:,.0f}", f"{mean['goodput']:.1f} %", f"{mean['hit_rate']:.1f} %"]


def verdicts(name, cells):
    """kv against the best other policy in each figure, with its name where the bar is missed."""
    rows = []
    for cell in cells:
        texts = []
        for figure in TITLES:
            other = cell.best_other(figure)[1]
            ratio = cell.ratio(figure)
            if cell.saturated and figure == "ttft_p95":
                other, ratio = "dynamo", cell.ratio(figure, CANDIDATE, "dynamo")
            text = f"{ratio:.2f}" + (" of dynamo's" if other == "dynamo" and cell.saturated and figure == "ttft_p95" else "")
            texts.append(f"**{text} {other}**" if cell.meets(figure) is False and "dynamo's" not in text else
                         f"**{text}**" if cell.meets(figure) is False else text)
        rows.append([f"`{name}`" if cell is cells[0] else "", cell.title, *texts])
    return rows


def shipped(name, cells):
    """The goodput of kv with admission and hold, beside the others, which have neither."""
    rows = []
    for cell in cells:
        other, winner = cell.best_other("goodput")
        mine = cell.mean(SHIPPED, "goodput")
        text = f"{mine:.1f} %" if mine >= other - figures.SAME_GOODPUT else f"**{mine:.1f} %**"
        rows.append([f"`{name}`" if cell is cells[0] else "", cell.title, text, f"{cell.mean(SHIPPED, 'failed'):.1f} %",
                     f"{cell.mean(CANDIDATE, 'goodput'):.1f} %", f"{other:.1f} % `{winner}`", f"{cell.ratio('ttft_p95', SHIPPED, winner):.2f}"])
    return rows


def distances(name, cells):
    known = [cell for cell in cells if ORACLE in cell.modes]
    return [[f"`{name}`" if cell is known[0] else "", cell.title,
             *(f"{cell.ratio(figure, CANDIDATE, ORACLE):.2f}" for figure in TITLES)] for cell in known]


def mean_distances(cells):
    """The geometric means over all workloads, by load. A figure that is 0 on either side is left out."""
    rows = []
    for title in dict.fromkeys(cell.title for of in cells.values() for cell in of):
        known = [cell for of in cells.values() for cell in of if cell.title == title and ORACLE in cell.modes]
        ratios = ([ratio for cell in known if 0 < (ratio := cell.ratio(figure, CANDIDATE, ORACLE)) < math.inf] for figure in TITLES)
        if known:
            rows.append(["all, geometric mean" if not rows else "", title, *(f"{statistics.geometric_mean(of):.2f}" if of else "" for of in ratios)])
    return rows


def reason(cell, figure):
    """What can be said of a miss: who wins by how much and in how many traces, whether it is for want of knowledge, what it costs."""
    winner = "dynamo" if cell.saturated and figure == "ttft_p95" else cell.best_other(figure)[1]
    low, high = cell.spread(figure, winner)
    text = f"{TITLES[figure]} {cell.ratio(figure, CANDIDATE, winner):.2f} of `{winner}`'s"
    if len(cell.runs) > 1:
        text += f" ({low:.2f} to {high:.2f} over the traces)"
    if ORACLE in cell.modes:
        oracle = cell.ratio(figure, ORACLE, winner)
        cause = "forecasts" if abs(oracle - 1) < abs(cell.ratio(figure, CANDIDATE, winner) - 1) / 2 or cell.meets(figure, ORACLE) else "the cost"
        text += f"; a matter of {cause}: {oracle:.2f} with the workers' true state"
    prices = [(loss(cell, other, winner), other) for other in TITLES if other != figure]
    worst, other = max(prices)
    if worst > figures.WAIT_BAR:
        text += f"; `{winner}` pays with {TITLES[other]}, {cell.ratio(other, winner, CANDIDATE):.2f} of kv's"
    return text + "."


def loss(cell, figure, mode):
    ratio = cell.ratio(figure, mode, CANDIDATE)
    return (1 / ratio if ratio else float("inf")) if figure in figures.LARGER_IS_BETTER else ratio


def misses(cells):
    lines = [f"- `{name}`, {cell.title}: {reason(cell, figure)}" for name, of in cells.items() for cell in of for figure in cell.misses()]
    return "\n".join(lines) + "\n" if lines else "None.\n"


def counts(of):
    held = [cell.meets(figure) for cell in of for figure in TITLES]
    return held.count(True), held.count(False)


def summary(cells):
    met, missed = map(sum, zip(*(counts(of) for of in cells.values())))
    return f"{met} bars met, {missed} missed"


def words(parts):
    """`17, 15 and 12`."""
    parts = [str(part) for part in parts]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def tally(cells):
    """How many bars hold, by workload and by load."""
    loads = list(dict.fromkeys(cell.load for of in cells.values() for cell in of))
    met, missed = map(sum, zip(*(counts(of) for of in cells.values())))
    at = [sum(counts([cell])[1] for of in cells.values() for cell in of if cell.load == load) for load in loads]
    text = f"In all {met} of {met + missed} bars hold."
    if missed:
        text += f" Of the {missed} that are missed {words(at)} are at {words(loads)} % of the capacity."
    return table(["workload", "met", "missed"], [[f"`{name}`", *map(str, counts(of))] for name, of in cells.items()]) + f"\n{text}\n"


def plot(path, cells, laboratory):
    shown = [mode for mode in cells[0].modes if mode in COLOURS]
    sheet = {"columns": 2, "plots": [
        {"title": title, "x_title": "load, % of the capacity", "y_title": unit, "logarithmic": logarithmic,
         "series": [{"name": mode, "colour": COLOURS[mode], "dashed": mode == ORACLE,
                     "points": [[cell.load, round(cell.mean(mode, figure), 3)] for cell in cells if len(cell.runs_with(mode)) == len(cell.runs)]} for mode in shown]}
        for figure, title, unit, logarithmic in PLOTS]}
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "plots.json"
        data.write_text(json.dumps(sheet))
        workloads.call(laboratory, "plots", data, "--output", path)


def section(workload, cells, image):
    load = "users" if workload.closed else "starts a second"
    swing = f", rates swinging over {workload.swing[0]} s" if workload.swing else ""
    capacity = cells[0].rate * 100 / cells[0].load
    text = f"## {workload.name}\n\n{workload.text}. {workload.fleet}; {workload.seconds} s{swing}; {len(cells[0].runs)} trace{'s' if len(cells[0].runs) > 1 else ''}. "
    text += f"Capacity: {capacity:g} {load if len(workload.parts) < 2 else 'times the rates of its parts'}"
    if len(workload.parts) > 1:
        text += " (" + ", ".join(f"{part.kind} {part.rate:g}/s" for part in workload.parts) + ")"
    rows = [row(cell, mode) for cell in cells for mode in cell.modes]
    shown = f"![{workload.name}: TTFT and goodput over load]({image})\n\n" if image else ""
    return text + ".\n\n" + shown + table(HEADER, rows)


def write(page, chosen, cells, paired, laboratory):
    images = page.parent / "images" / "routing"
    images.mkdir(parents=True, exist_ok=True)
    sections = []
    for workload in chosen:
        plot(images / f"{workload.name}.svg", cells[workload.name], laboratory)
        sections.append(section(workload, cells[workload.name], f"images/routing/{workload.name}.svg"))
    titles = list(TITLES.values())
    counted = sorted({len(cell.runs) for of in cells.values() for cell in of})
    traces = f"{counted[0]} to {counted[-1]} traces" if len(counted) > 1 else "one trace" if counted == [1] else f"{counted[0]} traces"
    text = INTRODUCTION.format(traces=traces, first=workloads.FIRST_SEED, slowdown=figures.MOST_SLOWDOWN, tpot=figures.MOST_TPOT_MS)
    text += tally(cells)
    text += "\n## kv against the best other policy\n\n" + VERDICTS
    text += table(["workload", "load", *titles], [line for name, of in cells.items() for line in verdicts(name, of)])
    if all(SHIPPED in cell.modes for of in cells.values() for cell in of):
        text += "\n## Goodput as a gateway ships\n\n" + SHIPS
        text += table(["workload", "load", "goodput", "refused", "`kv` alone", "best other policy", "TTFT p95, of that one's"],
                      [line for name, of in cells.items() for line in shipped(name, of)])
    text += "\n## Every miss\n\n" + MISSES + misses(cells)
    text += "\n### Why\n\n" + WHY + reasons.text([name for name, of in cells.items() if any(cell.misses() for cell in of)])
    text += "\n## Distance to clairvoyant\n\n" + DISTANCE
    text += table(["workload", "load", *titles], mean_distances(cells) + [line for name, of in cells.items() for line in distances(name, of)])
    if paired:
        text += "\n## kv against round-robin, paired\n\n" + PAIRED
        text += table(["scenario, level", *(chat.TITLES[figure] for figure in chat.COMPARED)], paired)
    text += "\n## What was chosen on what\n\n" + CHOSEN.format(first=workloads.FIRST_SEED)
    page.write_text(text + "\n".join(sections))


INTRODUCTION = """# Routing policies, simulated

Made by `make routing` in virtual time; every figure and verdict is computed. The gateway's router, the scheduler, the KV pool and the load
are the live system's own code, and a model of the GPU says how long a step takes. The same requests for every policy; the first tenth of
each run is not counted; means over {traces} of each workload. The other policies have their published defaults; `kv`'s rules and weights were
chosen on other traces than those of this page ([which](#what-was-chosen-on-what)).

A load is a share of the fleet's capacity, which is the largest rate at which the best of three policies still keeps up
(`scripts/routing/capacity.py` says how it is found, `scripts/routing/capacities.json` has the rates). *Slowdown* is a request's time to first
token divided by what it is on an idle worker that has cached everything asked before. *Goodput* is the share of requests with a slowdown of
at most {slowdown} and a TPOT of at most {tpot} ms. `clairvoyant` is `kv`'s own decision with the true state of every worker in place of
forecasts: queues, answers' lengths and step times. No gateway can have it, and it is no bound, because it does not know what comes later: it shows
what better forecasts would be worth with the same rules. Beyond saturation it has the first trace alone, and is compared with `kv` on that one.

What is demanded of `kv`: up to 95 % load each TTFT and slowdown at most 1.05 of the best other policy's *in that figure*, TPOT p50 at most
1.03, tokens/s at least 0.98; beyond saturation a TTFT p95 of at most 0.9 of Dynamo's; goodput the highest at every load.

"""
CHOSEN = """The traces of this page have seeds from {first} on. No weight was chosen on them. One change, a queue that learns who overtakes whom, was tried on
201 to 206 and rejected; that what a prompt's blocks evict counts, and that a hot prefix's share of those who wait does, came in because pages missed bars
that this one had seen.

| what | chosen on | seeds | checked on |
| --- | --- | --- | --- |
| the weights but those below | chat, a published production trace | below 10 | |
| a wait for a slot or for memory, what a prompt displaces | code completion, agents | below 10 | |
| holding up those who come for a cache | flood, mixture, retrieval, agents | below 10 | |
| interrupting those who decode | long prompts, flood, mixture, day, retrieval, agents, chat | below 10 | |
| which requests wait, and what they weigh | short answers, mixture, agents, code completion, day, flood | below 10 | |
| how much a worker's own first tokens count | short answers | below 10 | nine workloads, seeds 21 to 28 |
| how many copies a hot prefix has | short answers | below 10 | seven workloads, 51 to 64 |
| equal workers take turns | short answers | below 10 | twelve, 65 to 96 |
| a prompt displaces no more than is worth keeping | long prompts | 97 to 104 | eleven, 97 to 108 |
| what a prompt's blocks evict | code completion, mixture, day | 210 to 219 | eleven, 261 to 264 |
| the more copies the more wait | retrieval, large fleet | 271 to 273 | nine, 271 to 278 |
| a hot prefix's share of those who wait ([another page](routing-untuned.md)) | bursts | | eight, 271 to 275 |

Since 2026-11-29 the engines share what the prompts of one step have in common, as real ones do, the capacities are those of that day's `kv`, which are up to
56 % larger, and these workloads are new or other ones, on which nothing was tuned: questions before their documents, branches of agents that go on, answers
of 8,000 tokens, bursts in the mixture.

"""
VERDICTS = """`kv` as a multiple of the best other policy in that figure (`clairvoyant` aside): below 1 kv is the best of all; for tokens/s and
goodput above 1. Bold, with the better policy's name, where the bar is missed.

"""
SHIPS = """The tables compare policies: nothing is refused and nothing held back. A gateway [refuses](../design/overload.md) whom it would keep waiting
for nothing, and [holds](../guide/routing.md#requests-that-wait-for-room) who would have to wait for memory. So this is what its users see: `kv` with both, as they are by default, beside the other
policies. A refused turn ends its conversation, and all turns that would have followed count as refused. Bold where another policy's goodput is higher.

"""
MISSES = """Each with the ratio to the policy that is better; whether that is a matter of forecasts (`clairvoyant`, which has the same cost, meets
the bar or is less than half as far off) or of the cost; and what the better policy pays elsewhere.

"""
WHY = """As far as experiments have shown, in simulations with seeds that are not those of this page unless it says so.

"""
DISTANCE = """`kv` as a multiple of `clairvoyant`: what the forecasts cost. Below 1 (above, for the last two) `kv` is better without that knowledge: the cost
is a rule of thumb for what comes later, which `clairvoyant` does not know either. Who times exactly leaves the cache for a worker that is free at
this moment, and fills each worker as soon as it has emptied. Nor has it any doubt about a worker's speed, a rule of `kv`'s that has another effect, too
([`long_prompts`](#why)).

"""
PAIRED = """The published deployment and its variations (`examples/routing`), where each seed is a pair: geometric mean of kv's ratios to
round-robin's with the 95 % interval by Student's t on their logarithms, over five seeds. "Worse": all of the interval is on that side.

"""
