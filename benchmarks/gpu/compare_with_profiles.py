"""Holds the step-time model of kvist's profiles against measured kernels, and writes the tables of docs/results/gpu-kernels.md.

    python3 benchmarks/gpu/compare_with_profiles.py --kvist build/release/bin/kvist

Reads what step_kernels.py and attention_kernels.py wrote on one H200. The profiles' terms are those that `kvist plan profiles` prints; the
formula over them is in src/kvist/perfmodel/README.md.
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from deviation_table import markdown, write_between_markers  # noqa: E402

PAGE = ROOT / "docs/results/gpu-kernels.md"
BANDWIDTH, FP8_PEAK, BF16_PEAK = 4.8e12, 1.979e15, 0.9895e15
LAYERS, KV_BYTES = 80, 163840  # of the 70B: a token's KV in FP8
PRODUCT_BYTES = 72.7e9 - 128256 * 8192 * 2  # a step reads all weights of the 70B but the embedding
TERMS = {"weight_read": "weight read", "row": "matrix products", "kv": "KV read", "pair": "attention of prefill", "launch": "launch"}
FLOOR, FLOOR_SEQUENCE = 33, 0.24  # ms: host_floor of data/profiles/engines/trtllm.yaml
SWITCHES = {"exponent": "matrix_products.exponent", "first_tile": "matrix_products.first_tile", "tile": "matrix_products.tile"}


class Profile:
    """The terms of one engine behaviour on one model: milliseconds, but `row` microseconds, `kv` and `pair` nanoseconds."""

    def __init__(self, kvist, engine, model):
        text = subprocess.run([kvist, "plan", "profiles", "--gpu", "h200", "--model", model, "--engine", engine], capture_output=True,
                              text=True, check=True).stdout
        for name, label in {**TERMS, **SWITCHES}.items():
            setattr(self, name, float(re.search(rf"^{re.escape(label)}\s+([\d.e+-]+)\s", text, re.M).group(1)))

    def tiled(self, rows):
        if not self.tile:
            return rows
        size = self.first_tile or self.tile
        while size < self.tile and rows > size:
            size *= 2
        return size if rows <= size < self.tile else math.ceil(rows / self.tile) * self.tile

    def products(self, rows):
        return smooth_maximum(self.weight_read, self.row * self.tiled(rows) / 1e3, self.exponent)

    def without_attention(self, rows):
        return self.launch + self.products(rows)


def smooth_maximum(a, b, power):
    return (a**power + b**power)**(1 / power)


def best_exponent(read, row, measured):
    """With which the smooth maximum fits the measured products best, and the largest relative deviation then."""
    def deviations(power):
        return [abs(smooth_maximum(read, row * rows, power) / ms - 1) for rows, ms in measured.items()]
    power = min((p / 20 for p in range(20, 400)), key=lambda p: sum(d * d for d in deviations(p)))
    return power, max(deviations(power))


def by_rows(figures):
    return {int(rows): ms for rows, ms in figures.items() if rows.isdigit() and not isinstance(ms, str)}


def of_kernel(figures, name):
    """Those of one kernel, by (first number, second number) of their names."""
    found = {}
    for label, ms in figures.items():
        match = re.fullmatch(rf"{re.escape(name)} (\d+) (?:x|behind) (\d+)", label)
        if match and not isinstance(ms, str):
            found[tuple(map(int, match.groups()))] = ms
    return found


def slope(figures, low, high):
    return (figures[high] - figures[low]) / (high - low)


def ratio(measured, predicted):
    return f"{measured / predicted:.2f}"


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def line(name, unit, origin, predicted, measured, note=""):
    """One of the table of coefficients."""
    return [name, f"{number(predicted)} {unit}".strip(), origin, f"{number(measured)} {unit}".strip() + note, ratio(measured, predicted)]


def coefficients(trtllm, vllm, step, attention):
    ceilings, products = step["ceilings"], by_rows(step["llama-3.1-70b-fp8 products"]["rows"])
    eager, amid = step["llama-3.1-70b-fp8 eager"], by_rows(step["llama-3.1-70b-fp8 amid decode"])
    read = min(ms for rows, ms in products.items() if rows <= 16)
    share = PRODUCT_BYTES / read * 1e3 / BANDWIDTH
    whole = by_rows(eager["graph"])[8]
    row, row_products = slope(amid, 512, 4096) * 1e3, slope(products, 512, 4096) * 1e3
    exponent, worst = best_exponent(read, row_products / 1e3, {rows: products[rows] for rows in (32, 64, 96, 128, 192, 256, 384, 512)})
    tokens = [ms * LAYERS * 1e6 / (batch * context) for (batch, context), ms in of_kernel(attention["decode"], "xqa fp8").items()
              if batch >= 32 and context >= 4096]
    pairs = [ms * LAYERS * 1e6 / pairs_of(*of) for of, ms in of_kernel(attention["prefill"], "fa3").items() if of[0] >= 2048 or of[1]]
    token, pair = statistics.median(tokens), statistics.median(pairs)
    return [
        line("memory bandwidth", "TB/s", "datasheet", BANDWIDTH / 1e12, ceilings["read_bytes_per_s"] / 1e12,
             f" read; {ceilings['copy_bytes_per_s'] / 1e12:.3g} copied"),
        line("FP8 peak", "TFLOP/s", "datasheet", FP8_PEAK / 1e12, ceilings["fp8_flops"] / 1e12, ", a product of 8,192 cubed"),
        line("BF16 peak", "TFLOP/s", "datasheet", BF16_PEAK / 1e12, ceilings["bf16_flops"] / 1e12, ", the same"),
        line("reading the weights (`weight_read`)", "ms", "datasheet: the peak itself", trtllm.weight_read, read,
             f", products of few rows: {share:.0%} of the peak"),
        line("what a step takes beyond that peak (`launch.fixed`), TensorRT-LLM", "ms", "fitted", trtllm.launch, whole - trtllm.weight_read,
             f", of a whole step of 8 rows ({whole:.1f} ms)"),
        line("the same, vLLM", "ms", "fitted", vllm.launch, whole - vllm.weight_read, ", kernels only: no part of the host's loop"),
        line("a row (`matrix_products`), TensorRT-LLM", "us", "fitted", trtllm.row, row,
             f" amid decode steps; products alone {number(row_products)}"),
        line("the same, vLLM", "us", "fitted", vllm.row, row),
        line("exponent of the smooth maximum", "", "fitted", trtllm.exponent, exponent, f" fits the products best, within {worst:.0%}"),
        ["one row more than 64 (`tile`), vLLM", f"{vllm.products(65) - vllm.products(64):+.2g} ms", "fitted",
         f"{products[65] - products[64]:+.2g} ms, cuBLASLt", ""],
        line("a token of context in FP8 (`kv_read`), TensorRT-LLM", "ns", "fitted", trtllm.kv, token,
             f" ({number(min(tokens))} to {number(max(tokens))}), XQA, 32 and more sequences of 4,096 and more"),
        line("the same, vLLM", "ns", "fitted", vllm.kv, token, ", the same kernel"),
        line("a pair of prefill (`attention`), TensorRT-LLM", "ns", "fitted", trtllm.pair, pair,
             f" ({number(min(pairs))} to {number(max(pairs))}), FlashAttention 3 in BF16"),
        line("the same, vLLM", "ns", "fitted", vllm.pair, pair),
        line("32 sequences launched kernel by kernel (`host_floor`), TensorRT-LLM", "ms", "fitted", FLOOR + 32 * FLOOR_SEQUENCE,
             by_rows(eager["done"])[32], ", PyTorch, 963 launches"),
    ]


def pairs_of(chunk, prefix):
    return chunk * prefix + chunk * (chunk + 1) / 2


def rows_table(trtllm, vllm, step, model):
    products, without = by_rows(step[f"{model} products"]["rows"]), by_rows(step[f"{model} without attention"])
    amid = by_rows(step[f"{model} amid decode"])
    return [[f"{rows:,}", f"{trtllm.without_attention(rows):.1f}", f"{vllm.without_attention(rows):.1f}", f"{products[rows]:.1f}",
             f"{without[rows]:.1f}", f"{amid[rows]:.1f}" if rows in amid else "", ratio(without[rows], trtllm.without_attention(rows)),
             ratio(without[rows], vllm.without_attention(rows))]
            for rows in (1, 8, 16, 32, 64, 65, 96, 128, 129, 192, 256, 512, 1024, 2048, 4096, 8192, 16384)]


def decode_table(trtllm, vllm, step):
    table = []
    for batch, ms in by_rows(step["llama-3.1-70b-fp8 decode, xqa fp8 4096"]).items():
        said = [profile.without_attention(batch) + profile.kv * batch * 4096 / 1e6 for profile in (trtllm, vllm)]
        table.append([str(batch)] + [f"{one:.1f}" for one in [*said, ms]] + [ratio(ms, one) for one in said])
    return table


def token_table(attention):
    columns = [of_kernel(attention["decode"], name) for name in ("xqa fp8", "xqa", "cudnn", "flash")]
    widths = (1, 2, 2, 2)
    return [[f"{batch} x {context:,}"] + [f"{column[batch, context] * LAYERS * 1e6 / (batch * context):.1f} "
                                         f"({KV_BYTES * width * batch * context / (column[batch, context] * LAYERS / 1e3) / BANDWIDTH:.0%})"
                                         for column, width in zip(columns, widths)] for batch, context in columns[0]]


def prefill_table(trtllm, vllm, step, attention):
    columns = [of_kernel(attention["prefill"], name) for name in ("fa3", "fa3 fp8", "cudnn", "flash")]
    amid = by_rows(step["llama-3.1-70b-fp8 amid decode"])
    amid.setdefault(16384, by_rows(step["llama-3.1-70b-fp8 without attention"])[16384])
    table = []
    for of in columns[0]:
        said = [profile.without_attention(of[0]) + profile.pair * pairs_of(*of) / 1e6 for profile in (trtllm, vllm)]
        measured = amid[of[0]] + columns[0][of] * LAYERS
        table.append([f"{of[0]:,} behind {of[1]:,}"] + [f"{column[of] * LAYERS * 1e6 / pairs_of(*of):.2f}" for column in columns] +
                     [f"{one:.0f}" for one in [*said, measured]] + [ratio(measured, one) for one in said])
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kvist", required=True, help="the binary")
    parser.add_argument("--figures", type=pathlib.Path, default=ROOT / "benchmarks/gpu/h200")
    options = parser.parse_args()
    files = ("step-70b.json", "step-8b.json", "attention.json")
    large, small, attention = (json.loads((options.figures / name).read_text()) for name in files)
    trtllm, vllm = (Profile(options.kvist, engine, "llama-3.1-70b-fp8") for engine in ("trtllm", "vllm"))
    of_rows = ["rows", "TensorRT-LLM", "vLLM", "products", "all but attention", "amid decode", "/ TensorRT-LLM", "/ vLLM"]
    tables = {
        "coefficients": (["quantity", "profile", "origin", "measured", "ratio"], coefficients(trtllm, vllm, large, attention)),
        "rows": (of_rows, rows_table(trtllm, vllm, large, "llama-3.1-70b-fp8")),
        "decode": (["batch", "TensorRT-LLM", "vLLM", "measured", "/ TensorRT-LLM", "/ vLLM"], decode_table(trtllm, vllm, large)),
        "tokens": (["batch x context", "XQA, FP8", "XQA, BF16", "cuDNN, BF16", "FlashAttention 2, BF16"], token_table(attention)),
        "prefill": (["chunk", "FA3, BF16", "FA3, FP8", "cuDNN, BF16", "FA2, BF16", "TensorRT-LLM", "vLLM", "measured", "/ TensorRT-LLM",
                     "/ vLLM"], prefill_table(trtllm, vllm, large, attention)),
        "rows-8b": (of_rows, rows_table(*(Profile(options.kvist, engine, "llama-3.1-8b-fp8") for engine in ("trtllm", "vllm")), small,
                                        "llama-3.1-8b-fp8")),
    }
    for name, (head, rows) in tables.items():
        write_between_markers(PAGE, name, markdown(head, rows))


if __name__ == "__main__":
    main()
