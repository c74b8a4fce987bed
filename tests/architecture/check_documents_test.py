"""The check of documents must fail where it should, and only there: each rule is broken once in a small tree."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_documents

TREE = {
    "README.md": "# Top\n\n## What it does\n\n## What it does\n",
    "docs/guide/routing.md": "# Routing\n\n## How `kv` decides\n",
    "docs/results/plot.svg": "<svg/>\n",
    "src/kvist/routing/kv_policy.h": "#pragma once\nclass KvPolicy {\n  int choose(int query);\n};\n",
    "scripts/run-routing": "#!/bin/sh\n",
}
# Additional text in a file of the tree, and the number of problems that it causes.
CASES = {
    "link to a page": ("docs/a.md", "[how](guide/routing.md) and ![plot](results/plot.svg)", 0),
    "link to a folder": ("docs/a.md", "[guide](guide/)", 0),
    "link out into the world": ("docs/a.md", "[x](https://example.com/docs/a.md)", 0),
    "link to nothing": ("docs/a.md", "[how](routing.md)", 1),
    "link out of the project": ("docs/a.md", "[x](../../etc/passwd)", 1),
    "two links to nothing in one line": ("docs/a.md", "[a](x.md) [b](y.md)", 2),
    "heading of another page": ("docs/a.md", "[how](guide/routing.md#how-kv-decides)", 0),
    "heading of this page": ("docs/a.md", "# Here it is!\n[up](#here-it-is)", 0),
    "second heading of the same words": ("docs/a.md", "[does](../README.md#what-it-does-1)", 0),
    "heading that is not there": ("docs/a.md", "[how](guide/routing.md#why)", 1),
    "link within code is no link": ("docs/a.md", "`operator[](key)` and\n```\nindex[](nothing)\n```\n", 0),
    "path by its root": ("docs/a.md", "`scripts/run-routing` writes docs/results/plot.svg.", 0),
    "path by its root, not there": ("docs/a.md", "see docs/routing.md", 1),
    "command within a fence": ("docs/a.md", "```\nscripts/run-everything now\n```\n", 1),
    "shell pattern": ("docs/a.md", "`docs/*/routing.md`, `src/kvist/routing/{kv_policy,kv_policy}.h`", 0),
    "shell pattern that matches nothing": ("docs/a.md", "`docs/*/nothing.md`, `src/kvist/routing/{kv_policy,gone}.h`", 2),
    "file by its name": ("docs/a.md", "`kv_policy.h` and `routing/kv_policy.h`", 0),
    "file by its name, not there": ("docs/a.md", "`old_policy.h` and `gateway/kv_policy.h`", 2),
    "the end of many names": ("docs/a.md", "each `*_test.cc` and any NAME.cc.o", 0),
    "files of a run need not be there": ("docs/a.md", "writes report.md and `results.sqlite`", 0),
    "function of a file": ("docs/a.md", "`routing/kv_policy.h:choose` and `kv_policy.h:KvPolicy::choose`", 0),
    "function that the file does not have": ("docs/a.md", "`routing/kv_policy.h:decide`", 1),
    "function of a file that is not there": ("docs/a.md", "`routing/old.h:choose`", 2),
    "function of a class": ("docs/a.md", "`KvPolicy::choose` and `KvPolicy::choose(query)`", 0),
    "function that the class does not have": ("docs/a.md", "`KvPolicy::decide`", 1),
    "class that is not there": ("docs/a.md", "`OldPolicy::choose`, but `std::vector::size` is the library's", 1),
    "file that the reader is to write": ("docs/a.md", "<!-- written by the reader: mine.h -->\nIn `src/mine.h` and `theirs.h`.", 1),
    "comment": ("src/kvist/routing/a.h", "int a;  // docs/guide/routing.md, kv_policy.h", 0),
    "comment that names what is gone": ("src/kvist/routing/a.h", "int a;  /// see docs/routing.md and gone.h", 2),
    "string in C++ is no claim": ("src/kvist/routing/a.cc", 'auto a = "docs/routing.md";', 0),
    "script": ("scripts/b", "# see docs/routing.md", 1),
    "script that makes a page": ("scripts/b", "# writes docs/results/routing.md", 0),
    "setting": ("examples/a.yaml", "a: 1  # docs/guide/routing.md says why", 0),
}

failed = 0
for name, (path, text, expected) in CASES.items():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for file, content in {**TREE, path: text + "\n"}.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(content)
        problems = check_documents.check(root)
        if len(problems) != expected:
            failed += 1
            print(f"{name}: expected {expected} problems, got {problems}")
print(f"{len(CASES) - failed} passed, {failed} failed")
sys.exit(1 if failed else 0)
