"""The parts of a run's manifest: what it keeps of a strategy, of the noise check, of the variants, of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tomserve.errors import RunMismatchError

if TYPE_CHECKING:
    from pathlib import Path

    from tomserve.prompting.strategy import Strategy


LONGEST_NAME = 200
"""Most characters of the name of a strategy."""


class Part(BaseModel):
    """A part of the manifest. When it is written, it holds the fields that were given, also unknown ones, and no
    others."""

    model_config = ConfigDict(extra="allow", strict=True)


class AskedStrategy(Part):
    """What the manifest keeps of a strategy.

    digest: a digest of everything that shapes its requests.
    max_tokens: how many tokens a reply may have.
    chain: whether its replies are asked to hold a belief chain.
    turns: how many requests one question takes, 0 where a program decides; written only where it is not one.
    lettered: whether it shows the choices as A, B, C; written only where it does.
    """

    digest: str | None = None
    max_tokens: int | None = None
    chain: bool = False
    turns: int = 1
    lettered: bool = False

    @classmethod
    def of(cls, strategy: Strategy) -> AskedStrategy:
        """The record of a loaded strategy."""
        several = {"turns": strategy.turns or 0} if strategy.several else {}
        letters = {"lettered": True} if strategy.lettered else {}
        fields = {"digest": strategy.digest, "max_tokens": strategy.max_tokens, "chain": strategy.chain}
        return cls.model_validate({**fields, **several, **letters})


class SamplingRecord(Part):
    """How replies are sampled, besides further fields of a request.

    temperature: 0 for greedy decoding. seed: of the first sample. repeats: how many samples a question has.
    """

    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    seed: int | None = None
    repeats: int | None = Field(default=None, ge=1)


def named(strategies: dict[str, AskedStrategy]) -> dict[str, AskedStrategy]:
    """The strategies, of which none has a name that could be a path. Raises ValueError for one that could."""
    for name in strategies:
        if not name or "/" in name or name in (".", "..") or not name.isprintable() or len(name) > LONGEST_NAME:
            raise ValueError(
                f"{name[:60]!r} is no name of a strategy; expected 1 to {LONGEST_NAME} characters without '/'"
            )
    return strategies


class CutPrompts(Part):
    """Prompts that the server cut off: how many, and the fewest and most tokens and characters of one."""

    prompts: int
    tokens: list[int] = Field(min_length=2, max_length=2)
    characters: list[int] = Field(min_length=2, max_length=2)


class Doubts(Part):
    """What makes the replies of a session doubtful.

    cut: the prompts that the server cut off. strange: how many replies ended for a reason of a name that is not known,
    by that name.
    """

    cut: CutPrompts | None = None
    strange: dict[str, int] = {}


class NoiseRecord(Part):
    """What the noise check asks again.

    share: the share of the items that was drawn. seed: that of the draw.
    items, of: how many items were drawn, of how many.
    concurrencies: the numbers of requests in flight at which they are asked again.
    other_engines: engines that answers of the run came from and that differ from the engine of the last session.
    """

    share: float | None = None
    seed: int | None = None
    items: int = 0
    of: int | None = None
    concurrencies: list[int] = []
    other_engines: list[str] = []


class VariantsRecord(Part):
    """The variants of the run's questions (see tomserve.variants).

    kinds: the kinds that were wanted. made: how many variants there are of each. dropped: how many were left out of
    each, by reason.
    """

    kinds: list[str] = []
    made: dict[str, int] = {}
    dropped: dict[str, dict[str, int]] = {}


class TableRecord(Part):
    """The table of a measured run.

    file: its name in the run's folder. bytes: its length. digest: of its content. rows: how many it has.
    """

    file: str
    bytes: int
    digest: str
    rows: int


class MergedPart(Part):
    """A run whose rows a merged run holds (see tomserve.shards.merging).

    run: its name. rows, bytes, digest: of its journal as it was merged, whole lines only; the digest is None where
    nothing was asked yet. complete: whether it had all its answers then.
    """

    run: str
    rows: int = 0
    bytes: int = 0
    digest: str | None = None
    complete: bool = False


class ForeignFile(Part):
    """A file of another tool that a run was made from. name: without its folder. bytes: its length. digest: of its
    content."""

    name: str
    bytes: int
    digest: str


class ForeignRecord(Part):
    """Where a run comes from whose replies another tool collected (see tomserve.interop.bringing).

    tool, version: which tool, and its version where the files say it. tasks: the tasks as the tool names them. files:
    what was read. created: when the tool wrote it, as it says. samples: how many replies were read. left_out: how many
    were not, by reason. matched: how many questions were found in a benchmark of tomserve's; 0 where they were taken
    from the files. counts: whose reading of the replies counts, "tomserve" or "tool" (the grades in the files).
    grades: by which of the tool's scorers or metrics the grades are that the run keeps. other_grades: what other grades
    the files hold. settings: what the files record of how the model was asked.
    """

    tool: str
    version: str | None = None
    tasks: list[str] = []
    files: list[ForeignFile] = []
    created: str | None = None
    samples: int = 0
    left_out: dict[str, int] = {}
    matched: int = 0
    counts: Literal["tomserve", "tool"] = "tool"
    grades: list[str] = []
    other_grades: list[str] = []
    settings: dict[str, Any] = {}


def closed(measured: bool, foreign: ForeignRecord | None) -> str | None:
    """What a run holds that takes no answers of ours: a measurement, or another tool's replies. None for other runs."""
    if measured:
        return "a measurement"
    return None if foreign is None else f"replies that another tool ({foreign.tool[:40]}) collected"


def refuse_closed(folder: Path, measured: bool, foreign: ForeignRecord | None) -> None:
    """Raise RunMismatchError where a run holds what no answers can be added to (see `closed`). folder: the run's."""
    if (held := closed(measured, foreign)) is not None:
        raise RunMismatchError(f"{folder}: holds {held}, to which no answers can be added; use --run NEW")
