"""Read a YAML file into a pydantic model, and say for every mistake in which file, line and field it is.

>>> preset = load_model(Path("launch/models/dbrx.yaml"), Preset)   # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import pydantic
import yaml

from tomserve.content import bounded, files
from tomserve.content.wording import Loc, explain, first_error, place_of
from tomserve.errors import ContentError

Model = TypeVar("Model", bound=pydantic.BaseModel)
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in its faster version where libyaml is installed."""

MOST = 1 << 16
"""The most bytes of a file that may come from somebody else; experiments have a few hundred."""

DEEPEST = 100
"""Lists and mappings within others."""


class Lines(dict[Loc, int]):
    """The line (counted from 1) of every key and list entry, by its path."""

    def at(self, loc: Loc) -> int | None:
        """The line of `loc`, or of its closest ancestor that is in the file; None where there is neither."""
        while loc and loc not in self:
            loc = loc[:-1]
        return self.get(loc)


def load(path: Path, *, own: bool = True) -> tuple[Any, Lines]:
    """Read a YAML file and return its data with the lines of all keys. Raises ContentError for an unreadable, empty or
    endless file, broken YAML, an alias, values within values without end, or a key that is given twice.

    own: whether it is the user's own. Somebody else's may be no link and no pipe, and has at most MOST bytes.
    """
    most = bounded.LONGEST if own else MOST
    try:
        with path.open("rb") if own else files.reading(path) as file:
            read = file.read(most + 1)
        if len(read) > most:
            raise ContentError(f"has more than {most:,} bytes; expected a small file of YAML", path=path)
        text = read.decode("utf-8")
    except OSError as error:
        raise ContentError(f"cannot be read ({error.strerror})", path=path) from None
    except UnicodeDecodeError as error:
        raise ContentError(f"is not UTF-8 (byte {error.start})", path=path) from None
    lines = Lines()
    loader: Any = None
    try:
        _bounded(text, path)
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


def _bounded(text: str, path: Path) -> None:
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


def _walk(node: yaml.Node, loc: Loc, lines: Lines, path: Path) -> None:
    """Note the lines of a node's keys and entries, and of all below it. Raises ContentError for a key given twice."""
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
    """The path to a value as a message shows it, such as ``server.flags.0``."""
    return ".".join(str(part) for part in loc)


def load_model(path: Path, model: type[Model], *, context: Any = None, own: bool = True) -> Model:
    """Read a YAML file as a `model`. Raises ContentError for the first mistake, with its line and the nearest known
    key.

    context: handed to the model's validators. own: whether the file is the user's own, see `load`.
    """
    data, lines = load(path, own=own)
    return validate(data, model, path=path, lines=lines, context=context)


def validate(data: Any, model: type[Model], *, path: Path, lines: Lines | None = None, context: Any = None) -> Model:
    """Validate data that has been read as a `model`. Raises ContentError with file, line and field of the first
    mistake.

    path: the file to name in the message.
    lines: the lines of the data's keys, as `load` returns them; without them no line is named.
    context: handed to the model's validators.
    """
    try:
        return model.model_validate(data, context=context)
    except pydantic.ValidationError as error:
        first = first_error(error)
        loc = place_of(first, data)
        reason = explain(first, data, model)
        raise ContentError(reason, path=path, line=lines.at(loc) if lines else None, field=_dotted(loc)) from None
