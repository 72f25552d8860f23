"""The benchmark `items`: questions from a user's own file, which is given by ``--path``.

The file holds items (JSONL or YAML); or it is a *mapping*, YAML that names a table of questions in somebody else's form
beside it (CSV, JSON lines, JSON) and says what its fields mean.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

import orjson
import polars as pl
from pydantic import Field, ValidationError, field_validator

from tomserve.benchmarks.base import NAME, Benchmark, Findings, Say
from tomserve.benchmarks.counterfactuals import WANTED, Case, NoCase, read_cases
from tomserve.benchmarks.published.base import (
    RULES,
    audit_items,
    digest_key,
    number_again,
    one_line,
    read_texts,
    split_lines,
    split_sentences,
)
from tomserve.content import files
from tomserve.content.rows import Sheet, json_rows
from tomserve.content.validation import Strict, load_yaml, validate
from tomserve.errors import ConfigError, ContentError, nearest
from tomserve.items import Factor, Item, read_items
from tomserve.items.draw import seeded_order


class _Form(Strict):
    """How a question is made of a row. Texts are templates, in which ``{name}`` is what the row's field of that name
    holds, ``{a.b}`` the field b of the object, or the place b of the list, in its field a, and ``{name~PATTERN}`` what
    the regular expression finds in it."""

    id: str | None = None
    story: str | list[str] = ""
    question: str = ""
    choices: str | list[str] = ""
    answer: str = ""
    answer_is: Literal["text", "letter", "number from 0", "number from 1"] = "text"
    factors: dict[str, Factor] = {}  # templates, or what is the same for all rows
    cluster: str | None = None
    only: dict[str, list[str]] = {}  # the values of fields that a row must have
    skip: dict[str, list[str]] = {}  # those that it must not have
    shuffle: int | None = None  # the seed of the order of choices, which is drawn for each question


class _Mapping(_Form):
    """A mapping. What it says holds for each of `questions`, which add to it or say otherwise."""

    schema_: Literal[1] = Field(alias="schema")
    data: str
    rows: str = ""  # the field of a JSON file in which the list of rows stands
    benchmark: Annotated[str, Field(pattern=rf"^{NAME.pattern}$")] = "items"
    questions: list[_Form] = []

    @field_validator("data")
    @classmethod
    def _check_place(cls, given: str) -> str:
        if Path(given).is_absolute() or ".." in Path(given).parts:
            raise ValueError(f"expected a file beside this one, or below it; found {given!r:.80}")
        return given

    def forms(self) -> Iterator[_Form]:
        """The forms of the questions that are made of each row."""
        for one in self.questions or [_Form()]:
            given = {name: getattr(one, name) for name in one.model_fields_set}
            merged = {name: {**getattr(self, name), **getattr(one, name)} for name in ("factors", "only", "skip")}
            yield self.model_copy(update=given | merged)


_FIELD = re.compile(r"\{([^{}]+)\}")
_MARKED = re.compile(r"\(?([A-Za-z]|\d)[.:)]\)?\s*(\S.*)")
_LETTER = re.compile(r"\(?([A-Za-z])\)?(?:[.:)](?:\s.*)?)?", re.S)


LONG, TIMES = 1_000_000, 20
"""A text that a mapping makes is refused where it has more characters than LONG, and than so many times its row."""


class _Row(NamedTuple):
    """A row of the table, and where it stands."""

    file: Path
    number: int  # its line; of a JSON file its place in the list, from 0
    data: Mapping[str, Any]
    mapping: str  # the name of the mapping

    def refuse(self, field: str, reason: str) -> NoReturn:
        """Raise ContentError for what a field of the mapping makes of the row."""
        line, place = (None, f"[{self.number}] ") if self.file.suffix == ".json" else (self.number, "")
        way_out = f"mend the row or {field!r} in {self.mapping}, or leave the row out by 'skip'"
        raise ContentError(f"{reason}; {way_out}", path=self.file, line=line, field=f"{place}{field}")

    def value(self, field: str, name: str) -> Any:
        """What stands in the row's field of that name, or what a pattern behind it finds there."""
        found: Any = self.data
        name, _, pattern = name.partition("~")
        for part in (name,) if name in self.data else name.split("."):
            try:
                found = found[int(part)] if isinstance(found, list) else found[part]
            except (KeyError, IndexError, ValueError, TypeError):
                near = nearest(name, self.data)
                self.refuse(field, f"the row has no field {name!r:.80}{near}; it has: {', '.join(self.data)[:200]}")
        if not pattern:
            return found
        try:  # Polars searches in linear time, whatever a stranger's pattern is
            part_of = pl.Series([_plain(found)]).str.extract(pattern, 0)[0]
        except pl.exceptions.ComputeError as error:
            reason = str(error).partition("error: ")[2].partition("\nerror: ")[2].partition("\n")[0]
            self.refuse(field, f"{pattern!r:.80} is no regular expression that can be used ({reason})")
        if part_of is None:
            self.refuse(field, f"{pattern!r:.80} finds nothing in {_plain(found)!r:.80}")
        return part_of

    def fill(self, field: str, template: Any) -> Any:
        """The template filled in; the value itself, of whatever type, where it is one field and nothing else."""
        if not isinstance(template, str):
            return template
        if whole := _FIELD.fullmatch(template):
            return self.value(field, whole[1])
        parts = enumerate(_FIELD.split(template))  # texts, and the names between them
        return "".join(self.bounded(field, (_plain(self.value(field, one)) if at % 2 else one for at, one in parts)))

    def bounded(self, field: str, texts: Iterable[str]) -> list[str]:
        """The texts, which together are a question. Raises ContentError where a template repeats what the row holds
        until they are longer than LONG characters and TIMES the row."""
        found, size, most = [], 0, LONG
        for text in texts:
            found.append(text)
            if (size := size + len(text)) > most and size > (most := max(LONG, TIMES * self.length())):
                self.refuse(field, f"makes a text of more than {LONG:,} characters, {TIMES} times as long as the row")
        return found

    def length(self) -> int:
        """The characters of all that it holds."""
        return sum(map(len, map(_plain, self.data.values())))

    def text(self, field: str, template: str) -> str:
        """The template filled in as a text, not empty."""
        if not (text := _plain(self.fill(field, template)).strip()):
            self.refuse(field, "is empty; expected a text")
        return text

    def texts(self, field: str, template: str | Sequence[str]) -> list[str]:
        """The texts that the templates give, those of lists and objects apart, without what is empty at the end."""
        found: list[Any] = []
        for one in [template] if isinstance(template, str) else template:
            value = self.fill(field, one)
            found += value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
        said = self.bounded(field, (_plain(one).strip() for one in found))
        while said and not said[-1]:
            said.pop()
        return said

    def meets(self, wanted: Mapping[str, Sequence[str]], field: str) -> Iterator[bool]:
        """Whether each of these fields has one of its values."""
        return (_plain(self.value(field, name)) in values for name, values in wanted.items())


def _plain(value: Any) -> str:
    """A value as text, as JSON writes it; null is empty."""
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()


def _listed(text: str) -> list[str]:
    """The choices that a text lists, as JSON or Python writes a list or with a mark at each line; none where it does
    not."""
    if texts := read_texts(text):
        return texts
    marked = [found for line in split_lines(text) if (found := _MARKED.fullmatch(line))]
    marks = "".join(one[1].upper() for one in marked)
    ordered = any(order.startswith(marks) for order in (string.ascii_uppercase, string.digits, string.digits[1:]))
    return [one[2] for one in marked] if ordered and len(marked) == len(split_lines(text)) else []


def _item(row: _Row, form: _Form, benchmark: str, ids: Counter[str]) -> Item:
    """The question that a form makes of a row. Raises ContentError by file, line and field where it makes none."""
    story, question = row.texts("story", form.story), row.text("question", form.question)
    parts = split_lines("\n".join(story))
    choices = row.texts("choices", form.choices)
    choices = [*map(one_line, choices if len(choices) > 1 else _listed("".join(choices)))]
    if len(choices) < 2:
        row.refuse("choices", "gives fewer than two; expected a list, or a text with a line such as 'A. tea' for each")
    answer = _answer(row, form, choices, row.text("answer", form.answer))
    if form.id is None:
        name = number_again(ids, digest_key(parts, question, sorted(choices)))
    elif number_again(ids, name := row.text("id", form.id)) != name:
        row.refuse("id", f"{name!r:.80} was already given")
    try:
        return Item(
            id=name,
            benchmark=benchmark,
            story=parts if len(parts) > 1 else split_sentences("\n".join(story)),
            question=question,
            choices=choices if form.shuffle is None else seeded_order(choices, form.shuffle, name),
            answer=answer,
            factors={factor: row.fill("factors", value) for factor, value in form.factors.items()},
            cluster=row.text("cluster", form.cluster) if form.cluster is not None else digest_key(parts),
        )
    except ValidationError as error:
        wrong = error.errors()[0]
        row.refuse(".".join(map(str, wrong["loc"])) or "choices", " ".join(wrong["msg"].split())[:200])


def _answer(row: _Row, form: _Form, choices: Sequence[str], given: str) -> str:
    """The choice that is right."""
    if form.answer_is == "text":
        same = [one for one in choices if one.casefold() == one_line(given).casefold()]
        return same[0] if same else row.refuse("answer", f"{given!r:.80} is none of the choices {choices!r:.200}")
    if form.answer_is == "letter":
        letter = _LETTER.fullmatch(given)
        place = ord(letter[1].upper()) - ord("A") if letter else -1
    else:
        place = int(given) - int(form.answer_is[-1]) if given.isdecimal() and len(given) < 4 else -1
    if not 0 <= place < len(choices):
        row.refuse("answer", f"{given!r:.80} is no {form.answer_is} of one of {len(choices)} choices")
    return choices[place]


def _rows(mapping: _Mapping, path: Path) -> Iterator[_Row]:
    """The rows of a mapping's table. Raises ConfigError by file and line where it is none."""
    file = path.parent / mapping.data

    def refuse(reason: str, line: int) -> NoReturn:
        raise ContentError(f"the row {reason}", path=file, line=line)

    with files.refuse_os_errors(file):
        if file.suffix == ".json":
            yield from (_Row(file, number, row, path.name) for number, row in _json_list(file, mapping.rows))
            return
        with files.open_own(file) as opened:
            lines = files.read_lines(opened, file)
            sheet = file.suffix in (".csv", ".tsv")
            found = Sheet(file, lines, refuse).rows() if sheet else json_rows(file, lines, refuse)
            yield from (_Row(file, line, row, path.name) for line, row in found)


def _json_list(file: Path, rows: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of the list, or of the object, that stands in a JSON file's field `rows`."""
    found = files.read_json(file, "a file with an object on each line is called .jsonl, and may be longer")
    for part in filter(None, rows.split(".")):
        found = found.get(part) if isinstance(found, dict) else None
    listed = list(found.values()) if isinstance(found, dict) else found
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise ContentError("expected a list of objects; name its field by 'rows'", path=file, field=rows)
    yield from enumerate(listed)


def _mapped(mapping: _Mapping, path: Path) -> Iterator[Item]:
    """The items that a mapping makes of its table. Raises ContentError where it makes none."""
    forms, ids, some = list(mapping.forms()), Counter[str](), False
    for form in forms:
        if missing := [name for name in ("story", "question", "choices", "answer") if not getattr(form, name)]:
            raise ContentError("is missing; expected a template such as '{text}'", path=path, field=missing[0])
    for row in _rows(mapping, path):
        for form in forms:
            if all(row.meets(form.only, "only")) and not any(row.meets(form.skip, "skip")):
                some = True
                yield _item(row, form, mapping.benchmark, ids)
    if not some:
        raise ContentError("no row is left by 'only' and 'skip', or the table has none", path=path)


def _mapping_of(path: Path) -> _Mapping | None:
    """The mapping in that file; None for a file of items."""
    if path.suffix not in (".yaml", ".yml"):
        return None
    data, lines = load_yaml(path)
    if not isinstance(data, dict) or "data" not in data:
        return None
    mapping = validate(data, _Mapping, path=path, lines=lines)
    real = (path.parent / mapping.data).resolve()
    if not any(real.is_relative_to(folder) for folder in (path.resolve().parent, path.parent.resolve())):
        # what stands in it is sent to the model's server
        raise ContentError(f"is a link to {one_line(str(real))}; put the file itself there", path=path, field="data")
    return mapping


def tables_of(path: Path) -> list[Path]:
    """The table that the file `path` reads, where it is a mapping. Raises ContentError by line for a broken one."""
    mapping = _mapping_of(path)
    return [path.parent / mapping.data] if mapping is not None else []


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the file `path`, or those that this mapping makes of a table. Raises ConfigError without a path,
    ContentError by file and line for a mistake."""
    del gold  # the benchmark has one set of answers, so no other can be asked for
    path = _require_path(path).expanduser()
    mapping = _mapping_of(path)
    return read_items(path) if mapping is None else _mapped(mapping, path)


def cases(path: Path | None = None, where: Sequence[str] = ()) -> Iterator[Case | NoCase]:
    """The counterfactual cases of the file `path`, whatever the conditions. Raises as `load` does."""
    del where
    path = _require_path(path)
    if _mapping_of(path) is not None:
        raise ContentError(f"is a mapping, which makes items without cases; {WANTED}", path=path)
    return read_cases(path)


def audit(path: Path | None, say: Say) -> Findings:
    """The audit of the file `path`, by the factor `task` where items have it. Raises as `load` does."""
    return audit_items(load(path), ("task",), RULES)


def _require_path(path: Path | None) -> Path:
    if path is None:
        raise ConfigError("benchmark 'items' needs a file: --path FILE.jsonl, or a mapping FILE.yaml")
    return path


BENCHMARK = Benchmark("items", load, mixed=True, audit=audit, cases=cases)
"""Items that were exported from a benchmark are drawn as there (see tomserve.benchmarks.draw_of), others in whole
clusters."""
