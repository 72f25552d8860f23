"""A request's body and key, which are put together from parts that many requests share."""

import hashlib
from typing import Any

import orjson
import pytest

from tests.conftest import make_item
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import ConfigError
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy

SYSTEM, SHOWN = {"role": "system", "content": "You answer. “é”"}, {"role": "user", "content": "Like this."}


def made(turn: Turn, sample: int = 0, revision: str | None = None) -> Request:
    identity = Identity("i", "s", turn.number, sample)
    return Request.build(identity, turn, model="tiny", revision=revision, sampling=Sampling())


def whole(turn: Turn, revision: str | None = None) -> tuple[bytes, str]:
    rest = {"model": "tiny", "temperature": 0.0, "seed": 0, "max_tokens": turn.max_tokens}
    body = orjson.dumps({"messages": turn.messages, **rest})
    return body, hashlib.blake2b(body + orjson.dumps(revision), digest_size=16).hexdigest()


def asked(text: str, *opening: Any) -> Turn:
    return Turn((*opening, {"role": "user", "content": text}), max_tokens=8)


@pytest.mark.parametrize("opening", [(), (SYSTEM,), (SYSTEM, SHOWN)])
@pytest.mark.parametrize("revision", [None, "abc"])
def test_a_request_is_the_same_whether_its_beginning_was_met_before_or_not(opening: Any, revision: str | None) -> None:
    for number in range(5):
        turn = asked(f"Question {number}?", *opening)
        request = made(turn, revision=revision)
        assert (request.body, request.key) == whole(turn, revision)
        assert request.prefix == b'{"messages":' + orjson.dumps(turn.messages)


def test_a_message_that_somebody_changes_is_sent_as_it_is_now() -> None:
    system: dict[str, Any] = dict(SYSTEM)
    for name, value in (
        ("content", "As before."),
        ("content", "Another one."),
        ("name", "x"),
        ("cache", 1),
        ("cache", True),
    ):
        system[name] = value
        for _ in range(3):
            turn = asked("Where?", system, SHOWN)
            request = made(turn)
            assert (request.body, request.key) == whole(turn)


def test_what_cannot_be_sent_is_refused_each_time() -> None:
    bad: Any = {"role": "system", "content": "half a character \ud800"}
    for _ in range(4):
        with pytest.raises(ConfigError, match="cannot be sent"):
            made(asked("Where?", bad))


def test_questions_of_a_strategy_share_the_messages_that_begin_them() -> None:
    strategy = Strategy.load("vanilla")
    first, second = (strategy.turn(make_item(choices=["tea", "salt", "unknown", other])) for other in ("a", "b"))
    assert first.schema != second.schema
    assert all(one is other for one, other in zip(first.messages[:-1], second.messages[:-1], strict=True))
