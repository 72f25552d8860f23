"""Endpoints as people meet them, each a few lines: what it answers, and how an evaluation of it must end.

A behaviour without an `answer` is a well-behaved server.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tomserve.items import Item

NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jon", "Kim", "Leo")
RIGHT, WRONG = "red drawer", "blue jar"
ALL = len(NAMES)


def items(longer: int = 0) -> list[Item]:
    """A question about each of the NAMES, whose right answer is RIGHT. longer: how many sentences are added to the first
    story, and one more to each further one."""
    rain = "It rains and the neighbours talk about the harbour and the price of fish."
    return [
        Item(
            id=f"q{number}",
            benchmark="items",
            story=[f"{name} puts the key in the {RIGHT}.", f"{name} goes out.", f"Max moves it to the {WRONG}."]
            + [rain] * (longer + number if longer else 0),
            question=f"Where will {name} look for the key?",
            choices=[RIGHT, WRONG],
            answer=RIGHT,
            cluster=f"s{number}",
        )
        for number, name in enumerate(NAMES)
    ]


@dataclass(frozen=True)
class ChatRequest:
    """A chat request as a server sees it. name: the person of its question, "" for other requests. times: how many
    requests about that person there were, with this one. persons: about how many persons there were any. number: how
    many requests there were at all."""

    body: Mapping[str, Any]
    request: web.Request
    name: str
    times: int
    persons: int
    number: int

    @property
    def text(self) -> str:
        return "\n".join(str(message["content"]) for message in self.body["messages"])

    @property
    def roles(self) -> set[str]:
        return {message["role"] for message in self.body["messages"]}

    @property
    def format(self) -> str:
        """The type of the response format that is asked for."""
        return (self.body.get("response_format") or {}).get("type", "")


Said = dict[str, Any] | list[Any] | bytes | tuple[Any, ...] | None
"""A reply: JSON or bytes with status 200, or with a status (and headers) before it; None for a good one."""


@dataclass(frozen=True)
class Behaviour:
    """answer: to a chat request. models: to GET /models, the list of one model `m` unless given. version: what vLLM's
    /version tells. options, environment: by which tomserve is to be asked. url: the address, whose ROOT is scheme, host
    and port. path: where chat requests are taken. schemas: the dialects by which it is held to a schema (see
    `given_schema`).

    right: how many of the questions are right in the end, None where that is not told. code: the exit code. says: what
    the terminal shows, regular expressions. most: how many chat requests may be sent at most. adaptations: those of the
    manifest, where that is looked at. longer: see `items`. wire: whether it is about what goes over the wire, and so
    tried by both transports.
    """

    answer: Callable[[ChatRequest], Said] = lambda asked: None
    models: Said | Callable[[web.Request], Said] = None
    version: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    url: str = "ROOT/v1"
    path: str = "/v1"
    schemas: Sequence[str] = ("response_format",)
    right: int | None = ALL
    code: int = 0
    says: Sequence[str] = ()
    most: int = 2 * ALL
    adaptations: Sequence[str] | None = None
    longer: int = 0
    wire: bool = False


def given_schema(body: Mapping[str, Any], dialects: Sequence[str]) -> Any:
    """The schema that a request asks for by one of these dialects; None where there is none."""
    form = body.get("response_format") or {}
    places = {
        "response_format": (form.get("json_schema") or {}).get("schema"),
        "json_object": form.get("schema"),
        "value": form.get("value"),
        "structured_outputs": (body.get("structured_outputs") or {}).get("json"),
        "guided_json": body.get("guided_json"),
        "json_schema": body.get("json_schema"),
        "format": body.get("format"),
    }
    return next((places[one] for one in dialects if places[one] is not None), None)


def filled(schema: Any) -> Any:
    """What fits a schema, and is right where it can be."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return RIGHT if RIGHT in schema["enum"] else schema["enum"][0]
    if schema.get("type") == "object" or "properties" in schema:
        return {name: filled(inner) for name, inner in schema.get("properties", {}).items()}
    return [] if schema.get("type") == "array" else "As told."


GOOD = orjson.dumps({"answer": RIGHT}).decode()


def chat(content: Any = GOOD, finish: str | None = "stop", usage: Any = (50, 5), **message: Any) -> dict[str, Any]:
    """A chat completion. usage: tokens of prompt and reply, or what stands there in their place."""
    if isinstance(usage, tuple):
        usage = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    message = {"role": "assistant", "content": content, **message}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage,
    }


def error(message: str, /, **more: Any) -> dict[str, Any]:
    """An error object of OpenAI's style."""
    return {"error": {"message": message, **more}}


def refusal(status: int, message: str, /, **more: Any) -> Said:
    """That error with this status."""
    return status, error(message, **more)


def models(*names: str, **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model", **more} for name in names]}


def always(said: Said) -> Callable[[ChatRequest], Said]:
    """Says the same to every question, and something good to what is no question."""
    return lambda asked: said if asked.name else None


def once(*said: Said) -> Callable[[ChatRequest], Said]:
    """Says this to the first request about each person, the next to the second, and then answers."""
    return lambda asked: said[asked.times - 1] if asked.name and asked.times <= len(said) else None


def about(names: Sequence[str], said: Said) -> Callable[[ChatRequest], Said]:
    """Says this to every request about these persons."""
    return lambda asked: said if asked.name in names else None


def when(condition: Callable[[ChatRequest], Any], said: Said) -> Callable[[ChatRequest], Said]:
    """Says this to the requests of which that is true."""
    return lambda asked: said if condition(asked) else None


def refuses(name: str, said: Said) -> Callable[[ChatRequest], Said]:
    """Says this where the body has that field."""
    return when(lambda asked: name in asked.body, said)


def first_of(*answers: Callable[[ChatRequest], Said]) -> Callable[[ChatRequest], Said]:
    """What the first of these says that says anything."""
    return lambda asked: next((said for one in answers if (said := one(asked)) is not None), None)


def good(asked: ChatRequest, schemas: Sequence[str]) -> dict[str, Any]:
    """A good reply: held to the schema that is asked for, as far as it is understood."""
    schema = given_schema(asked.body, schemas)
    prompt = len(asked.text) // 4
    if schema is not None:
        return chat(orjson.dumps(filled(schema)).decode(), usage=(prompt, 5))
    return chat(GOOD if asked.name else "Hello.", usage=(prompt, 5))


class Server:
    """Answers every request as a server that behaves like that (see `Endpoint.first`). asked: how many chat requests
    there were."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour, self.asked = behaviour, 0
        self._times: Counter[str] = Counter()

    def __call__(self, request: web.Request, raw: bytes) -> web.StreamResponse:
        behaviour = self.behaviour
        if request.method == "GET":
            if request.path == "/version" and behaviour.version:
                return _response({"version": behaviour.version})
            own = behaviour.models(request) if callable(behaviour.models) else behaviour.models
            own = models("m") if own is None else own
            return _response(own if request.path == f"{behaviour.path}/models" else (404, error("Not Found")))
        if request.path != f"{behaviour.path}/chat/completions":
            return _response((404, error(f"Invalid URL (POST {request.path})")))
        body = orjson.loads(raw)
        name = "".join(re.findall(r"Where will (\w+) look", str(body["messages"][-1]["content"]))[-1:])
        self.asked += 1
        self._times[name] += 1
        persons = sum(one in self._times for one in NAMES)
        asked = ChatRequest(body, request, name, self._times[name], persons, self.asked)
        said = behaviour.answer(asked)
        return _response(good(asked, behaviour.schemas) if said is None else said)


def _response(said: Said) -> web.Response:
    code, content, *more = said if isinstance(said, tuple) else (200, said)
    headers = {"Content-Type": "application/json", **(more[0] if more else {})}
    return web.Response(
        status=code, body=content if isinstance(content, bytes) else orjson.dumps(content), headers=headers
    )


def ended(answer: Callable[[ChatRequest], Said] | None, *says: str, **more: Any) -> Behaviour:
    """A server for which the evaluation ends in an error that says this."""
    return Behaviour(answer or (lambda asked: None), right=None, code=2, says=says, **more)


PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": "She did not."}]}, {"type": "text", "text": GOOD}]
NO_MAX_TOKENS = refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
NO_TEMPERATURE = refusal(400, "Unsupported value: 'temperature' does not support 0.", param="temperature")
FORBIDDEN = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}
NO_SEED = 422, {"object": "error", "message": {"detail": [{**FORBIDDEN, "loc": ["body", "seed"]}]}}
TOO_LONG = refusal(
    400, "This model's maximum context length is 512 tokens. However, you requested 700 tokens.", code=400
)
FILTERED = refusal(400, "The response was filtered.", code="content_filter")
NO_LIST = refusal(404, "Not Found")
NO_KEY = refusal(401, "You didn't provide an API key.")
A_DAY = error("Rate limit reached on tokens per day (TPD). Please try again in 2h15m0s.", code="tokens")


def _untyped(schema: Any) -> bool:
    inner = list(schema.get("properties", {}).values())
    return any("type" not in one and "anyOf" not in one for one in inner) or any(map(_untyped, inner))


def strict(asked: ChatRequest) -> Said:
    """OpenAI's rules for a schema that is to be kept to."""
    form = (asked.body.get("response_format") or {}).get("json_schema")
    if form and _untyped(form["schema"]):
        where = "In context=('properties', 'answer'), schema must have a 'type' key."
        return refusal(400, f"Invalid schema for response_format 'answer': {where}", param="response_format")
    return None


def lacks(header: str, value: str, said: Said) -> Callable[[ChatRequest], Said]:
    """Says this where a header has not that value."""
    return lambda asked: said if asked.request.headers.get(header) != value else None


ENDINGS: dict[str, Behaviour] = {
    "a router with several providers": Behaviour(
        lambda asked: {**chat(), "provider": ("here", "there")[NAMES.index(asked.name) % 2]} if asked.name else None,
        says=["several providers: .*--extra-body"],
    ),
    "everything in the thoughts, cut off": Behaviour(
        always(chat(None, "length", reasoning_content="Hm. " * 99, usage=(50, 256))),
        right=0,
        code=1,
        says=["12 of 12", "everything is in", "--max-tokens"],
        most=3 * ALL,
    ),
    "a schema refused": Behaviour(
        when(lambda q: q.format, refusal(400, "response_format is not supported", param="response_format")),
        schemas=(),
        right=0,
        code=2,
        says=["response_format is not supported", "--schema"],
    ),
    "three questions too long": Behaviour(
        about(["Ann", "Eve", "Gus"], TOO_LONG), right=9, code=1, says=["3 ", "maximum context length is 512"]
    ),
    "a limit of a day": ended(
        when(lambda asked: asked.persons > 4, (429, A_DAY, {"retry-after": "8100"})),
        "tokens per day",
        "stay open",
        options={"concurrency": 1},
    ),
    "no list of models": Behaviour(models=NO_LIST, options={"model": "m"}, says=["list"]),
    "another path than the one given": ended(None, "base URL", path=""),
    "a key that is missing": ended(
        lacks("Authorization", "Bearer sk-1", NO_KEY),
        "API key is missing",
        "You didn't provide an API key",
        models=NO_KEY,
    ),
}
"""What a server may be like, and what is said of it in the end. Its replies one by one: tests/engine/test_replies.py,
test_hostile.py, and tests/serving/test_preflight.py."""

KEYS: Mapping[str, str] = {"TOMSERVE_API_KEY": "sk-0123456789abcdef"}
NAMED = {"model": "org/m"}


def _format(said: Said, *kinds: str) -> Callable[[ChatRequest], Said]:
    """Says this where the request asks for a response format of one of these types."""
    return when(lambda asked: asked.format in kinds, said)


def _says_json(asked: ChatRequest) -> Said:
    """JSON mode wants the word in the prompt."""
    if asked.format != "json_object" or "json" in asked.text.lower():
        return None
    return refusal(400, "'messages' must contain the word 'json' in some form.")


def _guidance(asked: ChatRequest) -> Said:
    """TGI's response formats hold their schema in `value`."""
    form = asked.body.get("response_format")
    if form is None or "value" in form:
        return None
    return 422, b"Failed to deserialize: response_format: missing field `value`", {"Content-Type": "text/plain"}


def _unknown_names(*names: str) -> Callable[[ChatRequest], Said]:
    """Google's refusal of fields, which comes as a list."""

    def answer(asked: ChatRequest) -> Said:
        if not (found := [name for name in names if name in asked.body]):
            return None
        said = "\n".join(f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.' for name in found)
        return 400, [{"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}]

    return answer


def _routed(asked: ChatRequest) -> Said:
    """OpenRouter: the provider that was asked for, its reasoning, and now and then an error inside a reply."""
    order = (asked.body.get("provider") or {}).get("order")
    if not order:
        return refusal(400, "the test wants a provider to be named", code=400)
    if asked.name and asked.times == 1:
        said = error("Provider returned error", code=502, metadata={"raw": "overloaded"})
        return {"id": "gen", "provider": order[0], **said}
    details = [{"type": "reasoning.text", "text": "She did not see it."}]
    reply = {**chat(reasoning="She did not see it.", reasoning_details=details), "provider": order[0]}
    return reply if asked.name else None


def _listed_by_own_key(request: web.Request) -> Said:
    """Anthropic's list of models wants headers of its own."""
    if "x-api-key" in request.headers and "anthropic-version" in request.headers:
        return models("m", "n")
    return 401, {"type": "error", "error": {"type": "authentication_error", "message": "x-api-key header is required"}}


def _cut(asked: ChatRequest) -> Said:
    """Ollama drops the beginning of a prompt that is longer than its context."""
    return {**good(asked, ("response_format", "format")), "usage": {"prompt_tokens": min(2050, len(asked.text) // 4)}}


def hosted(*answers: Callable[[ChatRequest], Said], **more: Any) -> Behaviour:
    """A provider that wants a key, and serves two models, of which one is named."""
    key = lacks("Authorization", "Bearer sk-0123456789abcdef", refusal(401, "Incorrect API key provided"))
    usual: dict[str, Any] = {"models": models("m", "n"), "options": {"model": "m"}, "adaptations": ["strict_schema"]}
    return Behaviour(first_of(key, *answers), **{**usual, "environment": KEYS, **more})


LOADING = refusal(503, "Loading model")
NO_SYSTEM = refusal(500, "Jinja Exception: System role not supported")
LITELLM = "litellm.UnsupportedParamsError: bedrock does not support parameters: ['seed'], for model=m."
GROQ = "This model does not support response format `json_schema`."
RATE = error("Rate limit reached for requests", type="requests", code="rate_limit_exceeded")

PROVIDERS: dict[str, Behaviour] = {
    "vLLM": Behaviour(
        version="0.31.0",
        models=models("org/m", max_model_len=8192, root="org/m", owned_by="vllm"),
        schemas=("response_format", "structured_outputs"),
        wire=True,
        adaptations=[],
    ),
    "SGLang": Behaviour(
        always({**chat(reasoning_content="She did not."), "metadata": {"weight_version": "default"}}),
        models=models("org/m", max_model_len=8192, owned_by="sglang"),
        adaptations=["strict_schema"],
    ),
    "llama.cpp": Behaviour(
        first_of(once(LOADING), when(lambda asked: "system" in asked.roles, NO_SYSTEM)),
        models=models("m.gguf", meta={"n_ctx_train": 8192}),
        schemas=("response_format", "json_object", "json_schema"),
        most=4 * ALL,
        adaptations=["system_in_user", "strict_schema"],
    ),
    "Ollama": Behaviour(
        _cut,
        models=models("m:latest", owned_by="library"),
        options={"model": "m:latest"},
        longer=400,
        says=["2,050"],
        adaptations=["strict_schema"],
    ),
    "LM Studio": Behaviour(
        _format((400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}), "json_object"),
        models=models("org/m", "text-embedding-nomic-embed-text-v1.5"),
        options=NAMED,
        adaptations=["strict_schema"],
    ),
    "TGI": Behaviour(_guidance, models=models("org/m"), schemas=("value",), adaptations=["json_object_value"]),
    "LiteLLM": hosted(
        refuses("seed", refusal(400, LITELLM)),
        models=models("bedrock/*"),
        options={"model": "bedrock/m"},
        adaptations=["no_seed", "strict_schema"],
    ),
    "OpenRouter": hosted(
        _routed,
        models=models("org/m", "org/n", context_length=8192),
        url="ROOT/api/v1",
        path="/api/v1",
        options={**NAMED, "extra_body": {"provider": {"order": ["here"], "allow_fallbacks": False}}},
        most=4 * ALL,
    ),
    "OpenAI": hosted(
        strict,
        once((429, RATE, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1ms"})),
        most=4 * ALL,
    ),
    "OpenAI, reasoning models": hosted(
        refuses("max_tokens", NO_MAX_TOKENS),
        refuses("temperature", NO_TEMPERATURE),
        strict,
        options={"model": "m", "reasoning_effort": "low"},
        adaptations=["max_completion_tokens", "no_temperature", "strict_schema"],
        says=["max_completion_tokens"],
        wire=True,
    ),
    "Azure OpenAI": Behaviour(
        first_of(
            lacks("api-key", "wk-1", refusal(401, "Access denied due to invalid subscription key.")),
            when(lambda asked: asked.request.query.get("api-version") != "2024-10-21", NO_LIST),
            about(["Cleo"], FILTERED),
            strict,
        ),
        models=NO_LIST,
        url="ROOT/openai/deployments/d?api-version=2024-10-21",
        path="/openai/deployments/d",
        options={"model": "m"},
        environment={"TOMSERVE_HEADERS": "api-key=AZURE_KEY", "AZURE_KEY": "wk-1"},
        right=ALL - 1,
        says=["1 refus"],
        wire=True,
        adaptations=["strict_schema"],
    ),
    "Groq": hosted(
        _says_json,
        _format(refusal(400, GROQ), "json_schema"),
        models=models("m", context_window=8192),
        options={},
        url="ROOT/openai/v1",
        path="/openai/v1",
        schemas=(),
        most=4 * ALL,
        adaptations=["json_object"],
    ),
    "Mistral": hosted(
        refuses("seed", NO_SEED),
        always(chat(PARTS)),
        adaptations=["no_seed", "strict_schema"],
        says=["without a seed"],
    ),
    "Gemini": hosted(
        _unknown_names("seed", "frequency_penalty", "skip_special_tokens"),
        strict,
        models=models("models/m", "models/n"),
        url="ROOT/v1beta/openai",
        path="/v1beta/openai",
        adaptations=["no_seed", "strict_schema"],
    ),
    "Anthropic": hosted(
        models=_listed_by_own_key,
        environment={**KEYS, "TOMSERVE_HEADERS": "x-api-key=K,anthropic-version=V", "K": "wk-1", "V": "2023-06-01"},
        schemas=(),
    ),
    "Together": hosted(
        always(chat(finish="eos")),
        models=b'[{"id": "org/m", "object": "model", "context_length": 8192}, {"id": "org/n", "object": "model"}]',
        options=NAMED,
    ),
    "Fireworks": hosted(
        models=models("accounts/fireworks/models/m", "accounts/fireworks/models/n"),
        url="ROOT/inference/v1",
        path="/inference/v1",
        options={"model": "accounts/fireworks/models/m"},
        schemas=("response_format", "json_object"),
    ),
    "DeepSeek": hosted(
        _says_json,
        _format(refusal(400, "This response_format type is unavailable now"), "json_schema"),
        schemas=(),
        most=4 * ALL,
        adaptations=["json_object"],
    ),
}
"""Scripted copies of servers and providers, by what their documentation and public reports say of them.

Each is a row of the table in docs/reference/providers.md, and `options` are those that the row names.
"""
