"""Checks that the figures of a table of headlines are on the pages that its rows name, so that a page that is made anew is not contradicted.

A table of headlines ends with a column `where`. In it a row links to pages, or names one by the number that a link of the document has:
`simulated ([1](docs/results/routing.md))` in one row, `(1)` in the others. What a cell between the first column and that one says, up to a
semicolon, must stand together on a page: each of its figures is within the same LINES lines, rounded to as many places as the cell has,
in the same unit or a thousand times as much (ms for s). A single figure may be there by chance; all that a page has changed will not.
"""
import pathlib
import re
import sys

DOCUMENTS = ["README.md", "docs/results/overview.md"]
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+\.md)(?:#[^)\s]*)?\)")
NUMBERED = re.compile(r"\((?:\[)?(\d+)\b")
LINES = 20
# Not what is part of a name: H200, p95, v1.2.
FIGURE = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\.?\d)")


def figures_of(text):
    """Every figure of a text: as it is written, without the commas of thousands."""
    return [found.replace(",", "") for found in FIGURE.findall(text)]


def rows_of(text):
    """The rows of all tables of headlines, each as its cells."""
    rows, within = [], False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            within = False
        elif cells[-1] == "where":
            within = True
        elif within and not set(line) <= set("|-: "):
            rows.append(cells)
    return rows


def numbered_pages(text):
    """The pages that the document's links with a number as their text lead to."""
    return {name: page for name, page in LINK.findall(text) if name.isdigit()}


def is_among(figure, found):
    """Whether a figure of a page becomes this one when it is rounded."""
    places = len(figure.partition(".")[2])
    half = 0.5 * 10**-places * (1 + 1e-9)
    return any(abs(value * unit - float(figure)) <= half for value in found for unit in (1, 1e-3))


def missing_from(page, figures):
    """The figures that are not within the LINES lines of a page that have most of them."""
    lines = [[float(figure) for figure in figures_of(line)] for line in page.read_text().splitlines()]
    there = [{at for at, found in enumerate(lines) if is_among(figure, found)} for figure in figures]
    begins = {max(at - before, 0) for places in there for at in places for before in (0, LINES - 1)}
    best = list(figures)
    for begin in begins:
        missing = [figure for figure, places in zip(figures, there) if places.isdisjoint(range(begin, begin + LINES))]
        best = min(best, missing, key=len)
    return best


def problems_of(root, document):
    text = (root / document).read_text()
    numbered, problems = numbered_pages(text), []
    rows = rows_of(text)
    if not rows:
        problems.append(f"{document}: has no table whose last column is `where`")
    for cells in rows:
        where = cells[-1]
        names = [page for _, page in LINK.findall(where)] + [numbered.get(number) for number in NUMBERED.findall(where)]
        names = list(dict.fromkeys(filter(None, names)))
        if not names:
            problems.append(f"{document}: `{cells[0]}` names no page")
        for part in [part for cell in cells[1:-1] for part in cell.split(";") if names]:
            missing = min((missing_from((root / document).parent / name, figures_of(part)) for name in names), key=len)
            if missing:
                problems.append(f"{document}: `{cells[0]}`: {', '.join(missing)} of `{part.strip()}` is not within {LINES} lines of {' or '.join(names)}")
    return problems


def main():
    root = pathlib.Path(sys.argv[1])
    problems = [problem for document in DOCUMENTS for problem in problems_of(root, document)]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
