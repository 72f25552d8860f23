"""Which model answers: what the replies themselves say, so that another one cannot step in unseen.

The first reply of a run decides; one that names another model ends the run, and is not kept. All replies are compared
with all before them, whatever endpoint they came from: replicas behind one address do not disagree, and where they do,
the answers come from different models.

>>> answering = Answering(["m-2024"])
>>> answering.heard(Reply("ok", model="m-2024"), "http://host/v1")
>>> answering.heard(Reply("ok", model="m-2025"), "http://host/v1")
Traceback (most recent call last):
tomserve.errors.ServerError: http://host/v1: a reply names the model 'm-2025' where earlier ones named 'm-2024'; ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tomserve.engine.transport import Reply
from tomserve.errors import ServerError
from tomserve.status import SPOKEN

MOST = 64
"""Different names that are kept; a server that makes one up for each reply must not fill the memory."""


class Answering:
    """The models that replies name: `known` from earlier sessions of the run, `named` in this one.

    accept: called with (endpoint, names so far, new name) where a change is accepted; without it a change is an error.
    """

    def __init__(self, known: Iterable[str] = (), accept: Callable[[str, list[str], str], None] | None = None) -> None:
        self.known = set(known)
        self.named: set[str] = set()
        self._accept = accept

    def heard(self, reply: Reply, endpoint: str) -> None:
        """Take note of a reply. Raises ServerError where it names another model than those before, unless accepted."""
        name = reply.model
        if name is None or name in self.named or reply.status not in SPOKEN:
            return
        before = sorted(self.known | self.named)
        if before and name not in self.known:
            if self._accept is None:
                shown = ", ".join(map(repr, before[:3])) + (", ..." if len(before) > 3 else "")
                raise ServerError(
                    f"{endpoint}: a reply names the model {name!r} where earlier ones named {shown}; it was not kept, "
                    "all earlier ones are: use --run NEW (make: RUN=NEW), or go on with both by --accept-change, which "
                    "the manifest records"
                )
            if len(before) < MOST:
                self._accept(endpoint, before, name)
        if len(self.named) < MOST:
            self.named.add(name)
