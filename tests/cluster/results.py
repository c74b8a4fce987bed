"""What a test has counted, for the page that scripts/run-cluster-test writes: one JSON file for each test, in the folder $KVIST_CLUSTER_RESULTS."""
import json
import os
import pathlib


class Results:
    def __init__(self, name):
        self.name, self.rows, self.facts = name, [], []

    def row(self, what, workers, seconds):
        print(f"{what}: {workers} workers, {seconds:.3f} s", flush=True)
        self.rows.append({"what": what, "workers": workers, "seconds": round(seconds, 3)})

    def fact(self, what, value):
        print(f"{what}: {value}", flush=True)
        self.facts.append({"what": what, "value": value})

    def write(self):
        if folder := os.environ.get("KVIST_CLUSTER_RESULTS"):
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
            (pathlib.Path(folder) / f"{self.name}.json").write_text(json.dumps({"rows": self.rows, "facts": self.facts}))
