"""Who is asked what: equally often, spread over the design, no two versions of a story; and what the folder holds."""

import csv
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.helpers.questionnaires import CANARY, benchmark, hostile, items, made
from tomserve.benchmarks import Benchmark
from tomserve.content import files
from tomserve.errors import ConfigError, ContentError
from tomserve.humans import plan as planning
from tomserve.humans.questionnaire import (
    QuestionnaireOptions,
    assign_units,
    make_questionnaire,
    make_units,
    spread_factors,
)
from tomserve.humans.texts import find_placeholders, load_texts, read_consent, split_paragraphs
from tomserve.items import Item


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_unit_equally_often_no_cluster_twice_and_factors_spread(together: bool, seed: int) -> None:
    found = make_units(items(), together)
    assert len(found) == (16 if together else 32)
    drawn = assign_units(found, 12, 4, seed)
    assert drawn == assign_units(found, 12, 4, seed) != assign_units(found, 12, 4, seed + 5)
    used = Counter(place for one in drawn for place in one)
    counts = [used[place] for place in range(len(found))]
    assert max(counts) - min(counts) <= 1
    even = 0
    for one in drawn:
        assert len(one) == 4 == len({found[place].cluster for place in one})
        for factor in spread_factors(found):
            values = Counter(found[place].values[factor] for place in one)
            assert set(values.values()) <= {1, 2, 3}, factor
            even += set(values.values()) == {2}
    assert even >= 0.9 * len(drawn) * len(spread_factors(found))


def test_unequal_clusters_still_come_up_equally_often() -> None:
    """Where clusters have one to six versions, the greedy draw alone would leave some units out."""
    rng = random.Random(4)
    listed = [
        Item(id=f"{c}/{v}", story=[f"{c} {v}"], question="?", choices=["a", "b"], answer="a", cluster=str(c),
             factors={"arm": rng.choice(["x", "y"])})
        for c in range(20) for v in range(rng.randint(1, 6))
    ]  # fmt: skip
    drawn = assign_units(make_units(listed), 15, 10, 3)
    used = Counter(place for one in drawn for place in one)
    assert max(used.values()) - min(used[place] for place in range(len(listed))) <= 1
    assert all(len({listed[place].cluster for place in one}) == 10 for one in drawn)


def test_codes_survive_a_slip_of_the_pen() -> None:
    found = planning.draw_codes(300, random.Random(1))
    assert len(set(found)) == 300
    assert not set("".join(found)) & set("0O1IBS8Q2Z5"), "characters that are mistaken for one another"
    assert not set("".join(found)) & set("AEIOU"), "a spreadsheet would change MAR4 and 4E97"
    assert not any(code.isdigit() for code in found), "a code that looks like the number of a question"
    near = {(place, code[:place] + code[place + 1 :]) for code in found for place in range(4)}
    assert len(near) == 4 * 300, "two codes differ in one place only"
    with pytest.raises(ConfigError, match="at most 2000"):
        planning.draw_codes(2001, random.Random(1))


def test_the_folder_holds_a_plan_that_reads_back_and_forms_without_answers(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    result = made(folder)
    plan, known = planning.read_plan(folder)
    assert plan == result.plan
    assert {len(form.questions) for form in plan.forms} == {4 + 2}
    assert result.unfilled[0] == "NAME OF THE RESEARCHER"
    for form in plan.forms:
        assert len({asked.page for asked in form.questions}) == 6
        assert form.questions[0].check is None, "an attention check comes first"
        for kind in ("forms", "printed"):
            text = (folder / kind / f"{form.code}.html").read_text()
            assert form.code in text
            assert CANARY in text
            assert not [name for name in known if name in text], "a form names an item"
            assert "http" not in text.replace("http-equiv", "")
        online = (folder / "forms" / f"{form.code}.html").read_text()
        assert f'<main id="main"><p>{load_texts().page.no_script}</p></main>' in online, "shown where no script runs"
    rows = list(csv.DictReader((folder / "plan.csv").open()))
    assert (len(rows), sum(1 for row in rows if row["check"])) == (4 * 6, 8)
    assert (folder / "typed.csv").read_text().count("\n") == 1 + 24


def test_hostile_stories_become_no_part_of_a_page(tmp_path: Path) -> None:
    """Stories may be anybody's file (--path)."""
    hostile(tmp_path / "study")
    for page in (*tmp_path.glob("study/forms/*.html"), *tmp_path.glob("study/printed/*.html")):
        text = page.read_text()
        assert "alert(1)" in text
        for wrong in ("<script>document.title", "<img", "</script><script", "49"):
            assert wrong not in text, page
    assert ",'=1+1\n" in (tmp_path / "study/plan.csv").read_text(), "it is no formula of a spreadsheet"


def test_all_questions_of_a_story_share_a_page_in_both_orders(tmp_path: Path) -> None:
    plan = made(tmp_path / "study", together=True, attention=0).plan
    for form in plan.forms:
        pages = [[asked.item or "" for _, asked in page] for page in form.pages()]
        assert [len(page) for page in pages] == [2] * 4
        assert all(page[0].rpartition("/")[0] == page[1].rpartition("/")[0] for page in pages)
        assert Counter(page[0].rpartition("/")[2] for page in pages) == {"belief": 2, "reality": 2}


def test_the_order_of_choices_varies_and_the_forms_repeat_by_seed(tmp_path: Path) -> None:
    first, again, other = (made(tmp_path / name, seed=seed).plan for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert first == again
    assert first.questionnaire != other.questionnaire
    assert {tuple(q.choices) for form in first.forms for q in form.questions if q.item} > {("tea", "salt", "unknown")}
    some = made(tmp_path / "d", where=("question_kind=belief", "version=unseen"), people=2).plan
    asked = [q.item for form in some.forms for q in form.questions if q.item]
    assert asked == [name for name in asked if name.endswith("unseen/belief")] != []


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"attention": 9}, r"--attention 9: there are 4 checks"),
        ({"attention": 1, "wrong_at_most": 2}, r"--wrong-at-most 2: a form has 1"),
        ({"stories": 9}, r"--stories 9: there are 8 tasks.*at most 8"),
        ({"where": ("question_kin=belief",)}, "question_kind"),
        ({"consent": Path("nowhere.txt")}, r"nowhere.txt: cannot be read"),
    ],
)
def test_what_cannot_be_had_is_refused_and_nothing_written(tmp_path: Path, wishes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(tmp_path / "study", **wishes)
    assert not (tmp_path / "study").exists()


def test_people_are_asked_no_variants_but_where_these_are_wanted(tmp_path: Path) -> None:
    told = items()
    more = {"id": "retold", "base": told[0].id, "factors": {**told[0].factors, "variant": "t2_person"}}
    asked = Benchmark("jars", lambda path, gold: iter([*told, told[0].model_copy(update=more)]))
    for where, left, questions in (((), 1, 32), (("variant=t2_person",), 0, 1)):
        wishes = QuestionnaireOptions(people=32, stories=1, where=where)
        found = make_questionnaire(asked, None, tmp_path / str(left), wishes)
        names = {question.item for form in found.plan.forms for question in form.questions if question.item}
        assert (found.variants, len(names), "retold" in names) == (left, questions, not left)


def test_a_folder_is_never_overwritten(tmp_path: Path) -> None:
    made(tmp_path / "study")
    with pytest.raises(ConfigError, match="holds a questionnaire already"):
        make_questionnaire(benchmark(), None, tmp_path / "study", QuestionnaireOptions(people=2, stories=2))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        make_questionnaire(benchmark(), None, tmp_path / "file", QuestionnaireOptions(people=2, stories=2))
    (busy := tmp_path / "busy").mkdir()
    with files.lock_folder(busy), pytest.raises(ConfigError, match="another process writes there"):
        make_questionnaire(benchmark(), None, busy, QuestionnaireOptions(people=2, stories=2))


def test_a_file_system_without_locks_holds_a_questionnaire_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> bool:
        raise OSError("no locks here")

    monkeypatch.setattr(files, "try_lock", refuse)
    made(tmp_path / "study")
    assert (tmp_path / "study/plan.json").exists()


def test_own_consent_text_and_own_words_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "consent.txt"
    text.write_text("First part,\nin two lines.\n\nSecond <part>, for [[NAME]].\n")
    assert split_paragraphs(read_consent(text)) == ["First part, in two lines.", "Second <part>, for [[NAME]]."]
    result = made(tmp_path / "study", consent=text)
    assert result.unfilled == ["NAME"]
    page = next((tmp_path / "study/printed").iterdir()).read_text()
    assert "Second &lt;part&gt;, for <mark>[[NAME]]</mark>." in page
    own = tmp_path / "content/dataset/questionnaire"
    own.mkdir(parents=True)
    shipped = (ROOT / "dataset/questionnaire/words.yaml").read_text()
    (own / "words.yaml").write_text(shipped.replace("answer: spoon", "answer: fork"))
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path / "content"))
    with pytest.raises(ContentError, match=r"words.yaml:\d+: attention.*'fork'"):
        load_texts()


def test_the_shipped_instructions_are_naive_and_checks_have_one_answer() -> None:
    said = load_texts()
    told = json.dumps(said.model_dump(by_alias=True)).lower() + read_consent(None).lower()
    assert not re.findall("theory of mind|false.belief|mental state|perspective|language model", told)
    assert len(said.attention) >= 2
    assert find_placeholders(read_consent(None))
    assert all(check.answer in check.choices for check in said.attention)


def test_a_broken_plan_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with pytest.raises(ConfigError, match=r"plan.json: is missing"):
        planning.read_plan(tmp_path)
    made(folder)
    data = json.loads((folder / "plan.json").read_text())
    data["forms"][1]["questions"][0] |= {"item": "elsewhere"}
    (folder / "plan.json").write_text(json.dumps(data))
    with pytest.raises(ContentError, match=r"plan.json: forms.1: 'elsewhere' is not in items.jsonl"):
        planning.read_plan(folder)
    for text, said in (('{"schema": 2}', "schema is not 1"), ("{", r"plan.json:1: not JSON")):
        (folder / "plan.json").write_text(text)
        with pytest.raises(ConfigError, match=said):
            planning.read_plan(folder)
