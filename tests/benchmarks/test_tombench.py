"""ToMBench: reading its files, its official reader and vote, its strategies; on files of our own and on the real ones."""

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import data_file
from tests.helpers import tombench
from tests.helpers.strategies import talk
from tomserve import benchmarks
from tomserve.benchmarks.published import tombench as published_tombench
from tomserve.benchmarks.published.tombench import ANSWER
from tomserve.content.python_file import load_module
from tomserve.errors import TomserveError
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.answers import read_reply
from tomserve.scoring.labels import LetteredChoices
from tomserve.scoring.score import score_row

STRATEGIES = {name: Strategy.load(name) for name in ("tombench_vanilla", "tombench_cot", "tombench_vote")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tombench.write(tmp_path / "data")


def items(path: Path) -> list[Item]:
    return list(benchmarks.load("tombench", path, where=["all"]))


FAULTS = [
    ({"OPTION-C": "Red box"}, "en", "option_twice"),
    ({ANSWER: "A. "}, "zh", "letter_misspelt"),
    ({"选项C": None, "选项D": None, ANSWER: "B"}, "en", "of_another_story"),
]


@pytest.mark.parametrize(("changed", "language", "fault"), FAULTS)
def test_known_faults_are_marked(changed: dict, language: str, fault: str, tmp_path: Path) -> None:
    row = tombench.row("Hidden Emotions", 1, **{ANSWER: "A", **changed})
    (tmp_path / "Hidden Emotions.jsonl").write_text(json.dumps(row))
    found = items(tmp_path / "Hidden Emotions.jsonl")
    item = next(item for item in found if item.factors["language"] == language)
    assert item.factors["fault"] == fault
    assert len(set(item.choices)) == item.factors["options"]


def test_checks_of_a_folder_and_of_one_file(folder: Path) -> None:
    benchmark = benchmarks.get("tombench")
    one = str(benchmark.validate(folder / "False Belief Task.jsonl", print))
    assert "4 of 4 rows differ" in one
    assert "missing" not in one, "one of the files lacks nothing of the others"
    (folder / "Hinting Task Test.jsonl").unlink()
    with pytest.raises(TomserveError, match="lacks 1 of 20 files, the first is 'Hinting"):
        benchmark.audit(folder, print)


READ = {
    "[[C]]": ("C", "marked"), "First [[B]], no: [[A]]": ("A", "marked"), "it is [D].": ("D", "marked"),
    "B is the answer": ("B", "last letter"), "Because Anna saw it": ("A", "last letter"), "不知道": ("A", "nothing"),
    "": ("A", "nothing"),
}  # fmt: skip


def test_the_official_reader_finds_a_letter_in_anything() -> None:
    assert {text: published_tombench.letter_of(text) for text in READ} == READ


def test_orders_are_drawn_by_the_question_alone() -> None:
    choices = ["tea", "salt", "milk", "rice"]
    drawn = published_tombench.orders("hinting/7/en", choices)
    assert drawn == published_tombench.orders("hinting/7/zh", choices)
    assert len(drawn) == 5
    assert all(sorted(order) == sorted(choices) for order in drawn)
    many = [order for number in range(400) for order in published_tombench.orders(f"hinting/{number}/en", choices)]
    first = Counter(order[0] for order in many)
    assert all(420 < first[choice] < 580 for choice in choices)  # 500 are expected, with a spread of 19


def scored(item: Item, strategy: str, text: str) -> dict[str, object]:
    rules = replace(benchmarks.scoring_of("tombench"), lettered=True)  # as the strategy says
    return score_row("run", "model", item, {"strategy": strategy, "status": "ok", "text": text}, scoring=rules)


def test_official_and_own_reading_stand_side_by_side(folder: Path) -> None:
    item = next(item for item in items(folder) if item.id == "hidden_emotions/1/en")
    right = "ABCD"[item.choices.index(item.answer)]
    wrong = next(letter for letter in "ABCD" if letter != right)
    both = scored(item, "tombench_vanilla", f"[[{right}]]")
    assert (both["correct"], both["metric_official_correct"], both["metric_official_guessed"]) == (True, True, 0.0)
    unread = scored(item, "tombench_vanilla", "I cannot decide")
    assert unread["status"] == "invalid"
    assert unread["metric_official_guessed"] == 1.0
    assert scored(item, "tombench_vanilla", f"Perhaps {wrong}? I do not know.")["metric_official_guessed"] == 1.0


def test_the_vote_takes_what_most_replies_choose(folder: Path) -> None:
    item = next(item for item in items(folder) if item.id == "hinting/1/zh")
    other = next(choice for choice in item.choices if choice != item.answer)
    said = iter([item.answer, other, other, item.answer, item.answer])

    def reply(turn: object) -> str:
        shown = turn.messages[-1]["content"].split("[答案选项]\n")[1].splitlines()
        return f"[[{next(line[0] for line in shown if line[3:] == wanted)}]]" if (wanted := next(said)) else ""

    turns, conversation = talk(STRATEGIES["tombench_vote"], item, reply)
    assert len(turns) == 5
    assert len({turn.messages[-1]["content"] for turn in turns}) > 1
    account = json.loads(conversation.conclusion or "")
    assert account["answer"] == item.answer
    assert account["votes"] == account["official"] == [item.answer, other, other, item.answer, item.answer]
    assert account["fallbacks"] == 0
    row = scored(item, "tombench_vote", conversation.conclusion or "")
    assert (row["correct"], row["metric_official_correct"], row["metric_official_guessed"]) == (True, True, 0.0)


def test_a_vote_without_a_readable_reply_has_no_answer_but_an_official_one(folder: Path) -> None:
    item = next(item for item in items(folder) if item.id == "hinting/1/en")
    _, conversation = talk(STRATEGIES["tombench_vote"], item, lambda turn: "no idea")
    account = json.loads(conversation.conclusion or "")
    row = scored(item, "tombench_vote", conversation.conclusion or "")
    assert ("answer" in account, row["status"], row["metric_official_guessed"]) == (False, "invalid", 1.0)
    assert account["official"] == [order[0] for order in published_tombench.orders(item.id, item.choices)]


@pytest.fixture(scope="module")
def real() -> list[Item]:
    return items(data_file("ToMBench/data/False Belief Task.jsonl").parent)


def test_the_published_files_have_the_known_faults_and_letters(real: list[Item]) -> None:
    english = [item for item in real if item.factors["language"] == "en"]
    assert Counter(item.factors["letter"] for item in english) == {"A": 768, "B": 967, "C": 619, "D": 506}
    faults = Counter((item.factors["fault"], item.factors["language"]) for item in real if item.factors["fault"])
    misspelt = {("letter_misspelt", "en"): 1, ("letter_misspelt", "zh"): 1}
    assert faults == {**misspelt, ("of_another_story", "en"): 1, ("option_twice", "en"): 2}
    for item in real[::7]:
        letter = "ABCD"[item.choices.index(item.answer)]
        for said in (f"[[{letter}]]", f"{letter}. {item.answer}"):
            assert read_reply(said, LetteredChoices(item.choices), 1, item.question).answer == item.answer


def test_the_prompts_are_the_published_ones_word_for_word(real: list[Item]) -> None:
    theirs = load_module(data_file("ToMBench/prompts.py"), "published prompts")
    for item in (item for item in real if item.factors["number"] == 1):
        language, size = item.factors["language"], len(item.choices)
        if size == 3:
            continue  # an option stood twice
        choices = dict(zip(("choice_a", "choice_b", "choice_c", "choice_d"), item.choices, strict=False))
        form = vars(theirs)[f"UserEvaluatePrompt{size}Choices_{language}"]
        user = form.format(story=item.story[0], question=item.question, **choices)
        for name, ending in (("tombench_vanilla", ""), ("tombench_cot", "_cot")):
            sent = STRATEGIES[name].turn(item).messages
            assert [message["content"] for message in sent] == [
                vars(theirs)[f"SystemEvaluatePrompt_{language}{ending}"],
                user,
            ]


def test_the_official_reader_and_vote_are_the_published_ones() -> None:
    theirs = vars(load_module(data_file("ToMBench/get_results.py"), "published scorer"))
    chance = random.Random(1)
    for _ in range(3000):
        text = "".join(chance.choices(["[[", "]]", "[", "]", *"ABCDEab ", "no"], k=chance.randrange(9)))
        assert published_tombench.letter_of(text)[0] == theirs["extract_answer"](text)
        votes = chance.choices(["tea", "salt", "milk", "rice"], k=5)
        assert published_tombench.majority(votes) == theirs["most_common_element"](votes)
