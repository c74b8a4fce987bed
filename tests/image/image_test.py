#!/usr/bin/env python3
"""The image of `make image`, unpacked and run as a container runtime runs it: size, no root, read-only root, a routed request, its health
check, its bill of materials. Needs root, buildah and runc (scripts/install-dependencies --image). With the peer syft installed
(scripts/install-peers syft), its bill of materials is compared with ours.

usage: image_test.py IMAGE_FOLDER"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

IMAGE = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOST_BYTES = 60_000_000
USER = 65532
BUILDAH = ["buildah", "--storage-driver", "vfs", "--root", str(IMAGE / "storage"), "--runroot", str(IMAGE / "run")]

WORKER = "worker:\n  name: w{i}\n  model: m\n  http: {{host: 127.0.0.1, port: 0}}\n  admin: {{port: 0}}\n  time_scale: 100\n  drain_timeout: 1 s\n"


def output(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def check(what, held, shown=""):
    print(f"{'ok     ' if held else 'FAILED '} {what}{': ' if shown else ''}{shown}", flush=True)
    if not held:
        sys.exit(1)


class Container:
    """A process of the image by runc: the image's user, a read-only root, no capabilities, the machine's network; `files` is /etc/kvist."""

    def __init__(self, folder, root, name, arguments, files):
        self.name, self.bundle = f"kvist-{os.getpid()}-{name}", pathlib.Path(folder) / name
        self.bundle.mkdir()
        output("runc", "spec", cwd=self.bundle)
        config = json.loads((self.bundle / "config.json").read_text())
        config["root"] = {"path": str(root), "readonly": True}
        config["process"].update(terminal=False, args=["/usr/bin/kvist", *arguments], user={"uid": USER, "gid": USER}, cwd="/tmp", noNewPrivileges=True,
                                 env=["SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"])
        config["process"]["capabilities"] = {kind: [] for kind in config["process"]["capabilities"]}
        # Limits above this process's own would need rights that a build machine may not give.
        config["process"].pop("rlimits", None)
        config["linux"]["namespaces"] = [space for space in config["linux"]["namespaces"] if space["type"] in ("pid", "mount", "ipc", "uts")]
        config["linux"].pop("resources", None)
        config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] in ("/proc", "/dev", "/dev/shm")]
        config["mounts"] += [{"destination": "/etc/kvist", "type": "bind", "source": str(files), "options": ["bind", "ro"]}]
        (self.bundle / "config.json").write_text(json.dumps(config))
        self.log = open(self.bundle / "log", "wb")
        self.process = subprocess.Popen(["runc", "--root", str(self.bundle / "state"), "run", self.name], cwd=self.bundle, stdout=subprocess.PIPE, stderr=self.log)

    def ready(self):
        line = self.process.stdout.readline().decode()
        assert line.startswith("ready "), (line, (self.bundle / "log").read_text())
        return {key: int(value) for key, value in (item.split("=") for item in line.split()[1:])}

    def execute(self, *arguments):
        return subprocess.run(["runc", "--root", str(self.bundle / "state"), "exec", self.name, *arguments], capture_output=True, text=True)

    def status(self):
        """The process as the machine sees it."""
        state = json.loads(output("runc", "--root", self.bundle / "state", "state", self.name))
        return pathlib.Path(f"/proc/{state['pid']}/status").read_text()

    def stop(self):
        subprocess.run(["runc", "--root", str(self.bundle / "state"), "kill", self.name, "TERM"], capture_output=True)
        self.process.wait(30)
        self.log.close()


def the_image_is_small_and_without_root():
    inspected = json.loads(output(*BUILDAH, "inspect", "--type", "image", "localhost/kvist:latest"))
    config = inspected["Docker"]["config"]
    size = sum(path.lstat().st_size for path in (IMAGE / "root").rglob("*") if path.is_file())
    check(f"all files together take at most {MOST_BYTES / 1e6:.0f} MB", size <= MOST_BYTES, f"{size / 1e6:.1f} MB, the archive {(IMAGE / 'kvist.tar').stat().st_size / 1e6:.1f} MB")
    check("it runs as a user with a number that is not root's", config["User"] == f"{USER}:{USER}", config["User"])
    check("it has a health check", config["Healthcheck"]["Test"][:2] == ["CMD", "/usr/bin/kvist"], " ".join(config["Healthcheck"]["Test"]))
    owners = {path.lstat().st_mode & 0o6022 for path in (IMAGE / "root").rglob("*") if path.is_file()}
    check("no file is writable for others or sets an id", owners == {0})
    closed = [str(path) for path in (IMAGE / "root").rglob("*") if path.is_dir() and path.lstat().st_mode & 0o055 != 0o055]
    check("every folder may be looked into by its user", not closed, ", ".join(closed))


def it_serves_a_routed_request():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o755)
        unpacked = pathlib.Path(folder) / "unpacked"
        container = output(*BUILDAH, "from", "localhost/kvist:latest").strip()
        stack.callback(lambda: output(*BUILDAH, "rm", container))
        # What is run is what is in the image, not the folder that it was made from.
        shutil.copytree(output(*BUILDAH, "mount", container).strip(), unpacked, symlinks=True)
        files = pathlib.Path(folder) / "files"
        files.mkdir()
        ports = []
        for i in range(2):
            (files / f"w{i}.yaml").write_text(WORKER.format(i=i))
            worker = Container(folder, unpacked, f"w{i}", ["worker", "-f", f"/etc/kvist/w{i}.yaml"], files)
            stack.callback(worker.stop)
            ports.append(worker.ready())
        workers = "".join(f"    - {{name: w{i}, url: 'http://127.0.0.1:{p['http']}', kv_events: 'tcp://127.0.0.1:{p['kv_events']}', kv_replay: 'tcp://127.0.0.1:{p['kv_replay']}'}}\n"
                          for i, p in enumerate(ports))
        (files / "gateway.yaml").write_text(f"gateway:\n  model: m\n  mode: kv\n  http: {{port: 0}}\n  admin: {{port: 0}}\n  drain_timeout: 1 s\n  workers:\n{workers}")
        # The command of the image itself.
        gateway = Container(folder, unpacked, "gateway", ["gateway", "-f", "/etc/kvist/gateway.yaml"], files)
        stack.callback(gateway.stop)
        port = gateway.ready()
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello " * 200}], "max_tokens": 5}).encode()
        answers = []
        end = time.monotonic() + 60
        while len(answers) < 4 and time.monotonic() < end:
            with contextlib.suppress(OSError):
                call = urllib.request.Request(f"http://127.0.0.1:{port['http']}/v1/chat/completions", body, {"Content-Type": "application/json"})
                with urllib.request.urlopen(call, timeout=30) as answer:
                    answers.append((answer.headers["x-kvist-worker"], json.loads(answer.read())["usage"]))
            time.sleep(0.2)
        check("a gateway before two workers, all of the image: a prompt is answered, and again where it is cached",
              len(answers) == 4 and len({worker for worker, _ in answers}) == 1 and answers[-1][1]["prompt_tokens_details"]["cached_tokens"] > 1000,
              f"{len(answers)} answers, cached tokens {answers[-1][1]['prompt_tokens_details']['cached_tokens'] if answers else None}")
        status = gateway.status()
        check("as that user, without capabilities, and it can get none", all(re.search(pattern, status, re.M) for pattern in
              (rf"^Uid:\s+{USER}\s+{USER}", r"^CapEff:\s+0+$", r"^CapBnd:\s+0+$", r"^NoNewPrivs:\s+1$")))
        healthy = gateway.execute("/usr/bin/kvist", "doctor", "--gateway", f"http://127.0.0.1:{port['admin']}", "--alive")
        check("the health check says that it is well", healthy.returncode == 0, healthy.stdout.strip().splitlines()[-1] if healthy.stdout else healthy.stderr)
        refused = gateway.execute("/usr/bin/kvist", "model", "create", "/usr/share/model", "--size", "tiny")
        check("nothing can be written to the root", refused.returncode != 0 and "ead-only" in refused.stderr + refused.stdout, (refused.stderr or refused.stdout).strip().splitlines()[-1])


def the_bill_of_materials_is_whole():
    bill = json.loads((IMAGE / "kvist.spdx.json").read_text())
    check("it is SPDX 2.3 and in the image", bill["spdxVersion"] == "SPDX-2.3" and (IMAGE / "root/usr/share/doc/kvist/sbom.spdx.json").read_bytes() == (IMAGE / "kvist.spdx.json").read_bytes())
    locators = {reference["referenceLocator"] for package in bill["packages"] for reference in package.get("externalRefs", [])}
    ids = [package["SPDXID"] for package in bill["packages"]]
    check("each package has an id of its own, and one that scanners know", len(set(ids)) == len(ids) and len(locators) == len(ids) - 1, f"{len(locators)} packages")
    listed = set(re.findall(r"files: ([^;]*);", " ".join(package.get("comment", "") + " " for package in bill["packages"])))
    named = {name for files in listed for name in files.split(", ")}
    libraries = {"/" + str(path.relative_to(IMAGE / "root")) for path in (IMAGE / "root").rglob("*.so*")}
    check("each library of the image is a file of one of them", libraries <= named, f"{len(libraries)} libraries")
    return {name for name in (re.sub(r"^pkg:deb/debian/([^@]+)@.*", r"\1", locator) for locator in locators) if ":" not in name}


def syft_finds_the_same(packages):
    syft = next(iter((ROOT / "build/peers/syft/bin").glob("syft")), None)
    if not syft:
        print("skipped  syft is not installed: scripts/install-peers syft")
        return
    found = json.loads(output(syft, "scan", f"oci-archive:{IMAGE / 'kvist.tar'}", "-o", "spdx-json", "-q"))
    theirs = {package["name"] for package in found["packages"] if any("pkg:deb/" in r["referenceLocator"] for r in package.get("externalRefs", []))}
    check("syft finds the same packages of Debian in the archive", theirs == packages, f"{len(theirs)}; only there: {sorted(theirs - packages)}, only in ours: {sorted(packages - theirs)}")


the_image_is_small_and_without_root()
syft_finds_the_same(the_bill_of_materials_is_whole())
it_serves_a_routed_request()
