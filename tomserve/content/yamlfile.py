"""Read a YAML file into a pydantic model; every mistake is named with file, line and field.

>>> preset = load_model(Path("launch/models/dbrx.yaml"), Preset)   # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import pydantic
import yaml

from tomserve.errors import ContentError, nearest

Model = TypeVar("Model", bound=pydantic.BaseModel)
Loc = tuple[str | int, ...]
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same loader, in C where libyaml is there


class Lines(dict[Loc, int]):
    """1-based line of every key and list entry, by path."""

    def at(self, loc: Loc) -> int | None:
        """Line of `loc`, or of its closest ancestor that is in the file."""
        while loc and loc not in self:
            loc = loc[:-1]
        return self.get(loc)


def load(path: Path) -> tuple[Any, Lines]:
    """Parse with the safe loader. Raises ContentError for unreadable files, broken YAML and duplicate keys."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ContentError(f"cannot be read ({error.strerror})", path=path) from None
    except UnicodeDecodeError as error:
        raise ContentError(f"is not UTF-8 (byte {error.start})", path=path) from None
    lines = Lines()
    loader: Any = None
    try:
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
    except (ValueError, RecursionError) as error:
        raise ContentError(f"broken YAML: {' '.join(str(error).split())}", path=path) from None
    finally:
        if loader is not None:
            loader.dispose()


def _walk(node: yaml.Node, loc: Loc, lines: Lines, path: Path) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in seen:
                raise ContentError(f"the key {name!r} is given twice", path=path, line=line, field=_dotted(loc))
            seen.add(name)
            lines[(*loc, name)] = line
            _walk(value, (*loc, name), lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*loc, index)] = value.start_mark.line + 1
            _walk(value, (*loc, index), lines, path)


def _dotted(loc: Loc) -> str:
    return ".".join(str(part) for part in loc)


def load_model(path: Path, model: type[Model], *, context: Any = None) -> Model:
    """Parse and validate. Raises ContentError naming the first mistake, its line, and the nearest known key."""
    data, lines = load(path)
    return validate(data, model, path=path, lines=lines, context=context)


def validate(data: Any, model: type[Model], *, path: Path, lines: Lines | None = None, context: Any = None) -> Model:
    """Validate parsed data as `model`; the error carries the line of the offending field."""
    try:
        return model.model_validate(data, context=context)
    except pydantic.ValidationError as error:
        first = first_error(error)
        loc = tuple(first["loc"])
        reason = explain(first, data, model)
        raise ContentError(reason, path=path, line=lines.at(loc) if lines else None, field=_dotted(loc)) from None


def first_error(error: pydantic.ValidationError) -> Mapping[str, Any]:
    """The error to show. A misspelt key shows twice, as unknown and as missing: the author has to see the unknown."""
    errors = error.errors(include_url=False)
    return next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])


def explain(error: Mapping[str, Any], data: Any, model: type[pydantic.BaseModel]) -> str:
    """One line for one pydantic error: what was found, what was expected."""
    loc: Loc = tuple(error["loc"])
    if error["type"] == "extra_forbidden":
        known = _fields_at(loc[:-1], model)
        return f"unknown key{nearest(str(loc[-1]), known) or '.'} Known: {', '.join(known)}" if known else "unknown key"
    if error["type"] == "missing":
        return "is missing"
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] in ("value_error", "assertion_error"):
        return message
    found = repr(error["input"])
    return f"{message[:1].lower()}{message[1:]}; found {found if len(found) <= 60 else found[:57] + '...'}"


def _fields_at(loc: Loc, model: type[pydantic.BaseModel]) -> list[str]:
    """Key names of the model that sits at `loc`, following field annotations through dicts and lists."""
    annotation: Any = model
    for part in loc:
        args = [arg for arg in get_args(annotation) if arg is not type(None)]
        origin = get_origin(annotation)
        if origin in (dict, Mapping, list, tuple):
            annotation = args[-1]
        elif (found := _model_in(annotation)) is not None:
            fields = {info.alias or name: info.annotation for name, info in found.model_fields.items()}
            annotation = fields.get(str(part))
    found = _model_in(annotation)
    return sorted(info.alias or name for name, info in found.model_fields.items()) if found else []


def _model_in(annotation: Any) -> type[pydantic.BaseModel] | None:
    """The pydantic model an annotation is, or holds as one arm of a union."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    return next((found for arm in get_args(annotation) if (found := _model_in(arm)) is not None), None)
