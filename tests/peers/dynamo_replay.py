"""Dynamo's replay of a trace in virtual time, run with Dynamo's own Python: dynamo_replay.py JOB.json. Writes the job's `output`: per
request [TTFT in ms, prompt tokens, reused tokens]."""
import json
import sys

from dynamo.replay import run_trace_replay

job = json.load(open(sys.argv[1]))
engine = {"backend": "vllm", "num_gpu_blocks": job["kv_blocks"], "block_size": job["block_size"], "max_num_seqs": job["slots"],
          "max_num_batched_tokens": job["step_tokens"],
          "timing_model": {"type": "external", "provider": "dynamo_profile", "config": {"path": job["step_table"]}}}
run_trace_replay(job["trace"], extra_engine_args={"engine": engine}, num_workers=job["workers"], router_mode=job["router_mode"],
                 trace_block_size=512, arrival_speedup_ratio=job["speed"], report_jsonl_path=job["report"], kv_event_lag_ms=0)
rows = [json.loads(line) for line in open(job["report"])]
json.dump([[row["ttft_ms"], row["input_length"], row["reused_input_tokens"]] for row in rows], open(job["output"], "w"))
