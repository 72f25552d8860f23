"""The preflight: before the first question each server is sent small requests that hold all that the real ones will
hold, and what it refuses is asked otherwise, if that is known to help (see tomserve.engine.adaptations)."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import orjson

from tomserve.engine.adaptations import (
    RESPONSE_FORMAT,
    STRICT,
    STRICT_LISTS,
    TABLE,
    Body,
    SchemaPolicy,
    adapt,
    find_helpful,
    with_one,
)
from tomserve.engine.error_objects import ran_out
from tomserve.engine.redact import clean_text
from tomserve.engine.refusals import explain_hopeless, same_words
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.transport import Reply
from tomserve.errors import ServerError
from tomserve.items import Item
from tomserve.prompting.conversation import Asker, Turn
from tomserve.prompting.conversation import Reply as TurnReply
from tomserve.serving.probe import LONGEST_TOLD, UNLIKELY, Probe
from tomserve.status import FORBIDDEN, KEY_REFUSED, MALFORMED, NO_CREDIT, http_code, transient

QUESTION = "Hello."  # what the preflight asks in place of the question
SMALL = 16  # most tokens of a reply to the preflight
THOUGHT = 512  # and of one that shows whether a schema is kept, before which a model may think


@dataclass
class Preflight:
    """Finds out how the endpoint of a probe, whose adaptations it sets, wants to be asked. policy: whether replies must
    be held to a schema."""

    probe: Probe
    model: str  # as the server names it
    policy: SchemaPolicy = "on"

    def learn(self, strategy: str, turn: Turn, sampling: Sampling) -> tuple[str, ...]:
        """The adaptations by which the endpoint takes requests such as that of a turn, those of `sampling` among them.
        Raises ServerError, with the server's words and a way out, where it takes them in no known way."""
        names = sampling.adaptations
        body = compose_preflight(self.model, strategy, turn, sampling)
        first = refusal = self._refusal(body, names)
        if refusal is not None and (strict := {STRICT, STRICT_LISTS}.intersection(names)):
            loose = tuple(name for name in names if name not in strict)
            free = with_one(names, TABLE[STRICT_LISTS])
            if adapt(body, free) != adapt(body, names) and self._refusal(body, free) is None:
                names, refusal = free, None  # it knows a strict mode, but not all keywords in it
            elif (said := self._refusal(body, loose)) is None or same_words(said) != same_words(refusal):
                names, first, refusal = loose, said, said  # it knows no strict mode
        while refusal is not None:
            for one in find_helpful(body, names, refusal, self.policy):
                tried = with_one(names, one)
                if one.name in _IGNORED and not self.holds_schema(tried):
                    continue
                said = self._refusal(body, tried)
                if said is None or not one.refusal.search(said):  # it takes the request, or refuses something else now
                    names, refusal = tried, said
                    break
            else:
                # Several fields that are refused in one sentence have to be mended together.
                helpful = [one.name for one in find_helpful(body, names, refusal, self.policy) if one.holds is None]
                together = tuple(name for name in TABLE if name in (*names, *helpful))
                if len(helpful) < 2 or self._refusal(body, together) is not None:
                    raise self._error(first or refusal, strategy, turn, sampling)
                names, refusal = together, None
        self._check_fields(strategy, turn, names, body)
        return names

    def _send(self, body: Body, names: Iterable[str]) -> tuple[Reply, Any]:
        """The reply to a request with these adaptations, and its body as data (None where that is no JSON)."""
        adapted = adapt(body, names)
        reply, data = self.probe.exchange(adapted)
        return self.probe.exchange(adapted) if transient(reply.status) else (reply, data)

    def _refusal(self, body: Body, names: Iterable[str]) -> str | None:
        """The server's words where it refuses a request, with the parameter that it names; None where it takes it.
        Raises ServerError for a refused key, and for an account without credit."""
        reply, data = self._send(body, names)
        if reply.status == NO_CREDIT:
            raise ServerError(f"{self.probe.endpoint}: {explain_hopeless(reply)}")
        if reply.status in (KEY_REFUSED, FORBIDDEN):
            raise self.probe.key_error(f"HTTP {http_code(reply.status)}: {reply.error or 'no reason given'}")
        if ran_out(reply.error):  # it was taken
            return None
        if reply.status == MALFORMED and not (isinstance(data, dict) and "choices" in data):
            raise ServerError(f"{self.probe.endpoint}: a small chat request got no chat completion ({reply.error})")
        if reply.status == MALFORMED and not data["choices"] and RESPONSE_FORMAT in adapt(body, names):
            return f"HTTP 200: no choices where a {RESPONSE_FORMAT} is asked for"
        if (http := http_code(reply.status)) is None:
            return None
        said = " ".join(filter(None, (reply.error, _parameters(data))))
        return f"HTTP {http}: {said}"

    def holds_schema(self, names: Sequence[str]) -> bool:
        """Whether the server, asked with these adaptations, holds replies to a schema, and does not ignore a field that
        it does not know: a schema that allows one text alone is kept."""
        schema = {
            "type": "object",
            "properties": {"answer": {"type": "string", "enum": [UNLIKELY]}},
            "required": ["answer"],
            "additionalProperties": False,
        }
        turn = Turn([{"role": "user", "content": QUESTION}], schema, max_tokens=THOUGHT)
        reply, _ = self._send(compose_preflight(self.model, "", turn, Sampling(), most=THOUGHT), names)
        return UNLIKELY in (reply.text or "")

    def _check_fields(self, strategy: str, turn: Turn, names: Sequence[str], body: Body) -> None:
        """Raise ServerError where the server left out what the strategy needs, without a word."""
        wanted = "prompt_logprobs"
        if wanted in turn.fields:
            _, data = self._send(body, names)
            if not (isinstance(data, dict) and data.get(wanted)):
                raise ServerError(
                    f"{self.probe.endpoint}: sends no log-probabilities of the prompt ({wanted}), which strategy "
                    f"{strategy!r} needs and vLLM sends; use a vLLM server or another strategy"
                )

    def _error(self, refusal: str, strategy: str, turn: Turn, sampling: Sampling) -> ServerError:
        """The error for a refusal that no adaptation helps against, with a way out."""
        said, where = clean_text(refusal, LONGEST_TOLD), self.probe.endpoint
        words = refusal.lower()
        if "chat template" in words:
            return ServerError(
                f"{where}: model {self.model!r} has no chat template; serve it with --chat-template FILE, or set "
                "chat_template in its preset"
            )
        if "thinking_token_budget" in words and "thinking_token_budget" in sampling.extra:
            return ServerError(
                f"{where}: model {self.model!r} thinks, and its server cannot end that at a budget; serve it by "
                "`tomserve serve`, add --reasoning-parser to its vLLM, or give --thinking off"
            )
        if turn.fields:
            return ServerError(
                f"{where}: does not take the fields of strategy {strategy!r} ({', '.join(turn.fields)}), {said}; use "
                "another server or another strategy"
            )
        bare = compose_preflight(self.model, "", Turn(turn.messages, turn.schema), Sampling())
        if any(one.holds is not None for one in find_helpful(bare, (), refusal, "auto")):
            return ServerError(
                f"{where}: takes no schema in any known way, {said}; ask without one by --schema off, or by a strategy "
                "that has none, such as --strategy vanilla_free"
            )
        own = next((name for name in sampling.extra if name in refusal), None)
        place = "--reasoning-effort" if own == "reasoning_effort" else "the model's preset or --extra-body"
        hint = f"; the field {own!r} comes from {place}: leave it out there" if own else ""
        if refusal.startswith(("HTTP 404", "HTTP 405")):
            hint = self.probe.served(self.model) or f"; {self.probe.path_hint}"
        return ServerError(f"{where}: a small chat request was refused with {said}{hint}")


_IGNORED = ("structured_outputs", "guided_json", "json_object_schema", "json_object_value", "json_schema", "format")
"""Adaptations by fields that a server which does not know them may take without a word."""


def compose_preflight(model: str, strategy: str, turn: Turn, sampling: Sampling, most: int = SMALL) -> Body:
    """The body of the preflight for a turn, without adaptations: all that its request holds but for the question, and
    with few tokens for the reply."""
    request = Request.build(
        Identity("preflight", strategy, 0), turn, model=model, revision=None, sampling=replace(sampling, adaptations=())
    )
    body: Body = orjson.loads(request.body)
    asked = [place for place, message in enumerate(body["messages"]) if message["role"] == "user"]
    if asked:
        body["messages"][asked[-1]] = {"role": "user", "content": QUESTION}
    return {**body, "max_tokens": min(turn.max_tokens, most) or most}


def _parameters(data: Any) -> str:
    """The parameters that an error object names beside its message: OpenAI's `param`, or FastAPI's `loc`."""
    found: list[str] = []
    if isinstance(data, dict):
        with contextlib.suppress(RecursionError):
            for name in ("param", "loc"):
                found += [" ".join(map(str, one)) if isinstance(one, list) else str(one) for one in _values(data, name)]
    return clean_text(" ".join(found), LONGEST_TOLD)


def _values(data: Any, name: str) -> Iterator[Any]:
    """The values of all fields of that name, however deep."""
    if isinstance(data, dict):
        if data.get(name) is not None:
            yield data[name]
        data = list(data.values())
    for inner in data if isinstance(data, list) else ():
        yield from _values(inner, name)


FURTHER = 8  # how many turns of a conversation are answered by made-up replies at most


def list_turns(strategy: Asker, item: Item) -> list[Turn]:
    """The turns of a conversation about an item, as far as its program takes made-up replies."""
    conversation = strategy.conversation(item)
    turns = list(conversation.open)
    with contextlib.suppress(Exception):  # a program may want more of a reply than anybody can make up
        for _ in range(FURTHER):
            if not conversation.open:
                break
            asked = conversation.open[0]
            said = "Yes." if asked.schema is None else orjson.dumps(make_up(asked.schema)).decode()
            for turn in conversation.reply(asked.number, TurnReply(said)):
                compose_preflight("", strategy.name, turn, Sampling())  # raises for what cannot be sent
                turns.append(turn)
    return turns


def make_up(schema: Any) -> Any:
    """A value that a schema of strategies allows.

    >>> make_up({"type": "object", "properties": {"answer": {"enum": ["tea", "salt"]}}})
    {'answer': 'tea'}
    """
    if not isinstance(schema, dict):
        return ""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if "properties" in schema:
        return {name: make_up(inner) for name, inner in schema["properties"].items()}
    if schema.get("type") == "array":
        first = schema.get("prefixItems") or [schema.get("items")] * schema.get("minItems", 1)
        return [make_up(inner) for inner in first]
    return {"integer": 1, "number": 1, "boolean": True}.get(schema.get("type", ""), "Yes.")


def find_shapes(asked: Iterable[tuple[str, Turn]]) -> Iterator[tuple[str, Turn]]:
    """Of the turns of strategies those that differ in what a server may refuse: roles, fields, and the words of
    their schemas."""
    seen: set[str] = set()
    for strategy, turn in asked:
        roles = [message["role"] for message in turn.messages]
        shape = str((roles, sorted(turn.fields), turn.schema is not None, sorted(_keywords(turn.schema))))
        if shape not in seen:
            seen.add(shape)
            yield strategy, turn


def _keywords(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_keywords, schema))
    if not isinstance(schema, dict):
        return set()
    inner = (_keywords(value) for name, value in schema.items() if name not in ("enum", "const", "required"))
    return set(schema).union(*inner)


ROUNDS = 3  # how often an endpoint is tried at most, as what is learned from one may be refused by another
PLAIN = Turn([{"role": "user", "content": QUESTION}], max_tokens=1)
"""A turn that asks for nothing but a reply."""


def learn_adaptations(
    probes: Sequence[Probe], model: str, asked: Iterable[tuple[str, Turn]], sampling: Sampling, policy: SchemaPolicy
) -> tuple[str, ...]:
    """The adaptations by which all endpoints take the requests of these turns of strategies, those of `sampling`
    among them. Raises ServerError."""
    names, shapes = sampling.adaptations, list(find_shapes(asked))
    pairs = [(probe, *shape) for probe in probes for shape in shapes]
    settled = 0  # how many in a row take what the one before them takes: what one needs may be refused by another
    for probe, strategy, turn in islice(cycle(pairs), ROUNDS * len(pairs)):
        before = names
        names = Preflight(probe, model, policy).learn(strategy, turn, replace(sampling, adaptations=before))
        settled = settled + 1 if names == before else 1
        if settled == len(pairs):
            break
    ignored = len(probes) > 1 and any(name in _IGNORED for name in names)
    if settled < len(pairs) or (ignored and not all(Preflight(one, model).holds_schema(names) for one in probes)):
        raise ServerError(
            f"{', '.join(probe.endpoint for probe in probes)}: do not take the same requests, as one refuses or "
            "ignores what another needs; give those alone that are served alike"
        )
    for probe in probes:
        probe.adaptations = names
    return names
