"""What the task files beside this one name: the questions of a benchmark, the prompt of one, and its score.

lm-eval does not tell how a reply ended, so that a reply that was cut off is read as one that was not, but for thoughts
without an end. Nothing of lm-eval is imported here; what it needs to send a chat is in task.py.
"""

from collections.abc import Mapping
from typing import Any

from tomserve.interop.harness import HarnessTask
from tomserve.interop.samples import sample_record
from tomserve.scoring.thoughts import split_thoughts
from tomserve.status import LENGTH, OK

OWN = ("id", "story", "question", "choices", "answer", "cluster", "canary", "tomserve")
"""The fields of a document that are no factors."""


def questions(
    benchmark: str = "",
    strategy: str = "",
    path: str = "",
    gold: str = "",
    most: int = 0,
    where: str = "",
    **given: Any,
) -> dict[str, Any]:
    """The documents of a task, as a dataset of the package datasets, which lm-eval brings along.

    benchmark, strategy: by name. path, gold: the benchmark's file, and which of its sets of right answers counts. most:
    most questions, drawn as `tomserve eval --limit` does, 0 for all. where: conditions with ; between them. lm-eval
    hands over the fields of `metadata` in a task file, and what a user gives by ``--metadata``.
    """
    import datasets

    del given  # what other versions of lm-eval hand over besides
    arguments = {"benchmark": benchmark, "strategy": strategy, "path": path, "gold": gold, "most": most, "where": where}
    task = _load_task(arguments)
    made = [_document(task, item.id, arguments) for item in task.items]
    names = sorted({name for item in task.items for name in item.factors} - set(OWN))
    for name in names:
        values = [item.factors.get(name) for item in task.items]
        alike = len({type(value) for value in values} - {type(None)}) == 1  # a column has one type
        for one, value in zip(made, values, strict=True):
            one[name] = value if alike or value is None else str(value)
    return {"test": datasets.Dataset.from_list(made)}


def _load_task(arguments: dict[str, Any]) -> HarnessTask:
    conditions = [one.strip() for one in str(arguments["where"] or "").split(";") if one.strip()]
    limit = int(arguments["most"] or 0) or None
    names = {name: str(arguments[name] or "") for name in ("path", "gold")}
    return HarnessTask.of(
        str(arguments["benchmark"]), str(arguments["strategy"] or ""), **names, limit=limit, conditions=conditions
    )


def _document(task: HarnessTask, identity: str, arguments: dict[str, Any]) -> dict[str, Any]:
    item = task.known[identity]
    factors = sorted(set(item.factors) - set(OWN))
    return {
        "id": item.id,
        "story": list(item.story),
        "question": item.question,
        "choices": list(item.choices),
        "answer": item.answer,
        "cluster": item.cluster,
        "canary": item.canary or "",
        "tomserve": sample_record(item, task.strategy.name, factors=factors, asking=arguments),
    }


def messages(doc: dict[str, Any]) -> list[dict[str, str]]:
    """What the model is shown, each message with `role` and `content`."""
    task = _load_task(doc["tomserve"]["asking"])
    return task.messages(task.known[doc["id"]])


def prompt(doc: dict[str, Any]) -> str:
    """The same as one text, in which several messages stand below each other, each under its role."""
    shown = messages(doc)
    if len(shown) == 1:
        return shown[0]["content"]
    arguments = [f"{one['role'].capitalize()}:\n{one['content']}" for one in shown]
    return "\n\n".join((*arguments, "Assistant:\n"))


def fields(doc: dict[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Further fields of the request about a question. wanted: the `metadata` of the task; `schema` says that requests
    have the schema of their reply."""
    task = _load_task(doc["tomserve"]["asking"])
    turn = task.turn(task.known[doc["id"]])
    if not wanted.get("schema") or turn.schema is None:
        return dict(turn.fields)
    answer = {"name": "answer", "schema": turn.schema}
    return {**turn.fields, "response_format": {"type": "json_schema", "json_schema": answer}}


def score(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The metrics of a reply: whether our rules read the right answer in it, and whether they read any."""
    task = _load_task(doc["tomserve"]["asking"])
    text = results[0]
    found = task.score(task.known[doc["id"]], text, status=LENGTH if split_thoughts(text).cut else OK)
    return {"acc": float(bool(found["correct"])), "read": float(found["answer"] is not None)}
