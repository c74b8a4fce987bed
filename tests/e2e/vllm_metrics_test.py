"""Compares the metric names of a worker with those of a real vLLM (tests/golden/vllm/metrics.txt): docs/formats/worker-metrics.md
lists exactly the missing ones, each with its reason."""
import fnmatch
import pathlib
import re

from deployment import deployment, request, run

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE = ROOT / "tests" / "golden" / "vllm" / "metrics.txt"
DOCS = ROOT / "docs" / "formats" / "worker-metrics.md"
ONLY_WITH_OPTIONS = "only with options"  # the recorded vLLM was started without them


def names(page):
    """Metrics with samples; a histogram without the suffixes of its series."""
    found = set()
    for line in page.splitlines():
        name = line.split("{")[0].split(" ")[0]
        for part in ("_bucket", "_sum", "_count"):
            name = name.removesuffix(part)
        if name and not line.startswith("#"):
            found.add(name)
    return found


def left_out():
    """The patterns of names in the second table of the document."""
    rows = DOCS.read_text().split("## Metrics of vLLM that kvist's worker does not have")[1].splitlines()
    rows = [row for row in rows if row.startswith("| `") and ONLY_WITH_OPTIONS not in row]
    assert all(row.split("|")[2].strip() for row in rows), "a name without a reason"
    patterns = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    return [name for name in patterns if re.match(r"vllm:|http_|python_|process_|\*_", name)]


def what_vllm_tells_is_told_or_listed():
    theirs = names(PAGE.read_text())
    with deployment(workers=1, gateway=False) as (_, workers):
        status, _, text = request(workers[0].url + "/v1/completions", {"model": "test-model", "prompt": "The tide", "max_tokens": 3})
        assert status == 200, text
        ours = names(request(workers[0].url + "/metrics")[2])
    patterns = left_out()
    missing = theirs - ours
    unlisted = sorted(name for name in missing if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))
    assert not unlisted, f"missing and not listed in {DOCS.name}: {unlisted}"
    present = [pattern for pattern in patterns if not fnmatch.filter(missing, pattern)]
    assert not present, f"listed in {DOCS.name} and not missing: {present}"


run([what_vllm_tells_is_told_or_listed])
