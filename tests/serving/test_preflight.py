"""The preflight: what a server refuses is asked otherwise, and an error says why where nothing helps.
How a model is found at an endpoint, whatever its list of models is."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import orjson
import pytest

from tests.conftest import Endpoint, make_item
from tests.helpers.asking import page
from tests.helpers.hostile import Answering, completion, response
from tomserve.engine.adaptations import STRICT, STRICT_LISTS, TABLE, adapt, describe, type_schema
from tomserve.engine.replies import read_reply
from tomserve.engine.request import Sampling
from tomserve.engine.transport import Reply
from tomserve.errors import RunMismatchError, ServerError
from tomserve.prompting.conversation import Turn
from tomserve.runs.evaluation import evaluate
from tomserve.runs.manifest import Manifest
from tomserve.runs.planning import EvalOptions
from tomserve.runs.verification import verify_run
from tomserve.serving.preflight import learn_adaptations
from tomserve.serving.probe import UNLIKELY, Probe

Body = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"answer": {"enum": ["tea", "salt"]}}, "required": ["answer"]}
ROLES = ("system", "user", "assistant", "user")
TURN = Turn([{"role": role, "content": f"{role}'s text"} for role in ROLES], SCHEMA, 256)


class Scripted:
    """A probe of a server that answers what `refuse` returns for a body: an error as code and data, else None. keeps:
    how it finds the schema that it keeps to."""

    endpoint = "http://scripted/v1"
    adaptations: tuple[str, ...] = ()

    def __init__(self, refuse: Callable[[Body], tuple[int, Any] | None], keeps: Callable[[Body], Any]) -> None:
        self.refuse, self.keeps, self.bodies = refuse, keeps, list[Body]()

    def exchange(self, body: Body) -> tuple[Reply, Any]:
        self.bodies.append(body)
        code, data = self.refuse(body) or (200, None)
        kept = UNLIKELY in str(self.keeps(body))
        said = {"choices": [{"message": {"content": UNLIKELY if kept else "Hello!"}, "finish_reason": "stop"}]}
        return read_reply(code, orjson.dumps(data or said)), data or said

    def key_error(self, said: str) -> ServerError:
        return ServerError(f"the key, {said}")

    def learn(self, start: tuple[str, ...] = (), policy: Any = "on") -> tuple[str, ...]:
        sampling = Sampling(adaptations=start, extra={"top_k": 1})
        return learn_adaptations([cast("Probe", self)], "m", [("vanilla", TURN)], sampling, policy)


def says(code: int, words: str, when: Callable[[Body], Any], **more: Any) -> Callable[[Body], tuple[int, Any] | None]:
    return lambda body: (code, {"error": {"message": words, **more}}) if when(body) else None


def has(name: str) -> Callable[[Body], bool]:
    return lambda body: name in body


def formatted(*kinds: str) -> Callable[[Body], bool]:
    return lambda body: body.get("response_format", {}).get("type") in kinds


def first(*rules: Callable[[Body], tuple[int, Any] | None]) -> Callable[[Body], tuple[int, Any] | None]:
    return lambda body: next((found for rule in rules if (found := rule(body)) is not None), None)


def system(body: Body) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


def untyped(body: Body) -> bool:
    asked = body.get("response_format", {}).get("json_schema", {})
    return bool(asked) and (not asked.get("strict") or "type" not in asked["schema"]["properties"]["answer"])


NO_MAX = says(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", has("max_tokens"))
NO_HEAT = says(400, "Unsupported value: 'temperature' does not support 0", has("temperature"), param="temperature")
EXTRA = [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]


def no_seed(body: Body) -> Any:
    return (422, {"detail": EXTRA}) if "seed" in body else None


HELD = has("response_format")
NO_FORMAT = says(400, "response_format is not supported", HELD)
NO_SCHEMA = says(500, "response_format type must be text or json_object", formatted("json_schema"))
UNKNOWN = says(400, 'Unknown name "structured_outputs"', has("structured_outputs"))
TYPES = says(400, "Invalid schema for response_format 'answer': schema must have a 'type' key", untyped)
NO_SYSTEM = says(400, "System role not supported", system)
ALTERNATE = says(400, "Conversation roles must alternate user/assistant/user/assistant/...", system)
BOTH = says(400, "Unsupported parameter(s): `seed`, `temperature`", lambda body: {"seed", "temperature"} & set(body))
POSITIVE = says(422, "Input validation error: `temperature` must be strictly positive", has("temperature"))
STRANGE = says(422, "logit_bias is wrong here", lambda body: True)


def anywhere(body: Body) -> Any:
    return {name: value for name, value in body.items() if name != "messages"}


def nowhere(body: Body) -> Any:
    return None


@pytest.mark.parametrize(
    ("refuse", "keeps", "start", "policy", "expected"),
    [
        (lambda body: None, anywhere, (), "on", ()),
        (NO_MAX, anywhere, (), "on", ("max_completion_tokens",)),
        (first(NO_MAX, NO_HEAT, no_seed), anywhere, (), "on", ("max_completion_tokens", "no_temperature", "no_seed")),
        (BOTH, anywhere, (), "on", ("no_temperature", "no_seed")),
        (says(400, "only support stream mode", lambda body: not body.get("stream")), anywhere, (), "on", ("stream",)),
        (POSITIVE, anywhere, (), "on", ("no_temperature",)),
        (NO_SYSTEM, anywhere, (), "on", ("system_in_user",)),
        (ALTERNATE, anywhere, (), "on", ("system_in_user",)),
        (TYPES, anywhere, (), "on", (STRICT,)),
        (first(NO_SYSTEM, TYPES), anywhere, (STRICT,), "on", ("system_in_user", STRICT)),
        (says(400, "strict is unknown", lambda body: "strict" in str(body)), anywhere, (STRICT,), "on", ()),
        (NO_FORMAT, lambda body: body.get("structured_outputs"), (), "on", ("structured_outputs",)),
        (NO_FORMAT, lambda body: body.get("guided_json"), (), "on", ("guided_json",)),
        (first(NO_SCHEMA, UNKNOWN), lambda body: body.get("response_format"), (), "on", ("json_object_schema",)),
        (NO_FORMAT, lambda body: body.get("format"), (STRICT,), "on", ("format",)),
        (NO_SCHEMA, nowhere, (), "on", ("json_object",)),
        (NO_FORMAT, nowhere, (), "auto", ("no_schema",)),
        (NO_FORMAT, nowhere, (), "on", r"in any known way, HTTP 400: response_format is not supported.*--schema off"),
        (STRANGE, nowhere, (), "auto", r"was refused with HTTP 422: logit_bias is wrong here"),
        (says(400, "top_k is unknown", has("top_k")), nowhere, (), "on", r"'top_k' comes from .*--extra-body"),
        (says(401, "no", lambda body: True), nowhere, (), "on", "the key, HTTP 401: no"),
        (says(400, "max_tokens or model output limit was reached", lambda body: True), nowhere, (), "on", ()),
    ],
)  # fmt: skip
def test_what_a_server_refuses_is_asked_otherwise(
    refuse: Callable[[Body], Any], keeps: Callable[[Body], Any], start: tuple[str, ...], policy: str, expected: Any
) -> None:
    server = Scripted(refuse, keeps)
    if isinstance(expected, str):
        with pytest.raises(ServerError, match=expected):
            server.learn(start, policy)
        return
    assert server.learn(start, policy) == expected == server.adaptations
    assert server.refuse(adapt(server.bodies[0], expected)) is None or not expected


def test_an_adaptation_changes_what_it_says_and_nothing_else() -> None:
    body: Mapping[str, Any] = {
        "messages": TURN.messages, "model": "m", "temperature": 0.0, "seed": 0, "max_tokens": 9,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
    }  # fmt: skip
    kept = orjson.dumps(body)
    for name in TABLE:
        made = adapt(dict(body), [name])
        assert made != body or name == "no_skip_special_tokens"
        assert adapt(made, [name]) == made or name == STRICT
    assert orjson.dumps(body) == kept, "the given one is left as it is"
    roles = [(one["role"], one["content"]) for one in adapt(dict(body), ["system_in_user"])["messages"]]
    assert roles == [
        ("user", "system's text\n\nuser's text"),
        ("assistant", "assistant's text"),
        ("user", "user's text"),
    ]
    assert type_schema({"type": "array", "items": {"enum": [1, 2]}})["items"]["type"] == "integer"
    assert type_schema({"enum": ["a", 1]}) == {"enum": ["a", 1]}
    assert len(describe(TABLE)) == len(TABLE) > len(describe(["no_seed", "made up"])) == 1


def test_a_run_keeps_its_adaptations(endpoint: Endpoint) -> None:
    """They are recorded, hold when the run is resumed, and are part of what `verify` makes again."""

    endpoint.script = lambda body, n: page(400, '{"error": "seed is not supported"}') if "seed" in body else None
    options = EvalOptions("demo", [make_item(n) for n in range(1, 4)], base_urls=(endpoint.url,), run="r", limit=2)
    folder = evaluate(options).folder
    manifest = Manifest.read(folder)
    assert manifest is not None
    assert manifest.adaptations == ["no_seed"]
    more = replace(options, limit=None)
    assert evaluate(more).added == len(manifest.strategies)
    assert all("seed" not in body for body in endpoint.requests)
    assert {finding.what: finding.holds for finding in verify_run(folder)}["prompts"] is True
    endpoint.script = lambda body, n: page(400, '{"error": "no temperature"}') if "temperature" in body else None
    with pytest.raises(RunMismatchError, match=r"\(no_seed\) than this server wants \(no_temperature, no_seed\)"):
        evaluate(replace(more, strategies=("vanilla_free",)))


@pytest.mark.parametrize("order", [1, -1])
def test_endpoints_that_take_no_request_alike_are_told_before_the_first_question(order: int) -> None:
    loose = says(400, "json_schema must be strict", lambda body: HELD(body) and "'strict': True" not in str(body))
    strict = Scripted(loose, nowhere)
    others = (
        Scripted(says(400, "unknown field strict in json_schema", lambda body: "strict" in str(body)), str),
        Scripted(NO_FORMAT, lambda body: body.get("structured_outputs")),
    )
    for other in others:
        probes = [cast("Probe", one) for one in (strict, other)][::order]
        with pytest.raises(ServerError, match="do not take the same requests"):
            learn_adaptations(probes, "m", [("vanilla", TURN)], Sampling(), "on")


def test_what_only_a_later_turn_asks_for_is_found_out_too(endpoint: Endpoint) -> None:
    """The first turn of cot_free has no schema, so that a run of it alone would be refused at each second turn."""
    endpoint.script = lambda body, n: page(400, '{"error": "response_format is unknown"}') if HELD(body) else None
    options = EvalOptions(
        "demo", [make_item(1)], base_urls=(endpoint.url,), run="r", strategies=("cot_free",), answer_schema="auto"
    )
    manifest = Manifest.read(evaluate(options).folder)
    assert manifest is not None
    assert [TABLE[name].holds for name in manifest.adaptations or ()] == [False]


def test_where_strict_knows_no_prefix_items_the_schema_stays_strict_without_them() -> None:
    """As OpenAI's: a server that is then asked without strict does not hold a model to its schema."""
    server = Scripted(
        says(
            400,
            "Invalid schema for response_format: 'prefixItems' is not permitted",
            lambda body: "prefixI" in str(body),
        ),
        anywhere,
    )
    places = {"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": False}
    turn = TURN._replace(schema={**SCHEMA, "properties": {"beliefs": places, **SCHEMA["properties"]}})
    probes, sampling = [cast("Probe", server)], Sampling(adaptations=(STRICT,))
    asked = [("vanilla", TURN), ("cot", turn)]
    assert learn_adaptations(probes, "m", asked, sampling, "on") == (STRICT_LISTS,)
    assert "'items': {'anyOf': [{'const': 1, 'type': 'integer'}," in str(adapt(server.bodies[1], [STRICT_LISTS]))


def listing(data: object, code: int = 200, serves: str = "any") -> Answering:
    """A server with this answer to /models, and one that serves `serves` of its chat requests."""

    def answer(head: bytes) -> bytes:
        if head.startswith(b"GET"):
            return response(data if isinstance(data, bytes) else orjson.dumps(data), code=code)
        return next(chats)

    known = response(orjson.dumps(orjson.loads(completion("tea")) | {"model": serves}))
    chats = iter([known, known if serves == "any" else response(b'{"error": "no such model"}', code=404)])
    return Answering(answer)


@pytest.mark.parametrize(
    ("data", "wanted", "model"),
    [
        ([{"id": "m"}], "m", "m"),
        ({"object": "list", "data": ["m"]}, "m", "m"),
        ({"models": [{"name": "m:latest"}]}, "m:latest", "m:latest"),
        ({"data": [{"id": "models/m"}, {"id": "x"}]}, "M", "models/m"),
        ({"data": [{"id": "org/m"}, {"id": "x"}]}, "m", "org/m"),
        ({"data": [{"id": "m"}, {"id": "x"}]}, "org/m", "m"),
    ],
)
def test_a_model_is_found_in_a_list_of_another_form(data: object, wanted: str, model: str) -> None:
    with listing(data) as server:
        probe = Probe(server.url)
        assert (probe.choose([None, wanted])["id"], probe.unlisted) == (model, "")


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        ({"error": "404 page not found"}, 404, "HTTP 404, application/json"),
        (b"<html>hi</html>", 200, "HTTP 200"),
        ({"data": []}, 200, "an empty list"),
        ({"data": None}, 200, "HTTP 200"),
        ({"error": {"message": "missing scope"}}, 403, "HTTP 403: missing scope"),
    ],
)
def test_without_a_list_the_model_that_is_named_is_asked_for(data: object, code: int, said: str) -> None:
    with listing(data, code) as server:
        probe = Probe(server.url)
        assert probe.choose(["m"]) == {"id": "m"}
        assert said in probe.unlisted
        if code != 403:
            with pytest.raises(ServerError, match="model by --model"):
                probe.choose([None])


def test_a_model_that_a_list_leaves_out_is_asked_for_where_requests_reach_it() -> None:
    others = {"data": [{"id": "x"}, {"id": "y"}]}
    with listing({"data": [{"id": "*"}]}) as server:
        assert Probe(server.url).choose(["m"]) == {"id": "m"}
    with listing(others, serves="m-2024") as server:
        assert Probe(server.url).choose(["m"]) == {"id": "m"}
    with listing(others, serves="") as server:
        assert Probe(server.url).choose(["m"], answers=True) == {"id": "m"}
        assert len(server.heard) == 1, "who watches it asks for nothing else"
    for serves in ("x", "any"):  # another one answers, or one that takes any name
        with listing(others, serves=serves) as server, pytest.raises(ServerError, match="Served there: x, y"):
            Probe(server.url).choose(["m"])
