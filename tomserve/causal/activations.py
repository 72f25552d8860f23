"""Activations of a model: the protocol of a backend that reads and replaces them, and the files that cache them.

Layers are numbered from 1, the residual stream after the first block; arrays of all layers hold layer l at index l - 1.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import orjson
from numpy.typing import NDArray

from tomserve.content import files
from tomserve.errors import JournalError

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt up to the token before the answer.

    choices: for each choice, in the order of the item's own list, the token with which it goes on; no two are equal.
    """

    tokens: tuple[int, ...]
    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """How a model goes on after each of n prompts, of which one has at most k choices."""

    logits: Floats  # [n, k], of the choices' tokens; NaN where a prompt has fewer
    top: Ints  # [n], the likeliest token of the whole vocabulary


@dataclass(frozen=True, slots=True)
class Readings:
    """What a model holds and says at the last token of each of n prompts."""

    states: Floats  # [n, layers, width], the residual stream after every block
    answers: Answers


class Backend(Protocol):
    """A causal language model whose residual stream can be read and replaced."""

    @property
    def layers(self) -> int:
        """How many blocks it has."""

    @property
    def width(self) -> int:
        """How wide its residual stream is."""

    @property
    def dtype(self) -> str:
        """The data type of its weights, such as float32."""

    def run(self, prompts: Sequence[Prompt]) -> Readings:
        """Run all prompts, in batches of the backend's choice. Raises MachineError where the memory does not suffice
        for a single prompt."""

    def rerun(self, prompt: Prompt, layers: Ints, states: Floats) -> Answers:
        """Answer one prompt again, m times, as full runs would in which only one state at the last token differs.
        layers: int64 [m], after which block the state is replaced, from 1. states: float32 [m, width], by what."""


RECORD = "states.json"  # the file beside the states that says of which prompts and which model they are


class ActivationCache:
    """The states of all prompts of a measurement, in one folder.

    choices: how many a prompt has at most. digest: of the prompts and the model; files of another one are written anew.
    A row counts once its flag is set, so that a process that is killed loses the batch that it was at. Raises
    JournalError where the folder cannot be written, ConfigError where a link stands in the place of a file.
    """

    def __init__(self, folder: Path, *, prompts: int, layers: int, width: int, choices: int, digest: str) -> None:
        self.folder, self.prompts, self.layers, self.width = folder, prompts, layers, width
        record = {"schema": 1, "digest": digest, "prompts": prompts, "layers": layers, "width": width}
        sizes = {
            **{self._name(layer): 4 * prompts * width for layer in range(layers)},
            "choices.f32": 4 * prompts * choices,
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            fresh = not self._is(record) or any(self._size(name) != size for name, size in sizes.items())
            if fresh:
                (folder / "done.u1").unlink(missing_ok=True)
            self._states = [self._map(self._name(layer), np.float32, (prompts, width)) for layer in range(layers)]
            self._logits = self._map("choices.f32", np.float32, (prompts, choices))
            self._top = self._map("top.i64", np.int64, (prompts,))
            self._done = self._map("done.u1", np.uint8, (prompts,))
            if fresh:
                with files.replace_file(folder / RECORD) as file:
                    file.write(orjson.dumps(record))
        except OSError as error:
            raise JournalError(f"{folder}: states cannot be written ({error.strerror}); free space, or move") from None

    @staticmethod
    def _name(layer: int) -> str:
        return f"layer-{layer + 1:03d}.f32"

    def _size(self, name: str) -> int:
        """How long a file of the folder is; -1 where there is none."""
        try:
            return (self.folder / name).lstat().st_size
        except FileNotFoundError:
            return -1

    def _is(self, record: dict[str, object]) -> bool:
        try:
            return bool(files.read_json(self.folder / RECORD, "delete it") == record)
        except FileNotFoundError:
            return False

    def _map(self, name: str, dtype: type, shape: tuple[int, ...]) -> NDArray[np.generic]:
        """A file of the folder as an array; it is made as long as it has to be, with zeros."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        descriptor = files.open_regular(self.folder / name, os.O_RDWR | os.O_CREAT)
        with os.fdopen(descriptor, "r+b") as file:
            if os.fstat(file.fileno()).st_size != size:
                file.truncate(0)
                os.posix_fallocate(file.fileno(), 0, size) if size else None  # a full disk is told now, not by a crash
            return np.memmap(file, dtype=dtype, mode="r+", shape=shape) if size else np.zeros(shape, dtype)

    @property
    def missing(self) -> Ints:
        """The places of the prompts whose states are not there yet, in ascending order."""
        return np.flatnonzero(self._done == 0).astype(np.int64)

    def write(self, places: Ints, found: Readings) -> None:
        """Keep the states and answers of the prompts at these places, float32 [n, layers, width]."""
        for layer, states in enumerate(self._states):
            states[places] = found.states[:, layer]
        logits = np.full((len(places), self._logits.shape[1]), np.nan, np.float32)
        logits[:, : found.answers.logits.shape[1]] = found.answers.logits
        self._logits[places], self._top[places] = logits, found.answers.top
        self._done[places] = 1

    def layer(self, layer: int) -> Floats:
        """The states after that block, from 1: float32 [prompts, width]. They must not be changed."""
        return self._states[layer - 1]  # type: ignore[return-value]

    @property
    def answers(self) -> Answers:
        return Answers(np.asarray(self._logits, np.float32), np.asarray(self._top, np.int64))
