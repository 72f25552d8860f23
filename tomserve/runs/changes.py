"""One run, one server, one model: a change of who answers is noticed, recorded, and stops the run unless accepted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tomserve.engine.answering import Answering
from tomserve.runs.manifest import Manifest, Session, portable
from tomserve.serving import identity
from tomserve.serving.target import Target
from tomserve.serving.vigil import Vigil


@dataclass
class Changes:
    """What is done with changes of the server in one session.

    accepted: whether the user goes on in spite of them (`--accept-change`). say: told of each, in a sentence.
    """

    session: Session
    accepted: bool
    say: tuple[Callable[[str], None], ...]

    def check(self, folder: Path, manifest: Manifest) -> None:
        """Compare the server with that of the last session that had answers.

        Raises RunMismatchError where it is another, unless that is accepted; then it is recorded.
        """
        sessions = [session.to_dict() for session in manifest.sessions]
        for change in identity.check(folder, sessions, self.session.to_dict(), accepted=self.accepted):
            self.note(change)

    def note(self, change: Mapping[str, Any]) -> None:
        """Record a change, accepted or not."""
        self.session.changed(change, accepted=self.accepted)
        for listener in self.say:
            listener(f"{'accepted ' if self.accepted else ''}change: {identity.said(change)}")

    def answering(self, models: Collection[str]) -> Answering:
        """What listens to the models that replies name. models: those that the run's earlier replies named."""
        return Answering(models, self._another_model if self.accepted else None)

    def _another_model(self, endpoint: str, before: list[str], name: str) -> None:
        self.note({"what": "model named by replies", "before": before, "now": name, "endpoint": endpoint})

    def vigil(self, target: Target) -> Vigil:
        """What looks now and then whether the server is still the one that was checked."""
        told = portable(target.server)
        return Vigil(target.endpoints, target.model, told, self._exchanged, accepted=self.accepted, portable=portable)

    def _exchanged(self, change: identity.Change) -> None:
        self.note(change)
        if self.accepted:
            self.session.widened(change["what"], identity.both(change["before"], change["now"]))
