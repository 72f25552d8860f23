"""Measures interventions a second: one token behind a cached prefix against full runs, interleaved, on one thread.

    python bench/causal_reruns.py [--model reference] [--tokens 400] [--rows 1170] [--rounds 7] [--threads 1]
    python bench/causal_reruns.py --config tests/data/model_configs/qwen3-8b.json --device cuda [--at-once 1024]

In each round every way runs one new random prompt of so many tokens again with moved states, in turn over all layers:
the prefix is computed anew each time, and its time counts. stacked: all rows are tokens of one sequence; batched: each
is a sequence; full: the whole prompt for each row (of which only as many are run as take a while). Printed are medians
with the lowest and the highest round in brackets, ratios to full runs of the same round, and the largest difference of
a logit from full runs. `--config` measures random weights of a real size: what they cost does not depend on their
values. Aim: 5,000 a second for the reference model on one thread, where seconds are those of the CPU, so that other
programs count for little. Below stand how many operations a second whole prompts come to, which on a GPU is to be
compared with GPU_RATE of `tomserve.causal.experiment`, and the most memory that a GPU gave. Exit code 1 where logits
differ by more than rounding.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _alone  # noqa: F401
import numpy as np
import orjson
from _figures import need, spread_figure

from tomserve.causal.activations import Prompt
from tomserve.causal.checkpoints import require_extra, resolve_model

FULL_TOKENS = 1 << 14
"""How many tokens the full runs of a round come to, about: enough to be timed."""
AIM = 5_000
PROMPTS = 16
"""How many whole prompts are run to tell how fast the machine multiplies."""
ROUNDING = {"float32": 1e-3, "bfloat16": 1.0}
"""How far a logit may lie from that of a full run."""


def loaded(options: argparse.Namespace) -> Any:
    """The backend that the options ask for: a checkpoint, or random weights of a configuration."""
    import torch

    torch.set_num_threads(options.threads)
    from tomserve.causal.hf.model import HfBackend, load_checkpoint

    if options.config is None:
        return load_checkpoint(resolve_model(options.model), device=options.device, dtype=options.dtype).backend
    import transformers

    fields = orjson.loads(options.config.read_bytes())
    fields = {name: value for name, value in fields.items() if name not in ("auto_map", "quantization_config")}
    torch.set_default_dtype(torch.bfloat16 if options.device == "cuda" else torch.float32)
    with torch.device(options.device or "cpu"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**fields))
    torch.set_default_dtype(torch.float32)
    return HfBackend(model, name=options.config.stem)


def timed(backend: Any, prompt: Prompt, layers: Any, states: Any, clock: Callable[[], float]) -> tuple[float, Any]:
    """Rows a second, and the logits."""
    began = clock()
    logits = backend.rerun(prompt, layers, states).logits  # arrays of numpy: a GPU has finished
    return len(layers) / (clock() - began), logits


def multiplied(backend: Any, tokens: int, parameters: int) -> float:
    """Operations a second of whole prompts, two for each parameter and token."""
    drawn = np.random.default_rng(1).integers(0, backend.vocabulary, (PROMPTS, tokens))
    prompts = [Prompt(tuple(row.tolist()), (5, 6, 7)) for row in drawn]
    backend.run(prompts)
    began = time.perf_counter()
    backend.run(prompts)
    return 2 * parameters * PROMPTS * tokens / (time.perf_counter() - began)


def said(values: list[float]) -> str:
    """Median, lowest and highest."""
    form = ",.0f" if max(values) > 10 else ",.2f"
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main() -> int:
    """Measure and print; 1 where the ways disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="reference")
    parser.add_argument("--config", type=Path, help="a config.json: random weights of its size")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument(
        "--dtype", choices=tuple(ROUNDING), help="of a checkpoint's weights; else what suits the device"
    )
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rows", type=int, default=1170, help="5 layers x 9 strengths x 13 maps x 2 targets")
    parser.add_argument("--at-once", type=int, help="so many rows at a time; tomserve's own number unless you say")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    need("torch")
    require_extra()
    from tomserve.causal.hf.activation_patching import METHODS

    backend = loaded(options)
    backend.rows_at_once(options.at_once)
    ways = METHODS[METHODS.index(backend.method) :]
    on_one_core = options.threads == 1 and backend.device.type == "cpu"
    clock = time.process_time if on_one_core else time.perf_counter
    few = min(options.rows, max(backend.layers, FULL_TOKENS // options.tokens))
    drawn = np.random.default_rng(0)
    layers = np.arange(options.rows) % backend.layers + 1
    rates: dict[str, list[float]] = {way: [] for way in ways}
    apart = dict.fromkeys(ways, 0.0)
    for _ in range(options.rounds + 1):  # the first warms up
        prompt = Prompt(tuple(drawn.integers(0, backend.vocabulary, options.tokens).tolist()), (5, 6, 7))
        own = backend.run([prompt]).states[0][layers - 1]
        noise = drawn.standard_normal(own.shape, dtype=np.float32)
        states = own + 0.3 * noise * np.linalg.norm(own, axis=1, keepdims=True) / np.sqrt(backend.width)
        expected = None
        for way in reversed(ways):
            backend.rerun_by(way)
            number = few if way == "full" else options.rows
            rate, logits = timed(backend, prompt, layers[:number], states[:number], clock)
            expected = logits if expected is None else expected
            apart[way] = max(apart[way], float(np.abs(logits[:few] - expected).max()))
            rates[way].append(rate)
    told = backend.describe()
    print(f"{told['model']}: {told['parameters']:,} parameters, {told['dtype']}, {', '.join(told['devices'])}")
    print(f"{options.tokens} tokens, {options.rows} rows ({few} in full), {options.rounds} rounds\n")
    unit = "rows a CPU second" if on_one_core else "rows a second"
    print(f"{'way':<9}{unit:<32}{'times full runs':<28}largest difference")
    for way in ways:
        ratios = [one / full for one, full in zip(rates[way], rates["full"], strict=True)][1:]
        aim = {"at_least": AIM} if way == ways[0] and options.model == "reference" and on_one_core else {}
        spread_figure(f"{way}, {unit}", rates[way][1:], **aim)
        spread_figure(f"{way}, times full runs", ratios)
        print(f"{way:<9}{said(rates[way][1:]):<32}{said(ratios):<28}{apart[way]:.1e}")
    rate = multiplied(backend, options.tokens, told["parameters"])
    print(f"\nwhole prompts: {rate / 1e9:,.0f} billion operations a second")
    if backend.device.type == "cuda":
        import torch

        print(f"at most {torch.cuda.max_memory_allocated() / 1e9:.1f} GB of the GPU's memory")
    return int(max(apart.values()) > ROUNDING[told["dtype"]])


if __name__ == "__main__":
    sys.exit(main())
