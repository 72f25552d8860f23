"""A request's body and key, which are put together from parts that many requests share."""

import hashlib
from typing import Any

import orjson
import pytest

from tomserve.engine.request import Identity, Request, Sampling
from tomserve.prompting.conversation import Turn

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
