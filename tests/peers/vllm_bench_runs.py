"""`vllm bench serve` once for each list of arguments in a JSON file: its import takes half a minute, its runs a few seconds. Run with
vLLM's own Python. Appends to marks.json, beside that file, when each run began and ended, by the monotonic clock."""
import json
import pathlib
import sys
import time
import types

if "avx512f" not in pathlib.Path("/proc/cpuinfo").read_text():
    # On other processors importing vllm.lora ends with an illegal instruction; the benchmark wants one name of it.
    lora, request = types.ModuleType("vllm.lora"), types.ModuleType("vllm.lora.request")
    request.LoRARequest = type("LoRARequest", (), {})
    lora.request = request
    sys.modules.update({"vllm.lora": lora, "vllm.lora.request": request})

import vllm.benchmarks.serve as serve  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

runs = pathlib.Path(sys.argv[1])
marks = []
for arguments in json.loads(runs.read_text()):
    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    begun = time.monotonic()
    try:
        serve.main(parser.parse_args(arguments))
    except Exception as error:  # one run's failure is that run's: it has no result file
        print(f"failed: {error}", flush=True)
    marks.append([begun, time.monotonic()])
    runs.with_name("marks.json").write_text(json.dumps(marks))
