"""Checks docs/formats/settings.md against the code that reads settings.

  1. Each key that src/kvist/spec reads stands on the page.
  2. Each key in the first column of one of the page's tables is read.
"""
import pathlib
import re
import sys

READ = re.compile(r'\bread_\w+\(\s*\*?\w+,\s*"(\w+)"|\b(?:get|require)\("(\w+)"\)')
# What is read by a name that is put together, or in a loop.
OTHERWISE = {"max_start_rate", "target_rps"} | {f"{name}_{end}" for name in ("turns", "starter_tokens", "follow_up_tokens") for end in ("min", "max")}
# Of a worker in a file of its own, of a sweep in one mapping: not keys but what the mappings are called.
MAPPINGS = {"worker"}


def keys_read(folder):
    found = set(OTHERWISE)
    for path in sorted(folder.glob("*.cc")):
        text = path.read_text()
        found |= {key for pair in READ.findall(text) for key in pair if key}
        found |= {key for body in re.findall(r"for \(const char\* (?:key|part) : \{([^}]*)\}", text) for key in re.findall(r'"(\w+)"', body)}
    return found


def words_told(page):
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", page))))


def keys_told(page):
    """Those of the first columns, where a table has keys."""
    told, is_keys = set(), False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if not line.startswith("|"):
            is_keys = False
        elif cells[1] == "key":
            is_keys = True
        elif is_keys:
            told |= set(re.findall(r"`(\w+)`", cells[1]))
    return told


def main():
    root = pathlib.Path(sys.argv[1])
    page = (root / "docs/formats/settings.md").read_text()
    read = keys_read(root / "src/kvist/spec")
    assert len(read) > 150, f"settings are read in another way: {sorted(read)}"
    problems = [f"{key} is read, and not on the page" for key in sorted(read - words_told(page))]
    problems += [f"{key} is on the page, and not read" for key in sorted(keys_told(page) - read - MAPPINGS)]
    if problems:
        sys.exit("docs/formats/settings.md: " + "; ".join(problems))


if __name__ == "__main__":
    main()
