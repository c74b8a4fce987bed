"""Tables of figures beside what was expected of them, and their place in a Markdown page."""
import sys


def quantile(values, q):
    """Interpolates linearly between the two nearest ranks, as kvist's own reports do."""
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def markdown(head, rows):
    lines = ["| " + " | ".join(row) + " |" for row in [head] + rows]
    return "\n".join([lines[0], "|" + " --- |" * len(head)] + lines[1:])


def write_between_markers(path, name, text):
    """Replaces what stands between the markers `<!-- name: begin -->` and `<!-- name: end -->` of a page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    document = path.read_text()
    if begin not in document or end not in document:
        sys.exit(f"{path}: has no markers {begin} and {end}")
    path.write_text(document.split(begin)[0] + begin + "\n" + text + "\n" + end + document.split(end)[1])
