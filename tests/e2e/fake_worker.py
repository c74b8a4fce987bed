"""A worker whose answers to requests a test chooses, in front of which nothing looks wrong: it is up, healthy and idle."""
import http.server
import json
import threading


class FakeWorker:
    """`answer`: (status, content type, body) of each POST, or what gives an answer through the request's handler; None: as a worker would. `models`: what GET /v1/models lists. `key`: the
    only Authorization that it takes. `keeps`: connections serve more than one request."""

    def __init__(self, name, answer=None, models=("test-model",), key=None, keeps=True):
        self.name, self.answer, self.models, self.key = name, answer, models, key
        self.posts, self.bodies = 0, []
        self.lock = threading.Lock()
        worker = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send(self, status, kind, body):
                data = body.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                if not keeps:
                    self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                if self.path == "/v1/models":
                    data = [{"id": model, "object": "model", "max_model_len": 16384} for model in worker.models]
                    return self.send(200, "application/json", json.dumps({"object": "list", "data": data}))
                self.send(200, "text/plain", "" if self.path == "/metrics" else "{}")

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/tokenize":
                    return self.send(404, "application/json", "{}")
                with worker.lock:
                    worker.posts += 1
                    worker.bodies = [*worker.bodies[-9:], (self.path, body, self.headers)]
                if worker.key and self.headers["Authorization"] != worker.key:
                    return self.send(401, "application/json", '{"error":"Unauthorized"}')
                if callable(worker.answer):
                    return worker.answer(self)
                self.send(*(worker.answer or GOOD))

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):
                """A gateway that ends resets its idle connections."""

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


GOOD = (200, "application/json", json.dumps({
    "id": "x", "object": "chat.completion", "created": 1, "model": "test-model",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}}))
