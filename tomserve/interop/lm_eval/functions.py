"""What the task files beside this one name: the questions of a benchmark, the prompt of one, and its score.

lm-eval shows a prompt as one text, so that the messages of a strategy stand below each other in it, each under its role
where there are several; `tomserve eval` sends them as messages. That is the one difference to it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tomserve.interop.asking_inside import Asking


@cache
def _asking(benchmark: str, strategy: str, path: str, limit: int) -> Asking:
    return Asking.of(benchmark, strategy, path=path or None, limit=limit or None)


def questions(benchmark: str = "", strategy: str = "", path: str = "", most: int = 0, **given: Any) -> dict[str, Any]:
    """The documents of a task, as a dataset of the package datasets, which lm-eval brings along.

    benchmark, strategy: by name. path: the benchmark's file. most: most questions, 0 for all. lm-eval hands over the
    fields `metadata` of a task file, and what a user gives by ``--metadata``.
    """
    import datasets

    del given  # what other versions of lm-eval hand over besides
    asking = _asking(benchmark, strategy, path, most)
    made = [_document(asking, place, (benchmark, strategy, path, most)) for place in range(len(asking.items))]
    for name in {name for one in made for name in one["factors"]}:
        kinds = {type(one["factors"].get(name)) for one in made} - {type(None)}
        for one in made:  # a column has one type
            value = one["factors"].get(name)
            one[name] = value if len(kinds) == 1 or value is None else str(value)
    return {"test": datasets.Dataset.from_list([{**one, "factors": None} for one in made])}


def _document(asking: Asking, place: int, key: tuple[str, str, str, int]) -> dict[str, Any]:
    item = asking.items[place]
    messages = asking.messages(item)
    several = len(messages) > 1
    prompt = "\n\n".join(
        f"{one['role'].capitalize()}:\n{one['content']}" if several else one["content"] for one in messages
    )
    return {
        "id": item.id,
        "prompt": f"{prompt}\n\nAssistant:\n" if several else prompt,
        "answer": item.answer,
        "choices": list(item.choices),
        "factors": dict(item.factors),
        "cluster": item.cluster,
        "canary": item.canary or "",
        "tomserve": {"item": item.id, "strategy": asking.strategy.name, "cluster": item.cluster},
        "asking": list(map(str, key)),
        "place": place,
    }


def prompt(doc: dict[str, Any]) -> str:
    """The text that the model is shown."""
    return str(doc["prompt"])


def score(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The metrics of a reply: whether our rules read the right answer in it, and whether they read any."""
    benchmark, strategy, path, most = doc["asking"]
    asking = _asking(benchmark, strategy, path, int(most))
    found = asking.scored(asking.items[doc["place"]], results[0])
    return {"acc": float(bool(found["correct"])), "read": float(found["answer"] is not None)}
