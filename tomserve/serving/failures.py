"""Finds in a server's log why it failed, and says so in one line that also tells what to do about it.

>>> explain("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")[:30]
'the GPU ran out of memory (tri'
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tomserve.engine.redact import Redactor
from tomserve.serving import keys

Match = re.Match[str]
READ = 400_000
"""How many characters at the end of a log are read; the cause of a failure is among its last lines."""

_RULES: list[tuple[str, Callable[[Match], str]]] = [
    (
        r"Free memory on device[^(\n]*\(([\d.]+)/([\d.]+) GiB\)[^\n]*?utilization \(([\d.]+), ([\d.]+) GiB\)",
        lambda m: (
            f"the GPU has {m[1]} of {m[2]} GiB free and {m[4]} GiB are asked for: end the other programs on it, or add "
            f"`-- --gpu-memory-utilization {_share(m[1], m[2])}` to the command (it is {m[3]} now)"
        ),
    ),
    (
        r"max seq len \((\d+)\),? \(?([\d.]+) GiB KV cache is needed[^\n]*?memory \(([\d.]+) GiB\)"
        r"(?:[^\n]*?maximum model length is (\d+))?",
        lambda m: (
            f"one question of {m[1]} tokens needs {m[2]} GiB for its keys and values, and {m[3]} GiB are left: add "
            f"`-- --max-model-len {m[4] or int(int(m[1]) * float(m[3]) / float(m[2]) / 256) * 256}` to the command, or "
            "use more GPUs"
        ),
    ),
    (
        r"No available memory for the cache blocks",
        lambda m: (
            "the weights leave no memory for keys and values: use more GPUs (`tomserve serve MODEL --explain` shows "
            "how many it takes), raise `-- --gpu-memory-utilization`, or on a CPU raise the environment variable "
            "VLLM_CPU_KVCACHE_SPACE (in GiB)"
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
        lambda m: (
            "the machine ran out of memory: lower the environment variable VLLM_CPU_KVCACHE_SPACE (in GiB), or serve a "
            "smaller model"
        ),
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
            "there is no such model on the hub, or it is private: check `model:` in the preset, set HF_TOKEN for a "
            "private one, or let `model:` name a folder that holds the weights"
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
            "network and set HF_HOME to the folder it fills, or let `model:` in the preset name a folder of weights"
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
        lambda m: (
            f"the installed vLLM does not know the architecture {m[1]}: check the list of models that it supports, or "
            "install a newer vLLM"
        ),
    ),
    (
        r"model type `?'?([\w.-]+)`?'? but Transformers does not recognize this architecture",
        lambda m: (
            f"the installed transformers does not know the model type {m[1]}: install a newer vLLM, which brings a "
            "newer transformers"
        ),
    ),
    (
        r"Bfloat16 is only supported on GPUs with compute capability",
        lambda m: "this GPU cannot compute in bfloat16: add `-- --dtype half` to the command",
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
    (
        r"error: (argument [^\n]{1,200})",
        lambda m: f"vLLM refuses the value of a flag ({m[1].strip()}): check the flags after `--` and in the preset",
    ),
    (
        r"KeyError: 'blocks\.\d+\.ffn\.experts\.",
        lambda m: (
            "vLLM cannot read the names of DBRX's expert weights, because tomserve's plugin is not active: unset "
            "VLLM_PLUGINS if it is set, and install tomserve in the same environment as vLLM"
        ),
    ),
]
"""Pairs of a pattern that a known failure leaves in the log, and what to tell the user where it matches."""

_COMPILED = [(re.compile(pattern), say) for pattern, say in _RULES]
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ORDINARY = re.compile(r"(?:\(\w+ pid=\d+\) +)?(?:DEBUG|INFO|WARNING)\b")
"""Lines of vLLM's log below the level of an error. They may name a failure, but one that vLLM recovered from."""
_PREFIX = re.compile(r"^\(\w+ pid=\d+\) +(?:[A-Z]+ \S+ \S+ \[[^\]]*\] ?)?")
_NOISE = re.compile(
    r"\s*(?:Traceback|File \"|[\^~]+$|raise |return |await |For further information)"
    r"|.*(?:See root cause above|[Ss]ee stack trace for root cause)"
)


def _lines(log: str) -> list[str]:
    """The last lines of a log, without colours and without any key of this machine's environment."""
    return _COLOUR.sub("", Redactor(*keys.every())(log)[-READ:]).splitlines()


def explain(log: str) -> str | None:
    """What made the server fail and what to do about it, or None where the log holds no known cause.

    Of several causes the one that was logged first is given, since the later ones usually follow from it.
    """
    text = "\n".join(line for line in _lines(log) if not _ORDINARY.match(line))
    causes = [(match.start(), say(match)) for pattern, say in _COMPILED if (match := pattern.search(text))]
    return min(causes)[1] if causes else None


def last_words(log: str, lines: int = 3) -> list[str]:
    """The last lines of a log that are worth showing: those that name an error, or any where none does.

    log: the text of the log. lines: how many to give at most. Each is cut to its last 200 characters.
    """
    plain = (_PREFIX.sub("", line) for line in _lines(log) if not _ORDINARY.match(line))
    spoken = [line.strip() for line in plain if line.strip() and not _NOISE.match(line)]
    errors = [line for line in spoken if re.search(r"\b\w*(?:Error|Exception)\b|\berror\b|ERROR", line)] or spoken
    return [line[-200:] for line in errors[-lines:]]


def _share(free: str, total: str) -> str:
    """The share of a GPU's memory to ask for where `free` of `total` GiB are free: slightly less, but at least 0.05."""
    return f"{max(0.05, int(float(free) / float(total) * 100 - 1) / 100):.2f}"
