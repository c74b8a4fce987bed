"""A header includes what it needs.

Of a header that its own source includes first, builds show that which compile each source by itself (KVIST_TOGETHER=1: the presets
dev and aarch64, and make lint). All other headers are compiled alone. Names of headers that are precompiled (cmake/KvistPrecompiled.cmake)
are searched for in each header's text.
"""
import concurrent.futures
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
headers = sorted((root / "src" / "kvist").rglob("*.h"))

# What a use of each precompiled header looks like.
NAMES = {
    "algorithm": r"std::(ranges::)?(sort|stable_sort|find|find_if|any_of|all_of|none_of|min|max|clamp|lower_bound|upper_bound|copy|fill|"
                 r"count|count_if|equal|reverse|remove_if|min_element|max_element|for_each|nth_element|push_heap|pop_heap|make_heap|"
                 r"binary_search|transform|unique|rotate|contains|fold_left)\b",
    "array": r"std::array\b",
    "chrono": r"std::chrono\b",
    "cmath": r"std::(exp|log|log2|sqrt|floor|ceil|pow|round|lround|llround|isnan|isfinite|isinf|fabs|hypot|fmod|trunc|expm1|log1p)\b",
    "cstdint": r"std::u?int(8|16|32|64|ptr|max)_t\b",
    "expected": r"std::(un)?expected\b",
    "functional": r"std::(function|move_only_function|hash|less|greater|equal_to|reference_wrapper|ref|cref|bind_front|invoke|identity|plus)\b",
    "map": r"std::(multi)?map\b",
    "memory": r"std::(unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared|enable_shared_from_this|allocator\w*|addressof|construct_at|"
              r"destroy_at)\b",
    "optional": r"std::(optional|nullopt|nullopt_t|make_optional)\b",
    "set": r"std::(multi)?set\b",
    "span": r"std::(span|as_bytes|as_writable_bytes)\b",
    "string": r"std::(string|to_string|stoi|getline)\b",
    "string_view": r"std::string_view\b",
    "unordered_map": r"std::unordered_(multi)?map\b",
    "utility": r"std::(move|forward|pair|make_pair|exchange|swap|to_underlying|in_place|as_const|unreachable|integer_sequence|"
               r"index_sequence|cmp_\w+)\b",
    "variant": r"std::(variant|monostate|visit|get_if|holds_alternative)\b",
    "vector": r"std::vector\b",
    "fmt/format.h": r"\bfmt::",
}


def includes_of(path):
    return re.findall(r'^#include\s+[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE)


@functools.cache
def included(header):
    """What it includes, itself or through kvist's headers, of what is not kvist's."""
    found = set()
    for name in includes_of(header):
        found |= included(root / "src" / name) if name.startswith("kvist/") else {name}
    return found


def heads_its_source(header):
    source = header.with_suffix(".cc")
    return source.exists() and includes_of(source)[:1] == [str(header.relative_to(root / "src"))]


def missing_includes(header):
    text = header.read_text()
    if not re.search(r"^#pragma once$", text, re.MULTILINE):
        yield "#pragma once"
    code = re.sub(r'"(\\.|[^"\\\n])*"', '""', re.sub(r"//[^\n]*", "", text))
    for name, use in NAMES.items():
        found = re.search(use, code)
        if found and name not in included(header):
            yield f"#include <{name}> for {found.group(0)}"


FLAGS = ["-std=c++23", "-Wall", "-Wextra", "-Werror", f"-I{root / 'src'}", "-DBOOST_ASIO_SEPARATE_COMPILATION", "-DBOOST_BEAST_SEPARATE_COMPILATION"]


def precompile(names, folder):
    """The names' headers as one precompiled header: what a header lacks of them is found in its text, and reading them each time is slow."""
    header = pathlib.Path(folder) / "precompiled.h"
    header.write_text("".join(f"#include <{name}>\n" for name in names))
    subprocess.run([compiler, *FLAGS, "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True)
    return header


def compile_alone(precompiled_header, header):
    relative = header.relative_to(root / "src")
    done = subprocess.run([compiler, *FLAGS, "-fsyntax-only", "-include", str(precompiled_header), "-x", "c++", "-"],
                          input=f'#include "{relative}"\n', text=True, capture_output=True)
    return relative, done.returncode, done.stderr


precompiled = re.search(r"set\(KVIST_PRECOMPILED_HEADERS(.*?)\)", (root / "cmake" / "KvistPrecompiled.cmake").read_text(), re.DOTALL)
names = re.findall(r"<([^>]+)>", precompiled.group(1))
unknown = set(names) - set(NAMES)
if unknown:
    sys.exit(f"{sorted(unknown)} are precompiled: NAMES of this check has to say what a use of them looks like")

failed = 0
for header in headers:
    for missing in missing_includes(header):
        failed += 1
        print(f"{header.relative_to(root)} lacks {missing}")
alone = [header for header in headers if not heads_its_source(header)]
with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for relative, code, errors in pool.map(functools.partial(compile_alone, precompile(names, folder)), alone):
        if code != 0:
            failed += 1
            print(f"{relative} does not compile alone:\n{errors}")
print(f"{len(headers)} headers, {len(alone)} compiled alone, {failed} failures")
sys.exit(1 if failed or not headers else 0)
