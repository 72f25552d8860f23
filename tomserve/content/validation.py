"""Validate YAML and JSON files with pydantic, with errors in plain words that name the file, the line and the field.

A name in a record that may come from a stranger is never a path: such a field is declared by one of the types Name,
ModelName and RunName.
"""

import contextlib
import os
import re
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import orjson
import pydantic
import yaml

from tomserve.content import files, paths
from tomserve.errors import ConfigError, ContentError, nearest

Model = TypeVar("Model", bound=pydantic.BaseModel)
Loc = tuple[str | int, ...]  # the path to a value: keys and list positions from the top of the file

_PLAIN = {
    str: ("a text", "texts"),
    bool: ("true or false", "values true or false"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
}
"""What a value of these types is called, and several of them."""

_WRONG_TYPE = ("_type", "_parsing", "_from_float", "_parsing_size", "_attributes_type")
"""How the types of errors end that say no more than that a value has the wrong type."""

_BOUNDS = {"greater_than": "above {gt:g}", "less_than": "below {lt:g}"} | {
    "greater_than_equal": "of at least {ge:g}",
    "less_than_equal": "of at most {le:g}",
}
_PATTERNS = {
    r"^[A-Z0-9]{4,8}$": "four to eight capital letters and digits",
    r"^[^\x00-\x1f]+$": "a text on one line, without tabs and other control characters, and not empty",
    r"^[a-z0-9][a-z0-9_-]*$": "small letters, digits, '_' and '-', beginning with a letter or digit",
    r"^[a-z0-9][a-z0-9._-]*$": "small letters, digits, '.', '_' and '-', beginning with a letter or digit",
}
"""What a text has to look like, by the pattern that checks it."""


class Strict(pydantic.BaseModel):
    """A part of a file or record that refuses fields that it does not know, and does not change."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, defer_build=True)


def check_part(data: Mapping[str, Any], model: type[pydantic.BaseModel]) -> None:
    """Check a part of a record that is held as plain values. For a validator of the record, which then names the field.
    Raises ValueError that says in words what of it does not fit the model."""
    try:
        model.model_validate(data)
    except pydantic.ValidationError as error:
        first = choose_error(error)
        raise ValueError(f"{first['loc'][0]}: {explain(first, data, model)}") from None


def choose_error(error: pydantic.ValidationError) -> Mapping[str, Any]:
    """The error to show first. A misspelt key appears twice, as unknown and as missing; the unknown one is what the
    author has to see."""
    errors = error.errors(include_url=False)
    return next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])


def place_of(error: Mapping[str, Any], data: Any) -> Loc:
    """The path to the value that an error is about, as far as it is in the data. pydantic adds to the path which of
    several types it tried; an author knows nothing of these."""
    loc: Loc = tuple(error["loc"])
    if data is None or error["type"] in ("missing", "extra_forbidden"):
        return loc
    for length, part in enumerate(loc):
        parts = data if isinstance(data, dict) else dict(enumerate(data)) if isinstance(data, list) else {}
        if part not in parts:
            return loc[:length]
        data = parts[part]
    return loc


def validation_error(
    error: pydantic.ValidationError, data: Any, model: type[pydantic.BaseModel], path: Path, way_out: str
) -> ConfigError:
    """The error for a file whose data the model does not take, which names the file, the field and the way out."""
    first = choose_error(error)
    field = dot_path(place_of(first, data))
    return ConfigError(f"{path}: {field}: {explain(first, data, model)}; {way_out}")


def read_record(path: Path, model: type[Model], way_out: str) -> Model | None:
    """The record in a file of JSON, which may come from anybody; None where there is no file. way_out: what to do about
    a broken one. Raises ConfigError by file and field where it cannot be read or is none."""
    try:
        data = files.read_json(path, way_out)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        return model.model_validate_json(orjson.dumps(data))  # of Python's lists a strict model would take no tuples
    except pydantic.ValidationError as error:
        raise validation_error(error, data, model, path, way_out) from None


def note_own(kind: str, record: Mapping[str, Any]) -> None:
    """Note for this user, as far as the disk allows, that a record in a folder is his own and no stranger's."""
    with contextlib.suppress(OSError):
        noted = _note(kind, record)
        files.make_private(noted.parent)
        noted.touch(mode=0o600)


def forget_own(kind: str, record: Mapping[str, Any]) -> None:
    """Take a note back: the record is no longer this user's, as another took its place."""
    with contextlib.suppress(OSError):
        _note(kind, record).unlink()


def is_own(kind: str, record: Mapping[str, Any]) -> bool:
    """Whether this user has written the record, which he then noted."""
    return _note(kind, record).exists()


def note_dataset(path: str | Path) -> None:
    """Note that this user has named a file or folder of data."""
    note_own(DATASETS, _dataset(path))


def is_own_dataset(path: str | Path) -> bool:
    """Whether this user has named that file or folder of data: no other is opened because a run's manifest names it."""
    return is_own(DATASETS, _dataset(path))


DATASETS = "datasets"


def _dataset(path: str | Path) -> dict[str, str]:
    return {"path": paths.recordable(os.path.abspath(Path(path).expanduser()))}


def _note(kind: str, record: Mapping[str, Any]) -> Path:
    name = paths.digest(orjson.dumps(record, option=orjson.OPT_SORT_KEYS))
    return paths.state_root() / "tomserve" / kind / name.removeprefix("sha256:")


def explain(error: Mapping[str, Any], data: Any, model: type[pydantic.BaseModel]) -> str:
    """One pydantic error as one line: what was expected, what was found, and for an unknown key those that are known.
    error: an entry of `ValidationError.errors()`; data: what was validated; model: what it was validated as."""
    kind, context = error["type"], error.get("ctx", {})
    loc = place_of(error, data)
    wanted = _type_at(loc, model)
    if kind == "extra_forbidden":
        submodel = model_in(_type_at(loc[:-1], model))
        known = [] if submodel is None else sorted(keys_of(submodel))
        return f"unknown key{nearest(str(loc[-1]), known) or '.'} Known: {', '.join(known)}" if known else "unknown key"
    if kind == "missing":
        return _missing(loc, wanted, _describe_expectation(loc, model))
    if kind in ("value_error", "assertion_error"):
        return str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    found = error["input"]
    if kind == "literal_error":
        choices = [str(one) for one in get_args(_bare(wanted))]
        near = nearest(found, choices) if isinstance(found, str) else ""
        expected = f"expected {context['expected']}" if len(choices) < 2 else f"expected one of {', '.join(choices)}"
        return f"{expected}; found {show_value(found)}{near}"
    if kind in ("string_too_short", "string_too_long", "too_short", "too_long"):
        return _size(kind, context, found)
    if kind in _BOUNDS:
        number = "a whole number" if _bare(wanted) is int else "a number"
        return f"expected {number} {_BOUNDS[kind].format(**context)}; found {show_value(found)}"
    if kind == "string_pattern_mismatch":
        look = _PATTERNS.get(context["pattern"], f"a text that matches the pattern {context['pattern']}")
        return f"expected {look}; found {show_value(found)}"
    if kind.endswith(_WRONG_TYPE) or wanted is not None:
        return f"expected {_describe_expectation(loc, model)}; found {show_value(found)}"
    return f"{str(error['msg']).lower()}; found {show_value(found)}"


def _missing(loc: Loc, wanted: Any, expected: str) -> str:
    if loc and loc[-1] == "schema":
        (version,) = get_args(_bare(wanted)) or (1,)
        return f"is missing; write `schema: {version}`, which says of which form this file is"
    return f"is missing; expected {expected}"


def _size(kind: str, context: Mapping[str, Any], found: Any) -> str:
    """What is wrong with the length of a text, a list or a mapping."""
    least = "too_short" in kind
    count = context["min_length" if least else "max_length"]
    what = "character" if kind.startswith("string") else "entry"
    many = {"character": "characters", "entry": "entries"}[what]
    has = "nothing" if not found else f"{len(found)}" if what == "entry" else show_value(found)
    return f"expected at {'least' if least else 'most'} {count} {what if count == 1 else many}; found {has}"


def describe_type(annotation: Any) -> str:
    """What a value of that type is, in words.

    >>> describe_type(tuple[str, ...]), describe_type(int | None), describe_type(Literal["a", "b"])
    ('a list of texts', 'a whole number', 'one of a, b')
    """
    bare = _bare(annotation)
    origin, arguments = get_origin(bare), [one for one in get_args(bare) if one is not type(None)]
    if bare in _PLAIN:
        return _PLAIN[bare][0]
    if origin is Literal:
        return str(arguments[0]) if len(arguments) == 1 else f"one of {', '.join(map(str, arguments))}"
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(describe_type, arguments)))
    if origin is tuple and Ellipsis not in arguments:
        return f"a list of {len(arguments)} values: {', '.join(map(describe_type, arguments))}"
    if origin in (list, tuple, frozenset, set):
        inner = _bare(arguments[0])
        return f"a list of {_PLAIN[inner][1]}" if inner in _PLAIN else "a list"
    if origin in (dict, Mapping) or bare in (dict, Mapping):
        return "a mapping of keys to values"
    if (model := model_in(bare)) is not None:
        return f"a mapping with the keys {', '.join(keys_of(model))}"
    return "a value"


def show_value(value: Any) -> str:
    """A value as a message shows it, in at most 60 characters."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    try:
        if isinstance(value, Mapping):
            return f"a mapping with the keys {', '.join(map(str, value))}"[:60] if value else "an empty mapping"
        text = repr(list(value) if isinstance(value, tuple) else value)
    except RecursionError:
        return "values within too many others"
    return text if len(text) <= 60 else text[:57] + "..."


def keys_of(model: type[pydantic.BaseModel]) -> list[str]:
    """The keys that a model has in a file, in the order of its fields."""
    return [info.alias or name for name, info in model.model_fields.items()]


def model_in(annotation: Any) -> type[pydantic.BaseModel] | None:
    """The pydantic model that an annotation is or contains (as one of a union); None where there is none."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    return next((submodel for arm in get_args(annotation) if (submodel := model_in(arm)) is not None), None)


def _describe_expectation(loc: Loc, model: type[pydantic.BaseModel]) -> str:
    """What a value at `loc` is to be, in words: those that describe the field, else those for its type."""
    parent = model_in(_type_at(loc[:-1], model)) if loc else None
    own = {info.alias or name: info.description for name, info in parent.model_fields.items()} if parent else {}
    return own.get(str(loc[-1]) if loc else "") or describe_type(_type_at(loc, model))


def _type_at(loc: Loc, model: type[pydantic.BaseModel]) -> Any:
    """The type that a value at `loc` is to have, found by following the fields' annotations; None where unknown."""
    annotation: Any = model
    for part in loc:
        bare = _bare(annotation)
        arguments = [one for one in get_args(bare) if one not in (type(None), Ellipsis)]
        origin = get_origin(bare)
        if origin is tuple and Ellipsis not in get_args(bare) and isinstance(part, int) and part < len(arguments):
            annotation = arguments[part]
        elif origin in (dict, Mapping, list, tuple, frozenset, set):
            annotation = arguments[-1]
        elif (submodel := model_in(bare)) is not None:
            fields = {info.alias or name: info.annotation for name, info in submodel.model_fields.items()}
            annotation = fields.get(str(part))
        else:
            return None
    return annotation


def _bare(annotation: Any) -> Any:
    """The type without what is annotated to it, and without the None of an optional value."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        kept = [one for one in get_args(annotation) if one is not type(None)]
        if len(kept) == 1:
            return _bare(kept[0])
    return annotation


SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in its faster version where libyaml is installed."""

MOST = 1 << 16  # the most bytes of a file that may come from somebody else; experiments have a few hundred
DEEPEST = 100  # lists and mappings within others


class YamlLines(dict[Loc, int]):
    """The line (counted from 1) of every key and list entry, by its path."""

    def at(self, loc: Loc) -> int | None:
        """The line of `loc`, or of its closest ancestor that is in the file; None where there is neither."""
        while loc and loc not in self:
            loc = loc[:-1]
        return self.get(loc)


def load_yaml(path: Path, *, own: bool = True) -> tuple[Any, YamlLines]:
    """The data of a YAML file with the lines of all keys. own: whether it is the user's own; another may be no link and
    no pipe, and has at most MOST bytes. Raises ContentError for what is unreadable, empty, endless, broken, or holds an
    alias, deep nesting, or a key twice."""
    return _parse_yaml(_read_yaml(path, own=own), path)


def _read_yaml(path: Path, *, own: bool) -> str:
    """The text of a YAML file, within the bounds of load_yaml."""
    most = files.LONGEST_LINE if own else MOST
    try:
        with files.open_own(path) if own else files.open_for_reading(path) as file:
            read = file.read(most + 1)
        if len(read) > most:
            raise ContentError(f"has more than {most:,} bytes; expected a small file of YAML", path=path)
        return read.decode("utf-8")
    except OSError as error:
        raise ContentError(f"cannot be read ({error.strerror})", path=path) from None
    except UnicodeDecodeError as error:
        raise ContentError(f"is not UTF-8 (byte {error.start})", path=path) from None


def _parse_yaml(text: str, path: Path) -> tuple[Any, YamlLines]:
    """What load_yaml makes of the text of a file."""
    lines = YamlLines()
    loader: Any = None
    try:
        _check_bounds(text, path)
        loader = SAFE_LOADER(text)
        node = loader.get_single_node()
        if node is None:
            raise ContentError("is empty", path=path, line=1)
        _walk(node, (), lines, path)
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise ContentError(f"broken YAML: {error.problem or error.context}", path=path, line=line) from None
    except yaml.YAMLError as error:
        raise ContentError(f"broken YAML: {' '.join(str(error).split())}", path=path) from None
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise ContentError(f"broken YAML: {' '.join(str(error).split())}", path=path) from None
    except (LookupError, AttributeError, TypeError):
        raise ContentError("broken YAML: a value is none of its tag, as in `!!bool x`", path=path) from None
    finally:
        if loader is not None:
            loader.dispose()


def _check_bounds(text: str, path: Path) -> None:
    """Raise ContentError for an alias, as a few aliases of aliases stand for more nodes than memory holds, and for
    nodes so deep within others that building them would end the process."""
    depth = 0
    for event in yaml.parse(text, SAFE_LOADER):
        line = event.start_mark.line + 1 if event.start_mark else None
        if isinstance(event, yaml.AliasEvent):
            raise ContentError(
                f"*{event.anchor} is an alias, which is not read; write the value out", path=path, line=line
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ContentError(f"holds values within more than {DEEPEST} others", path=path, line=line)


_INT = "tag:yaml.org,2002:int"


def _walk(node: yaml.Node, loc: Loc, lines: YamlLines, path: Path) -> None:
    """Note the lines of a node's keys and entries, and of all below it. Raises ContentError for a key given twice, and
    for a whole number of more than 64 bits, which could be neither shown nor written."""
    if isinstance(node, yaml.ScalarNode) and node.tag == _INT and len(node.value) > 18:
        number = yaml.constructor.SafeConstructor().construct_yaml_int(node)
        if not -(2**63) <= number < 2**64:
            reason = f"is {node.value[:30]}, a whole number of more than 64 bits; write a text in quotes"
            raise ContentError(reason, path=path, line=node.start_mark.line + 1, field=dot_path(loc))
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in seen:
                raise ContentError(f"the key {name!r} is given twice", path=path, line=line, field=dot_path(loc))
            seen.add(name)
            lines[(*loc, name)] = line
            _walk(key, loc, lines, path)
            _walk(value, (*loc, name), lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*loc, index)] = value.start_mark.line + 1
            _walk(value, (*loc, index), lines, path)


def dot_path(loc: Loc) -> str:
    """The path to a value as a message shows it, such as ``server.flags.0``; a stranger's key may be long."""
    return ".".join(str(part)[:100] for part in loc)


def load_model(path: Path, model: type[Model], *, own: bool = True) -> Model:
    """Read a YAML file as a `model`. Raises ContentError for the first mistake, with its line and the nearest known
    key. own: whether the file is the user's own, see `load_yaml`."""
    data, lines = load_yaml(path, own=own)
    return validate(data, model, path=path, lines=lines)


_READ: dict[tuple[Path, type[pydantic.BaseModel]], tuple[str, Any]] = {}


def load_unchanged(path: Path, model: type[Model]) -> Model:
    """What `load_model` gives, which is parsed and checked again only where the file has changed. model: one whose
    values nobody changes."""
    text, known = _read_yaml(path, own=True), _READ.get((path, model))
    if known is None or known[0] != text:
        data, lines = _parse_yaml(text, path)
        known = _READ[path, model] = (text, validate(data, model, path=path, lines=lines))
    found: Model = known[1]
    return found


def validate(data: Any, model: type[Model], *, path: Path, lines: YamlLines | None = None) -> Model:
    """Validate data that has been read as a `model`. lines: those of the data's keys, as `load_yaml` gives them. Raises
    ContentError with file, line and field of the first mistake."""
    try:
        return model.model_validate(data)
    except pydantic.ValidationError as error:
        first = choose_error(error)
        loc = place_of(first, data)
        reason = explain(first, data, model)
        raise ContentError(reason, path=path, line=lines.at(loc) if lines else None, field=dot_path(loc)) from None


CODE = (".py", ".yaml", ".yml")  # how the files end that commands take for a program or a preset


def check_name(given: str) -> str:
    """The same, where no command takes it for a path. Raises ValueError."""
    if "/" in given:
        raise ValueError(_path_refusal(given))
    return check_no_file(given)


def check_no_file(given: str) -> str:
    """The same, where no command takes it for the file of a program or a preset, as the id of a model may have a slash.
    Raises ValueError."""
    if given.endswith(CODE):
        raise ValueError(_path_refusal(given))
    return given


def _path_refusal(given: str) -> str:
    return (
        f"expected a name; found the path {given[:200]!r}; programs, prompts and presets are never taken from where a "
        "file says, so give the path on the command line"
    )


RUN_PART = re.compile(r"(?i)(?!(?:manifest|workbench|shards)\.json$)[a-z0-9_][a-z0-9._-]{0,199}", re.ASCII)
"""What stands between slashes in the name of a run: no file by which a folder is known, which would hide all beside."""


def check_run_name(given: str) -> str:
    """The same, where it is the name of a run, such as ``pilot/first``. Raises ValueError."""
    if not all(map(RUN_PART.fullmatch, given.split("/"))):  # it becomes a folder, and a word of commands that are shown
        raise ValueError(f"expected the name of a run, such as mine or pilot/mine; found {given[:200]!r}")
    return given


def strategy_name(given: str) -> str:
    """What a record says of a strategy that the user may have given by its folder: its name."""
    return Path(given).expanduser().resolve().name if "/" in given else given


Name = Annotated[str, pydantic.AfterValidator(check_name)]  # the name of a benchmark, a strategy or a preset

ModelName = Annotated[str, pydantic.AfterValidator(check_no_file)]
"""The name of a model or its preset, its id on the hub, or the folder of its weights, which are data."""

RunName = Annotated[str, pydantic.AfterValidator(check_run_name)]  # the name of a run
