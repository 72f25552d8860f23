"""A request: the body that is sent for one turn of a strategy about one item, and the key that identifies its content.

Requests with equal keys say the same to the same model, so that only one of them is sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import orjson

from tomserve.engine.adaptations import adapt
from tomserve.errors import ConfigError
from tomserve.prompting.conversation import Message, Turn

AHEAD = 32
"""How many requests are rendered in one go. One after the other they cost a third less CPU time than when each is
rendered between two replies."""


THINKING_BUDGET = "thinking_token_budget"  # the field of a request by which vLLM ends the thinking

RESERVED: Mapping[str, str] = {
    **{name: f"give it by --{name}" for name in ("model", "temperature", "seed")},
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), "give it by --max-tokens"),
    "messages": "what is asked is chosen by --strategy",
    "response_format": "whether replies are held to a schema is said by --schema and the strategy",
    "n": "ask for several samples by --repeats",
    "api_key": "put it into TOMSERVE_API_KEY",
    THINKING_BUDGET: "give it by --thinking",
}
"""Fields of a request that tomserve sets itself, so that neither a preset nor --extra-body may, with what to do."""


class Identity(NamedTuple):
    """What a row of the journal answers: the id of the item, the name of the strategy, the turn (from 0), and which
    sample it is where the same is asked several times (from 0)."""

    item: str
    strategy: str
    turn: int
    sample: int = 0

    @property
    def question(self) -> tuple[str, str, int]:
        """Item, strategy and sample: what all turns of one conversation share."""
        return self.item, self.strategy, self.sample


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are sampled; by default greedily."""

    temperature: float = 0.0  # 0 for greedy decoding
    seed: int = 0  # of the first sample; sample s has seed + s
    # fields of every request body (chat_template_kwargs, stop, ...)
    extra: dict[str, Any] = field(default_factory=dict)
    repeats: int = 1  # how many samples there are of each question
    adaptations: tuple[str, ...] = ()  # how the server wants to be asked (see tomserve.engine.adaptations)

    def to_dict(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "seed": self.seed, **self.extra}

    def record(self) -> dict[str, Any]:
        """What the manifest keeps of it; the number of samples only where it is more than one."""
        return {**self.to_dict(), **({"repeats": self.repeats} if self.repeats > 1 else {})}


class Request(NamedTuple):
    identity: Identity  # what it asks about
    key: str  # a digest of all that is said to the model, 32 hexadecimal digits; address and item's id are left out
    body: bytes  # the JSON to send, which begins with the messages
    prompt: int = 0  # how many bytes of `body` the messages take, the part that a server's prefix cache can share

    @property
    def prefix(self) -> bytes:
        return self.body[: self.prompt]

    @classmethod
    def build(cls, identity: Identity, turn: Turn, *, model: str, revision: str | None, sampling: Sampling) -> Request:
        """Make the request of one turn. The key covers messages, model id and revision, sampling and answer schema.

        model: the id that the server knows the model by. revision: None where nobody knows it. Raises ConfigError for a
        turn that cannot be sent as JSON, as a strategy's own program may make one.
        """
        try:
            return cls._built(identity, turn, model, revision, sampling)
        except (TypeError, ValueError) as error:
            item, strategy, number, _ = identity
            raise ConfigError(
                f"strategy {strategy!r}, item {item!r}, turn {number} (counted from 0): cannot be sent ({error}); a "
                "turn has messages with texts, a schema that is JSON, a number of tokens, and fields that are JSON"
            ) from None

    @classmethod
    def _built(cls, identity: Identity, turn: Turn, model: str, revision: str | None, sampling: Sampling) -> Request:
        said: Sequence[Message] = turn.messages
        rest: dict[str, Any] = {"model": model, **sampling.to_dict(), **turn.fields, "max_tokens": turn.max_tokens}
        if identity.sample:  # also where the turn has a seed of its own, so that samples always differ
            rest["seed"] = int(rest["seed"]) + identity.sample
        if turn.schema is not None:
            answer = {"name": "answer", "schema": turn.schema}
            rest["response_format"] = {"type": "json_schema", "json_schema": answer}
        if sampling.adaptations:
            rest = adapt({"messages": said, **rest}, sampling.adaptations)
            said = rest.pop("messages")
        messages = b'{"messages":' + orjson.dumps(said)
        body = b"%b,%b" % (messages, orjson.dumps(rest)[1:])
        # blake2b takes a quarter of the time of sha256, which was a tenth of all CPU time that a request costs
        digest = hashlib.blake2b(body + orjson.dumps(revision), digest_size=16)
        return cls(identity, digest.hexdigest(), body, len(messages))


def build_ahead(requests: Iterable[Request]) -> Iterator[Request]:
    """The same requests in the same order, of which the next AHEAD are always made in one go."""
    iterator = iter(requests)
    yield from islice(iterator, 1)  # the first is not kept waiting for the others
    while block := list(islice(iterator, AHEAD)):
        yield from block
