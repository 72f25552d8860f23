"""Folders of strategies of several turns, and items that are asked by them."""

from pathlib import Path

from tests.conftest import make_item
from tomserve.items import write_items


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
