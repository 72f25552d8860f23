"""Read a stage file of the second edition, and refuse every mistake in it that would make an answer or a chain wrong.

>>> load_stage(Path("dataset/perturbed-2/stages/C01.yaml")).file.stage   # doctest: +SKIP
'C01'
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from tomserve.benchmarks.perturbed.prose import Prose
from tomserve.benchmarks.perturbed.stagefile import PERTURBATIONS, SCENARIOS
from tomserve.benchmarks.perturbed_2.derive import parse
from tomserve.benchmarks.perturbed_2.stage import Stage, Story
from tomserve.benchmarks.perturbed_2.stagefile import FALSE_BELIEF, Sentence, StageFile
from tomserve.content.validation import load_yaml, validate
from tomserve.errors import ContentError, one_of
from tomserve.items import UNKNOWN

SYMBOLS = ("x", "y", UNKNOWN)
AUTOMATIC = "automatic_change_knowledge"
Place = tuple[str | int, ...]


def load_stage(path: Path) -> Stage:
    """Read and check one stage file. Raises ContentError with file, line, field and reason."""
    data, lines = load_yaml(path)
    stage = Stage(validate(data, StageFile, path=path, lines=lines), path, lines)
    check(stage)
    return stage


def check(stage: Stage) -> None:
    """Check a stage, read or made of another. Raises ContentError with file, line, field and reason."""
    _Checker(stage).check()
    try:
        stage.items()
    except (ValueError, TypeError) as error:  # mistakes that show only when items are made, such as an empty question
        raise ContentError(" ".join(str(error).split())[:300], path=stage.path) from None


class _Checker:
    """Checks a stage file for what its types do not say. Every method raises ContentError at the first mistake."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.file = stage, stage.file
        pairs = [self.file.labels, *self.file.spare]
        labels = [form for pair in pairs for slot in pair.values() for form in slot.forms().values()]
        self.prose = Prose(labels, list(self.file.labels["x"].forms()))

    def fail(self, reason: str, *loc: str | int) -> NoReturn:
        raise ContentError(
            reason, path=self.stage.path, line=self.stage.lines.at(loc), field=".".join(map(str, loc))
        ) from None

    def check(self) -> None:
        self.labels()
        for key in ("belief", "reality"):
            self.text(getattr(self.file.questions, key), "questions", key)
        for name in (*self.file.tasks, *self.file.lacks):
            if name not in PERTURBATIONS:
                self.fail(
                    one_of("perturbation", name, PERTURBATIONS), "tasks" if name in self.file.tasks else "lacks", name
                )
        for name in PERTURBATIONS:
            if (name in self.file.tasks) == (name in self.file.lacks):
                both = name in self.file.tasks
                reason = (
                    "there is a task of it" if both else f"has no task {name!r}; write it, or say under `lacks` why not"
                )
                self.fail(reason, *(("lacks", name) if both else ("tasks",)))
        for name in self.file.tasks:
            self.task(name)

    def labels(self) -> None:
        for number, pair in enumerate((self.file.labels, *self.file.spare)):
            here = ("labels",) if not number else ("spare", number - 1)
            shown = [*(slot.label for slot in pair.values()), UNKNOWN]
            for i, one in enumerate(shown):
                for other in shown[i + 1 :]:
                    if one.casefold() in other.casefold() or other.casefold() in one.casefold():
                        self.fail(f"labels {one!r} and {other!r}: one contains the other", *here)
            for slot in pair.values():
                if sorted(slot.forms()) != sorted(self.file.labels["x"].forms()):
                    self.fail("all labels must offer the same forms, or one cannot stand for the other", *here)

    def task(self, name: str) -> None:
        task, here = self.file.tasks[name], ("tasks", name)
        controls = [one for one in SCENARIOS[self.file.kind] if one != FALSE_BELIEF]
        if missing := [one for one in controls if one not in task.versions]:
            self.fail(f"the control {missing[0]!r} is missing", *here, "versions")
        others = [
            one for one in SCENARIOS["unexpected_contents"] + SCENARIOS["unexpected_transfer"] if one not in controls
        ]
        if strange := [one for one in task.versions if one in others]:
            self.fail(one_of(f"{self.file.kind} version", strange[0], controls), *here, "versions", strange[0])
        if task.asked is not None and task.asked not in self.file.people:
            self.fail(one_of("person", task.asked, self.file.people), *here, "asked")
        if task.cue is not None and task.cue not in SYMBOLS[:2]:
            self.fail(one_of("label", task.cue, SYMBOLS[:2]), *here, "cue")
        if task.questions is not None:
            for key in ("belief", "reality"):
                self.text(getattr(task.questions, key), *here, "questions", key)
        for key, sentence in task.story.items():
            self.sentence(sentence, *here, "story", key)
        for version in task.versions:
            self.version(name, version)

    def version(self, name: str, which: str) -> None:
        version, here = self.file.tasks[name].versions[which], ("tasks", name, "versions", which)
        for key, sentence in version.replace.items():
            self.sentence(sentence, *here, "replace", key)
        for anchor, sentences in version.insert.items():
            for key, sentence in sentences.items():
                self.sentence(sentence, *here, "insert", anchor, key)
        for symbol in version.answers.split("/"):
            if symbol not in SYMBOLS:
                self.fail(one_of("label", symbol, SYMBOLS), *here, "answers")
        if version.cue is not None and version.cue not in SYMBOLS[:2]:
            self.fail(one_of("label", version.cue, SYMBOLS[:2]), *here, "cue")
        if version.twin and version.of:
            self.fail("give either `twin` or `of`", *here, "of")
        control = self.file.scenario(which) != FALSE_BELIEF
        if (version.ground is None) != control:
            reason = "belongs to versions of the false-belief scenario" if control else "is missing: stated or unstated"
            self.fail(reason, *here, "ground")
        if (version.aware is not None) != (name == AUTOMATIC):
            self.fail(f"belongs to {AUTOMATIC}, where every version needs it", *here, "aware")
        try:
            story = self.stage.story(name, which)
        except ValueError as error:
            self.fail(str(error), *here)
        if not story.sentences:
            self.fail("no sentence is left", *here, "omit")
        self.answers(story, here)
        false = version.belief not in (UNKNOWN, version.reality)
        if control and false != bool(version.control_exception):
            reason = "the belief is false in a control: say why" if false else "given, but the belief is not false"
            self.fail(reason, *here, "control_exception")

    def answers(self, story: Story, here: Place) -> None:
        version, last = self.stage.version(story), story.lines[-1]
        for which, written, layer in (
            ("belief", version.belief, last.belief),
            ("reality", version.reality, last.world),
        ):
            if layer.labels != (written,):
                found = ", ".join(layer.labels)
                self.fail(f"{which} is {written!r}, but the events end in [{found}]", *here, "answers")

    def sentence(self, sentence: Sentence, *loc: str | int) -> None:
        for text in sentence.texts:
            self.text(text, *loc)
        for event in sentence.events:
            try:
                parsed = parse(event)
            except ValueError as error:
                self.fail(str(error), *loc)
            if strange := [agent for agent in parsed.agents if agent not in self.file.people]:
                self.fail(f"event {event!r}: {one_of('person', strange[0], self.file.people)}", *loc)
            if strange := [label for label in parsed.labels if label not in SYMBOLS]:
                self.fail(f"event {event!r}: {one_of('label', strange[0], SYMBOLS)}", *loc)

    def text(self, template: str, *loc: str | int) -> None:
        if "@" in template:
            self.fail("an '@' stands in the text; events follow ' @ ' with a space on both sides", *loc)
        if (mistake := self.prose.mistake(template)) is not None:
            self.fail(mistake, *loc)
