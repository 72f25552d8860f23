"""What happens when a run's answers begin to come from another server, model or prompt than before.

A run has one server and one model. Such a change is recorded in the manifest, and it stops the run unless the user
accepts it with `--accept-change`. A change of its prompts always stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tomserve.engine.retry import ModelGuard
from tomserve.errors import RunMismatchError
from tomserve.prompting.strategy import Strategy
from tomserve.runs.manifest import Manifest, Session, portable
from tomserve.serving import provenance
from tomserve.serving.endpoint import ServerWatch, Target


@dataclass
class Changes:
    """Records the changes of the server, or of the model that answers, in one session.

    session: the record of the session in the manifest.
    accepted: whether the user goes on in spite of changes (`--accept-change`).
    say: functions that are called with a sentence for each change, such as that which writes the run's log.
    """

    session: Session
    accepted: bool
    say: tuple[Callable[[str], None], ...]

    def check(self, folder: Path, manifest: Manifest) -> None:
        """Compare the server with that of the last session that had answers, and record each difference.

        folder: the run's folder, for messages. manifest: holds the earlier sessions. Raises RunMismatchError where the
        server is another one, unless the user accepts that.
        """
        sessions = [session.to_dict() for session in manifest.sessions]
        for change in provenance.check_same_server(folder, sessions, self.session.to_dict(), accepted=self.accepted):
            self.note(change)

    def note(self, change: Mapping[str, Any]) -> None:
        """Record a change, and say so. The change has `what` changed, and its value `before` and `now`."""
        self.session.note_change(change, accepted=self.accepted)
        for listener in self.say:
            listener(f"{'accepted ' if self.accepted else ''}change: {provenance.describe_change(change)}")

    def answering(self, models: Collection[str]) -> ModelGuard:
        """The comparison of the models that replies name. models: the names in the run's earlier replies."""
        return ModelGuard(models, self._another_model if self.accepted else None)

    def _another_model(self, endpoint: str, before: list[str], name: str) -> None:
        self.note({"what": "model named by replies", "before": before, "now": name, "endpoint": endpoint})

    def vigil(self, target: Target) -> ServerWatch:
        """The watch that looks every now and then whether the server is still the one that was checked."""
        server = portable(target.server)
        return ServerWatch(
            target.endpoints, target.model, server, self._exchanged, accepted=self.accepted, portable=portable
        )

    def _exchanged(self, change: provenance.Change) -> None:
        """Record that the server was exchanged while it was being asked."""
        self.note(change)
        if self.accepted:
            self.session.set_server(change["what"], provenance.merge_values(change["before"], change["now"]))


def refuse_renamed(folder: Path, old: Manifest, asked: Collection[str], strategies: Sequence[Strategy]) -> None:
    """Raise RunMismatchError where strategies have got other prompts since the run began, and its own another name.

    folder: the run's folder, for messages. old: its manifest. asked: the strategies that have answers in it.
    strategies: those that are to be asked now.
    """
    renamed = {}
    for strategy in strategies:
        was = old.strategies.get(strategy.name)
        if strategy.name in asked and was is not None and was.digest not in (None, strategy.digest):
            renamed[strategy.name] = strategy.renamed(was.digest)
    if found := {name: now for name, now in renamed.items() if now is not None}:
        changed, today = (" and ".join(map(repr, names)) for names in (found, found.values()))
        options = " ".join(f"--strategy {name}" for name in found.values())
        raise RunMismatchError(
            f"{folder}: the prompts of {changed} have changed since this run was begun (by tomserve {old.tomserve}); "
            f"those that it asked are called {today} now: ask them in a new run with {options} --run NEW (make: "
            f"STRATEGY='{' '.join(found.values())}' RUN=NEW), or go on with the version that began it"
        )
