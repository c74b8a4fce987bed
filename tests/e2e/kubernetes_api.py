"""A small API server of Kubernetes, in plain HTTP: lists and watches of two collections, and faults on demand. The real one is in tests/cluster."""
import http.server
import json
import threading
import urllib.parse

COLLECTIONS = {"/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices": "EndpointSlice", "/api/v1/namespaces/{}/pods": "Pod"}


class ApiServer:
    """`log` has what was asked: (path, query). `oldest`: versions before it are too old to be watched from. `token`: that is wanted; None: any."""

    def __init__(self, namespace="default"):
        self.namespace, self.version, self.oldest, self.token = namespace, 1, 0, None
        self.objects = {}  # (collection, name) -> object
        self.events = []   # (version, collection, type, object)
        self.log, self.watches, self.generation = [], 0, 0
        self.changed = threading.Condition()
        self.port = 0
        self.server = None
        self.open()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def open(self):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.answer(self)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.send(self, 201, {**body, "status": {"allowed": True}})

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        """The server is gone, and all watches with it."""
        self.server.shutdown()
        self.server.server_close()
        self.break_off()

    def break_off(self):
        with self.changed:
            self.generation += 1
            self.changed.notify_all()

    def put(self, kind, name, **fields):
        """Makes or replaces an object."""
        collection = next(path for path, of in COLLECTIONS.items() if of == kind)
        with self.changed:
            self.version += 1
            known = (collection, name) in self.objects
            made = {"kind": kind, **fields}
            made["metadata"] = {"name": name, "namespace": self.namespace, "resourceVersion": str(self.version), **fields.get("metadata", {})}
            self.objects[collection, name] = made
            self.events.append((self.version, collection, "MODIFIED" if known else "ADDED", made))
            self.changed.notify_all()

    def delete(self, kind, name):
        collection = next(path for path, of in COLLECTIONS.items() if of == kind)
        with self.changed:
            self.version += 1
            gone = self.objects.pop((collection, name))
            gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
            self.events.append((self.version, collection, "DELETED", gone))
            self.changed.notify_all()

    def forget_history(self):
        with self.changed:
            self.version += 1
            self.oldest = self.version

    @staticmethod
    def send(handler, status, body):
        data = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    @staticmethod
    def status(code, message):
        return {"kind": "Status", "code": code, "message": message}

    def answer(self, handler):
        target = urllib.parse.urlsplit(handler.path)
        query = {key: values[0] for key, values in urllib.parse.parse_qs(target.query).items()}
        self.log.append((target.path, query))
        if self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
            return self.send(handler, 401, self.status(401, "Unauthorized"))
        if target.path == "/version":
            return self.send(handler, 200, {"major": "1", "minor": "37"})
        collection = next((path for path in COLLECTIONS if path.format(self.namespace) == target.path), None)
        if not collection:
            return self.send(handler, 404, self.status(404, "not found"))
        if query.get("watch") == "true":
            return self.watch(handler, collection, int(query["resourceVersion"]))
        return self.list(handler, collection, int(query.get("limit", 500)), query.get("continue"))

    def list(self, handler, collection, limit, token):
        """Pages of two objects at most, however many were asked for."""
        with self.changed:
            items = [self.objects[key] for key in sorted(self.objects) if key[0] == collection]
            start, size = int(token or 0), min(limit, 2)
            metadata = {"resourceVersion": str(self.version), "continue": str(start + size) if start + size < len(items) else ""}
        self.send(handler, 200, {"metadata": metadata, "items": items[start:start + size] or None})

    def watch(self, handler, collection, version):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()

        def write(event):
            data = json.dumps(event).encode() + b"\n"
            handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

        with self.changed:
            self.watches += 1
            generation = self.generation
            expired = version < self.oldest
        if expired:
            write({"type": "ERROR", "object": self.status(410, "too old resource version")})
            handler.wfile.write(b"0\r\n\r\n")
            return
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.version > version or self.generation != generation, timeout=30)
                if self.generation != generation:
                    handler.close_connection = True
                    return
                news = [event for event in self.events if event[0] > version and event[1] == collection]
                version = self.version
            try:
                for of, _, kind, thing in news:
                    write({"type": kind, "object": thing})
                write({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}})
            except OSError:
                return


def slice_of(endpoints, ports=None):
    """The fields of an EndpointSlice. `endpoints`: (pod, address, port, conditions); all have the port of the slice."""
    return {"addressType": "IPv4", "ports": ports or [],
            "endpoints": [{"addresses": [address], "conditions": conditions, "targetRef": {"kind": "Pod", "name": pod}}
                          for pod, address, conditions in endpoints]}
