"""Installs into a temporary DESTDIR: the list of files, the program that runs from there, its manual page, the completions in
the shells that this machine has, the units of systemd, and the settings that they begin with."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CMAKE, BUILD, PREFIX = sys.argv[1:4]
ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTALLED = {
    "bin/kvist", "share/man/man1/kvist.1", "share/bash-completion/completions/kvist", "share/zsh/site-functions/_kvist",
    "share/fish/vendor_completions.d/kvist.fish", "lib/systemd/system/kvist-gateway.service",
    "lib/systemd/system/kvist-worker@.service", "share/doc/kvist/LICENSE", "share/doc/kvist/README.md",
}
DEADLINE_S = 60


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=DEADLINE_S, **options)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


def skipped(program):
    print(f"skipped: no {program} here")


def files_lie_where_they_belong(prefix):
    there = {path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if path.is_file()}
    examples = {"share/kvist/" + path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*") if path.is_file()}
    assert there == INSTALLED | examples, there ^ (INSTALLED | examples)
    assert len(examples) > 20, examples


def program_runs(prefix):
    assert run(prefix / "bin/kvist", "--version").startswith("kvist "), "no version"
    out = run(prefix / "bin/kvist", "plan", "memory", "-f",
              prefix / "share/kvist/examples/experiments/trtllm-4x2h100-none-vs-kv-plan/deployment.yaml")
    assert "GPU" in out, out


def manual_page_is_that_of_the_program(prefix):
    page = prefix / "share/man/man1/kvist.1"
    assert page.read_text() == run(prefix / "bin/kvist", "man")
    if not shutil.which("man"):
        return skipped("man")
    shown = run("man", "--warnings", "-E", "UTF-8", "-l", page, env={"MANWIDTH": "200", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
    assert not re.search(r"warning:|error:", shown), shown
    help_text = run(prefix / "bin/kvist", "--help")
    commands = re.findall(r"(?m)^  ([a-z]+)  ", help_text.partition("Subcommands:")[2])
    assert len(commands) > 10, help_text
    for command in commands:
        assert re.search(rf"(?m)^ +kvist {command}\b", shown), (command, shown)
    # It runs by itself and has subcommands; a command that only groups others has no section.
    assert re.search(r"(?m)^\.SS kvist loadgen$", page.read_text()) and "\n.SS kvist model\n" not in page.read_text()


def bash_completes(prefix):
    script = prefix / "share/bash-completion/completions/kvist"
    run("bash", "-n", script)

    def completed(*words):
        line = " ".join(f"'{word}'" for word in words)
        return set(run("bash", "-c", f"source {script}; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _kvist; "
                                     "printf '%s\\n' \"${COMPREPLY[@]}\"", cwd=ROOT / "examples/services").split())

    assert {"gateway", "worker", "simulate", "report"} <= completed("kvist", ""), completed("kvist", "")
    assert completed("kvist", "sim") == {"simulate"}
    assert completed("kvist", "plan", "") == {"profiles", "capacity", "memory"}
    assert completed("kvist", "plan", "capacity", "--s") == {"--slo", "--seeds"}
    assert completed("kvist", "gateway", "-f", "") == {"gateway.yaml", "worker.yaml"}
    assert completed("kvist", "gateway", "--") == {"--help", "--file", "--log-format", "--log-level"}


def other_shells_read_theirs(prefix):
    for shell, script in (("zsh", "zsh/site-functions/_kvist"), ("fish", "fish/vendor_completions.d/kvist.fish")):
        if shutil.which(shell):
            run(shell, "-n", prefix / "share" / script)
        else:
            skipped(shell)
    if shutil.which("fish"):
        script = prefix / "share/fish/vendor_completions.d/kvist.fish"
        shown = run("fish", "--no-config", "-c", f"source {script}; complete -C 'kvist plan '", env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"})
        assert {line.split("\t")[0] for line in shown.splitlines()} >= {"profiles", "capacity", "memory"}, shown


def units_are_good_ones(prefix, destination):
    units = sorted((prefix / "lib/systemd/system").iterdir())
    for unit in units:
        text = unit.read_text()
        assert f"ExecStart={PREFIX}/bin/kvist " in text, text
        for wanted in ("DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n"):
            assert wanted in text, (unit, wanted)
        assert "@KVIST" not in text, text
    if not shutil.which("systemd-analyze"):
        return skipped("systemd-analyze")
    with tempfile.TemporaryDirectory() as folder:
        checked = []
        for unit in units:
            # The program is in DESTDIR; systemd verifies an instance, not its template.
            checked.append(pathlib.Path(folder) / unit.name.replace("@.", "@0."))
            checked[-1].write_text(unit.read_text().replace(f"={PREFIX}/", f"={destination}{PREFIX}/"))
        said = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *checked)
        own = [line for line in said.splitlines() if "kvist" in line]
        assert not own, said


def units_name_the_program_wherever_it_is_installed():
    with tempfile.TemporaryDirectory() as folder:
        run(CMAKE, "--install", BUILD, "--prefix", folder)
        for unit in (pathlib.Path(folder) / "lib/systemd/system").iterdir():
            assert f"ExecStart={folder}/bin/kvist " in unit.read_text(), unit.read_text()


def settings_of_the_services_start(prefix):
    with tempfile.TemporaryDirectory() as folder:
        for command in ("worker", "gateway"):
            text = (prefix / f"share/kvist/examples/services/{command}.yaml").read_text()
            file = pathlib.Path(folder) / f"{command}.yaml"
            file.write_text(re.sub(r"(port: |_port: )\d+", r"\g<1>0", text))
            with subprocess.Popen([prefix / "bin/kvist", command, "-f", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True) as process:
                ready = process.stdout.readline()
                process.terminate()
                assert process.wait(DEADLINE_S) == 0, command
            assert ready.startswith("ready http="), (command, ready)


def main():
    with tempfile.TemporaryDirectory() as destination:
        run(CMAKE, "--install", BUILD, env={"DESTDIR": destination, "PATH": "/usr/bin:/bin"})
        prefix = pathlib.Path(destination + PREFIX)
        files_lie_where_they_belong(prefix)
        program_runs(prefix)
        manual_page_is_that_of_the_program(prefix)
        bash_completes(prefix)
        other_shells_read_theirs(prefix)
        units_are_good_ones(prefix, destination)
        settings_of_the_services_start(prefix)
    units_name_the_program_wherever_it_is_installed()
    print("installed, and works")


main()
