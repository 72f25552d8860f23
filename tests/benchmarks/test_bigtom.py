"""BigToM: templates, the ways to tell them, the official files, the authors' scoring, and files that are none."""

import os
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import DATA, ROOT, Outcome, data_file
from tomserve import benchmarks
from tomserve.benchmarks.bigtom import conditions, official, rules
from tomserve.benchmarks.bigtom.template import read
from tomserve.benchmarks.foreign.auditing import audited
from tomserve.errors import ConfigError, ContentError, TomserveError
from tomserve.items import Item, where
from tomserve.scoring.answers import Reading

SMALL = ROOT / "tests/data/bigtom_small.csv"
Cli = Callable[..., Outcome]


def every(path: Path = SMALL) -> list[Item]:
    return list(benchmarks.load("bigtom", path, where=benchmarks.ALL))


def one(name: str, path: Path = SMALL) -> Item:
    return next(item for item in every(path) if item.id == f"bigtom/{name}")


def test_what_the_paper_reports_is_asked_unless_conditions_say_otherwise() -> None:
    asked = list(benchmarks.load("bigtom", SMALL))
    assert Counter((item.factors["task"], item.factors["condition"]) for item in asked) == dict.fromkeys(
        [(task, belief) for task in conditions.HEADLINE for belief in conditions.BELIEFS], 4
    )
    assert {item.factors["init_belief"] for item in asked} == {0}
    assert len(list(benchmarks.load("bigtom", SMALL, where=["condition=control"]))) == 8
    assert len(every()) == 4 * 23 + 3 * 8  # one template has one answer twice about the wish


def test_a_story_is_told_as_its_condition_says() -> None:
    false = one("002/forward_belief/false_belief/0")
    assert false.story == (
        "Marek repairs clocks in a small shop.",
        "Marek wants to mend a clock for his aunt.",
        "He puts a brass key into the left drawer.",
        "A visitor moves the key to the right drawer while Marek is on the telephone.",
        "Marek does not notice that the key was moved.",
    )
    assert false.answer == "Marek believes the key is in the left drawer."
    true = one("002/forward_belief/true_belief/1")
    assert "Marek believes that the key is in the left drawer." in true.story
    assert true.story[-1] == "Marek notices that the key was moved."
    assert true.answer == "Marek believes the key is in the right drawer."
    acts = one("002/backward_belief/true_belief/0")
    assert acts.story[-1] == "Marek opens the right drawer."
    assert not any("notice" in sentence for sentence in acts.story)
    control = one("002/forward_action/true_control/0")
    assert control.story[3:] == ("Rain begins to fall on the street.", "Marek watches the rain.")
    assert control.answer == "Marek will look into the left drawer."


def test_percept_to_belief_has_the_answer_that_its_story_gives() -> None:
    item = one("002/percept_to_belief/no_event/1")
    assert len(item.story) == 3
    assert item.answer == "Marek believes the key is in the left drawer."
    row = conditions.official(read(SMALL.read_text(), SMALL))["1_percept_to_belief_true_belief"].decode().split("\r\n")
    assert row[1].endswith("right drawer.;Marek believes the key is in the left drawer.")  # the official file's order


def test_backward_controls_are_one_item_and_wishes_are_marked() -> None:
    control = one("001/backward_belief/control/0")
    assert control.factors["files"] == "0_backward_belief_true_control 0_backward_belief_false_control"
    made = conditions.official(read(SMALL.read_text(), SMALL))
    assert len(made) == 25
    assert made["0_backward_belief_true_control"] == made["0_backward_belief_false_control"]
    wishes = [item for item in every() if item.factors["dimension"] == "desire"]
    assert {item.factors["usable"] for item in wishes} == {False}
    assert "bigtom/001" not in {item.cluster for item in wishes}


def test_the_order_of_choices_follows_from_the_id_and_is_balanced() -> None:
    lines = SMALL.read_text().splitlines(keepends=True)
    again = [item for template in read("".join(lines[:2]), SMALL) for item in conditions.items(template)]
    assert {item.id: item.choices for item in again}.items() <= {item.id: item.choices for item in every()}.items()
    firsts = {(item.cluster, item.factors["files"]): item.choices[0] == item.answer for item in every()}
    for version in conditions.VERSIONS:
        for pair in ((1, 2), (3, 4)):
            values = {firsts[f"bigtom/{number:03d}", " ".join(version.files)] for number in pair if version.files}
            assert values in (set(), {True, False})


def test_rules_know_the_world_and_nobodys_mind() -> None:
    false, true = one("004/forward_belief/false_belief/0"), one("004/forward_belief/true_belief/0")
    assert rules.named_first(false) == rules.named_first(true) == false.answer != true.answer
    found = audited([false, true], (), rules.RULES).tables["rules"].to_dicts()[0]
    assert (found["state after the event"], found["state before the event"]) == (0.5, 0.5)
    control = one("004/forward_belief/false_control/0")
    assert rules.RULES[0].answer(control) == control.answer


@pytest.mark.parametrize(
    ("text", "plain", "after", "both"),
    [
        ("Answer:a)Marek", True, None, False),  # they suppose a space after "Answer:", and leave out what stands there
        ("Answer: a)Marek", True, True, False),
        ("B) the right drawer", False, False, False),  # the first seven characters are left out, and "b)" with them
        ("the left drawer", None, None, False),
        ("Thought: not b) but a).\nAnswer: b)", True, False, True),
    ],
)
def test_the_authors_scoring(text: str, plain: bool | None, after: bool | None, both: bool) -> None:
    item = next(item for item in every() if item.choices[0] == item.answer)
    found = official.compute(item, Reading(None, None, text=text))
    assert found.get("metric_official") == plain
    assert found["metric_both_keys"] == both
    if text.startswith("B)"):
        after = None
    assert found.get("metric_official_after_answer") == after
    assert not official.compute(item, Reading(None, None))


def test_the_commands(cli: Cli) -> None:
    done = cli("dataset", "validate", "bigtom", "--path", SMALL)
    assert done.code == 1
    assert "this is not data/bigtom/bigtom.csv of commit fe647d6: 4 of 4 rows differ" in done.out
    done = cli("dataset", "audit", "bigtom", "--path", SMALL)
    assert done.code == 0
    assert "desire: 1 of 4 templates have one answer twice" in done.out
    assert len(cli("items", "bigtom", "--path", SMALL, "--where", "all").out.splitlines()) == len(every())
    missing = cli("items", "bigtom")
    assert missing.code == 2
    assert "data/bigtom/bigtom.csv of github.com/cicl-stanford/procedural-evals-tom (licence: MIT)" in missing.err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (";auto;0", ";auto", "bigtom.csv:1: row 1 has 18 fields; expected 19"),
        ("on a hill.", "on a hill", "bigtom.csv:1: story: has 4 full stops; expected 5 sentences"),
        ("Does Ines believe", "Ines believes", "bigtom.csv:1: belief question: is 'Ines believes"),
        ("Ines believes the barrel is empty.", "ines believes the barrel is full.", "belief answer: is the same"),
        ("A lark sings above the hill.", " ", "bigtom.csv:1: random event: is ' '"),
        ("Ines will fetch water", "Ines will " + "fetch " * 40, "action answer aware: has 2"),
        ("Ines is a gardener", '"Ines is a gardener', "is not CSV"),
    ],
)
def test_a_broken_row_is_named_by_line_and_field(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "bigtom.csv"
    text = SMALL.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ContentError, match=r"bigtom\.csv:\d+: ") as error:
        every(path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_empty_line_is_no_row(tmp_path: Path) -> None:
    """Spreadsheets and editors leave one at the end."""
    path = tmp_path / "bigtom.csv"
    path.write_text(f"\n{SMALL.read_text()}\n\n")
    assert every(path) == every()


def test_no_file_breaks_the_reader(tmp_path: Path) -> None:
    """Whatever is done to a file, it is read or refused in one line."""
    dice, path = random.Random(24), tmp_path / "any.csv"
    good = SMALL.read_bytes()
    for _ in range(150):
        data = bytearray(good[: dice.choice((len(good), 400, 0))])
        for _ in range(dice.randrange(6)):
            if data:
                data[dice.randrange(len(data))] = dice.choice(b'";\n\r\x00\xff.A')
        path.write_bytes(bytes(data))
        try:
            every(path)
        except TomserveError as error:
            assert "\n" not in str(error)  # noqa: PT017 - most of the files are read


def test_conditions_that_no_item_meets_are_refused() -> None:
    with pytest.raises(ConfigError, match="no item has condition=false"):
        list(benchmarks.load("bigtom", SMALL, where=["condition=false"]))
    assert list(where(every(), ["all"])) == every()


def test_the_known_file() -> None:
    path = data_file("bigtom.csv")
    found = benchmarks.get("bigtom").validate
    assert found is not None
    done = found(path, print)
    assert done.code == 0
    assert done.lines == ("200 templates; 25 of 25 official files are made byte by byte: ok",)
    items = every(path)
    assert len(items) == 5456
    places = Counter((item.factors["files"], item.choices[0] == item.answer) for item in items if item.factors["files"])
    assert set(places.values()) == {100}
    order = sum(
        rules.named_first(item) == item.answer for item in items if item.id.endswith("forward_belief/false_belief/0")
    )
    assert order >= 195


def test_the_published_conditions_are_made_byte_by_byte() -> None:
    """Against data/conditions of github.com/shawnsihyunlee/simulatedtom, where TOMSERVE_DATA has that folder."""
    folder = DATA / "conditions"
    if not folder.is_dir():
        pytest.skip(f"needs the folder conditions of simulatedtom in {os.environ.get('TOMSERVE_DATA', DATA)}")
    path = data_file("bigtom.csv")
    made = conditions.official(read(path.read_text("utf-8-sig"), path))
    assert {name: (folder / name / "stories.csv").read_bytes() for name in conditions.FILES} == made


def test_the_versions_of_a_template_come_together() -> None:
    clusters = [item.cluster for item in every()]
    assert sum(one != other for one, other in pairwise(clusters)) == 3
