#!/usr/bin/env python3
"""The logits of model directories (Llama, Qwen2, Qwen3), in float64 with PyTorch (Debian's python3-torch), from the formulas.

usage: reference.py LENGTH ROW,ROW,... DIRECTORY[=KV]... : prints, per directory and row, the logits of that row of the test prompt of LENGTH
tokens, where token i is (37 i + 11) mod vocabulary. Keys and values are rounded before attention to what KV names, bf16 (the default) or f16,
as a KV cache of that type does; f32 leaves them as they are.
Independent of kvist: reads config.json and model.safetensors itself.
"""
import json
import math
import pathlib
import struct
import sys

import torch

KV_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": None}
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def read_tensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = bytearray(data[8 + length + begin:8 + length + end])
        tensors[name] = torch.frombuffer(raw, dtype=TYPES[entry["dtype"]]).reshape(entry["shape"]).to(torch.float64)
    return tensors


def frequencies(config, head_dim):
    theta, scaling = config["rope_theta"], config.get("rope_scaling")
    plain = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    if scaling is None:
        return plain
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    original = scaling["original_max_position_embeddings"]
    out = []
    for f in plain.tolist():
        wavelength = 2 * math.pi / f
        if wavelength < original / high:
            out.append(f)
        elif wavelength > original / low:
            out.append(f / factor)
        else:
            share = (original / wavelength - low) / (high - low)
            out.append((1 - share) * f / factor + share * f)
    return torch.tensor(out, dtype=torch.float64)


def rotate(x, angles):
    """x: [tokens, heads, head_dim]; pairs are half a head apart."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    cos, sin = angles.cos()[:, None, :], angles.sin()[:, None, :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rms_norm(x, weight, epsilon):
    return x / torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True) + epsilon) * weight


def logits(directory, length, rows, kv_type):
    config = json.loads((directory / "config.json").read_text())
    w = read_tensors(directory / "model.safetensors")
    heads, kv_heads, epsilon = config["num_attention_heads"], config["num_key_value_heads"], config["rms_norm_eps"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    tokens = torch.tensor([(37 * i + 11) % config["vocab_size"] for i in range(length)])
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies(config, head_dim)[None, :]
    visible = torch.ones(length, length, dtype=torch.bool).tril()
    (architecture,) = config["architectures"]
    stored = (lambda t: t.to(torch.float32).to(kv_type).to(torch.float64)) if kv_type else (lambda t: t)

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_hidden_layers"]):
        p = lambda name: w[f"model.layers.{layer}.{name}.weight"]
        n = rms_norm(x, p("input_layernorm"), epsilon)
        q, k, v = (n @ p(f"self_attn.{part}_proj").T for part in "qkv")
        if architecture == "Qwen2ForCausalLM":
            q, k, v = (x + w[f"model.layers.{layer}.self_attn.{part}_proj.bias"] for part, x in (("q", q), ("k", k), ("v", v)))
        q, k, v = q.reshape(length, heads, head_dim), k.reshape(length, kv_heads, head_dim), v.reshape(length, kv_heads, head_dim)
        if architecture == "Qwen3ForCausalLM":
            q, k = rms_norm(q, p("self_attn.q_norm"), epsilon), rms_norm(k, p("self_attn.k_norm"), epsilon)
        q, k, v = rotate(q, angles), stored(rotate(k, angles)), stored(v)
        out = []
        for h in range(heads):
            kv = h // (heads // kv_heads)
            scores = q[:, h] @ k[:, kv].T / math.sqrt(head_dim)
            out.append(torch.softmax(scores.masked_fill(~visible, -math.inf), dim=-1) @ v[:, kv])
        x = x + torch.cat(out, dim=-1) @ p("self_attn.o_proj").T
        n = rms_norm(x, p("post_attention_layernorm"), epsilon)
        gate = n @ p("mlp.gate_proj").T
        x = x + (gate * torch.sigmoid(gate) * (n @ p("mlp.up_proj").T)) @ p("mlp.down_proj").T
    n = rms_norm(x[rows], w["model.norm.weight"], epsilon)
    head = w["model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"]
    return n @ head.T


def main():
    length, rows = int(sys.argv[1]), [int(r) for r in sys.argv[2].split(",")]
    for argument in sys.argv[3:]:
        directory, _, kv = argument.partition("=")
        for row in logits(pathlib.Path(directory), length, rows, KV_TYPES[kv or "bf16"]).tolist():
            print(" ".join(f"{number:.7g}" for number in row))


main()
