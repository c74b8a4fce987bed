"""`guidellm` once for each list of arguments in a JSON file: its import takes longer than its runs. Run with GuideLLM's own Python.
If GUIDELLM__MP_CONTEXT_TYPE is forkserver, its worker processes need not repeat that import."""
import json
import multiprocessing
import pathlib
import sys

from guidellm.__main__ import cli

if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["guidellm.__main__", "guidellm.scheduler.worker_group"])
    for arguments in json.loads(pathlib.Path(sys.argv[1]).read_text()):
        try:
            cli(arguments, standalone_mode=False)
        except BaseException as error:  # one run's failure is that run's: it has no result file
            print(f"failed: {type(error).__name__}: {error}", flush=True)
