"""Routers and proxies in front of workers: kvist's gateway, other routers, plain proxies. Each is started with its own defaults and
a lower log level, on a port of loopback, and is ready when a chat has passed through it."""
import pathlib

import deployment
import peer


class Front:
    """One router or proxy in front of `workers`: objects with `name`, `url` and, if they publish KV events, `ports`."""

    def __init__(self, title, folder, workers, model, block_size):
        self.title, self.folder, self.workers = title, pathlib.Path(folder), workers
        self.model, self.block_size, self.port = model, block_size, peer.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        self.process = peer.PeerProcess(self.command(), self.folder / f"{type(self).__name__}.log", env={"RUST_LOG": "warn"}, cwd=self.folder)
        try:
            self.process.await_ready(self.is_ready, 60)
        except BaseException:
            self.stop()
            raise
        return self

    def is_ready(self):
        return answers(self.url, self.model)

    def cpu_seconds(self):
        return self.process.cpu_seconds()

    def memory_bytes(self):
        return self.process.memory_bytes()

    def stop(self):
        if self.process:
            self.process.stop(5)

    def worker_urls(self):
        return [worker.url for worker in self.workers]

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


def answers(url, model):
    """Whether one chat of one token is answered completely."""
    status, _, _ = deployment.request(url + "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "hello"}],
                                                                     "max_tokens": 1}, timeout=5)
    return status == 200


class Kvist(Front):
    """kvist's gateway in one of its modes."""

    def __init__(self, title, folder, workers, model, block_size, mode="kv", tokenizer=None):
        super().__init__(title, folder, workers, model, block_size)
        self.mode, self.tokenizer = mode, tokenizer

    def command(self):
        lines = ["gateway:", f"  model: {self.model}", f"  mode: {self.mode}", f"  block_size: {self.block_size}", "  connect_timeout: 60 s", "  admission: {enabled: false}",
                 f"  http: {{host: 127.0.0.1, port: {self.port}}}", "  admin: {port: 0}", *([f"  tokenizer: {self.tokenizer}"] if self.tokenizer else []),
                 "  workers:"]
        for worker in self.workers:
            lines += [f"    - name: {worker.name}", f"      url: {worker.url}"]
            if "kv_events" in worker.ports:
                lines += [f"      kv_events: tcp://127.0.0.1:{worker.ports['kv_events']}",
                          f"      kv_replay: tcp://127.0.0.1:{worker.ports['kv_replay']}"]
        return [deployment.BINARY, "gateway", "-f", self.write("gateway.yaml", "\n".join(lines) + "\n")]


class VllmRouter(Front):
    def __init__(self, title, folder, workers, model, block_size, policy="round_robin"):
        super().__init__(title, folder, workers, model, block_size)
        self.policy = policy

    def command(self):
        command = [peer.program("vllm-router"), "--host", "127.0.0.1", "--port", self.port, "--policy", self.policy, "--log-level", "warning",
                   "--prometheus-host", "127.0.0.1", "--prometheus-port", peer.free_port(), "--max-concurrent-requests", 4096,
                   "--worker-urls", *self.worker_urls()]
        if self.policy == "kv_aware":
            for worker in self.workers:
                command += ["--kv-event-source", f"{worker.url}=tcp://127.0.0.1:{worker.ports['kv_events']}"]
                command += ["--kv-event-replay-source", f"{worker.url}=tcp://127.0.0.1:{worker.ports['kv_replay']}"]
            command += ["--kv-event-block-size", self.block_size, "--kv-event-model", self.model]
        return command


class Smg(Front):
    def __init__(self, title, folder, workers, model, block_size, policy="round_robin"):
        super().__init__(title, folder, workers, model, block_size)
        self.policy = policy

    def command(self):
        return [peer.program("smg"), "launch", "--host", "127.0.0.1", "--port", self.port, "--policy", self.policy, "--log-level", "warn",
                "--prometheus-host", "127.0.0.1", "--prometheus-port", peer.free_port(), "--max-concurrent-requests", 4096,
                "--worker-urls", *self.worker_urls()]


class SglangRouter(Front):
    def command(self):
        return [peer.program("sglang-router"), "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", self.port, "--policy",
                "round_robin", "--log-level", "warn", "--prometheus-host", "127.0.0.1", "--prometheus-port", peer.free_port(),
                "--max-concurrent-requests", 4096, "--worker-urls", *self.worker_urls()]


class Haproxy(Front):
    def command(self):
        servers = "".join(f"  server w{i} {url.removeprefix('http://')}\n" for i, url in enumerate(self.worker_urls()))
        config = (f"global\n  maxconn 8192\ndefaults\n  mode http\n  option http-no-delay\n  timeout connect 10s\n  timeout client 300s\n  timeout server 300s\n"
                  f"frontend f\n  bind 127.0.0.1:{self.port}\n  default_backend b\nbackend b\n  balance roundrobin\n{servers}")
        return ["/usr/sbin/haproxy", "-db", "-f", self.write("haproxy.cfg", config)]


class Nginx(Front):
    def command(self):
        servers = "".join(f"    server {url.removeprefix('http://')};\n" for url in self.worker_urls())
        temporary = "".join(f"  {kind}_temp_path {self.folder}/nginx-{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = (f"daemon off;\nworker_processes auto;\npid {self.folder}/nginx.pid;\nerror_log {self.folder}/nginx-error.log warn;\n"
                  f"worker_rlimit_nofile 16384;\nevents {{ worker_connections 8192; }}\nhttp {{\n  access_log off;\n{temporary}"
                  f"  upstream b {{\n{servers}    keepalive 2048;\n  }}\n  server {{\n    listen 127.0.0.1:{self.port} backlog=4096;\n"
                  f"    location / {{\n      proxy_pass http://b;\n      proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n"
                  f"      proxy_buffering off;\n      proxy_read_timeout 300s;\n    }}\n  }}\n}}\n")
        return ["/usr/sbin/nginx", "-p", self.folder, "-c", self.write("nginx.conf", config)]


class Envoy(Front):
    def command(self):
        ends = "".join(f"              - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {url.rsplit(':', 1)[1]}}}}}}}\n"
                       for url in self.worker_urls())
        # A cluster's default of 1,024 connections and requests would refuse what the test sends.
        config = f"""static_resources:
  listeners:
    - address: {{socket_address: {{address: 127.0.0.1, port_value: {self.port}}}}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: http
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes: [{{match: {{prefix: "/"}}, route: {{cluster: workers, timeout: 300s}}}}]
  clusters:
    - name: workers
      type: STATIC
      circuit_breakers:
        thresholds: [{{max_connections: 8192, max_pending_requests: 8192, max_requests: 8192}}]
      load_assignment:
        cluster_name: workers
        endpoints:
          - lb_endpoints:
{ends}"""
        return [peer.program("envoy"), "-c", self.write("envoy.yaml", config), "--base-id", self.port, "--log-level", "error"]
