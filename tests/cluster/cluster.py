"""A real API server on etcd, on the loopback interface, and what a test does with it. scripts/install-cluster-test brings both."""
import contextlib
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import pod_network  # noqa: E402
from deployment import eventually  # noqa: E402
from tls_test import Authority  # noqa: E402

CACHE = pathlib.Path(os.environ.get("KVIST_CLUSTER_CACHE") or pathlib.Path.home() / ".cache" / "kvist" / "cluster")
SKIPPED = 77
ADMIN = "admin-token"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"


def installed_or_skip():
    """Returns in a network of the test's own."""
    program = CACHE / "kube-apiserver"
    if not program.exists():
        print(f"{program} is missing: run scripts/install-cluster-test")
        sys.exit(SKIPPED)
    if not pod_network.enter():
        print("this machine allows no network namespace, which pods' addresses need")
        sys.exit(SKIPPED)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Refused(Exception):
    def __init__(self, code, status):
        super().__init__(f"{code}: {status.get('message', status)}")
        self.code, self.status = code, status


class Cluster:
    """etcd and kube-apiserver; `users`: name -> token, beside the administrator's."""

    def __init__(self, folder, users=()):
        self.folder = pathlib.Path(folder)
        self.etcd = self.api = None
        self.port, self.etcd_port = free_port(), free_port()
        authority = Authority(folder, "cluster-ca")
        authority.issue("apiserver")
        self.ca = authority.path("cluster-ca.pem")
        self.context = ssl.create_default_context(cafile=self.ca)
        Authority.openssl("genrsa", "-out", authority.path("accounts.key"), "2048")
        lines = [f'{ADMIN},admin,admin,"system:masters"'] + [f"{user}-token,{user},{user}" for user in users]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")

    def start(self):
        self.etcd = self.spawn("etcd", ["etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", f"http://127.0.0.1:{self.etcd_port}",
                                        "--advertise-client-urls", f"http://127.0.0.1:{self.etcd_port}", "--listen-peer-urls",
                                        f"http://127.0.0.1:{free_port()}", "--unsafe-no-fsync"])
        self.start_api()

    def spawn(self, name, command):
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, env={**os.environ, "ETCD_UNSUPPORTED_ARCH": ""})

    def start_api(self):
        """Returns the seconds until it was ready."""
        begin = time.monotonic()
        self.api = self.spawn("kube-apiserver", [
            CACHE / "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd_port}", "--bind-address=127.0.0.1",
            f"--advertise-address={pod_network.PREFIX}.1", f"--secure-port={self.port}",
            f"--tls-cert-file={self.folder}/apiserver.pem", f"--tls-private-key-file={self.folder}/apiserver.key",
            f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-signing-key-file={self.folder}/accounts.key",
            f"--service-account-key-file={self.folder}/accounts.key", "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none", "--anonymous-auth=false", "--profiling=false"])
        eventually(self.is_ready, "the API server is ready")
        return time.monotonic() - begin

    def is_ready(self):
        assert self.api.poll() is None, (self.folder / "kube-apiserver.log").read_text()[-3000:]
        try:
            return self.call("GET", "/readyz", raw=True) == "ok"
        except (Refused, urllib.error.URLError):
            return False

    def kill_api(self):
        self.api.kill()
        self.api.wait()

    def stop(self):
        for process in (self.api, self.etcd):
            if process and process.poll() is None:
                process.kill()
                process.wait()

    def compact(self):
        """etcd forgets the history, as it does every five minutes of its own accord."""
        url = f"http://127.0.0.1:{self.etcd_port}/v3/kv"
        ask = lambda path, body: json.loads(urllib.request.urlopen(urllib.request.Request(url + path, json.dumps(body).encode())).read())
        revision = ask("/range", {"key": "AA=="})["header"]["revision"]
        ask("/compaction", {"revision": revision, "physical": True})

    def call(self, method, path, body=None, kind="application/json", raw=False, token=ADMIN):
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.context) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            raise Refused(error.code, json.loads(text) if text.startswith("{") else {"message": text}) from None
        return text if raw else json.loads(text)

    def apply(self, manifest, manager="test", force=True):
        """Server-side apply of one object; right after its CRD, it is asked again as the server says."""
        path = path_of(manifest)
        end = time.monotonic() + 60
        while True:
            try:
                return self.call("PATCH", f"{path}?fieldManager={manager}&force={'true' if force else 'false'}", manifest, APPLY)
            except Refused as why:
                again = why.code == 429 or (why.code == 404 and "could not find the requested resource" in str(why))
                if not again or time.monotonic() > end:
                    raise
            time.sleep(0.2)

    def kubeconfig(self, name, token=ADMIN, port=None, namespace="default", token_file=None):
        path = self.folder / f"{name}.kubeconfig"
        user = {"tokenFile": str(token_file)} if token_file else {"token": token}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
            "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{port or self.port}", "certificate-authority": self.ca}}],
            "users": [{"name": "test", "user": user}]}))
        return path


PLURALS = {"EndpointSlice": "endpointslices", "NetworkPolicy": "networkpolicies", "PodDisruptionBudget": "poddisruptionbudgets",
           "HorizontalPodAutoscaler": "horizontalpodautoscalers"}
CLUSTER_WIDE = ("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Namespace")


def path_of(manifest):
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = PLURALS.get(kind, kind.lower() + "s")
    name = manifest["metadata"]["name"]
    if kind in CLUSTER_WIDE:
        return f"{root}/{plural}/{name}"
    return f"{root}/namespaces/{manifest['metadata'].get('namespace', 'default')}/{plural}/{name}"


@contextlib.contextmanager
def cluster(folder, users=()):
    made = Cluster(folder, users)
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Proxy:
    """A TCP connection through a port of its own, to be cut: what the gateway sees of an API server can be stopped without stopping it."""

    def __init__(self, target):
        import threading
        self.target, self.pairs = target, []
        self.listener = None
        self.port = free_port()
        self.threading = threading
        self.open()

    def open(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            self.pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                self.threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    @staticmethod
    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        # A listener that is only closed still takes the connection that its thread waits for.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for pair in self.pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        self.pairs.clear()
