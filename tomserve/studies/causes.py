"""Why questions have no answer: what befell their requests and replies, told apart by status and reason, each with how
often it did, the server's own words, and a way out.

>>> rows = {"item": ["a", "b"], "status": ["ok", "http_524"], "reason": [None, "error 524"], "answer": ["tea", None]}
>>> [one.sentence(1, 2) for one in find_causes(pl.DataFrame(rows))]
['1 of 2 requests met the time limit of a gateway before the server ("error 524"): fewer tokens by --max-tokens, or \
the address of the server itself']
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import polars as pl

from tomserve.engine.redact import clean_text
from tomserve.scoring.answers import EMPTY
from tomserve.scoring.grades import UNREAD_EMPTY
from tomserve.scoring.score import BLANKS, DECLINED, ONLY_THOUGHTS
from tomserve.scoring.thoughts import CUT
from tomserve.status import (
    CONNECTION,
    FORBIDDEN,
    GATEWAY_TIMEOUTS,
    HTTP,
    KEY_REFUSED,
    LENGTH,
    MALFORMED,
    NO_CREDIT,
    REFUSAL,
    REFUSED,
    TIMEOUT,
    TOO_MANY,
    UNANSWERED,
    UNFINISHED,
    inert,
)
from tomserve.studies.answer_rows import UNREADABLE, is_answered, with_columns

LONGEST = 120
"""How many characters of a server's words are told at most."""


class Cause(NamedTuple):
    """One thing that kept questions from an answer."""

    kind: str  # its name in _KINDS
    rows: int  # how many it befell
    status: str  # the most frequent status of these
    words: str  # the most frequent reason of these, inert and short; empty where none is recorded
    mixed: bool = False  # whether others of these have another reason

    def sentence(self, replies: int, requests: int, tokens: int | None = None) -> str:
        """What befell how many of all replies or requests, and the way out. tokens: how many a reply may have."""
        kind = _BY_NAME[self.kind]
        budget = "the budget of tokens" if tokens is None else f"the budget of {tokens:,} tokens"
        said = kind.said.format(budget=budget, status=inert(self.status).replace(HTTP, "HTTP "))
        words = f' ("{self.words}"{", among others" if self.mixed else ""})' if kind.quoted and self.words else ""
        total = f"{replies:,} replies" if kind.of_replies else f"{requests:,} requests"
        return f"{self.rows:,} of {total} {said}{words}" + (f": {kind.way_out}" if kind.way_out else "")

    @property
    def of_replies(self) -> bool:
        """Whether replies came, and hold no answer."""
        return _BY_NAME[self.kind].of_replies

    @property
    def plain(self) -> bool:
        """Whether whole replies hold no answer, for which each may have a reason of its own."""
        return self.kind == UNREAD


class _Kind(NamedTuple):
    name: str
    rows: pl.Expr  # which rows it befell, of those that no kind before it did
    said: str  # what befell them; {budget} and {status} stand for the tokens that a reply may have and the status
    way_out: str = ""
    of_replies: bool = False
    quoted: bool = True  # whether the words belong to the sentence


_STATUS, _REASON = pl.col("status"), pl.col("reason").fill_null("")
_OF_HTTP = _STATUS.str.starts_with(HTTP)


def _says(words: str) -> pl.Expr:
    return _OF_HTTP & _REASON.str.contains(f"(?i){words}")


UNREAD = "unread"
_LESS = "--max-tokens with more"
_KINDS = (
    _Kind(
        "thinking",
        _REASON.eq(CUT),
        "had no text: everything is in their reasoning, and {budget} ended in thinking",
        f"{_LESS}, or --thinking off, or --reasoning-effort low",
        of_replies=True,
        quoted=False,
    ),
    _Kind(
        "parser",
        _REASON.eq(ONLY_THOUGHTS),
        "had no text: everything is in their reasoning, though the model ended by itself, so that the server's parser "
        "of reasoning took the answer",
        "serve without that parser, or --thinking off",
        of_replies=True,
        quoted=False,
    ),
    _Kind(
        "blanks",
        _REASON.eq(BLANKS),
        "ended in blanks until {budget} was spent: the server's grammar allows blanks without end",
        "--structured-outputs-config.disable_any_whitespace=true of vLLM, or a strategy without a schema "
        "(vanilla_free)",
        of_replies=True,
        quoted=False,
    ),
    _Kind(
        "empty",
        _REASON.is_in([EMPTY, UNREAD_EMPTY]),
        "held an empty text",
        "look at the server's chat template, and whether a stop sequence ends the reply at once",
        of_replies=True,
        quoted=False,
    ),
    _Kind(
        "cut", _STATUS.eq(LENGTH), "reached the end of {budget} before an answer", _LESS, of_replies=True, quoted=False
    ),
    _Kind(UNREAD, _STATUS.is_in(UNREADABLE), "held no answer", of_replies=True),
    _Kind(
        "declined",
        _STATUS.eq(REFUSAL) & (_REASON.eq("") | _REASON.str.starts_with(DECLINED)),
        "met a refusal by the model",
    ),
    _Kind("filter", _STATUS.eq(REFUSAL), "met a filter before the model"),
    _Kind(
        "account",
        _STATUS.eq(NO_CREDIT) | _says("insufficient_quota|exceeded your current quota|credit balance|billing"),
        "met an account without credit",
        "top it up; --again asks refused questions again",
    ),
    _Kind("rate", _STATUS.eq(TOO_MANY), "met the server's rate limit", "a lower --concurrency, or ask again later"),
    _Kind(
        "key",
        _STATUS.is_in([KEY_REFUSED, FORBIDDEN]),
        "met a server that wants another key",
        "TOMSERVE_API_KEY, or another header by --header NAME=ENV",
    ),
    _Kind(
        "gateway",
        _STATUS.is_in(GATEWAY_TIMEOUTS),
        "met the time limit of a gateway before the server",
        "fewer tokens by --max-tokens, or the address of the server itself",
    ),
    _Kind(
        "schema",
        _says("response_format|json_schema|guided_|structured_outputs|grammar"),
        "met a server that takes no such schema",
        "--schema auto, or a strategy without a schema (vanilla_free)",
    ),
    _Kind(
        "long",
        _says("context.{0,20}(?:length|size|window)|max_model_len|too long|too many (?:input )?tokens"),
        "exceeded the context of the model",
        "serve it with a longer one; questions refused for it are then asked again",
    ),
    _Kind("refused", _STATUS.is_in(REFUSED), "met {status}", "once that is mended, --again asks these questions again"),
    _Kind("http", _OF_HTTP, "met {status}"),
    _Kind(TIMEOUT, _STATUS.eq(TIMEOUT), "got no whole reply in time", "--timeout SECONDS with more, or fewer tokens"),
    _Kind(CONNECTION, _STATUS.eq(CONNECTION), "met no server, or lost it", "ask again when it is there"),
    _Kind(MALFORMED, _STATUS.eq(MALFORMED), "got what is no chat completion"),
    _Kind(
        UNFINISHED,
        _STATUS.eq(UNFINISHED),
        "lack the last turn of their conversation",
        "ask again by the same command",
        quoted=False,
    ),
    _Kind("other", pl.lit(True), "ended as {status}"),
)
"""All kinds; the first that fits a row counts."""

_BY_NAME = {kind.name: kind for kind in _KINDS}
_TYPES = {**dict.fromkeys(("status", "reason", "answer"), pl.String), "correct": pl.Boolean}
_NUMBERS = r"[0-9a-fA-F]{8,}|\d+"
"""What differs between reasons that are the same: counts, times, and names of requests."""


def find_causes(scores: pl.DataFrame) -> tuple[Cause, ...]:
    """Why rows of a score table have no answer, the most frequent cause first. What a person left open has none."""
    kind = pl.coalesce(pl.when(one.rows).then(pl.lit(one.name)) for one in _KINDS).alias("kind")
    alike = _REASON.str.slice(0, 300).str.replace_all(_NUMBERS, "#").alias("alike")
    groups = (
        with_columns(scores.lazy(), _TYPES)
        .filter(~is_answered() & (_STATUS.fill_null("") != UNANSWERED))
        .group_by(kind, "status", alike)
        .agg(pl.len(), pl.col("reason").first())
        .sort("len", "kind", "status", "alike", descending=[True, False, False, False])
    )
    causes = groups.group_by("kind", maintain_order=True).agg(
        pl.col("len").sum(),
        pl.col("status").fill_null("").first(),
        pl.col("reason").drop_nulls().first(),
        mixed=pl.len() > 1,
    )
    told = causes.sort("len", descending=True, maintain_order=True).collect()
    return tuple(
        Cause(name, rows, status, _short(why or ""), mixed) for name, rows, status, why, mixed in told.iter_rows()
    )


def _short(reason: str) -> str:
    words = " ".join(reason.removeprefix(DECLINED).split())
    return clean_text(words if len(words) <= LONGEST else words[: LONGEST - 1] + "…", LONGEST)


def sum_causes(some: Iterable[Sequence[Cause]]) -> tuple[Cause, ...]:
    """The causes of several tables of different questions, together."""
    found: dict[str, Cause] = {}
    for one in chain.from_iterable(some):
        seen = found.setdefault(one.kind, one._replace(rows=0))
        mixed = seen.mixed or one.mixed or seen.words != one.words
        found[one.kind] = seen._replace(rows=seen.rows + one.rows, mixed=mixed)
    return tuple(sorted(found.values(), key=lambda one: -one.rows))
