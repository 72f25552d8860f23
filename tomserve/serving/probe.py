"""What a server says of itself, and whether it can do the job: asked once, before anything is sent.

Every way in which an endpoint can be wrong ends here in one line: not there, not OpenAI-compatible, key missing or
refused, model not served, no chat template, context too short.
"""

from __future__ import annotations

import heapq
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from tomserve.engine.transport import error_text
from tomserve.errors import ConfigError, ServerError, one_of

CHECKED_PROMPTS = 8
"""How many of the longest prompts (by characters, replies included) are counted in tokens."""
_BYTES_A_TOKEN = 4  # only ranks prompts; what decides is the server's own count


def normalize(url: str) -> str:
    """A base URL as endpoint: scheme http(s), no trailing slash, ``/v1`` where no path is given. Raises ConfigError."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port, host = parts.port, (parts.hostname or "").encode("idna")
    except (ValueError, UnicodeError):
        port, host = 0, b""
    if not host or port == 0 or parts.scheme not in ("http", "https"):
        raise ConfigError(f"base URL {url!r}: expected something like http://host:8000/v1")
    if parts.username or parts.password or parts.query:
        raise ConfigError("base URL: credentials belong into TOMSERVE_API_KEY, not into the address")
    path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def healthy(root: str, timeout: float) -> bool:
    """Whether /health of a vLLM server answers 200 within `timeout` seconds."""
    try:
        return httpx.get(f"{root}/health", timeout=timeout, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


class Probe:
    """Questions to one endpoint (``.../v1``). `api_key` goes into the header and nowhere else."""

    def __init__(self, endpoint: str, api_key: str | None = None, timeout: float = 60.0) -> None:
        self.endpoint, self.root = endpoint, endpoint.removesuffix("/v1")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._key = api_key
        # trust_env is off: a proxy of the environment must not come between us and a server on this machine.
        self._client = httpx.Client(headers=headers, timeout=httpx.Timeout(timeout, connect=10.0), trust_env=False)

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _ask(self, method: str, url: str, **options: Any) -> httpx.Response:
        try:
            return self._client.request(method, url, **options)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if isinstance(error.__cause__, ssl.SSLError) or "SSL" in str(error):
                raise ServerError(
                    f"{self.endpoint}: TLS failed ({error}); is it http:// rather than https://?"
                ) from None
            hint = "start one with `make serve`, or check host and port"
            raise ServerError(f"{self.endpoint}: no server answers there ({error}); {hint}") from None
        except httpx.TimeoutException:
            hint = "it may be loading or busy: try again later, or raise --timeout"
            raise ServerError(f"{self.endpoint}: is there, but did not answer in time; {hint}") from None
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise ServerError(
                f"{self.endpoint}: does not speak HTTP as an OpenAI-compatible server does ({reason})"
            ) from None

    def models(self) -> list[dict[str, Any]]:
        """The served models (id, root, max_model_len ...). Raises ServerError with what to do."""
        response = self._ask("GET", f"{self.endpoint}/models")
        if response.status_code in (401, 403):
            how = "was refused" if self._key else "is missing"
            raise ServerError(f"{self.endpoint}: the API key {how}; set TOMSERVE_API_KEY (or OPENAI_API_KEY)")
        try:
            data = orjson.loads(response.content)
            models = [dict(model) for model in data["data"]]
            names = [model["id"] for model in models]
            if not all(isinstance(name, str) and name.isprintable() for name in names):
                raise ValueError("a model id is no printable text")
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            kind = response.headers.get("content-type", "no content type").split(";")[0]
            raise ServerError(
                f"{self.endpoint}: not an OpenAI-compatible endpoint (GET /models gave HTTP {response.status_code}, "
                f"{kind}); a base URL usually ends in /v1"
            ) from None
        if not names:
            raise ServerError(f"{self.endpoint}: serves no model")
        return models

    def choose(self, wanted: Sequence[str | None]) -> dict[str, Any]:
        """The served model that any of `wanted` names; with none given, the only one. Raises ServerError."""
        models = {model["id"]: model for model in self.models()}
        names = [name for name in wanted if name]
        for name in names:
            if name in models:
                return models[name]
        if names:
            raise ServerError(
                f"{self.endpoint}: {one_of('model', names[0], models).replace('Known:', 'Served there:')}"
            )
        if len(models) > 1:
            raise ServerError(
                f"{self.endpoint}: serves several models; name one by --model (MODEL=): {', '.join(models)}"
            )
        return next(iter(models.values()))

    def version(self) -> str | None:
        """vLLM's version, or None where /version does not tell."""
        try:
            response = self._client.get(f"{self.root}/version")
            return str(response.json()["version"]) if response.status_code == 200 else None
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None

    def check_chat(self, model: str, extra: Mapping[str, Any] | None = None) -> None:
        """Send one one-token chat request. Raises ServerError where chat cannot work (no template, key, path).

        extra: what every request will hold beside its messages; a server that refuses that is found out here.
        """
        body = {"model": model, "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 1, "temperature": 0}
        body |= extra or {}
        response = self._ask("POST", f"{self.endpoint}/chat/completions", json=body)
        if response.status_code == 200:
            return
        try:
            reason = error_text(orjson.loads(response.content))
        except orjson.JSONDecodeError:
            reason = response.text[:200]
        if self._key:
            reason = reason.replace(self._key, "***")
        if response.status_code in (401, 403):
            raise ServerError(f"{self.endpoint}: the API key was refused; set TOMSERVE_API_KEY (or OPENAI_API_KEY)")
        if "chat template" in reason.lower():
            raise ServerError(
                f"{self.endpoint}: model {model!r} has no chat template; serve it with --chat-template FILE, or set "
                "chat_template in its preset"
            )
        if extra and "thinking_token_budget" in reason:
            raise ServerError(
                f"{self.endpoint}: model {model!r} thinks, and its server cannot end that at a budget; serve it by "
                "`tomserve serve`, add --reasoning-parser to its vLLM, or give --thinking off"
            )
        raise ServerError(f"{self.endpoint}: a one-token chat request gave HTTP {response.status_code}: {reason}")

    def tokens(
        self, model: str, messages: Sequence[dict[str, str]], extra: Mapping[str, Any] | None = None
    ) -> int | None:
        """Prompt length in tokens by vLLM's /tokenize, or None where there is no such thing."""
        try:
            body: dict[str, Any] = {"model": model, "messages": list(messages), "add_generation_prompt": True}
            if extra and "chat_template_kwargs" in extra:
                body["chat_template_kwargs"] = extra["chat_template_kwargs"]
            response = self._client.post(f"{self.root}/tokenize", json=body)
            return int(response.json()["count"]) if response.status_code == 200 else None
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None

    def check_context(
        self,
        model: str,
        limit: int | None,
        prompts: Iterable[tuple[str, str, Sequence[dict[str, str]], int]],
        extra: Mapping[str, Any] | None = None,
    ) -> int | None:
        """Raise ConfigError where a prompt and its reply exceed the context of `limit` tokens.

        prompts: (item, strategy, messages, max_tokens). Only the longest by characters are counted. Returns the
        length of the longest prompt in tokens, None where the server does not count tokens or tells no limit.
        """
        if limit is None:
            return None
        longest: int | None = None
        other = " or --thinking" if extra and "thinking_token_budget" in extra else ""
        for item, strategy, messages, reply in heapq.nlargest(CHECKED_PROMPTS, prompts, key=_size):
            count = self.tokens(model, messages, extra)
            if count is None:
                return None
            longest = max(longest or 0, count)
            if count + reply > limit:
                raise ConfigError(
                    f"item {item!r}, strategy {strategy!r}: {count} prompt tokens + {reply} for the reply exceed the "
                    f"context of {limit} tokens; serve with a longer --max-model-len, or lower --max-tokens{other}"
                )
        return longest


def _size(prompt: tuple[str, str, Sequence[dict[str, str]], int]) -> int:
    _, _, messages, reply = prompt
    return sum(len(message["content"]) for message in messages) + _BYTES_A_TOKEN * reply
