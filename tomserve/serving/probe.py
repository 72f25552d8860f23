"""Probes a server before any question is sent: what it serves, and whether it can do the job; one that is busy or still
loads is waited for."""

import contextlib
import heapq
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import orjson

from tomserve.engine import rate_limits
from tomserve.engine.adaptations import adapt
from tomserve.engine.addresses import MOVED, explain_redirect, follow, root_of, url_of
from tomserve.engine.network import certificates, proxy_for, tls_advice
from tomserve.engine.prompt_tokens import Truncation, describe_truncation, estimate_tokens
from tomserve.engine.redact import MASKED, Redactor, clean_text
from tomserve.engine.replies import MOST_TOKENS, describe_page, error_text, read_json, read_reply
from tomserve.engine.retry import RetryPolicy, announced_wait
from tomserve.engine.transport import (
    MAX_HEAD,
    UNENCODED,
    Reply,
    decompress,
    note_limits,
    redact_reply,
    secret_headers,
    secret_values,
)
from tomserve.errors import ConfigError, ServerError, one_of
from tomserve.status import BUSY, http_code

LOADING = 1800.0  # seconds for which a server that loads is waited for, unless the user says otherwise
ANSWER = 60.0  # seconds that a server may take to say what it serves, unless the user gave less to every request
SPEAK_EVERY = 5.0  # seconds between two lines on what is waited for
SLICE = 0.25  # seconds between two looks at whether the user has had enough


@dataclass
class WaitPolicy:
    # told a sentence on what is waited for, at first and every SPEAK_EVERY seconds
    note: Callable[[str], None] = lambda text: None
    check: Callable[[], None] = lambda: None  # called several times a second; an error that it raises ends the waiting
    patience: float | None = None  # seconds to wait at most; None for what suits the case
    policy: RetryPolicy = field(default_factory=RetryPolicy)  # how long to wait between two attempts
    answer: float = ANSWER  # seconds that a server may take to say what it serves
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _spoken: float | None = None

    def time_limit(self, usual: float) -> float:
        """The seconds to wait at most: those that the user gave, else the usual ones."""
        return usual if self.patience is None else self.patience

    def speak(self, text: str) -> None:
        """Tell a sentence, unless one was told a moment ago."""
        now = self.clock()
        if self._spoken is None or now - self._spoken >= SPEAK_EVERY:
            self._spoken = now
            self.note(text)

    def rest(self, seconds: float) -> None:
        until = self.clock() + seconds
        while (left := until - self.clock()) > 1e-6:
            self.check()
            self.sleep(min(left, SLICE))
        self.check()

    def ask(self, endpoint: str, ask: Callable[[], httpx.Response]) -> httpx.Response:
        """Ask until the server refuses no longer with 429 or 503, and return its response; what else may go away by
        itself (502, 409, ...) is asked again a few times. Raises ServerError where it still refuses after the seconds
        allowed, or after a pause that it announces itself."""
        began, attempt, longest = self.clock(), 0, 0.0
        while True:
            response = ask()
            attempt += 1
            reply = note_limits(read_reply(response.status_code, response.content), response.headers)
            if reply.status not in BUSY:
                lasting = response.status_code in (200, 500)  # 500 is also how servers refuse what they cannot do
                if lasting or not self.policy.again(reply, attempt):
                    return response
                self.rest(self.policy.seconds(reply, attempt))
                continue
            longest = max(longest, announced_wait(reply) or 0.0)
            most, passed = self.time_limit(self.policy.lost_after + longest), self.clock() - began
            code = http_code(reply.status) or 0
            refused = f"HTTP {code} ({_MEANING[code]})"
            if passed >= most:
                raise ServerError(
                    f"{endpoint}: the server still refuses every request with {refused} after {passed:.0f} s; repeat "
                    "the command later, or give it more time by --patience SECONDS"
                )
            asks = "" if reply.retry_after is None else f" and asks to wait {announced_wait(reply):.0f} s"
            self.speak(
                f"{endpoint}: the server answers {refused}{asks}; asking again ... {passed:.0f} s of at most {most:.0f}"
            )
            self.rest(min(self.policy.seconds(reply, min(attempt, 6)), most - passed))


_MEANING: dict[int, str] = {429: "too many requests", 503: "busy, or still loading"}


CHECKED_PROMPTS = 8
"""How many of the longest prompts, by estimate and with room for their replies, are counted in tokens."""
LONGEST_ID = 1000  # characters that the name of a model may have
LONGEST_TOLD = 300
"""Characters that are kept of what else a server says of itself, and shown of what it says when it refuses."""

LISTED = 10  # how many models a message names at most
MOST_BYTES = 4 * 2**20  # of a response; the longest lists of models have about a million
CONNECT = 10.0  # seconds that connecting may take


def send_request(
    method: str,
    url: str,
    body: Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float = 60.0,
    about: str = "",
) -> httpx.Response:
    """Send a request and return the response, whatever its status; no redirect is followed.

    key: sent as a bearer token. headers: sent, too; both are masked in what errors say. seconds: for all of it, from
    looking up the name to the last piece of the body. about: the server as errors name it. Raises ServerError where no
    whole response comes in time and within the limits, ConfigError for a proxy or certificates that cannot be used.
    """
    about, mask = about or url, Redactor(*secret_values(key, headers))
    sent = {"Accept": "application/json", "Accept-Encoding": UNENCODED, "User-Agent": "tomserve"}
    sent |= secret_headers(key, headers)
    sent |= {"Content-Type": "application/json"} if body is not None else {}
    proxy = proxy_for(url)
    login = {"Proxy-Authorization": proxy.login} if proxy is not None and proxy.login else None
    client = httpx.Client(
        verify=certificates() if url.startswith("https:") else False,  # without TLS nothing is verified
        proxy=None if proxy is None else httpx.Proxy(proxy.url, headers=login),
        trust_env=False,
        timeout=httpx.Timeout(seconds, connect=min(seconds, CONNECT)),
    )
    content = None if body is None else orjson.dumps(body)
    steps: list[str] = []
    found: list[httpx.Response | Exception] = []

    def exchange() -> None:
        try:
            trace = {"trace": lambda step, _: steps.append(step)}
            with client, client.stream(method, url, headers=sent, content=content, extensions=trace) as response:
                found.append(_read_response(response))
        except Exception as error:
            found.append(error)

    # httpx limits each step alone, and looking up a name not at all; so nobody waits for the thread any longer.
    thread = threading.Thread(target=exchange, daemon=True)
    thread.start()
    thread.join(seconds)
    answer = found[0] if found else None
    if isinstance(answer, httpx.Response):
        return answer
    client.close()
    why = clean_text(" ".join(mask(str(answer)).split()), 300) or type(answer).__name__
    if answer is None and not any(step.endswith("connect_tcp.complete") for step in steps):
        answer, why = httpx.ConnectTimeout(""), f"no connection in time, {seconds:g} s"
    match answer:
        case httpx.ConnectError() if "SSL" in why:
            raise ServerError(f"{about}: TLS failed ({why}); {tls_advice(answer)}")
        case httpx.ConnectError() | httpx.ConnectTimeout():
            hint = "start one with `make serve`, or check host and port"
            raise ServerError(f"{about}: no server answers there ({why}); {hint}")
        case httpx.ProxyError():
            raise ServerError(f"{about}: the proxy does not let tomserve through ({why})")
        case None | httpx.TimeoutException():
            hint = "it may be loading or busy: try again later, or raise --timeout"
            raise ServerError(f"{about}: a server is there, but did not answer in time; {hint}")
        case httpx.TransportError() | httpx.InvalidURL() | ValueError():
            raise ServerError(f"{about}: does not speak HTTP as an OpenAI-compatible server does ({why})")
    raise answer


def _read_response(response: httpx.Response) -> httpx.Response:
    """The response with its body read, within the limits. Raises ValueError beyond them."""
    too_long = f"its answer is longer than {MOST_BYTES // 2**20} MiB"
    if sum(len(name) + len(value) + 4 for name, value in response.headers.raw) > MAX_HEAD:
        raise ValueError("the headers have no end")
    raw = bytearray()
    for piece in response.iter_raw():
        raw += piece
        if len(raw) > MOST_BYTES:
            raise ValueError(too_long)
    try:
        whole = decompress(bytes(raw), response.headers.get("content-encoding", "").encode("latin-1"), MOST_BYTES)
    except ValueError as error:
        raise ValueError(f"its answer claims to be encoded as {str(error)!r}, which was not asked for") from None
    if whole is None:
        raise ValueError(too_long)
    named = {"content-type", "location"} | rate_limits.HEADERS
    kept = {name: value for name, value in response.headers.items() if name in named}
    return httpx.Response(response.status_code, headers=kept, content=whole, request=response.request)


def is_healthy(root: str, timeout: float) -> bool:
    """Whether the vLLM server at `root` (its address without ``/v1``) answers /health by 200 in time."""
    try:
        return send_request("GET", f"{root}/health", seconds=timeout).status_code == 200
    except ServerError:
        return False


class NoListError(ServerError):
    """An endpoint has no list of models that can be read. why: what it answered instead."""

    def __init__(self, said: str, why: str) -> None:
        super().__init__(said)
        self.why = why


_NO_MODEL = "tomserve-no-such-model"  # no server has a model of that name; one that answers for it takes any name


def _listed_models(data: Any) -> list[dict[str, Any]]:
    """The entries of a list of models, each with its `id`: as OpenAI's, bare, or as Ollama's. Raises what indexing
    raises."""
    if isinstance(data, dict):
        data = data["data"] if isinstance(data.get("data"), list) else data["models"]
    entries = [one if isinstance(one, dict) else {"id": one} for one in list(data)]
    return [one if "id" in one else {**one, "id": one.get("name") or one["model"]} for one in entries]


def find_spelling(name: str, listed: Collection[str]) -> str | None:
    """The listed model that a name means: the very one, else the only one that differs in capitals, in ``models/``
    before it, or in who made it; None where there is none, or several.

    >>> find_spelling("qwen3-8b", ["Qwen/Qwen3-8B"]), find_spelling("a", ["x/a", "y/a"])
    ('Qwen/Qwen3-8B', None)
    """
    if name in listed:
        return name
    plain = name.casefold().removeprefix("models/")
    known = {one: one.casefold().removeprefix("models/") for one in listed}
    for found in (
        [one for one, other in known.items() if other == plain],
        [one for one, other in known.items() if "/" not in plain and other.rpartition("/")[2] == plain],
        [one for one, other in known.items() if "/" not in other and plain.rpartition("/")[2] == other],
    ):
        if len(found) == 1:
            return found[0]
    return None


class Probe:
    """Asks one endpoint about itself.

    endpoint: as `normalize_url` gives it. timeout: seconds that an answer may take from beginning to end. waiting: how
    to wait where it refuses with 429 or 503; None to take such a refusal for its answer. headers: sent with every
    request, as secret as the key.
    """

    def __init__(
        self,
        endpoint: str,
        api_key: str | None = None,
        timeout: float = 60.0,
        waiting: WaitPolicy | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.endpoint, self.root = endpoint, root_of(endpoint)
        self._key, self._timeout, self._waiting, self._headers = api_key, timeout, waiting, headers
        self._mask = Redactor(*secret_values(api_key, headers))
        self.unlisted = ""  # why no list of models shows that the chosen one is served, after `choose`
        self.adaptations: tuple[str, ...] = ()  # by which its chat requests are sent

    def _ask(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        """The response to a request; a redirect on the same host is followed once."""

        def ask(url: str) -> httpx.Response:
            known: dict[str, Any] = {
                "key": self._key,
                "headers": self._headers,
                "seconds": self._timeout,
                "about": self.endpoint,
            }
            one = partial(send_request, method, url, body, **known)
            return one() if self._waiting is None else self._waiting.ask(self.endpoint, one)

        response = ask(url)
        if response.status_code in MOVED or (method == "GET" and response.status_code in (301, 302)):
            there = follow(url, response.headers.get("location"))
            return response if there is None else ask(there)
        return response

    def _chat(self, body: Mapping[str, Any]) -> httpx.Response:
        return self._ask("POST", url_of(self.endpoint, "/chat/completions"), adapt(dict(body), self.adaptations))

    def _data(self, answer: httpx.Response) -> Any:
        """The body of an answer, read as JSON, without the key. Raises ValueError."""
        if (data := self._mask.redact_json(read_json(answer.content))) is None:
            raise ValueError("it is nothing, nests too deeply, or holds the key where no text is")
        return data

    def _refused(self, response: httpx.Response) -> ServerError:
        """The error for a response that refuses the key."""
        return self.key_error(f"HTTP {response.status_code}: {self._reason(response) or 'no reason given'}")

    def key_error(self, said: str) -> ServerError:
        """The error for a key that is missing or that the server refuses in these words of its own."""
        how = "was refused" if self._key or self._headers else "is missing"
        ways = "set TOMSERVE_API_KEY (or OPENAI_API_KEY), or send a header of another name by --header NAME=VARIABLE"
        return ServerError(f"{self.endpoint}: the API key {how} ({said}); {ways}")

    def models(self) -> list[dict[str, Any]]:
        """The models that the endpoint lists, at least one. Raises ServerError, with what to do, where the key is
        refused, and of the kind NoListError where the answer is no list of models, or it is empty."""
        response = self._ask("GET", url_of(self.endpoint, "/models"))
        if response.status_code == 401:
            raise self._refused(response)
        if (meaning := _MEANING.get(response.status_code)) is not None:
            said = f"HTTP {response.status_code} ({meaning}); try again in a while"
            raise ServerError(f"{self.endpoint}: the server answers GET /models by {said}")
        try:
            models = _listed_models(self._data(response))
            names = [model["id"] for model in models]
            if not all(isinstance(name, str) and name.isprintable() and len(name) <= LONGEST_ID for name in names):
                raise ValueError("the id of a model is no printable text of usual length")
        except (KeyError, TypeError, ValueError):
            if response.status_code == 403:
                raise NoListError(str(self._refused(response)), f"HTTP 403: {self._reason(response)}") from None
            kind = self._mask(response.headers.get("content-type", "no content type"))
            said = f"HTTP {response.status_code}, {clean_text(kind.split(';')[0], 80)}"
            if 300 <= response.status_code < 400:
                said += f": {self._reason(response)}"
            raise NoListError(
                f"{self.endpoint}: not an OpenAI-compatible endpoint (GET /models gave {said}); {self.path_hint}; "
                "where a server has no list of models, give the model by --model",
                said,
            ) from None
        if not names:
            raise NoListError(
                f"{self.endpoint}: the server lists no model; start one that serves a model, or give the name of a "
                "model by --model",
                "an empty list",
            )
        if any(MASKED in name for name in names):
            raise ServerError(
                f"{self.endpoint}: the server lists a model whose name holds the API key; such a name would stand in "
                "every row, so use another key or another name"
            )
        return models

    def choose(self, wanted: Sequence[str | None], *, answers: bool = False) -> dict[str, Any]:
        """The entry of the first wanted model that is served; without wanted names, the only model that is served.

        Where the endpoint has no list of models, or one that leaves the wanted model out although chat requests reach
        it (or `answers` says so), an entry with the name alone. Raises ServerError where none of them is served, or
        where none is given and several models are.
        """
        names = [name for name in wanted if name]
        try:
            models = {model["id"]: model for model in self.models()}
        except NoListError as error:
            if not names:
                raise
            self.unlisted = f"its list of models could not be read (GET /models gave {error.why})"
            return {"id": names[0]}
        for name in names:
            if (known := find_spelling(name, models)) is not None:
                return models[known]
        if names:
            if answers or any("*" in name for name in models) or self._answers_as(names[0], models):
                self.unlisted = "its list of models leaves the model out"
                return {"id": names[0]}
            wrong, _, _ = one_of("model", names[0], list(models)[:1000]).partition("Known: ")
            raise ServerError(f"{self.endpoint}: {wrong}Served there: {format_models(sorted(models))}")
        if len(models) > 1:
            raise ServerError(
                f"{self.endpoint}: serves several models; name one by --model (MODEL=): {format_models(list(models))}"
            )
        return next(iter(models.values()))

    def _answers_as(self, name: str, listed: Collection[str]) -> bool:
        """Whether chat requests reach a model that is not listed: they are answered for that name, by none of those
        that are listed, and not for any name whatever."""
        with contextlib.suppress(ServerError):
            for most in ({"max_tokens": 1}, {"max_completion_tokens": 16}):
                body = {"messages": _BEGUN[:1], **most}
                reply, _ = self.exchange({**body, "model": name})
                if http_code(reply.status) is None:
                    another = reply.model in listed
                    return not another and http_code(self.exchange({**body, "model": _NO_MODEL})[0].status) is not None
        return False

    @property
    def path_hint(self) -> str:
        """What may be wrong with an address at which there is nothing."""
        whole = self.endpoint.partition("?")[0].endswith("/v1")
        return "check the base URL and its path" if whole else "a base URL usually ends in /v1"

    def served(self, model: str) -> str:
        """The models that the endpoint lists, as the end of a sentence on one that it refuses; "" where it has no list,
        or where that holds the model."""
        with contextlib.suppress(ServerError):
            if model not in (names := [one["id"] for one in self.models()]):
                return f"; served there: {format_models(sorted(names))}"
        return ""

    def version(self) -> str | None:
        told = self._told("version", "GET", "/version")
        return clean_text(told, LONGEST_TOLD) if isinstance(told, str) and told else None

    def _told(self, name: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """A field of what the server tells at one of its own addresses, without the key; None where it does not."""
        with contextlib.suppress(ServerError, ValueError, KeyError, TypeError):
            response = self._ask(method, url_of(self.root, path), body)
            return self._data(response)[name] if response.status_code == 200 else None
        return None

    def exchange(self, body: Mapping[str, Any]) -> tuple[Reply, Any]:
        """The reply to a chat request that is sent as it is, and its body as data (None where it is no JSON), without
        the key. Raises ServerError where no whole response comes."""
        response = self._ask("POST", url_of(self.endpoint, "/chat/completions"), body)
        reply = read_reply(response.status_code, response.content)
        if response.status_code != 200:
            reply.error = self._reason(response)
        redact_reply(reply, self._mask)
        return reply, self._mask.redact_json(_parse(response))

    def _reason(self, response: httpx.Response) -> str:
        if 300 <= response.status_code < 400:
            return self._mask(explain_redirect(str(response.request.url), response.headers.get("location")))
        data = _parse(response)
        reason = describe_page(response.content) or response.text if data is None else error_text(data)
        return clean_text(" ".join(self._mask(reason).split()), LONGEST_TOLD)

    def _count(self, body: Mapping[str, Any]) -> int | None:
        count = self._told("count", "POST", "/tokenize", body)
        return count if type(count) is int and 0 <= count < MOST_TOKENS else None

    def count_prompt_tokens(
        self, model: str, messages: Sequence[dict[str, str]], extra: Mapping[str, Any] | None = None
    ) -> int | None:
        """The length in tokens of the prompt that the messages make, or None where the server cannot count it. extra:
        fields of the request; those for the chat template change the prompt."""
        body: dict[str, Any] = {"model": model, "messages": list(messages), "add_generation_prompt": True}
        if extra and "chat_template_kwargs" in extra:
            body["chat_template_kwargs"] = extra["chat_template_kwargs"]
        return self._count(body)

    def check_context(
        self,
        model: str,
        limit: int | None,
        prompts: Iterable[tuple[str, str, Sequence[dict[str, str]], int]],
        extra: Mapping[str, Any] | None = None,
    ) -> int | None:
        """Check that the longest prompts and their replies fit into the context of the server, whose tokens are
        `limit`.

        prompts: tuples of item, strategy, messages and the most tokens of the reply; the CHECKED_PROMPTS longest are
        counted. Returns the length of the longest prompt in tokens, or None where the server tells no limit or does not
        count tokens. Raises ConfigError where a prompt does not fit.
        """
        if limit is None:
            return None

        def size(prompt: tuple[str, str, Sequence[dict[str, str]], int]) -> int:  # roughly; the server's count decides
            return sum(estimate_tokens(message["content"]) for message in prompt[2]) + prompt[3]

        longest: int | None = None
        other = " or --thinking" if extra and "thinking_token_budget" in extra else ""
        for item, strategy, messages, reply in heapq.nlargest(CHECKED_PROMPTS, prompts, key=size):
            count = self.count_prompt_tokens(model, messages, extra)
            if count is None:
                return None
            longest = max(longest or 0, count)
            if count + reply > limit:
                raise ConfigError(
                    f"item {item!r}, strategy {strategy!r}: {count} prompt tokens + {reply} for the reply exceed the "
                    f"context of {limit} tokens; serve with a longer --max-model-len, or lower --max-tokens{other}"
                )
        return longest

    def describe_cut(
        self, model: str, messages: Sequence[dict[str, str]], extra: Mapping[str, Any] | None = None
    ) -> str:
        """What to say where the server cuts that prompt off without a word, as a reply of one token shows; else ""."""
        body = {"model": model, "messages": list(messages), "temperature": 0, **(extra or {}), "max_tokens": 1}
        seen = Truncation()
        with contextlib.suppress(ServerError, ValueError, KeyError, TypeError):
            if tokens := (self.exchange(body)[0].usage or {}).get("prompt"):
                seen.add("".join(message["content"] for message in messages), tokens)
        return describe_truncation(seen.summarize())


def _parse(response: httpx.Response) -> Any:
    try:
        return read_json(response.content)
    except ValueError:
        return None


def format_models(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


CHOICE_FIELDS: Mapping[str, Callable[[Sequence[str]], dict[str, Any]]] = {
    "structured_outputs": lambda texts: {"structured_outputs": {"choice": list(texts)}},
    "guided_choice": lambda texts: {"guided_choice": list(texts)},
}
"""How a reply is held to one of several texts, by the name of the field: of vLLM, and of vLLM before 0.12."""

_BEGUN = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello"}]
_CONTINUED = {"continue_final_message": True, "add_generation_prompt": False}
"""Messages whose last is a begun reply, and the fields by which vLLM continues it."""

UNLIKELY = "zqxj vwkp"  # A text that no model says by itself


class PrefillProbe(Probe):
    """Asks one endpoint about replies that are begun for it; made as a Probe is."""

    def explain_no_prefill(self, model: str, extra: Mapping[str, Any] | None = None) -> str | None:
        """Why the server does not continue a reply that is begun for the model (vLLM's ``continue_final_message``), in
        a few words; None where it does.

        A server may refuse the fields, and another one takes them without a word and begins a new reply; the latter is
        told by the tokens of the prompt, of which a begun reply has fewer than one that is over. Raises ServerError
        where it has no time or is broken, since that says nothing about what it can do.
        """
        body = {**(extra or {}), "model": model, "messages": _BEGUN, "temperature": 0, "max_tokens": 1}
        counts: list[int] = []
        for one in ({**body, **_CONTINUED}, body):
            refused, reply = self._small(one)
            if refused is not None:
                return f"it refuses the request, {refused}" if not counts else f"it refuses another one, {refused}"
            try:
                counts.append(int(reply["usage"]["prompt_tokens"]))
            except (ValueError, KeyError, TypeError, OverflowError):
                return "it does not tell how many tokens a prompt has"
        begun, over = counts
        return None if begun < over else "it begins a new reply"

    def _small(self, body: Mapping[str, Any]) -> tuple[str | None, Any]:
        """The reply to a small chat request, as data: why it was refused (None where it was not), and what came. Raises
        ServerError where the server has no time for it, or is broken."""
        response = self._chat(body)
        code = response.status_code
        if code == 429 or code >= 500:
            raise ServerError(
                f"{self.endpoint}: a small chat request gave HTTP {code}: {self._reason(response) or 'no reason'}; try "
                "again when it has time"
            )
        if code != 200:
            return f"HTTP {code}: {self._reason(response)}", None
        return None, _parse(response)

    def choice_field(self, model: str, extra: Mapping[str, Any] | None = None) -> str | None:
        """The name of the field that holds a continued reply to a list of texts, None where the server knows none. A
        server that takes the field without a word is found out by a text that no model would say by itself."""
        body = {**(extra or {}), "model": model, "messages": _BEGUN, "temperature": 0, "max_tokens": 16, **_CONTINUED}
        for name, value in CHOICE_FIELDS.items():
            _, reply = self._small({**body, **value([UNLIKELY])})
            with contextlib.suppress(KeyError, TypeError, IndexError):
                if UNLIKELY in reply["choices"][0]["message"]["content"]:
                    return name
        return None

    def explain_chat_refusal(self, body: Mapping[str, Any]) -> str | None:
        """Why the server refuses a chat request, in its own words; None where it takes it."""
        return self._small({**body, "max_tokens": 1})[0]

    def count_text_tokens(self, model: str, text: str) -> int | None:
        """The length of a text in tokens, or None where the server cannot count it."""
        return self._count({"model": model, "prompt": text, "add_special_tokens": False})
