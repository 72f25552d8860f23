"""Measures a preset as it is served on this machine: requests and tokens a second, cached prompt tokens, client CPU.

    python bench/serving.py [--preset llama3.1-8b] [--limit 544] [--rounds 2]

The weights are random but of the preset's real size (config.json is written from its shape, vLLM fills it by
``--load-format dummy``), so nothing is downloaded; answers mean nothing, and the vocabulary is the reference model's,
so prompts are about twice as many tokens as in the model's own. Everything else is the preset's: structured output,
prefix cache, bounded queue, batch-invariant kernels where the GPU has them. `tomserve eval` then asks both strategies.
Without a GPU a small shape runs on the CPU, which only shows that the bench works: no figure of it is one of a GPU.

Printed are a line a round and, for bench/README.md, the hardware, driver and versions they were taken on.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
from _figures import figure, need

from tomserve.runs.journal import read_rows
from tomserve.serving import install, provenance
from tomserve.serving.checkpoint import reference_folder
from tomserve.serving.command import vllm_command
from tomserve.serving.presets import Preset, Shape
from tomserve.serving.server import Server, free_port, wait_healthy
from tomserve.serving.sizing import choose_layout, find_gpus
from tomserve.status import OK

DENSE = ("llama3.1-8b", "llama2-70b", "llama3-70b", "llama3.3-70b", "qwen2.5-72b", "vicuna-33b", "yi-34b")
"""Presets that a dense Llama of the same size stands in for; mixtures and thinking models need more."""
SMALL = Shape(layers=4, heads=8, kv_heads=4, head_dim=32)


def checkpoint(folder: Path, shape: Shape, weights_gb: float, context: int) -> float:
    """Write the config of a Llama of that shape and size, and the reference tokenizer; returns its size in GB."""
    shutil.copytree(reference_folder(), folder, ignore=shutil.ignore_patterns("*.safetensors", "digest.txt"))
    config = orjson.loads((folder / "config.json").read_bytes())
    width = shape.heads * shape.head_dim
    attention = shape.layers * 2 * width * (width + shape.kv_heads * shape.head_dim)
    inner = int((weights_gb * 1e9 / 2 - attention) / (3 * width * shape.layers)) // 256 * 256
    config |= {
        "hidden_size": width,
        "intermediate_size": max(256, inner),
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": context,
        "torch_dtype": "bfloat16",
        "dtype": "bfloat16",
    }
    (folder / "config.json").write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2))
    return 2 * (attention + 3 * width * max(256, inner) * shape.layers) / 1e9


def ask(url: str, model: str, runs: Path, name: str, limit: int) -> dict[str, float]:
    """Run `tomserve eval` once, from start to tables; returns its rates, cached prompt tokens and client CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    command = [sys.executable, "-m", "tomserve", "eval", "--base-url", url, "--model", model, "--run", name]
    environment = {**os.environ, "TOMSERVE_RUNS": str(runs)}
    subprocess.run(
        [*command, "--limit", str(limit), "--no-report", "--quiet"],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rows = [row for _, row in read_rows(runs / name / "responses.jsonl")]
    asked = [row for row in rows if not row["reused"]]
    prompt = sum(row["usage"]["prompt"] for row in asked)
    return {
        "requests": len(asked),
        "valid": sum(row["status"] == OK for row in rows) / len(rows),
        "requests a second": len(asked) / wall,
        "prompt tokens a second": prompt / wall,
        "answer tokens a second": sum(row["usage"]["completion"] for row in asked) / wall,
        "cached": sum(row["usage"].get("cached") or 0 for row in asked) / prompt,
        "client ms a request": 1000 * cpu / len(asked),
    }


def main() -> None:
    """Serve the preset, run the evaluations and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="llama3.1-8b", choices=DENSE)
    parser.add_argument("--limit", type=int, default=None, help="items a round [544; 32 without a GPU]")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--gpu", action="store_true", help="end at once where there is no GPU")
    options = parser.parse_args()
    need("vllm", *(("gpu",) if options.gpu else ()))
    install.require_engine()
    preset, found = Preset.load(options.preset), find_gpus()
    if preset.shape is None:
        sys.exit(f"{preset.name}: its preset gives no shape:, from which a checkpoint could be made")
    shape, size = preset.shape, preset.weights_gb
    if not found:
        print("no GPU here: a small shape on the CPU, which shows that this bench works and nothing else")
        preset = preset.model_copy(update={"device": "cpu", "dtype": "float32", "max_model_len": 4096})
        shape, size = SMALL, 0.01
    with tempfile.TemporaryDirectory() as scratch:
        folder, runs, port = Path(scratch) / "model", Path(scratch) / "runs", free_port()
        made = checkpoint(folder, shape, size, preset.max_model_len)
        layout = choose_layout(preset.model_copy(update={"weights_gb": made}), found) if found else None
        used = tuple(found[: layout.gpus]) if layout else ()
        command = vllm_command(
            preset, str(folder), layout=layout, gpus=used, port=port, extra=["--load-format", "dummy"]
        )
        command.env["VLLM_API_KEY"] = ""
        print(command.shell())
        with Server(command, host="127.0.0.1", port=port, log=Path(scratch) / "log") as server:
            print(f"healthy after {wait_healthy([server], print):.0f} s; {made:.1f} GB of random weights")
            for number in range(options.rounds + 1):
                limit = options.limit or (544 if found else 32)
                result = ask(server.url, preset.name, runs, f"round{number}", limit)
                label = "warm-up" if number == 0 else f"round {number}"
                for name, value in result.items() if number else ():
                    figure(f"{preset.name}, {label}, {name}", value)
                print(f"{label}: " + ", ".join(f"{name} {value:.4g}" for name, value in result.items()))
        told = provenance.describe_server(preset, str(folder), command, used)
        print({name: told[name] for name in ("hardware", "driver", "engine", "dtype", "batch_invariant")})


if __name__ == "__main__":
    main()
