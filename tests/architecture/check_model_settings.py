"""Checks that the guide names every setting that an element of the gateway's `models` may have.

The settings are those that read_routing() in src/kvist/spec/gateway.cc reads; the guide's are in the table of docs/guide/fleet.md
under "Several models".
"""
import pathlib
import re
import sys


def settings_read(source):
    body = re.search(r"^Result<void> read_routing\(.*?^}$", source, re.MULTILINE | re.DOTALL).group(0)
    by_name = re.findall(r'(?:read_field\(node, |node\.get\()"(\w+)"', body)
    mappings = re.findall(r"read_\w+\(node, m\.(\w+)\)", body)
    return set(by_name) | set(mappings)


def settings_told(guide):
    section = re.search(r"^## Several models$.*?(?=^## |\Z)", guide, re.MULTILINE | re.DOTALL).group(0)
    table = [line for line in section.splitlines() if line.startswith("|")]
    return set(re.findall(r"`(\w+)`", "\n".join(line.split("|")[1] for line in table)))


def main():
    root = pathlib.Path(sys.argv[1])
    read = settings_read((root / "src/kvist/spec/gateway.cc").read_text())
    assert len(read) > 20, f"read_routing() is written in another way: {sorted(read)}"
    missing = read - settings_told((root / "docs/guide/fleet.md").read_text())
    if missing:
        sys.exit(f"docs/guide/fleet.md, Several models: the table lacks {', '.join(sorted(missing))}")


if __name__ == "__main__":
    main()
