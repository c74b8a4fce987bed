"""Compiles every header of src/kvist alone: a header includes what it needs."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
headers = sorted((root / "src" / "kvist").rglob("*.h"))


def compile_alone(header):
    relative = header.relative_to(root / "src")
    flags = ["-std=c++23", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{root / 'src'}", "-x", "c++", "-"]
    flags += ["-DBOOST_ASIO_SEPARATE_COMPILATION", "-DBOOST_BEAST_SEPARATE_COMPILATION"]
    # Twice, so that a missing #pragma once shows as well.
    source = f'#include "{relative}"\n#include "{relative}"\n'
    done = subprocess.run([compiler, *flags], input=source, text=True, capture_output=True)
    return relative, done.returncode, done.stderr


failed = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for relative, code, errors in pool.map(compile_alone, headers):
        if code != 0:
            failed += 1
            print(f"{relative} does not compile alone:\n{errors}")
print(f"{len(headers) - failed} passed, {failed} failed")
sys.exit(1 if failed or not headers else 0)
