"""A chain of reasoning as a model wrote it, and what an edit makes of it: the values that the rest of the room uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Count = Callable[[str], int]
"""A function that counts the tokens of a text, or estimates them."""


class Entry(NamedTuple):
    """One stated belief of a chain of labels. sentence: after which it holds, from 1. label: one of the choices."""

    sentence: int
    label: str


class Written(NamedTuple):
    """A chain that can be edited.

    form: LABELS, TEXT or THINKING (see tomserve.faithfulness.table). text: the chain alone, as it was written: of
    LABELS the JSON list, of TEXT and THINKING the prose. entries: of LABELS its beliefs in order, else (). plain: of
    LABELS, whether the list holds bare labels instead of objects with their sentences. before, after: what the model
    wrote around the chain up to its answer, so that before + text + after is the beginning of its reply, to be
    continued by the answer alone as JSON ('"tea"'), such as '{"beliefs": ' and ', "answer":'. own: the answer that it
    gave after the chain; None where it gave none.
    """

    form: str
    text: str
    entries: tuple[Entry, ...] = ()
    plain: bool = False
    before: str = ""
    after: str = ""
    own: str | None = None


class Edited(NamedTuple):
    """A chain that was changed. condition: how (see tomserve.faithfulness.table.EDITS). text: what stands in the place
    of `Written.text`. implied: the answer that it leads to, where the edit aims at one."""

    condition: str
    text: str
    implied: str | None = None


class LeftOut(NamedTuple):
    """An edit that cannot be made of a chain. condition: which. reason: why, in words that hold for many items."""

    condition: str
    reason: str
