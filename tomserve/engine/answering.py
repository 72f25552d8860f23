"""Which model answers, by the name in the replies themselves, so that another model cannot take over unnoticed.

The first reply of a run decides. A later reply that names another model ends the run and is not kept. Every reply is
compared with all earlier ones, whatever endpoint it came from: replicas of one model name the same model, and where
they do not, the answers come from different models.

>>> answering = Answering(["m-2024"])
>>> answering.note_reply(Reply("ok", model="m-2024"), "http://host/v1")
>>> answering.note_reply(Reply("ok", model="m-2025"), "http://host/v1")  # doctest: +ELLIPSIS
Traceback (most recent call last):
tomserve.errors.ServerError: http://host/v1: a reply names the model 'm-2025' where earlier ones named 'm-2024'; ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tomserve.engine.transport import Reply
from tomserve.errors import ServerError
from tomserve.status import SPOKEN

MOST = 64
"""How many different names are kept at most: a server that makes up a name for each reply must not fill the memory."""


class Answering:
    """The models that replies name.

    known: the names that replies gave in earlier sessions of the run.
    named: the names that replies gave in this session.
    accept: called with (endpoint, the names so far, the new name) where the user accepts a change of the model; without
    it a change raises an error.
    acceptable: whether the user could accept one, so that the error says how.
    """

    def __init__(
        self,
        known: Iterable[str] = (),
        accept: Callable[[str, list[str], str], None] | None = None,
        *,
        acceptable: bool = True,
    ) -> None:
        self.known, self._acceptable = set(known), acceptable
        self.named: set[str] = set()
        self._accept = accept

    def note_reply(self, reply: Reply, endpoint: str) -> None:
        """Take note of the model that a reply names.

        Raises ServerError where it is another one than those of the replies before, unless such a change is accepted.
        """
        name = reply.model
        if name is None or name in self.named or reply.status not in SPOKEN:
            return
        before = sorted(self.known | self.named)
        if before and name not in self.known:
            if self._accept is None:
                earlier = ", ".join(map(repr, before[:3])) + (", ..." if len(before) > 3 else "")
                both = ", or go on with both by --accept-change, which the manifest records"
                raise ServerError(
                    f"{endpoint}: a reply names the model {name!r} where earlier ones named {earlier}; it was not "
                    f"kept, all earlier ones are: use --run NEW (make: RUN=NEW){both if self._acceptable else ''}"
                )
            if len(before) < MOST:
                self._accept(endpoint, before, name)
        if len(self.named) < MOST:
            self.named.add(name)
