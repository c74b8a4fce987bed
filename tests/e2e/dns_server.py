"""A small DNS server for tests: UDP on loopback, answers from a table that a test changes while it runs."""
import socket
import struct
import threading

A, AAAA, SRV = 1, 28, 33


def name_bytes(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split(".")) + b"\0"


class DnsServer:
    """`records[(name, type)]`: a list of values, addresses or (priority, port, target). A name without any entry does not exist;
    `silent` lets questions go unanswered, `failing` answers SERVFAIL."""

    def __init__(self, ttl=1, host="127.0.0.1"):
        self.records, self.ttl, self.silent, self.failing, self.questions = {}, ttl, False, False, 0
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, 0))
        self.address = f"[{host}]" if ":" in host else host
        self.address += ":%d" % self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def close(self):
        self.socket.close()

    def serve(self):
        while True:
            try:
                message, client = self.socket.recvfrom(4096)
            except OSError:
                return
            self.questions += 1
            if not self.silent:
                self.socket.sendto(self.answer(message), client)

    def answer(self, message):
        at, labels = 12, []
        while message[at]:
            labels.append(message[at + 1:at + 1 + message[at]].decode())
            at += 1 + message[at]
        question = message[12:at + 5]
        kind = struct.unpack(">H", message[at + 1:at + 3])[0]
        name = ".".join(labels).lower()
        values = self.records.get((name, kind), [])
        code = 2 if self.failing else 0 if any(known == name for known, _ in self.records) else 3
        if code:
            values = []
        head = message[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, len(values), 0, 0)
        return head + question + b"".join(self.record(kind, value) for value in values)

    def record(self, kind, value):
        if kind == SRV:
            priority, port, target = value
            data = struct.pack(">HHH", priority, 0, port) + name_bytes(target)
        else:
            data = socket.inet_pton(socket.AF_INET if kind == A else socket.AF_INET6, value)
        return b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, self.ttl, len(data)) + data
