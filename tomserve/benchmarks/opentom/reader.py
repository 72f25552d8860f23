"""Read OpenToM's folder data/opentom_data: narratives (meta_data.json, meta_data_long.json) and files of questions.

Every file is one JSON object by the narrative's key. The long narratives are asked the same questions as the normal
ones of the same keys. The fine locations are those of 2025-02-02 (location_fg_fo_new.json, location_fg_so_new.json):
the files that they replaced contradict the coarse ones and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tomserve.benchmarks.foreign.source import Source
from tomserve.errors import ContentError

META = {"normal": "meta_data", "long": "meta_data_long"}
"""The files of narratives, without their ending, by the factor `length`; that of the long ones may be missing."""

PARTS = {
    "location_cg_fo": ("location_coarse", 1),
    "location_cg_so": ("location_coarse", 2),
    "location_fg_fo_new": ("location_fine", 1),
    "location_fg_so_new": ("location_fine", 2),
    "multihop_fo": ("multihop", 1),
    "multihop_so": ("multihop", 2),
    "attitude": ("attitude", 1),
}
"""The files of questions, without their ending, each with the genre of its questions and their order."""

_KEY = re.compile(r"[\w-]{1,60}", re.ASCII)


def plain(place: str) -> str:
    """A place as it is compared: in small letters, with spaces for underscores and without its article."""
    return re.sub(r"^(?:an?|the) ", "", place.replace("_", " ").casefold())


class Narrative(NamedTuple):
    """A narrative and its questions.

    key: its name in the files. length: normal or long. text: what is told. mover, observer: the two people. object:
    what is moved. places: where it was and where it is in the end. observed: whether the observer sees it moved.
    questions: by file, pairs of a question and its answer. row: what its digest is taken of.
    """

    key: str
    length: str
    text: str
    mover: str
    observer: str
    object: str
    places: tuple[str, str]
    observed: bool
    questions: Mapping[str, tuple[tuple[str, str], ...]]
    row: bytes


def read(source: Source, path: Path | None) -> Iterator[Narrative]:
    """The narratives of a folder, the normal ones first.

    source: where the files come from. path: the user's. Raises ConfigError where nothing is there, ContentError by file
    and field for what cannot be read.
    """
    folder = source.need(path)
    if not folder.is_dir():
        reason = "is a file; name the folder of files data/opentom_data, from which opentom.json was put together"
        raise ContentError(f"{reason}: expected {source.words}", path=folder)
    for part in PARTS:
        _present(source, folder, part)
    asked = {part: _object(source, folder / f"{part}.json") for part in PARTS}
    for length, name in META.items():
        file = folder / f"{name}.json"
        if length == "normal" or file.exists():
            for key, told in _object(source, file).items():
                yield _narrative(folder, file, length, key, told, asked)


def _present(source: Source, folder: Path, part: str) -> None:
    """Raise ContentError where a file of questions is missing, and say so where it is the one that was replaced."""
    old = part.removesuffix("_new")
    if not (folder / f"{part}.json").exists():
        reason = f"is not there; expected {source.words}"
        if old != part and (folder / f"{old}.json").exists():
            reason += f". {old}.json is the older file, whose answers contradict location_c{old[10:]}.json"
        raise ContentError(reason, path=folder / f"{part}.json")


def _object(source: Source, file: Path) -> dict[str, Any]:
    text = source.text(file)
    if text.startswith("version https://git-lfs"):
        raise ContentError("is only a pointer of Git LFS; fetch the file itself (git lfs pull)", path=file)
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ContentError(f"is no JSON ({error}); take the official file", path=file) from None
    if not isinstance(found, dict) or not found:
        raise ContentError(f"is {text!r:.40}; expected a JSON object by the narratives' keys", path=file)
    return found


def _narrative(folder: Path, file: Path, length: str, key: str, told: Any, asked: Mapping[str, Any]) -> Narrative:
    def refuse(field: str, found: object, wanted: str) -> ContentError:
        reason = f"is {found!r:.60}; expected {wanted}; take the official file, or mend this"
        return ContentError(reason, path=file, field=f"{key[:60]}.{field}" if field else repr(key[:60]))

    def text(holder: Any, field: str, within: str = "") -> str:
        value = holder.get(field) if isinstance(holder, dict) else None
        if not isinstance(value, str) or not value.strip():
            raise refuse(f"{within}{field}", value, "text")
        return value.strip()

    if not _KEY.fullmatch(key):
        raise refuse("", key, "letters, digits, '-' and '_'")
    if not isinstance(told, dict):
        raise refuse("", told, "an object")
    plot = told.get("plot_info")
    mover, observer, thing, old, new = (
        text(plot, name, "plot_info.") for name in ("mover", "observer", "eoi", "original_place", "move_to_place")
    )
    if not isinstance(told.get("observed"), bool):
        raise refuse("observed", told.get("observed"), "true or false")
    if plain(old) == plain(new) or len({mover, observer}) < 2:
        raise refuse("plot_info", plot, "two people and two places")
    questions = {part: tuple(_questions(folder, part, key, asked[part].get(key))) for part in PARTS}
    narrative = text(told, "long_narrative" if length == "long" else "narrative")
    row = orjson.dumps([narrative, mover, observer, thing, old, new, told["observed"], questions])
    return Narrative(key, length, narrative, mover, observer, thing, (old, new), told["observed"], questions, row)


def _questions(folder: Path, part: str, key: str, found: Any) -> Iterator[tuple[str, str]]:
    def refuse(field: str, value: object, wanted: str) -> ContentError:
        reason = f"is {value!r:.60}; expected {wanted}; take the official file, or mend this"
        return ContentError(reason, path=folder / f"{part}.json", field=f"{key}{field}")

    if not isinstance(found, list) or not found:
        raise refuse("", found, "a list of questions")
    for place, one in enumerate(found):
        if not isinstance(one, dict):
            raise refuse(f"[{place}]", one, "an object")
        for name in ("question", "answer"):
            if not isinstance(one.get(name), str) or not one[name].strip():
                raise refuse(f"[{place}].{name}", one.get(name), "text")
        yield one["question"].strip(), one["answer"].strip()
