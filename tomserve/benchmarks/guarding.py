"""Functions of users' files, called so that a mistake in them is one line that names the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tomserve.benchmarks.case import Case, NoCase, problem
from tomserve.content.python_file import describe_failure
from tomserve.errors import ConfigError, ContentError, InapplicableError, TomserveError
from tomserve.items import Item

_REASON = 200
"""So many characters of the reason are kept for which a user's file makes no variant."""

_Made = TypeVar("_Made")


def guarded(file: Path, what: str, call: Callable[[], _Made]) -> _Made:
    """What a function of a user's file returns; an error of it says in one line what went wrong and where.

    file: the user's file. what: what failed, in words. call: the function, which needs no arguments any more.
    """
    try:
        return call()
    except InapplicableError as reason:
        raise InapplicableError(" ".join(str(reason).split())[:_REASON] or "no reason is given") from None
    except TomserveError:
        raise
    except Exception as error:
        raise describe_failure(error, file, what) from None


def closed(items: Iterable[Item]) -> Iterator[Item]:
    """The items, as long as each has choices. Raises ConfigError at the first that any text may answer: such items come
    from another tool's files, and only that tool can read the replies."""
    for item in items:
        if not item.choices:
            raise ConfigError(
                f"item {item.id!r} has no choices, so that any text may answer it; tomserve asks questions with "
                "choices. Give it at least two, or ask it with another tool and import the replies"
            )
        yield item


def own_cases(cases: Callable[[], Iterator[Case | NoCase]], file: Path, name: str) -> Iterator[Case | NoCase]:
    """What the function `cases` of a user's file yields, its items with the name of the file's benchmark.

    Raises ContentError where the function fails, where it yields something else, or a case that is none (see
    tomserve.benchmarks.case.problem), and for a false-belief item that comes twice.
    """

    def named(item: Item) -> Item:
        return item.model_copy(update={"benchmark": name})

    seen: set[str] = set()
    given = guarded(file, "cases failed", cases)
    if not isinstance(given, Iterable):
        raise ContentError(f"cases gave {given!r:.60}; expected an iterator of tomserve.benchmarks.Case", path=file)
    left = iter(given)
    while (found := guarded(file, f"cases failed after {len(seen)} cases", lambda: next(left, None))) is not None:
        if isinstance(found, NoCase):
            yield found
            continue
        if not isinstance(found, Case):
            raise ContentError(f"cases gave {found!r:.60}; expected a tomserve.benchmarks.Case", path=file)
        if (wrong := guarded(file, f"cases gave a bad case of {found.f.id!r}", lambda: problem(found))) is not None:
            raise ContentError(f"item {wrong[0].id!r}: {wrong[1]}", path=file)
        if found.f.id in seen:
            raise ContentError(f"cases gave the item {found.f.id!r} twice", path=file)
        seen.add(found.f.id)
        twin = None if found.twin is None else named(found.twin)
        yield replace(found, f=named(found.f), own=named(found.own), own_twin=named(found.own_twin), twin=twin)
