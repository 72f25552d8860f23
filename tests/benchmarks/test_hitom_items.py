"""The official file: its form, its artefacts, its items, and one clear line for whatever is wrong with it.
The audit of Hi-ToM and what may explain a wrong answer: the small file by hand, the released one as is known.
Variants of Hi-ToM questions: what changes, what stays, and that the truth is the original's."""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import permutations, product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import DATA, ROOT, Cli, data_file, make_item
from tests.helpers.hitom_stories import AGENTS, stories
from tests.helpers.outcomes import passes, refuses
from tests.helpers.scored import answered, score_table
from tomserve import benchmarks
from tomserve.benchmarks import hitom, retelling
from tomserve.benchmarks.hitom import audit
from tomserve.benchmarks.hitom.audit import Audit
from tomserve.benchmarks.hitom.baselines import (
    PLACES,
    explanations,
    false_tells,
    places,
)
from tomserve.benchmarks.hitom.events import (
    Distractor,
    Story,
    read_any_question,
    read_question,
    read_story,
    words,
)
from tomserve.benchmarks.hitom.generator import items as generated
from tomserve.benchmarks.hitom.items import read_records
from tomserve.benchmarks.hitom.plan import Plan
from tomserve.benchmarks.hitom.sampler import Dice
from tomserve.benchmarks.hitom.tracker import SEMANTICS, trace
from tomserve.benchmarks.hitom.variants import (
    FIXED,
    NOT_ENOUGH,
    OTHER_FORM,
    TOO_MANY,
    condense,
    other_things,
    reorder,
    retell,
)
from tomserve.errors import ConfigError, ContentError, InapplicableError
from tomserve.items import UNKNOWN, Item
from tomserve.prompting.persons import find_people
from tomserve.variants import AGAIN, CONDENSED, OBJECT, ORDER, PARAPHRASE, PERSON, Dropped, Kind, make_variants

SMALL = ROOT / "tests/data/hitom_small.json"


def items(gold: str = "corrected", path: Path = SMALL) -> dict[tuple[object, ...], Item]:
    """Items by deception, length and order (and half, where there are both)."""
    found = {}
    for item in hitom.load(path, gold):
        key = tuple(item.factors.get(name) for name in ("deception", "length", "order", "prompting_type"))
        found[key if key[3] else key[:3]] = item
    return found


def test_each_gold_is_its_own() -> None:
    corrected, tracked, released = items(), items("tracked"), items("released")
    assert (len(corrected), len({item.id for item in released.values()})) == (15, 30)
    assert corrected[False, 1, 2].answer == "ochre_urn"  # the other half says plum_locker
    assert corrected[True, 3, 3].answer == "iron_chest"  # the label of the file, which is not the tracker's
    assert corrected[True, 3, 3].gold is None
    assert [key for key, item in corrected.items() if not item.factors["label_agrees"]] == [(True, 3, 3)]
    assert tracked[True, 3, 3].answer == "slate_bucket"
    vp, cotp = (released[False, 1, 2, half] for half in ("VP", "CoTP"))
    assert (vp.answer, cotp.answer) == ("plum_locker", "ochre_urn")
    assert (vp.story, vp.cluster) == (cotp.story, cotp.cluster)
    assert cotp.cluster == corrected[False, 1, 2].cluster
    for gold in hitom.BENCHMARK.golds:
        assert {item.factors["gold"] for item in items(gold).values()} == {gold}
    with pytest.raises(ConfigError, match="only the official file has several sets of answers"):
        list(hitom.load(None, "released"))


def test_an_item_whose_id_its_content_gives(tmp_path: Path) -> None:
    item = items()[True, 1, 2]
    assert item.id == f"{item.cluster}/lantern/Gil/Jun"
    assert item.choices.index("unknown") == 15
    assert item.gold.chains == (("unknown", *["amber_crock"] * 3, *["coral_bin"] * 11, "amber_crock"),)

    def moved(rows: list[dict[str, Any]]) -> None:
        rows[:] = [{**row, "sample_id": row["sample_id"] + 7} for row in reversed(rows)]

    assert {item.id for item in hitom.load(damaged(tmp_path, moved))} == {item.id for item in hitom.load(SMALL)}


def damaged(tmp_path: Path, change: Callable[[list[dict[str, Any]]], object]) -> Path:
    data = json.loads(SMALL.read_text())
    change(data["data"])
    (tmp_path / "damaged.json").write_text(json.dumps(data))
    return tmp_path / "damaged.json"


def put(index: int, field: str, value: object) -> Callable[[list[dict[str, Any]]], object]:
    return lambda rows: rows[index].__setitem__(field, value)


def swap(index: int, field: str, old: str, new: str) -> Callable[[list[dict[str, Any]]], object]:
    return lambda rows: rows[index].__setitem__(field, rows[index][field].replace(old, new))


MISTAKES = [
    (swap(3, "story", "exited the", "left the"), "data[3].story: sentence 5: unknown sentence 'Ada left the"),
    (swap(3, "story", "5 Ada", "6 Ada"), "data[3].story: line 5 is '6 Ada exited"),
    (put(1, "question", "Who has it?"), "data[1].question: unknown question 'Who has it?'; expected"),
    (swap(2, "question", "Bela", "Cleo"), "data[2].question: asks about Cleo twice; name every agent once"),
    (put(0, "anwser", "x"), "data[0].anwser: unknown key; did you mean 'answer'?"),
    (lambda rows: rows.append({**rows[3], "sample_id": 99}), "the same story is already in data[3]"),
    (lambda rows: rows.__delitem__(2), "data[16].prompting_type: no CoTP record asks this"),
]  # fmt: skip
TEXTS = [("{", "not JSON"), ('{"rows": []}', "holds an object with ['rows']; expected the official file")]


@pytest.mark.parametrize(("change", "said"), [*MISTAKES, *TEXTS])
def test_mistakes_are_named_with_record_and_field(tmp_path: Path, change: Any, said: str) -> None:
    path = tmp_path / "damaged.json"
    path.write_text(change) if isinstance(change, str) else damaged(tmp_path, change)
    with pytest.raises(ContentError) as caught:
        list(hitom.load(path))
    assert str(caught.value).startswith(f"{path}:")
    assert said in str(caught.value)
    if "no CoTP record" in said:
        assert len(list(hitom.load(path, "tracked"))) == 15


def test_a_run_keeps_its_gold(cli: Cli, endpoint: Any, tmp_path: Path) -> None:
    ask = ("eval", "--benchmark", "hitom", "--path", SMALL, "--base-url", endpoint.url, "--strategy", "vanilla")
    assert cli(*ask, "--gold", "tracked", "--run", "r").code == 0
    manifest = json.loads((tmp_path / "runs/r/manifest.json").read_text())
    assert (manifest["benchmark"], manifest["benchmark_gold"], manifest["benchmark_items"]) == ("hitom", "tracked", 15)
    refuses(cli(*ask, "--run", "r"), "benchmark_digest")
    # It is scored against the tracked answers again, not the default ones.
    passes(cli("score", "r", "--gold", "current", "--out", tmp_path / "now.csv"), "the same")


def test_all_of_the_official_file_is_read() -> None:
    path = data_file("Hi-ToM_data.json")
    records, raw = read_records(path), json.loads(path.read_text())["data"]
    assert (len(records), len({record.story_id for record in records})) == (1200, 120)
    for record, row in zip(records, raw, strict=True):
        lines = [line for line in row["story"].split("\n") if line[:1].isdigit()]
        assert [f"{n} {s}" for n, s in enumerate(record.story.sentences(), 1)] == lines
        kept = (record.order, record.answer, record.deception)
        assert kept == (row["question_order"], row["answer"], row["deception"])
        assert record.object == record.story.objects[0]
    found = list(hitom.load(path))
    assert len({item.id for item in found}) == len(found) == 600
    assert [item.answer for item in found] == [r.answer for r in records if r.half == "CoTP"]
    assert sum(item.gold is None for item in found) == 17
    # What tells can change as released: orders 1 and 2 alone.
    relevant = Counter(item.factors["order"] for item in found if item.factors["tell_relevant"])
    assert relevant == {1: 12, 2: 10}
    assert not any(item.factors["tell_relevant"] for item in found if not item.factors["deception"])


def column(frame: pl.DataFrame, name: str) -> list[object]:
    return frame[name].to_list()


def test_findings_and_tables_of_the_small_file(cli, tmp_path: Path) -> None:
    small = Audit(read_records(SMALL))
    assert [(f.cause, f.record.half, f.record.order, f.record.length) for f in small.findings()] == [
        ("stale half", "VP", 2, 1),
        ("stale half", "VP", 4, 3),
        ("room re-entry", "CoTP", 3, 3),
        ("room re-entry", "VP", 3, 3),
        ("semantics", "CoTP", 2, 1),
        ("semantics", "CoTP", 4, 3),
    ]
    assert small.baselines()["chance"][0] == pytest.approx((1 / 5 + 1 / 4 + 1 / 5) / 3)
    done = cli("dataset", "audit", "hitom", "--path", SMALL)
    assert done.code == 1  # labels are wrong in it
    assert "30 labels of 3 stories: 26 are the tracker's (released), 4 are not" in done.out
    assert cli("dataset", "audit", "hitom").err.startswith("tomserve: the audit of 'hitom' needs the official file")


def test_the_official_file() -> None:
    official = Audit(read_records(data_file("Hi-ToM_data.json")))
    found = {(row["half"], row["semantics"], row["order"]): row["agree"] for row in official.agreement().to_dicts()}
    totals = (("CoTP", "released"), ("CoTP", "common_knowledge"), ("VP", "released"))
    assert [found[half, name, "all"] for half, name in totals] == [583, 545, 470]
    assert column(official.pairs(), "differ") == [0, 0, 35, 48, 55]  # 138 of the 360 pairs of orders 2 to 4
    findings = list(official.findings())
    assert Counter(f.cause for f in findings) == {"stale half": 126, "room re-entry": 21, "semantics": 39}
    # In five the label is a container in which the object never was, nor was said to be.
    corrected = [f for f in findings if f.record.half == "CoTP" and f.cause != "semantics"]
    assert (len(corrected), sum("in no sentence" in f.text() for f in corrected)) == (17, 5)
    assert column(official.semantics().filter(pl.col("deception")), "differ") == [0, 0, 17, 11, 11]
    baselines = official.baselines()
    assert column(baselines, "first_order")[2:] == [58, 46, 41]  # .48, .38, .34
    assert column(baselines, "reality")[2:] == [35, 39, 36]  # .29, .33, .30
    assert column(baselines, "joint_witness") == [120, 108, 105, 115, 113]
    assert (
        audit.audit_tables(official)["baselines against the corrected half"]["reality"].to_list()[2] == "35/120 0.292"
    )


# what may explain a wrong answer

LINES = (
    "Ann, Bo and Cy entered the den.", "The pen is in the red_box.", "Bo exited the den.",
    "Cy moved the pen to the blue_box.", "Ann likes the green_box.", "Bo saw a cat.", "Cy exited the den.",
    "Ann moved the pen to the tan_box.", "Ann exited the den.", "Ann, Bo and Cy entered the waiting_room.",
    "Bo privately told Ann that the pen is in the pink_box.", "Ann publicly claimed that the pen is in the gray_box.",
    "Ann, Bo and Cy entered the attic.", "The nut is in the red_box.", "Cy moved the nut to the lime_box.",
)  # fmt: skip
CHOICES = ("blue_box", "gray_box", "green_box", "lime_box", "pink_box", "plum_box", "red_box", "tan_box")


def found(*asked: str, semantics: str = "released") -> dict[str, tuple[str, ...]]:
    story = Story.parse(LINES)
    return explanations(story, trace(story, "pen"), asked, "pen", CHOICES, semantics)


def test_each_explanation_by_hand() -> None:
    assert found("Bo", "Cy") == {
        "lower_order": ("gray_box",),  # Cy trusts Ann, who left later
        "reality": ("tan_box",),
        "initial_place": ("red_box",),
        "claimed_place": ("pink_box", "gray_box"),
        "after_leaving": ("blue_box", "tan_box"),
        "untrusted_speaker": (),
        "distractor": ("green_box",),
        "other_object": ("red_box", "lime_box"),
    }
    assert found()["lower_order"] == found()["after_leaving"] == found("Cy")["lower_order"] == ()
    assert found("Cy")["after_leaving"] == ("tan_box",)
    assert found("Ann")["after_leaving"] == ()
    assert found("Ann")["untrusted_speaker"] == ("pink_box",)  # Bo left before her
    assert found("Bo")["untrusted_speaker"] == ()  # he trusts Ann, and is no hearer of his own words
    assert found("Ann", "Bo", "Cy")["lower_order"] == ("red_box", "gray_box")
    assert found("Ann", "Bo", "Cy", semantics="common_knowledge")["lower_order"] == ("gray_box",)
    story = Story.parse([*LINES[:3], "The pen is in the red_box."])  # told again where it lies is no event
    assert explanations(story, trace(story, "pen"), ("Bo",), "pen", CHOICES)["after_leaving"] == ()
    story = Story.parse(LINES)
    assert (false_tells(story, "pen"), false_tells(story, "nut")) == ((2, 2), (2, 0))
    true = Story.parse([*LINES[:10], "Ann publicly claimed that the pen is in the tan_box.", *LINES[12:]])
    assert false_tells(true, "pen") == (0, 0)


def item(**changes: object) -> Item:
    question = "Where does Bo think Cy thinks the pen is?"
    fields = {"benchmark": "hitom", "story": LINES, "question": question, "choices": (*CHOICES, "unknown")}
    return make_item(**{**fields, "answer": "red_box", "gold": None, **changes})


def test_columns_of_a_score_table() -> None:
    row = {"strategy": "s", "status": "ok", "text": "tan_box"}
    scores = score_table("r", "m", [(item(), row), (make_item(2), row)], rules=benchmarks.scoring_of)
    columns = {
        "places_offered": " ".join(CHOICES),
        "places_mentioned": "red_box blue_box green_box tan_box pink_box gray_box lime_box",
        "places_after_leaving": "blue_box tan_box",
        **{"places_untrusted_speaker": "", "tells_false": 2, "tells_false_asked": 2},
    }
    assert columns.items() <= scores.row(0, named=True).items()
    assert scores.row(1, named=True)["places_reality"] is None  # an item of another benchmark
    assert not set(PLACES.columns) & set(
        score_table("r", "m", [(make_item(2), row)], rules=benchmarks.scoring_of).columns
    )
    three = {"question": "Where does Ann think Bo thinks Cy thinks the pen is?"}
    assert places(item(**three))["places_lower_order"] == "red_box gray_box"
    assert places(item(**three, factors={"semantics": "common_knowledge"}))["places_lower_order"] == "gray_box"
    assert places(item(question="Where is it?")) == places(item(story=("It rains.",))) == {}


def test_rules_that_nest_nothing_agree_with_the_factors() -> None:
    items = list(hitom.load())[::9]
    scores = answered(items, lambda item: None)
    for rule, factor in (("always_reality", "reality"), ("first_order", "first_order"), ("joint_witness",) * 2):
        assert scores[f"rule_{rule}"].to_list() == scores[f"equals_{factor}"].to_list(), rule


TOLD = (OBJECT, PERSON, CONDENSED, PARAPHRASE, ORDER)
every_kind = pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.name)


@cache
def originals(source: str) -> list[Item]:
    if source == "common_knowledge":
        plan = Plan(stories=24, seed=5, semantics="common_knowledge", twins=True, agents=(4, 5, 6), tells=(2, 3))
        return list(generated(plan))
    if source == "official":
        if not (DATA / "Hi-ToM_data.json").is_file():
            pytest.skip("needs Hi-ToM_data.json in TOMSERVE_DATA")
        found = list(hitom.load(DATA / "Hi-ToM_data.json"))
        some = {item.cluster for item in found if not item.factors["label_agrees"]}
        return [item for place, item in enumerate(found) if place < 75 or item.cluster in some]
    return list(hitom.load())[::2]


@cache
def made(source: str, kind: Kind) -> tuple[list[tuple[Item, Item]], list[str]]:
    """The originals with their variants, and why the others have none."""
    items = originals(source)
    found = list(make_variants(items, [kind], retelling(hitom.BENCHMARK)))
    pairs = [(item, new) for item, new in zip(items, found, strict=True) if not isinstance(new, Dropped)]
    return pairs, [new.reason for new in found if isinstance(new, Dropped)]


@pytest.mark.parametrize("source", ["built-in", "official", "common_knowledge"])
@every_kind
def test_the_truth_of_the_text_is_the_original_truth(source: str, kind: Kind) -> None:
    pairs, reasons = made(source, kind)
    least = 1.0 if kind is not CONDENSED else 0.85 if source == "common_knowledge" else 0.96
    assert len(pairs) >= least * len(originals(source)), "where every agent moves something little can be left out"
    assert set(reasons) <= {NOT_ENOUGH, FIXED}
    semantics = SEMANTICS[source == "common_knowledge"]
    told: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for item, new in pairs:
        asked, obj = read_any_question(new.question)
        story = read_story(new.story)
        story.check()
        traced = trace(story, obj)
        assert new.meaning(new.answer) == item.answer
        assert (new.answer == traced.belief(asked, semantics)) is item.factors["label_agrees"]
        assert (new.gold is None) == (item.gold is None)
        assert new.gold is None or new.gold.chains == (tuple(traced.chain(asked, semantics)),)
        assert (new.base, new.cluster, new.id) == (item.id, item.cluster, f"{item.id}/{kind.name}")
        assert find_people(new.question) == asked
        assert [new.meaning(choice) for choice in new.choices] == list(item.choices)
        told.setdefault(item.story, set()).add(new.story)
        shown = [choice for choice in new.choices if choice != UNKNOWN and choice in words_of_story(new.story)]
        counted = {"n_lines": len(new.story), "object": obj, "n_containers_mentioned": len(shown)}
        counted |= {"variant": kind.name, "variant_by": "record"}
        counted |= {name: new.factors[name] for name in ("answer_place", "n_distractors")}
        assert new.factors == {**item.factors, **counted}
        OF_KIND[kind.name](item, new)
    assert {len(found) for found in told.values()} == {1}, "a story is told once for all its questions"


@cache
def words_of_story(story: tuple[str, ...]) -> frozenset[str]:
    return frozenset(re.findall(r"[\w'-]+", " ".join(story)))


def words_of(item: Item) -> set[str]:
    return {*words_of_story(item.story), *words_of_story((item.question, *item.choices))}


SHOWS = re.compile(r"glass|clear|transparent|open|see|label|crystal|net|cage")
GENDERED = re.compile(r"\b(he|she|him|her|his|hers)\b", re.IGNORECASE)


def object_(item: Item, new: Item) -> None:
    """No name of a thing is left, and nothing else changes."""
    story, again = Story.parse(item.story), Story.parse(new.story)
    gone = {choice for choice in item.choices if choice != UNKNOWN} | set(story.objects)
    gone |= {event.thing for event in story.events if isinstance(event, Distractor)}
    assert not gone & words_of(new)
    assert not [choice for choice in new.choices if SHOWS.search(choice.partition("_")[0])]
    assert (again.agents, again.presence()) == (story.agents, story.presence())
    assert list(map(type, again.events)) == list(map(type, story.events))


def person(item: Item, new: Item) -> None:
    """No name of a person is left, and nothing else changes."""
    story, again = Story.parse(item.story), Story.parse(new.story)
    assert not set(story.agents) & words_of(new)
    assert len(set(again.agents)) == len(story.agents)
    back = dict(zip(again.agents, story.agents, strict=True))
    parts = re.split(r"([\w'-]+)", "\n".join(new.story))
    same = "\n".join(item.story).replace("lost his", "lost their").replace("lost her", "lost their")
    assert "".join(back.get(part, part) for part in parts) == same
    assert not GENDERED.search(" ".join(new.story))
    assert tuple(back[name] for name in read_question(new.question)[0]) == read_question(item.question)[0]


def condensed_(item: Item, new: Item) -> None:
    """A third shorter; that nothing is gone which bears on an answer is shown below of any story."""
    before, after = (len(" ".join(story).split()) for story in (item.story, new.story))
    assert 0.3 * before <= before - after <= 0.4 * before


def paraphrase(item: Item, new: Item) -> None:
    """Every sentence in other words."""
    assert not [text for text, before in zip(new.story, item.story, strict=True) if text == before]
    assert new.question != item.question
    assert read_story(new.story) == Story.parse(item.story)
    assert read_any_question(new.question) == read_question(item.question)
    assert new.choices == item.choices


def order(item: Item, new: Item) -> None:
    """The same sentences."""
    assert Counter(new.story) == Counter(item.story)
    assert new.story != item.story


OF_KIND = {"object": object_, "person": person, "condensed": condensed_, "paraphrase": paraphrase, "order": order}


@given(stories(), st.integers(0, 99))
@settings(max_examples=40)
def test_in_another_order_or_condensed_every_belief_of_every_order_is_the_same(story: Story, seed: int) -> None:
    for change in (lambda: reorder(story, Dice(str(seed))), lambda: condense(story, "pen")):
        with contextlib.suppress(InapplicableError):
            found = change()
            if isinstance(found, tuple):
                found, sentences = found
                assert read_story(sentences) == found
            found.check()
            before, after = trace(story, "pen"), trace(found, "pen")
            for semantics, order in product(SEMANTICS, range(4)):
                for who in permutations(AGENTS, order):
                    assert after.belief(who, semantics) == before.belief(who, semantics)


def test_what_has_no_variant_says_why() -> None:
    item = originals("built-in")[3]
    for change in ({"question": "Where is it?"}, {"story": (*item.story, "It rains.")}):
        for kind in TOLD:
            with pytest.raises(InapplicableError, match=f"^{OTHER_FORM}$"):
                retell(item.model_copy(update=change), kind)
    with pytest.raises(InapplicableError, match="no rule for this kind"):
        retell(item, AGAIN)
    story = Story.parse(["Ann entered the den.", "The pen is in the box_1."])
    with pytest.raises(InapplicableError, match=TOO_MANY):
        other_things(story, [f"{colour}_box" for colour in words().other_colours], Dice("1"))
    lines = ["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den.", "Ann exited the den."]
    assert reorder(Story.parse(lines), Dice("1")).sentences() == (*lines[:2], lines[3], lines[2])
    with pytest.raises(InapplicableError, match=FIXED):  # Bo trusts Ann because she left later
        reorder(Story.parse([*lines, "Ann privately told Bo that the pen is in the tin."]), Dice("1"))
