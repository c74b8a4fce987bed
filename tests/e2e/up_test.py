"""`kvist up`: the example deployment starts, answers curl, and leaves nothing behind."""
import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from deployment import BINARY, DEADLINE_S, read_line, request, run

SOURCE = pathlib.Path(__file__).parents[2] / "examples/deployments/three-timed-workers.yaml"


def children_of(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@functools.cache
def example():
    """The example, with a free port in place of its fixed one."""
    file = tempfile.NamedTemporaryFile("w", suffix=".yaml")  # lives as long as the cache
    file.write(SOURCE.read_text().replace("port: 8080", "port: 0"))
    file.flush()
    return file


@contextlib.contextmanager
def running(folder, *options, **environment):
    """Runs `kvist up` in an empty folder until Ctrl-C ends it: (process, its output so far, the gateway's URL)."""
    up = subprocess.Popen([BINARY, "up", "-f", example().name, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
                          env={**os.environ, **environment})
    try:
        url, seen, end = None, "", time.monotonic() + DEADLINE_S
        while url is None and time.monotonic() < end:
            line = read_line(up.stdout, DEADLINE_S)
            seen += line + "\n"
            match = re.search(r"gateway\s+(http://[\d.]+:\d+)", line)
            url = match.group(1) if match else None
        assert url, seen
        yield up, url
    finally:
        up.send_signal(signal.SIGINT)
        code = up.wait(DEADLINE_S)
    assert code == 0, code


def ask(url):
    status, headers, text = request(url + "/v1/chat/completions", {
        "model": json.loads(request(url + "/v1/models")[2])["data"][0]["id"], "max_tokens": 5,
        "messages": [{"role": "user", "content": "hello"}]})
    assert status == 200 and headers["x-kvist-worker"], text


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*") if path.is_file())


def opened_for_writing(pid):
    """Named files that a process has open for writing."""
    found = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            path = os.readlink(entry)
            flags = int(re.search(r"flags:\s+(\d+)", pathlib.Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text()).group(1), 8)
            if path.startswith("/") and not path.startswith(("/dev/", "/proc/", "/memfd:")) and flags & os.O_ACCMODE != os.O_RDONLY:
                found.append(path)
    return found


def the_example_comes_up_answers_and_goes_down():
    with tempfile.TemporaryDirectory() as folder:
        with running(folder) as (up, url):
            children = children_of(up.pid)
            assert len(children) == 4, children
            ask(url)
        gone = [pid for pid in children if not pathlib.Path(f"/proc/{pid}").exists()]
        assert gone == children


def everything_lies_in_tmpdir_and_goes_with_the_run():
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as temporary:
        with running(folder, TMPDIR=temporary) as (up, url):
            ask(url)
            (run_directory,) = pathlib.Path(temporary).iterdir()
            assert "worker-0.log" in files_in(run_directory) and "gateway.yaml" in files_in(run_directory)
            written = [path for pid in [up.pid, *children_of(up.pid)] for path in opened_for_writing(pid)]
            assert written and all(path.startswith(str(run_directory)) for path in written), written
        assert not list(pathlib.Path(temporary).iterdir()) and not files_in(folder)


def a_folder_of_ones_own_is_kept_and_needs_no_other():
    with tempfile.TemporaryDirectory() as folder:
        mine = pathlib.Path(folder) / "runs" / "today"
        with running(folder, "--directory", mine, TMPDIR="/nowhere/at/all") as (up, url):
            ask(url)
        kept = ["gateway.log", "gateway.yaml", "worker-0.log", "worker-0.yaml", "worker-1.log", "worker-1.yaml", "worker-2.log",
                "worker-2.yaml"]
        assert files_in(mine) == kept and len(files_in(folder)) == len(kept), files_in(folder)


def a_folder_that_cannot_be_made_is_an_error_with_its_name():
    with tempfile.TemporaryDirectory() as folder:
        blocked = pathlib.Path(folder) / "file"
        blocked.write_text("")
        for options, environment, words in ((["--directory", blocked / "x"], {}, ["--directory", str(blocked)]),
                                            ([], {"TMPDIR": "/nowhere/at/all"}, ["TMPDIR", "--directory"])):
            done = subprocess.run([BINARY, "up", "-f", example().name, *options], capture_output=True, text=True, timeout=DEADLINE_S,
                                  env={**os.environ, **environment})
            assert done.returncode == 1 and all(word in done.stderr for word in words), done


def a_bad_file_is_refused_with_its_line():
    with tempfile.TemporaryDirectory() as folder:
        bad = pathlib.Path(folder) / "bad.yaml"
        bad.write_text("deployment:\n  workers:\n    count: 2\n    block_sice: 16\n")
        done = subprocess.run([BINARY, "up", "-f", bad], capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == 1, done
        assert "bad.yaml:4" in done.stderr and "block_sice" in done.stderr and "block_size" in done.stderr, done.stderr


run([the_example_comes_up_answers_and_goes_down, everything_lies_in_tmpdir_and_goes_with_the_run,
     a_folder_of_ones_own_is_kept_and_needs_no_other, a_folder_that_cannot_be_made_is_an_error_with_its_name,
     a_bad_file_is_refused_with_its_line])
