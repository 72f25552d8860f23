"""Measures the mechanism layer on a GPU, in one command of at most four minutes that needs torch and transformers.

    python bench/causal_gpu.py                          # ends with a line where there is no GPU
    python bench/causal_gpu.py --device cpu --size tiny # how it works; its figures say nothing of a GPU

It makes its own checkpoint, random weights of the shape of Llama with 1.1 billion parameters, whose values decide no
cost. First it runs the tests that need a GPU. Then, with the same weights in each data type: how far the logits of the
last token lie from those in float64 (TF32: float32 with the GPU's shortened products, which `tomserve causal` turns
off); prompts and re-runs of a last token a second, at several batch sizes, through tomserve's own backend; and the most
memory that was held, over what the weights and the cache of one prompt come to, as `tomserve causal --plan` counts
them. The last line is what GPU_RATE of tomserve.causal.experiment should be. What was not measured is named, each with
its reason; after --seconds nothing new is begun. Exit code 1 where a test failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _figures import figure, need

ROOT = Path(__file__).parents[1]
SIZES = {
    "1b": {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
           "intermediate_size": 8192, "vocab_size": 32768},
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "intermediate_size": 128, "vocab_size": 512},
}  # fmt: skip
BATCHES = {"1b": (1, 8, 32, 128), "tiny": (1, 4)}  # prompts at a time; of re-runs eight times as many
KINDS = ("float64", "float32", "TF32", "bfloat16")  # the first is what the others are held against
MOVED = 0.3  # how far a state is moved, in its own length
TESTS = "tests/causal/hf/test_cuda.py"


class Rates(NamedTuple):
    """What the backend does a second: prompts, re-runs of a last token, and operations of whole prompts."""

    prompts: float
    reruns: float
    operations: float


def make_model(size: str, kind: str, device: str) -> Any:
    """The checkpoint of that size with the same weights in every data type."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES[size], max_position_embeddings=4096)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    return model.to(getattr(torch, "float32" if kind == "TF32" else kind)).eval()


def last_logits(model: Any, tokens: Any, kind: str) -> Any:
    """The logits of the last token of each prompt, in float64 [prompts, vocabulary]."""
    import torch

    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = kind == "TF32"
    try:
        with torch.inference_mode():
            return model(torch.as_tensor(tokens, device=model.device)).logits[:, -1].double().cpu().numpy()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def measure_rates(model: Any, tokens: Any, batch: int) -> Rates:
    """The rates at so many prompts, and eight times as many re-runs, at a time; the first of each warms up."""
    from tomserve.causal.activations import Prompt
    from tomserve.causal.hf.model import HfBackend

    backend = HfBackend(model, name="random", batch=batch)
    backend.rows_at_once(rows := 8 * batch)
    prompts = [Prompt(tuple(row.tolist()), (5, 6, 7)) for row in np.resize(tokens, (2 * batch, tokens.shape[1]))]
    layers = np.arange(2 * rows) % backend.layers + 1
    states = backend.run(prompts[:batch]).states[0][layers - 1]
    states = states + MOVED * np.roll(states, 1, axis=1)
    backend.rerun(prompts[0], layers[:rows], states[:rows])
    began = time.perf_counter()
    backend.run(prompts)  # its arrays are numpy's: a GPU has finished
    between = time.perf_counter()
    backend.rerun(prompts[0], layers, states)
    ended = time.perf_counter()
    rate = len(prompts) / (between - began)
    operations = 2 * sum(one.numel() for one in model.parameters()) * tokens.shape[1] * rate
    return Rates(rate, len(layers) / (ended - between), operations)


def planned_bytes(model: Any, tokens: int) -> int:
    """What the weights and the cache of one prompt take, as the plan counts them."""
    config, width = model.config, next(model.parameters()).element_size()
    heads = config.num_key_value_heads * config.hidden_size // config.num_attention_heads
    cache = 2 * config.num_hidden_layers * heads * tokens
    return int(width * (sum(one.numel() for one in model.parameters()) + cache))


def run_tests(seconds: float) -> int:
    """The exit code of the tests that need a GPU; what they say is printed."""
    command = [sys.executable, "-m", "pytest", "-q", TESTS]
    try:
        return subprocess.run(command, cwd=ROOT, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"{TESTS}: was ended after {seconds:.0f} s")
        return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a test failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--size", choices=list(SIZES), default="1b")
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=200, help="after which nothing new is begun")
    options = parser.parse_args(arguments)
    need("torch")
    import torch

    on_gpu = options.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        need("gpu")
        raise SystemExit("torch sees no GPU: install a build of it that does")
    deadline, code, best, lacking = time.monotonic() + options.seconds, 0, 0.0, list[str]()
    if on_gpu:
        code = int(run_tests(90) != 0)
    else:
        lacking += [f"{TESTS}: they need a GPU", "TF32, and memory against the plan: only a GPU has them"]
    drawn = np.random.default_rng(0).integers(8, SIZES[options.size]["vocab_size"], (8, options.tokens))
    expected: Any = None
    print(f"{'data type':<11}{'at once':>8}{'prompts/s':>12}{'re-runs/s':>12}{'10^9 op/s':>12}")
    for kind in KINDS:
        if kind == "TF32" and not on_gpu:
            continue
        if time.monotonic() > deadline:
            lacking.append(f"{kind}: the time was up")
            continue
        model = make_model(options.size, kind, options.device)
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        logits = last_logits(model, drawn, kind)
        expected = logits if expected is None else expected
        apart = float(np.abs(logits - expected).max() / expected.std())
        for batch in () if kind in ("float64", "TF32") else BATCHES[options.size]:
            if time.monotonic() > deadline:
                lacking.append(f"{kind}, {batch} at once: the time was up")
                continue
            found = measure_rates(model, drawn, batch)
            best = max(best, found.operations)
            print(f"{kind:<11}{batch:>8}{found.prompts:>12,.1f}{found.reruns:>12,.0f}{found.operations / 1e9:>12,.0f}")
            figure(f"{kind}, {batch} at once, re-runs", found.reruns, unit="a second")
        print(f"{kind:<11}logits at most {apart:.1e} of their standard deviation from those in float64")
        if on_gpu:
            most, plan = torch.cuda.max_memory_allocated(), planned_bytes(model, options.tokens)
            print(f"{kind:<11}at most {most / 1e9:.1f} GB, {most / plan:.2f} times weights and cache of the plan")
            del model
            torch.cuda.empty_cache()
    for one in lacking:
        print(f"not measured: {one}")
    print(f"GPU_RATE = {best:.1e}" if on_gpu else f"GPU_RATE was not measured (this CPU: {best:.1e})")
    return code


if __name__ == "__main__":
    sys.exit(main())
