"""Why a model server failed, in one line with the way out, read from its log.

>>> explain("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")[:30]
'the GPU ran out of memory (tri'
"""

from __future__ import annotations

import re
from collections.abc import Callable

Match = re.Match[str]
READ = 400_000
"""Characters of a log's end that are looked at; what killed a server stands in its last lines."""

_RULES: list[tuple[str, Callable[[Match], str]]] = [
    (
        r"Free memory on device[^(\n]*\(([\d.]+)/([\d.]+) GiB\)[^\n]*?utilization \(([\d.]+), ([\d.]+) GiB\)",
        lambda m: (
            f"the GPU has {m[1]} of {m[2]} GiB free and {m[4]} GiB are asked for: end what else runs there, or give "
            f"`-- --gpu-memory-utilization {_share(m[1], m[2])}` (now {m[3]})"
        ),
    ),
    (
        r"max seq len \((\d+)\),? \(?([\d.]+) GiB KV cache is needed[^\n]*?memory \(([\d.]+) GiB\)"
        r"(?:[^\n]*?maximum model length is (\d+))?",
        lambda m: (
            f"one question of {m[1]} tokens needs {m[2]} GiB of keys and values and {m[3]} GiB are left: give "
            f"`-- --max-model-len {m[4] or int(int(m[1]) * float(m[3]) / float(m[2]) / 256) * 256}`, or more GPUs"
        ),
    ),
    (
        r"No available memory for the cache blocks",
        lambda m: (
            "the weights leave no memory for keys and values: use more GPUs (`tomserve serve MODEL --explain` has the "
            "arithmetic), raise `-- --gpu-memory-utilization`, or on a CPU VLLM_CPU_KVCACHE_SPACE (GiB)"
        ),
    ),
    (
        r"(?:CUDA|HIP) out of memory\. Tried to allocate ([\d.]+ [KMG]iB)"
        r"(?:[^\n]*?total capacity of ([\d.]+ [KMG]iB)[^\n]*?of which ([\d.]+ [KMG]iB) is free)?",
        lambda m: (
            f"the GPU ran out of memory (tried to allocate {m[1]}{f', {m[3]} of {m[2]} free' if m[2] else ''}): use "
            "more GPUs (`tomserve serve MODEL --explain`), or lower `-- --max-model-len`, `--max-num-seqs`, or "
            "`--gpu-memory-utilization`"
        ),
    ),
    (
        r"(?:DefaultCPUAllocator: can't allocate memory|Cannot allocate memory|\bMemoryError\b)",
        lambda m: "the machine ran out of memory: lower VLLM_CPU_KVCACHE_SPACE (GiB), or serve a smaller model",
    ),
    (
        r"(?:GatedRepoError|Cannot access gated repo|Access to model (\S+) is restricted)"
        r"(?:[^\n]*?huggingface\.co/([\w.-]+/[\w.-]+))?",
        lambda m: (
            f"the weights {f'of {m[1] or m[2]} ' if m[1] or m[2] else ''}are gated: accept the licence on their page "
            "at huggingface.co and set HF_TOKEN to a token of that account"
        ),
    ),
    (
        r"(?:RepositoryNotFoundError|is not a local folder and is not a valid model identifier)",
        lambda m: (
            "no such model on the hub, or it is private: check `model:` in the preset (or set HF_TOKEN), or give a "
            "folder that holds the weights"
        ),
    ),
    (
        r"Cannot find any model weights with `([^`\n]*)`",
        lambda m: (
            f"{m[1]} holds no weights: the download was cut short, or `model:` in the preset names the wrong folder"
        ),
    ),
    (
        r"(?:LocalEntryNotFoundError|OfflineModeIsEnabled|outgoing traffic has been disabled"
        r"|couldn't connect to 'https://huggingface\.co'|Failed to resolve '(?:huggingface\.co|cdn-lfs)"
        r"|Max retries exceeded[^\n]*huggingface)",
        lambda m: (
            "the weights are not on this disk and the hub cannot be reached: run `hf download MODEL` where there is a "
            "network and set HF_HOME to that cache, or give `model:` in the preset as a folder"
        ),
    ),
    (
        r"No space left on device: '/(?:dev/shm|psm_)",
        lambda m: "shared memory is full: in a container, start it with `--ipc=host` or a larger `--shm-size`",
    ),
    (
        r"No space left on device",
        lambda m: "the disk is full: the weights go to HF_HOME (~/.cache/huggingface); set it to a larger disk",
    ),
    (
        r"Model architectures? (\[[^\]\n]*\]|\S+) (?:are|is) not supported",
        lambda m: f"this vLLM does not know the architecture {m[1]}: see its supported models, or a newer vLLM",
    ),
    (
        r"model type `?'?([\w.-]+)`?'? but Transformers does not recognize this architecture",
        lambda m: f"the installed transformers does not know the model type {m[1]}: a newer vLLM may",
    ),
    (
        r"Bfloat16 is only supported on GPUs with compute capability",
        lambda m: "this GPU cannot compute in bfloat16: give `-- --dtype half`",
    ),
    (
        r"attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)",
        lambda m: f"{m[1]} attention heads cannot be split over {m[2]} GPUs: give another `-- --tensor-parallel-size`",
    ),
    (
        r"OSError: \[Errno 98\] (?:Address already in use|error while attempting to bind)",
        lambda m: "the port is in use: choose another --port (PORT=)",
    ),
    (
        r"error: unrecognized arguments: ([^\n]{1,200})",
        lambda m: f"vLLM does not know {m[1].strip()}: check the flags after `--` and `flags:` in the preset",
    ),
    (r"error: (argument [^\n]{1,200})", lambda m: f"vLLM refuses a flag: {m[1].strip()}"),
    (
        r"KeyError: 'blocks\.\d+\.ffn\.experts\.",
        lambda m: (
            "vLLM cannot read the names of DBRX's expert weights: tomserve's plugin is not active (is VLLM_PLUGINS "
            "set, or tomserve not installed beside vLLM?)"
        ),
    ),
]
_COMPILED = [(re.compile(pattern), say) for pattern, say in _RULES]
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ORDINARY = re.compile(r"(?:\(\w+ pid=\d+\) +)?(?:DEBUG|INFO|WARNING)\b")
"""Lines of vLLM's log that tell no failure; they may well name one that it coped with."""
_PREFIX = re.compile(r"^\(\w+ pid=\d+\) +(?:[A-Z]+ \S+ \S+ \[[^\]]*\] ?)?")
_NOISE = re.compile(
    r"\s*(?:Traceback|File \"|[\^~]+$|raise |return |await |For further information)"
    r"|.*(?:See root cause above|[Ss]ee stack trace for root cause)"
)


def explain(log: str) -> str | None:
    """The cause and its way out, or None where no known cause is in the log. The first that is logged is the cause."""
    text = "\n".join(line for line in _COLOUR.sub("", log[-READ:]).splitlines() if not _ORDINARY.match(line))
    found = [(match.start(), say(match)) for pattern, say in _COMPILED if (match := pattern.search(text))]
    return min(found)[1] if found else None


def last_words(log: str, lines: int = 3) -> list[str]:
    """The last lines that say something: errors where there are any."""
    plain = (_PREFIX.sub("", line) for line in _COLOUR.sub("", log[-READ:]).splitlines() if not _ORDINARY.match(line))
    said = [line.strip() for line in plain if line.strip() and not _NOISE.match(line)]
    telling = [line for line in said if re.search(r"\b\w*(?:Error|Exception)\b|\berror\b|ERROR", line)] or said
    return [line[-200:] for line in telling[-lines:]]


def _share(free: str, total: str) -> str:
    return f"{max(0.05, int(float(free) / float(total) * 100 - 1) / 100):.2f}"
