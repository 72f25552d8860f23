"""Fresh editions of the second edition: what is told anew, what stays, and what is refused because it cannot be."""

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli
from tests.helpers.outcomes import passes, refuses
from tomserve.benchmarks import get
from tomserve.benchmarks.perturbed import fresh, validation
from tomserve.benchmarks.perturbed.stages import PERTURBATIONS, Stage, check, load_stage, load_stages
from tomserve.errors import ContentError
from tomserve.items import Item, items_digest, read_items
from tomserve.variants import words as variants_words

NAMES = fresh.read_names()
LACKS = "".join(f"  {name}: not told here\n" for name in PERTURBATIONS if name != "none")
STAGE = f"""schema: 2
canary: "a canary"
stage: Z1
kind: unexpected_contents
setting: A kitchen.
author: A0
people: {{Ann: she, Andres: he, Sam: they, Anna: she}}
labels: {{x: nails, y: screws}}
spare: [{{x: hooks, y: acorns}}, {{x: shells, y: coins}}]
words: {{box: [urn], cup: [mug, bowl]}}
questions:
  belief: "What does {{asked}} believe is in the box?"
  reality: "What is really in the box?"
lacks:
{LACKS}tasks:
  none:
    story:
      find: ["Ann finds a box beside a cup and two boxes. @ world x", "Beside a cup and two boxes Ann finds a box. @ world x"]
      read: 'Box in hand, Ann reads "{{y}}" on it; Anna and Sam are in Annecy. @ read Ann y'
      holds: "In truth Andres' wife, Ann's aunt, filled it with {{x}}."
      cups: "Andres washes cups."
    versions:
      plain: {{answers: y/x, ground: unstated}}
      again: {{answers: y/x, ground: stated, replace: {{cups: "Andres has never told her."}}}}
      correct_label: {{answers: y/y, replace: {{holds: "Andres filled it with {{y}}. @ world y"}}}}
      informed_protagonist: {{answers: x/x, insert: {{after cups: {{told: "Anna tells Ann that it holds {{x}}. @ tell Ann x"}}}}}}
      open_container: {{answers: x/x, replace: {{cups: "Ann looks in. @ see Ann"}}}}
"""


def stage(tmp_path: Path, old: str = "", new: str = "") -> Stage:
    """The small stage with one edit."""
    assert old in STAGE
    (tmp_path / "Z1.yaml").write_text(STAGE.replace(old, new, 1) if old else STAGE, encoding="utf-8")
    return load_stage(tmp_path / "Z1.yaml")


def told(story: Item) -> str:
    return " ".join((*story.story, story.question))


def test_names_labels_things_and_wordings_are_others_in_every_form(tmp_path: Path) -> None:
    made = stage(tmp_path)
    one = fresh.generate_items(made, 7, NAMES)[2]
    new = fresh.regenerate(made, 7, NAMES).file
    ann, andres, sam, anna = new.people
    x, y = (new.labels[symbol].label for symbol in ("x", "y"))
    cup = "mug" if "mug" in told(one) else "bowl"
    assert one.story == (
        f"Beside a {cup} and two urns {ann} finds an urn.",
        f'Urn in hand, {ann} reads "{y}" on it; {anna} and {sam} are in Annecy.',
        f"In truth {andres}'s wife, {ann}'s aunt, filled it with {x}.",
        f"{andres} washes {cup}s.",
    )
    assert one.question == f"What does {ann} believe is in the urn?"
    assert {x, y} in ({"hooks", "acorns"}, {"shells", "coins"})
    assert [next(p for p, pool in NAMES.items() if name in pool) for name in new.people] == ["she", "he", "they", "she"]
    assert len({name[0] for name in new.people}) == 4


def test_ids_factors_answers_and_clusters_stay_beside_the_seed_and_the_released_item(tmp_path: Path) -> None:
    made = stage(tmp_path)
    for before, after in zip(made.items(), fresh.generate_items(made, 12, NAMES), strict=True):
        assert after.id == f"{before.id}/fresh-12"
        assert (after.cluster, after.canary, after.benchmark) == (before.cluster, before.canary, before.benchmark)
        assert (after.factors["base"], after.factors["fresh"]) == (before.id, 12)
        stay = {name: value for name, value in before.factors.items() if name not in {"cue", "asked", "reality"}}
        assert stay.items() <= after.factors.items()
        assert after.factors["cue"] in after.choices
        assert str(after.factors["asked"]) in after.story[0]
        assert after.choices.index(after.answer) == before.choices.index(before.answer)


def test_the_seed_and_nothing_else_decides(tmp_path: Path) -> None:
    made = stage(tmp_path)
    assert fresh.generate_items(made, 7, NAMES) == fresh.generate_items(stage(tmp_path), 7, NAMES)
    # If this fails by intent, an edition that somebody made by a seed has to name its version of tomserve.
    assert items_digest(fresh.generate_items(made, 7, NAMES)).startswith("sha256:03406bab155c")
    stories = [{item.story for item in fresh.generate_items(made, seed, NAMES)} for seed in range(8)]
    assert all(stories[i].isdisjoint(stories[j]) for i in range(8) for j in range(i))
    assert {fresh.regenerate(made, seed, NAMES).file.labels["x"].label for seed in range(30)} == {
        "hooks", "acorns", "shells", "coins"
    }  # fmt: skip


CANNOT = [
    ("Andres washes cups.", "Sam boxes Andres.", "'boxes' seems to be a verb here; mend the sentence, or leave 'box'"),
    ("Andres washes cups.", "He came by the Box Hill train.", "'Box' is written like a name"),
    ("box: [urn]", "box: [coin]", "'coin' is too near to the label 'coins'"),
    ("box: [urn]", "box: [cup]", "'cup' stands in the prose of a task already in which 'box' stands"),
    ("Andres washes cups.\"", "One.\", \"{y} is one.\"]", "the wordings name different labels; the first names no label"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), CANNOT)
def test_what_cannot_be_told_anew_is_named_by_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    if "{y}" in new:
        old, new = f'"{old}', f'["{new}'
    listed = [str(one) for one in validation.find_fresh_problems(stage(tmp_path, old, new))]
    assert any(message in one for one in listed), listed
    where = next(one for one in listed if message in one)
    line = int(re.match(rf"{tmp_path}/Z1\.yaml:(\d+): [a-z]+", where)[1])
    written = (tmp_path / "Z1.yaml").read_text().splitlines()[line - 1]
    assert new.split("\n")[0][:20] in written or "label" in message


def test_names_and_things_that_are_parts_of_other_words_are_no_problem(tmp_path: Path) -> None:
    assert validation.find_fresh_problems(stage(tmp_path)) == []
    new = "In her box Sam sees the teacup of Samoa and Annabel."
    assert validation.find_fresh_problems(stage(tmp_path, "Andres washes cups.", new)) == []
    few = {"she": ["Rahel"], "he": ["Okello"], "they": ["Akira"]}
    with pytest.raises(ContentError, match=r"Z1\.yaml:7: people: there is no further name for 'Anna' \(she\)"):
        fresh.generate_items(stage(tmp_path), 1, few)


def test_names_are_in_no_stage_prompt_or_training_list_and_none_is_given_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [name for pool in NAMES.values() for name in pool]
    rooms = (("dataset", "*.yaml"), ("prompts", "*.y*ml"), ("prompts", "*.j2"))
    files = [file for room, form in rooms for file in (ROOT / room).rglob(form)]
    for file in (*files, ROOT / "launch/reference/words.yaml"):
        if file.name != "names.yaml" and file.parent.name != "hitom":  # whose persons always had some of these names
            words = set(re.findall(r"\w+", file.read_text("utf-8")))
            assert not words & set(listed), file
    assert min(map(len, NAMES.values())) >= 12
    (tmp_path / "n.yaml").write_text("schema: 1\nshe: [Rahel]\nhe: [Rahel]\nthey: []\n")
    monkeypatch.setattr(fresh.content, "require", lambda name: tmp_path / "n.yaml")
    with pytest.raises(ContentError, match=r"n\.yaml: the name 'Rahel' is given twice"):
        fresh.read_names()


@pytest.mark.parametrize("part", [*range(3), *(pytest.param(part, marks=pytest.mark.long) for part in range(3, 12))])
def test_every_stage_can_be_told_anew(part: int) -> None:
    """No problem; the new stage passes the check that a written one passes; nothing of the old names, labels and things
    is left; the gold is that of the released items with other labels; most of the text is new."""
    for made in load_stages()[part::12]:
        assert validation.find_fresh_problems(made) == []
        check(fresh.regenerate(made, 5, NAMES))
        released, items = made.items(), fresh.generate_items(made, 5, NAMES)
        everywhere = [*made.file.people, *(slot.label for slot in made.file.labels.values())]
        left = {}
        for task in made.file.tasks:
            words = [word for word in made.file.words if task in fresh.scope(made.file, word)]
            gone = [*everywhere, *words, *map(variants_words.plural, words)]
            left[task] = re.compile(rf"\b({'|'.join(map(re.escape, gone))})\b")
        for before, after in zip(released, items, strict=True):
            assert left[str(after.factors["perturbation"])].search(told(after)) is None, after.id
            assert after.story != before.story
            marks = dict(zip(before.choices, after.choices, strict=True))
            assert after.answer == marks[before.answer]
            assert after.gold.sets == tuple(tuple(marks[label] for label in layer) for layer in before.gold.sets)
        assert fresh.overlap(released, items) < 0.35


def test_the_command_writes_items_and_refuses_a_stage_with_problems(tmp_path: Path, cli: Cli) -> None:
    made, out = stage(tmp_path), tmp_path / "fresh.jsonl"
    done = passes(cli("generate", "perturbed-2", "--fresh", 7, "--out", out, "--path", made.path))
    assert "written: 20 items of 1 stage by seed 7" in done.out
    assert list(read_items(out)) == fresh.generate_items(made, 7, NAMES) == list(get("perturbed-2").items(out))
    out.unlink()
    wrong = stage(tmp_path, "Andres washes cups.", "She can box.")
    done = cli("generate", "perturbed-2", "--fresh", 7, "--out", out, "--path", wrong.path)
    assert (done.code, out.exists()) == (2, False)
    assert re.search(r"Z1\.yaml:.*'box' seems to be a verb here.*--check lists all", done.err)
    refuses(
        cli("generate", "perturbed-2", "--check", "--fresh", 1), "give --fresh SEED and --out FILE, or --check alone"
    )
