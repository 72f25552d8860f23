"""Reads and writes the samples of lm-evaluation-harness (``--log_samples``): ``samples_<task>_<date>.jsonl`` and
results.

Reading: where a task has several filters, every document has a line for each; the first filter's counts, and the
metrics of the others stand beside, as ``metric,filter``. Writing (version 0.4.13): each strategy is a task
``<benchmark>_<strategy>``, the samples of a question are its repeats, a failure is an empty reply, and wrong. The
same run gives the same bytes.
"""

import contextlib
import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files, output_path
from tomserve.content.paths import run_place
from tomserve.engine.redact import redact_settings
from tomserve.errors import ConfigError
from tomserve.interop.inspect_export import error_text, format_time, sha256_of
from tomserve.interop.samples import (
    GRADES_PER_REPLY,
    TOO_MANY_GRADES,
    Grade,
    Sample,
    Source,
    SourceAbout,
    as_text,
    decide_grade,
    facts_of,
    open_source,
    parse_grade,
    sample_record,
)
from tomserve.interop.scored_replies import ScoredReplies, ScoredReply, mean_and_error
from tomserve.runs.progress import Listener
from tomserve.scoring.thoughts import split_thoughts
from tomserve.status import LENGTH, OK

FIRST = ("exact_match", "acc", "em", "pass@1")
"""Metrics that count before others, where a task has several."""

_TOLD = (("story", "passage", "context"), ("question", "query", "problem", "goal"))
"""How documents call what is told, and what is asked."""


def parse_row(line: bytes) -> dict[str, Any] | str:
    """The sample of a line, or what is wrong with it."""
    try:
        row = files.load_json(line)
    except orjson.JSONDecodeError:
        return "is no JSON" if line.endswith(b"\n") else "is torn off at the end of the file"
    if not isinstance(row, dict) or not {"doc_id", "doc", "resps"} <= set(row):
        return "lacks doc_id, doc or resps"
    if isinstance(metrics := row.get("metrics"), list) and len(metrics) > GRADES_PER_REPLY:
        return TOO_MANY_GRADES
    return row if isinstance(row["resps"], list) and row["resps"] else "has no reply (resps)"


def row_filter(row: Mapping[str, Any]) -> str:
    """The filter that made the text of a line that was graded."""
    return str(row.get("filter", "none"))


def row_grades(row: Mapping[str, Any], answer: str | None = None) -> dict[str, Grade]:
    """The metrics of a line, each as lm-eval's results name it: the metric, a comma, and the filter. answer: what the
    filter read of the reply."""
    names = row.get("metrics")
    names = names if isinstance(names, list) else [name for name in FIRST if name in row]
    there = (name for name in names if isinstance(name, str) and name in row)
    return {whole: parse_grade(whole, row[name], answer) for name in there if (whole := f"{name},{row_filter(row)}")}


def first_grade(names: Iterable[str]) -> str | None:
    """Of the names of grades that which counts where nobody chooses: the first of a metric in FIRST, else the first."""
    ranks = {name: rank for rank, name in enumerate(FIRST)}
    return min(names, key=lambda name: ranks.get(name.partition(",")[0], len(FIRST)), default=None)


def row_prompt(row: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """What was asked, and the choices, where each request weighed one of them."""
    given = row.get("arguments")
    requests = list(given.values()) if isinstance(given, dict) else given if isinstance(given, list) else []
    pairs = []
    for one in requests:
        pair = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else []
        pairs.append([part[0] if isinstance(part, list) and len(part) == 1 else part for part in pair])
    asked = next((_messages(pair[0]) for pair in pairs if pair and isinstance(pair[0], str)), "")
    weighed = tuple(pair[1].strip() for pair in pairs if len(pair) > 1 and isinstance(pair[1], str))
    half = len(weighed) // 2
    if not len(weighed) == len(pairs) > 1:
        return asked, ()
    # for acc_mutual_info each choice is weighed once more without the question
    twice = weighed[:half] == weighed[half:] and not any(pair[0] for pair in pairs[half:])
    return asked, weighed[:half] if half > 1 and twice else weighed


def _messages(text: str) -> str:
    """The text of a request; where it is a list of messages as JSON, their contents below each other."""
    if text.lstrip().startswith("["):
        with contextlib.suppress(orjson.JSONDecodeError, TypeError, KeyError):
            return "\n\n".join([str(one["content"]) for one in files.load_json(text)])
    return text


def row_texts(resps: list[Any], choices: tuple[str, ...], metric: str = "") -> list[str]:
    """The replies: texts, one for each repeat, or the choice with the highest log-likelihood: as lm-eval takes it a
    character for the metric acc_norm, and less that without the question for acc_mutual_info."""
    if choices and len(resps) in (len(choices), 2 * len(choices)):
        weights = list(map(_number, resps[: len(choices)]))
        if metric == "acc_norm":
            weights = [weight / (len(choice) or 1) for weight, choice in zip(weights, choices, strict=True)]
        elif metric == "acc_mutual_info" and len(resps) > len(choices):
            weights = [weight - _number(other) for weight, other in zip(weights, resps[len(choices) :], strict=True)]
        return [choices[max(range(len(weights)), key=weights.__getitem__)]]
    first = resps[0]
    found = first if isinstance(first, list) else [first]
    return [one if isinstance(one, str) else orjson.dumps(one).decode() for one in found]


def choose_reply(texts: Sequence[str], read: str | None) -> str:
    """Of several replies that have one grade together the first that holds what a filter `read` of all of them, such as
    the most frequent answer; else the first.

    >>> choose_reply(["It is 4.", "It is 5.", "So 5."], "5"), choose_reply(["Four.", "Five."], "[invalid]")
    ('It is 5.', 'Four.')
    """
    return next((text for text in texts if read and read in text), texts[0])


def row_question(doc: Mapping[str, Any]) -> str:
    """The question as a document tells it, without the demonstrations and instructions of the prompt; empty where it
    has no name that is in use."""
    parts = [next((text for name in names if (text := _text(doc.get(name)))), "") for names in _TOLD]
    return "\n\n".join(part for part in parts if part) if parts[-1] else ""


def _text(value: Any) -> str | None:
    """A text, or a list of texts as paragraphs, as in an export of ours."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "\n\n".join(value)
    return as_text(value)


def _number(value: Any) -> float:
    while isinstance(value, list) and value:
        value = value[0]
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("-inf")


def element_at(values: Any, place: int) -> str | None:
    found = values[place] if isinstance(values, list) and place < len(values) else None
    while isinstance(found, list) and len(found) == 1:
        found = found[0]
    return found if isinstance(found, str) else None


def row_target(value: Any, choices: tuple[str, ...], numbered: bool = False) -> str | None:
    """The right answer; a number counts the choices from 0, and so does one that is a choice itself if `numbered`."""
    if isinstance(value, str) and choices and (numbered or value not in choices) and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and choices and 0 <= value < len(choices):
        return choices[value]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) else None if value is None else orjson.dumps(value).decode()


def counts_choices(row: Mapping[str, Any]) -> bool:
    """Whether the target of a line, which lm-eval writes as a text, is shown by its grade to count choices, although
    it is one of them itself, as where these are numbers."""
    value, grades = row.get("target"), row_grades(row)
    if not isinstance(value, str) or not value.isdecimal() or (first := first_grade(grades)) is None:
        return False
    choices, right = row_prompt(row)[1], decide_grade(grades[first]).correct
    if value not in choices or int(value) >= len(choices) or right is None:
        return False
    chosen = row_texts(row["resps"], choices, first.partition(",")[0])[0]
    return (chosen == value) != right and chosen in (value, choices[int(value)])


def exported_value(row: Mapping[str, Any], name: str, repeat: int) -> Any:
    """What an export of ours tells of a repeat in one of its own lists; None where there is none."""
    kept = row.get(name)
    return kept[repeat] if isinstance(kept, list) and repeat < len(kept) else None


def as_mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")


class LmEvalSamples(Source):
    """The replies of one file of samples. model: who answered, where no results lie beside the file.
    scorer: which grade the user wants, so that those of other filters need not be held."""

    def __init__(self, path: Path, model: str | None = None, scorer: str | None = None) -> None:
        super().__init__(path)
        self._named = _NAME.fullmatch(path.name)
        self.task = self._named["task"] if self._named else path.stem.removeprefix("samples_")
        self._model, self._scorer = model, scorer
        self._results: dict[str, Any] | None = None
        self._numbered = False  # whether targets count the choices where these are numbers

    def about(self) -> SourceAbout:
        """What the results beside the file say. Raises ConfigError where they cannot be read."""
        results = self._read_results()
        config = as_mapping(results.get("config"))
        version = results.get("lm_eval_version")
        asked = {name: config[name] for name in ("model", "model_args", "gen_kwargs", "limit") if name in config}
        seeds = {name: value for name, value in config.items() if name.endswith("_seed")}
        created = results.get("date")
        return SourceAbout(
            "lm-eval",
            version if isinstance(version, str) else None,
            str(created) if isinstance(created, str | int | float) else None,
            redact_settings({**asked, **seeds, "n-shot": as_mapping(results.get("n-shot")).get(self.task)}),
        )

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
        config = as_mapping(results.get("config"))
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
            chosen = chosen if chosen is not None else row_filter(row)
            self._numbered = self._numbered or counts_choices(row)
            if row_filter(row) != chosen:
                more.see(row)
        if chosen is None:
            raise ConfigError(
                f"{self.path}: no line is a sample of lm-eval, with doc_id, doc and resps"
                f"{f' ({self.left_out})' if self.left_out else ''}; give a file that `lm_eval --log_samples` wrote"
            )
        for number, row in self._rows():
            if row_filter(row) == chosen:
                yield from self._samples(row, model, more.of(row), f"line {number}")

    def _samples(self, row: Mapping[str, Any], model: str, more: Mapping[str, Grade], place: str) -> Iterator[Sample]:
        asked, choices = row_prompt(row)
        first = first_grade(row_grades(row))
        doc = as_mapping(row["doc"])
        ours = as_mapping(doc.get("tomserve"))
        number, item = ours.get("sample"), as_text(ours.get("item"))
        texts, others = row_texts(row["resps"], choices, (self._scorer or first or "").partition(",")[0]), 0
        graded = row.get("tomserve_correct")  # each reply by itself, as in an export of ours
        if len(texts) > 1 and not (isinstance(graded, list) and len(graded) == len(texts)):
            wanted = more.get(self._scorer or "")
            read = element_at(row.get("filtered_resps"), 0) if wanted is None else wanted.answer
            texts, others = [choose_reply(texts, read)], len(texts) - 1
        for repeat, text in enumerate(texts):
            own = row_grades(row, text if choices else element_at(row.get("filtered_resps"), repeat) or None)
            if isinstance(right := exported_value(row, "tomserve_correct", repeat), bool) and first is not None:
                own[first] = Grade(first, right, own[first].answer)
            cut_off = LENGTH if split_thoughts(text).cut else OK
            yield Sample(
                id=item or str(row["doc_id"]),
                task=self.task,
                model=model,
                asked=asked,
                text=text,
                target=row_target(row.get("target"), choices, self._numbered),
                choices=choices,
                given=row_question(doc),
                repeat=number if isinstance(number, int) else repeat,
                strategy=as_text(ours.get("strategy")),
                item=item,
                ours=item is not None,
                unread=found if isinstance(found := exported_value(row, "tomserve_unread", repeat), str) else None,
                status=as_text(exported_value(row, "tomserve_status", repeat)) or cut_off,
                error=as_text(exported_value(row, "tomserve_error", repeat)),
                grade=own[first] if first is not None else None,
                grades={**own, **more},
                facts=facts_of(doc, ours.get("factors")),
                cluster=as_text(ours.get("cluster")),
                others=others,
                place=f"{self.path.name}, {place}",
            )

    def _rows(self, *, count: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
        """The lines that are samples, each with its number. count: whether to count what is none."""
        passes: Counter[tuple[str, int]] = Counter()
        with open_source(self.path) as file:
            for number, line in enumerate(files.read_lines(file, self.path), 1):
                row = parse_row(line)
                if isinstance(row, dict):
                    if "filter" not in row:  # as lm-eval wrote until 0.4.4: the same reply once for each filter
                        passes[reply := (str(row["doc_id"]), hash(orjson.dumps(row["resps"])))] += 1
                        row |= {"filter": f"filter {passes[reply]}"} if passes[reply] > 1 else {}
                    yield number, row
                elif count and line.strip():
                    self.leave(row, f"line {number}")


MOST_NAMES = 100  # grades of further filters that are known by name


class _More:
    """The grades of filters that come after the first. scorer: which the user wants; others are known by name only."""

    def __init__(self, scorer: str | None) -> None:
        self._scorer = scorer
        self._names: dict[str, Grade] = {}
        self._wanted: dict[str, Grade] = {}

    def see(self, row: Mapping[str, Any]) -> None:
        """Note the grades of a line."""
        for name, one in row_grades(row, element_at(row.get("filtered_resps"), 0) or None).items():
            if len(self._names) < MOST_NAMES:
                self._names.setdefault(name, Grade(name))
            if name == self._scorer:
                self._wanted[str(row["doc_id"])] = one

    def of(self, row: Mapping[str, Any]) -> dict[str, Grade]:
        """The grades of these filters for the document of a line; without a value where nobody wants it."""
        found = self._wanted.get(str(row["doc_id"]))
        return self._names if found is None else {**self._names, found.by: found}


TELL_EVERY = 20_000

METRIC = "exact_match"

VERSION = 1.0
"""The version of the tasks, as lm-eval counts them."""


@dataclass
class _Task:
    """What is kept of a task that was written. As everywhere, variants of questions count in the results only where
    there is nothing else."""

    right: list[float] = field(default_factory=list)
    of_variants: list[float] = field(default_factory=list)
    hashes: Any = field(default_factory=hashlib.sha256)

    def __len__(self) -> int:
        return len(self.right) + len(self.of_variants)

    def add(self, document: dict[str, Any], *, variant: bool) -> None:
        (self.of_variants if variant else self.right).append(document[METRIC])
        self.hashes.update("".join(document[name] for name in ("doc_hash", "prompt_hash", "target_hash")).encode())

    def results(self, name: str) -> dict[str, Any]:
        right = self.right or self.of_variants
        mean, error = mean_and_error(right)
        values = {f"{METRIC},none": mean, f"{METRIC}_stderr,none": error}
        return {"name": name, "alias": name, "sample_len": len(right), **values}


def export_samples(replies: ScoredReplies, out: Path, listener: Listener) -> list[Path]:
    """Write the run into a folder of its model's name, as lm-eval does by ``--output_path``. Returns the files. Raises
    ConfigError and OSError where they cannot be written."""
    manifest = replies.manifest
    created = format_time(manifest.created)
    # Runs that were begun in the same second, and exports of one strategy each, have results of their own.
    apart = zlib.crc32("\n".join((run_place(replies.folder), *replies.chosen)).encode()) % 10**6
    date = f"{(created or '1970-01-01T00:00:00')[:19].replace(':', '-')}.{apart:06}"
    folder = out / sanitize_name(manifest.model)
    folder.mkdir(parents=True, exist_ok=True)
    written, tasks = list[Path](), dict[str, tuple[str, _Task]]()
    for strategy in replies.strategies:
        if next(replies.of(strategy), None) is None:
            continue  # all that there is was left open
        name = _free(re.sub(r"[^A-Za-z0-9_-]+", "_", f"{manifest.benchmark}_{strategy}"), tasks)
        written.append(folder / f"samples_{name}_{date}.jsonl")
        tasks[name] = (strategy, _write(replies, strategy, written[-1], listener))
    path = folder / f"results_{date}.json"
    seconds = datetime.fromisoformat(created).timestamp() if created is not None else 0.0
    with output_path.open_output(path, replies.folder) as file:
        file.write(orjson.dumps(_results(replies, tasks, seconds), option=orjson.OPT_INDENT_2) + b"\n")
    return [*written, path]


def sanitize_name(model: str) -> str:
    """The name of a model as that of a folder, as lm-eval makes it."""
    return re.sub(r'["<>:/|\\?*\[\]\x00-\x1f]+', "__", model).strip(".") or "model"


def _free(name: str, taken: dict[str, Any]) -> str:
    """The name of a task, with a number where another strategy has the same one in these letters."""
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _write(replies: ScoredReplies, strategy: str, path: Path, listener: Listener) -> _Task:
    """Write the samples of one strategy: of each question a document with all its replies."""
    task = _Task()
    with output_path.open_output(path, replies.folder) as file:
        for _, several in groupby(replies.of(strategy), key=lambda one: one.item.id):
            replied = list(several)
            document = _document(replied)
            file.write(orjson.dumps({"doc_id": len(task), **document}) + b"\n")
            task.add(document, variant=replied[0].item.base is not None)
            if len(task) % TELL_EVERY == 0:
                listener.message(f"{len(task):,} documents written so far")
    return task


def _results(replies: ScoredReplies, tasks: dict[str, tuple[str, _Task]], seconds: float) -> dict[str, Any]:
    """The file of results: what lm-eval's own has, without what it tells of a machine."""
    manifest = replies.manifest
    configs = {}
    for name, (strategy, _) in tasks.items():
        most = manifest.strategies[strategy].max_tokens
        kwargs = {"temperature": manifest.sampling.get("temperature", 0.0), **({"max_gen_toks": most} if most else {})}
        configs[name] = {
            "task": name,
            "output_type": "generate_until",
            "generation_kwargs": {"until": [], **kwargs},
            "repeats": manifest.repeats,
            "num_fewshot": 0,
            "metric_list": [{"metric": METRIC, "aggregation": "mean", "higher_is_better": True}],
            "metadata": {"version": VERSION, "tomserve": manifest.tomserve, "digest": manifest.benchmark_digest},
        }
    counts = {name: len(task) for name, (_, task) in tasks.items()}
    return {
        "results": {name: task.results(name) for name, (_, task) in tasks.items()},
        "group_subtasks": {},
        "configs": configs,
        "versions": dict.fromkeys(tasks, VERSION),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {name: {METRIC: True} for name in tasks},
        "n-samples": {
            name: {"original": max(manifest.benchmark_items or 0, n), "effective": n} for name, n in counts.items()
        },
        "config": {"model": manifest.model, "model_args": {}, "batch_size": None, "limit": manifest.limit},
        "git_hash": None,
        "date": seconds,
        "task_hashes": {name: task.hashes.hexdigest() for name, (_, task) in tasks.items()},
        "model_source": "tomserve",
        "model_name": manifest.model,
        "model_name_sanitized": sanitize_name(manifest.model),
    }


def _document(samples: list[ScoredReply]) -> dict[str, Any]:
    one = samples[0]
    messages = orjson.dumps(list(one.messages)).decode()
    doc = {
        **one.item.factors,
        "id": one.item.id,
        "story": list(one.item.story),
        "question": one.item.question,
        "choices": list(one.item.choices),
        "answer": one.item.answer,
        **({"canary": one.item.canary} if one.item.canary else {}),
        "tomserve": sample_record(one.item, one.strategy),
    }
    right = [bool(sample.score["correct"]) for sample in samples]
    return {
        "doc": doc,
        "target": one.item.answer,
        "arguments": {"gen_args_0": {"arg_0": messages, "arg_1": {"until": []}}},
        "resps": [[sample.row.get("text") or "" for sample in samples]],
        "filtered_resps": [sample.score["answer"] or "" for sample in samples],
        "filter": "none",
        "metrics": [METRIC],
        "doc_hash": sha256_of(orjson.dumps(doc).decode()),
        "prompt_hash": sha256_of(messages),
        "target_hash": sha256_of(one.item.answer),
        METRIC: sum(right) / len(right),
        "tomserve_status": [sample.row["status"] for sample in samples],
        "tomserve_correct": right,
        "tomserve_unread": [sample.unread for sample in samples],
        "tomserve_error": [error_text(sample) if sample.row.get("error") else None for sample in samples],
    }
