"""The check of headlines must fail where it should, and only there."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_headlines

PAGE = "# Results\n\n| policy | TTFT | p95 |\n| --- | ---: | ---: |\n| `kv` | 402 ms | 1,234.5 |\n| dynamo | 683 ms | 9.96 |\n" + "\n" * 40 + "Later 77.\n"
HEAD = "| measured | kvist | beside it | where |\n| --- | ---: | --- | --- |\n"
# The rows of a table, and how many problems it has.
CASES = {
    "as the page has it": ("| TTFT | **402 ms** | Dynamo's 683 | simulated ([1](docs/page.md)) |", 0),
    "another row's number": ("| TTFT | 402 | | ([1](docs/page.md#results)) |\n| p95 | 1,234.5 | | (1) |", 0),
    "rounded": ("| TTFT | 0.40 s | Dynamo's 0.68 | [here](docs/page.md) |", 0),
    "rounded up": ("| p95 | 1,235, 10.0 | | [here](docs/page.md) |", 0),
    "names are no figures": ("| TTFT | 402 on H200 by v1.99, p77 | | [here](docs/page.md) |", 0),
    "another figure": ("| TTFT | 403 ms | | [here](docs/page.md) |", 1),
    "rounded down": ("| p95 | 9.9 | | [here](docs/page.md) |", 1),
    "two other figures of one cell": ("| TTFT | 402, 403, 404 | | [here](docs/page.md) |", 1),
    "far from each other": ("| TTFT | 402, 77 | | [here](docs/page.md) |", 1),
    "far from each other, and told apart": ("| TTFT | 402; 77 | | [here](docs/page.md) |", 0),
    "no page": ("| TTFT | 402 | | here |", 1),
    "a number that leads nowhere": ("| TTFT | 402 | | (2) |", 1),
    "figures of the first column are not looked at": ("| TTFT of 1,000,000 | 402 | | [here](docs/page.md) |", 0),
}


def main():
    failures = []
    for name, (rows, expected) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "docs/page.md").write_text(PAGE)
            (root / "README.md").write_text(HEAD + rows + "\n")
            problems = check_headlines.problems_of(root, "README.md")
        if len(problems) != expected:
            failures.append(f"{name}: {expected} problems were expected, found {problems}")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "README.md").write_text("| a | b |\n| --- | --- |\n| 1 | 2 |\n")
        if len(check_headlines.problems_of(pathlib.Path(folder), "README.md")) != 1:
            failures.append("a document without a table of headlines")
    print("\n".join(failures) or f"{len(CASES) + 1} cases")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
