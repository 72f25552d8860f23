"""What a line says that lm-evaluation-harness wrote by ``--log_samples``: what was asked, what came, how it was
graded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from tomserve.interop.foreign import Grade
from tomserve.interop.grading import grade
from tomserve.items.item import Factor
from tomserve.status import LENGTH, OK

FIRST = ("exact_match", "acc", "em", "pass@1")
"""Metrics that count before others, where a task has several."""

_TOLD = (("story", "passage", "context"), ("question", "query", "problem", "goal"))
"""How documents call what is told, and what is asked."""


def row_of(line: bytes) -> dict[str, Any] | str:
    """The sample of a line, or what is wrong with it."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "is no JSON" if line.endswith(b"\n") else "is torn off at the end of the file"
    if not isinstance(row, dict) or not {"doc_id", "doc", "resps"} <= set(row):
        return "lacks doc_id, doc or resps"
    return row if isinstance(row["resps"], list) and row["resps"] else "has no reply (resps)"


def filter_of(row: Mapping[str, Any]) -> str:
    """The filter that made the text of a line that was graded."""
    return str(row.get("filter", "none"))


def grades_of(row: Mapping[str, Any], answer: str | None = None) -> dict[str, Grade]:
    """The metrics of a line, each as lm-eval's results name it: the metric, a comma, and the filter. answer: what the
    filter read of the reply."""
    names = row.get("metrics")
    names = names if isinstance(names, list) else [name for name in FIRST if name in row]
    there = (name for name in names if isinstance(name, str) and name in row)
    return {whole: grade(whole, row[name], answer) for name in there if (whole := f"{name},{filter_of(row)}")}


def first_of(names: Iterable[str]) -> str | None:
    """Of the names of grades that which counts where nobody chooses: the first of a metric in FIRST, else the first."""
    listed = list(names)
    wanted = (name for metric in FIRST for name in listed if name.partition(",")[0] == metric)
    return next(wanted, next(iter(listed), None))


def asked_of(row: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """What was asked, and the choices, where each request weighed one of them."""
    given = row.get("arguments")
    requests = list(given.values()) if isinstance(given, dict) else given if isinstance(given, list) else []
    pairs = [
        tuple(one.values()) if isinstance(one, dict) else tuple(one) for one in requests if isinstance(one, dict | list)
    ]
    pairs = [tuple(one[0] if isinstance(one, list) and len(one) == 1 else one for one in pair) for pair in pairs]
    texts = [pair[0] for pair in pairs if pair and isinstance(pair[0], str)]
    weighed = [pair[1] for pair in pairs if len(pair) > 1 and isinstance(pair[1], str)]
    asked = _messages(texts[0]) if texts else ""
    if len(weighed) == len(pairs) > 1:
        return asked, tuple(one.strip() for one in weighed)
    return asked, ()


def _messages(text: str) -> str:
    """The text of a request; where it is a list of messages as JSON, their contents below each other."""
    if text.lstrip().startswith("["):
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
        if isinstance(found, list) and all(
            isinstance(one, dict) and isinstance(one.get("content"), str) for one in found
        ):
            return "\n\n".join(one["content"] for one in found)
    return text


def texts_of(resps: list[Any], choices: tuple[str, ...]) -> list[str]:
    """The replies: texts, one for each repeat, or the choice with the highest log-likelihood."""
    if choices and len(resps) == len(choices):
        weights = [_number(one) for one in resps]
        return [choices[max(range(len(weights)), key=weights.__getitem__)]]
    first = resps[0]
    found = first if isinstance(first, list) else [first]
    return [one if isinstance(one, str) else orjson.dumps(one).decode() for one in found]


def apart(row: Mapping[str, Any], count: int) -> bool:
    """Whether the replies of a document have a grade each, as in an export of ours."""
    graded = row.get("tomserve_correct")
    return isinstance(graded, list) and len(graded) == count


def stands_for(texts: Sequence[str], read: str | None) -> str:
    """Of several replies that have one grade together the one that is kept. read: the one text that a filter made of
    all of them, such as that of the first or the most frequent. It is the first reply that holds it, else the first.

    >>> stands_for(["It is 4.", "It is 5.", "So 5."], "5"), stands_for(["Four.", "Five."], "[invalid]")
    ('It is 5.', 'Four.')
    """
    return next((text for text in texts if read and read in text), texts[0])


def given_of(doc: Mapping[str, Any]) -> str:
    """The question as a document tells it, without the demonstrations and instructions of the prompt; empty where it
    has no name that is in use."""
    parts = [next((text for name in names if (text := _text(doc.get(name)))), "") for names in _TOLD]
    return "\n\n".join(part for part in parts if part) if parts[-1] else ""


def _text(value: Any) -> str | None:
    """A text, or a list of texts as paragraphs, as in an export of ours."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "\n\n".join(value)
    return text_of(value)


def _number(value: Any) -> float:
    while isinstance(value, list) and value:
        value = value[0]
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("-inf")


def nth(values: Any, place: int) -> str | None:
    found = values[place] if isinstance(values, list) and place < len(values) else None
    while isinstance(found, list) and len(found) == 1:
        found = found[0]
    return found if isinstance(found, str) else None


def target_of(value: Any, choices: tuple[str, ...]) -> str | None:
    """The right answer; a number counts the choices from 0."""
    if isinstance(value, str) and choices and value not in choices and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and choices and 0 <= value < len(choices):
        return choices[value]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) else None if value is None else orjson.dumps(value).decode()


def facts_of(doc: Mapping[str, Any], factors: Any) -> dict[str, Factor]:
    """What a document tells in single values. factors: the names of those that are factors, where a document of ours
    lists them."""
    listed = factors if isinstance(factors, list) else doc
    return {
        name: value
        for name, value in doc.items()
        if name in listed and isinstance(value, str | bool | int | float) and name
    }


def status_of(row: Mapping[str, Any], repeat: int, thinking: bool) -> str:
    """The status of a reply: that which an export of ours kept; of a reply that ends within its thoughts, cut off."""
    kept = kept_of(row, "tomserve_status", repeat)
    return kept if isinstance(kept, str) and kept else LENGTH if thinking else OK


def kept_of(row: Mapping[str, Any], name: str, repeat: int) -> Any:
    """What an export of ours tells of a repeat in one of its own lists; None where there is none."""
    kept = row.get(name)
    return kept[repeat] if isinstance(kept, list) and repeat < len(kept) else None


def table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
