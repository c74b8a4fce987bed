#!/usr/bin/env python3
"""One gateway against three before six timed workers, in real processes: the second part of docs/results/gateways.md.

Users converse in a closed loop, each with one of the gateways; where that does not answer, they go to the next one, as a balancer would send
them. In the last run a gateway is killed and comes back, and the NATS server is killed and comes back, under load.

usage: gateways_live.py KVIST [--seconds N] [--users N] [--print]
"""
import argparse
import contextlib
import pathlib
import random
import signal
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
# The helpers of the end-to-end tests take the binary as the first argument too.
from conversations import chat, starter  # noqa: E402
from deployment import Process, eventually, gateway_config, get_json, request  # noqa: E402
from nats_server import NatsServer  # noqa: E402

PAGE = ROOT / "docs/results/gateways.md"
BEGIN, END = "<!-- live: begin -->\n", "<!-- live: end -->\n"
WORKER = """worker:
  name: {name}
  model: test-model
  block_size: 32
  kv_blocks: 3000
  max_batch_size: 16
  max_num_tokens: 2048
  time_scale: 2
  drain_timeout: 1 s
  output_length: {{mean_tokens: 100, standard_deviation_tokens: 20}}
"""
WORKERS, STARTERS, TURNS = 6, 12, 4


class Deployment:
    def __init__(self, stack, folder, gateways, exchange):
        self.folder, self.stack, self.exchange = folder, stack, exchange
        self.nats = NatsServer(folder) if exchange else None
        if exchange:
            stack.callback(lambda: self.nats.stop(signal.SIGKILL))
        self.workers = [Process(folder, "worker", f"worker-{i}", WORKER.format(name=f"worker-{i}")) for i in range(WORKERS)]
        for worker in self.workers:
            stack.callback(worker.stop, signal.SIGKILL)
        self.gateways = [self.start(i) for i in range(gateways)]

    def start(self, number):
        config = gateway_config(self.workers, "kv", patient=True) + "  threads: 1\n"
        if self.exchange:
            config += f"  peers: {{nats: \"{self.nats.url}\", name: gateway-{number}}}\n"
        gateway = Process(self.folder, "gateway", f"gateway-{number}", config)
        self.stack.callback(gateway.stop, signal.SIGKILL)
        eventually(lambda: all(w["healthy"] for w in get_json(gateway.admin + "/admin/status")["workers"]), "workers healthy")
        return gateway

    def metric(self, name):
        total = 0.0
        for gateway in self.gateways:
            with contextlib.suppress(OSError):
                for line in request(gateway.admin + "/metrics")[2].splitlines():
                    if line.startswith((name + " ", name + "{")):
                        total += float(line.rsplit(" ", 1)[1])
        return total


class Users:
    def __init__(self, deployment, count, seconds):
        self.deployment, self.turns, self.broken = deployment, [], 0
        self.end = time.monotonic() + seconds
        self.threads = [threading.Thread(target=self.converse, args=(i,), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def converse(self, user):
        source, at = random.Random(user), user
        while time.monotonic() < self.end:
            messages = [{"role": "user", "content": starter(source.randrange(STARTERS), 700)}]
            for _ in range(TURNS):
                seed = source.randrange(1 << 30)
                for _ in range(2 * len(self.deployment.gateways)):
                    gateway = self.deployment.gateways[at % len(self.deployment.gateways)]
                    turn, text = chat(gateway.ports["http"], messages, 120, seed)
                    if turn.succeeded:
                        break
                    time.sleep(0.5)  # a connection breaks a moment before its process is known to be dead
                    if gateway.process.poll() is None:
                        break
                    self.broken += 1  # the gateway is dead: what it had is asked of another
                    at += 1
                self.turns.append((time.monotonic(), turn, len(text)))
                if time.monotonic() >= self.end:
                    return
                if not turn.succeeded:
                    break
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"And then? {source.random()}"}]
            at += source.randrange(3)  # another connection

    def wait(self):
        for thread in self.threads:
            thread.join(200)
        return self.turns


def faults(deployment, seconds):
    """A gateway dies after a quarter of the time and is back at half; NATS dies at five eighths and is back at three quarters."""
    begun = time.monotonic()

    def at(share):
        time.sleep(max(0.0, begun + share * seconds - time.monotonic()))

    at(0.25)
    deployment.gateways[2].stop(signal.SIGKILL)
    at(0.5)
    deployment.gateways[2] = deployment.start(2)
    at(0.625)
    deployment.nats.stop(signal.SIGKILL)
    at(0.75)
    deployment.nats.start()


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def run(title, gateways, exchange, users, seconds, disturb=False):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        deployment = Deployment(stack, folder, gateways, exchange)
        load = Users(deployment, users, seconds)
        if disturb:
            faults(deployment, seconds)
        begun = load.end - seconds
        turns = load.wait()
        measured = [turn for ended, turn, _ in turns if ended - begun > seconds / 6]
        good = [turn for turn in measured if turn.succeeded]
        if exchange:
            eventually(lambda: all(len(get_json(g.admin + "/admin/peers")["models"][0]["peers"]) == gateways - 1 for g in deployment.gateways),
                       "all hear all in the end")
            eventually(lambda: all(sum(w["in_flight"] for w in get_json(g.admin + "/admin/workers")["workers"]) == 0 for g in deployment.gateways),
                       "no load is believed in at the end")
        prompt = sum(turn.prompt_tokens for turn in good)
        return [title, str(len(turns)), str(sum(not turn.succeeded for _, turn, _ in turns)), str(load.broken),
                f"{100 * sum(turn.cached_tokens for turn in good) / prompt:.1f} %", f"{1000 * statistics.median(turn.ttft for turn in good):.0f} ms",
                f"{1000 * percentile([turn.ttft for turn in good], 0.95):.0f} ms",
                f"{sum(size for ended, _, size in turns if ended - begun > seconds / 6) / (seconds * 5 / 6):,.0f}",
                f"{deployment.metric('kvist_gateway_peers_sent_messages_total') / seconds:.0f}" if exchange else ""]


HEADER = ["", "requests", "failed", "asked again", "hit rate", "TTFT p50", "TTFT p95", "output tokens/s", "messages/s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("kvist")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--users", type=int, default=48)
    parser.add_argument("--print", action="store_true")
    args = parser.parse_args()
    rows = [run("1 gateway", 1, False, args.users, args.seconds), run("3 gateways", 3, True, args.users, args.seconds),
            run("3 gateways that do not talk", 3, False, args.users, args.seconds),
            run("3 gateways; one of them killed and back, then NATS", 3, True, args.users, args.seconds, disturb=True)]
    lines = ["| " + " | ".join(cells) + " |" for cells in [HEADER, ["---", *["---:"] * (len(HEADER) - 1)], *rows]]
    text = (f"{args.users} users, {WORKERS} timed workers of 16 slots at twice their speed, {args.seconds:g} s each; the first sixth is not measured. \"Asked again\" "
            "are requests whose gateway died, and which a user asked of another.\n\n" + "\n".join(lines) + "\n")
    failed = sum(int(row[2]) for row in rows)
    if args.print:
        print(text)
    else:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
