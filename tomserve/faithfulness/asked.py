"""How a finished run asked: its strategies with the options of that time, its model's preset, and its sampling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pydantic

from tomserve.engine.records import CONCLUSION
from tomserve.engine.request import Sampling
from tomserve.errors import ConfigError
from tomserve.prompting.strategy import Strategy
from tomserve.runs.manifest import AskedStrategy, Manifest
from tomserve.serving.presets import Preset

_SAMPLED = ("temperature", "seed", "repeats")
"""What the manifest keeps of the sampling besides further fields of a request."""


def sampling_of(folder: Path, manifest: Manifest) -> Sampling:
    """How the run was sampled. Raises ConfigError where that was with chance, or cannot be."""
    warmth, seed = (manifest.sampling.get(name) or 0 for name in ("temperature", "seed"))
    for name, value, kinds in (("temperature", warmth, (int, float)), ("seed", seed, (int,))):
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ConfigError(f"{folder / 'manifest.json'}: sampling.{name} is {value!r:.60}; expected a number")
    if warmth:
        raise ConfigError(
            f"{folder}: was sampled at temperature {warmth:g}, so that its answers change by chance, too; ask again at "
            "temperature 0 (tomserve eval without --temperature)"
        )
    extra = {name: value for name, value in manifest.sampling.items() if name not in _SAMPLED}
    return Sampling(0.0, int(seed), extra)


def check_texts(path: Path, row: Mapping[str, Any]) -> None:
    """Raise ConfigError where a field of a reply that is read as text holds something else. path: the journal."""
    for name in ("text", "reasoning", "error", CONCLUSION):
        if row.get(name) is not None and not isinstance(row[name], str):
            raise ConfigError(
                f"{path}: item {row['item']!r:.80}: field {name!r} is {row[name]!r:.40}; expected text; repair or "
                "delete that line"
            )


def preset_of(manifest: Manifest) -> Preset | None:
    """The preset of the run's model: the one that its server was started by, else the one of that name."""
    own = manifest.server.get("preset")
    if isinstance(own, dict):
        try:
            return Preset.model_validate(own)
        except pydantic.ValidationError as error:
            raise ConfigError(f"manifest.json: server.preset cannot be read ({error.errors()[0]['msg']})") from None
    return Preset.lookup(manifest.preset) if manifest.preset else None


def strategy_of(folder: Path, manifest: Manifest, name: str, preset: Preset | None) -> Strategy:
    """A strategy with the options by which it asked in that run.

    The manifest keeps the most tokens of a reply and not how they came about, so that the ways are tried. Raises
    ConfigError where none of them gives the recorded digest, since then its prompts have changed.
    """
    record = manifest.strategies[name]
    overrides = preset.prompt_parts if preset else {}
    own = {"system_role": preset.system_role if preset else True, "overrides": overrides}
    for options in _options(record, preset):
        strategy = Strategy.named(name, **own, **options)
        if strategy.digest == record.digest:
            return strategy
    raise ConfigError(
        f"{folder}: strategy {name!r} asks otherwise now than when this run was asked (its prompts, its most tokens or "
        "the model's preset have changed), so that edited chains would stand in other prompts; restore it, or ask again"
    )


def _options(record: AskedStrategy, preset: Preset | None) -> Iterator[dict[str, int]]:
    """The numbers of tokens that may lead to those of a record."""
    for thinking in dict.fromkeys((0, preset.thinking_tokens() if preset and preset.reasoning else 0)):
        yield {"thinking": thinking}
        if record.max_tokens and record.max_tokens > thinking:
            yield {"thinking": thinking, "max_tokens": record.max_tokens - thinking}
