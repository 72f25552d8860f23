"""How a model is talked to, read from its files: chat template, system role, thinking, and what ends a reply."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tomserve.serving import install
from tomserve.serving.checkpoint import PARSERS, read_chat_format

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
ASKS = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
DEEPSEEK = "{% if thinking %}<think>{% else %}</think>{% endif %}"
SWITCH = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"


def folder_of(folder: Path, template: str | None, kind: str = "llama", **files: Any) -> Path:
    """A folder with a chat template, a config.json of that `model_type`, and further JSON files."""
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    for name, value in {"config": {"model_type": kind}, **files}.items():
        (folder / f"{name}.json").write_bytes(orjson.dumps(value))
    return folder


@pytest.mark.parametrize(
    ("template", "knows"),
    [
        ("{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ messages }}", False),
        ("{{ messages[-1].content }}", False),
        (CHATML + ASKS, True),
        ("{% generation %}{% endgeneration %}{% for m in messages %}{{ bos_token + m.content }}{% endfor %}", True),
        ("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% endfor %}", False),
        ("{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m['content'] }}{% endfor %}", True),
    ],
)
def test_the_system_role_is_found_by_rendering(template: str, knows: bool, tmp_path: Path) -> None:
    chat = read_chat_format(folder_of(tmp_path, template))
    assert (chat.template, chat.system_role, chat.remarks) == ("chat_template.jinja", knows, ())
    assert (chat.reasoning, chat.request, chat.stop) == (None, None, ())


@pytest.mark.parametrize("template", ["{% for %}", "{{ missing.field.of_it }}", "{{ ''.__class__.__mro__ }}{{ 1/0 }}"])
def test_a_template_that_fails_is_said(template: str, tmp_path: Path) -> None:
    chat = read_chat_format(folder_of(tmp_path, template))
    assert chat.system_role
    assert "could not be rendered" in chat.remarks[0]


@pytest.mark.parametrize(
    ("kind", "template", "parser", "enforced", "switch"),
    [
        ("qwen3", CHATML + ASKS + SWITCH, "qwen3", True, "enable_thinking"),
        ("unheard_of", CHATML + ASKS + SWITCH, "qwen3", True, "enable_thinking"),
        ("glm4_moe", CHATML + ASKS + SWITCH, "glm45", False, "enable_thinking"),
        ("deepseek_v3", CHATML + DEEPSEEK, "deepseek_v3", None, "thinking"),
        ("llama", CHATML + ASKS + "<think>\n", "deepseek_r1", True, None),  # a thought that the template opens
        ("gpt_oss", None, "openai_gptoss", False, None),  # with or without a template
    ],
)
def test_thinking(
    kind: str, template: str | None, parser: str, enforced: bool | None, switch: str | None, tmp_path: Path
) -> None:
    reasoning = read_chat_format(folder_of(tmp_path, template, kind)).reasoning
    assert reasoning.parser == parser
    assert enforced in (None, reasoning.enforced)
    if switch is not None:
        assert reasoning.enable == {"chat_template_kwargs": {switch: True}}
        assert reasoning.disable == {"chat_template_kwargs": {switch: False}}
    elif kind != "gpt_oss":
        assert reasoning.disable is None


@pytest.mark.parametrize(
    "template",
    [
        CHATML + ASKS + "{% set x = 'a</think>b'.split('</think>') %}",
        "{% set enable_thinking = 1 %}" + CHATML + "{{ enable_thinking }}</think>",
    ],
)
def test_a_template_without_a_switch_is_not_taken_for_thinking(template: str, tmp_path: Path) -> None:
    """A parser of thoughts would take every answer of a model that does not think for a thought."""
    chat = read_chat_format(folder_of(tmp_path, template))
    assert chat.reasoning is None
    assert "neither opens a thought nor has a switch" in chat.remarks[0]


def test_a_switch_whose_marks_are_unknown_is_switched_off(tmp_path: Path) -> None:
    chat = read_chat_format(folder_of(tmp_path, CHATML + "{% if enable_thinking %}[[ponder]]{% endif %}"))
    assert chat.reasoning is None
    assert chat.request == {"chat_template_kwargs": {"enable_thinking": False}}
    assert "switched off" in chat.remarks[0]


def test_where_templates_stand(tmp_path: Path) -> None:
    several = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": CHATML}]
    folder_of(tmp_path, None, tokenizer_config={"chat_template": several})
    assert read_chat_format(tmp_path).template == "tokenizer_config.json: chat_template"
    folder_of(tmp_path, None, tokenizer_config={"chat_template": [{"name": "tool_use", "template": "t"}]})
    assert read_chat_format(tmp_path).template is None
    folder_of(tmp_path, None, chat_template={"chat_template": CHATML})
    assert read_chat_format(tmp_path).template == "chat_template.json: chat_template"


LLAMA3 = {
    "eos_token": "<|end_of_text|>",
    "added_tokens_decoder": {"1": {"content": "<|end_of_text|>"}, "9": {"content": "<|eot_id|>"}},
}


NAMED = [{"id": 9, "content": "<|eot_id|>"}, {"id": 1, "content": "<|end_of_text|>"}]


@pytest.mark.parametrize(
    ("ends", "files", "stop", "request_fields"),
    [
        ([1, 9], {"tokenizer_config": LLAMA3}, ("<|eot_id|>",), None),
        (1, {"tokenizer_config": LLAMA3}, (), None),
        (9, {"tokenizer_config": LLAMA3}, ("<|eot_id|>",), None),
        ([1, 9], {}, (), {"stop_token_ids": [1, 9]}),
        (9, {}, (), None),
        (["x", None, -1], {}, (), None),
        (
            [1, 9],
            {"tokenizer_config": {"eos_token": NAMED[1]}, "tokenizer": {"added_tokens": NAMED}},
            ("<|eot_id|>",),
            None,
        ),
    ],
)
def test_what_ends_a_reply(
    ends: Any, files: dict[str, Any], stop: tuple[str, ...], request_fields: dict[str, Any] | None, tmp_path: Path
) -> None:
    chat = read_chat_format(folder_of(tmp_path, CHATML, generation_config={"eos_token_id": ends}, **files))
    assert (chat.stop, chat.request) == (stop, request_fields)


@pytest.mark.skipif(install.installed_engine() is None, reason="vLLM is not installed (`make test` installs it)")
def test_vllm_has_the_parsers() -> None:
    import importlib.util

    vllm = importlib.util.find_spec("vllm")
    assert vllm.origin is not None
    listed = (Path(vllm.origin).parent / "reasoning/__init__.py").read_text("utf-8")
    names = set(re.findall(r'^    "(\w+)": \(', listed, re.M))
    assert {*PARSERS.values(), "deepseek_r1", "openai_gptoss"} <= names
    assert install.supports_architecture("LlamaForCausalLM")
    assert install.supports_architecture("NobodysForCausalLM") is False
