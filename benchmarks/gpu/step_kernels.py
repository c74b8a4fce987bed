"""What a step of Llama 3.1 takes on a real GPU, to hold kvist's profiles against.

    python3 benchmarks/gpu/step_kernels.py --out step.json

Needs PyTorch and a Hopper GPU with 130 GiB of memory; no engine, no model files: weights are random, in the shapes of the model. Measured:

  products    the four FP8 matrix products of every layer and the output layer (BF16), by rows
  step        the same with norms, rotary embedding, activation and quantization (each fused by torch.compile); for decode batches also
              with attention, as a CUDA graph and launched kernel by kernel; chunks of a prefill amid decode steps
  ceilings    what copies and square products reach

Every layer has weights and KV of its own, so that nothing is read from the L2 cache. Times are milliseconds, medians of several
repetitions. Not measured: an engine's scheduling, sampling and tokenizing.
"""
import argparse
import math
import statistics
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from attention_kernels import PAGE, Pages, flash
from gpu_timing import FP8, Record, attempt, captured, environment, host_ms, markdown, median_ms, query, random_bf16, random_fp8

ROWS = [1, 2, 4, 8, 16, 17, 24, 32, 33, 48, 60, 64, 65, 72, 96, 128, 129, 160, 192, 256, 257, 384, 512, 1024, 2048, 4096, 8192, 16384]
BATCHES = [1, 2, 4, 8, 16, 32, 48, 64]
EAGER_CONTEXT = 128  # short: it is about the launches
CHUNKS = [512, 1024, 2048, 4096, 8192]
LOGIT_ROWS = 128  # prefill computes logits for the last row of each prompt only
GRAPH_ROWS = 1024  # above, the GPU is the slower side and launches do not show


@dataclass(frozen=True)
class Model:
    name: str
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    intermediate: int
    head: int = 128
    vocabulary: int = 128256

    def products(self):
        """Name -> (columns in, columns out)."""
        return {"qkv": (self.hidden, (self.heads + 2 * self.kv_heads) * self.head), "o": (self.heads * self.head, self.hidden),
                "gate_up": (self.hidden, 2 * self.intermediate), "down": (self.intermediate, self.hidden)}


MODELS = {model.name: model for model in [Model("llama-3.1-70b-fp8", 80, 64, 8, 8192, 28672),
                                          Model("llama-3.1-8b-fp8", 32, 32, 8, 4096, 14336)]}


def gpu_ms(run, rows=0):
    return median_ms(captured(run)) if rows <= GRAPH_ROWS else median_ms(run, repetitions=5, warmups=1)


def scale(value):
    return torch.tensor(value, device="cuda", dtype=torch.float32)


class Weights:
    def __init__(self, model):
        self.model = model
        self.layers = [{name: random_fp8(n, k) for name, (k, n) in model.products().items()} for _ in range(model.layers)]
        self.scales = {name: scale(1 / math.sqrt(k)) for name, (k, n) in model.products().items()}
        self.one = scale(1.0)
        self.output = random_bf16(model.vocabulary, model.hidden)
        self.norm = random_bf16(model.hidden)

    def product(self, layer, name, x, fast=True):
        return torch._scaled_mm(x, layer[name].t(), scale_a=self.one, scale_b=self.scales[name], out_dtype=torch.bfloat16,
                                use_fast_accum=fast)

    def logits(self, x):
        return F.linear(x[:LOGIT_ROWS], self.output)


# The elementwise parts between the products, each one kernel after torch.compile, as the engines have them.
def to_fp8(x):
    return x.clamp(-448, 448).to(FP8)


def rms(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


@torch.compile
def add_and_norm(x, residual, weight):
    residual = residual + x
    return residual, to_fp8(rms(residual.float(), weight))


@torch.compile
def last_norm(x, residual, weight):
    return rms((residual + x).float(), weight).to(torch.bfloat16)


@torch.compile
def rotate(qkv, cosine, sine, k_out, v_out, heads, kv_heads, head):
    q, k, v = qkv.view(qkv.shape[0], -1, head).split([heads, kv_heads, kv_heads], dim=1)

    def turned(x):
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1).to(torch.bfloat16)
    k_out.copy_(turned(k))
    v_out.copy_(v)
    return turned(q)


@torch.compile
def activate(gate_up):
    gate, up = gate_up.chunk(2, dim=-1)
    return to_fp8(F.silu(gate.float()) * up)


@torch.compile
def quantize(x):
    return to_fp8(x)


def measure_products(weights):
    model, found = weights.model, {"rows": {}, "by_product": {}, "exact_accumulation": {}}

    def run_of(x, hidden, names, fast=True):
        def run():
            for layer in weights.layers:
                for name in names:
                    weights.product(layer, name, x[name], fast)
            if hidden is not None:
                weights.logits(hidden)
        return run
    for rows in ROWS:
        x = {name: random_fp8(rows, k) for name, (k, n) in model.products().items()}
        hidden = random_bf16(rows, model.hidden)
        found["rows"][rows] = attempt(lambda: gpu_ms(run_of(x, hidden, list(x)), rows))
        if rows in (1, 64, 512, 4096):
            found["by_product"][rows] = {name: gpu_ms(run_of(x, None, [name]), rows) for name in x}
            found["exact_accumulation"][rows] = attempt(lambda: gpu_ms(run_of(x, hidden, list(x), False), rows))
    return found


class FlashCaches:
    """KV in BF16, in one piece, under PyTorch's FlashAttention 2."""

    def __init__(self, model, batch, context):
        self.layers = [[random_bf16(batch, context, model.kv_heads, model.head) for _ in range(2)] for _ in range(model.layers)]

    def newest(self, layer, rows):
        return [cache[:rows, -1] for cache in self.layers[layer]]

    def attend(self, layer, q):
        return flash(q.unsqueeze(2), *(cache[:q.shape[0]].transpose(1, 2) for cache in self.layers[layer]), False)


class PagedCaches:
    """KV in FP8, in pages, under TensorRT-LLM's XQA from FlashInfer."""

    def __init__(self, model, batch, context):
        self.layers = [[random_fp8(batch, context, model.kv_heads, model.head) for _ in range(2)] for _ in range(model.layers)]
        self.pages = {rows: Pages(rows, context, False) for rows in BATCHES}

    def newest(self, layer, rows):
        return [cache[:rows, -1] for cache in self.layers[layer]]

    def attend(self, layer, q):
        pages = (cache[:q.shape[0]].view(-1, PAGE, *cache.shape[2:]) for cache in self.layers[layer])
        return self.pages[q.shape[0]].attend(q, *pages)


def step_of(weights, rows, caches):
    """One step of the whole model; without caches, without attention."""
    model = weights.model
    residual, x = random_bf16(rows, model.hidden), random_bf16(rows, model.hidden)
    angles = torch.rand(rows, 1, model.head // 2, device="cuda")
    cosine, sine = angles.cos(), angles.sin()
    scratch = [torch.empty(rows, model.kv_heads, model.head, device="cuda", dtype=torch.bfloat16) for _ in range(2)]

    def run():
        stream, y = residual, x
        for at, layer in enumerate(weights.layers):
            stream, h = add_and_norm(y, stream, weights.norm)
            outs = caches.newest(at, rows) if caches else scratch
            q = rotate(weights.product(layer, "qkv", h), cosine, sine, *outs, model.heads, model.kv_heads, model.head)
            if caches:
                q = caches.attend(at, q)
            stream, h = add_and_norm(weights.product(layer, "o", quantize(q.reshape(rows, -1))), stream, weights.norm)
            y = weights.product(layer, "down", activate(weights.product(layer, "gate_up", h)))
        return weights.logits(last_norm(y, stream, weights.norm)).argmax(-1)
    return run


def measure_without_attention(weights):
    for rows in (64, 4096):  # compiled for one size and then for any, by the hint of a large one
        step_of(weights, rows, None)()
    return {rows: attempt(lambda: gpu_ms(step_of(weights, rows, None), rows)) for rows in ROWS}


def measure_amid_decode(weights):
    """A chunk, without attention, after twenty decode steps, as in an engine: nothing but large products runs at the power limit."""
    decode, found = captured(step_of(weights, 32, None)), {}
    for rows in CHUNKS:
        chunk, times = step_of(weights, rows, None), []
        for _ in range(8):
            for _ in range(20):
                decode()
            times.append(median_ms(chunk, repetitions=1, warmups=0))
        found[rows] = statistics.median(times[1:])
    return found


def measure_eager(weights):
    caches, found = FlashCaches(weights.model, max(BATCHES), EAGER_CONTEXT), {"done": {}, "launched": {}}
    for batch in BATCHES:
        found["done"][batch], found["launched"][batch] = host_ms(step_of(weights, batch, caches))
    found["graph"] = {batch: gpu_ms(step_of(weights, batch, caches)) for batch in BATCHES}
    return found


def measure_decode_steps(weights, kind, context):
    """With attention over so many tokens of each sequence, as a CUDA graph."""
    caches = kind(weights.model, max(BATCHES), context)
    found = {batch: attempt(lambda: gpu_ms(step_of(weights, batch, caches))) for batch in BATCHES}
    return {**found, "kernels": attempt(lambda: kernels_of(step_of(weights, 32, caches)))}


def kernels_of(run):
    """Name -> [launches, milliseconds] in one run, the longest ones."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    ranked = sorted(profile.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    ranked = [kernel for kernel in ranked if kernel.self_device_time_total > 0]
    found = {kernel.key[:80]: [kernel.count, round(kernel.self_device_time_total / 1e3, 3)] for kernel in ranked[:16]}
    everything = [sum(kernel.count for kernel in ranked), round(sum(kernel.self_device_time_total for kernel in ranked) / 1e3, 3)]
    return {"all": everything, **found}


def measure_ceilings():
    source, target = (torch.randn(2**30, device="cuda") for _ in range(2))
    found = {"copy_bytes_per_s": 2 * source.nbytes / median_ms(lambda: target.copy_(source)) * 1e3,
             "read_bytes_per_s": source.nbytes / median_ms(lambda: source.amax()) * 1e3}
    n, one = 8192, scale(1.0)
    a, b = random_bf16(n, n), random_bf16(n, n)
    found["bf16_flops"] = 2 * n**3 / median_ms(lambda: a @ b, repetitions=30) * 1e3
    a, b = a.to(FP8), b.to(FP8)
    found["fp8_flops"] = 2 * n**3 / median_ms(
        lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True), repetitions=30) * 1e3
    return found


def under_load(weights):
    """The clock and power of the GPU amid seconds of large products."""
    x = {name: random_fp8(8192, k) for name, (k, n) in weights.model.products().items()}
    for layer in weights.layers * 6:
        for name in x:
            weights.product(layer, name, x[name])
    found = query("clocks.sm,clocks.mem,power.draw,temperature.gpu")
    torch.cuda.synchronize()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="file for the figures, JSON; written after every section")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--xqa", action="store_true", help="decode steps with FlashInfer's XQA as well")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    torch._dynamo.config.recompile_limit = 100
    record = Record(options.out)
    record.add("environment", environment)
    record.add("ceilings", measure_ceilings)
    for name in options.models:
        torch.compiler.reset()
        weights = Weights(MODELS[name])
        record.add(f"{name} products", lambda: measure_products(weights))
        if name == "llama-3.1-70b-fp8":
            record.add("under load", lambda: under_load(weights))
        record.add(f"{name} without attention", lambda: measure_without_attention(weights))
        record.add(f"{name} amid decode", lambda: measure_amid_decode(weights))
        record.add(f"{name} eager", lambda: measure_eager(weights))
        record.add(f"{name} decode, flash 2048", lambda: measure_decode_steps(weights, FlashCaches, 2048))
        if options.xqa:
            record.add(f"{name} decode, xqa fp8 4096", lambda: measure_decode_steps(weights, PagedCaches, 4096))
        del weights
    print(markdown(record.found))


if __name__ == "__main__":
    main()
