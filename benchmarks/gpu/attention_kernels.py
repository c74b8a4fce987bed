"""What attention with the shapes of Llama 3.1 70B takes on a real GPU (64 heads over 8 of KV, head dimension 128), in milliseconds a layer.

    python3 benchmarks/gpu/attention_kernels.py --out attention.json

  decode      one new token a sequence over its context, [batch] x [context]
  prefill     causal, a chunk behind a prefix that is in the KV cache already

By PyTorch's FlashAttention 2 and cuDNN (BF16, KV in one piece), and, where FlashInfer can be imported, by kernels of real engines: `xqa`,
TensorRT-LLM's decode kernel over pages of 32 tokens in random order, and `fa3`, the FlashAttention 3 template, in BF16 and FP8. FlashInfer
compiles them at first use (CUDA's nvcc, two minutes); `--build` does only that.
"""
import argparse
import math
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_timing import FP8, Record, attempt, captured, environment, markdown, median_ms, random_bf16

HEADS, KV_HEADS, HEAD, PAGE = 64, 8, 128, 32
DECODE = [(1, 4096), (8, 4096), (16, 4096), (32, 1024), (32, 4096), (48, 6144), (64, 4096), (128, 4096), (64, 8192), (8, 32768)]
PREFILL = [(chunk, prefix) for chunk in (512, 2048, 8192, 16384) for prefix in (0, 4096, 16384, 65536)]
SETS = 4  # of KV, in turn: a layer does not find its own in the L2 cache


def flash(q, k, v, causal):
    """[batch, heads, tokens, head]; a causal mask is aligned to the last token, which is what a chunk behind a prefix needs."""
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[0]


def cudnn(q, k, v, causal):
    """Its causal mask is aligned to the first token."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def cudnn_behind_prefix(q, k, v, prefix):
    """The two parts that an engine would merge; without that."""
    if prefix:
        cudnn(q, k[:, :, :prefix], v[:, :, :prefix], False)
    return cudnn(q, k[:, :, prefix:], v[:, :, prefix:], True)


def heads_first(batch, heads, tokens):
    """Over memory in which a token's heads are neighbours, as in a KV cache."""
    return random_bf16(batch, tokens, heads, HEAD).transpose(1, 2)


class Pages:
    """Where the tokens of a batch are in a paged KV cache, and XQA over it."""

    def __init__(self, batch, context, shuffled):
        order = torch.randperm if shuffled else torch.arange
        self.table = order(batch * (context // PAGE), device="cuda").int().view(batch, -1)
        self.lengths = torch.full((batch,), context, device="cuda", dtype=torch.int32).view(torch.uint32)
        self.workspace = torch.zeros(512 * 2**20, device="cuda", dtype=torch.uint8)
        self.context = context

    def attend(self, q, k, v):
        """q: [batch, heads, head]; k and v: [pages, tokens of a page, heads of KV, head]."""
        from flashinfer.decode import xqa_batch_decode_with_kv_cache
        return xqa_batch_decode_with_kv_cache(q, (k, v), self.workspace, self.table, self.lengths, self.context,
                                              bmm1_scale=1 / math.sqrt(HEAD))


def paged_decode(batch, context, kv_type, sets=SETS):
    """The pages, one query, and what attends with it to so many sets of KV."""
    pages, q = Pages(batch, context, True), random_bf16(batch, HEADS, HEAD)
    caches = [[random_bf16(pages.table.numel(), PAGE, KV_HEADS, HEAD).to(kv_type) for _ in range(2)] for _ in range(sets)]
    return pages, q, caches, lambda: [pages.attend(q, k, v) for k, v in caches]


def fa3(q, k, v):
    """[tokens, heads, head]; aligned to the last token."""
    from flashinfer import single_prefill_with_kv_cache
    return single_prefill_with_kv_cache(q, k, v, causal=True, backend="fa3", o_dtype=torch.bfloat16)


def plain(q, k, v):
    """Causal attention of [batch, heads, tokens, head], aligned to the last token, in plain arithmetic."""
    wide = [x.float().repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v)]
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device="cuda").tril(k.shape[2] - q.shape[2])
    return (q.float() @ wide[0].mT / math.sqrt(HEAD)).masked_fill(~mask, -math.inf).softmax(-1) @ wide[1]


def distance(found, expected):
    return ((found.float() - expected).norm() / expected.norm()).item()


def check():
    """Relative errors against plain arithmetic: a wrong mask or table would make a kernel look faster than it is."""
    q, k, v = heads_first(1, HEADS, 96), heads_first(1, KV_HEADS, 352), heads_first(1, KV_HEADS, 352)
    expected = plain(q, k, v)
    tokens_first = [x[0].transpose(0, 1) for x in (q, k, v)]

    def of_pages(kv_type):
        pages, q, caches, run = paged_decode(4, 352, kv_type, 1)
        k, v = (cache.float()[pages.table.long()].reshape(4, -1, KV_HEADS, HEAD).transpose(1, 2) for cache in caches[0])
        return distance(run()[0], plain(q.unsqueeze(2), k, v).squeeze(2))
    return {"flash": attempt(lambda: distance(flash(q, k, v, True), expected)),
            "fa3": attempt(lambda: distance(fa3(*tokens_first), expected[0].transpose(0, 1))),
            "fa3 fp8": attempt(lambda: distance(fa3(*(x.to(FP8) for x in tokens_first)), expected[0].transpose(0, 1))),
            "xqa": attempt(lambda: of_pages(torch.bfloat16)), "xqa fp8": attempt(lambda: of_pages(FP8))}


def graph_ms(run):
    return median_ms(captured(run)) / SETS


def measure_decode():
    found = {}
    for batch, context in DECODE:
        of = f"{batch} x {context}"
        q = heads_first(batch, HEADS, 1)
        kv = [[heads_first(batch, KV_HEADS, context) for _ in range(2)] for _ in range(SETS)]
        found[f"flash {of}"] = attempt(lambda: graph_ms(lambda: [flash(q, k, v, False) for k, v in kv]))
        found[f"cudnn {of}"] = attempt(lambda: graph_ms(lambda: [cudnn(q, k, v, False) for k, v in kv]))
        del kv
        for name, kv_type in (("xqa", torch.bfloat16), ("xqa fp8", FP8)):
            found[f"{name} {of}"] = attempt(lambda: graph_ms(paged_decode(batch, context, kv_type)[-1]))
    return found


def measure_prefill():
    found = {}
    for chunk, prefix in PREFILL:
        of = f"{chunk} behind {prefix}"
        q, k, v = heads_first(1, HEADS, chunk), heads_first(1, KV_HEADS, prefix + chunk), heads_first(1, KV_HEADS, prefix + chunk)
        tokens_first = [x[0].transpose(0, 1) for x in (q, k, v)]
        narrow = [x.to(FP8) for x in tokens_first]
        for name, run in {"flash": lambda: flash(q, k, v, True), "cudnn": lambda: cudnn_behind_prefix(q, k, v, prefix),
                          "fa3": lambda: fa3(*tokens_first), "fa3 fp8": lambda: fa3(*narrow)}.items():
            found[f"{name} {of}"] = attempt(lambda: median_ms(run))
    return found


def build():
    """All that FlashInfer compiles, side by side."""
    q, k, v = (random_bf16(64, heads, HEAD) for heads in (HEADS, KV_HEADS, KV_HEADS))
    uses = [lambda: fa3(q, k, v), lambda: fa3(q.to(FP8), k.to(FP8), v.to(FP8)),
            paged_decode(1, 64, torch.bfloat16)[-1], paged_decode(1, 64, FP8)[-1]]
    with ThreadPoolExecutor(len(uses)) as pool:
        for outcome in pool.map(attempt, uses):
            print("built" if not isinstance(outcome, str) else outcome, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", help="file for the figures, JSON; written after every section")
    parser.add_argument("--build", action="store_true", help="compile FlashInfer's kernels, measure nothing")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    if options.build:
        return build()
    record = Record(options.out)
    record.add("environment", environment)
    record.add("relative errors", check)
    record.add("decode", measure_decode)
    record.add("prefill", measure_prefill)
    return print(markdown(record.found))


if __name__ == "__main__":
    main()
