"""A WebSocket client of the standard library, for the dashboard: connects, sends commands, sorts what comes."""
import base64
import hashlib
import json
import os
import socket
import struct
import time
import urllib.parse

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
DEADLINE_S = 60


class Closed(Exception):
    """The server has closed; `code` is its reason, or None where the connection broke."""

    def __init__(self, code):
        super().__init__(f"closed with {code}")
        self.code = code


def handshake(url, protocol="kvist-dashboard-1", headers=(), receive_buffer=None, tls=None):
    """(socket, status, head, bytes after it) of a request for a WebSocket. `tls`: the context for a server that speaks it."""
    place = urllib.parse.urlsplit(url)
    sock = socket.socket()
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(DEADLINE_S)
    sock.connect((place.hostname, place.port))
    if tls:
        sock = tls.wrap_socket(sock, server_hostname=place.hostname)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [f"GET {place.path} HTTP/1.1", f"Host: {place.netloc}", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
             f"Sec-WebSocket-Key: {key}", f"Sec-WebSocket-Protocol: {protocol}", *headers]
    sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            break
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1])
    if status == 101:
        accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest())
        assert b"Sec-WebSocket-Accept: " + accept in head, head
    return sock, status, head.decode(), rest


def frame(opcode, payload, final=True, mask=b"\x12\x34\x56\x78"):
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack("!H", size) if size < 65536 else b"\xff" + struct.pack("!Q", size)
    body = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
    return bytes([(0x80 if final else 0) | opcode]) + length + mask + body


class Page:
    """What a page of the dashboard does. `seen` holds the newest message of each type, `events` all events."""

    def __init__(self, url, **options):
        self.socket, status, head, self.rest = handshake(url, **options)
        assert status == 101, (status, head)
        self.seen, self.events, self.samples, self.replies, self.last_id = {}, [], [], {}, 0

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self, size):
        while len(self.rest) < size:
            more = self.socket.recv(1 << 16)
            if not more:
                raise Closed(None)
            self.rest += more
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def read_frame(self):
        first, second = self._read(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", self._read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self._read(8))
        assert not second & 0x80, "a server's frames are not masked"
        return first & 15, self._read(size)

    def receive(self):
        """The next message."""
        while True:
            opcode, payload = self.read_frame()
            if opcode == 9:
                self.socket.sendall(frame(10, payload))
            elif opcode == 8:
                raise Closed(struct.unpack("!H", payload[:2])[0])
            elif opcode == 1:
                break
        message = json.loads(payload)
        self.seen[message["type"]] = message
        if message["type"] == "events":
            self.events += message["events"]
        if message["type"] == "sample":
            self.samples.append(message)
        if message["type"] == "reply":
            self.replies[message["id"]] = message
        return message

    def until(self, condition, what, seconds=DEADLINE_S):
        """Reads until the condition holds; it may fail by KeyError or TypeError meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if condition():
                    return
            except (KeyError, TypeError, IndexError):
                pass
            self.receive()
        raise AssertionError(f"not within {seconds} s: {what}; last sample {json.dumps(self.seen.get('sample'))[:2000]}")

    def ask(self, command, **fields):
        """The whole reply to a command."""
        self.last_id += 1
        self.socket.sendall(frame(1, json.dumps({"command": command, "id": self.last_id, **fields}).encode()))
        while self.last_id not in self.replies:
            self.receive()
        return self.replies.pop(self.last_id)

    def result(self, command, **fields):
        reply = self.ask(command, **fields)
        assert reply["ok"], (command, fields, reply)
        return reply["result"]
