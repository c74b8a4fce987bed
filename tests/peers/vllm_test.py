"""Two real vLLM instances behind the gateway: what it predicts is what they report, and its index is what their events say."""
import contextlib
import json
import os
import pathlib
import shutil
import tempfile
import threading

import msgpack

import peer
from dashboard_browser import Server, browse
from deployment import Process, eventually, gateway_config, get_json, metrics, request
from index_check import Follower, await_known, check_equal, status_of
from pool_view import PoolView, Subscriber
from processor_share import NoShares, ProcessorShare
from small_models import llama3, text_tokens
from turns import chat, converse_all, quantile
from vllm_worker import VllmWorker, instances

PEERS = ["vllm"]
CONVERSATIONS, TURNS, ROUNDS = 40, 4, 4
MODES = ["kv", "round_robin"]
BLOCKS = 800
SMALL_BUFFER = 20
WORKER_SHARE = 0.6  # of one core: two of them leave the gateway and the clients enough

report = peer.Report("vllm", "vLLM: what is predicted, and what the index holds", 10, PEERS)


class Scene:
    """Two instances, the gateway before them, a follower of each one's events."""

    def __init__(self, folder, model, workers):
        self.folder, self.model, self.workers = folder, model, workers
        self.gateway = self.new_gateway("gateway")
        self.followers = [Follower(worker) for worker in workers]

    def new_gateway(self, name, mode="kv"):
        gateway = Process(self.folder, "gateway", name, gateway_config(self.workers, mode, self.model))
        await_known(gateway, [worker.name for worker in self.workers])
        return gateway

    def set_mode(self, mode):
        status, _, text = request(self.gateway.admin + "/admin/router_mode", {"mode": mode}, "PUT")
        assert status == 200, text

    def reset(self):
        """Both caches, and waits until the gateway has heard of it."""
        for worker in self.workers:
            worker.reset()
        eventually(lambda: all(status_of(self.gateway, worker.name)["indexed_blocks"] == 0 for worker in self.workers), "the index is empty", 30)

    def greet(self):
        """A chat with each worker: what all chats begin with is cached then, and the first requests, sent at one moment, do not race for it."""
        for worker in self.workers:
            answer = chat(worker.ports["http"], [{"role": "user", "content": "Hello"}], False, 1)
            assert answer.succeeded, answer
        eventually(lambda: all(status_of(self.gateway, worker.name)["indexed_blocks"] > 0 for worker in self.workers), "the greeting", 30)

    def flood(self):
        """More than both caches hold, in prompts of their own."""
        prompts = [[(7 * number + 13 * i) % 900 + 40 for i in range(1800)] for number in range(2 * BLOCKS * 32 // 1800 + 8)]
        failed = []

        def ask(mine):
            for prompt in mine:
                status, _, text = request(f"{self.gateway.url}/v1/completions",
                                          {"model": "test-model", "prompt": prompt, "max_tokens": 1})
                if status != 200:
                    failed.append(text)

        threads = [threading.Thread(target=ask, args=(prompts[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed[0]


def tokenizers_are_the_same():
    """The tokenizer check accepts vLLM."""
    shown = [status_of(scene.gateway, worker.name)["tokenizer"] for worker in scene.workers]
    report.check("the tokenizer check finds vLLM's prompts the same (Llama 3's special tokens and template)", set(shown) == {"same"},
                 ", ".join(shown))


def predictions_are_what_is_reported():
    """Forty conversations of four turns, streamed and not, kv and round_robin in turns, caches reset before each round."""
    rows, equal, total = [], 0, 0
    for streamed in (True, False):
        answers_of = {mode: [] for mode in MODES}
        for number in range(ROUNDS):
            for mode in MODES if number % 2 == 0 else MODES[::-1]:  # whoever comes first finds the machine in another state
                scene.reset()
                scene.greet()
                scene.set_mode(mode)
                answers_of[mode] += converse_all(scene.gateway.ports["http"], CONVERSATIONS, TURNS, streamed, starters=4)
        for mode, answers in answers_of.items():
            good = [answer for answer in answers if answer.succeeded]
            same = sum(answer.predicted_tokens == answer.cached_tokens for answer in good)
            equal, total = equal + same, total + ROUNDS * CONVERSATIONS * TURNS
            counts = [sum(answer.worker == worker.name for answer in good) for worker in scene.workers]
            hits = sum(a.cached_tokens for a in good) / max(1, sum(a.prompt_tokens for a in good))
            firsts = [a.ttft for a in good if a.ttft is not None] if streamed else []
            rows.append([mode, "streamed" if streamed else "whole", f"{len(good)} of {ROUNDS * CONVERSATIONS * TURNS}", f"{same / max(1, len(good)):.1%}",
                         f"{hits:.1%}", *(milliseconds(quantile(firsts, share)) for share in (0.5, 0.95)),
                         *(milliseconds(quantile([a.seconds for a in good], share)) for share in (0.5, 0.95)), "/".join(map(str, counts))])
            for answer in [a for a in answers if not a.succeeded][:3]:
                print("        failed:", answer, flush=True)
            for answer in [a for a in good if a.predicted_tokens != a.cached_tokens][:5]:
                print(f"        {mode} {answer.worker}: {answer.predicted_tokens} predicted, {answer.cached_tokens} cached "
                      f"of {answer.prompt_tokens}", flush=True)
    report.table(f"{CONVERSATIONS} conversations of {TURNS} turns, four at a time, {ROUNDS} rounds of each mode in turns; milliseconds",
                 ["mode", "answers", "answered", "predicted = reported", "hit rate", "TTFT p50", "TTFT p95", "whole p50", "whole p95",
                  "per worker"],
                 rows, "Two instances on one core each, with the load, the gateway and whatever else the machine did beside them.")
    report.check("predicted and reported cached tokens are equal in 99 % of the requests", equal >= 0.99 * total, f"{equal} of {total}")
    scene.set_mode("kv")


def histories_are_worth_their_cache():
    """24 people at once, each with a document and questions about it: more than one worker's memory has room for, less than that of both."""
    people, turns, rounds = 24, 6, 3
    modes = ["kv", "round_robin", "least_loaded"]
    answers_of = {mode: [] for mode in modes}
    for number in range(rounds):
        for mode in modes[number:] + modes[:number]:
            scene.reset()
            scene.set_mode(mode)
            answers_of[mode] += converse_all(scene.gateway.ports["http"], people, turns, True, parallel=people, first=1000 * (number + 1), starters=1, words=30,
                                             document=300, think_s=3)
    rows, hits = [], {}
    for mode, answers in answers_of.items():
        good = [answer for answer in answers if answer.succeeded]
        hits[mode] = sum(a.cached_tokens for a in good) / max(1, sum(a.prompt_tokens for a in good))
        later = [answer for place, answer in enumerate(answers) if place % turns and answer.succeeded]
        times = [[a.ttft for a in good], [a.ttft for a in later], [a.seconds for a in good]]
        rows.append([mode, f"{len(good)} of {rounds * people * turns}", f"{hits[mode]:.1%}",
                     *(milliseconds(quantile([t for t in some if t is not None], share)) for some in times for share in (0.5, 0.95)),
                     "/".join(str(sum(a.worker == worker.name for a in good)) for worker in scene.workers)])
    prompts = [a.prompt_tokens for answers in answers_of.values() for a in answers if a.succeeded]
    report.table(f"{people} people at once who ask {turns} questions each about a document of their own, {rounds} rounds of each mode in turns; milliseconds",
                 ["mode", "answered", "hit rate", "TTFT p50", "TTFT p95", "of follow-ups p50", "p95", "whole p50", "whole p95", "per worker"], rows,
                 f"Prompts of {sum(prompts) // len(prompts)} tokens on average, answers of 16, 3 s to think on average; each instance has room for {32 * BLOCKS:,} tokens.")
    report.check("kv reuses more of long histories than modes that do not know the caches", hits["kv"] > max(hits["round_robin"], hits["least_loaded"]) + 0.05,
                 ", ".join(f"{mode} {share:.1%}" for mode, share in hits.items()))
    report.check("every question was answered", all(a.succeeded for answers in answers_of.values() for a in answers))
    scene.set_mode("kv")


def requests_are_spread():
    """Prompts that have nothing in common, on two workers that are equally fast: each may take the same share of the processors, whichever
    core the clients and the gateway are on."""
    for worker in scene.workers:
        worker.run_on(range(os.cpu_count()))
    with contextlib.ExitStack() as shares:
        try:
            for worker in scene.workers:
                shares.enter_context(ProcessorShare(worker.name, worker.process.processes(), WORKER_SHARE))
        except NoShares as reason:
            report.skip("kv: requests per worker within 20 % of each other", f"two workers cannot be made equally fast here: {reason}")
            return
        for parallel in (16, 4):
            for streamed in (True, False):
                check_the_spread(parallel, streamed)


def check_the_spread(parallel, streamed):
    scene.reset()
    answers = converse_all(scene.gateway.ports["http"], 320, 1, streamed, parallel, allowed_token_ids=text_tokens(scene.model))
    times = [[answer.seconds for answer in answers if answer.worker == worker.name] for worker in scene.workers]
    shown = " and ".join(f"{len(one)} (p50 {milliseconds(quantile(one, 0.5))} ms)" for one in times)
    few, many = sorted(map(len, times))
    kind = "streamed" if streamed else "whole"
    report.check(f"kv: requests per worker within 20 % of each other when nothing else differs ({kind}, {parallel} at once)",
                 few >= 0.8 * many, shown)


def milliseconds(seconds):
    return "" if seconds is None else f"{1000 * seconds:.0f}"


def prompts_of_one_step_share():
    """What the profile of vLLM says (`prefix_when_planned`): of equal prompts that one step computes, the first is computed and the others find
    its blocks, although they were not there when the step was planned."""
    worker, count = scene.workers[0], 8
    for attempt in range(10):
        worker.reset()
        steps = metrics(worker)["vllm:iteration_tokens_total_count"]
        busy, twin = ([(factor * i + 100 * attempt) % 900 + 40 for i in range(tokens)] for factor, tokens in ((7, 1800), (11, 330)))
        cached = []

        def ask(prompt):
            _, _, text = request(worker.url + "/v1/completions", {"model": "test-model", "prompt": prompt, "max_tokens": 1})
            cached.append((json.loads(text)["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0)

        threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in [busy] + [twin] * count]
        for thread in threads:
            thread.start()
            if thread is threads[0]:
                threading.Event().wait(0.02)  # the step that the others wait behind
        for thread in threads:
            thread.join()
        steps = metrics(worker)["vllm:iteration_tokens_total_count"] - steps
        if steps == 2:
            break
    shown = f"{sorted(cached)} cached of 1800 and 8 times 330 tokens, in {steps:.0f} steps"
    report.check("prompts of one step share their blocks, as the simulated engine has it", sorted(cached) == [0, 0] + [320] * (count - 1) and steps == 2, shown)


def stored_by_step(worker, subscriber, prompt):
    """How many blocks of the prompt each step stored, by the events."""
    subscriber.live()
    status, _, text = request(worker.url + "/v1/completions", {"model": "test-model", "prompt": prompt, "max_tokens": 1})
    assert status == 200, text
    steps = []
    threading.Event().wait(0.5)  # the decoding request's events do not end, so that waiting for an end would not
    for _, payload in subscriber.live():
        for event in msgpack.unpackb(payload)[1]:
            at = 32 * sum(steps)
            if event["type"] == "BlockStored" and list(event["token_ids"]) == prompt[at:at + len(event["token_ids"])]:
                steps.append(len(event["block_hashes"]))
    return steps


def long_prompts_leave_room():
    """With a threshold of long prompts a step computes as much of one as the simulated engine has it: the whole budget while it is alone, the
    threshold beside another request."""
    budget, threshold, shown = 256, 64, {}
    timed = f"""worker:
  name: timed
  model: test-model
  block_size: 32
  max_batch_size: 16
  max_num_tokens: {budget}
  max_model_len: 2048
  prefix_when_planned: true
  long_prefill_token_threshold: {threshold}
  step_time: {{fixed: 5 ms}}
"""
    with contextlib.ExitStack() as stack:
        real = VllmWorker(scene.folder, "side-by-side", scene.model, options=["--max-num-batched-tokens", budget, "--long-prefill-token-threshold", threshold])
        stack.callback(real.stop)
        real.start().await_ready()
        simulated = Process(scene.folder, "worker", "timed", timed)
        stack.callback(simulated.stop)
        for worker in (real, simulated):
            subscriber = Subscriber(worker)
            stack.callback(subscriber.close)
            subscriber.join(worker, PoolView())
            alone, beside = ([(factor * i + i * i) % 200 + 40 for i in range(1000)] for factor in (7, 11))
            shown[worker.name] = [stored_by_step(worker, subscriber, alone)]
            decoding = threading.Thread(target=request, args=(worker.url + "/v1/completions",), kwargs={"body": {
                "model": "test-model", "prompt": list(range(40, 70)), "max_tokens": 1500, "ignore_eos": True}})
            decoding.start()
            threading.Event().wait(1)
            shown[worker.name].append(stored_by_step(worker, subscriber, beside))
            decoding.join()
    report.check("a prompt leaves room beside others as in the simulated engine (--long-prefill-token-threshold)",
                 shown["side-by-side"] == shown["timed"] and shown["timed"] == [[8, 8, 8, 7], [2] * 15 + [1]],
                 f"blocks of a prompt of 1000 tokens by step, alone and beside a decoding request: {shown['side-by-side']}; simulated {shown['timed']}")


def the_dashboard_shows_what_is_known():
    """The page of a gateway before vLLM: what vLLM tells, and a dash with its reason for what it does not."""
    if not shutil.which("chromium"):
        report.skip("the dashboard's page before vLLM", "no Chromium")
        return
    server = Server(folder, "dashboard", "--gateway", scene.gateway.admin)
    try:
        converse_all(scene.gateway.ports["http"], 12, 3, True, starters=2)

        def seen():
            return get_json(server.url + "api/state")["sample"]["workers"]
        eventually(lambda: len(seen()) == 2 and all(w["hit_rate_pct"] is not None and w["last_event_s"] is not None for w in seen()),
                   "hit rates and events are seen", 60)
        workers = seen()
        report.check("the dashboard has vLLM's hit rate, KV usage, queue and events", all(
            0 < w["hit_rate_pct"] <= 100 and (w["kv_usage_pct"] is not None or w["kv_blocks_used"] is not None) and w["queue"] is not None and w["index_trust"] == "exact" for w in workers),
            ", ".join(f"{w['hit_rate_pct']:.0f} % of tokens cached" for w in workers))
        report.check("and says unknown, not 0, of what vLLM does not tell (batch slots, evictions, drafts)", all(
            w["acceptance_rate_pct"] is None and w["evictions_per_s"] is None and (w["slots"] is None or w["slots_source"] == "inferred") for w in workers),
            ", ".join(f"slots {w['slots']}" for w in workers))
        browse("engines", server, {"workers": 2, "unknown": ["Accepted", "Evictions"], "picture": os.environ.get("KVIST_PICTURE", "")})
        report.check("in the browser each cell is what the API says, unknown ones with their reason", True)
    finally:
        server.stop()


def index_after_evictions():
    """The index after evictions."""
    scene.flood()
    for follower in scene.followers:
        held = follower.held()
        gone = len(follower.view.content) - len(held)
        check_equal(report, f"{follower.worker.name} after {gone} evictions", scene.gateway, follower)


def index_after_a_reset():
    """The index after /reset_prefix_cache."""
    scene.reset()
    for follower in scene.followers:
        check_equal(report, f"{follower.worker.name} after a reset", scene.gateway, follower)
    messages = [{"role": "user", "content": "The same long question, again and again. " * 12}]
    for _ in range(2):
        scene.reset()
        shown = []
        for _ in range(4):
            answer = chat(scene.gateway.ports["http"], messages, False)
            shown.append((answer.predicted_tokens, answer.cached_tokens))
        report.check("predictions right after a reset", all(p == c for p, c in shown[1:]), ", ".join(f"{p}/{c}" for p, c in shown))


def index_after_a_restart():
    """The index after a worker's restart."""
    worker = scene.workers[0]
    converse_all(scene.gateway.ports["http"], 8, 2, True)
    worker.kill()
    scene.followers[0].close()
    worker.buffer_steps = SMALL_BUFFER
    worker.start().await_ready()
    scene.followers[0] = Follower(worker)
    await_known(scene.gateway, [worker.name])
    # More steps that store blocks than its new buffer holds, whichever worker the gateway prefers.
    converse_all(worker.ports["http"], SMALL_BUFFER, 2, False)
    converse_all(scene.gateway.ports["http"], 16, 2, True)
    check_equal(report, f"{worker.name} after its restart", scene.gateway, scene.followers[0])
    check_equal(report, f"{scene.workers[1].name} after the other's restart", scene.gateway, scene.followers[1])


def late_gateways():
    """A gateway that starts late."""
    late = scene.new_gateway("late")
    try:
        check_equal(report, "late gateway, whole replay buffer", late, scene.followers[1])
        report.check("late gateway, whole replay buffer: the index is called exact", status_of(late, scene.workers[1].name)["index_exact"])
        overflowed = scene.workers[0]
        state = status_of(late, overflowed.name)
        held = len(scene.followers[0].held())
        report.check(f"late gateway, replay buffer of {SMALL_BUFFER} steps overflowed: not called exact", not state["index_exact"],
                     f"{state['indexed_blocks']} blocks known of {held} held, known share {state['cache'].get('known_share')}")
        # More than the worker takes whose cache is known, and prompts that are new to both, so that their blocks are published.
        converse_all(late.ports["http"], 24, 2, True, parallel=12, first=5000)
        state = status_of(late, overflowed.name)
        held = len(scene.followers[0].held())
        report.check("late gateway, overflowed buffer: it learns from what is routed and published", state["indexed_blocks"] > 0,
                     f"{state['indexed_blocks']} blocks known of {held} held, known share {state['cache'].get('known_share')}")
        overflowed.reset()
        converse_all(late.ports["http"], 8, 2, True)
        check_equal(report, "late gateway, overflowed buffer, after a clear", late, scene.followers[0])
        report.check("late gateway, overflowed buffer: exact after a clear", status_of(late, overflowed.name)["index_exact"])
    finally:
        late.stop()


def logs_are_quiet():
    """Neither side's log is filled."""
    lines = pathlib.Path(scene.gateway.log.name).read_text().splitlines()
    alarms = [line for line in lines if "have stopped" in line or "kv -> kv" in line]
    report.check("the gateway's log has no false alarms", not alarms, alarms[0] if alarms else f"{len(lines)} lines")
    before, seconds = scene.workers[1].log, 30
    threading.Event().wait(seconds)
    polls = [line for line in scene.workers[1].log[len(before):].splitlines() if "GET /" in line]
    report.check("the worker's log is not filled by polls", len(polls) <= seconds / 2, f"{len(polls)} lines in {seconds} s")
    events = get_json(scene.gateway.admin + "/admin/status")["workers"][1]["cache"]["events_silent"]
    report.check("events are not called silent", not events)


report.require("vllm")
with tempfile.TemporaryDirectory() as folder:
    model = llama3(pathlib.Path(folder) / "model")
    with instances(folder, [model, model], blocks=BLOCKS) as workers:
        scene = Scene(folder, model, workers)
        try:
            report.run(tokenizers_are_the_same, prompts_of_one_step_share, long_prompts_leave_room, predictions_are_what_is_reported, histories_are_worth_their_cache, the_dashboard_shows_what_is_known, requests_are_spread, index_after_evictions,
                       index_after_a_reset, index_after_a_restart, late_gateways, logs_are_quiet)
        finally:
            scene.gateway.stop()
            for follower in scene.followers:
                follower.close()
