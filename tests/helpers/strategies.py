"""Folders of strategies made by tests, and conversations with scripted replies."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import orjson

from tests.conftest import ROOT, fill, make_item
from tomserve.benchmarks import load
from tomserve.items import Item
from tomserve.prompting.conversation import Conversation, Reply, Turn
from tomserve.prompting.strategy import Strategy

READERS = ["hint_reader", "paraphraser", "predictor", "reader", "rewriter", "verifier"]
"""Prompts that ask no benchmark's questions; tests/runs/test_grader.py and tests/faithfulness/ have
their requests."""


def write_strategy(folder: Path, files: Mapping[str, str], turns: str = "") -> Path:
    """Write a strategy's folder. files: its files by name; those without a suffix are templates. turns: further lines
    of strategy.yaml. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "strategy.yaml").write_text(f"schema: 1\ndescription: x\nmax_tokens: 50\n{turns}")
    for name, text in files.items():
        (folder / (name if name.endswith((".py", ".md", ".txt", ".json", ".j2")) else f"{name}.j2")).write_text(text)
    return folder


def talk(strategy: Strategy, item: Item, reply: Callable[[Turn], str | Reply]) -> tuple[list[Turn], Conversation]:
    """Lead a conversation to its end; `reply` answers every turn. Returns its turns and the conversation."""
    conversation = strategy.conversation(item)
    waiting, asked = list(conversation.open), []
    while waiting:
        turn = waiting.pop(0)
        asked.append(turn)
        said = reply(turn)
        waiting += conversation.reply(turn.number, said if isinstance(said, Reply) else Reply(said))
    assert conversation.ended
    return asked, conversation


@cache
def items() -> dict[str, Item]:
    """A perturbed false belief, a Hi-ToM question of order 2, and an own item that does not offer "unknown"."""
    wanted = {"question_kind": "belief", "kind": "unexpected_transfer"}.items()
    perturbed = next(item for item in load("perturbed") if wanted <= item.factors.items())
    hitom = next(item for item in load("hitom", ROOT / "tests/data/hitom_small.json") if item.factors["order"] == 2)
    own = make_item(choices=["tea", "salt"], gold={"sets": [["salt"], ["salt"], ["tea"]]})
    return {"perturbed": perturbed, "hitom": hitom, "own": own}


def scripted(turn: Turn) -> str:
    """A made-up reply: sentences for free text, a plausible object for a schema."""
    if turn.schema is None:
        return "1. The first thing.\n3. The third thing."
    properties = turn.schema["properties"]
    if "sentences" in properties:
        entries = properties["sentences"]["prefixItems"]
        everybody = ["Bela", "Cleo", "Ada", "Rayen", "Linh", "Zofia"]
        seen = [everybody if place % 2 else ["Bela"] for place in range(len(entries))]
        told = [{"sentence": n, "perceived_by": names} for n, names in enumerate(seen, 1)]
        return orjson.dumps({"sentences": told}).decode()
    if "knows" in properties:
        return orjson.dumps({"knows": [n != 1 for n in range(properties["knows"]["minItems"])]}).decode()
    if "question" in properties:
        return '{"question": "And without this person?"}'
    return fill(turn.schema)
