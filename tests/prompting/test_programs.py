"""Strategies whose turns a program decides on."""

from pathlib import Path

import pytest

from tests.conftest import make_item
from tests.helpers.strategies import talk, write_strategy
from tomserve.errors import ConfigError, ContentError
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy

TURNS = "turns:\n  - {name: view, max_tokens: 20}\n  - {name: answer}\n"
FILES = {
    "system": "Be brief.",
    "view.user": "What does {{ person }} see?\n{% for sentence in story %}{{ loop.index }} {{ sentence }}\n{% endfor %}",
    "answer.user": "{{ views | join('; ') }}\n{{ question }}",
    "answer.schema": '{"enum": {{ choices | tojson }}}',
}
PROGRAM = """
def program(item, ask):
    views = yield [ask("view", person=name, story=item.story[:2]) for name in (*ask.people, "Bo")]
    yield ask("answer", views=[view.text for view in views])
"""


def made(folder: Path, program: str, turns: str = TURNS) -> Strategy:
    return Strategy(write_strategy(folder, {**FILES, "program.py": program}, turns))


def user(turn: Turn) -> str:
    return turn.messages[-1]["content"]


def test_a_program_asks_several_turns_at_once_and_goes_on_with_the_replies(tmp_path: Path) -> None:
    strategy = made(tmp_path / "p", PROGRAM)
    assert (strategy.turns, strategy.calls, strategy.is_multi_turn) == (None, 64, True)
    conversation = strategy.conversation(make_item())
    assert [turn.number for turn in conversation.open] == [0, 1]
    asked, conversation = talk(strategy, make_item(), lambda turn: f"view {turn.number}")
    assert user(asked[0]) == "What does Ada see?\n1 The jar stands on the shelf.\n2 Jar number 1 holds tea."
    assert user(asked[1]).startswith("What does Bo see?")
    assert user(asked[2]) == "view 0; view 1\nWhat does Ada believe is in the jar?"
    assert asked[2].schema == {"enum": ["tea", "salt", "unknown"]}
    assert [turn.max_tokens for turn in asked] == [20, 20, 50]
    assert (conversation.count, conversation.conclusion) == (3, None)


def test_a_program_may_continue_a_chat_and_return_the_answer(tmp_path: Path) -> None:
    program = """
def program(item, ask):
    turn = ask("view", person="Bo")
    reply = yield turn
    last = yield ask("answer", after=(turn, reply), views=[])
    return last.text.upper()
"""
    asked, conversation = talk(made(tmp_path / "p", program), make_item(), lambda turn: "tea")
    assert [message["role"] for message in asked[1].messages] == ["system", "user", "assistant", "user"]
    assert conversation.conclusion == "TEA"


def test_a_program_may_import_modules_beside_it_which_the_digest_covers(tmp_path: Path) -> None:
    program = "from names import NAMES\ndef program(item, ask):\n    yield ask('view', person=NAMES[0])\n"
    folder = write_strategy(tmp_path / "p", {**FILES, "program.py": program, "names.py": "NAMES = ['Cleo']"}, TURNS)
    strategy = Strategy(folder)
    assert user(strategy.turn(make_item())).startswith("What does Cleo see?")
    (folder / "names.py").write_text("NAMES = ['Dov']")
    changed = Strategy(folder)
    assert changed.digest != strategy.digest
    assert user(changed.turn(make_item())).startswith("What does Dov see?")
    (folder / "program.py").write_text(program + "# another line\n")
    assert Strategy(folder).digest != changed.digest
    (folder / "veiw.user.j2").write_text("")
    with pytest.raises(ContentError, match=r"did you mean 'view\.user\.j2'"):
        Strategy(folder)


REFUSED = [
    ("def program(item, ask)\n", TURNS, r"program\.py:1: cannot be loaded \(SyntaxError"),
    ("def progam(item, ask):\n    yield\n", TURNS, r"program\.py: defines no function `program\(item, ask\)`"),
    ("import nothing_of_that_name\n", TURNS, r"program\.py:1: cannot be loaded \(ModuleNotFoundError"),
    (PROGRAM, "", "yaml: a program asks turns by their names; list them under `turns`"),
    (PROGRAM, TURNS.replace("answer}", "answer, continues: true}"), r"yaml:6: turns\.1\.continues: the program says"),
]


@pytest.mark.parametrize(("program", "turns", "message"), REFUSED)
def test_what_cannot_be_loaded_is_one_clear_error(program: str, turns: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ContentError, match=message):
        made(tmp_path / "p", program, turns)


FAILING = {
    "    yield ask('view', person='A')\n    1 / 0\n": r"program\.py:3: failed for item 'demo/1' \(ZeroDivisionError",
    "    raise SystemExit(1)\n    yield\n": r"program\.py:2: failed for item 'demo/1' \(SystemExit",
    "    return ask('view', person='A')\n": r"program\.py: `program` is no generator",
    "    yield ask('veiw')\n": r"ask: unknown turn 'veiw'; did you mean 'view'\? Known: answer, view; strategy\.yaml",
    "    yield ask('answer')\n": r"answer\.user\.j2:1: cannot be rendered: 'views' is undefined; known here: story, ",
    "    yield 'Who?'\n": r"strategy p, item 'demo/1': yielded 'Who\?'; expected a Turn or a list",
    "    while True:\n        yield ask('view', person='A')\n": r"item 'demo/1': wants more than 64 calls for one question",
    "    yield from program(item, ask)\n": r"program\.py:2: failed for item 'demo/1' \(RecursionError",
}


@pytest.mark.parametrize(("body", "message"), FAILING.items(), ids=range(len(FAILING)))
def test_a_program_that_fails_for_an_item_is_one_clear_error(body: str, message: str, tmp_path: Path) -> None:
    strategy = made(tmp_path / "p", "def program(item, ask):\n" + body)
    with pytest.raises(ConfigError, match=message) as caught:
        talk(strategy, make_item(), lambda turn: "x")
    assert "\n" not in str(caught.value)


def test_a_program_calls_itself_only_so_deep_and_so_often(tmp_path: Path) -> None:
    program = """
def deeper(ask, left):
    yield ask("view", person=str(left))
    if left:
        yield from deeper(ask, left - 1)

def program(item, ask):
    yield from deeper(ask, 5)
"""
    limits = TURNS.replace("{", "{{").replace("}", "}}") + "calls: {}\ndepth: {}\n"
    asked, _ = talk(made(tmp_path / "a", program, limits.format(6, 7)), make_item(), lambda turn: "x")
    assert len(asked) == 6
    with pytest.raises(ContentError, match=r"calls itself 7 generators deep for item 'demo/1'; at most 6"):
        talk(made(tmp_path / "b", program, limits.format(6, 6)), make_item(), lambda turn: "x")
    with pytest.raises(ConfigError, match="wants more than 5 calls for one question"):
        talk(made(tmp_path / "c", program, limits.format(5, 7)), make_item(), lambda turn: "x")
