"""Equal shares of the processors: makes servers on one machine equally fast, whatever else runs beside them."""
import contextlib
import os
import pathlib

PERIOD_US = 20_000
ROOT = pathlib.Path("/sys/fs/cgroup")


class NoShares(Exception):
    """Says why this machine cannot limit what a process takes."""


class ProcessorShare:
    """A control group whose processes take at most `share` of one core together. As a context manager: it is gone afterwards, and the
    processes are where they came from."""

    def __init__(self, name, pids, share):
        self.pids = list(pids)
        first = (ROOT / "cpu").is_dir()  # version 1: one hierarchy per controller
        base = ROOT / "cpu" if first else ROOT
        self.group = base / f"kvist-{os.getpid()}-{name}"
        self.homes = {pid: home for pid in self.pids if (home := self._home(pid, base, first)) is not None}
        limits = [("cpu.cfs_period_us", PERIOD_US), ("cpu.cfs_quota_us", int(share * PERIOD_US))] if first else [
            ("cpu.max", f"{int(share * PERIOD_US)} {PERIOD_US}")]
        try:
            if not first:
                (base / "cgroup.subtree_control").write_text("+cpu")
            self.group.mkdir()
            for file, value in limits:
                (self.group / file).write_text(str(value))
        except OSError as error:
            self._remove()
            raise NoShares(f"{self.group}: {error}") from error

    @staticmethod
    def _home(pid, base, first):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
                _, controllers, path = line.split(":", 2)
                if controllers == "" if not first else "cpu" in controllers.split(","):
                    return base / path.lstrip("/")
        return None

    def __enter__(self):
        for pid in self.homes:
            self._move(pid, self.group)
        return self

    def __exit__(self, *_):
        for pid, home in self.homes.items():
            self._move(pid, home)
        self._remove()

    @staticmethod
    def _move(pid, group):
        with contextlib.suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(pid))

    def _remove(self):
        with contextlib.suppress(OSError):
            self.group.rmdir()
