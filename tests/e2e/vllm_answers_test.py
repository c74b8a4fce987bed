"""Answers of a real vLLM, recorded (tests/golden/vllm/answers.json), replayed by a stand-in server: through the gateway a client
gets them unchanged, complete and streamed, answers and refusals."""
import contextlib
import http.client
import http.server
import json
import pathlib
import re
import tempfile
import threading

from deployment import DEADLINE_S, Process, eventually, get_json, run

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "vllm"
ANSWERS = {entry["what"]: entry for entry in json.loads((GOLDEN / "answers.json").read_text())["answers"]}
PAGE = (GOLDEN / "metrics.txt").read_bytes()
# The gateway requests usage even if the client does not: vLLM then answers as recorded here.
WITH_USAGE = {"stream": "stream with usage"}
# Answered by the gateway itself (docs/guide/api-fidelity.md).
OWN = ["an unknown path", "a wrong method", "models", "health"]

CONFIG = """gateway:
  model: test-model
  mode: round_robin
  block_size: 32
  connect_timeout: 60 s
  admission: {{enabled: false}}
  workers:
    - name: recorded
      url: http://127.0.0.1:{port}
"""


class RecordedVllm(http.server.BaseHTTPRequestHandler):
    """Replies with the recorded answer that the request names in X-Recorded."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, kind, body):
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/metrics":
            return self.answer(200, "text/plain", PAGE)
        found = next((entry for entry in ANSWERS.values() if entry["method"] == "GET" and entry["path"] == self.path),
                     ANSWERS["an unknown path"])
        return self.answer(found["status"], found["content_type"], found["body"].encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        what = self.headers.get("X-Recorded")
        if what is None:
            return self.answer(404, "application/json", b'{"detail":"Not Found"}')
        if b'"include_usage"' in body:
            what = WITH_USAGE.get(what, what)
        found = ANSWERS[what]
        return self.answer(found["status"], found["content_type"], found["body"].encode())


def send(port, entry):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    body = entry["request"] if isinstance(entry["request"], str) else json.dumps(entry["request"])
    headers = {"X-Recorded": entry["what"], "Content-Type": "application/json"}
    try:
        connection.request(entry["method"], entry["path"], None if entry["request"] is None else body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Content-Type"), answer.read().decode()
    finally:
        connection.close()


def comparable(text):
    """The answer without the fields that differ between two answers of vLLM to one request."""
    text = re.sub(r'"created":\d+', '"created":0', text)
    return re.sub(r'"(chatcmpl|cmpl)-[0-9a-f]+"', r'"\1"', text)


@contextlib.contextmanager
def gateway_before_the_recording():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), RecordedVllm)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        gateway = Process(folder, "gateway", "gateway", CONFIG.format(port=server.server_address[1]))
        try:
            eventually(lambda: get_json(gateway.admin + "/admin/status")["workers"][0]["healthy"], "the worker is healthy")
            yield gateway
        finally:
            gateway.stop()
            server.shutdown()
            server.server_close()


def recorded_answers_pass_unchanged():
    different = []
    with gateway_before_the_recording() as gateway:
        asked = [entry for what, entry in ANSWERS.items() if what not in OWN]
        for entry in asked:
            status, kind, text = send(gateway.ports["http"], entry)
            expected = (entry["status"], entry["content_type"], comparable(entry["body"]))
            if (status, kind, comparable(text)) != expected:
                different.append((entry["what"], expected, (status, kind, comparable(text))))
    assert not different, different
    print(f"        {len(asked)} recorded answers")


run([recorded_answers_pass_unchanged])
