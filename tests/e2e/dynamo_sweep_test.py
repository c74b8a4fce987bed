"""The published experiment in small: round-robin and KV-aware routing on a DynamoGraphDeployment, switched by DYN_ROUTER_MODE. The graph is an
object of a small API server of our own, its pods are kvist processes; tests/cluster has the same with a real API server."""
import contextlib
import http.server
import json
import pathlib
import socket
import sqlite3
import subprocess
import tempfile
import threading

from deployment import BINARY, run
from dynamo_operator import GRAPH, MODEL, Operator, SWEEP

KUBECONFIG = """current-context: test
contexts:
- {{name: test, context: {{cluster: test, user: test}}}}
clusters:
- {{name: test, cluster: {{server: "{server}"}}}}
users:
- {{name: test, user: {{token: secret}}}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Refusal(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Graphs:
    """One graph, applied whole. `applied`: the managers of the requests that changed it; `throttled`: how many are still to be told to come later."""

    def __init__(self, throttled):
        self.graph, self.applied, self.throttled, self.lock = None, [], throttled, threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.serve(self, None)

            def do_PATCH(self):
                outer.serve(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def serve(self, handler, body):
        assert handler.headers["Authorization"] == "Bearer secret"
        try:
            code, answer = 200, self.call(handler.command, handler.path, body)
        except Refusal as why:
            code = why.code
            answer = {"kind": "Status", "code": code, "message": "storage is (re)initializing", "details": {"retryAfterSeconds": 1}}
        data = json.dumps(answer).encode()
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def call(self, method, path, body=None, kind=None):
        with self.lock:
            if method == "PATCH" and path.endswith("/status"):
                self.graph["status"] = body["status"]
            elif method == "PATCH":
                if self.throttled > 0:
                    self.throttled -= 1
                    raise Refusal(429)
                before = self.graph or {"metadata": {"generation": 0}}
                if before.get("spec") != body["spec"]:
                    self.applied.append(path.split("fieldManager=")[1].split("&")[0])
                    self.graph = {**body, "metadata": {"generation": before["metadata"]["generation"] + 1}, "status": before.get("status", {})}
            if self.graph is None:
                raise Refusal(404)
            return json.loads(json.dumps(self.graph))


def one_deployment_for_each_mode():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        graphs = Graphs(throttled=1)
        stack.callback(graphs.close)
        port = free_port()
        (pathlib.Path(folder) / "config").write_text(KUBECONFIG.format(server=graphs.url))
        (pathlib.Path(folder) / "sweep.yaml").write_text(SWEEP.format(model=MODEL, port=port, kubeconfig=f"{folder}/config", more=GRAPH))
        operator = Operator(graphs.call, folder, "llama-70b", port, MODEL)
        stack.callback(operator.stop)
        done = subprocess.run([BINARY, "sweep", "-f", pathlib.Path(folder) / "sweep.yaml", "--output", folder], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        assert operator.modes == ["round-robin", "kv"] and operator.problem is None, (operator.modes, operator.problem)
        assert graphs.applied == ["kvist", "kvist"] and graphs.throttled == 0, graphs.applied
        results = max(path for path in pathlib.Path(folder).glob("dynamo-*") if path.is_dir())
        measured = sqlite3.connect(results / "results.sqlite").execute("SELECT mode, concurrency, repetition FROM levels ORDER BY position").fetchall()
        assert [row[0] for row in measured] == 4 * ["round_robin"] + 4 * ["kv"], measured


if __name__ == "__main__":
    run([one_deployment_for_each_mode])
