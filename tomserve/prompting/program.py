"""A strategy's own program: ``program.py`` in its folder, which decides turn by turn what is asked.

It defines a generator function `program(item, ask)`. `ask` makes a turn from the templates of the folder::

    def program(item, ask):
        found = yield ask("people")                                  # one turn, one reply
        names = found.text.split(",")
        views = yield [ask("view", person=name) for name in names]   # several at once, a list of replies
        yield ask("answer", views=[view.text for view in views])     # the last reply is the answer

The file is code: it is run because the user named its folder, or put it among the content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import GeneratorType
from typing import Any

from tomserve.content.python_file import describe_failure, load_module
from tomserve.errors import ConfigError, ContentError, Interrupted, TomserveError, one_of
from tomserve.items import Item
from tomserve.prompting.conversation import Program
from tomserve.prompting.named import NamedTurn
from tomserve.prompting.people import people_of
from tomserve.prompting.turn import Message, Reply, Turn

ProgramFunction = Callable[[Item, "Ask"], Program]
"""What ``program.py`` defines under the name `program`."""


class Ask:
    """What a program asks with.

    people: the persons whose minds the question goes through, the outermost first; () for a question about what is
    really the case.
    """

    def __init__(self, turns: Mapping[str, NamedTurn], item: Item) -> None:
        self._turns, self._item = turns, item
        self.people = people_of(item)

    def __call__(self, name: str, *, after: tuple[Turn, Reply] | None = None, **variables: Any) -> Turn:
        """A turn from the templates NAME.system.j2, NAME.user.j2 and NAME.schema.j2.

        name: one of the names under ``turns`` in strategy.yaml. after: the turn whose chat this one continues, with
        the reply to it; None to begin a new chat. variables: what the templates see besides those of the item, whose
        place they take where they have the same name: ``story=kept`` shows other sentences.

        Raises ConfigError for an unknown name, ContentError where a template cannot be rendered.
        """
        named = self._turns.get(name)
        if named is None:
            raise ConfigError(f"ask: {one_of('turn', name, self._turns)}; strategy.yaml lists them under `turns`")
        chat = None if after is None else continued(*after)
        return named.turn({**named.variables(self._item), **variables}, chat)


def continued(turn: Turn, reply: Reply) -> list[Message]:
    """The messages of a chat in which the model has replied to that turn."""
    return [*turn.messages, {"role": "assistant", "content": reply.text}]


def load_program(path: Path) -> ProgramFunction:
    """Run the file and return the function that it defines under the name `program`.

    Raises ContentError by file and line where it cannot be run or defines no such function.
    """
    module = load_module(path, "strategy")
    function: ProgramFunction | None = vars(module).get("program")
    if not callable(function):
        raise ContentError("defines no function `program(item, ask)`", path=path)
    return function


def begin(function: ProgramFunction, path: Path, item: Item, ask: Ask, depth: int) -> Program:
    """The running program of an item, whose failures are errors that name the line of its file.

    depth: how many generators deep it may call itself with ``yield from``.

    Raises ContentError where the program fails, is no generator, or goes deeper.
    """
    what = f"failed for item {item.id!r}"
    value: Any = None
    try:
        running = function(item, ask)
    except Interrupted:
        raise
    except (Exception, SystemExit) as error:
        raise _told(error, path, what) from None
    if not isinstance(running, GeneratorType):
        raise ContentError("`program` is no generator; it must yield what it asks", path=path)
    while True:
        try:
            yielded = running.send(value)
        except StopIteration as end:
            conclusion: str | None = end.value
            return conclusion
        except Interrupted:
            raise
        except (Exception, SystemExit) as error:
            raise _told(error, path, what) from None
        if (found := _depth(running)) > depth:
            reason = f"calls itself {found} generators deep for item {item.id!r}; at most {depth}"
            raise ContentError(f"{reason} (`depth` in strategy.yaml)", path=path)
        value = yield yielded


def _told(error: BaseException, path: Path, what: str) -> TomserveError:
    """The error of a program as one line; one that tomserve raised, such as by a template, says all itself."""
    return error if isinstance(error, TomserveError) else describe_failure(error, path, what)


def _depth(running: Any) -> int:
    """How many generators are running inside each other, the program itself included."""
    deep = 0
    while isinstance(running, GeneratorType):
        running, deep = running.gi_yieldfrom, deep + 1
    return deep
