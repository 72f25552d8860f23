"""Our own chat templates, token by token against the documented formats. None of them needs a model."""

import functools
from typing import Any

import pytest

from tests.conftest import make_item
from tests.helpers import checkpoints
from tests.helpers.checkpoints import family_of, template_of
from tests.serving.odd_vocabularies import FAMILIES
from tomserve import content
from tomserve.prompting.strategy import Strategy
from tomserve.serving import install
from tomserve.serving.command import template_file
from tomserve.serving.presets import Preset

needs_transformers = pytest.mark.skipif(
    install.installed_engine() is None, reason="transformers comes with vLLM (`make test` installs it)"
)

OWN = ("gemma2-27b", "mixtral-8x7b", "vicuna-33b")
SYSTEM, FIRST, REPLY, SECOND = "Be brief.", "What is tea? {{ 7 * 7 }}", "A drink.", "And salt?"
TALK = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": FIRST},
    {"role": "assistant", "content": REPLY},
    {"role": "user", "content": SECOND},
]


@functools.cache
def fast_of(preset: str) -> Any:
    return checkpoints.tokenizer(family_of(preset))


def source(preset: str) -> str:
    """The text of the template that the preset is served with, or of the tests' stand-in for its repository's template."""
    own = template_file(Preset.load(preset))
    return own.read_text("utf-8") if own else str(template_of(family_of(preset)))


def ids(fast: Any, *parts: str) -> list[int]:
    """The token ids of a prompt put together by hand; parts that are special tokens are looked up, the rest is encoded."""
    known = set(fast.all_special_tokens) | set(fast.added_tokens_encoder)
    return [
        number
        for part in parts
        for number in (
            [fast.convert_tokens_to_ids(part)] if part in known else fast.encode(part, add_special_tokens=False)
        )
    ]


def rendered(fast: Any, messages: Any, template: str, **more: Any) -> list[int]:
    return fast.apply_chat_template(
        messages, chat_template=template, tokenize=True, return_dict=False, add_generation_prompt=True, **more
    )


TURN = "<start_of_turn>", "<end_of_turn>"
HEAD = "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"
IM = "<|im_start|>", "<|im_end|>"
CHATML = (
    *(IM[0], f"system\n{SYSTEM}", IM[1], "\n", IM[0], f"user\n{FIRST}", IM[1], "\n"),
    *(IM[0], f"assistant\n{REPLY}", IM[1], "\n", IM[0], f"user\n{SECOND}", IM[1], "\n", IM[0], "assistant\n"),
)
DOCUMENTED = {
    "vicuna-33b": ("<s>", f"{SYSTEM} USER: {FIRST} ASSISTANT: {REPLY}", "</s>", f"USER: {SECOND} ASSISTANT:"),
    "mixtral-8x7b": ("<s>", f"[INST] {SYSTEM}\n\n{FIRST} [/INST] {REPLY}", "</s>", f"[INST] {SECOND} [/INST]"),
    "gemma2-27b": (
        *("<bos>", TURN[0], f"user\n{SYSTEM}\n\n{FIRST}", TURN[1], "\n", TURN[0], f"model\n{REPLY}", TURN[1], "\n"),
        *(TURN[0], f"user\n{SECOND}", TURN[1], "\n", TURN[0], "model\n"),
    ),
    "llama2-70b": (
        *("<s>", f"[INST] <<SYS>>\n{SYSTEM}\n<</SYS>>\n\n{FIRST} [/INST] {REPLY} ", "</s>"),
        *("<s>", f"[INST] {SECOND} [/INST]"),
    ),
    "llama3-70b": (
        *("<|begin_of_text|>", HEAD[0], "system", HEAD[1], f"\n\n{SYSTEM}", HEAD[2]),
        *(HEAD[0], "user", HEAD[1], f"\n\n{FIRST}", HEAD[2], HEAD[0], "assistant", HEAD[1], f"\n\n{REPLY}", HEAD[2]),
        *(HEAD[0], "user", HEAD[1], f"\n\n{SECOND}", HEAD[2], HEAD[0], "assistant", HEAD[1], "\n\n"),
    ),
    "yi-34b": CHATML,
    "qwen2.5-72b": CHATML,
    "qwen3-8b": CHATML,
    "dbrx": CHATML,
}


@needs_transformers
@pytest.mark.parametrize("preset", DOCUMENTED)
def test_a_conversation_comes_out_as_documented(preset: str) -> None:
    fast = fast_of(preset)
    found = rendered(fast, TALK, source(preset))
    assert found == ids(fast, *DOCUMENTED[preset])
    if fast.bos_token and preset not in ("llama2-70b", "yi-34b"):  # one per exchange; none in ChatML
        assert found.count(fast.bos_token_id) == 1


@needs_transformers
@pytest.mark.parametrize("preset", OWN)
@pytest.mark.parametrize(
    "roles",
    [("user", "user"), ("assistant",), ("system", "assistant"), ("user", "system"), ("system", "system"), ("tool",)],
)
def test_roles_that_do_not_alternate_are_refused(preset: str, roles: tuple[str, ...]) -> None:
    import jinja2

    with pytest.raises(jinja2.TemplateError, match="roles must alternate"):
        rendered(fast_of(preset), [{"role": role, "content": "Hello."} for role in roles], source(preset))


ITEM = make_item(factors={"kind": "paraphrase", "hint": "user", "label": "tea"})
"""An item that every prompt can be made of: that of a rewriter needs to know what is to be changed, that of a reader of
hints what was hinted at."""


@needs_transformers
@pytest.mark.parametrize("preset", [name for name in OWN if not Preset.load(name).system_role])
def test_the_template_folds_a_system_text_as_the_client_does(preset: str) -> None:
    """This way it makes no difference whether a client knows that the model has no system role."""
    fast = fast_of(preset)
    for strategy in content.names("prompts", "/strategy.yaml"):
        messages = [list(Strategy.load(strategy, system_role=role).turn(ITEM).messages) for role in (True, False)]
        assert rendered(fast, messages[0], source(preset)) == rendered(fast, messages[1], source(preset)), strategy


@needs_transformers
def test_dbrx_never_gets_a_system_prompt_of_its_own() -> None:
    fast, default = fast_of("dbrx"), "You are DBRX"
    assert default in fast.decode(rendered(fast, TALK[1:], source("dbrx")))
    for strategy in content.names("prompts", "/strategy.yaml"):
        asked = Strategy.load(strategy, system_role=Preset.load("dbrx").system_role).turn(ITEM).messages
        assert default not in fast.decode(rendered(fast, list(asked), source("dbrx"))), strategy


@needs_transformers
def test_qwen3_opens_a_reply_as_it_is_told() -> None:
    preset, fast = Preset.load("qwen3-8b"), fast_of("qwen3-8b")

    def end(thinking: str) -> list[int]:
        return rendered(fast, TALK, source("qwen3-8b"), **preset.extra(thinking)["chat_template_kwargs"])

    assert end("off")[-6:] == ids(fast, "assistant\n", "<think>", "\n\n", "</think>", "\n\n")[-6:]
    assert ids(fast, "</think>")[0] not in end("on")


def test_every_preset_belongs_to_one_family() -> None:
    """A new preset must be given an architecture in tests/helpers/checkpoints.py, so that it is served in a test."""
    claimed = sorted(name for family in FAMILIES for name in family.presets)
    assert claimed == sorted(content.names("launch/models", ".yaml"))
