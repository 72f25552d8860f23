"""Activation patching: runs the last token of a prompt again with another state, from cached keys and values.

  stacked  m last tokens stand side by side behind the prefix, at the same position, each seeing the prefix and itself
           alone: the prefix is read once for all of them. Blocks below the replaced one are skipped.
  batched  m sequences of one token each behind the prefix, whose keys and values are repeated for each of them.
  full     m whole prompts.

The first two are faster, in this order, and rest on how a model is built. Rather than to know this of every
architecture, each model is tried on a short random prompt, and the first way counts that gives what full runs give.

A causal model's keys and values of earlier tokens do not depend on later ones, so that the prefix is computed once
(unlike in Meng et al. 2022, section 2).
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from tomserve.causal.hf.hooks import Blocks
from tomserve.errors import MachineError, TomserveError


class NoPrefixError(Exception):
    """The model keeps something else than keys and values of single tokens, so that no prefix can be lent out."""


class Prefix:
    """What a model keeps of the first tokens of a prompt."""

    def __init__(self, cache: Any, length: int) -> None:
        """Take the cache that a run over `length` tokens (batch of 1) has filled. Raises NoPrefixError where some layer
        holds no plain keys and values of all these tokens, as those with a recurrent state do."""
        layers = cache.layers if isinstance(cache, DynamicCache) else ()
        if not layers or any(type(layer) is not DynamicLayer or layer.keys is None for layer in layers):
            raise NoPrefixError(f"{type(cache).__name__} holds more than keys and values")
        if any(
            tuple(part.shape[i] for i in (0, -2)) != (1, length) for one in layers for part in (one.keys, one.values)
        ):
            raise NoPrefixError("some layers do not keep all tokens")
        self.length = length
        self._cache = cache
        self._kept = [(layer.keys, layer.values) for layer in layers]

    @property
    def bytes(self) -> int:
        return sum(part.numel() * part.element_size() for pair in self._kept for part in pair)

    def cut(self, length: int) -> Any:
        """The cache with its first `length` tokens alone, to be filled anew; this prefix is not used afterwards."""
        for layer, (keys, values) in zip(self._cache.layers, self._kept, strict=True):
            layer.keys, layer.values = keys[..., :length, :], values[..., :length, :]
        return self._cache

    @contextmanager
    def lent(self, rows: int) -> Iterator[Any]:
        """A cache for a run of `rows` sequences that all begin with this prefix; it is as before once this is closed.

        The rows share the memory of the prefix until a layer adds its new token.
        """
        try:
            for layer, (keys, values) in zip(self._cache.layers, self._kept, strict=True):
                layer.keys = keys.expand(rows, *keys.shape[1:])
                layer.values = values.expand(rows, *values.shape[1:])
            yield self._cache
        finally:
            for layer, (keys, values) in zip(self._cache.layers, self._kept, strict=True):
                layer.keys, layer.values = keys, values


def prefill(
    model: Any,
    tokens: Sequence[int],
    device: torch.device,
    takes: frozenset[str],
    before: Prefix | None = None,
    shared: int = 0,
) -> tuple[Prefix, torch.Tensor]:
    """Run a model over `tokens`, keep their keys and values, and return them with the logits [vocabulary] of the last.

    takes: the names of the arguments of its `forward`. before: what was kept of other tokens, of which the first
    `shared` (fewer than all of `tokens`) are the same and are not run again. Every layer is made to keep all tokens,
    those with a sliding window included, whose masks transformers makes. Raises NoPrefixError where the model does not
    keep these, or takes no cache.
    """
    if "past_key_values" not in takes:
        raise NoPrefixError(f"{type(model).__name__} takes no cache")
    cache = DynamicCache() if before is None else before.cut(shared)
    ids = torch.tensor([list(tokens[shared:])], device=device)
    more: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
    if "position_ids" in takes:
        more["position_ids"] = torch.arange(shared, len(tokens), device=device)[None]
    output = model(input_ids=ids, past_key_values=cache, use_cache=True, **more)
    return Prefix(output.past_key_values, len(tokens)), output.logits[0, -1]


def count_shared(before: Sequence[int], tokens: Sequence[int]) -> int:
    """How many tokens two prompts begin with in common.

    >>> count_shared((5, 6, 7), (5, 6, 8, 9))
    2
    """
    pairs = enumerate(zip(before, tokens, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(before), len(tokens)))


def stacked_mask(length: int, rows: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """The additive attention mask [1, 1, rows, length + rows] of last tokens side by side, each of which sees
    the prefix of `length` tokens and itself."""
    least = torch.finfo(dtype).min
    own = torch.full((rows, rows), least, dtype=dtype, device=device).fill_diagonal_(0)
    return torch.cat([torch.zeros(rows, length, dtype=dtype, device=device), own], dim=1)[None, None]


ALLOCATING = ("DefaultCPUAllocator", "CUDA error: out of memory", "_STATUS_ALLOC_FAILED")
"""What stands in errors of no class of their own that say the same: torch's allocator of main memory; the driver, where
another program took what was left; cuBLAS and cuDNN, which take room beside torch's."""


class BatchPieces:
    """How many things are done at a time."""

    def __init__(self, most: int) -> None:
        self.most = max(1, most)

    def run_each(self, number: int, do: Callable[[int, int], None], limit: Callable[[int], int]) -> None:
        """Do things 0 to number - 1, a piece [first, last) at a time.

        limit: from the number of a thing, how many may be done at a time from there on. Raises MachineError where the
        memory does not suffice for a single one.
        """
        first = 0
        while first < number:
            last = min(number, first + max(1, min(self.most, limit(first))))
            try:
                do(first, last)
            except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if last - first == 1:
                    raise MachineError(
                        "the memory does not suffice for a single prompt: take a device with more memory, spread the "
                        "model over all GPUs (--device auto), or choose a smaller one"
                    ) from None
                self.most = (last - first) // 2
            else:
                first = last
                continue
            # Outside of the handler, whose error keeps the tensors of the failed piece alive.
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out: torch has a class for that on GPUs only, and not for all of it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in ALLOCATING)


Method = Literal["stacked", "batched", "full"]
METHODS: tuple[Method, ...] = ("stacked", "batched", "full")

TRIED_TOKENS = 17  # length of the random prompt on which a model is tried
FLOAT_TOLERANCE, HALF_TOLERANCE = 1e-3, 0.1
"""How far logits may lie from those of a full run, in standard deviations of a prompt's logits. In float32, four tiny
architectures and the reference model differed by 2e-6 at most; a wrong mask moved them by .5 and more, a wrong position
by .2 (2026-11-23)."""


class Rerunner:
    """Runs prompts of one model again with replaced states; the prefix of the last prompt is kept, and those of the
    first ones, to which the search for strengths comes back in every layer."""

    def __init__(self, model: Any, blocks: Blocks, device: torch.device, method: Method | None, room: int = 0) -> None:
        """method: how the model is run; None for the fastest way that gives what full runs give. room: bytes that the
        prefixes kept beside the last one may take."""
        self.model, self.blocks, self.device = model, blocks, device
        self.takes = frozenset(inspect.signature(model.forward).parameters)
        self.window = _window(model.config.get_text_config())
        self.room = room
        self._prefixes: dict[tuple[int, ...], Prefix] = {}
        self.beyond: Method = "batched"
        self.method: Method = method or self._choose_method()

    def choose(self, method: Method) -> None:
        """Take this way from now on, and forget the prefixes that are kept."""
        self.method = method
        self._prefixes.clear()

    def method_for(self, tokens: Sequence[int]) -> Method:
        """How this prompt is run: in full without a prefix, and never stacked beyond a sliding window, as one mask for
        all layers says what a stacked token sees."""
        if len(tokens) < 2:
            return "full"
        return self.beyond if self.method == "stacked" and len(tokens) > self.window else self.method

    def prefix(self, tokens: tuple[int, ...]) -> Prefix:
        """The prefix of a prompt: computed, or kept from an earlier call."""
        own = tokens[:-1]
        if own not in self._prefixes:
            while sum(one.bytes for one in self._prefixes.values()) > self.room:
                self._prefixes.popitem()  # before another is computed, so that never two are held beyond the room
            self._prefixes[own] = prefill(self.model, own, self.device, self.takes)[0]
        return self._prefixes[own]

    def logits(self, tokens: tuple[int, ...], layers: Sequence[int], states: torch.Tensor) -> torch.Tensor:
        """Float32 logits [m, vocabulary] after the prompt, with states[i] [width] in place after block layers[i]."""
        way = self.method_for(tokens)
        prefix = None if way == "full" else self.prefix(tokens)  # before any block is changed
        with ExitStack() as stack:
            stack.enter_context(self.blocks.replacing(layers, states, stacked=way == "stacked"))
            if prefix is None:
                return self._full(tokens, len(layers))
            stack.enter_context(self.blocks.skipping(min(layers)))
            if way == "stacked":
                return self._run_stacked(tokens, prefix, len(layers))
            return self._run_batched(tokens, prefix, len(layers))

    def _full(self, tokens: tuple[int, ...], rows: int) -> torch.Tensor:
        ids = torch.tensor([tokens] * rows, device=self.device)
        more: dict[str, Any] = {"use_cache": False} if "use_cache" in self.takes else {}
        more |= {"logits_to_keep": 1} if "logits_to_keep" in self.takes else {}
        logits: torch.Tensor = self.model(input_ids=ids, **more).logits[:, -1]
        return logits.float()

    def _run_batched(self, tokens: tuple[int, ...], prefix: Prefix, rows: int) -> torch.Tensor:
        ids = torch.full((rows, 1), tokens[-1], device=self.device)
        seen = torch.ones((rows, len(tokens)), dtype=torch.long, device=self.device)
        more = {"position_ids": torch.full_like(ids, prefix.length)} if "position_ids" in self.takes else {}
        with prefix.lent(rows) as cache:
            output = self.model(input_ids=ids, attention_mask=seen, past_key_values=cache, use_cache=True, **more)
        logits: torch.Tensor = output.logits[:, -1]
        return logits.float()

    def _run_stacked(self, tokens: tuple[int, ...], prefix: Prefix, rows: int) -> torch.Tensor:
        ids = torch.full((1, rows), tokens[-1], device=self.device)
        mask = stacked_mask(prefix.length, rows, self.model.dtype, self.device)
        places = torch.full_like(ids, prefix.length)
        with prefix.lent(1) as cache:
            output = self.model(
                input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True
            )
        logits: torch.Tensor = output.logits[0]
        return logits.float()

    def _choose_method(self) -> Method:
        """The first way that gives what full runs give on a random prompt, or its beginning that fits into a window."""
        noise = torch.Generator().manual_seed(0)
        size = int(self.model.config.get_text_config().vocab_size)
        tokens = tuple(torch.randint(size, (TRIED_TOKENS,), generator=noise).tolist())
        self.beyond = "batched" if self._equal("batched", tokens) else "full"
        short = tokens[: int(min(self.window, TRIED_TOKENS))]
        fast = [way for way in METHODS[:-1] if len(short) > 1 and self._equal(way, short)]
        self._prefixes.clear()
        return fast[0] if fast else "full"

    def _equal(self, method: Method, tokens: tuple[int, ...]) -> bool:
        """Whether this way gives the logits of full runs: for the states after the first, a middle and the last two
        blocks, each as it is and moved by as much as its own norm."""
        self.method = "full"
        with self.blocks.reading() as read:
            self._full(tokens, 1)
        number = len(self.blocks)
        layers = sorted({1, (number + 1) // 2, max(1, number - 1), number})
        own = torch.stack([read[layer - 1][0].float().cpu() for layer in layers])
        away = torch.randn(own.shape, generator=torch.Generator().manual_seed(1))
        moved = own + away * own.norm(dim=1, keepdim=True) / away.norm(dim=1, keepdim=True)
        states = torch.cat([own, moved])
        expected = self.logits(tokens, layers * 2, states)
        self.method = method
        try:
            found = self.logits(tokens, layers * 2, states)
        except TomserveError:  # somebody stopped it meanwhile
            raise
        except Exception as error:  # an architecture may fail in any way at what it was not made for
            if is_out_of_memory(error):
                raise
            return False
        apart = ((found - expected).abs().amax(dim=1) / expected.std(dim=1)).cpu()
        if self.model.dtype == torch.float32:
            return bool((apart <= FLOAT_TOLERANCE).all())
        # In half precision a single row may differ by far, where rounding sends its token to another expert.
        return bool(apart.median() <= HALF_TOLERANCE)


def _window(text: Any) -> float:
    """How many tokens the narrowest layer looks back at, the token itself included; infinite where all see all."""
    sizes = [vars(text).get(name) for name in ("sliding_window", "attention_chunk_size", "window_size")]
    return min((size for size in sizes if isinstance(size, int) and size > 0), default=float("inf"))
