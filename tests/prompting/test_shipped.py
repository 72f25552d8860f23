"""The strategies that come with tomserve: what each sends for a perturbed, a Hi-ToM and an own item, word for word.

`python -m tests.prompting.test_shipped` writes the expected texts anew, to be read before they are committed.
"""

import itertools
import re
import sys
from collections.abc import Callable

import orjson
import pytest

from tests.conftest import ROOT, fill, make_item
from tests.helpers.strategies import READERS, items, scripted, talk
from tomserve import benchmarks
from tomserve.benchmarks import load
from tomserve.benchmarks.hitom.events import Move, Place, Story, read_question
from tomserve.benchmarks.hitom.tracker import trace
from tomserve.content.python_file import load_module
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.prompting.conversation import Reply, Turn
from tomserve.prompting.folder import TurnFile
from tomserve.prompting.persons import people_of
from tomserve.prompting.strategy import VARIABLES, Strategy, list_strategies
from tomserve.scoring.answers import read_reply

TEXTS = ROOT / "tests/data/prompts"


FIRST = ["cot_1", "hitom_chain", "hitom_cot", "hitom_cot_reason_first", "hitom_vanilla", "vanilla_1"]
"""Strategies whose digests tests/prompting/test_turns.py knows."""


ROTATING = ["cot", "cot_every_sentence", "vanilla", "vanilla_advised"]
"""Strategies that show one of the demonstrations of prompts/demonstrations.yaml."""


NEW = [
    *("cot_free", "cot_zero_shot", "decompose", "narrator", "perceptom", "reason_native", "simtom", "simtom_oracle"),
    *("vanilla_free", "vanilla_open"),
]


LETTERED = ["letters", "letters_cot"]
"""Strategies whose replies are letters, which their programs turn into options."""


OFFICIAL = ["fantom_official", "mmtom_official"]
"""Strategies in the form of a published benchmark's authors, in free text."""


WEIGHED = ["forced_choice"]
"""Strategies whose replies are no texts; tests/prompting/test_forced_choice.py has their requests."""


PUBLISHED = [
    name
    for name in list_strategies()
    if name not in (*FIRST, *OFFICIAL) and name.partition("_")[0] in benchmarks.names()
]
"""Further strategies of one published benchmark each; the tests of that benchmark have their requests."""


def shown(turns: list[Turn]) -> str:
    """The turns as a text that people can read and compare: every message under its turn's number and its role."""
    lines = []
    for turn in turns:
        lines += [f"[{turn.number} {message['role']}]\n{message['content']}" for message in turn.messages]
    return "\n".join(lines) + "\n"


def text_of(name: str) -> str:
    """All that a strategy sends for the three items."""
    strategy = Strategy.load(name)
    return "\n".join(f"=== {kind}\n{shown(talk(strategy, item, scripted)[0])}" for kind, item in items().items())


def test_these_strategies_are_shipped_each_with_a_page_that_names_its_source() -> None:
    assert list_strategies() == sorted([*FIRST, *ROTATING, *NEW, *LETTERED, *OFFICIAL, *PUBLISHED, *WEIGHED, *READERS])
    for name in [*NEW, *LETTERED, *OFFICIAL, *PUBLISHED, *WEIGHED]:
        page = (ROOT / "prompts" / name / "README.md").read_text()
        assert page.startswith(f"# {name}\n")
        for word in ("**Source**: ", "**Calls**: "):
            assert word in page


@pytest.mark.parametrize("name", [*ROTATING, *NEW, *LETTERED, *OFFICIAL])
def test_what_is_sent_is_what_was_read_and_agreed_to(name: str) -> None:
    assert text_of(name) == (TEXTS / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("name", [*FIRST, *ROTATING, *NEW])
@pytest.mark.parametrize("kind", ["perturbed", "hitom", "own"])
def test_every_strategy_ends_in_an_answer_that_can_be_read(name: str, kind: str) -> None:
    item, strategy = items()[kind], Strategy.load(name)
    asked, conversation = talk(strategy, item, lambda turn: scripted(turn) if turn.schema else item.choices[0])
    assert conversation.conclusion is None
    schema = asked[-1].schema
    text = fill(schema) if schema else item.choices[0]
    found = read_reply(text, item.choices, len(item.story), strategy.chain)
    assert found.answer == item.choices[0]
    if schema and kind == "hitom" and name in NEW:
        assert schema["properties"]["answer"]["enum"] == list(item.choices[:-1])
    if schema and kind == "own":
        assert schema["properties"]["answer"]["enum"] == ["tea", "salt"]


@pytest.mark.parametrize("name", LETTERED)
def test_more_options_than_letters_are_refused(name: str) -> None:
    choices = [f"the drawer with number {n}" for n in range(27)]
    with pytest.raises(ConfigError, match="options: found 27; letters stand for at most 26"):
        talk(Strategy.load(name), make_item(choices=choices, answer=choices[0], gold=None), lambda turn: "A")


@pytest.mark.parametrize("kind", ["perturbed", "hitom", "own"])
@pytest.mark.parametrize("name", LETTERED)
def test_a_letter_stands_for_the_option_beside_it(name: str, kind: str) -> None:
    item, strategy = items()[kind], Strategy.load(name)
    offered = [one for one in item.choices if one != "unknown" or kind != "hitom"]
    for place, option in enumerate(offered):
        reply = f'{{"answer": "{"ABCDEFGHIJKLMNOPQ"[place]}"}}'
        asked, conversation = talk(strategy, item, lambda turn, reply=reply: reply if turn.schema else "Hm.")
        shown = asked[0].messages[-1]["content"]
        assert f"\n{'ABCDEFGHIJKLMNOPQ'[place]}. {option}\n" in f"{shown}\n"
        assert conversation.conclusion is not None
        assert read_reply(conversation.conclusion, item.choices).answer == option
    assert asked[-1].schema["properties"]["answer"]["enum"] == list("ABCDEFGHIJKLMNOPQ"[: len(offered)])
    for text in ("B", '{"answer": "Q"}', '{"answer": ["A"]}', "[1]", "null", '{"answer": "A'):
        _, conversation = talk(strategy, item, lambda turn, text=text: text)
        assert conversation.conclusion == text, "what gives no letter is left as it is"


ASKED = ("What is in the jar?", "What does Ada think is in it?", "Where does Ada think Bo thinks it is?")


CALLS = {"simtom": (1, 2, 3), "simtom_oracle": (1, 1), "perceptom": (1, 2, 2), "decompose": (1, 3, 5)}


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_of_a_strategy_follow_from_who_is_asked_about(name: str) -> None:
    for question, calls in zip(ASKED, CALLS[name], strict=False):
        assert len(talk(Strategy.load(name), make_item(question=question), scripted)[0]) == calls, question


def last(name: str, item: Item, reply: Callable[[Turn], str | Reply]) -> str:
    return talk(Strategy.load(name), item, reply)[0][-1].messages[-1]["content"]


def test_perceptom_keeps_what_all_asked_persons_perceive() -> None:
    item = make_item(question="What does Ann think nurse Bo believes?", factors={"person": "Ann > nurse Bo"})
    said = [["Ann", "Bo"], ["Anna", "Bo"], ["ann", "the nurse Bo"]]
    told = {"sentences": [{"sentence": n, "perceived_by": who} for n, who in enumerate(said, 1)]}
    shown = last("perceptom", item, lambda turn: orjson.dumps(told).decode())
    assert shown.startswith(f"What Ann and nurse Bo perceived together:\n1. {item.story[0]}\n3. {item.story[2]}\n\nQ")


@pytest.mark.parametrize("reply", ['{"sentences": [{"sent', '{"sentences": 5}', '{"sentences": [{"sentence": [1]}]}'])
def test_a_perception_that_cannot_be_read_leaves_the_whole_story(reply: str) -> None:
    assert last("perceptom", make_item(), lambda turn: reply).startswith("Story:\n1. The jar stands on the shelf.\n2. ")
    assert last("decompose", make_item(), lambda turn: reply).startswith("Story:\n1. The jar stands on the shelf.\n2. ")


def test_the_oracle_shows_what_hitom_agents_witnessed_together() -> None:
    module = load_module(ROOT / "prompts/simtom_oracle/program.py", "strategy")
    for item in itertools.islice(load("hitom"), 0, None, 4):
        asked, obj = read_question(item.question)
        if not asked:
            continue
        story = Story.parse(item.story)
        kept = set(module.witnessed(item, asked))
        decisive = {update.line + 1 for update in trace(story, obj).under("released").accept_updates(asked)}
        moved = [isinstance(event, Move | Place) and event.object == obj for event in story.events]
        moves = {n for n, told in enumerate(moved, 1) if told}
        assert decisive <= kept, item.id
        assert kept & moves == decisive & moves, item.id


def test_the_oracle_keeps_of_perturbed_stories_what_the_belief_rests_on() -> None:
    module = load_module(ROOT / "prompts/simtom_oracle/program.py", "strategy")
    for item in itertools.islice(filter(people_of, load("perturbed")), 0, None, 7):
        told = " ".join(item.story[number - 1] for number in module.believed(item))
        assert module.names(told, item.answer) or item.answer == "unknown", item.id
        plain = item.factors["perturbation"] == "none" and item.factors["scenario"] == "false_belief"
        if plain and item.factors["kind"] == "unexpected_transfer":
            assert len(told) < len(" ".join(item.story)), item.id


def test_the_oracle_says_where_there_is_no_truth_to_take() -> None:
    with pytest.raises(ConfigError, match="simtom_oracle: item 'demo/1' has no gold"):
        Strategy.load("simtom_oracle").turn(make_item(gold=None))


def test_the_pages_on_strategies_list_all_variables_and_all_fields_of_a_turn() -> None:
    page = (ROOT / "docs/how-to/strategy.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)`", page.split("## What templates see")[1], re.M)
    assert listed == [*VARIABLES, "replies", "chain"]
    page = (ROOT / "docs/how-to/turns.md").read_text("utf-8")
    entries = page.split("| in an entry |")[1].split("## A program")[0]
    fields = re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\|([^|]+)\|", entries, re.M)))
    assert sorted(fields) == sorted(TurnFile.model_fields)


if __name__ == "__main__":
    TEXTS.mkdir(exist_ok=True)
    for one in [*ROTATING, *NEW, *LETTERED, *OFFICIAL]:
        (TEXTS / f"{one}.txt").write_text(text_of(one), "utf-8")
    sys.exit(0)


SMALL = ROOT / "tests/data/bigtom_small.csv"


def test_bigtom_is_asked_as_its_authors_did() -> None:
    item = next(benchmarks.load("bigtom", SMALL))
    shown = f"Story: {' '.join(item.story)}\nQuestion: {item.question}\nChoose one of the following:\n"
    shown += f"a){item.choices[0]}\nb){item.choices[1]}"
    [turn], _ = talk(Strategy.load("bigtom_0shot"), item, lambda turn: "a)")
    assert turn.schema is None
    assert turn.messages[0]["content"].startswith("Answer the questions based on the context. Keep your answer concise")
    assert turn.messages[1]["content"].strip() == shown
    assert turn.max_tokens == 100
    turns, _ = talk(Strategy.load("bigtom_cot"), item, lambda turn: "She sees it.")
    assert [turn.max_tokens for turn in turns] == [200, 30]
    assert turns[0].messages[1]["content"].strip() == f"{shown}\nThought: Let's think step by step:"
    assert [message["role"] for message in turns[1].messages] == ["system", "user", "assistant", "user"]
    assert turns[1].messages[-1]["content"].strip() == "Write the answer as <option>) <answer>\nAnswer:"
