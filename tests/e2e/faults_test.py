"""The most telling faults of scripts/run-faults, with fewer streams: every expectation but those on time has to hold."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "faults"))

import answer_cases  # noqa: E402
import event_cases  # noqa: E402
import stranger_cases  # noqa: E402
import worker_cases  # noqa: E402
from deployment import run  # noqa: E402
from expectations import Case  # noqa: E402

STREAMS = 24
# A worker killed in mid-stream and started again; one whose answer never gets beyond interim ones; messages lost, nonsense instead of them, a
# message without an end; strangers' heads.
CHOSEN = {**worker_cases.CASES, **answer_cases.CASES, **event_cases.CASES, **stranger_cases.CASES}
NAMES = ["killed-mid-stream", "answers-endless-1xx", "events-gapped", "events-0xff", "events-3000-parts", "hostile-heads"]


def test_of(name):
    title, function = CHOSEN[name]

    def test():
        case = Case(name, title)
        assert case.run(lambda it: function(it, STREAMS)), [row for row in case.rows if not row.held]

    test.__name__ = name
    return test


if __name__ == "__main__":
    run([test_of(name) for name in NAMES])
