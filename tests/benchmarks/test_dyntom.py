"""DynToM: its folder is read as its authors meant it, with its faults, in little memory, and refused in plain words."""

from __future__ import annotations

import shutil
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DATA
from tests.helpers.dyntom import question, questions, story, write_trial, write_trials
from tomserve.benchmarks import get, load
from tomserve.benchmarks.dyntom import asking, checking
from tomserve.benchmarks.dyntom.rules import shared_words
from tomserve.benchmarks.dyntom.trials import folders, known
from tomserve.errors import ContentError
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.answers import read
from tomserve.scoring.labels import Lettered

WHOLE = DATA / "DynToM"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_trials(tmp_path / "data/script/data", 2)


def test_seventy_one_questions_a_story_in_the_design(folder: Path) -> None:
    found = list(load("dyntom", folder))
    assert len(found) == 142
    assert Counter(item.cluster for item in found) == {"trial1": 71, "trial2": 71}
    own = [item for item in found if item.cluster == "trial1"]
    assert Counter(item.factors["task"] for item in own) == {"understanding": 20, "influence": 15, "transformation": 36}
    forms = {"what": 20, "how": 15, "whether": 16, "how_change": 4, "why": 16}
    assert Counter(item.factors["form"] for item in own) == forms
    assert Counter(item.factors["dimension"] for item in own if item.factors["form"] == "whether") == dict.fromkeys(
        asking.STATES, 4
    )
    one = next(item for item in own if item.id == "trial1/type_d_whether_2")
    assert (one.factors["scene"], one.factors["until_scene"], one.factors["state"]) == (2, 3, "belief")
    assert one.answer == "Yes, from the clay is wet to the glaze is old"
    how = next(item for item in own if item.id == "trial1/type_c_how_2")
    assert (how.factors["cause"], how.factors["state"]) == ("belief and emotion", "intention")


def test_the_story_is_told_whole_and_its_sketch_never(folder: Path) -> None:
    story = next(iter(load("dyntom", folder))).story
    assert story[0].startswith(
        "Scenario 1: Tavo thinks the kiln is broken, is upset about the kiln, wants to repair the"
    )
    assert [story[at : at + 2] for at in (1, 4, 7, 10)] == [
        ("Tavo: Look at this.", "Neighbour: Oh dear."),
        ("Tavo: It will do.", "Neighbour: Will it?"),
        ("Neighbour: Shall I help?", "Tavo: Please do."),
        ("Tavo: Hold on.", "Neighbour: I do."),
    ]
    assert "secret" not in "".join(story)
    assert [len(lines) for lines in asking.scenes(story)] == [3, 3, 3, 3, 3]


def test_options_with_equal_texts_are_one_and_right_by_either_letter(tmp_path: Path) -> None:
    asked = questions("Mira Sol")
    texts = ["later", "soon", "Now", "now", "never", "soon"]
    asked["type_a_what_1"] = question("What is the belief of Mira Sol in scenario 1?", "now", texts)
    write_trial(tmp_path / "trial1", story("Mira Sol"), asked)
    by_id = {item.id: item for item in load("dyntom", tmp_path)}
    one = by_id["trial1/type_a_what_1"]
    assert (one.choices, one.answer) == (("later", "soon", "Now", "never"), "Now")
    assert (one.factors["merged"], one.factors["twice_right"], one.factors["options"]) == (2, True, 4)
    assert by_id["trial1/type_d_why_1"].factors["twice_right"] is True
    how = by_id["trial1/type_d_how_1"].factors
    assert (how["merged"], how["twice_right"]) == (1, False)
    assert sum(bool(item.factors["merged"]) for item in by_id.values()) == 3


def test_stories_of_five_scenes_are_asked_and_one_alone_whatever_it_has(folder: Path) -> None:
    write_trials(folder, 1, scenes=7, first=9)
    assert {item.cluster for item in load("dyntom", folder)} == {"trial1", "trial2"}
    seven = list(load("dyntom", folder / "trial9"))
    assert (len(seven), {item.factors["scenes"] for item in seven}) == (101, {7})
    assert max(len(item.choices) for item in seven) == 24
    assert {item.cluster for item in load("dyntom", folder.parents[2])} == {"trial1", "trial2"}, "the repository"
    shutil.rmtree(folder / "trial1")
    write_trials(folder, 1, scenes=4, first=2)
    with pytest.raises(ContentError, match="none of 2 trials has 5 scenes"):
        list(load("dyntom", folder))


def test_rules_find_words_again_and_never_a_no(folder: Path) -> None:
    words, first = (rule.answer for rule in get("dyntom").rules)
    for item in load("dyntom", folder):
        form = item.factors["form"]
        if form in ("whether", "how_change"):
            assert words(item) == item.answer
        assert (first(item) not in (None, "No")) == (form == "whether")


@pytest.mark.parametrize("name", ["dyntom_vanilla", "dyntom_cot"])
def test_letters_are_asked_for_and_read_to_the_last(name: str, folder: Path) -> None:
    write_trials(folder, 1, scenes=7, first=9)
    item = max(load("dyntom", folder / "trial9"), key=lambda one: len(one.choices))
    turn = Strategy.load(name).turn(item)
    assert turn.schema is not None
    assert turn.schema["properties"]["answer"]["enum"] == list("ABCDEFGHIJKLMNOPQRSTUVWX")
    assert list(turn.schema["properties"])[-1] == "answer"
    said = turn.messages[-1]["content"]
    assert said.startswith(f"Story:\n{item.story[0]}\n{item.story[1]}\n")
    assert said.endswith(f"X. {item.choices[23]}")
    for place in (0, 15, 23):
        letter = chr(ord("A") + place)
        for reply in (f'{{"answer": "{letter}"}}', letter, f"({letter.lower()})", f"{letter}. {item.choices[place]}"):
            assert read(reply, Lettered(item.choices)).answer == item.choices[place], reply


def test_what_is_no_folder_of_trials_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, Path(__file__)):
        with pytest.raises(ContentError, match="holds no folder such as trial50"):
            list(load("dyntom", place))
    folder = write_trial(tmp_path / "trial1", story("Mira Sol"), questions("Mira Sol"))
    (folder / "question_new.json").unlink()
    for ask in (load, lambda name, path: [get(name).validate(path, print), get(name).audit(path, print)]):
        with pytest.raises(
            ContentError, match=r"question\.json beside it does not do, because its right answer is always"
        ):
            list(ask("dyntom", tmp_path))


WRONG = {
    "no story": ("story/story", None, r"story\.json: story: found None; expected an object of scenes"),
    "no scenes": ("story/story", {}, r"story\.json: story: found {}; expected an object of scenes"),
    "a scene's name": ("story/story", {"act 1": {}}, r"story: found 'act 1'; expected 'scenario 1'"),
    "no scene": ("story/story/scenario 2", 3, r"story\.scenario 2: found 3; expected an object with background"),
    "no dialogue": ("story/story/scenario 2/dialogue", [5], r"scenario 2: dialogue: found 5; expected an object"),
    "nothing told": ("story/story/scenario 2", {"background": " ", "dialogue": ""}, r"scenario 2: found no text"),
    "no question": ("type_a_what_3", "what?", r"question_new\.json: type_a_what_3: .*'what\?'|string indices"),
    "no words": ("type_a_what_3/question", None, r"type_a_what_3: has no field 'question'"),
    "other words": ("type_a_what_3/question", "How is Mira?", r"type_a_what_3\.question: found 'How is Mira\?'; exp"),
    "another scene": ("type_a_what_3/question", "What is the belief of X in scenario 9?", r"asks about scene 9 of 5"),
    "no options": ("type_a_what_3/options", "a. b", r"type_a_what_3: options: found 'a. b'; expected a list"),
    "no letter": ("type_a_what_3/options/1", "x. yes", r"options: found 'x. yes'; expected a text that begins with 'b\. "),
    "no text": ("type_a_what_3/options/1", "b. ", r"options: found 'b. '; expected"),
    "a control character": ("type_a_what_3/options/0", "a. \u0001x", r"type_a_what_3: String should match pattern"),
    "a book": ("type_a_what_3/options/0", "a. " + "long " * 900, r"String should have at most 2000 characters, found 'lo"),
    "one option": ("type_a_what_3/options", ["a. x", "b. X"], r"options: found fewer than two|true answer: found"),
    "no answer": ("type_a_what_3/true answer", None, r"has no field 'true answer'"),
    "no such answer": ("type_a_what_3/true answer", "q", r"true answer: found 'q'; expected the letter of one of 8"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line(name: str, tmp_path: Path) -> None:
    at, value, expected = WRONG[name]
    files = place = {"story": story("Mira Sol"), **questions("Mira Sol")}
    *path, last = [int(step) if step.isdigit() else step for step in at.split("/")]
    for step in path:
        place = place[step]
    place[last] = value
    if value is None:
        del place[last]
    write_trial(tmp_path / "trial1", files.pop("story"), files)
    with pytest.raises(ContentError, match=expected) as caught:
        list(load("dyntom", tmp_path))
    assert "\n" not in str(caught.value)
    assert "take the folder anew" in str(caught.value)


def test_checks_count_questions_faults_and_trials_that_differ(folder: Path) -> None:
    def said(check: Any, place: Path) -> str:
        found = check(place, print)
        tables = [" ".join(map(str, row)) for table in found.tables.values() for row in table.iter_rows()]
        return " ".join((*found.lines, *tables, *sum(found.sections.values(), ())))

    benchmark = get("dyntom")
    alone = said(benchmark.validate, folder / "trial1")
    assert alone.startswith("this is not") is False
    assert "1 of 1 trials differs: trial1" in alone
    assert "missing" not in alone, "one trial lacks nothing of the others"
    write_trials(folder, 1, scenes=6, first=9)
    counts = said(benchmark.audit, folder)
    for line in ("3 trials: 2 of 5 scenes, 1 of 6 scenes", "why 32 2 2 0", "how_change 8 2 0 0", "whether 32 0 0 0"):
        assert line in counts, counts
    assert len(known().digests) == 1161


def test_one_story_at_a_time_is_in_memory(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        folder = write_trials(tmp_path / str(count), count)
        tracemalloc.start()
        assert sum(1 for _ in load("dyntom", folder)) == count * 71
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(1)
    assert peak(9) < 2 * peak(2), "nine stories take no more than two but for the ids that were seen"


def test_the_known_folder_is_known_and_has_the_known_counts() -> None:
    if not WHOLE.is_dir():
        pytest.skip("needs the repository DynToM in TOMSERVE_DATA")
    assert known().differences(map(checking.row, folders(WHOLE))) is None
    found: list[Item] = [item for folder in folders(WHOLE)[:10] for item in load("dyntom", folder)]
    assert Counter(item.cluster for item in found) == {folder.name: 71 for folder in folders(WHOLE)[:10]}
    changes = [item for item in found if item.factors["form"] == "whether"]
    assert all("No" in item.choices and item.answer != "No" for item in changes)
    assert 0.5 < sum(shared_words(item) == item.answer for item in changes) / len(changes) < 0.9
