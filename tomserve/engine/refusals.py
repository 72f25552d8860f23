"""What a refusal means, by what the run has just seen: whether it is about that question, or about all of them, as the
key, the account, the model or a gateway is in the way.

A status code alone does not tell. A refused question is held back until a request that was sent later to the same
endpoint is answered, which shows that the refusal was about the question. Where many different questions in a row are
refused alike, one that was answered before is asked again: if it is refused, too, the run ends, and the questions stay
open.
"""

import math
import re

from tomserve.engine.error_objects import ran_out
from tomserve.engine.records import Row
from tomserve.engine.transport import Reply
from tomserve.errors import ServerError
from tomserve.status import (
    ANSWERS,
    FORBIDDEN,
    KEY_REFUSED,
    MALFORMED,
    NO_CREDIT,
    NOT_FOUND,
    REFUSAL,
    SPOKEN,
    TOO_MANY,
    transient,
)

LIMIT = 8  # how many different questions in a row must be refused alike before something else than them is suspected
HELD = 64  # how many refused questions are held back at most before that is found out, whatever their reasons are
GATEWAY_ADVICE = (
    "a gateway before it gives up waiting, though the model may go on: ask for fewer tokens (--max-tokens), have "
    "replies streamed (--extra-body '{\"stream\": true}'), or use an address that leads to the server directly; "
)
WAY_ON = "then repeat the command, which goes on where it was"


def is_refusal(row: Row, *, lasting: bool = False) -> bool:
    """Whether a row is of a failure that asking again will not mend: of an error of the request, of a filter that
    refused it, or of a reply that can hardly be another the next time (`lasting`)."""
    status = row["status"]
    if status == REFUSAL:  # with a reason why it ended it is a reply of the model
        return row["error"] is not None and row["finish_reason"] is None
    return lasting or (status not in SPOKEN and not transient(status))


def is_answered(probe: Reply) -> bool:
    """Whether a server answers a probe, be it with too few tokens for a reply; what a filter refuses is no answer."""
    return probe.status in ANSWERS or ran_out(probe.error)


def is_foreign(reply: Reply, *, answered: bool) -> bool:
    """Whether something else answers in the server's place for a while, as a router or a proxy does: the model is not
    found any more, after it has `answered`, or what comes can be of no chat server."""
    if reply.status == NOT_FOUND:
        return reply.foreign or answered
    return reply.foreign and reply.status == MALFORMED and answered


class Refusals:
    """Holds refused questions back until it is known what their refusals mean.

    begun: whether the run has answers from earlier sessions. Where nothing was ever answered, LIMIT questions that are
    refused alike end the run without any probe. answered: whether anything was answered in the run.
    """

    def __init__(self, begun: bool = False) -> None:
        self.answered = begun
        self.sent = 0  # how many requests were sent so far, by which it is told what was sent after what
        self._held: list[tuple[int, Row]] = []  # each refused row with the number of requests sent before it came
        self.ended: ServerError | None = None

    def note_sent(self) -> int:
        """Count a request that is about to be sent; returns its number."""
        self.sent += 1
        return self.sent

    def take(self, row: Row, number: int, *, refused: bool) -> list[Row]:
        """Take the row of a reply to the request of that number. Returns the rows that may be written now, in order.
        Raises the error by which the run has ended, where it has."""
        if self.ended is not None and row["status"] not in SPOKEN:  # it was in flight when the run ended
            raise self.ended
        if refused:
            self._held.append((self.sent, row))
            return []
        if row["status"] not in SPOKEN:
            return [row]
        self.answered = True
        return [*self.believe(number, row["endpoint"]), row] if self._held else [row]

    def believe(self, number: int | None = None, endpoint: str | None = None) -> list[Row]:
        """The rows of questions that are refused for themselves, as a request of that number was answered by that
        endpoint, which shows nothing about another; without a number all that are held back."""
        held, self._held = self._held, []
        about: list[Row] = []
        for before, row in held:
            if number is None or (before < number and row["endpoint"] == endpoint):
                about.append(row)
            else:
                self._held.append((before, row))
        return about

    @property
    def where(self) -> str:
        """The endpoint that is to be asked what the most frequent refusals mean, as it sent one of them."""
        endpoint: str = self._row_of(self._most_alike())["endpoint"]
        return endpoint

    @property
    def needs_probe(self) -> bool:
        """Whether something else has to be asked to find it out: where something was answered before, and where a
        filter says that it refuses, as it may do so for each of the first questions."""
        return self.answered or self._row_of(self._most_alike())["status"] == REFUSAL

    def suspected(self, *, last: bool = False) -> bool:
        """Whether it has to be found out what the refusals mean: as many were alike, or, after the `last` question, as
        any were held back that do not say themselves that they are about the question."""
        if last:
            return any(row["status"] not in (REFUSAL, MALFORMED) for _, row in self._held)
        return len(self._held) >= HELD or any(len(keys) >= LIMIT for keys in self._alike().values())

    def _most_alike(self) -> set[str]:
        """The keys of the questions that are held back for the most frequent reason."""
        return max(self._alike().values(), key=len, default=set())

    def _alike(self) -> dict[tuple[str, str], set[str]]:
        """The keys of the questions that are held back, by the reason of the refusal."""
        found: dict[tuple[str, str], set[str]] = {}
        for _, row in self._held:
            found.setdefault(_reason(row["status"], row["error"]), set()).add(row["key"])
        return found

    def judge_beginning(self, *, last: bool = False) -> list[Row]:
        """What the refusals mean where nothing was ever answered: rows to write, where their reasons differ or there is
        a single question. Raises ServerError where several questions were refused alike."""
        most = self._most_alike()
        row, count = self._row_of(most), len(self._alike())
        if len(most) >= LIMIT or (last and count == 1 and len(most) > 1 and row["status"] != MALFORMED):
            raise self.end(
                f"{row['endpoint']}: the first {len(most)} questions were all refused with {row['status']} "
                f"({row['error']}); nothing was written: mend the request (model, options, preset) or the server, then "
                "repeat the command"
            )
        return self.believe() if last or len(self._held) >= HELD else []

    def _row_of(self, keys: set[str]) -> Row:
        return next(row for _, row in self._held if row["key"] in keys)

    def judge_probe(self, probe: Reply, number: int, endpoint: str) -> list[Row]:
        """What the refusals mean, by an endpoint's final reply to a request that had been answered before, sent as the
        one of that number: the rows of questions that are refused for themselves. Raises ServerError where it is
        refused."""
        if is_answered(probe):
            return self.believe(number, endpoint)
        row = self._row_of(self._most_alike())
        raise self.end(
            f"{row['endpoint']}: {len(self._held)} questions in a row were refused, with {row['status']} "
            f"({row['error']}), and so is what was answered before ({in_words(probe)}); they stay open: mend the "
            f"account, the key, the model or the server, {WAY_ON}"
        )

    def end(self, text: str) -> ServerError:
        """The error by which the run ends; what is held back is left open."""
        self._held = []
        self.ended = ServerError(text)
        return self.ended


def _reason(status: str, error: str | None) -> tuple[str, str]:
    """Status and error without numbers and ids: "requested 1,234 tokens" is the same reason for every question."""
    return status, same_words(error)


def same_words(error: str | None) -> str:
    """An error in a form in which those of two questions are equal where they differ in numbers and ids alone."""
    return re.sub(r"\S*[0-9]\S*", "#", error or "")


def in_words(reply: Reply) -> str:
    return reply.status + (f": {reply.error}" if reply.error else "")


LONG_WAIT = 900.0  # seconds: nobody waits that long for a limit that a day has
_DAILY = re.compile(r"(?i)\b(?:per[ -]day|daily|[TR]PD)\b")


def explain_hopeless(reply: Reply) -> str | None:
    """Why no other request would fare better after this reply, and what to do, as the end of a sentence; else None."""
    if reply.status == NO_CREDIT:
        return (
            f"the account that the key belongs to has no credit left, says the server ({reply.error}); the questions "
            f"that are left stay open: pay, or set the key of another account, {WAY_ON}"
        )
    if reply.status == TOO_MANY and _DAILY.search(reply.error or "") and (reply.retry_after or math.inf) > LONG_WAIT:
        return (
            f"the limit of a day is reached, says the server ({reply.error}); the questions that are left stay open: "
            f"wait until it takes more, {WAY_ON}"
        )
    if reply.status in (KEY_REFUSED, FORBIDDEN):
        return f"the API key was refused in mid-run ({reply.error}); set a valid key and resume"
    return None
