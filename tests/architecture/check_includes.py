"""Checks every #include under src/kvist against the layers.

Three rules, read from the sources of truth and not repeated here:
  1. A module includes only the modules its kvist_module(... DEPENDS ...) names.
  2. DEPENDS names only modules of a higher layer: LAYERS below, the table of docs/design/architecture.md, from the bottom up.
  3. Only the modules that own them include the libraries that are expensive or tie code to the network, and a header that needs one,
     directly or through another, is private: no other module includes it.
"""
import pathlib
import re
import sys

# One inner list is one layer; a module may depend on modules of the lists before its own.
LAYERS = [
    ["base"], ["jinja", "tokenizer", "render"], ["spec"], ["text"], ["tool_calls"], ["kv"], ["kv_index"], ["perfmodel"], ["engine"], ["engine/timed", "engine/cpu"], ["routing"], ["dispatch"], ["peering"],
    ["workload"], ["level"], ["simulation/threads"], ["simulation"], ["results"], ["openai"], ["dialects"], ["net"], ["exposure"], ["telemetry"], ["nats"], ["kubernetes"], ["gateway", "worker", "loadgen"], ["epp", "doctor", "deploy"],
    ["analysis"], ["report"], ["dashboard"], ["dashboard/service"], ["sweep"], ["planning"], ["cli", "laboratory"],
]
LAYER_OF = {module: i for i, modules in enumerate(LAYERS) for module in modules}

# Include pattern -> the modules that may use it.
CONFINED = {
    r"boost/(asio|beast)": {"net"},
    r"boost/math/": {"base"},
    r"boost/(?!math/)": {"net"},
    r"zmq": {"net"},
    r"openssl/": {"net"},
    r"zlib\.h": {"base", "net"},
    r"zstd\.h": {"net"},
    r"grpc(pp)?/": {"epp"},
    r"^nats": {"nats"},
    r"spdlog/": {"telemetry"},
    r"prometheus/": {"telemetry"},
    r"CLI/": {"cli", "laboratory"},
    r"sqlite3\.h": {"results"},
    r"yaml-cpp/": {"base"},
    r"pcre2": {"tokenizer"},
    r"utf8proc": {"jinja", "tokenizer"},
    r"simdjson": {"base", "tokenizer", "openai"},
    r"hwy/": {"engine/cpu"},
}
# Forbidden in the pure core: threads, sockets and clocks.
IMPURE = r"<(thread|mutex|condition_variable|future|sys/socket\.h|netinet/.*|unistd\.h|poll\.h)>"
# The only modules below net with threads, which they compute with; the first also maps files.
COMPUTING = {"engine/cpu", "simulation/threads"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def declared_modules(cmake_text):
    """Module name -> list of the modules it depends on."""
    modules = {}
    for call in re.finditer(r"kvist_module\(([^)]*)\)", cmake_text):
        words = call.group(1).split()
        name, rest, depends, section = words[0], words[1:], [], None
        for word in rest:
            if word in ("FOLDERS", "DEPENDS", "TEST_DEPENDS", "LIBRARIES"):
                section = word
            elif section == "DEPENDS":
                depends.append(word)
        modules[name] = depends
    return modules


def module_of(relative):
    """The module a path below src/kvist belongs to: the deepest folder that is one."""
    for length in (2, 1):
        name = "/".join(relative.parts[:length])
        if len(relative.parts) > length and name in LAYER_OF:
            return name
    return None


def check(source_root):
    problems = []
    modules = declared_modules((source_root / "CMakeLists.txt").read_text())
    for module, depends in modules.items():
        if module not in LAYER_OF:
            problems.append(f"module {module} has no layer: add it to LAYERS and to docs/design/architecture.md")
            continue
        for dependency in depends:
            if dependency not in modules:
                problems.append(f"module {module} depends on {dependency}, which is no module")
            elif LAYER_OF[dependency] >= LAYER_OF[module]:
                problems.append(f"module {module} depends on {dependency}, which is not in a layer below it")
    private = private_headers(source_root)
    for path in sorted(source_root.rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        relative = path.relative_to(source_root)
        module = module_of(relative)
        if module is None:
            if not relative.name.endswith("main.cc"):
                problems.append(f"{relative}: lies in no module")
            continue
        if module not in modules:
            problems.append(f"{relative}: module {module} is not declared in CMakeLists.txt")
            continue
        problems += check_file(path, relative, module, modules[module], private)
    return problems


def private_headers(source_root):
    """Headers, as they are included, that need a confined library directly or through another header."""
    includes = {}
    for path in source_root.rglob("*.h"):
        matches = (INCLUDE.match(line) for line in path.read_text().splitlines())
        includes["kvist/" + path.relative_to(source_root).as_posix()] = {m.group(1) for m in matches if m}
    confined = lambda target: any(re.match(pattern, target) for pattern in CONFINED)
    private = {header for header, targets in includes.items() if any(confined(t) for t in targets)}
    while True:
        more = {header for header, targets in includes.items() if targets & private} - private
        if not more:
            return private
        private |= more


def check_file(path, relative, module, depends, private):
    problems = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        match = INCLUDE.match(line)
        if not match:
            continue
        where, target = f"{relative}:{number}", match.group(1)
        if target.startswith("kvist/"):
            if target in private and module_of(pathlib.PurePosixPath(target).relative_to("kvist")) != module:
                problems.append(f"{where}: {target} is private to its module: it needs an expensive library")
            other = module_of(pathlib.PurePosixPath(target).relative_to("kvist"))
            if other != module and other not in depends:
                problems.append(f"{where}: {module} includes {target}, but its DEPENDS does not name {other}")
        for pattern, owners in CONFINED.items():
            if re.match(pattern, target):
                if module not in owners:
                    problems.append(f"{where}: <{target}> belongs into {', '.join(sorted(owners))} only")
        if LAYER_OF[module] < LAYER_OF["net"] and module not in COMPUTING and re.search(IMPURE, line):
            problems.append(f"{where}: {line.strip()} in {module}: below net nothing knows threads or sockets")
    return problems


def main():
    problems = check(pathlib.Path(sys.argv[1]) / "src" / "kvist")
    for problem in problems:
        print(problem)
    print(f"{len(problems)} violations of the layers")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
