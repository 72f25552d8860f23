"""What the user wants of an evaluation that is divided, as its record keeps it: the fields of an experiment's file.

>>> Wish(model="reference", limit=8).written()
{'model': 'reference', 'limit': 8}
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import pydantic

from tomserve.content.validation import CODE, ModelName, Name, strategy_name
from tomserve.engine import transports
from tomserve.errors import ConfigError
from tomserve.runs.planning import EvalOptions
from tomserve.serving.endpoint import Target

Seconds = Annotated[float, pydantic.Field(ge=1, le=1e6, allow_inf_nan=False)]
Several = Annotated[tuple[str, ...], pydantic.Field(max_length=1000)]


class Wish(pydantic.BaseModel):
    """What is to be asked of which model, and how, unless whoever asks a part says otherwise.

    The fields are those of `tomserve eval --config`. Files of items and folders of weights are given by their whole
    paths, so that a part can be asked from any folder; programs and prompts by their names. key: the name of the
    environment variable that holds the API key, never the key.
    """

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
    )

    model: ModelName | None = None
    base_url: Several = ()
    key: Annotated[str, pydantic.Field(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")] | None = None
    benchmark: Name | None = None
    path: str | None = None
    gold: str | None = None
    where: Several = ()
    strategy: Annotated[tuple[Name, ...], pydantic.Field(max_length=1000)] = ()
    limit: Annotated[int, pydantic.Field(ge=1)] | None = None
    revision: str | None = None
    max_tokens: Annotated[int, pydantic.Field(ge=1, le=2**31)] | None = None
    thinking: str | None = None
    temperature: Annotated[float, pydantic.Field(ge=0, le=2)] = 0.0
    seed: Annotated[int, pydantic.Field(ge=0, le=2**31 - 1)] = 0
    repeats: Annotated[int, pydantic.Field(ge=1, le=1000)] = 1
    timeout: Seconds = 600.0
    concurrency: Annotated[int, pydantic.Field(ge=1, le=65536)] | None = None
    transport: str = transports.DEFAULT
    hedge: Seconds | None = None
    noise_check: Annotated[float, pydantic.Field(gt=0, le=1)] | None = None
    variants: Several = ()
    patience: Seconds | None = None

    @classmethod
    def of(cls, options: EvalOptions, benchmark: str, target: Target, key: str | None) -> Wish:
        """What these options want.

        benchmark: its name. target: the model that they lead to. key: the name of the
        variable that holds the API key, where an experiment's file names one.

        Raises ConfigError for the file of a preset.
        """
        own = ("model", "base_url", "key", "benchmark", "path", "strategy")
        same = {name: getattr(options, name) for name in cls.model_fields if name not in own}
        return cls(
            model=_model(options, target),
            base_url=tuple(target.endpoints) if options.base_urls else (),
            key=key,
            benchmark=benchmark,
            path=None if options.path is None else os.path.abspath(options.path),
            strategy=tuple(map(strategy_name, options.strategies)),
            **same,
        )

    def options(self) -> EvalOptions:
        """The wish as the options of an evaluation, without its items, its run and its server."""
        own = self.model_dump(exclude={"key", "base_url", "strategy", "path"})
        path = None if self.path is None else Path(self.path)
        return EvalOptions(base_urls=self.base_url, strategies=self.strategy, path=path, **own)

    def written(self) -> dict[str, Any]:
        """The fields that say something, as the record holds them."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _model(options: EvalOptions, target: Target) -> str:
    """The model as it is to be named wherever a part is asked, also where nothing serves it yet."""
    name = target.starts if target.embedded else options.model or target.model
    if name.endswith(CODE):
        raise ConfigError(
            f"--model {name}: parts name no file of a preset; put it into launch/models/ of a content folder, and give "
            "its name and --content DIR"
        )
    folder = Path(name).expanduser()
    return str(folder.resolve()) if "/" in name and folder.is_dir() else name
