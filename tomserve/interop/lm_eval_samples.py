"""Reads the samples that lm-evaluation-harness writes by ``--log_samples``: ``samples_<task>_<date>.jsonl``.

A line is a document with what was asked, what came, and its metrics; ``results_<date>.json`` beside it names the model.
Where a task has several filters, every document has a line for each; the first filter's counts, and the metrics of the
others stand beside. Each is called ``metric,filter``, as in the results; where old files do not name filters, they are
numbered.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.interop.foreign import About, Grade, Origin, Sample
from tomserve.interop.lm_eval_row import (
    apart,
    asked_of,
    facts_of,
    filter_of,
    first_of,
    given_of,
    grades_of,
    kept_of,
    nth,
    row_of,
    stands_for,
    status_of,
    table,
    target_of,
    text_of,
    texts_of,
)
from tomserve.interop.withheld import settings_of
from tomserve.scoring.thoughts import split_thoughts

_NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")


class LmEvalSamples:
    """The replies of one file of samples. path: the file. model: who answered, where no results lie beside the file.
    scorer: which grade the user wants, so that those of other filters need not be held."""

    def __init__(self, path: Path, model: str | None = None, scorer: str | None = None) -> None:
        self.path = path
        self._named = _NAME.fullmatch(path.name)
        self.task = self._named["task"] if self._named else path.stem.removeprefix("samples_")
        self._model, self._scorer = model, scorer
        self._results: dict[str, Any] | None = None
        self._left: dict[str, list[Any]] = {}
        self._origins: list[Origin] = []

    def about(self) -> About:
        """What the results beside the file say. Raises ConfigError where they cannot be read."""
        results = self._read_results()
        config = table(results.get("config"))
        version = results.get("lm_eval_version")
        asked = {name: config[name] for name in ("model", "model_args", "gen_kwargs", "limit") if name in config}
        seeds = {name: value for name, value in config.items() if name.endswith("_seed")}
        created = results.get("date")
        return About(
            "lm-eval",
            version if isinstance(version, str) else None,
            str(created) if isinstance(created, str | int | float) else None,
            settings_of({**asked, **seeds, "n-shot": table(results.get("n-shot")).get(self.task)}),
        )

    def origins(self) -> tuple[Origin, ...]:
        """The files that were read, after all samples were."""
        return tuple(self._origins)

    @property
    def left_out(self) -> dict[str, tuple[int, str]]:
        """For each reason how many lines were not read, and where the first stands."""
        return {reason: (count, place) for reason, (count, place) in self._left.items()}

    def _leave(self, reason: str, count: int, place: str) -> None:
        self._left.setdefault(reason, [0, f"{self.path.name}, {place}"])[0] += count

    def _read_results(self) -> dict[str, Any]:
        """The results of the same evaluation; nothing where there are none."""
        if self._results is None:
            self._results = {}
            date = self._named["date"] if self._named else None
            found = sorted(self.path.parent.glob("results_*.json")) if date is None else []
            beside = [self.path.with_name(f"results_{date}.json")] if date is not None else found[-1:]
            for path in beside:
                try:
                    data = files.read_json(
                        path, "give the file that lm-eval wrote, or move it away and use --model NAME"
                    )
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
                self._results = data if isinstance(data, dict) else {}
        return self._results

    @property
    def model(self) -> str:
        """Who answered. Raises ConfigError where nobody says it."""
        results = self._read_results()
        config = table(results.get("config"))
        name, kind = results.get("model_name"), config.get("model")
        # Where a model has no arguments, lm-eval makes a name up, another one each time.
        made_up = isinstance(kind, str) and config.get("model_args") in ({}, "") and name != kind
        for found in (None if made_up else name, kind, self._model):
            if isinstance(found, str) and found:
                return found
        raise ConfigError(
            f"{self.path}: no results_*.json beside it says who answered; put the one that lm-eval wrote there, or say "
            "it by --model NAME"
        )

    def samples(self) -> Iterator[Sample]:
        """The replies, one for each document and repeat. Raises ConfigError where the file cannot be read, or no line
        of it is a sample."""
        model, chosen, more = self.model, None, _More(self._scorer)
        for _, row in self._rows(count=True):
            chosen = chosen if chosen is not None else filter_of(row)
            if filter_of(row) != chosen:
                more.see(row)
        if chosen is None:
            told = "; ".join(f"{reason}: {count} (first: {place})" for reason, (count, place) in self._left.items())
            raise ConfigError(
                f"{self.path}: no line is a sample of lm-eval, with doc_id, doc and resps"
                f"{f' ({told})' if told else ''}; give a file that `lm_eval --log_samples` wrote"
            )
        for number, row in self._rows():
            if filter_of(row) == chosen:
                yield from self._samples(row, model, more.of(row), f"line {number}")

    def _samples(self, row: Mapping[str, Any], model: str, more: Mapping[str, Grade], place: str) -> Iterator[Sample]:
        asked, choices = asked_of(row)
        first = first_of(grades_of(row))
        doc = table(row["doc"])
        ours = table(doc.get("tomserve"))
        number, item = ours.get("sample"), text_of(ours.get("item"))
        texts, others = texts_of(row["resps"], choices), 0
        if len(texts) > 1 and not apart(row, len(texts)):
            wanted = more.get(self._scorer or "")
            read = nth(row.get("filtered_resps"), 0) if wanted is None else wanted.answer
            texts, others = [stands_for(texts, read)], len(texts) - 1
        for repeat, text in enumerate(texts):
            own = grades_of(row, text if choices else nth(row.get("filtered_resps"), repeat) or None)
            if isinstance(right := kept_of(row, "tomserve_correct", repeat), bool) and first is not None:
                own[first] = Grade(first, right, own[first].answer)
            error = kept_of(row, "tomserve_error", repeat)
            yield Sample(
                id=item or str(row["doc_id"]),
                task=self.task,
                model=model,
                asked=asked,
                text=text,
                target=target_of(row.get("target"), choices),
                choices=choices,
                given=given_of(doc),
                repeat=number if isinstance(number, int) else repeat,
                strategy=text_of(ours.get("strategy")),
                item=item,
                ours=item is not None,
                status=status_of(row, repeat, split_thoughts(text).cut),
                error=error if isinstance(error, str) and error else None,
                grade=own[first] if first is not None else None,
                grades={**own, **more},
                facts=facts_of(doc, ours.get("factors")),
                cluster=text_of(ours.get("cluster")),
                others=others,
                place=f"{self.path.name}, {place}",
            )

    def _rows(self, *, count: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
        """The lines that are samples, each with its number. count: whether to count what is none, and take the
        digest."""
        sha, size = hashlib.sha256(), 0
        passes: Counter[tuple[str, int]] = Counter()
        files.refuse_hole(self.path)
        try:
            with files.open_for_reading(self.path) as file:
                for number, line in enumerate(files.read_lines(file, self.path), 1):
                    if count:
                        sha.update(line)
                        size += len(line)
                    row = row_of(line)
                    if isinstance(row, dict):
                        if "filter" not in row:  # as lm-eval wrote until 0.4.4: the same reply once for each filter
                            passes[told := (str(row["doc_id"]), hash(orjson.dumps(row["resps"])))] += 1
                            row |= {"filter": f"filter {passes[told]}"} if passes[told] > 1 else {}
                        yield number, row
                    elif count and line.strip():
                        self._leave(row, 1, f"line {number}")
        except FileNotFoundError:
            raise ConfigError(f"{self.path}: no such file") from None
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read ({error.strerror})") from None
        if count:
            self._origins.append(Origin(self.path.name, size, f"sha256:{sha.hexdigest()}"))


class _More:
    """The grades of filters that come after the first. scorer: which the user wants; others are known by name only."""

    def __init__(self, scorer: str | None) -> None:
        self._scorer = scorer
        self._names: dict[str, Grade] = {}
        self._wanted: dict[str, Grade] = {}

    def see(self, row: Mapping[str, Any]) -> None:
        """Note the grades of a line."""
        for name, one in grades_of(row, nth(row.get("filtered_resps"), 0) or None).items():
            self._names.setdefault(name, Grade(name))
            if name == self._scorer:
                self._wanted[str(row["doc_id"])] = one

    def of(self, row: Mapping[str, Any]) -> dict[str, Grade]:
        """The grades of these filters for the document of a line; without a value where nobody wants it."""
        found = self._wanted.get(str(row["doc_id"]))
        return self._names if found is None else {**self._names, found.by: found}
