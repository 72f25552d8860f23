"""Strategies of several turns whose programs a test writes, and a run of the engine over their conversations."""

import functools
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from tests.conftest import Endpoint, make_item
from tests.helpers.asking import SCHEMA, ask
from tomserve.engine.request import Request, Sampling
from tomserve.items import Item, write_items
from tomserve.prompting.conversation import Conversation, Reply, Turn
from tomserve.prompting.strategy import Strategy
from tomserve.runs.conversations import Conversations, Questions, count_requests, is_finished
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import Journal

Talk = Generator[Turn | list[Turn], Any, str | None]
BUILD = functools.partial(Request.build, model="tiny", revision=None, sampling=Sampling())


def says(text: str, **more: Any) -> Turn:
    """A turn that asks just that, for a reply of the schema that scripted endpoints fill."""
    return Turn(({"role": "user", "content": text},), SCHEMA, 16, **more)


class Programmed(Strategy):
    """A strategy called `name` that asks by a program of the test's own. turns: None where only the program knows."""

    def __init__(
        self, program: Callable[[Item], Talk], turns: int | None = None, calls: int = 16, name: str = "talk"
    ) -> None:
        super().__init__(Strategy.load("vanilla").folder)
        self.name, self.program = name, program
        self.turns, self.calls, self.is_multi_turn = turns, turns or calls, turns != 1

    def order(self, item: Item) -> tuple[Any, ...]:
        return (item.story,)

    def turn(self, item: Item) -> Turn:
        return self.conversation(item).open[0]

    def conversation(self, item: Item) -> Conversation:
        return Conversation(self.program(item), self.calls, f"strategy {self.name}, item {item.id!r}")


def three_turns(item: Item) -> Talk:
    """Three turns, each of which repeats what was said before."""
    said = ""
    for number in range(3):
        reply: Reply = yield says(f"{item.id} turn {number}: {said}")
        said += reply.text
    return None


def fan_out(item: Item) -> Talk:
    """One turn, then five at the same time, then one that ends it."""
    first: Reply = yield says(f"{item.id} begins")
    replies: list[Reply] = yield [says(f"{item.id} part {number} {first.text}") for number in range(5)]
    yield says(f"{item.id} ends {[reply.text for reply in replies]}")
    return None


def write_strategy(folder: Path, turns: int, program: str | None = None) -> Path:
    """Write a strategy of so many turns, each of which is asked for one of the choices, and return its folder.

    program: the text of its program.py, which knows the turns by the names turn1, turn2 and so on; a template sees
    `said`, which a program hands to it. None has the turns asked one after the other.
    """
    folder.mkdir(parents=True, exist_ok=True)
    said = "{% for reply in replies %}{{ reply.text }} {% endfor %}" if program is None else "{{ said | default('') }}"
    lines = ["schema: 1", "description: A strategy of several turns.", "max_tokens: 64", "turns:"]
    for number in range(1, turns + 1):
        lines += [f"  - name: turn{number}", *(["    continues: false"] if program is None else [])]
        text = f"Turn {number}. {said}\n{{{{ story | join(' ') }}}} {{{{ question }}}}"
        (folder / f"turn{number}.user.j2").write_text(text)
        (folder / f"turn{number}.schema.j2").write_text(
            '{"type": "object", "properties": {"answer": {"enum": {{ choices | tojson }}}}, "required": ["answer"]}'
        )
    (folder / "strategy.yaml").write_text("\n".join(lines) + "\n")
    if program is not None:
        (folder / "program.py").write_text(program)
    return folder


FAN_OUT = """
def program(item, ask):
    first = yield ask("turn1")
    replies = yield [ask("turn2", said=f"part {number} {first.text}") for number in range(5)]
    yield ask("turn3", said=" ".join(reply.text for reply in replies))
"""
"""A program.py of three kinds of turns: one request, then five at the same time, then the one that ends it."""


ITEMS = 12


def conversing(folder: Path, items: int = ITEMS) -> Path:
    """A folder with so many items and two strategies: "two" of two turns and "fan" of seven, of which five go out together."""
    write_items(folder / "items.jsonl", [make_item(number) for number in range(items)])
    write_strategy(folder / "two", 2)
    write_strategy(folder / "fan", 3, FAN_OUT)
    return folder


def converse(
    endpoint: Endpoint, journal: Journal, strategy: Strategy, items: Sequence[Item], **options: Any
) -> tuple[bool, Conversations]:
    """Ask what is left of these items through a real transport; returns whether all was asked, and the open talks."""
    talks = Conversations(BUILD)
    questions = Questions(ItemStore(items), [strategy])
    talks.ahead = count_requests(journal, questions).open
    requests = questions.requests(talks, lambda question: not is_finished(journal, question))
    return ask(endpoint, journal, requests, follower=talks, **options), talks


def asked(endpoint: Endpoint) -> list[str]:
    """What the endpoint was asked, in order."""
    return [body["messages"][-1]["content"] for body in endpoint.requests]
