"""Says in words what is wrong with a value of a file, for authors who know neither Python nor pydantic.

>>> class Stage(pydantic.BaseModel):
...     sentences: list[str]
>>> try:
...     Stage.model_validate({"sentences": "Tea."})
... except pydantic.ValidationError as error:
...     print(explain(first_error(error), {"sentences": "Tea."}, Stage))
expected a list of texts; found 'Tea.'
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic

from tomserve.errors import ConfigError, nearest

Loc = tuple[str | int, ...]
"""The path to a value: keys and list positions from the top of the file."""

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


def check_part(data: Mapping[str, Any], model: type[pydantic.BaseModel]) -> None:
    """Check a part of a record that is held as plain values. For a validator of the record, which then names the field.

    Raises ValueError that says in words what of it does not fit the model.
    """
    try:
        model.model_validate(data)
    except pydantic.ValidationError as error:
        first = first_error(error)
        raise ValueError(f"{first['loc'][0]}: {explain(first, data, model)}") from None


def first_error(error: pydantic.ValidationError) -> Mapping[str, Any]:
    """The error to show first. A misspelt key appears twice, as unknown and as missing; the unknown one is what the
    author has to see.
    """
    errors = error.errors(include_url=False)
    return next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])


def place_of(error: Mapping[str, Any], data: Any) -> Loc:
    """The path to the value that an error is about, as far as it is in the data.

    pydantic adds to the path which of several types it tried; an author knows nothing of these.
    """
    loc: Loc = tuple(error["loc"])
    if data is None or error["type"] in ("missing", "extra_forbidden"):
        return loc
    for length, part in enumerate(loc):
        parts = data if isinstance(data, dict) else dict(enumerate(data)) if isinstance(data, list) else {}
        if part not in parts:
            return loc[:length]
        data = parts[part]
    return loc


def refused(
    error: pydantic.ValidationError, data: Any, model: type[pydantic.BaseModel], path: Path, way_out: str
) -> ConfigError:
    """The error for a file whose data the model does not take, which names the file, the field and the way out."""
    first = first_error(error)
    field = ".".join(map(str, place_of(first, data)))
    return ConfigError(f"{path}: {field}: {explain(first, data, model)}; {way_out}")


def explain(error: Mapping[str, Any], data: Any, model: type[pydantic.BaseModel]) -> str:
    """One pydantic error as one line: what was expected, what was found, and for an unknown key those that are known.

    error: an entry of `ValidationError.errors()`; data: what was validated; model: what it was validated as.
    """
    kind, context = error["type"], error.get("ctx", {})
    loc = place_of(error, data)
    wanted = _type_at(loc, model)
    if kind == "extra_forbidden":
        known = keys_at(loc[:-1], model)
        return f"unknown key{nearest(str(loc[-1]), known) or '.'} Known: {', '.join(known)}" if known else "unknown key"
    if kind == "missing":
        return _missing(loc, wanted, _expected(loc, model))
    if kind in ("value_error", "assertion_error"):
        return str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    found = error["input"]
    if kind == "literal_error":
        choices = [str(one) for one in get_args(_bare(wanted))]
        near = nearest(found, choices) if isinstance(found, str) else ""
        expected = f"expected {context['expected']}" if len(choices) < 2 else f"expected one of {', '.join(choices)}"
        return f"{expected}; found {shown(found)}{near}"
    if kind in ("string_too_short", "string_too_long", "too_short", "too_long"):
        return _size(kind, context, found)
    if kind in _BOUNDS:
        number = "a whole number" if _bare(wanted) is int else "a number"
        return f"expected {number} {_BOUNDS[kind].format(**context)}; found {shown(found)}"
    if kind == "string_pattern_mismatch":
        look = _PATTERNS.get(context["pattern"], f"a text that matches the pattern {context['pattern']}")
        return f"expected {look}; found {shown(found)}"
    if kind.endswith(_WRONG_TYPE) or wanted is not None:
        return f"expected {_expected(loc, model)}; found {shown(found)}"
    return f"{str(error['msg']).lower()}; found {shown(found)}"


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
    has = "nothing" if not found else f"{len(found)}" if what == "entry" else shown(found)
    return f"expected at {'least' if least else 'most'} {count} {what if count == 1 else many}; found {has}"


def described(annotation: Any) -> str:
    """What a value of that type is, in words.

    >>> described(tuple[str, ...]), described(int | None), described(Literal["a", "b"])
    ('a list of texts', 'a whole number', 'one of a, b')
    """
    bare = _bare(annotation)
    origin, arguments = get_origin(bare), [one for one in get_args(bare) if one is not type(None)]
    if bare in _PLAIN:
        return _PLAIN[bare][0]
    if origin is Literal:
        return str(arguments[0]) if len(arguments) == 1 else f"one of {', '.join(map(str, arguments))}"
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(described, arguments)))
    if origin is tuple and Ellipsis not in arguments:
        return f"a list of {len(arguments)} values: {', '.join(map(described, arguments))}"
    if origin in (list, tuple, frozenset, set):
        inner = _bare(arguments[0])
        return f"a list of {_PLAIN[inner][1]}" if inner in _PLAIN else "a list"
    if origin in (dict, Mapping) or bare in (dict, Mapping):
        return "a mapping of keys to values"
    if (model := model_in(bare)) is not None:
        return f"a mapping with the keys {', '.join(keys_of(model))}"
    return "a value"


def shown(value: Any) -> str:
    """A value as a message shows it, in at most 60 characters."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return f"a mapping with the keys {', '.join(map(str, value))}"[:60] if value else "an empty mapping"
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else text[:57] + "..."


def keys_at(loc: Loc, model: type[pydantic.BaseModel]) -> list[str]:
    """The keys that a model may have at `loc`, sorted; none where no model stands there."""
    submodel = model_in(_type_at(loc, model))
    return sorted(keys_of(submodel)) if submodel is not None else []


def keys_of(model: type[pydantic.BaseModel]) -> list[str]:
    """The keys that a model has in a file, in the order of its fields."""
    return [info.alias or name for name, info in model.model_fields.items()]


def model_in(annotation: Any) -> type[pydantic.BaseModel] | None:
    """The pydantic model that an annotation is or contains (as one of a union); None where there is none."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    return next((submodel for arm in get_args(annotation) if (submodel := model_in(arm)) is not None), None)


def _expected(loc: Loc, model: type[pydantic.BaseModel]) -> str:
    """What a value at `loc` is to be, in words: those that describe the field, else those for its type."""
    parent = model_in(_type_at(loc[:-1], model)) if loc else None
    own = {info.alias or name: info.description for name, info in parent.model_fields.items()} if parent else {}
    return own.get(str(loc[-1]) if loc else "") or described(_type_at(loc, model))


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
