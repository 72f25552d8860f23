"""Finds out whether a server continues a reply that is begun for the model, and holds it to a list of texts.

with Continuing("http://localhost:8000/v1") as probe:
    probe.no_continuing("my-model"), probe.choice_field("my-model")
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tomserve.errors import ServerError
from tomserve.serving.probe import Probe

CHOICE_FIELDS: Mapping[str, Callable[[Sequence[str]], dict[str, Any]]] = {
    "structured_outputs": lambda texts: {"structured_outputs": {"choice": list(texts)}},
    "guided_choice": lambda texts: {"guided_choice": list(texts)},
}
"""How a reply is held to one of several texts, by the name of the field: of vLLM, and of vLLM before 0.12."""

_UNLIKELY = "zqxj vwkp"
"""A text that no model says by itself."""


class Continuing(Probe):
    """Asks one endpoint about replies that are begun for it; made as a Probe is."""

    def no_continuing(self, model: str, extra: Mapping[str, Any] | None = None) -> str | None:
        """Why the server does not continue a reply that is begun for the model (vLLM's ``continue_final_message``), in
        a few words; None where it does.

        model: the served name. extra: fields of every request. A server may refuse the fields, and another one takes
        them without a word and begins a new reply; the latter is told by the tokens of the prompt, of which a begun
        reply has fewer than one that is over. Where a server tells no tokens, it is not trusted to continue. Raises
        ServerError where it has no time or is broken, since that says nothing about what it can do.
        """
        messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello"}]
        body = {**(extra or {}), "model": model, "messages": messages, "temperature": 0, "max_tokens": 1}
        fields = {"continue_final_message": True, "add_generation_prompt": False}
        counts: list[int] = []
        for one in ({**body, **fields}, body):
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
        """The reply to a small chat request, as data: why it was refused (None where it was not), and what came.

        Raises ServerError where the server has no time for it, or is broken.
        """
        response = self._ask("POST", f"{self.endpoint}/chat/completions", body)
        code = response.status_code
        if code == 429 or code >= 500:
            raise ServerError(
                f"{self.endpoint}: a small chat request gave HTTP {code}: {self._reason(response) or 'no reason'}; try "
                "again when it has time"
            )
        if code != 200:
            return f"HTTP {code}: {self._reason(response)}", None
        try:
            return None, response.json()
        except ValueError:
            return None, None

    def choice_field(self, model: str, extra: Mapping[str, Any] | None = None) -> str | None:
        """The name of the field that holds a continued reply to a list of texts, None where the server knows none.

        model: the served name. extra: fields of every request. A server that takes the field without a word is found
        out by a text that no model would say by itself. Raises ServerError as `no_continuing` does.
        """
        messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello"}]
        fields = {"continue_final_message": True, "add_generation_prompt": False}
        body = {**(extra or {}), "model": model, "messages": messages, "temperature": 0, "max_tokens": 16, **fields}
        for name, value in CHOICE_FIELDS.items():
            _, reply = self._small({**body, **value([_UNLIKELY])})
            with contextlib.suppress(KeyError, TypeError, IndexError):
                if _UNLIKELY in reply["choices"][0]["message"]["content"]:
                    return name
        return None

    def refusal(self, body: Mapping[str, Any]) -> str | None:
        """Why the server refuses a chat request, in its own words; None where it takes it. body: the request, of which
        one token is asked for."""
        return self._small({**body, "max_tokens": 1})[0]

    def length(self, model: str, text: str) -> int | None:
        """The length of a text in tokens, or None where the server cannot count it. model: the served name."""
        return self._count({"model": model, "prompt": text, "add_special_tokens": False})
