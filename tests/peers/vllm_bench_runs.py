"""`vllm bench serve`, or a script of vLLM's, once for each entry of a JSON file ({"script", "arguments"}): its import takes half a
minute, its runs a few seconds. Run with vLLM's own Python. Appends to marks.json, beside that file, when each run began and ended, by the
monotonic clock."""
import json
import pathlib
import runpy
import sys
import time
import types

if "avx512f" not in pathlib.Path("/proc/cpuinfo").read_text():
    # On other processors importing vllm.lora ends with an illegal instruction; the benchmark needs only one name of it.
    lora, request = types.ModuleType("vllm.lora"), types.ModuleType("vllm.lora.request")
    request.LoRARequest = type("LoRARequest", (), {})
    lora.request = request
    sys.modules.update({"vllm.lora": lora, "vllm.lora.request": request})

import vllm.benchmarks.serve as serve  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402



def run(script, arguments):
    if script:
        # A script with modules beside it; its clients are forks of this process.
        sys.argv, sys.path[0] = arguments, str(pathlib.Path(arguments[0]).parent)
        runpy.run_path(arguments[0], run_name="__main__")
        return
    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    serve.main(parser.parse_args(arguments))


runs = pathlib.Path(sys.argv[1])
marks = []
for wanted in json.loads(runs.read_text()):
    begun = time.monotonic()
    try:
        run(wanted["script"], wanted["arguments"])
    except Exception as error:  # one run's failure is that run's: it has no result file
        print(f"failed: {error}", flush=True)
    marks.append([begun, time.monotonic()])
    runs.with_name("marks.json").write_text(json.dumps(marks))
