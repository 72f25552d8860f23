"""Chains of reasoning for tests of what reads and edits them: lists in several styles, and prose written by rule."""

import json
from collections.abc import Sequence

from tomserve.faithfulness.chains import (
    EditedChain,
    OmittedEdit,
    WrittenChain,
    find_changes,
    gold_path,
    labels_of,
    turn_of,
)
from tomserve.faithfulness.edits import make_edits
from tomserve.faithfulness.table import EDITS
from tomserve.items import Item
from tomserve.prompting.persons import people_of

TIN = Item(
    id="tin/belief",
    story=["Nadia finds a tin.", 'A sticker says "acorns".', "She reads it.", "Rui looks in and sees marbles."],
    question="At the end of the story, what does Nadia believe is in the tin?",
    choices=["unknown", "marbles", "acorns", "beads"],
    answer="acorns",
    gold={"sets": [["unknown"], ["unknown"], ["acorns"], ["acorns"]]},
    cluster="tin",
)
RUI = Item(
    id="tin/other", story=TIN.story, question="At the end of the story, what does Rui believe is in the tin?",
    choices=["marbles", "unknown", "beads", "acorns"], answer="marbles",
    gold={"sets": [["unknown"], ["unknown"], ["unknown"], ["marbles"]]}, cluster="tin",
)  # fmt: skip
JAR = Item(
    id="jar/belief",
    story=["Ann sees a jar.", "Its lid says tea.", "Ann reads it.", "It is shut.", "Ann leaves."],
    question="What does Ann think is in the jar?",
    choices=["unknown", "marbles", "acorns", "beads"],
    answer="beads",
    cluster="jar",
)


def reply(item: Item, beliefs: Sequence[str], answer: str, *, only_changes: bool = False) -> str:
    """A reply with one belief a sentence, or only those that change."""
    places = find_changes(beliefs) if only_changes else range(1, len(beliefs) + 1)
    listed = [{"sentence": place, "belief": beliefs[place - 1]} for place in places]
    return json.dumps({"beliefs": listed, "answer": answer})


def gold_list(item: Item, *, only_changes: bool) -> WrittenChain:
    """The right chain as a list."""
    assert item.gold is not None
    beliefs = gold_path(item.gold.automaton(), item.answer)
    found = labels_of(item, reply(item, beliefs, item.answer, only_changes=only_changes))
    assert isinstance(found, WrittenChain), found
    return found


def gold_prose(item: Item) -> WrittenChain:
    """The right chain as a model may put it into words: the story told again, with what is believed after it."""
    assert item.gold is not None
    beliefs, who = gold_path(item.gold.automaton(), item.answer), (people_of(item) or ("she",))[0]
    lines = ["Let's go through the story step by step.", ""]
    for place, sentence in enumerate(item.story, 1):
        new = place in find_changes(beliefs)
        lines.append(
            f"{place}. {sentence}" + (f" So now {who} believes that it is {beliefs[place - 1]}." if new else "")
        )
    lines += ["", f"Therefore, {who} still thinks that it is **{item.answer}**. The answer is {item.answer}."]
    found = turn_of("\n".join(lines))
    assert isinstance(found, WrittenChain), found
    return found._replace(model_answer=item.answer)


def tokens(text: str) -> int:
    return len(text.split())


def edited(
    item: Item,
    written: WrittenChain,
    mates: tuple[Item, ...] = (RUI, TIN),
    other: tuple[Item, WrittenChain] | None = None,
) -> dict[str, EditedChain | OmittedEdit]:
    """What comes of every edit of a chain."""
    found = list(make_edits(item, written, mates=mates, other=other, tokens=tokens))
    assert [one.condition for one in found] == list(EDITS)
    return {one.condition: one for one in found}


def texts(found: dict[str, EditedChain | OmittedEdit]) -> dict[str, tuple[str, str | None]]:
    return {name: (one.text, one.implied) for name, one in found.items() if isinstance(one, EditedChain)}
