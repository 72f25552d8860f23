"""Prompts run again with other states at their last token: every way gives what a full run with a hook gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.helpers.tiny_models import CONFIGS, LAYERS, VOCABULARY, WIDTH, WINDOW, tiny
from tomserve.causal.backend import Prompt
from tomserve.causal.hf import model as model_module
from tomserve.causal.hf.blocks import find, hidden_of
from tomserve.causal.hf.model import HfBackend
from tomserve.causal.hf.rerunning import METHODS, Method

CLOSE = 1e-5
"""Logits are of the order of 1 to 10; ways that group tokens otherwise round otherwise in float32."""
PROMPT = Prompt(tuple(np.random.default_rng(0).integers(3, VOCABULARY, 20).tolist()), (5, 6, 7, 8))
SHORT = Prompt(PROMPT.tokens[: WINDOW - 1], PROMPT.choices)


def by_hand(model: Any, prompt: Prompt, layer: int, state: np.ndarray) -> np.ndarray:
    """Logits [vocabulary] of a plain run of the whole prompt in which one state is replaced by a hook written here."""

    def replace(module: Any, inputs: Any, output: Any) -> Any:
        hidden = hidden_of(output).clone()
        hidden[:, -1] = torch.from_numpy(state).to(hidden)
        return hidden if isinstance(output, torch.Tensor) else (hidden, *output[1:])

    handle = find(model)[layer - 1].register_forward_hook(replace)
    try:
        with torch.inference_mode():
            return (
                model(torch.tensor([prompt.tokens], device=model.device), use_cache=False).logits[0, -1].cpu().numpy()
            )
    finally:
        handle.remove()


def moved(backend: HfBackend, prompt: Prompt, rows: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Layers [rows], in no order, and the states there, moved by about their own norm."""
    drawn = np.random.default_rng(3)
    layers = drawn.integers(1, LAYERS + 1, rows)
    layers[:LAYERS] = np.arange(LAYERS, 0, -1)
    states = backend.run([prompt]).states[0][layers - 1]
    return layers, states + drawn.standard_normal(states.shape).astype(np.float32) * states.std(axis=1, keepdims=True)


@pytest.mark.parametrize("prompt", [PROMPT, SHORT], ids=["beyond the window", "within it"])
@pytest.mark.parametrize("name", CONFIGS)
def test_every_way_gives_what_a_full_run_gives(name: str, prompt: Prompt, device: str) -> None:
    model = tiny(name, device=device)
    automatic = HfBackend(model, name=name)
    assert automatic.method == "stacked"  # of this architecture the fastest is known to work
    layers, states = moved(automatic, prompt)
    expected = np.stack(
        [by_hand(model, prompt, int(layer), state) for layer, state in zip(layers, states, strict=True)]
    )
    assert np.ptp(expected, axis=0).max() > 0.1  # what is replaced matters
    for method in METHODS:
        found = HfBackend(model, name=name, method=method).rerun(prompt, layers, states)
        assert np.abs(found.logits - expected[:, list(prompt.choices)]).max() < CLOSE, method
        assert found.top.tolist() == expected.argmax(axis=1).tolist(), method


@pytest.mark.parametrize("name", CONFIGS)
def test_the_unchanged_state_changes_nothing(name: str, device: str) -> None:
    backend = HfBackend(tiny(name, device=device), name=name)
    before = backend.run([PROMPT])
    after = backend.rerun(PROMPT, np.arange(1, LAYERS + 1), before.states[0])
    assert np.abs(after.logits - before.answers.logits).max() < CLOSE
    assert set(after.top.tolist()) == set(before.answers.top.tolist())


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_several_layers_are_the_same_as_calls_of_one(method: Method, device: str) -> None:
    backend = HfBackend(tiny("qwen3", device=device), name="qwen3", method=method)
    layers, states = moved(backend, PROMPT)
    together = backend.rerun(PROMPT, layers, states)
    for row in range(len(layers)):
        alone = backend.rerun(PROMPT, layers[row : row + 1], states[row : row + 1])
        assert np.abs(alone.logits[0] - together.logits[row]).max() < CLOSE


@pytest.mark.parametrize("method", METHODS)
def test_pieces_are_put_together_in_the_order_of_the_rows(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("llama")
    backend = HfBackend(model, name="llama", method=method)
    layers, states = moved(backend, PROMPT, 23)
    whole = backend.rerun(PROMPT, layers, states)
    for name, value in (("ROWS_CPU", 4), ("LENT_BYTES_CPU", 1), ("FEWEST_LENT", 4), ("TOKENS_CPU", 70)):
        monkeypatch.setattr(model_module, name, value)
    pieces = HfBackend(model, name="llama", method=method).rerun(PROMPT, layers, states)
    assert np.abs(pieces.logits - whole.logits).max() < CLOSE
    assert pieces.top.tolist() == whole.top.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_nothing_leaks_from_one_prompt_or_call_into_the_next(method: Method, device: str) -> None:
    backend = HfBackend(tiny("gemma3_text", device=device), name="gemma3_text", method=method)
    other = Prompt((*PROMPT.tokens[:-3], 11, 12), PROMPT.choices)
    layers, states = moved(backend, PROMPT)
    first = backend.rerun(PROMPT, layers, states)
    plain = backend.run([PROMPT, other])
    backend.rerun(other, layers, states)
    backend.rerun(PROMPT, layers[:3], states[:3] * 100)
    assert np.array_equal(backend.rerun(PROMPT, layers, states).logits, first.logits)
    assert np.array_equal(backend.run([PROMPT, other]).states, plain.states)
    fresh = HfBackend(tiny("gemma3_text", device=device), name="gemma3_text", method=method)
    assert np.array_equal(fresh.rerun(other, layers, states).logits, backend.rerun(other, layers, states).logits)


def test_the_prefix_of_the_last_prompt_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = HfBackend(tiny("llama"), name="llama")
    layers, states = moved(backend, PROMPT)
    lengths: list[int] = []
    handle = backend.model.model.embed_tokens.register_forward_hook(
        lambda module, inputs, output: lengths.append(inputs[0].shape[1])
    )
    again = Prompt(PROMPT.tokens, (9,))
    for prompt in (PROMPT, again, SHORT, PROMPT):
        backend.rerun(prompt, layers, states)
    handle.remove()
    prefixes = [length for length in lengths if length != len(layers)]
    assert prefixes == [len(PROMPT.tokens) - 1, len(SHORT.tokens) - 1, len(PROMPT.tokens) - 1]


def test_blocks_below_the_replaced_one_are_not_computed_and_come_back() -> None:
    model = tiny("llama")
    backend = HfBackend(model, name="llama")
    runs: list[int] = []
    for number, block in enumerate(find(model), 1):
        block.mlp.register_forward_hook(lambda module, inputs, output, number=number: runs.append(number))
    states = backend.run([PROMPT]).states[0]
    backend.rerun(PROMPT, np.array([LAYERS]), states[-1:])
    runs.clear()
    backend.rerun(PROMPT, np.array([3, 4]), states[2:])
    assert runs == [4]
    runs.clear()
    backend.run([PROMPT])
    assert runs == [1, 2, 3, 4]
    assert all("forward" not in vars(block) for block in find(model))


def test_a_prompt_of_one_token_has_no_prefix() -> None:
    model = tiny("llama")
    prompt = Prompt((7,), (5, 6))
    backend = HfBackend(model, name="llama")
    layers, states = moved(backend, prompt, 4)
    expected = [by_hand(model, prompt, int(layer), state)[[5, 6]] for layer, state in zip(layers, states, strict=True)]
    assert np.abs(backend.rerun(prompt, layers, states).logits - np.stack(expected)).max() < CLOSE


HYBRID = {"layer_types": ["conv", "full_attention", "conv", "full_attention"], "num_hidden_layers": LAYERS}


@pytest.mark.parametrize(
    ("kind", "fields", "method"),
    [
        ("BloomConfig", {"n_layer": LAYERS, "n_head": 4}, "batched"),  # its positions are told by the mask
        ("MambaConfig", {"num_hidden_layers": LAYERS, "state_size": 4}, "full"),
        ("Lfm2Config", {**HYBRID, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}, "full"),
    ],
)
def test_models_that_cannot_be_run_in_the_fast_way_are_run_in_the_next(
    kind: str, fields: dict[str, Any], method: Method, device: str
) -> None:
    torch.manual_seed(0)
    fields = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "initializer_range": 0.2, **fields}
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**fields)).eval().to(device)
    backend = HfBackend(model, name=kind)
    assert backend.method == method
    layers, states = moved(backend, PROMPT)
    expected = np.stack(
        [by_hand(model, PROMPT, int(layer), state) for layer, state in zip(layers, states, strict=True)]
    )
    found = backend.rerun(PROMPT, layers, states)
    assert np.abs(found.logits - expected[:, list(PROMPT.choices)]).max() < CLOSE


@pytest.mark.parametrize("name", ["llama", "mixtral"])
def test_half_precision_is_rerun_in_the_fast_way_and_answers_alike(name: str, device: str) -> None:
    model = tiny(name, "bfloat16", device=device)
    backend = HfBackend(model, name=name)
    assert backend.method == "stacked"
    layers, states = moved(backend, PROMPT)
    fast, full = (
        one.rerun(PROMPT, layers, states).logits for one in (backend, HfBackend(model, name=name, method="full"))
    )
    assert np.median(np.abs(fast - full)) < 0.05 * full.std()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_twice_is_the_same_bit_for_bit(dtype: str, device: str) -> None:
    backend = HfBackend(tiny("llama", dtype, device=device), name="llama")
    first, second = (backend.run([PROMPT, SHORT]) for _ in range(2))
    assert np.array_equal(first.states, second.states)
    layers, states = moved(backend, PROMPT, 200)
    one, other = (backend.rerun(PROMPT, layers, states).logits for _ in range(2))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["llama", "gemma3_text", "gpt2"])
def test_the_state_that_is_there_already_flips_nothing(name: str, dtype: str, device: str) -> None:
    backend = HfBackend(tiny(name, dtype, device=device), name=name)
    for prompt in (PROMPT, SHORT):
        before = backend.run([prompt])
        layers = np.repeat(np.arange(1, LAYERS + 1), 20)
        after = backend.rerun(prompt, layers, before.states[0][layers - 1])
        assert set(after.logits.argmax(axis=1)) == {before.answers.logits[0].argmax()}


def test_logits_in_half_precision_are_those_of_float64(device: str) -> None:
    """What the last matrix makes of the states that go into it, which are of half precision themselves."""
    model = tiny("llama", "bfloat16", device=device)
    backend = HfBackend(model, name="llama")
    seen: list[torch.Tensor] = []
    head = model.get_output_embeddings()
    head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    states = backend.run([PROMPT]).states[0]
    found = backend.rerun(PROMPT, np.arange(LAYERS) + 1, states).logits
    exact = (seen[-1].double() @ head.weight.double().T).reshape(LAYERS, -1)[:, list(PROMPT.choices)]
    assert np.abs(found - exact.cpu().numpy()).max() < 1e-5


@pytest.mark.parametrize(
    ("layers", "states", "told"),
    [
        ([1, 2], np.zeros((1, WIDTH)), r"states \[m, 32\]"),
        ([[1]], np.zeros((1, WIDTH)), r"layers \[m\]"),
        ([1], np.zeros((1, WIDTH - 1)), r"states \[m, 32\]"),
        ([0], np.zeros((1, WIDTH)), "layers from 1 to 4"),
        ([LAYERS + 1], np.zeros((1, WIDTH)), "layers from 1 to 4"),
        ([1], np.full((1, WIDTH), np.nan), "finite"),
    ],
)
def test_states_that_cannot_be_put_in_place(layers: list[Any], states: np.ndarray, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        HfBackend(tiny("llama"), name="llama").rerun(PROMPT, np.array(layers), states)


def test_no_states_give_no_answers() -> None:
    backend = HfBackend(tiny("llama"), name="llama")
    found = backend.rerun(PROMPT, np.zeros(0, np.int64), np.zeros((0, WIDTH), np.float32))
    assert found.logits.shape == (0, 4)
    assert found.top.shape == (0,)
