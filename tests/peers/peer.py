"""What the tests against real peers share: which peers are installed, their processes, and the record of a run's results.

Each test is a script with the kvist binary as argument. It writes build/peers/results/NAME.json; scripts/render-peers makes
docs/results/peers.md of them. A script whose peer is not installed records that and exits with 77, which ctest counts as
skipped."""
import contextlib
import datetime
import json
import os
import pathlib
import platform
import signal
import socket
import subprocess
import sys
import time
import tomllib
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEERS = pathlib.Path(os.environ.get("KVIST_PEERS", ROOT / "build" / "peers"))
RESULTS = PEERS / "results"
PINS = tomllib.loads((HERE / "pins.toml").read_text())
SKIPPED = 77

sys.path.insert(0, str(HERE.parent / "e2e"))


def why_missing(name):
    """None if the peer is installed, else the reason why not."""
    note = PEERS / f"{name}.missing"
    if note.exists():
        return note.read_text().strip()
    if "debian" in PINS[name]:
        found = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", PINS[name]["debian"]], capture_output=True, text=True)
        return None if found.stdout == "installed" else f"the package {PINS[name]['debian']} is not installed"
    return None if (PEERS / name / ".installed-for").exists() else "not installed: make peers"


def version_of(name):
    """The installed version, not the pinned one."""
    if "debian" in PINS[name]:
        shown = subprocess.run(["dpkg-query", "-W", "-f=${Version}", PINS[name]["debian"]], capture_output=True, text=True)
        return shown.stdout.strip()
    package = PINS[name]["packages"][0].split("==")[0]
    shown = subprocess.run([program(name, "python"), "-c", f"import importlib.metadata as m; print(m.version('{package}'))"],
                           capture_output=True, text=True)
    return shown.stdout.strip()


def program(name, binary=None):
    """The path of a program of the peer's environment."""
    return str(PEERS / name / "bin" / (binary or PINS[name]["program"]))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class PeerProcess:
    """A peer's process and its descendants in their own process session; the output goes to `log`."""

    def __init__(self, command, log, env=None, cwd=None):
        self.command, self.log_path = [str(part) for part in command], pathlib.Path(log)
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                        env={**os.environ, **(env or {})}, cwd=cwd, start_new_session=True)

    @property
    def pid(self):
        return self.process.pid

    def await_ready(self, ready, seconds):
        """Waits until `ready()` holds; raises with the end of the log if the process ends or the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"{self.command[0]} ended with {self.process.returncode}:\n{self.tail()}")
            with contextlib.suppress(OSError, ValueError, AssertionError):
                if ready():
                    return self
            time.sleep(0.2)
        raise AssertionError(f"{self.command[0]} was not ready within {seconds} s:\n{self.tail()}")

    def tail(self, characters=4000):
        return self.log_path.read_bytes()[-characters:].decode(errors="replace")

    def processes(self):
        """The process and its descendants."""
        children = {}
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                text = stat.read_text()
                children.setdefault(int(text[text.rindex(")") + 2:].split()[1]), []).append(int(stat.parent.name))
        found, queue = [], [self.pid]
        while queue:
            pid = queue.pop()
            found.append(pid)
            queue += children.get(pid, [])
        return found

    def cpu_seconds(self):
        """CPU time of the process and its live descendants."""
        return sum(cpu_seconds_of(pid) for pid in self.processes())

    def memory_bytes(self):
        """Resident memory of the same; shared pages count once per process."""
        total = 0
        for pid in self.processes():
            with contextlib.suppress(OSError):
                total += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return total

    def stop(self, seconds=20):
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


def cpu_seconds_of(pid):
    """User and system time of one process; 0 if it has ended."""
    with contextlib.suppress(OSError):
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
        fields = text[text.rindex(")") + 2:].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Report:
    """The checks and results of one script. `order` is the position of its section on the page."""

    def __init__(self, name, title, order, peers):
        self.name, self.title, self.order, self.peers = name, title, order, peers
        self.checks, self.tables, self.notes, self.skipped = [], [], [], []
        self.started = time.monotonic()

    def require(self, *names):
        """Ends the script, as skipped, if one of the peers is missing."""
        for name in names:
            reason = why_missing(name)
            if reason:
                self.skip(name, reason)
                self.write()
                print(f"skipped: {name}: {reason}")
                sys.exit(SKIPPED)

    def has(self, name):
        """Whether the peer is installed; if not, that is recorded as skipped."""
        reason = why_missing(name)
        if reason:
            self.skip(name, reason)
        return reason is None

    def skip(self, name, reason):
        self.skipped.append({"peer": name, "reason": reason})

    def check(self, what, held, shown=""):
        """One thing that must hold."""
        self.checks.append({"what": what, "held": bool(held), "shown": shown})
        print(f"{'ok     ' if held else 'FAILED '} {what}{': ' if shown else ''}{shown}", flush=True)
        return held

    def table(self, title, columns, rows, note=""):
        """Figures; rows are lists of text or numbers, a column each."""
        self.tables.append({"title": title, "columns": columns, "rows": [[str(cell) for cell in row] for row in rows], "note": note})
        print(f"\n{title}\n" + "\n".join("  ".join(str(cell) for cell in row) for row in [columns, *rows]), flush=True)

    def note(self, text):
        """A sentence of the section."""
        self.notes.append(text)
        print(f"note    {text}", flush=True)

    def run(self, *parts):
        """Calls the parts in order; one that raises is a failed check. Writes the record, exits 1 if anything failed."""
        for part in parts:
            try:
                part()
            except Exception:
                last = traceback.format_exc().strip().splitlines()[-1]
                traceback.print_exc()
                self.check(part.__doc__.strip().splitlines()[0].rstrip(".") if part.__doc__ else part.__name__, False, last)
        self.write()
        failed = sum(not check["held"] for check in self.checks)
        print(f"{len(self.checks) - failed} passed, {failed} failed", flush=True)
        sys.exit(1 if failed else 0)

    def write(self):
        RESULTS.mkdir(parents=True, exist_ok=True)
        installed = [peer for peer in self.peers if why_missing(peer) is None]
        record = {"name": self.name, "title": self.title, "order": self.order, "date": datetime.date.today().isoformat(),
                  "seconds": round(time.monotonic() - self.started), "cores": os.cpu_count(), "machine": platform.machine(),
                  "versions": {peer: version_of(peer) for peer in installed}, "checks": self.checks, "tables": self.tables,
                  "notes": self.notes, "skipped": self.skipped}
        (RESULTS / f"{self.name}.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
