"""Every command of README.md and of the first page of the guide works as typed: they run in order, in a folder with the examples of
the sources and the program at the path of a build. `make` targets are only planned (make -n), and ports 8080 and 8081 become free ones."""
import json
import os
import pathlib
import re
import subprocess
import tempfile

from deployment import BINARY, DEADLINE_S, read_line, run

ROOT = pathlib.Path(__file__).parents[2]


def commands_of(page):
    """The lines of the code blocks without a language."""
    lines, language = [], None
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("```"):
            language = line[3:] if language is None else None
        elif language == "":
            lines.append(line)
    return lines


class Terminal:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "build/release/bin").mkdir(parents=True)
        (self.folder / "build/release/bin/kvist").symlink_to(BINARY)
        for name in ("Makefile", "data", "scripts"):
            (self.folder / name).symlink_to(ROOT / name)
        subprocess.run(["cp", "-r", ROOT / "examples", self.folder], check=True)
        deployment = self.folder / "examples/deployments/three-timed-workers.yaml"
        deployment.write_text(deployment.read_text().replace("port: 8080", "port: 0"))
        self.environment = {**os.environ, "PATH": f"{self.folder}/build/release/bin:{os.environ['PATH']}"}
        self.up, self.port, self.admin_port = None, "8080", "8081"

    def type(self, line):
        if line.startswith("make "):
            return self.call(line.replace("make ", "make -n ", 1))
        if re.match(r"\S*kvist up ", line):
            return self.start(line)
        out = self.call(line.replace("8080", self.port).replace("8081", self.admin_port))
        if line.startswith("curl"):
            assert '"error"' not in out, (line, out)
        return out

    def call(self, line):
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=DEADLINE_S, cwd=self.folder, env=self.environment)
        assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr)
        return done.stdout

    def start(self, line):
        assert self.up is None, "it is up already"
        self.up = subprocess.Popen(line.split(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=False, cwd=self.folder,
                                   env=self.environment)
        while not (found := re.search(r"^gateway\s+http://127\.0\.0\.1:(\d+)\s+administration http://127\.0\.0\.1:(\d+)", shown := read_line(self.up.stdout, DEADLINE_S))):
            assert shown or self.up.poll() is None, "it ended"
        self.port, self.admin_port = found.groups()

    def close(self):
        if self.up is not None:
            self.up.send_signal(2)
            assert self.up.wait(DEADLINE_S) == 0


def typed(page, *wanted):
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(folder)
        lines = commands_of(page)
        for beginning in wanted:
            assert any(line.startswith(beginning) for line in lines), f"{page} has no {beginning}"
        try:
            for line in lines:
                terminal.type(line)
        finally:
            terminal.close()


def readme_works_as_typed():
    typed("README.md", "make demo", "build/release/bin/kvist simulate", "build/release/bin/kvist up", "curl",
          "build/release/bin/kvist explain")


def getting_started_works_as_typed():
    typed("docs/guide/getting-started.md", "build/release/bin/kvist up", "curl -X PUT", "build/release/bin/kvist model create")


def the_settings_for_production_are_read():
    """The commands themselves are for a machine that may be changed (scripts/check-production)."""
    section = (ROOT / "README.md").read_text().split("\n## In production\n")[1].split("\n## ")[0]
    settings = re.search(r"gateway\.yaml <<'END'\n(.*?)\nEND\n", section, re.S).group(1)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "gateway.yaml"
        file.write_text(settings)
        done = subprocess.run([BINARY, "doctor", "-f", file, "--json", "--timeout", "1s"], capture_output=True, text=True, timeout=DEADLINE_S)
        found = json.loads(done.stdout)["findings"]
    # What it names is not there, but what it says is understood.
    assert {"gateway.tls.key", "worker gpu-0", "worker gpu-1"} <= {finding["where"] for finding in found}, found


run([readme_works_as_typed, getting_started_works_as_typed, the_settings_for_production_are_read])
