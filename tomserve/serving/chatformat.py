"""Finds out from the files of a model how it is talked to: its chat template, system role, thinking and end of reply.

The template is rendered once or twice in Jinja's sandbox, as vLLM renders it for every request; nothing else of the
model is run. What a template does not show for sure is not assumed: a model wrongly taken for one that thinks would
give all of its answers as thoughts.

>>> read_chat(Path("launch/reference/model")).system_role                          # doctest: +SKIP
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.sandbox

from tomserve.scoring.thoughts import THINK
from tomserve.serving.checkpoint import Json, json_object
from tomserve.serving.presets import Reasoning

SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates switch thinking on and off, set by a request's chat_template_kwargs."""
PARSERS = {
    "qwen3": "qwen3",
    "glm4_moe": "glm45",
    "deepseek_v3": "deepseek_v3",
    "nemotron": "nemotron_v3",
    "seed_oss": "seed_oss",
    "ernie4_5": "ernie45",
    "hunyuan": "hunyuan_a13b",
    "granite": "granite",
    "minimax": "minimax_m2",
    "olmo3": "olmo3",
    "kimi": "kimi_k2",
    "mimo": "mimo",
    "gemma4": "gemma4",
}
"""vLLM's --reasoning-parser by the beginning of `model_type`, for families with marks of their own."""
ENFORCED = ("qwen3", "deepseek_r1")
"""Parsers for which vLLM is known to end thinking at a number of tokens (tests/serving/test_presets.py shows it)."""

_SYSTEM, _USER = "sentinel-of-the-system", "sentinel-of-the-user"
_GENERATION = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")
"""Marks in templates that only training needs, and that Jinja does not know."""


@dataclass(frozen=True)
class Chat:
    """How a model is talked to.

    template: where its chat template stands, as ``file: field``; None where it has none. system_role: whether the
    template has a system message. reasoning: how it thinks; None where it does not, as far as the files show. request:
    fields that every request needs. stop: strings that end a reply besides the tokenizer's own end. sources: for each
    of these fields where it comes from. remarks: what the user should know.
    """

    template: str | None = None
    system_role: bool = True
    reasoning: Reasoning | None = None
    request: Mapping[str, Any] | None = None
    stop: tuple[str, ...] = ()
    sources: Mapping[str, str] | None = None
    remarks: tuple[str, ...] = ()


def read_chat(folder: Path) -> Chat:
    """How the model in that folder is talked to, by its tokenizer and generation files."""
    config = json_object(folder / "config.json") or {}
    tokenizer = json_object(folder / "tokenizer_config.json") or {}
    text, where = _template(folder, tokenizer)
    sources: dict[str, str] = {}
    request, stop = _ends(folder, config, tokenizer, sources)
    if config.get("model_type") == "gpt_oss":  # vLLM renders its prompts itself, whatever template there is
        thinking = Reasoning(parser="openai_gptoss", enforced=False, enable={"reasoning_effort": "medium"})
        sources["reasoning"] = "config.json: model_type gpt_oss"
        return Chat(where or None, True, thinking, request or None, stop, sources)
    if text is None:
        return Chat(request=request or None, stop=stop, sources=sources)
    remarks: list[str] = []
    special = {name: _token(tokenizer.get(name)) for name in ("bos_token", "eos_token")}
    system_role, opened = _render(text, special, remarks)
    sources["system_role"] = f"{where}, rendered with a system message"
    reasoning, why = _reasoning(text, str(config.get("model_type", "")), opened)
    if reasoning is not None:
        sources["reasoning"] = f"{where}: {why}"
    elif why:
        remarks.append(f"Thinking: {why}.")
        if (switch := _switch(text)) is not None:
            request |= {"chat_template_kwargs": {switch: False}}
            sources["request"] = f"{where}: {switch}"
    return Chat(where, system_role, reasoning, request or None, stop, sources, tuple(remarks))


def _template(folder: Path, tokenizer: Json) -> tuple[str | None, str]:
    """The text of the chat template and where it stands, in the order in which transformers looks for it."""
    try:
        return (folder / "chat_template.jinja").read_text("utf-8"), "chat_template.jinja"
    except (OSError, UnicodeDecodeError):
        pass
    for name, parsed in (
        ("tokenizer_config.json", tokenizer),
        ("chat_template.json", json_object(folder / "chat_template.json") or {}),
    ):
        found = parsed.get("chat_template")
        if isinstance(found, list):  # several templates, each with a name
            named = {one.get("name"): one.get("template") for one in found if isinstance(one, Mapping)}
            found = named.get("default")
        if isinstance(found, str):
            return found, f"{name}: chat_template"
    return None, ""


def _environment() -> jinja2.Environment:
    """A sandbox with what chat templates may use, as transformers' documentation on chat templates lists it."""

    def raise_exception(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    made.globals |= {"raise_exception": raise_exception, "strftime_now": lambda form: "1 January 2025"}
    return made


def _render(text: str, special: Mapping[str, str], remarks: list[str]) -> tuple[bool, bool]:
    """Whether the template has a system message, and whether it opens a thought for the model before the reply."""
    user = {"role": "user", "content": _USER}

    def rendered(*messages: dict[str, str]) -> str | None:
        try:
            template = _environment().from_string(_GENERATION.sub("", text))
            return template.render(messages=messages, add_generation_prompt=True, tools=None, **special)
        except Exception:  # a template may fail in any way that an expression can
            return None

    alone = rendered(user)
    if alone is None:
        remarks.append("The chat template could not be rendered here; that it knows a system message is assumed.")
        return True, False
    both = rendered({"role": "system", "content": _SYSTEM}, user)
    return both is not None and _SYSTEM in both and _USER in both, alone.rstrip().endswith(THINK[0])


def _switch(text: str) -> str | None:
    """The variable by which the template switches thinking, or None where it has none."""
    try:
        free = jinja2.meta.find_undeclared_variables(_environment().parse(_GENERATION.sub("", text)))
    except jinja2.TemplateError:
        free = {name for name in SWITCHES if re.search(rf"\b{name}\b", text)}
    return next((name for name in SWITCHES if name in free), None)


def _reasoning(text: str, kind: str, opened: bool) -> tuple[Reasoning | None, str]:
    """How the model thinks and what shows it; without a Reasoning, why it is taken not to think, or "".

    text: the chat template. kind: `model_type` of config.json. opened: whether the template ends in an open thought.
    """
    switch = _switch(text)
    known = next((parser for start, parser in PARSERS.items() if kind.startswith(start)), None)
    if switch is not None:
        marked = any(mark in text for mark in THINK)
        parser = known or ("qwen3" if marked and switch == "enable_thinking" else None)
        if parser is None:
            return None, f"its template has a switch `{switch}`, but not how thoughts are marked; it is switched off"
        on, off = ({"chat_template_kwargs": {switch: value}} for value in (True, False))
        return Reasoning(parser=parser, enforced=parser in ENFORCED, enable=on, disable=off), switch
    if opened:
        parser = known if known not in (None, "deepseek_v3") else "deepseek_r1"
        return Reasoning(parser=parser, enforced=parser in ENFORCED), "its prompt ends in <think>"
    if THINK[1] in text:
        return None, (
            "its template mentions <think>, but neither opens a thought nor has a switch, so the model is taken not to "
            "think; if it does, save the preset and add `reasoning: {parser: deepseek_r1}`"
        )
    return None, ""


def _ends(
    folder: Path, config: Json, tokenizer: Json, sources: dict[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Tokens that end a reply besides the tokenizer's own: as fields of the request, or as stop strings.

    vLLM is told not to read generation_config.json, which may also change the sampling, so these have to be stated.
    """
    generation = json_object(folder / "generation_config.json") or {}
    ids: dict[int, str] = {}
    for name, parsed in (("generation_config.json", generation), ("config.json", config)):
        found = parsed.get("eos_token_id")
        for one in found if isinstance(found, list) else [found]:
            if type(one) is int and one >= 0:
                ids.setdefault(one, f"{name}: eos_token_id")
    texts = _texts(folder, tokenizer)
    own = _token(tokenizer.get("eos_token"))
    # A model with a single end has the one that the tokenizer names, where nothing tells the numbers of its tokens.
    told = len(ids) > 1 or own in texts.values()
    others = {one: where for one, where in ids.items() if told and texts.get(one) != own}
    named = tuple(texts[one] for one in others if one in texts)
    numbers = [one for one in others if one not in texts]
    if named:
        sources["stop"] = next(where for one, where in others.items() if one in texts)
    if numbers:
        sources["request"] = next(where for one, where in others.items() if one not in texts)
    return ({"stop_token_ids": numbers} if numbers else {}), named


def _texts(folder: Path, tokenizer: Json) -> dict[int, str]:
    """The special tokens by their number, from tokenizer_config.json or, where it is on disk, tokenizer.json."""
    found: dict[int, str] = {}
    decoder = tokenizer.get("added_tokens_decoder")
    for number, token in decoder.items() if isinstance(decoder, Mapping) else ():
        if str(number).isdigit():
            found[int(number)] = _token(token)
    added = (json_object(folder / "tokenizer.json") or {}).get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, Mapping) and type(token.get("id")) is int:
            found.setdefault(token["id"], _token(token))
    return {number: text for number, text in found.items() if text}


def _token(value: Any) -> str:
    """The text of a token, which is written as it is or as an object with `content`."""
    value = value.get("content") if isinstance(value, Mapping) else value
    return value if isinstance(value, str) else ""
