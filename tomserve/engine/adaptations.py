"""Adaptations: how the body of a request is changed for a server that refuses part of it.

Every server that calls itself compatible with OpenAI's leaves something out. An adaptation is learned before the first
question, from the server's own refusal (see tomserve.serving.preflight), is applied to every request of the run, and
stands in the manifest by its name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from tomserve.errors import ConfigError

Body = dict[str, Any]
"""The body of a request, with its messages."""

SchemaPolicy = Literal["on", "auto", "off"]
"""Whether replies are held to a schema: always, as far as the server can, or never."""
POLICIES: tuple[SchemaPolicy, ...] = ("on", "auto", "off")

RESPONSE_FORMAT = "response_format"
STRICT, STRICT_LISTS, NO_SCHEMA = "strict_schema", "strict_lists", "no_schema"
"""STRICT: what a new run begins with, where the server is not vLLM: without it OpenAI's do not hold a model to its
schema."""
SYSTEM = "system"


def _leave_out(name: str) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        body.pop(name, None)

    return change


def _rename_max_tokens(body: Body) -> None:
    if "max_tokens" in body:
        body["max_completion_tokens"] = body.pop("max_tokens")


def _stream(body: Body) -> None:
    body |= {"stream": True, "stream_options": {"include_usage": True}}


def _fold_system(body: Body) -> None:
    """Put each system message before the text of the user's message that follows it; roles then alternate."""
    folded: list[dict[str, Any]] = []
    held = ""
    for message in body["messages"]:
        if message["role"] == SYSTEM:
            held += f"{message['content']}\n\n"
        elif held and message["role"] == "user":
            folded.append({**message, "content": held + message["content"]})
            held = ""
        else:
            folded.append(message)
    body["messages"] = [*folded, {"role": "user", "content": held.rstrip()}] if held else folded


def _schema(body: Mapping[str, Any]) -> Any:
    """The schema that a request asks for in OpenAI's way; None where it asks for none."""
    asked = body.get(RESPONSE_FORMAT)
    return asked["json_schema"]["schema"] if isinstance(asked, dict) and "json_schema" in asked else None


def _instead_of_format(make: Callable[[Any], Body]) -> Callable[[Body], None]:
    """The change that takes `response_format` out of a request, and puts in what `make` gives for its schema."""

    def change(body: Body) -> None:
        if (schema := _schema(body)) is not None:
            del body[RESPONSE_FORMAT]
            body.update(make(schema))

    return change


_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def type_schema(schema: Any) -> Any:
    """The schema with what the strict mode of OpenAI and Gemini asks for: a type beside every list of values, and no
    properties but those that are named.

    >>> type_schema({"enum": ["drawer", "jar"]})
    {'enum': ['drawer', 'jar'], 'type': 'string'}
    """
    if isinstance(schema, list):
        return [type_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    typed = {
        name: inner if name in ("enum", "const", "required") else type_schema(inner) for name, inner in schema.items()
    }
    values = typed["enum"] if isinstance(typed.get("enum"), list) else [typed["const"]] if "const" in typed else []
    kinds = {_TYPES.get(type(value)) for value in values}
    if len(kinds) == 1 and None not in kinds:
        typed.setdefault("type", kinds.pop())
    if isinstance(typed.get("properties"), dict):
        typed["properties"] = {name: type_schema(inner) for name, inner in schema["properties"].items()}
        typed.setdefault("type", "object")
        typed.setdefault("additionalProperties", False)
    return typed


def free_lists(schema: Any) -> Any:
    """The schema without `prefixItems`, which OpenAI's strict mode does not know: each place of such a list may hold
    what any of its places may.

    >>> free_lists({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": False})
    {'type': 'array', 'items': {'anyOf': [{'const': 1}, {'const': 2}]}}
    """
    if isinstance(schema, list):
        return [free_lists(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    free = {name: inner if name in ("enum", "const") else free_lists(inner) for name, inner in schema.items()}
    if isinstance(places := free.pop("prefixItems", None), list):
        free["items"] = {"anyOf": [one for place, one in enumerate(places) if one not in places[:place]]}
    return free


def _be_strict(schema: Any) -> Body:
    return {
        RESPONSE_FORMAT: {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": type_schema(schema)},
        }
    }


@dataclass(frozen=True)
class Adaptation:
    """One way of asking otherwise. name: as the manifest keeps it. says: what follows from it, for people. change:
    changes a body in place, and does nothing where it holds nothing to change."""

    name: str
    says: str
    change: Callable[[Body], None]
    refusal: re.Pattern[str]  # what a server says, with the parameter that it names, where this may help
    holds: bool | None = None  # of those for schemas: whether the reply is still held to the schema
    changing: bool = False  # whether answers may differ from those that are asked for without it


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_OF_SCHEMA = _words(
    r"response.?format|json.?schema|json.?object|json.?mode|schema|structured|guided|grammar|\bstrict\b"
)


def _dialect(
    name: str, says: str, make: Callable[[Any], Body], *, holds: bool = True, changing: bool = False
) -> Adaptation:
    """The adaptation by which a server that refuses `response_format` gets what `make` gives for the schema."""
    return Adaptation(name, says, _instead_of_format(make), _OF_SCHEMA, holds, changing)


_HELD = "replies are held to the schema by"

TABLE: Mapping[str, Adaptation] = {
    one.name: one
    for one in (
        Adaptation(
            "max_completion_tokens",
            "the limit of tokens is sent as max_completion_tokens, and covers the model's thinking, too",
            _rename_max_tokens,
            _words(r"max_tokens|max_completion_tokens"),
        ),
        Adaptation(
            "no_temperature",
            "sent without a temperature, so that the server's own counts: answers may differ between runs, which "
            "--noise-check measures",
            _leave_out("temperature"),
            _words(r"temperature|top_p|sampling param"),
            changing=True,
        ),
        Adaptation(
            "no_seed", "sent without a seed: answers may differ between runs", _leave_out("seed"), _words(r"\bseed\b")
        ),
        Adaptation("stream", "replies are asked for as streams, and put together", _stream, _words(r"\bstream")),
        Adaptation(
            "no_skip_special_tokens",
            "sent without skip_special_tokens, a field of vLLM",
            _leave_out("skip_special_tokens"),
            _words("skip_special_tokens"),
        ),
        Adaptation(
            "system_in_user",
            "the system text stands at the beginning of the user's message, as the model has no role for it",
            _fold_system,
            _words(r"\bsystem\b|\brole|developer instruction|alternat|user message"),
            changing=True,
        ),
        _dialect(STRICT, "the schema is sent with strict and a type for every value", _be_strict),
        _dialect(
            STRICT_LISTS,
            "the schema is sent with strict and a type for every value, and without an order in which entries of lists "
            "must come, as the server knows none",
            lambda schema: _be_strict(free_lists(schema)),
            changing=True,
        ),
        _dialect(
            "structured_outputs",
            f"{_HELD} vLLM's structured_outputs",
            lambda schema: {"structured_outputs": {"json": schema}},
        ),
        _dialect(
            "guided_json", f"{_HELD} guided_json, as vLLM before 0.12 names it", lambda schema: {"guided_json": schema}
        ),
        _dialect(
            "json_object_schema",
            f"{_HELD} response_format json_object with a schema, as llama.cpp names it",
            lambda schema: {RESPONSE_FORMAT: {"type": "json_object", "schema": schema}},
        ),
        _dialect(
            "json_object_value",
            f"{_HELD} response_format json_object with the schema as its value, as TGI names it",
            lambda schema: {RESPONSE_FORMAT: {"type": "json_object", "value": schema}},
        ),
        _dialect(
            "json_schema",
            f"{_HELD} the field json_schema of llama.cpp's server",
            lambda schema: {"json_schema": schema},
        ),
        _dialect("format", f"{_HELD} Ollama's format", lambda schema: {"format": schema}),
        _dialect(
            "json_object",
            "the server knows no schemas: replies are JSON, and their fields and labels as the model pleases",
            lambda schema: {RESPONSE_FORMAT: {"type": "json_object"}},
            holds=False,
            changing=True,
        ),
        _dialect(
            NO_SCHEMA,
            "replies are held to no schema, and read as the model writes them",
            lambda schema: {},
            holds=False,
            changing=True,
        ),
    )
}
"""All adaptations, in the order in which they are tried and applied."""


def adapt(body: Body, names: Iterable[str]) -> Body:
    """The body of a request as a server with these adaptations takes it; the given one is left as it is."""
    adapted = dict(body)
    for name in TABLE:
        if name in names:
            TABLE[name].change(adapted)
    return adapted


def find_helpful(body: Body, names: Iterable[str], refusal: str, policy: SchemaPolicy) -> Iterator[Adaptation]:
    """The adaptations that may help where a server refuses a body with these words, the gentlest first.

    body: as it is without adaptations. names: those that were applied to what was refused. What would change nothing is
    left out, and so is what the policy does not allow.
    """
    held, before = tuple(names), orjson.dumps(adapt(body, names))
    for one in TABLE.values():
        if one.name in held or not one.refusal.search(refusal) or (one.name == NO_SCHEMA and policy == "on"):
            continue
        if orjson.dumps(adapt(body, with_one(held, one))) != before:
            yield one


def with_one(names: Iterable[str], one: Adaptation) -> tuple[str, ...]:
    """The names with that of one more adaptation; of those for schemas only one holds."""
    kept = [name for name in names if one.holds is None or TABLE[name].holds is None]
    return tuple(name for name in TABLE if name in (*kept, one.name))


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, which a file holds, if all are known. Raises ConfigError for others, as nobody knows what was sent."""
    found = tuple(names)
    if strange := [name for name in found if name not in TABLE]:
        raise ConfigError(
            f"adaptations: {strange[0]!r:.60} is not known to this version of tomserve, so its requests cannot be made "
            "again; use the version that asked"
        )
    return found


def describe(names: Iterable[str]) -> list[str]:
    """What follows from each adaptation, a sentence each, in the order of the table."""
    known = frozenset(names)
    return [one.says for one in TABLE.values() if one.name in known]
