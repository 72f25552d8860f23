"""Stage files: every mistake by file and line, every rule violated once, and the edition itself with its cases."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli
from tests.helpers.outcomes import refuses
from tomserve import content
from tomserve.benchmarks.counterfactuals import Case
from tomserve.benchmarks.perturbed import validation
from tomserve.benchmarks.perturbed.cases import OwnStory, cases, make_cases
from tomserve.benchmarks.perturbed.stages import PERTURBATIONS, Stage, in_false_belief_subset, load_stage, load_stages
from tomserve.benchmarks.perturbed.validation import Design, Pairs, find_design_problems
from tomserve.benchmarks.perturbed_2 import BENCHMARK
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, items_digest
from tomserve.items.draw import limit_items

PATH = ROOT / "tests/data/practice_stage_2.yaml"
PRACTICE = PATH.read_text()
TOLD = {"transparent_container", "preposition_replacement", "uninformative_label", "non_protagonist_belief"}
TOLD |= {"add_unrelated_information", "induction_from_baseline", "untrustworthy_testimony", "conclusion_from_sentiment"}
SHARES = {"least_share": 0.0, "second_wordings": 0.4, "twin_words": 3}
PAIRS = Pairs(versions={"none": (2, 3), "perturbed": (3, 4)}, unknown_realities=3, **SHARES)  # type: ignore[arg-type]
DESIGN = Design(
    **{"schema": 1, "stages": {"unexpected_contents": ("P1",)}, "lacks": {"unexpected_contents": frozenset(TOLD)}},
    **{"questions": (72, 72), "sentences": (4, 12), "words": 32, "pairs": PAIRS},
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
        *validation.check_stage(found, design),
        *validation.check_duplicates(items),
        *validation.check_leaks(items),
        *find_design_problems([found], items, design),
    ]


LATE = "Months pass, and he has forgotten everything. @ forget Ravi"


VIOLATIONS = [
    ([('      plain: {answers: y/x, ground: unstated}\n', '')], '25: P1/none: The task has 1 stories of the false-belief scenario; expected 2 to 3.'),
    ([('"Wim empties it one night and fills it again with who knows what. @ world unknown"', '"Wim reads it."'), ('answers: unknown/unknown\n        ground: unstated', 'answers: unknown/x\n        ground: unstated'), ('replace: {read: "Wim reads', 'replace: {paint: "Sam writes a {y} on it. @ read Ravi y", read: "Wim reads'), ('answers: unknown/x', 'answers: y/x')],
     "39: P1/late_label: No false-belief story has the answer 'unknown' (seen from the cue)."),
    ([('plain: {answers: y/x, ground: unstated}', 'plain: {answers: x/x, ground: unstated, insert: {after read: {c: He looks in. @ see Ravi}}}')],
     '25: P1/none: A false-belief story of the unperturbed task is not answered by the cue.'),
    ([('        twin: remembers\n', '        of: remembers\n')], '39: P1/late_label: No version is the `twin` of another'),
    ([('plain: {answers: y/x, ground: unstated}', 'plain: {answers: y/x, ground: stated}')],
     '25: P1/none: Every false-belief story states what settles the belief'),
    ([('ground: unstated, aware: true, cue: x}', 'ground: unstated, aware: false, cue: x}')],
     'P1/automatic_change_knowledge: `aware` is False in all versions'),
    ([('plain: {answers: y/x, ground: unstated}', 'plain: {answers: y/x, ground: unstated, omit: [find]}')],
     '33: P1/none/plain: The story has 3 sentences; expected 4 to 12.'),
    ([('Ravi reads what stands on the lid. @ read Ravi y', 'Ravi reads what stands on the lid. @ infer Ravi y')],
     'P1/none/classic: The event `infer` belongs to the classes'),
    ([('tells him that {x} are in it, not {y}. @ tell Ravi x', 'tells Wim that {x} are in it, not {y}. @ tell Wim x'), ('informed_protagonist:\n        answers: x/x', 'informed_protagonist:\n        control_exception: none\n        answers: y/x')],
     'P1/none/informed_protagonist: The person is told or sees how it is, but the belief is not the reality.'),
    ([('"It holds {y}, and no {x}. @ world y"', '"It may hold {y}, or {x}."'), ('correct_label: {answers: y/y,', 'correct_label: {control_exception: none, answers: y/unknown,')],
     '34: P1/none/correct_label: The story is a control and never settles reality.'),
    ([(LATE, 'Months go by, and he has not forgotten.'), ('twin: remembers\n        answers: y/x', 'twin: remembers\n        answers: x/x'), ('      passed_by:\n        of: forgot\n        answers: unknown/unknown', '      passed_by:\n        of: forgot\n        answers: x/unknown'), ('of: forgot\n        answers: y/y', 'of: forgot\n        control_exception: none\n        answers: x/y')],
     '47: P1/late_label/forgot: The belief is the same as in its twin remembers, so that the pair shows nothing.'),
    ([('passed_by:\n        of: forgot', 'passed_by:\n        twin: emptied'), ('replace: {read: "Wim empties it', 'replace: {months: "He has forgotten all. @ forget Ravi", read: "Wim empties it')],
     'P1/late_label/passed_by: In neither story of the minimal pair does the cue count again.'),
    ([('"It holds {x}, and no {y}. @ world x", "There are {x} in it and no {y}."', '"It holds {y}. @ world y"'), ('plain: {answers: y/x', 'plain: {answers: y/y'), ('classic: {answers: y/x', 'classic: {answers: y/y'), ('answers: x/x\n        insert: {after read: {told: "Lotte, whom he trusts, tells him that {x} are in it, not {y}. @ tell Ravi x', 'answers: y/y\n        insert: {after read: {told: "Lotte, whom he trusts, tells him that {y} are in it. @ tell Ravi y'), ('open_container: {answers: x/x, insert: {after read: {look: "He lifts', 'open_container: {answers: y/y, insert: {after read: {look: "He lifts')],
     'P1/none/classic: The story does not mention both labels.'),
    ([(LATE, 'Many a month goes by until nothing is left in his memory. @ forget Ravi')],
     '47: P1/late_label/forgot: The story differs from that of its twin in 1'),
    ([('"Months pass, and he has forgotten nothing.", "Months go by, and he has forgotten nothing."', '"Months pass, and he has forgotten nothing."'), ('"It holds {x}, and no {y}. @ world x", "There are {x} in it and no {y}."', '"It holds {x}, and no {y}. @ world x"')],
     's.yaml: Of 12 sentences under `story`, 4 have a second wording'),
    ([('answers: x/unknown', 'answers: x/x'), ('hear of it. @ world unknown', 'hear of it.')],
     's.yaml: Reality is unknown in 2 stories of the stage; expected 3 at least.'),
    ([('insert: {after read: {never: "He has never looked inside."}}', 'note: the same')],
     'P1/none/plain/belief/original: The story is the same as that of P1/none/classic/belief/original.'),
    ([('does {asked} believe is in the chest?', 'does {asked} believe is in the chest, {x}?')], "The question names the label 'bells'."),
    ([('what does {asked} believe is in the chest?', 'where will {asked} look?')], 'The question asks about the future, not about a belief.'),
    ([('canary: "practice"\n', '')], 's.yaml: The canary is missing; copy it from another stage.'),
]  # fmt: skip
"""Edits of the practice stage, and the problem that is found then."""


@pytest.mark.parametrize(("edits", "wanted"), [*VIOLATIONS, ([], None)])
def test_each_rule_is_checked(edits: list[tuple[str, str]], wanted: str | None, tmp_path: Path) -> None:
    found = problems(stage(tmp_path, *edits))
    assert [one for one in found if wanted and wanted in one] or found == [], found
    assert bool(found) == bool(wanted)
    assert [one for one in found if not one.endswith((".", "in one of them."))] == []


CHANGES: list[tuple[dict[str, object], str]] = [
    ({"stages": {"unexpected_contents": ("P1", "P2")}}, "The stage P2 is missing"),
    ({"stages": {}}, "the design names it not at all"),
    ({"stages": {"unexpected_transfer": ("P1",)}}, "names it as unexpected_transfer"),
    ({"lacks": {}}, "has no task of the class transparent_container"),
    ({"lacks": {"unexpected_contents": frozenset(TOLD | {"late_label"})}}, "does not foresee: the class late_label"),
    ({"questions": (100, 200)}, "There are 72 questions, expected 100 to 200."),
    (
        {"pairs": PAIRS.model_copy(update={"least_share": 0.3})},
        "In the class late_label the right answer's role is 'cue' in 2 of 8 questions",
    ),
]


@pytest.mark.parametrize(("change", "wanted"), CHANGES)
def test_the_design_of_the_whole_edition(change: dict[str, object], wanted: str, tmp_path: Path) -> None:
    found = problems(stage(tmp_path), DESIGN.model_copy(update=change))
    assert [one for one in found if wanted in one], found


def test_the_command_names_problems_and_ends_with_1(tmp_path: Path) -> None:
    found = BENCHMARK.validate(PATH, print)
    assert found.code == 0
    assert found.lines[0] == "P1: 3 tasks, 18 stories, 72 questions"
    assert found.lines[1] == "2 minimal pairs, which differ in 1 words (the median; at most 1)"
    assert re.fullmatch("72 questions in 1 stages, sha256:.*: ok", found.lines[2])
    wrong = stage(tmp_path, ("ground: unstated, aware: true", "ground: unstated, aware: false"))
    found = BENCHMARK.validate(wrong.path, print)
    told = f"problem: {wrong.path}:74: P1/automatic_change_knowledge: `aware` is False"
    assert (found.code, found.lines[1].startswith(told)) == (1, True)


def test_the_edition_is_as_designed(first_edition: list[Item], second_edition: list[Item]) -> None:
    found = validation.validate_stages(load_stages(), own=True)
    assert [line for line in found.lines if line.startswith("problem")] == []
    assert items_digest(second_edition) in (ROOT / "dataset/perturbed-2/README.md").read_text()
    assert all(item.gold.sets[-1] == (item.answer,) for item in second_edition)
    assert {item.id for item in second_edition}.isdisjoint(item.id for item in first_edition)


def test_the_command_shows_a_story_and_names_what_is_not_there(cli: Cli) -> None:
    lines = cli("dataset", "show", "perturbed-2", "P1", "late_label", "forgot", "--path", PATH).out.splitlines()
    assert lines[0] == "P1/late_label/forgot (stated; cue; twin of remembers; asked: Ravi; answer: lamps)"
    assert lines[3] == "   2. Months pass, and he has forgotten everything.  [belief: unknown; reality: bells]"
    for where, reason in ((["P2"], "unknown stage 'P2'. Known: P1"), (["P1", "none", "plane"], "did you mean 'plain'")):
        with pytest.raises(ConfigError, match=reason):
            BENCHMARK.show(PATH, where)
    refuses(cli("dataset", "show", "hitom"), "only the perturbed, perturbed-2 and worlds benchmarks can be shown")


MISTAKES = [
    ('  late_label:\n', '  late_lable:\n', 39, "did you mean 'late_label'"),
    ('      plain:', '      no_transfer:', 33, 'unknown unexpected_contents version'),
    ('  late_label:\n', '  late_label:\n    cue: z\n', 40, "unknown label 'z'"),
    ('plain: {answers: y/x', 'plain: {answers: x/x', 33, 'the events end in [y]'),
    ('plain: {answers: y/x, ground: unstated}', 'plain: {answers: y/x}', 33, 'stated or unstated'),
    ('ground: unstated, aware: true', 'ground: unstated', 81, 'where every version needs it'),
    ('@ see Ravi"}}}\n  late', '@ see Rafi"}}}\n  late', 38, "did you mean 'Ravi'"),
    ('      remembers: {', '      remembers: {of: forgot, ', 46, 'made of each other'),
    ('plain: {answers: y/x', 'plain: {omit: [find, holds, label, read], answers: y/x', 33, 'no sentence is left'),
    ('replace: {holds: "It holds {y}, and no {x}. @ world y"}', 'note: none', 34, 'the events end in [x]'),
    ('He has never looked inside.', 'He has never looked@inside.', 32, "an '@' stands in the text"),
    ('@ arm y", "A', '", "A', 82, 'no mechanism was armed'),
]  # fmt: skip
"""What is edited in the practice stage, into what, and the line and the reason of the refusal."""


@pytest.mark.parametrize(("old", "new", "line", "reason"), MISTAKES)
def test_a_mistake_is_refused_with_its_line(old: str, new: str, line: int, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ContentError) as found:
        stage(tmp_path, (old, new))
    assert reason in str(found.value)
    assert "\n" not in str(found.value)
    assert (found.value.path, found.value.line) == (tmp_path / "s.yaml", line), found.value


def test_two_files_of_one_stage_and_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no stage files"):
        load_stages(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(PRACTICE)
    with pytest.raises(ConfigError, match="'P1' is already in"):
        load_stages(tmp_path)


@pytest.mark.parametrize("limit", [176, 600, 1500])
def test_a_drawn_part_holds_whole_pairs_and_all_classes_and_roles(limit: int, second_edition: list[Item]) -> None:
    part = limit_items(second_edition, limit, BENCHMARK.draw)
    assert limit - 8 <= len(part) <= limit
    pairs: dict[tuple[object, ...], set[object]] = {}
    for item in part:
        if item.factors["slot"] == "pair":
            pairs.setdefault((item.cluster, item.factors["swapped"]), set()).add(item.factors["version"])
    assert len(pairs) > limit / 50
    assert {len(versions) for versions in pairs.values()} == {2}
    subset = [item for item in part if in_false_belief_subset(item.factors)]
    roles = Counter(item.factors["belief_role"] for item in subset)
    assert min(roles[role] for role in ("cue", "opposite", "unknown")) > len(subset) / 6
    counts = Counter(item.factors["perturbation"] for item in part)
    assert len(counts) == len(PERTURBATIONS)
    usual = sorted(counts.values())[len(counts) // 2]
    assert min(counts.values()) >= usual / 3  # the class that only eleven stages have comes up less often


def test_every_stage_makes_two_cases_in_which_the_cue_is_the_same_in_the_twin() -> None:
    found = [one for one in cases() if isinstance(one, Case)]
    assert len(found) == 2 * 21 == 2 * len({one.scenario for one in found})
    for one in found:
        assert (one.parted, one.own.answer) == ("informed", one.f.answer)
        assert one.twin is not None
        assert one.twin.answer == one.own_twin.answer == one.f.factors["reality"]
        assert " you" in one.own.question
        assert one.own.story != one.own_twin.story
        assert set(one.own.story) - set(one.own_twin.story) <= {one.own.story[-1], one.own.story[-2]}
        assert str(one.f.factors["asked"]) not in " ".join([*one.own.story, *one.own_twin.story, one.own.question])


STICKER = {"sticker": 'It says "{y}".', "read": "You read it."}
LEARNED = {"told": "Clara tells you: {x}."}


@pytest.mark.parametrize(
    ("told", "learned", "said"),
    [
        ({"holds": "There are {x} in it and no {y}."}, {}, "holds: Nadia does not notice this"),
        ({"bell": "Nadia leaves."}, {}, "bell: names Nadia"),
        ({"read": "You read {y}."}, {}, r"read: expected the labels \[\]"),
        ({"shelf": "It stands there."}, {}, "shelf"),
        ({}, {"told": "Clara tells you: {y}."}, r"told: expected the labels \['\{x\}'\]"),
        ({}, {"never": "You never look."}, "never"),
    ],
)
def test_a_story_that_does_not_fit_its_stage_is_refused(
    told: dict[str, str], learned: dict[str, str], said: str
) -> None:
    first = load_stage(content.require("dataset/perturbed-2/stages") / "C01.yaml")
    assert len(list(make_cases(first, OwnStory(told=STICKER, learned=LEARNED)))) == 2
    with pytest.raises(ValueError, match=said):
        list(make_cases(first, OwnStory(told=STICKER | told, learned=LEARNED | learned)))
    with pytest.raises(ValueError, match="you believe unknown after it; expected y"):
        list(make_cases(first, OwnStory(told={"sticker": STICKER["sticker"]}, learned=LEARNED)))
