"""`tomserve dataset validate perturbed-2` and `show`: each rule is violated once, in a small stage."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, Outcome
from tomserve import benchmarks
from tomserve.benchmarks import perturbed, perturbed_2
from tomserve.benchmarks.perturbed_2 import validate
from tomserve.benchmarks.perturbed_2.benchmark import BENCHMARK
from tomserve.benchmarks.perturbed_2.check import load_stage
from tomserve.benchmarks.perturbed_2.design import Design, of_design
from tomserve.benchmarks.perturbed_2.stage import Stage
from tomserve.errors import ConfigError
from tomserve.items import Item

PRACTICE = (ROOT / "tests/data/practice_stage_2.yaml").read_text()
TOLD = {"transparent_container", "preposition_replacement", "uninformative_label", "non_protagonist_belief"}
TOLD |= {"add_unrelated_information", "induction_from_baseline", "untrustworthy_testimony", "conclusion_from_sentiment"}
DESIGN = Design(
    schema=1,
    stages={"unexpected_contents": ("P1",)},
    lacks={"unexpected_contents": frozenset(TOLD)},
    versions={"none": (2, 3), "perturbed": (3, 4)},
    questions=(72, 72),
    unknown_realities=3,
    least_share=0.0,
    second_wordings=0.4,
    twin_words=3,
)  # type: ignore[arg-type]
"""The design that the practice stage fulfils."""


def stage(folder: Path, *edits: tuple[str, str]) -> Stage:
    """The practice stage with these edits."""
    text = PRACTICE
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = folder / "s.yaml"
    path.write_text(text)
    return load_stage(path)


def problems(found: Stage, design: Design = DESIGN) -> list[str]:
    items = found.items()
    return [
        *validate.of_stage(found, design),
        *(one for check in (validate.duplicates, validate.exchanged, validate.leaks) for one in check(items)),
        *of_design([found], items, design),
    ]


def test_the_practice_stage_has_no_problems(tmp_path: Path) -> None:
    assert problems(stage(tmp_path)) == []


LATE = "Months pass, and he has forgotten everything. @ forget Ravi"
REMEMBERS = '"Months pass, and he has forgotten nothing.", "Months go by, and he has forgotten nothing."'
VIOLATIONS = {
    "too few stories": (
        [("      plain: {answers: y/x, ground: unstated}\n", "")],
        "25: P1/none: The task has 1 stories of the false-belief scenario; expected 2 to 3.",
    ),
    "a role is missing": (
        [('"Wim empties it one night and fills it again with who knows what. @ world unknown"', '"Wim reads it."'),
         ("answers: unknown/unknown\n        ground: unstated", "answers: unknown/x\n        ground: unstated"),
         ('replace: {read: "Wim reads', 'replace: {paint: "Sam writes a {y} on it. @ read Ravi y", read: "Wim reads'),
         ("answers: unknown/x", "answers: y/x")],
        "39: P1/late_label: No false-belief story has the answer 'unknown' (seen from the cue).",
    ),
    "the unperturbed task misses the cue": (
        [("plain: {answers: y/x, ground: unstated}", "plain: {answers: x/x, ground: unstated, insert: {after read: {c: He looks in. @ see Ravi}}}")],
        "25: P1/none: A false-belief story of the unperturbed task is not answered by the cue.",
    ),
    "no pair": ([("        twin: remembers\n", "        of: remembers\n")], "39: P1/late_label: No version is the `twin` of another"),
    "everything is stated": (
        [("plain: {answers: y/x, ground: unstated}", "plain: {answers: y/x, ground: stated}")],
        "25: P1/none: Every false-belief story states what settles the belief",
    ),
    "all are unaware": (
        [("ground: unstated, aware: true, cue: x}", "ground: unstated, aware: false, cue: x}")],
        "P1/automatic_change_knowledge: `aware` is False in all versions",
    ),
    "too short": (
        [("plain: {answers: y/x, ground: unstated}", "plain: {answers: y/x, ground: unstated, omit: [find]}")],
        "33: P1/none/plain: The story has 3 sentences; expected 4 to 12.",
    ),
    "a long sentence": (
        [("Sam writes", "Sam " + "very " * 30 + "soon writes")],
        "P1/late_label/remembers: The longest sentence has 39 words; expected 32 at most.",
    ),
    "long sentences": (
        [("He has never looked inside.", "word " * 31 + "word."), ("Ravi reads what stands on the lid. @", "Ravi " + "word " * 30 + ". @"),
         ("Ravi comes upon a chest in the shed.", "Ravi " + "word " * 30 + ".")],
        "P1/none/classic: The sentences have 21.4 words on average; expected 18 at most.",
    ),
    "inference elsewhere": (
        [("Ravi reads what stands on the lid. @ read Ravi y", "Ravi reads what stands on the lid. @ infer Ravi y")],
        "P1/none/classic: The event `infer` belongs to the classes",
    ),
    "told and not believed": (
        [("tells him that {x} are in it, not {y}. @ tell Ravi x", "tells Wim that {x} are in it, not {y}. @ tell Wim x"),
         ("informed_protagonist:\n        answers: x/x", "informed_protagonist:\n        control_exception: none\n        answers: y/x")],
        "P1/none/informed_protagonist: The person is told or sees how it is, but the belief is not the reality.",
    ),
    "a control without reality": (
        [('"It holds {y}, and no {x}. @ world y"', '"It may hold {y}, or {x}."'), ("correct_label: {answers: y/y,", "correct_label: {control_exception: none, answers: y/unknown,")],
        "34: P1/none/correct_label: The story is a control and never settles reality.",
    ),
    "a pair with one belief": (
        [(LATE, "Months go by, and he has not forgotten."), ("twin: remembers\n        answers: y/x", "twin: remembers\n        answers: x/x"),
         ("      passed_by:\n        of: forgot\n        answers: unknown/unknown", "      passed_by:\n        of: forgot\n        answers: x/unknown"),
         ("of: forgot\n        answers: y/y", "of: forgot\n        control_exception: none\n        answers: x/y")],
        "47: P1/late_label/forgot: The belief is the same as in its twin remembers, so that the pair shows nothing.",
    ),
    "no cue in a pair": (
        [("passed_by:\n        of: forgot", "passed_by:\n        twin: emptied"),
         ('replace: {read: "Wim empties it', 'replace: {months: "He has forgotten all. @ forget Ravi", read: "Wim empties it'), ],
        "P1/late_label/passed_by: In neither story of the minimal pair does the cue count again.",
    ),
    "one label only": (
        [('"It holds {x}, and no {y}. @ world x", "There are {x} in it and no {y}."', '"It holds {y}. @ world y"'),
         ("plain: {answers: y/x", "plain: {answers: y/y"), ("classic: {answers: y/x", "classic: {answers: y/y"),
         ("answers: x/x\n        insert: {after read: {told: \"Lotte, whom he trusts, tells him that {x} are in it, not {y}. @ tell Ravi x", "answers: y/y\n        insert: {after read: {told: \"Lotte, whom he trusts, tells him that {y} are in it. @ tell Ravi y"),
         ("open_container: {answers: x/x, insert: {after read: {look: \"He lifts", "open_container: {answers: y/y, insert: {after read: {look: \"He lifts")],
        "P1/none/classic: The story does not mention both labels.",
    ),
    "a wide pair": ([(LATE, "Many a month goes by until nothing is left in his memory. @ forget Ravi")], "47: P1/late_label/forgot: The story differs from that of its twin in 1"),
    "few wordings": ([(REMEMBERS, REMEMBERS.split(", \"Months go")[0]), ('"It holds {x}, and no {y}. @ world x", "There are {x} in it and no {y}."', '"It holds {x}, and no {y}. @ world x"')],
        "s.yaml: Of 12 sentences under `story`, 4 have a second wording"),
    "settled everywhere": (
        [("answers: x/unknown", "answers: x/x"), ("hear of it. @ world unknown", "hear of it.")],
        "s.yaml: Reality is unknown in 2 stories of the stage; expected 3 at least.",
    ),
    "a story twice": (
        [('insert: {after read: {never: "He has never looked inside."}}', "note: the same")],
        "P1/none/plain/belief/original: The story is the same as that of P1/none/classic/belief/original.",
    ),
    "the question names a label": (
        [("does {asked} believe is in the chest?", "does {asked} believe is in the chest, {x}?")],
        "The question names the label 'bells'.",
    ),
    "the question asks about the future": (
        [("what does {asked} believe is in the chest?", "where will {asked} look?")],
        "The question asks about the future, not about a belief.",
    ),
    "no canary": ([('canary: "practice"\n', "")], "s.yaml: The canary is missing; copy it from another stage."),
}  # fmt: skip


@pytest.mark.parametrize("name", VIOLATIONS)
def test_each_rule_is_checked(name: str, tmp_path: Path) -> None:
    edits, wanted = VIOLATIONS[name]
    found = problems(stage(tmp_path, *edits))
    assert [one for one in found if wanted in one], found
    assert [one for one in found if not one.endswith((".", "in one of them."))] == []


CHANGES: dict[str, tuple[dict[str, object], str]] = {
    "a stage is missing": ({"stages": {"unexpected_contents": ("P1", "P2")}}, "The stage P2 is missing"),
    "a stage too many": ({"stages": {}}, "the design names it not at all"),
    "a stage of the other kind": ({"stages": {"unexpected_transfer": ("P1",)}}, "names it as unexpected_transfer"),
    "a class is missing": ({"lacks": {}}, "has no task of the class transparent_container"),
    "a class too many": (
        {"lacks": {"unexpected_contents": frozenset(TOLD | {"late_label"})}},
        "a task that the design does not foresee: the class late_label",
    ),
    "too few questions": ({"questions": (100, 200)}, "There are 72 questions, expected 100 to 200."),
    "roles that are spread unevenly": (
        {"least_share": 0.3},
        "In the class late_label the right answer's role is 'cue' in 2 of 8 questions",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_design_of_the_whole_edition(name: str, tmp_path: Path) -> None:
    change, wanted = CHANGES[name]
    found = problems(stage(tmp_path), DESIGN.model_copy(update=change))
    assert [one for one in found if wanted in one], found


def test_canaries_that_differ_are_named_by_their_line(tmp_path: Path) -> None:
    found = []
    for number, canary in enumerate(("practice", "practice", "other")):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append(stage(folder, ("stage: P1", f"stage: P{number}"), ('"practice"', f'"{canary}"')))
    told = list(of_design(found, found[0].items(), DESIGN))
    assert [one for one in told if f"{tmp_path}/2/s.yaml:3: The canary is another" in one]
    assert len([one for one in told if "canary" in one]) == 1


def test_reality_is_unknown_somewhere(tmp_path: Path) -> None:
    items = [item for item in stage(tmp_path).items() if item.answer != "unknown"]
    assert "No question about reality has the answer 'unknown'." in list(of_design([], items, DESIGN))


def test_versions_with_exchanged_labels_belong_together(tmp_path: Path) -> None:
    items = stage(tmp_path).items()
    assert list(validate.exchanged(items)) == []
    assert "There is one version of the question" in next(validate.exchanged(items[1:]))
    wrong = items[1].model_copy(update={"answer": "bells" if items[1].answer != "bells" else "lamps"})
    assert "has the answer" in next(validate.exchanged([items[0], wrong]))


def test_words_in_which_a_pair_differs(tmp_path: Path) -> None:
    found = {story.version: words for story, words in validate.pairs(stage(tmp_path))}
    assert found == {"forgot": 1, "not_shown": 1}


def test_the_command_names_problems_and_ends_with_1(tmp_path: Path) -> None:
    assert BENCHMARK.validate is not None
    found = BENCHMARK.validate(ROOT / "tests/data/practice_stage_2.yaml", print)
    assert found.code == 0
    assert found.lines[0] == "P1: 3 tasks, 18 stories, 72 questions"
    assert found.lines[1] == "2 minimal pairs, which differ in 1 words (the median; at most 1)"
    assert found.lines[2].startswith("72 questions in 1 stages, sha256:")
    assert found.lines[2].endswith(": ok")
    wrong = stage(tmp_path, ("ground: unstated, aware: true", "ground: unstated, aware: false"))
    found = BENCHMARK.validate(wrong.path, print)
    assert found.code == 1
    assert found.lines[1].startswith(f"problem: {wrong.path}:74: P1/automatic_change_knowledge: `aware` is False")


@pytest.mark.parametrize("name", ["perturbed", "perturbed-2"])
def test_show_prints_each_story_once(name: str) -> None:
    benchmark = benchmarks.get(name)
    assert benchmark.show is not None
    items = list(benchmark.items())
    place = items[0].id.split("/")[:3]
    whole = benchmark.show(None, place[:1]).sections
    assert len(whole) == len({item.id.rsplit("/", 2)[0] for item in items if item.factors["stage"] == place[0]})
    ((heading, lines),) = benchmark.show(None, place).sections.items()
    assert heading.startswith("/".join(place))
    assert f"asked: {items[0].factors['asked']}" in heading
    assert len(lines) == 1 + len(items[0].story)
    (belief,) = (
        item for item in items[:4] if item.factors["question_kind"] == "belief" and not item.factors["swapped"]
    )
    assert lines[0] == f"{belief.question} ({', '.join(belief.choices)})"
    assert lines[1].startswith(f" 1. {items[0].story[0]}  [belief: unknown; reality: ")


def test_show_of_a_place_that_is_not_there() -> None:
    show: Callable[..., object] | None = BENCHMARK.show
    assert show is not None
    path = ROOT / "tests/data/practice_stage_2.yaml"
    for where, reason in (
        (["P2"], "unknown stage 'P2'. Known: P1"),
        (["P1", "late"], "unknown class 'late'"),
        (["P1", "none", "plane"], "unknown version 'plane'; did you mean 'plain'"),
        (["P1", "none", "plain", "x"], "'x': expected at most a stage, a class and a version"),
    ):
        with pytest.raises(ConfigError) as found:
            show(path, where)
        assert reason in str(found.value)


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return list(perturbed_2.load())


def test_every_question_of_the_edition_ends_in_its_answer(items: list[Item]) -> None:
    first = {item.id for item in perturbed.load()}
    for item in items:
        assert item.gold is not None
        assert item.gold.sets is not None
        assert item.gold.sets[-1] == (item.answer,), item.id
        assert item.id not in first


def test_the_edition_is_as_designed() -> None:
    found = validate.findings(perturbed_2.stages(), own=True)
    assert [line for line in found.lines if line.startswith("problem")] == []


def test_the_command_shows_a_story_and_names_what_is_not_there(cli: Callable[..., Outcome]) -> None:
    path = ROOT / "tests/data/practice_stage_2.yaml"
    shown = cli("dataset", "show", "perturbed-2", "P1", "late_label", "forgot", "--path", path)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines.pop(1).startswith("  At the end of the story, what does Ravi believe is in the chest? (")
    assert lines[:3] == [
        "P1/late_label/forgot (stated; cue; twin of remembers; asked: Ravi; answer: lamps)",
        "   1. Ravi packs bells into a chest.  [belief: bells; reality: bells]",
        "   2. Months pass, and he has forgotten everything.  [belief: unknown; reality: bells]",
    ]
    wrong = cli("dataset", "show", "perturbed-2", "P1", "late_lable", "--path", path)
    assert (wrong.code, "did you mean 'late_label'" in wrong.err) == (2, True)
    other = cli("dataset", "show", "hitom")
    assert (other.code, "only the perturbed, perturbed-2 and worlds benchmarks can be shown" in other.err) == (2, True)
