"""A causal language model of transformers as the backend of measurements: reads and replaces its residual stream.

In bfloat16 logits near 20 lie 1/8 apart, so that choices tie which are not equally likely, and the likeliest token of
the vocabulary is one of several. The last matrix is therefore multiplied in float32, a slice of the vocabulary at a
time; on a CPU, where that would take longer than all blocks, only for the choices and for the tokens near the largest.

On GPUs torch may multiply matrices in TF32, which keeps 10 bits of each number, where somebody has said so by
`torch.set_float32_matmul_precision` or TORCH_ALLOW_TF32_CUBLAS_OVERRIDE; so that is switched off meanwhile.
"""

import importlib.util
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn

from tomserve.causal.activations import Answers, Floats, Ints, Prompt, Readings
from tomserve.causal.checkpoints import Checkpoint, default_dtype
from tomserve.causal.hf.activation_patching import BatchPieces, Method, Prefix, Rerunner, count_shared, prefill
from tomserve.causal.hf.hooks import Blocks
from tomserve.content.files import one_line
from tomserve.errors import ConfigError, MachineError, TomserveError
from tomserve.serving.sizing import BYTES, memory_gb

SLICE = 1 << 14  # how many rows of the matrix are in memory as float32 at a time
NEAR = 2  # so many steps of the data type below the largest logit another one may in truth be the largest
MOST_NEAR = 32  # with more of them a row, on average, all logits are computed in float32


class Float32Logits:
    """Computes the logits of a model of half precision in float32 from now on. Caps and factors of the logits still
    apply.

    wanted: the tokens whose logits are read. On a CPU those of all others are rounded as the model rounds them, except
    where they may be the largest.
    """

    def __init__(self, model: Any) -> None:
        """possible: where the last matrix is a plain linear layer, not spread over processes."""
        self.wanted: list[int] = []
        self._batch = torch.Size()
        head = model.get_output_embeddings()
        self.possible = head.weight.dtype == torch.float32 or (
            type(head) is nn.Linear and type(head.weight.data) is torch.Tensor and not head.weight.is_meta
        )
        if self.possible and head.weight.dtype != torch.float32:
            head.register_forward_pre_hook(self._flatten)
            head.register_forward_hook(self._compute, prepend=True)  # what was flattened last is unflattened first

    def _flatten(self, head: nn.Linear, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
        """The states as rows: for a batch of one token torch would copy the matrix, which takes ten times as long."""
        self._batch = inputs[0].shape[:-1]
        return (inputs[0].flatten(0, -2),)

    def _compute(self, head: nn.Linear, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        states = inputs[0].to(head.weight.device, torch.float32)
        logits = self._compute_near(head, states, output) if head.weight.device.type == "cpu" else None
        if logits is None:
            logits = torch.cat([states @ rows.float().T for rows in torch.split(head.weight, SLICE)], dim=-1)
            logits = logits if head.bias is None else logits + head.bias.float()
        return logits.reshape(*self._batch, -1)

    def _compute_near(self, head: nn.Linear, states: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor | None:
        """The logits, of which those near each row's largest and those of `wanted` are exact; None where too many are
        near. A product in half precision is summed in float32 and then rounded by half a step."""
        largest = rounded.amax(dim=-1, keepdim=True)
        step = NEAR * torch.finfo(rounded.dtype).eps
        rows, tokens = (rounded >= largest - step * largest.abs()).nonzero(as_tuple=True)
        if len(rows) > MOST_NEAR * len(rounded):
            return None
        logits = rounded.float()
        bias = torch.zeros(len(head.weight)) if head.bias is None else head.bias.float()
        logits[rows, tokens] = (states[rows] * head.weight[tokens].float()).sum(dim=-1) + bias[tokens]
        logits[:, self.wanted] = states @ head.weight[self.wanted].float().T + bias[self.wanted]
        return logits


@contextmanager
def force_float32() -> Iterator[None]:
    """While this is open, float32 matrices are multiplied in float32; afterwards as before."""
    cublas = torch.backends.cuda.matmul
    own = getattr(cublas, "fp32_precision", None)  # torch has two ways to say this since 2.9, and refuses a mixture
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:
        before = None  # it was said in the newer way alone
    torch.set_float32_matmul_precision("highest")  # says it in both ways
    try:
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)
        else:
            cublas.fp32_precision = own


PROMPTS_CPU, PROMPTS_GPU = 4, 64  # how many prompts are run at a time where the caller does not say
ROWS_CPU, ROWS_GPU = 128, 256
"""How many replaced states are run at a time. Stacked rows look at one another's keys before the mask hides them, so
that more rows than half a prompt's tokens cost more than they save."""
LENT_BYTES_CPU, LENT_BYTES_GPU = 1 << 24, 1 << 33
"""How much memory the repeated keys and values of a batch of rows may take: on a CPU, what its cache holds."""
KEPT_BYTES_CPU = 1 << 30  # how much memory the keys and values of prompts that were run again may take
FEWEST_LENT = 8  # as many rows are run at a time even so, since the weights are read once for all of them
TOKENS_CPU, TOKENS_GPU = 1 << 12, 1 << 16  # how many tokens a batch of whole prompts holds at most


class HfBackend:
    """A model of transformers that answers prompts, and answers them again with other states at their last token.
    States and logits are float32 whatever the data type of the model, and the last matrix is multiplied in float32."""

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        digest: str = "",
        revision: str | None = None,
        batch: int | None = None,
        method: Method | None = None,
    ) -> None:
        """Take a loaded model, and find out by trying how it can be run again.

        name, digest, revision: what it is, for the record. batch: prompts that run at a time, None for what suits the
        device; it is halved where memory runs out. method: how prompts are run again; None for the fastest way that
        works. Raises ConfigError where the model has no single list of blocks.
        """
        self.model = model.eval().requires_grad_(False)
        self.name, self.digest, self.revision = name, digest, revision
        self.device: torch.device = model.get_input_embeddings().weight.device
        self.blocks = Blocks(model)
        self._gpu = self.device.type != "cpu"
        self._float32 = Float32Logits(model)
        self._prompts = BatchPieces(batch or (PROMPTS_GPU if self._gpu else PROMPTS_CPU))
        self.rows_at_once(None)
        with torch.inference_mode(), force_float32():
            self._again = Rerunner(model, self.blocks, self.device, method, 0 if self._gpu else KEPT_BYTES_CPU)
            self._pads = _padding_changes_nothing(self)

    @property
    def layers(self) -> int:
        return len(self.blocks)

    @property
    def width(self) -> int:
        return int(self.model.config.get_text_config().hidden_size)

    @property
    def vocabulary(self) -> int:
        """How many tokens its logits tell apart."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    @property
    def context(self) -> int | None:
        """How many tokens it was made to read; None where its configuration does not say."""
        stated = vars(self.model.config.get_text_config()).get("max_position_embeddings")
        return stated if isinstance(stated, int) and stated > 0 else None

    @property
    def method(self) -> Method:
        """How prompts are run again: see tomserve.causal.hf.activation_patching."""
        return self._again.method

    def rerun_by(self, method: Method) -> None:
        """Run prompts again in this way from now on: for benches."""
        self._again.choose(method)

    def rows_at_once(self, most: int | None) -> None:
        """Run at most so many replaced states at a time, None for what suits the device: for benches."""
        self._rows = BatchPieces(most or (ROWS_GPU if self._gpu else ROWS_CPU))

    @property
    def dtype(self) -> str:
        return str(self.model.dtype).removeprefix("torch.")

    def describe(self) -> dict[str, Any]:
        """What the manifest of a measurement holds of the model, fit for JSON."""
        places = sorted({str(one.device) for one in self.model.parameters()})
        named = [torch.cuda.get_device_name(place) for place in places if place.startswith("cuda")]
        return {
            "model": self.name,
            "digest": self.digest,
            "revision": self.revision,
            "architecture": type(self.model).__name__,
            "parameters": sum(one.numel() for one in self.model.parameters()),
            "layers": self.layers,
            "width": self.width,
            "dtype": self.dtype,
            "logits": "float32" if self._float32.possible else "computed in the data type of the model",
            "attention": str(self.model.config._attn_implementation),
            "reruns": self.method,
            "left_padding": self._pads,
            "devices": places,
            "hardware": named,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    @torch.inference_mode()
    @force_float32()
    def run(self, prompts: Sequence[Prompt]) -> Readings:
        """Run all prompts, the longest first, in batches with padding on the left; or, on a CPU where they share most
        of their tokens, one after another, each after what it has in common with the last one.

        Raises ValueError for a prompt that has no tokens or whose tokens the model does not know, MachineError where
        the memory does not suffice for a single prompt.
        """
        for prompt in prompts:
            self._check(prompt)
        order = sorted(range(len(prompts)), key=lambda place: -len(prompts[place].tokens))
        if sharing := self._is_shared(prompts):
            order.sort(key=lambda place: prompts[place].tokens)
        states = np.empty((len(prompts), self.layers, self.width), dtype=np.float32)
        most = max((len(prompt.choices) for prompt in prompts), default=0)
        logits = np.full((len(prompts), most), np.nan, dtype=np.float32)
        top = np.empty(len(prompts), dtype=np.int64)
        kept: list[tuple[tuple[int, ...], Prefix]] = []

        def do(first: int, last: int) -> None:
            chosen = order[first:last]
            tokens = [prompts[place].tokens for place in chosen]
            self._float32.wanted = sorted({token for place in chosen for token in prompts[place].choices})
            read, found = self._extend(tokens[0], kept) if sharing else self._forward(tokens)
            states[chosen] = read
            top[chosen] = _largest(found)
            for row, place in enumerate(chosen):
                wanted = prompts[place].choices
                logits[place, : len(wanted)] = found[row, list(wanted)].cpu().numpy()

        def limit(first: int) -> int:
            if sharing:
                return 1
            length = len(prompts[order[first]].tokens)
            fitting = (TOKENS_GPU if self._gpu else TOKENS_CPU) // length
            if self._pads:
                return fitting
            alike = sum(len(prompts[place].tokens) == length for place in order[first:])
            return min(fitting, alike)

        self._prompts.run_each(len(prompts), do, limit)
        return Readings(states, Answers(logits, top))

    @torch.inference_mode()
    @force_float32()
    def rerun(self, prompt: Prompt, layers: Ints, states: Floats) -> Answers:
        """Answer one prompt again, m times, each time with another state at its last token.

        layers: int64 [m], after which block the state is replaced, from 1; rows are run in their order, so that lower
        blocks are computed only where needed. states: float32 [m, width]. Raises ValueError for states that are not
        finite and as `run` does, MachineError where the memory does not suffice for one state.
        """
        self._check(prompt)
        if not np.isfinite(states).all():
            raise ValueError("expected finite states, got some that are not")
        order = np.argsort(layers, kind="stable")
        choices = list(prompt.choices)
        logits = np.empty((len(layers), len(choices)), dtype=np.float32)
        top = np.empty(len(layers), dtype=np.int64)

        def do(first: int, last: int) -> None:
            chosen = order[first:last]
            wanted = [int(layer) for layer in layers[chosen]]
            new = torch.from_numpy(states[chosen]).to(self.device)
            self._float32.wanted = choices
            found = self._again.logits(prompt.tokens, wanted, new)
            top[chosen] = _largest(found)
            logits[chosen] = found[:, choices].cpu().numpy()

        self._rows.run_each(len(layers), do, lambda first: self._most_rows(prompt.tokens))
        return Answers(logits, top)

    def _most_rows(self, tokens: tuple[int, ...]) -> int:
        """How many states are run at a time behind that prompt where memory is no concern."""
        way = self._again.method_for(tokens)
        if way == "full":
            return max(1, (TOKENS_GPU if self._gpu else TOKENS_CPU) // len(tokens))
        if way == "batched":
            room = LENT_BYTES_GPU if self._gpu else LENT_BYTES_CPU
            return max(FEWEST_LENT, room // max(1, self._again.prefix(tokens).bytes))
        return self._rows.most

    def _is_shared(self, prompts: Sequence[Prompt]) -> bool:
        """Whether these prompts are read one after another: the keys and values of what they share are kept."""
        if self._gpu or self._again.beyond != "batched" or self._again.method == "full":
            return False
        ordered = sorted(prompt.tokens for prompt in prompts)
        shared = sum(count_shared(*pair) for pair in itertools.pairwise(ordered))
        return 2 * shared > sum(map(len, ordered))

    def _extend(
        self, tokens: tuple[int, ...], kept: list[tuple[tuple[int, ...], Prefix]]
    ) -> tuple[Floats, torch.Tensor]:
        """What `_forward` returns for one prompt. kept: the last one with its keys and values, which this one replaces;
        what the two begin with is not run again."""
        old, before = kept.pop() if kept else ((), None)
        shared = min(count_shared(old, tokens), len(tokens) - 1)
        with self.blocks.reading() as read:
            prefix, logits = prefill(self.model, tokens, self.device, self._again.takes, before, shared)
        kept.append((tokens, prefix))
        return np.stack([one.float().cpu().numpy() for one in read], axis=1), logits[None].float()

    def _forward(self, prompts: Sequence[tuple[int, ...]]) -> tuple[Floats, torch.Tensor]:
        """States float32 [n, layers, width] and logits float32 [n, vocabulary] at the last tokens of n prompts."""
        longest = max(len(tokens) for tokens in prompts)
        ids = torch.zeros((len(prompts), longest), dtype=torch.long)
        seen = torch.zeros_like(ids)
        for row, tokens in enumerate(prompts):
            ids[row, longest - len(tokens) :] = torch.tensor(tokens)
            seen[row, longest - len(tokens) :] = 1
        takes = self._again.takes
        more: dict[str, Any] = {"use_cache": False} if "use_cache" in takes else {}
        if "attention_mask" in takes:
            more["attention_mask"] = seen.to(self.device)
        if "position_ids" in takes:
            more["position_ids"] = (seen.cumsum(dim=1) - 1).clamp(min=0).to(self.device)
        if "logits_to_keep" in takes:
            more["logits_to_keep"] = 1
        with self.blocks.reading() as read:
            logits = self.model(input_ids=ids.to(self.device), **more).logits[:, -1].float()
        states: Floats = np.stack([one.float().cpu().numpy() for one in read], axis=1)
        return states, logits

    def _check(self, prompt: Prompt) -> None:
        if not prompt.tokens:
            raise ValueError("expected a prompt of one token or more, got none")
        for kind, ids in (("tokens", prompt.tokens), ("choices", prompt.choices)):
            if ids and (min(ids) < 0 or max(ids) >= self.vocabulary):
                raise ValueError(f"expected {kind} from 0 to {self.vocabulary - 1}, got {min(ids)} to {max(ids)}")


def _largest(logits: torch.Tensor) -> Ints:
    """The token of the largest of n logits [n, vocabulary]; numpy finds it several times faster than torch's CPU."""
    if logits.device.type == "cpu":
        return np.asarray(logits.numpy().argmax(axis=1), np.int64)
    return np.asarray(logits.argmax(dim=1).cpu().numpy(), np.int64)


def _padding_changes_nothing(backend: HfBackend) -> bool:
    """Whether a short random prompt has the same state beside a longer one, padded on the left, as by itself; layers
    with a recurrent state may read the padding."""
    noise = torch.Generator().manual_seed(1)
    tokens = tuple(torch.randint(backend.vocabulary, (12,), generator=noise).tolist())
    single, _ = backend._forward([tokens[:5]])
    beside, _ = backend._forward([tokens, tokens[:5]])
    apart = np.abs(beside[1] - single[0]).max(axis=1) / np.linalg.norm(single[0], axis=1)
    most = 1e-4 if backend.model.dtype == torch.float32 else 0.1
    return bool(np.median(apart) <= most)


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""The data types that a model may be run in."""


@dataclass(frozen=True, slots=True)
class LoadedCheckpoint:
    """A model that is ready to be measured, with the tokenizer of transformers and its chat template."""

    backend: HfBackend
    tokenizer: Any


def load_checkpoint(
    checkpoint: Checkpoint,
    *,
    device: str | None = None,
    dtype: str | None = None,
    device_map: str | None = None,
    batch: int | None = None,
) -> LoadedCheckpoint:
    """Load a model and its tokenizer.

    device: "cpu", "cuda" or "cuda:N"; None for a GPU where torch sees one. dtype: None for what `default_dtype` says.
    device_map: as transformers takes it; "auto" by default where one GPU cannot hold the model. batch: how many prompts
    run at a time. Raises ConfigError where the files cannot be loaded, MachineError where the device or accelerate is
    missing, or the memory does not suffice.
    """
    device = _device(device)
    chosen = dtype or default_dtype(checkpoint, device)
    needed = checkpoint.parameters * BYTES[chosen]
    layout = _layout(device, device_map, needed)
    _check_memory(checkpoint, needed, device, chosen, spread="device_map" in layout)
    source = _source(checkpoint)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()  # what it would warn of is refused below, in a line
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
        config = transformers.AutoConfig.from_pretrained(**source)
        _refuse_kernels(checkpoint, config)
        if vars(config.get_text_config()).get("attn_logit_softcapping"):
            layout["attn_implementation"] = "eager"  # the only one that applies the cap (Gemma 2)
        model, told = transformers.AutoModelForCausalLM.from_pretrained(
            config=config,
            dtype=DTYPES[chosen],
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, with those that are missing
            **source,
            **layout,
        )
    except torch.OutOfMemoryError:
        raise MachineError(_too_little(checkpoint, needed, device, chosen)) from None
    except TomserveError:  # a signal arrives as an error, wherever the program is
        raise
    except Exception as error:  # transformers raises errors of many kinds for files that it cannot read
        words = " ".join(str(error).split()) or "no reason given"
        reason = one_line(f"{type(error).__name__}: {words}")[:200]
        raise ConfigError(
            f"{one_line(checkpoint.name)}: transformers {transformers.__version__} cannot load it ({reason}); expected "
            "config.json, tokenizer files and *.safetensors of an architecture that needs no code of its own"
        ) from None
    _refuse_random(checkpoint, told)
    if "device_map" not in layout:
        model = model.to(device)
    _refuse_offloaded(checkpoint, model)
    if checkpoint.template is not None:
        tokenizer.chat_template = checkpoint.template
    backend = HfBackend(
        model, name=checkpoint.name, digest=checkpoint.digest, revision=checkpoint.revision, batch=batch
    )
    return LoadedCheckpoint(backend, tokenizer)


def _source(checkpoint: Checkpoint) -> dict[str, Any]:
    source: dict[str, Any] = {"pretrained_model_name_or_path": checkpoint.place, "trust_remote_code": False}
    if Path(checkpoint.place).is_dir():
        return source | {"local_files_only": True}
    return source | {"revision": checkpoint.revision or "main"}


def _device(asked: str | None) -> str:
    """The device to load to. Raises MachineError for a GPU that there is not."""
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked is None:
        return "cuda" if found else "cpu"
    if asked != "cpu" and int(asked.partition(":")[2] or 0) >= found:
        raise MachineError(f"--device {asked}: torch sees {found} GPUs here; choose --device cpu, or check the driver")
    return asked


def _layout(device: str, device_map: str | None, needed: int) -> dict[str, Any]:
    """How the model is laid out, as arguments of `from_pretrained`; empty where one device holds it."""
    if device_map is None and device == "cuda" and torch.cuda.device_count() > 1:
        free, _ = torch.cuda.mem_get_info()
        device_map = "auto" if needed > 0.9 * free else None
    if device_map is None:
        return {}
    if importlib.util.find_spec("accelerate") is None:
        raise MachineError("a model is spread over devices by the package accelerate: run `pip install accelerate`")
    return {"device_map": device_map}


def _check_memory(checkpoint: Checkpoint, needed: int, device: str, dtype: str, *, spread: bool) -> None:
    """Raise MachineError where the weights alone are larger than the memory: before hours of fetching and loading."""
    if device == "cpu":
        room = memory_gb() * 1e9
    elif spread:
        room = sum(torch.cuda.mem_get_info(place)[0] for place in range(torch.cuda.device_count()))
    else:
        room = torch.cuda.mem_get_info(device)[0]
    if needed > room:
        raise MachineError(_too_little(checkpoint, needed, device, dtype))


def _too_little(checkpoint: Checkpoint, needed: int, device: str, dtype: str) -> str:
    out = "bfloat16 halves them (--dtype bfloat16)" if dtype == "float32" else "several GPUs hold them (--device auto)"
    return (
        f"{one_line(checkpoint.name)}: its weights take {needed / 1e9:.1f} GB in {dtype}, more than {device} has free; "
        f"{out}, or choose a smaller model"
    )


def _refuse_kernels(checkpoint: Checkpoint, config: Any) -> None:
    """Raise ConfigError where the model's files name a kernel of the hub for its attention, such as ``org/name``: a
    program, which transformers would fetch and run."""
    named = getattr(config, "_attn_implementation", None)
    if "/" in str(named):
        raise ConfigError(
            f"{one_line(checkpoint.name)}: config.json names a program of the hub for its attention "
            f"({one_line(str(named))[:80]}); take attn_implementation out of a copy of the model"
        )
    for part in config.sub_configs:
        if (inner := getattr(config, part, None)) is not None:
            _refuse_kernels(checkpoint, inner)


def _refuse_random(checkpoint: Checkpoint, told: Mapping[str, Any]) -> None:
    """Raise ConfigError where weights of the model are not in its files: transformers would draw them at random."""
    absent = sorted([*told["missing_keys"], *(name for name, *_ in told["mismatched_keys"])])
    if absent:
        raise ConfigError(
            f"{one_line(checkpoint.name)}: {len(absent)} of its weights are not in its files, or of another shape "
            f"({one_line(absent[0])[:80]}), so that they would be random; expected *.safetensors that fit config.json"
        )


def _refuse_offloaded(checkpoint: Checkpoint, model: Any) -> None:
    """Raise MachineError where accelerate has put parts of a model that is run on GPUs into main memory or on disk."""
    places = vars(model).get("hf_device_map", {})
    away = sorted({str(place) for place in places.values()} & {"cpu", "disk"})
    if away and len(set(map(str, places.values()))) > len(away):
        raise MachineError(
            f"{one_line(checkpoint.name)}: the GPUs cannot hold all of it, and parts would be run from "
            f"{' and '.join(away)} at a hundredth of the speed; take more GPUs, or a smaller model"
        )
