"""Which final failures of a run count as open again when it is resumed: those of statuses that the user names
(`--again`), and those that were refused as too long by a server whose context was shorter than it is now."""

from bisect import bisect_right
from collections.abc import Collection, Sequence

from tomserve import status
from tomserve.engine.error_objects import is_too_long
from tomserve.engine.records import Row
from tomserve.engine.request import Identity
from tomserve.errors import ConfigError
from tomserve.runs.journal import row_identity
from tomserve.runs.manifest import Manifest

NEVER = status.ANSWERS | {status.INVALID, status.UNANSWERED}


def parse_statuses(given: Sequence[str]) -> tuple[str, ...]:
    """The statuses that a user names, each text one or several with commas between. Raises ConfigError where one is
    unknown, or that of an answer."""
    names = tuple(dict.fromkeys(name.strip() for text in given for name in text.split(",") if name.strip()))
    for name in names:
        if not status.known(name) or name in NEVER:
            what = "holds an answer, which is kept" if name in status.ANSWERS else "is no status of a failed request"
            raise ConfigError(
                f"--again {status.inert(name)}: {what}; expected such as refusal or http_400, as `tomserve runs RUN` "
                "shows them"
            )
    return names


class OpenAgain:
    """Tells of each final row without an answer whether its question is open again; counts those that were too long.

    statuses: those that are asked again. manifest: what the run noted of its sessions, None for a new one. context: the
    tokens of the context now, None where no server tells. accepted: whether a changed context is accepted.
    """

    def __init__(
        self, statuses: Sequence[str], manifest: Manifest | None, context: int | None, *, accepted: bool
    ) -> None:
        self._statuses, self.context, self._accepted = frozenset(parse_statuses(statuses)), context, accepted
        sessions = [] if manifest is None or context is None else [one.to_dict() for one in manifest.sessions]
        self._times = [str(one.get("time") or "") for one in sessions]
        self._contexts = [one.get("max_model_len") for one in sessions]
        self._too_long: set[Identity] = set()

    def __call__(self, row: Row) -> bool:
        if row["status"] in self._statuses:
            return True
        if self.context is None or row["status"] not in status.REFUSED or not is_too_long(row.get("error") or ""):
            return False
        place = bisect_right(self._times, str(row.get("time") or "")) - 1
        before = self._contexts[place] if place >= 0 else None
        if type(before) is not int or before >= self.context:
            return False
        self._too_long.add(row_identity(row))
        return self._accepted

    def describe(self, failed: Collection[Identity]) -> str | None:
        """What to say where questions were too long for a context that is longer now; None where none were. failed:
        those that have no answer yet."""
        count = len(self._too_long.intersection(failed))
        if not count or self.context is None:
            return None
        were = "1 question was" if count == 1 else f"{count:,} questions were"
        them = "it is" if count == 1 else "they are"
        said = f"{were} refused as too long before the server's context was raised to {self.context:,} tokens"
        return f"{said}; {them} asked again" if self._accepted else f"{said}; --accept-change asks again"
