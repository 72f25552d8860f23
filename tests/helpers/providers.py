"""Scripted copies of servers and providers, by what their documentation and public reports say of them.

Each is a row of the table in docs/reference/providers.md, and `options` are those that the row names.
"""

from collections.abc import Callable, Mapping

from aiohttp import web

from tests.helpers.endpoints import (
    ALL,
    FILTERED,
    NO_MAX_TOKENS,
    NO_SEED,
    NO_TEMPERATURE,
    PARTS,
    RATE,
    Behaviour,
    ChatRequest,
    Said,
    about,
    always,
    chat,
    error,
    first_of,
    good,
    lacks,
    models,
    once,
    refuses,
    strict,
)

KEYS: Mapping[str, str] = {"TOMSERVE_API_KEY": "sk-0123456789abcdef"}
BEARER = lacks("Authorization", "Bearer sk-0123456789abcdef", (401, error("Incorrect API key provided")))
NAMED = {"model": "org/m"}


def _format(said: Said, *kinds: str) -> Callable[[ChatRequest], Said]:
    """Says this where the request asks for a response format of one of these types."""
    return lambda asked: said if asked.format in kinds else None


def _says_json(asked: ChatRequest) -> Said:
    """JSON mode wants the word in the prompt."""
    if asked.format != "json_object" or "json" in asked.text.lower():
        return None
    return 400, error(
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
    )


def _guidance(asked: ChatRequest) -> Said:
    """TGI's response formats hold their schema in `value`."""
    form = asked.body.get("response_format")
    if form is None or "value" in form:
        return None
    said = "Failed to deserialize the JSON body into the target type: response_format: missing field `value` at line 1 column 168"
    return 422, said.encode(), {"Content-Type": "text/plain; charset=utf-8"}


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
        return 400, error("the test wants a provider to be named", code=400)
    if asked.name and asked.times == 1:
        return {
            "id": "gen",
            "provider": order[0],
            **error("Provider returned error", code=502, metadata={"raw": "overloaded"}),
        }
    details = [{"type": "reasoning.text", "text": "She did not see it."}]
    return (
        {**chat(reasoning="She did not see it.", reasoning_details=details), "provider": order[0]}
        if asked.name
        else None
    )


def _listed_by_own_key(request: web.Request) -> Said:
    """Anthropic's list of models wants headers of its own."""
    if "x-api-key" in request.headers and "anthropic-version" in request.headers:
        return models("m", "n")
    return 401, {"type": "error", "error": {"type": "authentication_error", "message": "x-api-key header is required"}}


def _cut(asked: ChatRequest) -> Said:
    """Ollama drops the beginning of a prompt that is longer than its context."""
    return {**good(asked, ("response_format", "format")), "usage": {"prompt_tokens": min(2050, len(asked.text) // 4)}}


PROVIDERS: dict[str, Behaviour] = {
    "vLLM": Behaviour(
        version="0.31.0",
        models=models("org/m", max_model_len=8192, root="org/m", owned_by="vllm"),
        schemas=("response_format", "structured_outputs"),
        wire=True,
        adaptations=[],
    ),
    "SGLang": Behaviour(
        lambda asked: (
            {**chat(reasoning_content="She did not."), "metadata": {"weight_version": "default"}}
            if asked.name
            else None
        ),
        models=models("org/m", max_model_len=8192, owned_by="sglang"),
        adaptations=["strict_schema"],
    ),
    "llama.cpp": Behaviour(
        first_of(
            once((503, error("Loading model", type="unavailable_error", code=503))),
            lambda asked: (
                (500, error("Jinja Exception: System role not supported", code=500, type="server_error"))
                if "system" in asked.roles
                else None
            ),
        ),
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
    "TGI": Behaviour(
        _guidance,
        models=models("org/m"),
        schemas=("value",),
        adaptations=["json_object_value"],
    ),
    "LiteLLM": Behaviour(
        first_of(
            BEARER,
            refuses(
                "seed",
                (
                    400,
                    error(
                        "litellm.UnsupportedParamsError: bedrock does not support parameters: ['seed'], for model=m. To "
                        "drop these, set `litellm.drop_params=True` or for proxy: `drop_params: true`",
                        type="None",
                        param="None",
                        code="400",
                    ),
                ),
            ),
        ),
        models=models("bedrock/*"),
        options={"model": "bedrock/m"},
        environment=KEYS,
        adaptations=["no_seed", "strict_schema"],
    ),
    "OpenRouter": Behaviour(
        first_of(BEARER, _routed),
        models=models("org/m", "org/n", context_length=8192),
        url="ROOT/api/v1",
        path="/api/v1",
        options={**NAMED, "extra_body": {"provider": {"order": ["here"], "allow_fallbacks": False}}},
        environment=KEYS,
        most=4 * ALL,
        adaptations=["strict_schema"],
    ),
    "OpenAI": Behaviour(
        first_of(
            BEARER,
            strict,
            once((429, RATE, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1ms"})),
        ),
        models=models("m", "n"),
        options={"model": "m"},
        environment=KEYS,
        most=4 * ALL,
        adaptations=["strict_schema"],
    ),
    "OpenAI, reasoning models": Behaviour(
        first_of(
            BEARER, refuses("max_tokens", (400, NO_MAX_TOKENS)), refuses("temperature", (400, NO_TEMPERATURE)), strict
        ),
        models=models("m", "n"),
        options={"model": "m", "reasoning_effort": "low"},
        environment=KEYS,
        adaptations=["max_completion_tokens", "no_temperature", "strict_schema"],
        says=["max_completion_tokens"],
        wire=True,
    ),
    "Azure OpenAI": Behaviour(
        first_of(
            lacks("api-key", "wk-1", (401, error("Access denied due to invalid subscription key.", code="401"))),
            lambda asked: (
                None
                if asked.request.query.get("api-version") == "2024-10-21"
                else (404, error("Resource not found", code="404"))
            ),
            about(["Cleo"], (400, FILTERED)),
            strict,
        ),
        models=(404, error("Resource not found", code="404")),
        url="ROOT/openai/deployments/d?api-version=2024-10-21",
        path="/openai/deployments/d",
        options={"model": "m"},
        environment={"TOMSERVE_HEADERS": "api-key=AZURE_KEY", "AZURE_KEY": "wk-1"},
        right=ALL - 1,
        says=["1 refus"],
        wire=True,
        adaptations=["strict_schema"],
    ),
    "Groq": Behaviour(
        first_of(
            BEARER,
            _says_json,
            _format(
                (
                    400,
                    error(
                        "This model does not support response format `json_schema`. See supported models at https://console.groq.com/docs/structured-outputs",
                        type="invalid_request_error",
                    ),
                ),
                "json_schema",
            ),
        ),
        models=models("m", context_window=8192),
        url="ROOT/openai/v1",
        path="/openai/v1",
        environment=KEYS,
        schemas=(),
        most=4 * ALL,
        adaptations=["json_object"],
    ),
    "Mistral": Behaviour(
        first_of(BEARER, refuses("seed", (422, NO_SEED)), always(chat(PARTS))),
        models=models("m", "n"),
        options={"model": "m"},
        environment=KEYS,
        adaptations=["no_seed", "strict_schema"],
        says=["without a seed"],
    ),
    "Gemini": Behaviour(
        first_of(BEARER, _unknown_names("seed", "frequency_penalty", "skip_special_tokens"), strict),
        models=models("models/m", "models/n"),
        url="ROOT/v1beta/openai",
        path="/v1beta/openai",
        options={"model": "m"},
        environment=KEYS,
        adaptations=["no_seed", "strict_schema"],
    ),
    "Anthropic": Behaviour(
        BEARER,
        models=_listed_by_own_key,
        options={"model": "m"},
        environment={
            **KEYS,
            "TOMSERVE_HEADERS": "x-api-key=OWN_KEY,anthropic-version=OWN_VERSION",
            "OWN_KEY": "wk-1",
            "OWN_VERSION": "2023-06-01",
        },
        schemas=(),
        adaptations=["strict_schema"],
    ),
    "Together": Behaviour(
        first_of(BEARER, always(chat(finish="eos"))),
        models=b'[{"id": "org/m", "object": "model", "context_length": 8192}, {"id": "org/n", "object": "model"}]',
        options=NAMED,
        environment=KEYS,
        adaptations=["strict_schema"],
    ),
    "Fireworks": Behaviour(
        BEARER,
        models=models("accounts/fireworks/models/m", "accounts/fireworks/models/n"),
        url="ROOT/inference/v1",
        path="/inference/v1",
        options={"model": "accounts/fireworks/models/m"},
        environment=KEYS,
        schemas=("response_format", "json_object"),
        adaptations=["strict_schema"],
    ),
    "DeepSeek": Behaviour(
        first_of(
            BEARER,
            _says_json,
            _format(
                (
                    400,
                    error(
                        "This response_format type is unavailable now",
                        type="invalid_request_error",
                        param=None,
                        code="invalid_request_error",
                    ),
                ),
                "json_schema",
            ),
        ),
        models=models("m", "n"),
        options={"model": "m"},
        environment=KEYS,
        schemas=(),
        most=4 * ALL,
        adaptations=["json_object"],
    ),
}
