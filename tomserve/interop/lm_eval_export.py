"""Writes a run as lm-evaluation-harness does by ``--log_samples``: samples and results, as version 0.4.13 has them.

Each strategy is a task of its own, ``<benchmark>_<strategy>``. A question is a document; the samples of a question are
its repeats, whose metric is the share that is right. A failure is an empty reply, and wrong. Of a conversation of
several turns the first prompt and the last reply are kept; thoughts that a server told apart are not. The same run
gives the same bytes.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import output_path
from tomserve.interop.answered import Answered, Replies
from tomserve.interop.inspect_sample import error_of, moment
from tomserve.runs.progress import Listener

TELL_EVERY = 20_000

METRIC = "exact_match"

VERSION = 1.0
"""The version of the tasks, as lm-eval counts them."""


@dataclass
class _Task:
    """What is kept of a task that was written. right: of each document the share of replies that are right. hashes: the
    digest over the hashes of all documents, which says whether two evaluations asked the same."""

    right: list[float] = field(default_factory=list)
    hashes: Any = field(default_factory=hashlib.sha256)

    def add(self, document: dict[str, Any]) -> None:
        self.right.append(document[METRIC])
        self.hashes.update("".join(document[name] for name in ("doc_hash", "prompt_hash", "target_hash")).encode())

    def results(self, name: str) -> dict[str, Any]:
        n, mean = len(self.right), math.fsum(self.right) / len(self.right)
        spread = math.fsum((one - mean) ** 2 for one in self.right) / (n - 1) if n > 1 else 0.0
        values = {f"{METRIC},none": mean, f"{METRIC}_stderr,none": math.sqrt(spread / n)}
        return {"name": name, "alias": name, "sample_len": n, **values}


def export(replies: Replies, out: Path, listener: Listener) -> list[Path]:
    """Write the run into a folder of its model's name, as lm-eval does by ``--output_path``.

    Returns the files. Raises ConfigError and OSError where they cannot be written."""
    manifest = replies.manifest
    created = moment(manifest.created)
    date = f"{(created or '1970-01-01T00:00:00')[:19].replace(':', '-')}.000000"
    folder = out / sanitized(manifest.model)
    folder.mkdir(parents=True, exist_ok=True)
    written, tasks = list[Path](), dict[str, tuple[str, _Task]]()
    for strategy in replies.strategies:
        name = _free(re.sub(r"[^A-Za-z0-9_-]+", "_", f"{manifest.benchmark}_{strategy}"), tasks)
        path = folder / f"samples_{name}_{date}.jsonl"
        if (task := _write(replies, strategy, path, listener)) is not None:
            written.append(path)
            tasks[name] = (strategy, task)
    path = folder / f"results_{date}.json"
    seconds = datetime.fromisoformat(created).timestamp() if created is not None else 0.0
    with output_path.open_output(path, replies.folder) as file:
        file.write(orjson.dumps(_results(replies, tasks, seconds), option=orjson.OPT_INDENT_2) + b"\n")
    return [*written, path]


def sanitized(model: str) -> str:
    """The name of a model as that of a folder, as lm-eval makes it."""
    return re.sub(r'["<>:/|\\?*\[\]\x00-\x1f]+', "__", model).strip(".") or "model"


def _free(name: str, taken: dict[str, Any]) -> str:
    """The name of a task, with a number where another strategy has the same one in these letters."""
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _write(replies: Replies, strategy: str, path: Path, listener: Listener) -> _Task | None:
    """Write the samples of one strategy; None where there are none."""
    documents, task = _documents(replies, strategy), _Task()
    if (first := next(documents, None)) is None:
        return None
    with output_path.open_output(path, replies.folder) as file:
        document: dict[str, Any] | None = first
        while document is not None:
            file.write(orjson.dumps({"doc_id": len(task.right), **document}) + b"\n")
            task.add(document)
            if len(task.right) % TELL_EVERY == 0:
                listener.message(f"{len(task.right):,} documents written so far")
            document = next(documents, None)
    return task


def _results(replies: Replies, tasks: dict[str, tuple[str, _Task]], seconds: float) -> dict[str, Any]:
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
    counts = {name: len(task.right) for name, (_, task) in tasks.items()}
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
        "model_name_sanitized": sanitized(manifest.model),
    }


def _documents(replies: Replies, strategy: str) -> Iterator[dict[str, Any]]:
    """Each question with all its samples."""
    for _, several in groupby(replies.of(strategy), key=lambda one: one.item.id):
        yield _document(list(several))


def _document(samples: list[Answered]) -> dict[str, Any]:
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
        "tomserve": {
            "item": one.item.id,
            "strategy": one.strategy,
            "cluster": one.item.cluster,
            "factors": sorted(one.item.factors),
        },
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
        "doc_hash": _hash(orjson.dumps(doc).decode()),
        "prompt_hash": _hash(messages),
        "target_hash": _hash(one.item.answer),
        METRIC: sum(right) / len(right),
        "tomserve_status": [sample.row["status"] for sample in samples],
        "tomserve_correct": right,
        "tomserve_error": [error_of(sample) if sample.row.get("error") else None for sample in samples],
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
