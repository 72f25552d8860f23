"""Read a stage file, and refuse every mistake in it that would make an answer or a gold chain wrong.

>>> load_stage(Path("dataset/stages/C2.yaml")).file.stage           # doctest: +SKIP
'C2'
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tomserve.benchmarks.perturbed.prose import Prose
from tomserve.benchmarks.perturbed.stagefile import (
    DERIVED_FACTORS,
    PERTURBATIONS,
    SCENARIOS,
    UNKNOWN,
    Scenario,
    Sentence,
    Stage,
    StageFile,
    Task,
    story_of,
)
from tomserve.content.validation import load_yaml, validate
from tomserve.errors import ContentError, one_of
from tomserve.items.automaton import compile_sets


def load_stage(path: Path) -> Stage:
    """Read and check one stage file. Raises ContentError with file, line, field and reason."""
    data, lines = load_yaml(path)
    stage = Stage(validate(data, StageFile, path=path, lines=lines), path, lines)
    _Checker(stage).check()
    try:
        for item in stage.items("perturbed"):
            item.to_json()
    except (ValueError, TypeError) as error:  # mistakes that show only when items are made, such as an empty question
        raise ContentError(" ".join(str(error).split())[:300], path=path) from None
    return stage


class _Checker:
    """Checks a stage file for what its types do not say. Every method raises ContentError at the first mistake."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.file = stage, stage.file
        self.symbols = {"x", "y", UNKNOWN, *self.file.extra_labels}
        forms = [form for slot in self.file.slots.values() for form in slot.forms().values()]
        self.prose = Prose((*forms, *self.file.extra_labels.values()), list(self.file.slots["x"].forms()))

    def fail(self, reason: str, *loc: str | int) -> None:
        raise ContentError(
            reason, path=self.stage.path, line=self.stage.lines.at(loc), field=".".join(map(str, loc))
        ) from None

    def check(self) -> None:
        self.labels()
        for key in ("belief", "reality"):
            self.text(getattr(self.file.questions, key), "questions", key)
        for name, task in self.file.tasks.items():
            if name not in PERTURBATIONS:
                self.fail(one_of("perturbation", name, PERTURBATIONS), "tasks", name)
            self.task(name, task)

    def labels(self) -> None:
        shown = [self.file.slots["x"].label, self.file.slots["y"].label, *self.file.extra_labels.values(), UNKNOWN]
        for i, one in enumerate(shown):
            for other in shown[i + 1 :]:
                if one.casefold() in other.casefold() or other.casefold() in one.casefold():
                    self.fail(f"labels {one!r} and {other!r}: one contains the other", "slots")
        if sorted(self.file.slots["x"].forms()) != sorted(self.file.slots["y"].forms()):
            self.fail("x and y must offer the same forms, or one cannot stand for the other", "slots")
        if clash := sorted(set(self.file.extra_labels) & {"x", "y", "asked", UNKNOWN}):
            self.fail(f"the symbol {clash[0]!r} is taken", "extra_labels", clash[0])

    def task(self, name: str, task: Task) -> None:
        here = ("tasks", name)
        expected = SCENARIOS[self.file.kind]
        if missing := [scenario for scenario in expected if scenario not in task.scenarios]:
            self.fail(f"the scenario {missing[0]!r} is missing", *here, "scenarios")
        if strange := [scenario for scenario in task.scenarios if scenario not in expected]:
            self.fail(one_of(f"{self.file.kind} scenario", strange[0], expected), *here, "scenarios", strange[0])
        if task.asked is not None and task.asked not in self.file.people.values():
            self.fail(one_of("person", task.asked, self.file.people.values()), *here, "asked")
        if task.cue is not None:
            self.symbol(task.cue, *here, "cue")
        if task.questions is not None:
            for key in ("belief", "reality"):
                self.text(getattr(task.questions, key), *here, "questions", key)
        for key, sentence in task.story.items():
            self.text(sentence.text, *here, "story", key)
        for scenario in expected:
            self.scenario(task, task.scenarios[scenario], (*here, "scenarios", scenario))

    def scenario(self, task: Task, scenario: Scenario, here: tuple[str | int, ...]) -> None:
        for key, sentence in scenario.replace.items():
            self.text(sentence.text, *here, "replace", key)
        for index, insertion in enumerate(scenario.insert):
            for key, sentence in insertion.sentences.items():
                self.text(sentence.text, *here, "insert", index, "sentences", key)
        story: dict[str, Sentence] = {}
        try:
            story = story_of(task, scenario)
        except ValueError as error:
            self.fail(str(error), *here)
        if not story:
            self.fail("no sentence is left", *here, "omit")
        if clash := sorted(set(scenario.factors) & DERIVED_FACTORS):
            self.fail(f"{clash[0]!r} is part of the design and follows from the file", *here, "factors", clash[0])
        if missing := [key for key in story if key not in scenario.gold]:
            self.fail(f"no gold sets for the sentence {missing[0]!r}", *here, "gold")
        if strange := [key for key in scenario.gold if key not in story]:
            self.fail(f"gold for {one_of('sentence', strange[0], story)}", *here, "gold", strange[0])
        if list(scenario.gold) != list(story):
            self.fail(f"gold lines are not in the order of the story: {', '.join(story)}", *here, "gold")
        if scenario.cue is not None:
            self.symbol(scenario.cue, *here, "cue")
        for which in ("world", "belief"):
            self.rationale(which, story, scenario, here)
        false = scenario.answer.belief not in (UNKNOWN, scenario.answer.reality)
        if here[-1] != "false_belief" and false != bool(scenario.control_exception):
            reason = "the belief is false in a control: say why" if false else "given, but the belief is not false"
            self.fail(reason, *here, "control_exception")

    def rationale(
        self, which: str, story: Mapping[str, Sentence], scenario: Scenario, here: tuple[str | int, ...]
    ) -> None:
        sets: list[list[str]] = []
        edges: list[tuple[int, str, str]] = []
        for t, key in enumerate(story):
            layer: list[str] = getattr(scenario.gold[key], which)
            for symbol in layer:
                self.symbol(symbol, *here, "gold", key, which)
            sets.append(layer)
            edges += [(t, a, b) for a, b in getattr(scenario.gold[key], f"{which}_edges")]
            try:
                compile_sets(sets, edges)
            except ValueError as error:
                self.fail(str(error), *here, "gold", key, which)
        automaton = compile_sets(sets, edges)
        names = list(story)
        if not automaton.labels:
            # The first sentence up to which no path leads is where the author has to look.
            stop = next(t for t in range(1, len(sets) + 1) if not _prefix(sets, edges, t))
            self.fail(f"no path of {which}s leads up to this sentence", *here, "gold", names[stop - 1], which)
        for t, (written, alive) in enumerate(zip(sets, automaton.labels, strict=True)):
            if dead := [symbol for symbol in written if symbol not in alive]:
                self.fail(f"{dead[0]!r} lies on no path through the story", *here, "gold", names[t], which)
        question = "reality" if which == "world" else "belief"
        answer = getattr(scenario.answer, question)
        self.symbol(answer, *here, "answer", question)
        if sets[-1] != [answer]:
            found = ", ".join(sets[-1])
            self.fail(f"is {answer!r}, but the last {which} set is [{found}]", *here, "answer", question)

    def symbol(self, symbol: str, *loc: str | int) -> None:
        if symbol not in self.symbols:
            self.fail(one_of("label", symbol, self.symbols), *loc)

    def text(self, template: str, *loc: str | int) -> None:
        if (mistake := self.prose.mistake(template)) is not None:
            self.fail(mistake, *loc)


def _prefix(sets: list[list[str]], edges: list[tuple[int, str, str]], length: int) -> bool:
    return bool(compile_sets(sets[:length], [edge for edge in edges if edge[0] < length]).labels)
