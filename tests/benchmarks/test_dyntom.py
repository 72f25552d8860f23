"""DynToM: its folder is read as its authors meant it, with its faults, in little memory, and refused in plain words."""

from __future__ import annotations

import contextlib
import shutil
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from tests.conftest import DATA, Endpoint, Outcome
from tests.helpers.dyntom import question, questions, story, write_trial, write_trials
from tomserve.benchmarks import get, load
from tomserve.benchmarks.dyntom import asking, checking
from tomserve.benchmarks.dyntom.rules import shared_words
from tomserve.benchmarks.dyntom.trials import folders, known
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item
from tomserve.items.draw import limited
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.answers import read
from tomserve.scoring.labels import Lettered

Cli = Callable[..., Outcome]
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
    item = next(iter(load("dyntom", folder)))
    assert item.story[:3] == (
        "Scenario 1: Tavo thinks the kiln is broken, is upset about the kiln, wants to repair the kiln and calls a "
        "fitter.",
        "Tavo: Look at this.",
        "Neighbour: Oh dear.",
    )
    assert item.story[4:6] == ("Tavo: It will do.", "Neighbour: Will it?")
    assert item.story[7:9] == ("Neighbour: Shall I help?", "Tavo: Please do.")
    assert item.story[10:12] == ("Tavo: Hold on.", "Neighbour: I do.")
    assert "secret" not in "".join(item.story)
    assert [len(lines) for lines in asking.scenes(item.story)] == [3, 3, 3, 3, 3]


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


def test_whole_stories_are_drawn(folder: Path) -> None:
    found = list(load("dyntom", folder))
    assert len({item.cluster for item in limited(found, 100, get("dyntom").draw)}) == 1
    assert len(limited(found, 100, get("dyntom").draw)) == 71


def test_rules_find_words_again_and_never_a_no(folder: Path) -> None:
    found = list(load("dyntom", folder))
    rules = {rule.name: rule for rule in get("dyntom").rules}
    changes = [item for item in found if item.factors["form"] == "whether"]
    assert all(rules["shared words"].answer(item) == item.answer for item in changes)
    courses = [item for item in found if item.factors["form"] == "how_change"]
    assert all(rules["shared words"].answer(item) == item.answer for item in courses)
    first = [rules["first choice but no"].answer(item) for item in changes]
    assert None not in first
    assert "No" not in first
    assert {rules["first choice but no"].answer(item) for item in found if item not in changes} == {None}


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


def test_it_is_asked_scored_and_analyzed(folder: Path, cli: Cli, endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.max_model_len = 16384
    done = cli("eval", "--benchmark", "dyntom", "--path", folder, "--base-url", endpoint.url, "--limit", "71", "--quiet",
               "--no-report")  # fmt: skip
    assert done.code == 0, done.err
    scores = pl.read_parquet(tmp_path / "runs/dyntom-tiny/scores.parquet")
    assert (scores.height, scores["cluster"].n_unique()) == (142, 1)
    assert set(scores["parse"]) == {"json+letter"}
    assert set(scores.filter(form="whether")["rule_always_no"]) == {False}
    assert cli("analyze", "dyntom-tiny").code == 0


def test_what_is_missing_is_said_with_repository_and_licence(tmp_path: Path, cli: Cli) -> None:
    with pytest.raises(ConfigError, match=r"data/script/data of github.com/GAIR-NLP/DynToM \(licence: none in the rep"):
        list(load("dyntom"))
    done = cli("items", "dyntom", "--path", tmp_path / "nowhere")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "is not there" in done.err
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", Path(__file__)):
        with pytest.raises(ContentError, match="holds no folder such as trial50"):
            list(load("dyntom", place))


def broken(at: str, value: Any) -> tuple[Any, Any]:
    """A story and its questions with one field set to another value; at: "story" or the id of a question, and fields."""
    files = {"story": story("Mira Sol"), **questions("Mira Sol")}
    first, *path = at.split("/")
    place: Any = files
    for step in [first, *path][:-1]:
        place = place[int(step)] if isinstance(place, list) else place[step]
    last = [first, *path][-1]
    if value is None:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return files.pop("story"), files


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
    write_trial(tmp_path / "trial1", *broken(at, value))
    with pytest.raises(ContentError, match=expected) as caught:
        list(load("dyntom", tmp_path))
    assert "\n" not in str(caught.value)
    assert "take the folder anew" in str(caught.value)


def test_broken_files_are_one_line(tmp_path: Path, cli: Cli) -> None:
    folder = write_trial(tmp_path / "trial1", story("Mira Sol"), questions("Mira Sol"))
    whole = (folder / "question_new.json").read_bytes()
    (folder / "question_new.json").unlink()
    with pytest.raises(ContentError, match=r"question\.json beside it does not do, because its right answer is always"):
        list(load("dyntom", tmp_path))
    for text in (whole[:900], b"[]", b"\xff", b""):
        (folder / "question_new.json").write_bytes(text)
        done = cli("items", "dyntom", "--path", tmp_path)
        assert (done.code, done.err.count("\n")) == (2, 1), done.err
        assert "question_new.json" in done.err


def test_whatever_is_in_a_file_ends_in_items_or_one_line(tmp_path: Path) -> None:
    """Random damage: a value anywhere is replaced by another of any type."""
    dice = Random(5)
    kinds: list[Any] = [None, 3, "", "x", [], {}, ["a. b"], {"question": 1}, True, "a. \u0001"]
    for _ in range(120):
        files: list[Any] = [story("Mira Sol"), dict(list(questions("Mira Sol").items())[::10])]
        place = dice.choice(files)
        while True:
            key = dice.choice(list(place) if isinstance(place, dict) else list(range(len(place))))
            if not isinstance(place[key], dict | list) or not place[key] or dice.random() < 0.2:
                break
            place = place[key]
        place[key] = dice.choice(kinds)
        shutil.rmtree(tmp_path / "trial1", ignore_errors=True)
        write_trial(tmp_path / "trial1", *files)
        with contextlib.suppress(ContentError):  # any other error is a traceback for the user
            list(get("dyntom").items(tmp_path))


def test_a_changed_trial_is_known_by_its_digest(folder: Path, cli: Cli) -> None:
    done = cli("dataset", "validate", "dyntom", "--path", folder)
    assert done.code == 1
    assert "this is not data/script/data of commit 9c95b1b8300f: 2 of 2 trials differ and 1,159 trials are missing: " \
        "trial1, trial2" in " ".join(done.out.split())  # fmt: skip
    assert "2 trials, 142 questions by the number of scenes: 142 about stories of 5" in " ".join(done.out.split())
    assert len(known().digests) == 1161


def test_the_audit_says_that_the_folder_is_another(folder: Path, cli: Cli) -> None:
    said = " ".join(cli("dataset", "audit", "dyntom", "--path", folder).out.split())
    assert "this is not data/script/data of commit 9c95b1b8300f: 2 of 2 trials differ" in said


def test_one_trial_lacks_nothing_of_the_others(folder: Path, cli: Cli) -> None:
    said = " ".join(cli("dataset", "validate", "dyntom", "--path", folder / "trial1").out.split())
    assert said.startswith("1 trial, 71 questions by the number of scenes")
    assert "1 of 1 trials differs: trial1" in said


@pytest.mark.parametrize("command", ["validate", "audit"])
def test_questions_that_must_not_be_asked_are_named_by_every_command(folder: Path, cli: Cli, command: str) -> None:
    (folder / "trial1/question_new.json").unlink()
    done = cli("dataset", command, "dyntom", "--path", folder)
    assert done.code == 2
    assert "trial1/question_new.json: is not there; question.json beside it does not do" in done.err
    assert done.err.count("question_new.json") == 1


def test_the_audit_counts_what_is_wrong(folder: Path, cli: Cli) -> None:
    write_trials(folder, 1, scenes=6, first=9)
    done = cli("dataset", "audit", "dyntom", "--path", folder)
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "3 trials: 2 of 5 scenes, 1 of 6 scenes" in said
    assert "why 32 2 2 0" in said
    assert "how_change 8 2 0 0" in said
    assert "whether 32 0 0 0" in said
    assert "all all all 142 2 2" in said


def test_one_story_at_a_time_is_in_memory(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        folder = write_trials(tmp_path / str(count), count)
        tracemalloc.start()
        assert sum(1 for _ in load("dyntom", folder)) == count * 71
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(1)
    assert peak(30) < 2 * peak(3), "30 stories take no more than 3 but for the ids that were seen"


# The authors' own folder

needs_folder = pytest.mark.skipif(not WHOLE.exists(), reason="the repository DynToM is not in TOMSERVE_DATA")


@needs_folder
def test_the_known_folder_is_known_and_has_the_known_counts() -> None:
    assert known().differences(map(checking.row, folders(WHOLE))) is None
    found: list[Item] = [item for folder in folders(WHOLE)[:10] for item in load("dyntom", folder)]
    assert Counter(item.cluster for item in found) == {folder.name: 71 for folder in folders(WHOLE)[:10]}
    changes = [item for item in found if item.factors["form"] == "whether"]
    assert all("No" in item.choices and item.answer != "No" for item in changes)
    assert 0.5 < sum(shared_words(item) == item.answer for item in changes) / len(changes) < 0.9
