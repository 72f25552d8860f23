"""Finds what differs between two runs by their manifests, and shows the differing part of long texts.

>>> shortened("sha256:" + "a" * 64, "sha256:" + "b" * 64)
('sha256:aaaaaaaaaaaa…', 'sha256:bbbbbbbbbbbb…')
>>> flags = "python -m vllm serve some/long/path/of/a/model --dtype auto --max-num-seqs"
>>> shortened(f"{flags} 64", f"{flags} 128")
('… --max-num-seqs 64', '… --max-num-seqs 128')
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

SKIPPED = frozenset(
    ("run", "sessions", "created", "endpoints", "complete", "limit", "content", "benchmark_path", "noise")
)
"""Manifest fields that differ between any two runs and explain nothing."""

ABSENT = "not recorded"
"""What stands for a field that a manifest lacks."""

WIDTH = 40
"""How many characters of a long value are shown."""

MOST_WORDS = 2000
"""How many words a value may have whose words are compared one by one, which takes time by the square of their
number."""

_NAMED = (
    (r"strategies\.([^.]+)", r"strategy \1"),
    (r"strategies\.(.+)\.digest", r"digest of the prompts of strategy \1"),
    (r"strategies\.(.+)\.(\w+)", r"\2 of strategy \1"),
    (r"benchmark_digest", "digest of the benchmark's questions"),
    (r"benchmark_items", "number of the benchmark's questions"),
    (r"server\.command", "command that started the server"),
    (r"server\.template\.digest", "digest of the server's chat template"),
    (r"server\.environment\.(\w+)", r"environment variable \1 of the server"),
    (r"server\.(.+)", r"\1 of the server"),
    (r"sampling\.(.+)", r"\1 of sampling"),
    (r"foreign\.tool", "tool that asked"),
    (r"foreign\.version", "version of the tool that asked"),
    (r"foreign\.counts", "whose reading of the replies counts"),
    (r"foreign\.settings\.(.+)", r"\1, as the tool recorded it"),
    (r"foreign\.(.+)", r"\1 of the imported replies"),
    (r"tomserve", "version of tomserve"),
)
"""Names of manifest fields as patterns, and what they are called in words; any other name stands for itself."""

_DIGEST = re.compile(r"(sha256:)?[0-9a-f]{40,128}")


class Difference(NamedTuple):
    """A field of the manifests that differs: its name (nested names joined by dots), and its values as text."""

    name: str
    a: str
    b: str

    @property
    def field(self) -> str:
        """The field in words."""
        for pattern, words in _NAMED:
            if found := re.fullmatch(pattern, self.name):
                return found.expand(words)
        return self.name


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """The fields in which two manifests differ, without those that differ between any two runs (SKIPPED); what is
    less deeply nested comes first."""
    alone = _asked_by_one(a, b)
    first, second = dict(_flat(a, alone)), dict(_flat(b, alone))
    names = sorted({*first, *second}, key=lambda name: (name.count("."), name))
    found = [Difference(name, first.get(name, ABSENT), second.get(name, ABSENT)) for name in names]
    return [one for one in found if one.a != one.b]


def _asked_by_one(a: Mapping[str, Any], b: Mapping[str, Any]) -> set[str]:
    """The names of the fields of strategies that only one of two manifests has."""
    both = [one.get("strategies") for one in (a, b)]
    first, second = ({*one} if isinstance(one, Mapping) else set() for one in both)
    return {f"strategies.{name}" for name in first ^ second}


def _flat(value: Mapping[str, Any], alone: Collection[str], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested fields with their values as text, under names joined by dots. alone: names of which only that they are
    there is said."""
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if name in SKIPPED:
            continue
        if name in alone:
            yield name, "asked"
        elif isinstance(inner, Mapping) and inner:
            yield from _flat(inner, alone, f"{name}.")
        else:
            yield name, _text(inner)


def _text(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def shortened(a: str, b: str, width: int = WIDTH) -> tuple[str, str]:
    """Two different texts, those that are longer than `width` cut to what differs with a little of what stands before.

    Of texts of several words the words that differ are shown, each group with the word before it (so that a flag names
    its value); of two long words the part from the first differing character on. "…" stands for what was left out.
    """
    if _DIGEST.fullmatch(a) and _DIGEST.fullmatch(b):
        return _from(a, 0, 20), _from(b, _first_difference(a, b) if a[:19] == b[:19] else 0, 20)
    if max(len(a), len(b)) <= width:
        return a, b
    words = a.split(), b.split()
    if min(map(len, words)) > 1 and max(map(len, words)) <= MOST_WORDS:
        a, b = _differing_words(*words)
    at = _first_difference(a, b)
    return _from(a, at, width), _from(b, at, width)


def _first_difference(a: str, b: str) -> int:
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _differing_words(a: list[str], b: list[str]) -> tuple[str, str]:
    """The words that only one of two texts has, each group after the flag before it."""
    shown: tuple[list[str], list[str]] = ([], [])
    for kind, *ends in difflib.SequenceMatcher(a=a, b=b, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        for words, whole, start, stop in zip(shown, (a, b), ends[::2], ends[1::2], strict=True):
            flag = whole[start - 1 : start] if start and whole[start - 1].startswith("-") else []
            words += [*(["…"] if start > len(flag) else []), *flag, *(whole[start:stop] or ["(nothing)"])]
    return " ".join(shown[0]), " ".join(shown[1])


def _from(text: str, at: int, width: int) -> str:
    """At most `width` characters of a text, among them the one at place `at`, with some of what stands before it."""
    start = max(0, at - width // 3) if at >= width - 1 else 0
    cut = ("…" if start else "") + text[start:]
    return cut if len(cut) <= width else cut[: width - 1] + "…"
