"""A server of chats and completions that answers at a known pace and keeps what it was asked."""
import http.server
import json
import threading
import time

GAP_S = 0.005
TOKENS = 6


class ChatServer:
    """Answers each chat with TOKENS chunks, gap_s apart; without usage if it is told so. Of all requests after the first `answers` it says nothing
    more than the first chunk. Keeps what it was asked."""

    def __init__(self, usage=True, refuse_quoting=None, gap_s=GAP_S, cached=True, answers=None, content_type="text/event-stream"):
        self.requests, self.lock, self.answers = [], threading.Lock(), answers
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server.lock:
                    server.requests.append((self.path, dict(self.headers), body))
                    hangs = server.answers is not None and len(server.requests) > server.answers
                if refuse_quoting:
                    return self.refuse(f"no access with {self.headers[refuse_quoting]}")
                self.send_response(200)
                self.send_header("Content-Type", content_type)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                chat = "messages" in body
                if chat:
                    self.chunk({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})
                for i in range(TOKENS):
                    time.sleep(gap_s)
                    self.chunk({"choices": [{"index": 0, "delta": {"content": f"w{i} "}} if chat else {"index": 0, "text": f"w{i} "}]})
                    if hangs:
                        threading.Event().wait()
                if usage:
                    details = {"prompt_tokens_details": {"cached_tokens": 10}} if cached else {}
                    self.chunk({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": TOKENS, "total_tokens": 40 + TOKENS, **details}})
                self.raw("data: [DONE]\n\n")
                self.wfile.write(b"0\r\n\r\n")

            def refuse(self, message):
                answer = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
                self.send_response(401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def chunk(self, event):
                self.raw("data: " + json.dumps(event) + "\n\n")

            def raw(self, text):
                self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())
                self.wfile.flush()

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
