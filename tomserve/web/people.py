"""Who looks at the workbench, and what they may see and do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What somebody may do."""

    READER = "reader"
    RUNNER = "runner"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who uses the workbench.

    name: under which they signed in; "" where nobody signs in, because the workbench is one person's. role: what they
    may do.
    """

    name: str = ""
    role: Role = Role.RUNNER

    @property
    def may_run(self) -> bool:
        """Whether they may start, change and end experiments, and write notes."""
        return self.role is Role.RUNNER

    def may_see(self, owner: str, *, private: bool) -> bool:
        """Whether they may see a run of that owner."""
        return not private or not self.name or self.name == owner

    def may_change(self, owner: str) -> bool:
        """Whether they may change a run of that owner: its notes, its place in the queue, whether it goes on.

        A run without an owner, as one that was started in a terminal, belongs to every runner.
        """
        return self.may_run and (not self.name or owner in ("", self.name))
