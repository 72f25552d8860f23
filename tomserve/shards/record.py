"""The record ``shards.json`` of an evaluation that is divided into parts: what the whole asks, and which part holds how
much of it.

It lies in the folder of the parts, by default ``runs/NAME.parts/``, and never changes once it is written. Part 3 is the
run folder ``runs/NAME.parts/0003/``, in which ``items.jsonl`` holds its questions from the beginning. What a part is to
ask follows from this record, those items, and the prompts of its strategies, whose digests the record holds.

>>> folder_of("mine")                                                                            # doctest: +SKIP
PosixPath('runs/mine.parts')
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import pydantic

from tomserve.content import digest_of, files
from tomserve.content.paths import PARTS_ENDING, run_name
from tomserve.content.validation import Name, RunName, check_part, validation_error
from tomserve.errors import ConfigError
from tomserve.runs.manifest import AskedStrategy, VariantsRecord, check_strategy_names
from tomserve.runs.runfolder import PARTS, run_path
from tomserve.shards.wish import Wish

FILE = PARTS
"""The name of the record in the folder of the parts."""

ITEMS = "items.jsonl"
"""The name of the file in the folder of a part that holds its questions from the beginning."""

MOST = 10_000
"""How many parts an evaluation may have. Their folders have names of four digits."""

EXPECTED = 4
"""A reply is expected to take one in so many of the tokens that it may have: bounds are set so that hardly any reply is
cut off, and most replies are far shorter. The bound itself is what the record holds."""

WAY_OUT = "restore the file, or divide the evaluation again under another name"

Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class PartRecord(_Part):
    """One part of an evaluation.

    items: how many questions it holds, variants included. requests: how many first requests it sends, one for each
    item, strategy and sample. prompt_tokens: about how many tokens its prompts have. shared_tokens: about how many of
    these a prefix cache that forgets nothing would save. reply_tokens: at most how many tokens its replies have.
    digest: of its items, which does not depend on their order. again: the ids of the items that its noise check asks
    again.
    """

    items: Count
    requests: Count
    prompt_tokens: Count
    shared_tokens: Count
    reply_tokens: Count
    digest: str
    again: tuple[str, ...] = ()

    @property
    def weight(self) -> int:
        """How much work it is, in tokens: those of the prompts that are computed, and those expected in the replies."""
        return self.prompt_tokens - self.shared_tokens + self.reply_tokens // EXPECTED


class Shards(_Part):
    """What an evaluation asks that is divided into parts.

    run: the name of the run that the parts are merged into. experiment: what the user wants, with the fields of the
    file of an experiment (tomserve.api.experiments). benchmark, benchmark_path, benchmark_gold, benchmark_digest,
    benchmark_items, provenance: as the manifest of the whole run has them. model, revision, preset: of the model.
    sampling, strategies, variants: as in the manifest. noise: the share of the originals that is asked again, 0 for
    none. originals: how many items are no variants. shared_tokens: about how many tokens of its prompts a prefix cache
    that forgets nothing would save, if the evaluation were not divided. parts: in the order in which their prompts
    would be asked.
    """

    schema_: Literal[1] = pydantic.Field(alias="schema", default=1)
    run: RunName
    created: str
    tomserve: str
    experiment: dict[str, Any]
    benchmark: str
    benchmark_path: str | None = None
    benchmark_gold: str | None = None
    benchmark_digest: str
    benchmark_items: Count
    provenance: dict[str, Any] = {}
    model: str
    revision: str | None = None
    preset: Name | None = None
    sampling: dict[str, Any]
    strategies: dict[str, AskedStrategy]
    variants: VariantsRecord | None = None
    noise: Annotated[float, pydantic.Field(ge=0, le=1)] = 0.0
    originals: Count = 0
    shared_tokens: Count = 0
    parts: Annotated[tuple[PartRecord, ...], pydantic.Field(min_length=1, max_length=MOST)]

    _named = pydantic.field_validator("strategies")(check_strategy_names)

    @pydantic.field_validator("experiment")
    @classmethod
    def _wished(cls, experiment: dict[str, Any]) -> dict[str, Any]:
        check_part(experiment, Wish)
        return experiment

    @property
    def wish(self) -> Wish:
        """What the user wants, with its types."""
        return Wish.model_validate(self.experiment)

    @property
    def digest(self) -> str:
        """The digest by which parts name the evaluation that they belong to."""
        return digest_of([self.text()])

    def text(self) -> bytes:
        """The record as it is written."""
        held = self.model_dump(mode="json", by_alias=True)
        return orjson.dumps(held, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"

    def write(self, folder: Path) -> None:
        """Write the record to a folder of parts. Raises OSError where that is not possible."""
        with files.replace_file(folder / FILE) as file:
            file.write(self.text())

    @classmethod
    def read(cls, folder: Path) -> Shards:
        """The record in a folder of parts. Raises ConfigError, by file and field, where it is missing or broken."""
        path = folder / FILE
        try:
            data = files.read_json(path, WAY_OUT)
        except FileNotFoundError:
            raise ConfigError(f"{folder}: holds no parts ({FILE} is missing); `tomserve shard` makes them") from None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        try:
            return cls.model_validate(data)
        except pydantic.ValidationError as error:
            raise validation_error(error, data, cls, path, WAY_OUT) from None


def merged_into(folder: Path) -> Path:
    """The folder of the run that parts are merged into, beside theirs, unless the user says otherwise."""
    return folder.with_name(Shards.read(folder).run.rpartition("/")[2])


def part_folder(folder: Path, number: int) -> Path:
    """The run folder of a part. folder: that of the parts. number: of the part, from 0."""
    return folder / f"{number:04}"


def folder_of(given: str) -> Path:
    """The folder of the parts of an evaluation, by the name of its run, or by the folder's own name or path.

    ``mine`` and ``mine.parts`` both mean ``runs/mine.parts``. Raises ConfigError for a name that no folder may have.
    """
    path = run_path(given)
    return (
        path if path.name.endswith(PARTS_ENDING) or (path / FILE).exists() else path.with_name(path.name + PARTS_ENDING)
    )


def called(folder: Path) -> str:
    """What commands find a folder of parts by: the name of its run, or the folder's path where it lies elsewhere."""
    name = run_name(folder).removesuffix(PARTS_ENDING)
    return name if folder_of(name).resolve() == folder.resolve() else str(folder.resolve())
