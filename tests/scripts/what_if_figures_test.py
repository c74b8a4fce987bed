"""What benchmarks/what_if.py reads of a load, from a summary as `kvist loadgen --output` writes it."""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import what_if  # noqa: E402

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "summary.json").write_text(json.dumps({"client": {"verdict": "valid", "loop_delay_p99_ms": 0.75}}))
    assert what_if.loop_delay_p99_ms(folder) == 0.75
