"""An experiment in a file: what `tomserve eval --config` reads, and what the workbench saves and queues.

Its fields are called as the options of `tomserve eval`. What the command line names besides wins over the file.

    model: llama3-70b
    benchmark: perturbed-2
    strategy: [vanilla, cot]
    limit: 200
    noise-check: 0.05
    variants: [all]
    faithfulness: true
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import yaml

from tomserve.content import validation
from tomserve.content.validation import ModelName, Name, RunName
from tomserve.engine import transports
from tomserve.errors import ContentError
from tomserve.runs.planning import EvalOptions

FILE = "experiment.yaml"
"""The name of the file in the folder of a run that the workbench has queued."""


class Experiment(pydantic.BaseModel):
    """What is to be asked of which model. Fields that are left out have the defaults of `tomserve eval`.

    key: the name of the environment variable that holds the endpoint's API key; the key itself never stands in a file.
    start: whether a server of the model may be started on this machine where none runs.
    faithfulness: whether the chains are edited and asked again afterwards, as `tomserve faithfulness` does.
    """

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.rstrip("_").replace("_", "-"),
        populate_by_name=True,
    )

    schema_: Literal[1] = 1
    model: ModelName | None = None
    base_url: tuple[str, ...] = ()
    key: Annotated[str, pydantic.Field(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")] | None = None
    start: bool = False
    benchmark: Name | None = None
    path: str | None = None
    gold: str | None = None
    where: tuple[str, ...] = ()
    strategy: tuple[Name, ...] = ()
    run: RunName | None = None
    limit: Annotated[int, pydantic.Field(ge=1)] | None = None
    revision: str | None = None
    max_tokens: Annotated[int, pydantic.Field(ge=1, le=2**31)] | None = None
    thinking: str | None = None
    temperature: Annotated[float, pydantic.Field(ge=0, le=2)] = 0.0
    seed: Annotated[int, pydantic.Field(ge=0, le=2**31 - 1)] = 0
    repeats: Annotated[int, pydantic.Field(ge=1, le=1000)] = 1
    timeout: Annotated[float, pydantic.Field(ge=1, le=1e6)] = 600.0
    concurrency: Annotated[int, pydantic.Field(ge=1, le=65536)] | None = None
    transport: str = transports.DEFAULT
    hedge: Annotated[float, pydantic.Field(ge=1)] | None = None
    noise_check: Annotated[float, pydantic.Field(ge=0, le=1)] | None = None
    variants: tuple[str, ...] = ()
    patience: Annotated[float, pydantic.Field(ge=1, le=1e6)] | None = None
    accept_change: bool = False
    faithfulness: bool = False

    @pydantic.field_validator("base_url", "where", "strategy", "variants", mode="before")
    @classmethod
    def _several(cls, given: Any) -> Any:
        """One text stands for a list of one."""
        return (given,) if isinstance(given, str) else given

    @pydantic.field_validator("thinking", mode="before")
    @classmethod
    def _as_words(cls, given: Any) -> Any:
        """`on`, `off` and a number of tokens are no texts in YAML unless they stand in quotation marks."""
        if isinstance(given, bool):
            return "on" if given else "off"
        return str(given) if isinstance(given, int) else given

    def options(self) -> EvalOptions:
        """The experiment as the options of an evaluation."""
        own = self.model_dump(exclude={"schema_", "key", "faithfulness", "base_url", "strategy", "path"})
        return EvalOptions(
            base_urls=self.base_url,
            strategies=self.strategy,
            path=None if self.path is None else Path(self.path),
            **own,
        )

    def text(self) -> str:
        """The experiment as the YAML of its file, with the fields that were set."""
        fields = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return yaml.safe_dump({"schema": 1, **fields}, sort_keys=False, allow_unicode=True)


def read(path: Path) -> Experiment:
    """The experiment in a file. Raises ContentError that names file, line and field."""
    return validation.load_model(path, Experiment, own=False)


def wrong(path: Path, field: str, reason: str) -> ContentError:
    """The error for a value in the file of an experiment that cannot be used, with its line where the file has it."""
    _, lines = validation.load_yaml(path, own=False)
    return ContentError(reason, path=path, line=lines.at((field,)), field=field)
