"""The folder of a strategy: what its strategy.yaml may say, and which files may lie in it."""

import difflib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from tomserve.content.validation import load_yaml, validate
from tomserve.errors import ConfigError, ContentError, nearest, one_of
from tomserve.items import Item, read_items
from tomserve.prompting.templates import is_near, read_template

PARTS = ("system", "user", "schema", "reply")
"""The templates of a strategy of one turn; each is in a file PART.j2."""

TURN_PARTS = ("system", "user", "schema")
"""The templates of a turn among several; each is in a file TURN.PART.j2."""

CALLS, DEPTH = 64, 8
"""How many requests a program may make for one question and how deep it may call itself, unless strategy.yaml says."""

MOST_CALLS, MOST_TOKENS = 10_000, 2**31
"""The most that strategy.yaml may allow of these, and of the tokens of a reply."""

Mark = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class Settings(BaseModel, extra="forbid", allow_inf_nan=False):
    """How a reply is sampled, where that differs from the run; each is a field of the request."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=0, lt=2**31)  # further samples add to it, and servers take 32 bits
    stop: list[str] | None = Field(default=None, min_length=1)

    def fields(self) -> dict[str, Any]:
        """The fields of the request that are given."""
        names = [name for name in Settings.model_fields if getattr(self, name) is not None]
        return {name: getattr(self, name) for name in names}


class TurnFile(Settings):
    """A turn, as an entry of ``turns`` describes it."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")] = ""  # else turn1, turn2, ...
    max_tokens: int | None = Field(default=None, gt=0, le=MOST_TOKENS)  # else the strategy's
    shared_by: str | list[str] | None = None  # the variables that its templates see, else all: requests of questions
    # that share these are equal
    continues: bool | None = None  # the chat so far; else so does every turn but the first and shared ones

    @property
    def shared(self) -> tuple[str, ...] | None:
        """The variables that the turn's templates see; None for all."""
        if self.shared_by is None:
            return None
        return (self.shared_by,) if isinstance(self.shared_by, str) else tuple(self.shared_by)


class Demonstration(BaseModel, extra="forbid"):
    """Which item is shown as a demonstration."""

    file: str  # relative to the strategy's folder
    item: str  # its id in that file


class Reasoning(BaseModel, extra="forbid"):
    """Where the replies of a strategy hold the reasoning that comes before the answer; one of three."""

    turn: str | None = Field(default=None, min_length=1)  # it is the reply to that turn
    field: str | None = Field(default=None, min_length=1)  # it stands in that field of the JSON reply
    marks: tuple[Mark, Mark] | None = None  # it stands between these texts


class StrategyFile(Settings):
    """What ``strategy.yaml`` may hold."""

    schema_: Literal[1] = Field(alias="schema")
    description: str
    max_tokens: int = Field(gt=0, le=MOST_TOKENS)
    demonstrations: list[Demonstration] = []
    rotate: bool = False  # whether a prompt shows one of the demonstrations, drawn for its story, instead of all
    formerly: str = ""  # the strategy that asked these prompts before it got others, whose older runs find this one
    turns: list[TurnFile] = []
    calls: int = Field(default=CALLS, gt=0, le=MOST_CALLS)  # requests of a program for one question
    depth: int = Field(default=DEPTH, gt=0, le=MOST_CALLS)  # generators inside each other in a program
    lettered: bool = False  # whether the choices are shown as A, B, C, so that a reply may name one by its letter
    reasoning: Reasoning | None = None  # for `tomserve faithfulness`; a list of beliefs needs no mention


class Folder:
    """The files of a strategy: its strategy.yaml (`config`, with its turns by name), its templates and, where there is
    one, its program. Raises ContentError for a mistake in strategy.yaml."""

    def __init__(self, path: Path, overrides: Mapping[str, str]) -> None:
        self.path, self._overrides = path, overrides
        self._shown: dict[Path, dict[str, Item]] = {}  # the files of demonstrations, of which most hold several
        self.file = path / "strategy.yaml"
        if not self.file.exists():
            no_file = "is no strategy, as it has no file strategy.yaml"
            raise ContentError(no_file if path.is_dir() else "is no folder; a strategy is one", path=path)
        data, self._lines = load_yaml(self.file)
        self.config = validate(data, StrategyFile, path=self.file, lines=self._lines)
        self.turns = {turn.name or f"turn{place}": turn for place, turn in enumerate(self.config.turns, 1)}
        program = path / "program.py"
        self.program = program if program.is_file() else None
        self._check()

    @property
    def parts(self) -> list[str]:
        """The names of all templates that there may be, each without its ``.j2``."""
        if not self.turns:
            return list(PARTS)
        return ["system", *(f"{turn}.{part}" for turn in self.turns for part in TURN_PARTS)]

    def source(self, part: str) -> str | None:
        """The text of a template, as overridden where it is; None where there is none."""
        text = self._overrides.get(f"{self.path.name}/{part}", self._overrides.get(part))
        path = self.path / f"{part}.j2"
        if text is not None:
            return text
        return read_template(path, self.path, self.file) if path.exists() else None

    def demonstration(self, entry: Demonstration) -> Item:
        """The item that is shown. Raises ContentError where its file or the item is not there."""
        file = (self.path / entry.file).resolve()
        if not (is_near(self.path / entry.file, self.path) and is_near(file, self.file.resolve().parent)):
            reason = f"{entry.file} lies outside of the folder that holds the strategy; copy it beside strategy.yaml"
            raise self.error(reason, "demonstrations")  # what it shows is sent to the model's server
        if not file.is_file():
            reason = f"{entry.file} is no file (looked for {file}); copy it there along with the strategy"
            raise self.error(reason, "demonstrations")
        items = self._shown.get(file)
        if items is None:
            items = self._shown[file] = {item.id: item for item in read_items(file)}
        if entry.item not in items:
            raise self.error(one_of("item", entry.item, items), "demonstrations")
        return items[entry.item]

    def modules(self) -> list[Path]:
        """The program and the files beside it that it may read or import."""
        return [path for path in self._files() if path.suffix != ".j2"] if self.program else []

    def refuse_strays(self, included: Collection[str]) -> None:
        """Raise ContentError for a file that no part of the strategy reads, since its name may be mistyped. included:
        the files that templates include, relative to the folder."""
        known = [f"{part}.j2" for part in self.parts]
        for path in self._files():
            if path.name in known or path.name in included or (self.program and path.suffix != ".j2"):
                continue
            if any((self.path / one.file).resolve() == path.resolve() for one in self.config.demonstrations):
                continue
            hint = nearest(path.name, known) or ". It reads strategy.yaml, README.md, " + ", ".join(known)
            if not self.turns and path.suffix == ".j2":
                hint += "; a strategy of several turns names them under `turns` in strategy.yaml"
            raise ContentError(f"is a file that this strategy does not read{hint}", path=path)

    def missing(self, name: str, turn: str = "") -> ContentError:
        """The error where the file `name` lacks, without which nothing can be asked. It names one that nothing reads,
        if any, as that one is probably mistyped."""
        known = {f"{part}.j2" for part in self.parts}
        strays = [path.name for path in self._files() if path.suffix == ".j2" and path.name not in known]
        alike = difflib.get_close_matches(name, strays, n=1)
        reason = f"is missing, which the turn {turn!r} of strategy.yaml needs" if turn else "is missing"
        hint = f"; there is a file {alike[0]!r} that nothing reads: are both names right?" if alike else ""
        return ContentError(reason + hint, path=self.path / name)

    def _files(self) -> Iterator[Path]:
        """The files of the folder that shape what is asked, or would if they had the right names."""
        for path in sorted(self.path.iterdir()):
            note = path.name.startswith((".", "README", "LICENSE")) or path.name.endswith("~")
            if path.is_file() and not note and path.name != "strategy.yaml":
                yield path

    def _check(self) -> None:
        """Raise ContentError where strategy.yaml contradicts itself, ConfigError for an override of no part."""
        config = self.config
        if len(self.turns) < len(config.turns):
            names = [turn.name or f"turn{place}" for place, turn in enumerate(config.turns, 1)]
            twice = next(name for name in names if names.count(name) > 1)
            raise self.error(f"two turns are called {twice!r}", "turns")
        if self.program and not self.turns:
            raise self.error("a program asks turns by their names; list them under `turns`")
        if config.rotate and len(config.demonstrations) < 2:
            raise self.error("needs two demonstrations or more to choose from", "rotate")
        if self.turns and config.demonstrations:
            raise self.error("only a strategy of one turn shows them; write them into a template", "demonstrations")
        for field in ("calls", "depth"):
            if field in config.model_fields_set and not self.program:
                raise self.error("is for a program, and there is no program.py; leave it out", field)
        for place, (name, turn) in enumerate(self.turns.items()):
            if turn.continues is not None and self.program:
                raise self.error("the program says what a turn follows; leave it out", "turns", place, "continues")
            if turn.continues and (not place or turn.shared):
                reason = f"{name} cannot continue: " + ("it is shared" if place else "it is the first")
                raise self.error(reason, "turns", place, "continues")
        self._check_reasoning()
        for key in self._overrides:
            strategy, slash, part = key.rpartition("/")
            known = self.parts if slash else PARTS
            if part not in known and strategy in ("", self.path.name):
                raise ConfigError(f"prompt_parts: {key}: {one_of('part', part, known)}")

    def _check_reasoning(self) -> None:
        """Raise ContentError where strategy.yaml says in no way, or in several ways, where the reasoning is."""
        if (found := self.config.reasoning) is None:
            return
        if sum(one is not None for one in (found.turn, found.field, found.marks)) != 1:
            raise self.error("expected one of `turn: NAME`, `field: NAME` and `marks: [BEFORE, AFTER]`", "reasoning")
        before_last = list(self.turns)[: None if self.program else -1]
        if found.turn is not None and found.turn not in before_last:
            reason = one_of("turn", found.turn, before_last)
            raise self.error(f"{reason} (one before the turn that answers)", "reasoning", "turn")
        if found.turn is None and self.turns:
            raise self.error("a strategy of several turns names the turn that reasons", "reasoning")

    def error(self, reason: str, *loc: str | int) -> ContentError:
        """The error of a mistake in strategy.yaml. loc: the path to the field, such as "turns", 0, "continues"."""
        field = ".".join(str(part) for part in loc)
        return ContentError(reason, path=self.file, line=self._lines.at(loc), field=field)
