"""Reads the samples that lm-evaluation-harness writes by ``--log_samples``: ``samples_<task>_<date>.jsonl``.

A line is a document with what was asked, what came, and its metrics; ``results_<date>.json`` beside it names the model.
Where a task has several filters, every document has a line for each; the first filter's counts, and the metrics of the
others stand beside as ``metric,filter``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import bounded, files
from tomserve.errors import ConfigError
from tomserve.interop.foreign import About, Grade, Origin, Sample
from tomserve.interop.grading import grade
from tomserve.interop.withheld import settings_of
from tomserve.items.item import Factor
from tomserve.status import LENGTH, OK

FIRST = ("exact_match", "acc", "em", "pass@1")
"""Metrics that count before others, where a task has several."""

_NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")


class LmEvalSamples:
    """The replies of one file of samples. path: the file. model: who answered, where no results lie beside the file."""

    def __init__(self, path: Path, model: str | None = None) -> None:
        self.path = path
        self._named = _NAME.fullmatch(path.name)
        self.task = self._named["task"] if self._named else path.stem.removeprefix("samples_")
        self._model = model
        self._results: dict[str, Any] | None = None
        self._left: dict[str, list[Any]] = {}
        self._origins: list[Origin] = []

    def about(self) -> About:
        """What the results beside the file say. Raises ConfigError where they cannot be read."""
        results = self._read_results()
        config = _table(results.get("config"))
        version = results.get("lm_eval_version")
        asked = {name: config[name] for name in ("model", "model_args", "gen_kwargs", "limit") if name in config}
        seeds = {name: value for name, value in config.items() if name.endswith("_seed")}
        created = results.get("date")
        return About(
            "lm-eval",
            version if isinstance(version, str) else None,
            str(created) if isinstance(created, str | int | float) else None,
            settings_of({**asked, **seeds, "n-shot": _table(results.get("n-shot")).get(self.task)}),
        )

    def origins(self) -> tuple[Origin, ...]:
        """The files that were read, after all samples were."""
        return tuple(self._origins)

    @property
    def left_out(self) -> dict[str, tuple[int, str]]:
        """For each reason how many lines were not read, and where the first stands."""
        return {reason: (count, place) for reason, (count, place) in self._left.items()}

    def _read_results(self) -> dict[str, Any]:
        """The results of the same evaluation; nothing where there are none."""
        if self._results is None:
            self._results = {}
            date = self._named["date"] if self._named else None
            found = sorted(self.path.parent.glob("results_*.json")) if date is None else []
            beside = [self.path.with_name(f"results_{date}.json")] if date is not None else found[-1:]
            for path in beside:
                if path.is_file():
                    data = bounded.json(path, "give the file that lm-eval wrote, or move it away and use --model NAME")
                    self._results = data if isinstance(data, dict) else {}
        return self._results

    @property
    def model(self) -> str:
        """Who answered. Raises ConfigError where nobody says it."""
        results = self._read_results()
        config = _table(results.get("config"))
        for found in (self._model, results.get("model_name"), config.get("model")):
            if isinstance(found, str) and found:
                return found
        raise ConfigError(
            f"{self.path}: no results_*.json beside it says who answered; put the one that lm-eval wrote there, or say "
            "it by --model NAME"
        )

    def samples(self) -> Iterator[Sample]:
        """The replies, one for each document and repeat. Raises ConfigError where the file cannot be read, or no line
        of it is a sample."""
        model, chosen, grades = self.model, None, dict[str, dict[str, Grade]]()
        for _, row in self._rows(count=True):
            chosen = chosen if chosen is not None else _filter(row)
            if (own := _filter(row)) != chosen:
                named = {f"{name},{own}": one for name, one in _grades(row).items()}
                grades.setdefault(str(row["doc_id"]), {}).update(named)
        if chosen is None:
            told = "; ".join(f"{reason}: {count} (first: {place})" for reason, (count, place) in self._left.items())
            raise ConfigError(
                f"{self.path}: no line is a sample of lm-eval, with doc_id, doc and resps"
                f"{f' ({told})' if told else ''}; give a file that `lm_eval --log_samples` wrote"
            )
        for number, row in self._rows():
            if _filter(row) == chosen:
                yield from self._samples(row, model, grades.get(str(row["doc_id"]), {}), f"line {number}")

    def _samples(self, row: Mapping[str, Any], model: str, more: Mapping[str, Grade], place: str) -> Iterator[Sample]:
        asked, choices = _asked(row)
        own = _grades(row)
        first = next((name for name in FIRST if name in own), next(iter(own), None))
        doc = row["doc"] if isinstance(row["doc"], dict) else {}
        told = doc.get("tomserve")
        ours: Mapping[str, Any] = told if isinstance(told, dict) else {}
        number = ours.get("sample")
        target = _target(row.get("target"), choices)
        filtered = row.get("filtered_resps")
        for repeat, text in enumerate(_texts(row["resps"], choices)):
            read = None if choices else _nth(filtered, repeat)
            counted = own[first] if first is not None else None
            if counted is not None and read is not None:
                counted = Grade(counted.by, counted.correct, read, counted.value)
            thinking = "<think>" in text and "</think>" not in text
            yield Sample(
                id=str(row["doc_id"]),
                task=self.task,
                model=model,
                asked=asked,
                text=text,
                target=target,
                choices=choices,
                repeat=number if isinstance(number, int) else repeat,
                strategy=_text(ours.get("strategy")),
                item=_text(ours.get("item")),
                status=_status(row, repeat, thinking),
                grade=counted,
                grades={**own, **more},
                facts=_facts(doc),
                cluster=_text(ours.get("cluster")),
                place=f"{self.path.name}, {place}",
            )

    def _rows(self, *, count: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
        """The lines that are samples, each with its number. count: whether to count what is none, and take the
        digest."""
        sha, size = hashlib.sha256(), 0
        bounded.refuse_hole(self.path)
        try:
            with files.reading(self.path) as file:
                for number, line in enumerate(bounded.lines(file, self.path), 1):
                    if count:
                        sha.update(line)
                        size += len(line)
                    row = _row(line)
                    if isinstance(row, dict):
                        yield number, row
                    elif count and line.strip():
                        self._left.setdefault(row, [0, f"{self.path.name}, line {number}"])[0] += 1
        except FileNotFoundError:
            raise ConfigError(f"{self.path}: no such file") from None
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read ({error.strerror})") from None
        if count:
            self._origins.append(Origin(self.path.name, size, f"sha256:{sha.hexdigest()}"))


def _row(line: bytes) -> dict[str, Any] | str:
    """The sample of a line, or what is wrong with it."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "is no JSON" if line.endswith(b"\n") else "is torn off at the end of the file"
    if not isinstance(row, dict) or not {"doc_id", "doc", "resps"} <= set(row):
        return "lacks doc_id, doc or resps"
    return row if isinstance(row["resps"], list) and row["resps"] else "has no reply (resps)"


def _filter(row: Mapping[str, Any]) -> str:
    return str(row.get("filter", "none"))


def _grades(row: Mapping[str, Any]) -> dict[str, Grade]:
    """The metrics of a line, by name."""
    names = row.get("metrics")
    names = names if isinstance(names, list) else [name for name in FIRST if name in row]
    return {str(name): grade(str(name), row[name]) for name in names if isinstance(name, str) and name in row}


def _asked(row: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
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


def _texts(resps: list[Any], choices: tuple[str, ...]) -> list[str]:
    """The replies: texts, one for each repeat, or the choice with the highest log-likelihood."""
    if choices and len(resps) == len(choices):
        weights = [_number(one) for one in resps]
        return [choices[max(range(len(weights)), key=weights.__getitem__)]]
    first = resps[0]
    found = first if isinstance(first, list) else [first]
    return [one if isinstance(one, str) else orjson.dumps(one).decode() for one in found]


def _number(value: Any) -> float:
    while isinstance(value, list) and value:
        value = value[0]
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("-inf")


def _nth(values: Any, place: int) -> str | None:
    found = values[place] if isinstance(values, list) and place < len(values) else None
    while isinstance(found, list) and len(found) == 1:
        found = found[0]
    return found if isinstance(found, str) else None


def _target(value: Any, choices: tuple[str, ...]) -> str | None:
    """The right answer; a number counts the choices from 0."""
    if isinstance(value, str) and choices and value not in choices and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and choices and 0 <= value < len(choices):
        return choices[value]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) else None if value is None else orjson.dumps(value).decode()


def _facts(doc: Mapping[str, Any]) -> dict[str, Factor]:
    """What a document tells in single values."""
    return {name: value for name, value in doc.items() if isinstance(value, str | bool | int | float) and name}


def _status(row: Mapping[str, Any], repeat: int, thinking: bool) -> str:
    """The status of a reply: that which an export of ours kept; of a reply that ends within its thoughts, cut off."""
    kept = row.get("tomserve_status")
    if isinstance(kept, list) and repeat < len(kept) and isinstance(kept[repeat], str):
        return str(kept[repeat])
    return LENGTH if thinking else OK


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
