"""Processes of `kvist loadgen agent`."""
import contextlib
import signal
import subprocess

from deployment import BINARY, DEADLINE_S, get_json, read_line


class Agent:
    """`kvist loadgen agent`, with the port of its ready line."""

    def __init__(self, *options, cwd=None):
        self.process = subprocess.Popen([BINARY, "loadgen", "agent", *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd)
        line = read_line(self.process.stdout, DEADLINE_S)
        assert line.startswith("ready http="), (line, self.process.stderr.read() if self.process.poll() is not None else "")
        self.port = int(line.split("=")[1])
        self.address = f"127.0.0.1:{self.port}"

    def state(self):
        return get_json(f"http://{self.address}/agent")["state"]

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(DEADLINE_S)
        self.process.stdout.close()
        self.process.stderr.close()
        assert how != signal.SIGTERM or code in (0, -signal.SIGKILL), code


@contextlib.contextmanager
def agents(*options_of_each):
    with contextlib.ExitStack() as stack:
        started = []
        for options in options_of_each:
            started.append(Agent(*options))
            stack.callback(started[-1].stop)
        yield started


def names_of(started):
    return ",".join(agent.address for agent in started)
