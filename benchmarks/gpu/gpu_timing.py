"""Timing of GPU work, random data, and the JSON that the scripts of this folder write."""
import json
import statistics
import subprocess
import time

import torch

FP8 = torch.float8_e4m3fn


def median_ms(run, repetitions=9, warmups=2):
    """Of back-to-back runs, by the GPU's clock."""
    for _ in range(warmups):
        run()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repetitions + 1)]
    marks[0].record()
    for mark in marks[1:]:
        run()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))


def host_ms(run, repetitions=9, warmups=2):
    """Of single runs, by the host's clock: (until the GPU is done, until everything is launched)."""
    done, launched = [], []
    for at in range(warmups + repetitions):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        launch = time.perf_counter()
        torch.cuda.synchronize()
        if at >= warmups:
            launched.append((launch - begin) * 1e3)
            done.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(done), statistics.median(launched)


def captured(run):
    """The run as a CUDA graph; its memory goes with what is returned."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def random_bf16(*shape):
    """Not zeros: products of those draw less power, and so run faster."""
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def random_fp8(*shape):
    return random_bf16(*shape).to(FP8)


def attempt(measure):
    """A kernel that a release lacks does not cost the other figures."""
    try:
        return measure()
    except Exception as error:  # any: out of memory, not implemented, a compiler's
        torch.cuda.empty_cache()
        return f"{type(error).__name__}: {str(error)[:300]}"


def query(fields):
    return subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()


def environment():
    return {"gpu": torch.cuda.get_device_name(), "driver": query("driver_version"), "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), "power_limit": query("power.limit"), "date": time.strftime("%Y-%m-%d")}


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def markdown(found):
    lines = ["| section | what | measured |", "| --- | --- | --- |"]
    for section, figures in found.items():
        for name, value in figures.items() if isinstance(figures, dict) else [("", figures)]:
            text = ", ".join(f"{k}: {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
            lines.append(f"| {section} | {name} | {text} |")
    return "\n".join(lines)


class Record:
    """Sections of figures, in a file after each of them: what ends early still has those before."""

    def __init__(self, path):
        self.path, self.found, self.begin = path, {}, time.monotonic()

    def add(self, name, measure):
        torch.cuda.empty_cache()
        self.found[name] = rounded(attempt(measure))
        with open(self.path, "w") as file:
            json.dump(self.found, file, indent=1)
        print(f"{time.monotonic() - self.begin:6.1f} s {name}", flush=True)
