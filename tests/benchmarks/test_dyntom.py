"""DynToM: its folder is read as its authors meant it, with its faults, in little memory, and refused in plain words."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DATA
from tests.helpers.dyntom import write_trials
from tomserve.benchmarks import get, load
from tomserve.benchmarks.published import dyntom
from tomserve.benchmarks.published.dyntom import most_shared_words, trial_folders
from tomserve.errors import ContentError
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.answers import read_reply
from tomserve.scoring.labels import LetteredChoices

WHOLE = DATA / "DynToM"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_trials(tmp_path / "data/script/data", 2)


def test_stories_of_five_scenes_are_asked_and_one_alone_whatever_it_has(folder: Path) -> None:
    write_trials(folder, 1, scenes=7, first=9)
    assert {item.cluster for item in load("dyntom", folder)} == {"trial1", "trial2"}
    seven = list(load("dyntom", folder / "trial9"))
    assert (len(seven), {item.factors["scenes"] for item in seven}) == (101, {7})
    assert max(len(item.choices) for item in seven) == 24
    assert "secret" not in "".join(seven[0].story), "the sketch of a story is never told"


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
            assert read_reply(reply, LetteredChoices(item.choices)).answer == item.choices[place], reply


def test_what_is_no_folder_of_trials_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, Path(__file__)):
        with pytest.raises(ContentError, match="holds no folder such as trial50"):
            list(load("dyntom", place))
    (write_trials(tmp_path, 1) / "trial1/question_new.json").unlink()
    for ask in (load, lambda name, path: [get(name).validate(path, print), get(name).audit(path, print)]):
        with pytest.raises(ContentError, match=r"question\.json beside it does not do, because its right answer"):
            list(ask("dyntom", tmp_path))


def test_checks_count_questions_faults_and_trials_that_differ(folder: Path) -> None:
    def said(check: Any, place: Path) -> str:
        found = check(place, print)
        tables = [" ".join(map(str, row)) for table in found.tables.values() for row in table.iter_rows()]
        return " ".join((*found.lines, *tables, *sum(found.sections.values(), ())))

    benchmark = get("dyntom")
    assert "1 of 1 trials differs: trial1" in said(benchmark.validate, folder / "trial1")
    write_trials(folder, 1, scenes=6, first=9)
    counts = said(benchmark.audit, folder)
    for line in ("3 trials: 2 of 5 scenes, 1 of 6 scenes", "why 32 2 2 0", "how_change 8 2 0 0", "whether 32 0 0 0"):
        assert line in counts, counts


def test_the_known_folder_is_known_and_has_the_known_counts() -> None:
    if not WHOLE.is_dir():
        pytest.skip("needs the repository DynToM in TOMSERVE_DATA")
    assert dyntom.differences(WHOLE) == []
    found: list[Item] = [item for folder in trial_folders(WHOLE)[:10] for item in load("dyntom", folder)]
    assert Counter(item.cluster for item in found) == {folder.name: 71 for folder in trial_folders(WHOLE)[:10]}
    changes = [item for item in found if item.factors["form"] == "whether"]
    assert all("No" in item.choices and item.answer != "No" for item in changes)
    assert 0.5 < sum(most_shared_words(item) == item.answer for item in changes) / len(changes) < 0.9
