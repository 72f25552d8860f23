"""The record ``batch.json`` in a run's folder: which requests were written to batch files, so that results find them.

It holds the options of every `tomserve export batch` of the run that differs from the others, and the model as it was
found then. The requests themselves are made anew from them, the items and the journal; nothing else is kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import pydantic

from tomserve.content import files
from tomserve.content.validation import Name, strategy_name, validation_error
from tomserve.errors import ConfigError
from tomserve.runs.planning import EvalOptions
from tomserve.serving.endpoint import Target
from tomserve.serving.presets import Preset

FILE = "batch.json"
"""The name of the record in the run's folder."""

WAY_OUT = "restore the file, or repeat `tomserve export batch` with the options of the run"


class _Record(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Model(_Record):
    """The model that was to be asked. name: as the queue knows it. revision: of the model, None where nobody knows it.
    preset: the model's, with the fields that were set."""

    name: str
    revision: str | None = None
    preset: dict[str, Any] | None = None

    @classmethod
    def of(cls, chosen: Target) -> Model:
        """The record of a model."""
        preset = chosen.preset
        own = None if preset is None else preset.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return cls(name=chosen.model, revision=chosen.revision, preset=own)

    def target(self) -> Target:
        """The model, without a server. Raises ValidationError where its preset is none."""
        preset = None if self.preset is None else Preset.model_validate(self.preset)
        return Target(self.name, self.revision, preset)


class Export(_Record):
    """The options of `tomserve export batch` that shape the requests, by the names of EvalOptions, and the model."""

    benchmark: Name | None = None
    path: str | None = None
    gold: str | None = None
    where: tuple[str, ...] = ()
    strategies: tuple[Name, ...] = ()
    limit: Annotated[int, pydantic.Field(ge=1)] | None = None
    max_tokens: Annotated[int, pydantic.Field(ge=1)] | None = None
    thinking: str | None = None
    temperature: float = 0.0
    seed: int = 0
    repeats: int = 1
    variants: tuple[str, ...] = ()
    model: Model

    @classmethod
    def of(cls, options: EvalOptions, benchmark: str, chosen: Target) -> Export:
        """The record of these options, with the names of what may have been given by a path. benchmark: its name."""
        own = {name: getattr(options, name) for name in cls.model_fields if name not in ("path", "model")}
        own["benchmark"] = benchmark if options.benchmark else None
        own["strategies"] = tuple(map(strategy_name, options.strategies))
        path = None if options.path is None else str(options.path.expanduser().absolute())
        return cls(path=path, model=Model.of(chosen), **own)

    def options(self, folder: Path) -> EvalOptions:
        """The options of an evaluation of that run's folder."""
        own = self.model_dump(exclude={"path", "model"})
        path = None if self.path is None else Path(self.path)
        return EvalOptions(path=path, model=self.model.name, run=str(folder.absolute()), **own)


class Exports(_Record):
    """All exports of a run that differ, in the order in which they were first made."""

    schema_: Literal[1] = pydantic.Field(alias="schema", default=1)
    exports: tuple[Export, ...] = ()

    def with_one(self, export: Export) -> Exports:
        """The record with one more export, which stands last."""
        return Exports(exports=(*(one for one in self.exports if one != export), export))

    def write(self, folder: Path) -> None:
        """Write the record to a run's folder. Raises OSError where that is not possible."""
        with files.replace_file(folder / FILE) as file:
            held = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            file.write(orjson.dumps({"schema": 1, **held}, option=orjson.OPT_INDENT_2) + b"\n")

    @classmethod
    def read(cls, folder: Path) -> Exports:
        """The record of a run; an empty one where nothing was exported. Raises ConfigError by file and field."""
        path = folder / FILE
        try:
            data = files.read_json(path, WAY_OUT)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        try:
            return cls.model_validate(data)
        except pydantic.ValidationError as error:
            raise validation_error(error, data, cls, path, WAY_OUT) from None
