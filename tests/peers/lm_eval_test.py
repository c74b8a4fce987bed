"""EleutherAI's lm-evaluation-harness scores texts at kvist's worker that computes, alone and through the gateway."""
import json
import math
import os
import pathlib
import subprocess
import tempfile

import peer
from computing import serving, start_gateway
from deployment import request

PEERS = ["lm-eval"]
QUESTIONS = [{"question": f"{word}: is it a word?", "choices": ["yes", "no, it is not", "maybe"], "answer": number % 3}
             for number, word in enumerate(["twig", "branch", "leaf", "root", "tree", "naïve", "Øresund", "bark"])]
TASKS = {
    "kvist_choices": """task: kvist_choices
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_target: answer
doc_to_choice: choices
metric_list:
  - metric: acc
""",
    "kvist_perplexity": """task: kvist_perplexity
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{question}}"
metric_list:
  - metric: word_perplexity
""",
    "kvist_writing": """task: kvist_writing
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{choices[0]}}"
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 8}
metric_list:
  - metric: exact_match
""",
}
report = peer.Report("lm_eval", "lm-evaluation-harness", 14, PEERS)


def write_tasks(folder):
    data = folder / "questions.jsonl"
    data.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    for name, text in TASKS.items():
        source = f"dataset_path: json\ndataset_kwargs:\n  data_files: {{test: {data}}}\ntest_split: test\n"
        (folder / f"{name}.yaml").write_text(text + source)


def evaluate(folder, model, server, how):
    """Task -> its samples."""
    out = folder / how
    arguments = (f"model=test-model,base_url={server.url}/v1/completions,num_concurrent=2,max_retries=1,tokenizer_backend=huggingface,"
                 f"tokenizer={model},tokenized_requests=True,max_length=2000")
    command = [peer.program("lm-eval"), "--model", "local-completions", "--model_args", arguments, "--tasks", ",".join(TASKS),
               "--include_path", folder, "--output_path", out, "--log_samples", "--batch_size", "4"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, cwd=folder,
                          env={**os.environ, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    samples = {}
    for path in out.rglob("samples_*.jsonl"):
        name = next(task for task in TASKS if task in path.name)
        samples[name] = sorted((json.loads(line) for line in path.read_text().splitlines()), key=lambda sample: sample["doc_id"])
    return samples


def tokens_of(worker, text):
    status, _, answer = request(worker.url + "/tokenize", {"model": "test-model", "prompt": text, "add_special_tokens": False})
    assert status == 200, answer
    return json.loads(answer)["tokens"]


def token_by_token(worker, context, continuation):
    """The log probability of the continuation, each token as the next one after all before it: no prompt's is asked for."""
    total, tokens = 0.0, tokens_of(worker, context + continuation)
    for i in range(len(tokens_of(worker, context)), len(tokens)):
        body = {"model": "test-model", "prompt": tokens[:i], "max_tokens": 1, "logprobs": 0, "ignore_eos": True, "temperature": 0,
                "logit_bias": {str(tokens[i]): 100}}
        status, _, text = request(worker.url + "/v1/completions", body)
        assert status == 200, text
        total += json.loads(text)["choices"][0]["logprobs"]["token_logprobs"][0]
    return total


def scores_are_the_models():
    """Its scores are the model's log probabilities, at a worker and through the gateway"""
    with serving("kv_blocks: 512", "kv_blocks: 512") as (folder, model, workers):
        write_tasks(folder)
        gateway = start_gateway(folder, model, workers)
        try:
            runs = {how: evaluate(folder, model, server, how) for how, server in
                    (("worker", workers[0]), ("gateway", gateway), ("again", gateway))}
        finally:
            gateway.stop()
        wrong = 0
        for sample, question in zip(runs["worker"]["kvist_choices"], QUESTIONS):
            for answer, choice in zip(sample["filtered_resps"], question["choices"]):
                alone = token_by_token(workers[0], question["question"], f" {choice}")
                wrong += not math.isclose(float(answer[0]), alone, rel_tol=1e-3, abs_tol=1e-3)
        report.check("each choice's log likelihood is what its tokens have one after the other", wrong == 0, f"{wrong} of {3 * len(QUESTIONS)} differ")
        for how in ("gateway", "again"):
            same = all([s["filtered_resps"] for s in runs[how][task]] == [s["filtered_resps"] for s in runs["worker"][task]] for task in TASKS)
            report.check(f"choices, perplexities and answers are the same: {how}", same)
        report.check("every task was evaluated in whole", all(len(run[task]) == len(QUESTIONS) for run in runs.values() for task in TASKS))


report.require(*PEERS)
report.run(scores_are_the_models)
