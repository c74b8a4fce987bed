"""Debian's nats-server as a process of a test, and a client that says and hears plain messages."""
import json
import os
import shutil
import signal
import socket
import subprocess
import time

from deployment import DEADLINE_S


def binary():
    found = shutil.which("nats-server", path=os.environ.get("PATH", "") + ":/usr/sbin")
    assert found, "nats-server is not there: scripts/install-dependencies --tests"
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class NatsServer:
    """Keeps its port and its JetStream store over a restart."""

    def __init__(self, folder, *options, jetstream=True):
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        store = ["--jetstream", "--store_dir", f"{folder}/nats"] if jetstream else []
        self.command = [binary(), "--addr", "127.0.0.1", "--port", str(self.port), *store, *options]
        self.log = open(f"{folder}/nats.log", "ab")
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            assert self.process.poll() is None, open(self.log.name).read()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("nats-server does not listen")

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(DEADLINE_S)

    def publish(self, subject, data):
        with socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S) as connection:
            stream = connection.makefile("rb")
            stream.readline()  # INFO
            connection.sendall(b"CONNECT " + json.dumps({"verbose": False, "pedantic": False}).encode() + b"\r\n"
                               + f"PUB {subject} {len(data)}\r\n".encode() + data + b"\r\nPING\r\n")
            while not (line := stream.readline()).startswith(b"PONG"):
                assert line and not line.startswith(b"-ERR"), line
