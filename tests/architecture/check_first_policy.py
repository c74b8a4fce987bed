"""Checks docs/guide/first-policy.md against the sources: the files that it has its reader write compile beside them, the lines that
its diff takes away are there, and the cases that it adds are of the switches that it names."""
import pathlib
import re
import subprocess
import sys
import tempfile

root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
page = (root / "docs/guide/first-policy.md").read_text()
problems = []

files = re.findall(r"`((?:src|tests)/[\w/]+\.(?:h|cc))`:\n\n```cpp\n(.*?)```", page, re.S)
with tempfile.TemporaryDirectory() as folder:
    for path, text in files:
        file = pathlib.Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for path, _ in files:
        if path.endswith(".cc"):
            done = subprocess.run([compiler, "-std=c++23", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{folder}/src",
                                   f"-I{root / 'src'}", f"{folder}/{path}"], capture_output=True, text=True)
            if done.returncode != 0:
                problems.append(f"{path} does not compile:\n{done.stderr}")

changes = 0
path = None
for line in re.search(r"```diff\n(.*?)```", page, re.S).group(1).splitlines():
    if line.startswith("@@ "):
        path = line[3:]
    elif line.startswith("-"):
        changes += 1
        if line[1:] not in (root / path).read_text().splitlines():
            problems.append(f"{path} has no line {line[1:]!r}")
    elif "case " in line and "RoutingMode::" in line:
        changes += 1
        if "case " + re.search(r"((?:spec::)?RoutingMode::)", line).group(1) not in (root / path).read_text():
            problems.append(f"{path} has no such switch: {line}")

for problem in problems:
    print(problem)
print(f"{len(files)} files, {changes} changes, {len(problems)} problems")
sys.exit(1 if problems or len(files) != 3 or changes < 5 else 0)
