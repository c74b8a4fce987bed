#!/usr/bin/env python3
"""What TLS costs the gateway, per handshake and per chunk, beside haproxy in the same run with the same certificate and cipher.

Handshakes: `openssl s_time -new` connects again and again, with a full handshake each time; processor time of the proxy for each, the
connection's beginning and end included. (The gateway sends one ticket for a resumption, haproxy OpenSSL's default of two.) Chunks: the open-loop streams of tests/peers/paced_server.cc, driven by `kvist loadgen`, through each proxy with TLS and
without; the worker's side has none. haproxy has one thread as long as the gateway has one. The rounds alternate between the two.
The ratios are meaningful, the times only in comparison.

usage: tls_beside_haproxy.py KVIST [--streams N ...] [--rate CHUNKS_PER_S] [--threads N] [--rounds N] [--seconds S] [--cipher SUITE]
"""
import argparse
import pathlib
import re
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "peers"), str(ROOT / "tests" / "e2e")]

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("kvist")
arguments.add_argument("--streams", type=int, nargs="+", default=[200, 1000])
arguments.add_argument("--rate", type=int, default=20_000, help="chunks a second, over all streams")
arguments.add_argument("--threads", type=int, default=1, help="of the gateway; haproxy gets as many")
arguments.add_argument("--rounds", type=int, default=3)
arguments.add_argument("--seconds", type=float, default=6, help="of each load, after its warm-up")
arguments.add_argument("--cipher", default="TLS_AES_256_GCM_SHA384", help="of TLS 1.3: what haproxy offers; the gateway has to choose the same")
options = arguments.parse_args()
sys.argv[1:] = [options.kvist]

import fronts  # noqa: E402  (they read the binary's path from the command line)
import kvist_loadgen  # noqa: E402
from paced_server import PacedServer  # noqa: E402
from tls_test import Authority, ask  # noqa: E402

TOKENS, PROMPT, FIRST_MS = 100, 400, 50
ONE = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}


class Certificates:
    """One authority and one certificate for both."""

    def __init__(self, folder):
        self.authority = Authority(folder, "ca")
        self.authority.issue("front")
        self.ca, self.certificate, self.key = (self.authority.path(name) for name in ("ca.pem", "front.pem", "front.key"))
        self.both = self.authority.path("both.pem")  # haproxy has them in one file
        pathlib.Path(self.both).write_text(pathlib.Path(self.certificate).read_text() + pathlib.Path(self.key).read_text())


class Secure:
    """In front of a Front: TLS towards clients, if there are certificates."""

    certificates = None

    def start(self):
        if self.certificates:
            self.url = self.url.replace("http:", "https:")
        return super().start()

    def is_ready(self):
        return ask(self.url + "/v1/chat/completions", self.certificates.ca, ONE)[0] == 200 if self.certificates else super().is_ready()

    def edited(self, *changes):
        """The command, with its configuration file changed."""
        command = super().command()
        path = pathlib.Path(command[-1])
        text = path.read_text()
        for old, new in changes:
            assert old in text, (old, text)
            text = text.replace(old, new)
        path.write_text(text)
        return command


class Haproxy(Secure, fronts.Haproxy):
    def command(self):
        changes = [("global\n", f"global\n  nbthread {options.threads}\n")]
        if self.certificates:
            bind = f"bind 127.0.0.1:{self.port}"
            changes.append((bind, f"{bind} ssl crt {self.certificates.both} ssl-min-ver TLSv1.3 ciphersuites {options.cipher}"))
        return self.edited(*changes)


class Kvist(Secure, fronts.Kvist):
    def command(self):
        settings = f"  threads: {options.threads}\n"
        if self.certificates:
            settings += f"  tls: {{certificate: {self.certificates.certificate}, key: {self.certificates.key}}}\n"
        return self.edited(("gateway:\n", "gateway:\n" + settings))


class Upstream:
    """The server as a worker that publishes no events."""

    def __init__(self, server):
        self.name, self.url, self.ports = "paced", server.url, {"http": server.port}


KINDS = {"haproxy": Haproxy, "kvist": Kvist}


def make(name, folder, server, certificates):
    front = KINDS[name](name, folder, [Upstream(server)], "m", 32)
    front.certificates = certificates
    return front.start()


def agreed(front, certificates):
    """Protocol and cipher that a client with OpenSSL's defaults gets."""
    with socket.create_connection(("127.0.0.1", front.port), timeout=30) as plain:
        with ssl.create_default_context(cafile=certificates.ca).wrap_socket(plain, server_hostname="127.0.0.1") as secured:
            return secured.version(), secured.cipher()[0]


def handshakes(front, certificates):
    """(processor seconds, handshakes)."""
    cpu = front.cpu_seconds()
    done = subprocess.run(["openssl", "s_time", "-connect", f"127.0.0.1:{front.port}", "-new", "-time", str(max(1, round(options.seconds))),
                           "-CAfile", certificates.ca], capture_output=True, text=True, timeout=options.seconds * 10 + 60)
    counts = re.findall(r"(\d+) connections in [\d.]+ real seconds", done.stdout)
    assert done.returncode == 0 and counts, (done.stdout, done.stderr)
    return front.cpu_seconds() - cpu, int(counts[-1])


def chunks(folder, front, server, streams, certificates):
    """(processor seconds, chunks) of one load."""
    gap_ms = 1e3 * streams / options.rate
    server.reset()
    cpu = front.cpu_seconds()
    warmup = 2 + int(TOKENS * gap_ms / 1e3)
    process = kvist_loadgen.start(folder, front.url, kvist_loadgen.single_turns(PROMPT, TOKENS, options.rate / TOKENS), streams,
                                  warmup + options.seconds, warmup_s=warmup, options=["--ca", certificates.ca] if certificates else [])
    try:
        while process.process.poll() is None:
            time.sleep(0.2)
        said = kvist_loadgen.summary(process)
    finally:
        process.stop()
    if said.failed:
        print(f"  {said.failed} of {said.failed + said.succeeded} failed: {said.error}", file=sys.stderr)
    return front.cpu_seconds() - cpu, server.record().tokens


def measure(folder, certificates, found):
    """One round: each figure of each proxy is appended to `found`, as microseconds per piece."""
    def note(what, name, cpu, pieces):
        found.setdefault(what, {}).setdefault(name, []).append(1e6 * cpu / max(1, pieces))

    for name in KINDS:
        server = PacedServer(folder, FIRST_MS, 50)
        try:
            front = make(name, folder, server, certificates)
            try:
                found.setdefault("agreed", {})[name] = agreed(front, certificates)
                note("full handshake", name, *handshakes(front, certificates))
            finally:
                front.stop()
        finally:
            server.stop()
    for streams in options.streams:
        for secured in (None, certificates):
            for name in KINDS:
                server = PacedServer(folder, FIRST_MS, 1e3 * streams / options.rate)
                try:
                    front = make(name, folder, server, secured)
                    try:
                        note(f"chunk, {streams} streams, {'TLS' if secured else 'plain'}", name, *chunks(folder, front, server, streams, secured))
                    finally:
                        front.stop()
                finally:
                    server.stop()


def main():
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        for _ in range(options.rounds):
            measure(pathlib.Path(folder), certificates, found)
    both = found.pop("agreed")
    print(f"{options.threads} thread{'s' * (options.threads > 1)}, {options.rounds} rounds, medians (least to most); " +
          ", ".join(f"{name}: {' '.join(what)}" for name, what in both.items()))
    for what, rows in found.items():
        medians = {name: statistics.median(values) for name, values in rows.items()}
        cells = ", ".join(f"{name} {medians[name]:8.2f} us ({min(values):.2f} to {max(values):.2f})" for name, values in rows.items())
        print(f"  {what:32} {cells}   {medians['kvist'] / medians['haproxy']:5.2f} of haproxy's")
    for streams in options.streams:
        added = {name: statistics.median(found[f"chunk, {streams} streams, TLS"][name]) -
                 statistics.median(found[f"chunk, {streams} streams, plain"][name]) for name in KINDS}
        print(f"  TLS adds to a chunk, {streams} streams: " + ", ".join(f"{name} {us:.2f} us" for name, us in added.items()))
    if len(set(both.values())) > 1:
        print("the two did not agree on the same protocol and cipher with their client: the figures cannot be compared", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
