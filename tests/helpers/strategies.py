"""Folders of strategies made by tests, and conversations with scripted replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tomserve.items import Item
from tomserve.prompting.conversation import Conversation
from tomserve.prompting.strategy import Strategy
from tomserve.prompting.turn import Reply, Turn


def write_strategy(folder: Path, files: Mapping[str, str], turns: str = "") -> Path:
    """Write a strategy's folder. files: its files by name; those without a suffix are templates. turns: further lines
    of strategy.yaml. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "strategy.yaml").write_text(f"schema: 1\ndescription: x\nmax_tokens: 50\n{turns}")
    for name, text in files.items():
        (folder / (name if name.endswith((".py", ".md", ".txt", ".json", ".j2")) else f"{name}.j2")).write_text(text)
    return folder


def talk(strategy: Strategy, item: Item, reply: Callable[[Turn], str | Reply]) -> tuple[list[Turn], Conversation]:
    """Lead a conversation to its end; `reply` answers every turn. Returns its turns and the conversation."""
    conversation = strategy.conversation(item)
    waiting, asked = list(conversation.open), []
    while waiting:
        turn = waiting.pop(0)
        asked.append(turn)
        said = reply(turn)
        waiting += conversation.reply(turn.number, said if isinstance(said, Reply) else Reply(said))
    assert conversation.ended
    return asked, conversation


def shown(turns: list[Turn]) -> str:
    """The turns as a text that people can read and compare: every message under its turn's number and its role."""
    lines = []
    for turn in turns:
        lines += [f"[{turn.number} {message['role']}]\n{message['content']}" for message in turn.messages]
    return "\n".join(lines) + "\n"
