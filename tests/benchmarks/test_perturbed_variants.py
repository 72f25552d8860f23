"""Items of stage files told otherwise: what each kind changes, that the truth stays, and what is refused."""

import contextlib
import re
from collections import Counter
from pathlib import Path

import pytest

from tomserve import benchmarks
from tomserve.benchmarks import perturbed_2
from tomserve.benchmarks.perturbed import validation, variants
from tomserve.benchmarks.perturbed.fresh import read_names
from tomserve.benchmarks.perturbed.stages import PERTURBATIONS, load_stage, load_stages
from tomserve.benchmarks.perturbed.variants import SentenceForms, choose_forms, make_retell
from tomserve.errors import ContentError, InapplicableError
from tomserve.items import Item
from tomserve.variants import (
    CONDENSED,
    LEAST,
    MOST,
    OBJECT,
    ORDER,
    PARAPHRASE,
    PERSON,
    Dropped,
    Kind,
    make_variants,
    text_rules,
)

LACKS = "".join(f"  {name}: not told here\n" for name in PERTURBATIONS if name != "none")
STAGE = f"""schema: 2
canary: "a canary"
stage: Z1
kind: unexpected_contents
setting: A kitchen.
author: A0
people: {{Ann: she, Bob: he, Mia: she}}
labels: {{x: nails, y: screws}}
words: {{box: [jar, urn], cup: [mug]}}
questions:
  belief: "What does {{asked}} believe is in the box?"
  reality: "What is really in the box?"
lacks:
{LACKS}tasks:
  none:
    story:
      rain: "Rain has been falling on the old town since the early hours of Monday."
      find: ["Ann walks into the quiet kitchen and finds a box beside a cup.", "In the quiet kitchen Ann finds a box beside a cup."]
      holds: "The box holds {{x}} and no {{y}}. @ world x"
      read: 'Ann takes it to the window with her small hand and reads "{{y}}" on it. @ read Ann y'
    versions:
      plain: {{answers: y/x, ground: unstated}}
      told: {{answers: x/x, ground: stated, insert: {{after read: {{told: "Then Bob, whom she trusts, quietly tells her that it holds {{x}}. @ tell Ann x"}}}}}}
      father: {{answers: x/x, ground: stated, insert: {{after read: {{told: "Her father, whom she trusts, quietly tells her that it holds {{x}}. @ tell Ann x"}}}}}}
      correct_label: {{answers: y/y, replace: {{holds: "The box holds {{y}} and no {{x}}. @ world y"}}}}
      informed_protagonist: {{answers: x/x, insert: {{after read: {{told: "Mia tells Ann that it holds {{x}}. @ tell Ann x"}}}}}}
      open_container: {{answers: x/x, insert: {{after holds: {{look: "Ann looks into the box. @ see Ann"}}}}}}
"""
RETOLD = """schema: 1
stage: Z1
tasks:
  none:
    story:
      rain: {short: "", other: "It has been raining on the old town since Monday, before dawn."}
      find: {short: "Ann finds a box beside a cup."}
      holds: {short: "It holds {x}, not {y}.", other: "What is in the box are {x}, and {y} are not."}
      read: {short: 'Ann reads "{y}" on it.', other: 'With her small hand Ann takes it to the window, where she reads "{y}".'}
    versions:
      told: {told: {short: "Bob, whom she trusts, tells her it holds {x}.", other: "Then she quietly hears of {x} in it from Bob, whom she trusts."}}
      father: {told: {short: "Her father, whom she trusts, tells her it holds {x}.", other: "Then she quietly hears of {x} from her father, whom she trusts."}}
      correct_label: {holds: {short: "It holds {y}, not {x}.", other: "What is in the box are {y}, and {x} are not."}}
      informed_protagonist: {told: {short: "Mia tells her it holds {x}.", other: "Ann hears from Mia that there are {x} in it."}}
      open_container: {look: {short: "Ann looks inside.", other: "The box is looked into by Ann."}}
    exchange: {find holds: [], holds read: [told]}
"""


def written(tmp_path: Path, *edits: tuple[str, str], retold: str | None = RETOLD, stage: str = STAGE) -> Path:
    """The path of the small stage, and beside its folder its retold sentences with these edits."""
    for old, new in edits:
        assert retold is not None
        assert old in retold, old
        retold = retold.replace(old, new, 1)
    (tmp_path / "stages").mkdir(exist_ok=True)
    (tmp_path / "retold").mkdir(exist_ok=True)
    if retold is not None:
        (tmp_path / "retold/Z1.yaml").write_text(retold, encoding="utf-8")
    path = tmp_path / "stages/Z1.yaml"
    path.write_text(stage, encoding="utf-8")
    return path


def told(path: Path, kind: Kind, version: str = "plain", question: str = "belief/original") -> tuple[Item, Item]:
    """An item of the small stage and its variant."""
    item = next(one for one in load_stage(path).items() if one.id == f"Z1/none/{version}/{question}")
    return item, make_retell(path)(item, kind)


def test_another_wording_of_every_sentence_is_told_and_the_second_of_the_stage_where_it_has_one(tmp_path: Path) -> None:
    before, after = told(written(tmp_path), PARAPHRASE, question="belief/swapped")
    assert after.story[1:3] == (
        "In the quiet kitchen Ann finds a box beside a cup.",
        "What is in the box are screws, and nails are not.",
    )
    assert (after.question, after.choices, after.gold) == (before.question, before.choices, before.gold)
    assert (after.id, after.base, after.answer) == (f"{before.id}/paraphrase", before.id, "nails")


def test_everybody_gets_another_name_and_with_it_another_gender_unless_a_word_tells_it(tmp_path: Path) -> None:
    pools = {name: pronoun for pronoun, pool in read_names().items() for name in pool}
    for version, pronouns_then in (("told", ("he", "him", "his")), ("father", ("she", "her", "her"))):
        _, after = told(written(tmp_path), PERSON, version)
        name = str(after.factors["asked"])
        assert pools[name] == pronouns_then[0]
        assert after.question == f"What does {name} believe is in the box?"
        assert (
            after.story[3]
            == f'{name} takes it to the window with {pronouns_then[2]} small hand and reads "screws" on it.'
        )
        assert f"whom {pronouns_then[0]} trusts, quietly tells {pronouns_then[1]} that" in after.story[4]
        said = " ".join((*after.story, after.question))
        assert not re.search(r"\b(?:Ann|Bob|Mia)\b", said)
        assert name[0] not in "ABM"


def test_things_get_other_words_but_none_into_which_one_can_see(tmp_path: Path) -> None:
    _, after = told(written(tmp_path), OBJECT)
    assert after.story[1:3] == (
        "Ann walks into the quiet kitchen and finds an urn beside a cup.",  # "cup" is open, "jar" lets one see
        "The urn holds nails and no screws.",
    )
    assert after.question == "What does Ann believe is in the urn?"
    with pytest.raises(InapplicableError, match="no thing of the story has another word"):
        told(written(tmp_path, stage=STAGE.replace("jar, urn", "jar, bowl")), OBJECT)


def test_neighbours_change_places_where_the_author_says_so_and_the_events_agree(tmp_path: Path) -> None:
    before, after = told(written(tmp_path), ORDER)
    assert after.story == (before.story[0], before.story[2], before.story[1], before.story[3])
    assert after.gold is not None
    assert after.gold.sets == (("unknown",),) * 3 + (("screws",),)
    reality = told(written(tmp_path), ORDER, question="reality/original")[1]
    assert reality.story == after.story
    assert reality.gold is not None
    assert reality.gold.sets == (("unknown",), ("nails",), ("nails",), ("nails",))
    # Only one of two pairs that share a sentence is exchanged, and only in the versions that are listed.
    alone = written(tmp_path, ("{find holds: [], holds", "{holds"))
    before, after = told(alone, ORDER, "told")
    assert after.story[2:4] == (before.story[3], before.story[2])
    # In the other versions the rule of text finds that one tells how things are, and exchanges them, too.
    quiet = STAGE.replace("The box holds", "Bob fills it with")
    with pytest.raises(InapplicableError, match="no sentence can change its place"):
        told(written(tmp_path, ("{find holds: [], holds", "{holds"), stage=quiet), ORDER)


def test_a_condensed_story_leaves_out_scenery_and_gets_full_sentences_back(tmp_path: Path) -> None:
    before, after = told(written(tmp_path), CONDENSED)
    short = ("Ann finds a box beside a cup.", "It holds nails, not screws.", 'Ann reads "screws" on it.')
    assert after.story == (before.story[0], *short)
    longer = ('short: \'Ann reads "{y}" on it.', 'short: \'Ann takes it to the window there and reads "{y}" on it.')
    before, after = told(written(tmp_path, longer), CONDENSED)
    last = 'Ann takes it to the window there and reads "screws" on it.'
    assert after.story == (before.story[1], "It holds nails, not screws.", last)
    words = [sum(len(sentence.split()) for sentence in item.story) for item in (before, after)]
    assert LEAST <= 1 - words[1] / words[0] <= MOST
    assert after.gold.sets == (("unknown",), ("unknown",), ("screws",))
    for forms, wanted in (
        ([("a b c d e f g h i", "a", 0), ("j", "j", 1)], None),  # too long with the first in full, too short without
        ([("a b c d e f", "", 0), ("g h i j k l m", "g", 2), ("n o p q r s t", "n o p q r s", 1)], ("a b c d e f", "g", "n o p q r s")),
    ):  # fmt: skip
        assert choose_forms([SentenceForms(*form) for form in forms]) == wanted, (
            "what matters least is told in full first"
        )


MISTAKES = [
    ("stage: Z1", "stage: Z2", 2, "stage: is 'Z2'; expected 'Z1', by which the file is named", True),
    ("  none:", "  nine:", 4, "tasks.nine: unknown task 'nine'; did you mean 'none'?", True),
    (", other: \"It has been raining on the old town since Monday, before dawn.\"", "", 6, "tasks.none.story.rain.other: is missing; the stage file has no second wording", False),
    ("It holds {x}, not {y}.", "It holds {x}, not screws.", 8, "story.holds.short: 'screws' stands outside a slot", True),
    ("short: \"It holds {x}, not {y}.\"", "short: \"\"", 8, "is empty, but the sentence has events, so that it cannot be left out", True),
    ("What is in the box are {x}, and {y} are not.", "The box holds {x} and no {y}.", 8, "is a wording that stands in the stage file", False),
    ("find holds: []", "holds look: []", 16, "cannot change places in version 'open_container': the events would give another answer", False),
]  # fmt: skip
"""Edits of the retold sentences, the line and the words of the problem, and whether it is refused as grave."""


@pytest.mark.parametrize(("old", "new", "line", "message", "grave"), MISTAKES)
def test_mistakes_are_named_by_line_and_grave_ones_stop_it(
    tmp_path: Path, old: str, new: str, line: int, message: str, grave: bool
) -> None:
    path = written(tmp_path, (old, new))
    listed = list(validation.find_retold_problems(load_stage(path)))
    assert any(re.match(rf".*/retold/Z1\.yaml:{line}: ", one) and message in one for one in listed), listed
    with pytest.raises(ContentError, match=rf"Z1\.yaml:{line}: ") if grave else contextlib.nullcontext():
        make_retell(path)


def test_a_file_without_mistakes_has_no_problems_and_a_story_that_stays_long_is_one(tmp_path: Path) -> None:
    assert list(validation.find_retold_problems(load_stage(written(tmp_path)))) == []
    long = ('short: "", other', 'short: "Rain has been falling on the old town since the hours of Monday.", other')
    near = (
        'short: "Ann finds a box beside a cup."',
        'short: "Ann walks into the kitchen and finds a box beside a cup."',
    )
    found = perturbed_2.BENCHMARK.validate(path := written(tmp_path, long, near), print)
    assert found.code == 1
    assert "Z1.yaml:4: none/plain: All sentences in their short form have 28.6% fewer words" in " ".join(found.lines)
    with pytest.raises(InapplicableError, match=r"it cannot be told in 30 to 40% fewer words"):
        told(path, CONDENSED)


def test_items_that_a_stage_does_not_make_are_told_by_rules_of_text(tmp_path: Path, monkeypatch) -> None:
    path = written(tmp_path)
    item, by_record = told(path, OBJECT)
    monkeypatch.setattr(text_rules, "retell", lambda item, kind: item)
    retell = make_retell(path)
    assert retell(item, OBJECT) == by_record
    for change in ({"id": "Z1/none/other/belief/original"}, {"story": (*item.story[:-1], "Ann reads.")}):
        changed = item.model_copy(update=change)
        assert retell(changed, OBJECT) is changed


def holds(before: Item, after: Item) -> None:
    """What every variant of a kind must have."""
    kind, stories = after.factors["variant"], (before.story, after.story)
    said = [" ".join((*item.story, item.question)) for item in (before, after)]
    words = [sum(len(sentence.split()) for sentence in story) for story in stories]
    assert all((one in said[0].lower()) == (one in said[1].lower()) for one in before.choices if one != "unknown")
    assert {
        "person": lambda: str(before.factors["asked"]) not in re.findall(r"\w+", said[1]) and words[0] == words[1],
        "order": lambda: sorted(before.story) == sorted(after.story) and before.story != after.story,
        "condensed": lambda: LEAST <= 1 - words[1] / words[0] <= MOST,
        "paraphrase": lambda: all(one != other for one, other in zip(*stories, strict=True)),
        "object": lambda: after.gold == before.gold,
    }[str(kind)](), after.id


REASONS = {variants.NOT_WRITTEN, variants.NOT_ALL_WRITTEN, variants.NOT_SHORTENED, variants.NO_THING, variants.FIXED}


@pytest.mark.parametrize(("edition", "thing"), [("perturbed", 1.0), ("perturbed-2", 0.85)])
def test_of_many_stories_each_kind_is_made_or_dropped_with_a_reason(edition: str, thing: float) -> None:
    benchmark, second = benchmarks.get(edition), edition == "perturbed-2"
    if second:
        some = load_stages()[::8]
        retell = {stage.file.stage: make_retell(stage.path) for stage in some}
        items = [item for stage in some for item in stage.items()]
    else:
        items, both = list(benchmark.items()), benchmarks.retelling(benchmark)(edition)
    own = [item for item in items if item.id.endswith(("belief/original", "reality/swapped"))][::8]
    originals, made = {item.id: item for item in own}, Counter[str]()
    tell = (lambda item, kind: retell[item.factors["stage"]](item, kind)) if second else both
    for one in make_variants(own, (OBJECT, PERSON, CONDENSED, PARAPHRASE, ORDER), lambda name: tell):
        if isinstance(one, Dropped):
            assert one.reason in REASONS
            continue
        before = originals[str(one.base)]
        made[str(one.factors["variant"])] += 1
        assert (one.answer, one.choices, one.cluster) == (before.answer, before.choices, before.cluster)
        holds(before, one)
    assert made["person"] == len(own)
    assert made["object"] >= thing * len(own)
    assert made["order"] >= 0.05 * len(own)
    assert min(made["condensed"], made["paraphrase"]) >= second * 0.98 * len(own)
