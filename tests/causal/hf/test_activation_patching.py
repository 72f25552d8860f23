"""Prompts run again with other states at their last token: every way gives what a full run with a hook gives."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.helpers.tiny_models import CONFIGS, LAYERS, VOCABULARY, WIDTH, WINDOW, tiny
from tomserve.causal.activations import Prompt
from tomserve.causal.hf import model as model_module
from tomserve.causal.hf.activation_patching import METHODS, Method
from tomserve.causal.hf.hooks import find_blocks, hidden_of
from tomserve.causal.hf.model import HfBackend

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

    handle = find_blocks(model)[layer - 1].register_forward_hook(replace)
    try:
        with torch.inference_mode():
            output = model(torch.tensor([prompt.tokens], device=model.device), use_cache=False)
            return output.logits[0, -1].cpu().numpy()
    finally:
        handle.remove()


def moved(backend: HfBackend, prompt: Prompt, rows: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Layers [rows], in no order, and the states there, moved by about their own norm."""
    drawn = np.random.default_rng(3)
    layers = drawn.integers(1, LAYERS + 1, rows)
    layers[:LAYERS] = np.arange(LAYERS, 0, -1)
    states = backend.run([prompt]).states[0][layers - 1]
    return layers, states + drawn.standard_normal(states.shape).astype(np.float32) * states.std(axis=1, keepdims=True)


def by_hand_all(model: Any, prompt: Prompt, layers: np.ndarray, states: np.ndarray) -> np.ndarray:
    return np.stack([by_hand(model, prompt, int(layer), state) for layer, state in zip(layers, states, strict=True)])


@pytest.mark.parametrize("name", CONFIGS)
def test_every_way_gives_what_a_full_run_gives(name: str, device: str) -> None:
    """Beyond a sliding window, within it, and without any prefix; the state that is there already changes nothing."""
    model = tiny(name, device=device)
    automatic = HfBackend(model, name=name)
    assert automatic.method == "stacked"  # of this architecture the fastest is known to work
    ways = {method: HfBackend(model, name=name, method=method) for method in METHODS}
    for prompt in (PROMPT, SHORT, Prompt((7,), PROMPT.choices)):
        layers, states = moved(automatic, prompt)
        expected = by_hand_all(model, prompt, layers, states)
        assert np.ptp(expected, axis=0).max() > 0.1  # what is replaced matters
        before = automatic.run([prompt])
        for method, backend in ways.items():
            found = backend.rerun(prompt, layers, states)
            assert np.abs(found.logits - expected[:, list(prompt.choices)]).max() < CLOSE, method
            assert found.top.tolist() == expected.argmax(axis=1).tolist(), method
            again = backend.rerun(prompt, np.arange(1, LAYERS + 1), before.states[0])
            assert np.abs(again.logits - before.answers.logits).max() < CLOSE, method
            assert set(again.top.tolist()) == set(before.answers.top.tolist()), method


@pytest.mark.parametrize("method", METHODS)
def test_rows_beyond_those_of_one_piece_are_their_own(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = HfBackend(tiny("llama"), name="llama", method=method)
    layers, states = moved(backend, PROMPT, 23)
    whole = backend.rerun(PROMPT, layers, states)
    for name, value in (("ROWS_CPU", 4), ("LENT_BYTES_CPU", 1), ("FEWEST_LENT", 4), ("TOKENS_CPU", 70)):
        monkeypatch.setattr(model_module, name, value)
    pieces = HfBackend(tiny("llama"), name="llama", method=method).rerun(PROMPT, layers, states)
    assert np.abs(pieces.logits - whole.logits).max() < CLOSE
    assert pieces.top.tolist() == whole.top.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_nothing_leaks_from_one_prompt_or_call_into_the_next(method: Method, device: str) -> None:
    backend = HfBackend(tiny("gemma3_text", device=device), name="gemma3_text", method=method)
    other = Prompt((*PROMPT.tokens[:-3], 11, 12), PROMPT.choices)
    layers, states = moved(backend, PROMPT)
    first, plain = backend.rerun(PROMPT, layers, states), backend.run([PROMPT, other])
    there = backend.rerun(other, layers, states)
    backend.rerun(PROMPT, layers[:3], states[:3] * 100)
    assert np.array_equal(backend.rerun(PROMPT, layers, states).logits, first.logits)
    assert np.array_equal(backend.run([PROMPT, other]).states, plain.states)
    fresh = HfBackend(tiny("gemma3_text", device=device), name="gemma3_text", method=method)
    assert np.array_equal(fresh.rerun(other, layers, states).logits, there.logits)


def test_blocks_below_the_replaced_one_are_not_computed_and_come_back() -> None:
    model = tiny("llama")
    backend = HfBackend(model, name="llama")
    runs: list[int] = []
    for number, block in enumerate(find_blocks(model), 1):
        block.mlp.register_forward_hook(lambda module, inputs, output, number=number: runs.append(number))
    states = backend.run([PROMPT]).states[0]
    backend.rerun(PROMPT, np.array([LAYERS]), states[-1:])
    runs.clear()
    backend.rerun(PROMPT, np.array([3, 4]), states[2:])
    assert runs == [4]
    runs.clear()
    backend.run([PROMPT])
    assert runs == [1, 2, 3, 4]
    assert all("forward" not in vars(block) for block in find_blocks(model))


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
    expected = by_hand_all(model, PROMPT, layers, states)[:, list(PROMPT.choices)]
    assert np.abs(backend.rerun(PROMPT, layers, states).logits - expected).max() < CLOSE


@pytest.mark.parametrize("name", ["llama", "mixtral"])
def test_half_precision_is_rerun_in_the_fast_way_and_answers_alike(name: str, device: str) -> None:
    model = tiny(name, "bfloat16", device=device)
    backend = HfBackend(model, name=name)
    assert backend.method == "stacked"
    layers, states = moved(backend, PROMPT)
    fast = backend.rerun(PROMPT, layers, states).logits
    full = HfBackend(model, name=name, method="full").rerun(PROMPT, layers, states).logits
    assert np.median(np.abs(fast - full)) < 0.05 * full.std()
    before = backend.run([PROMPT])
    there = backend.rerun(PROMPT, np.arange(1, LAYERS + 1), before.states[0])
    assert set(there.logits.argmax(axis=1)) == {before.answers.logits[0].argmax()}


@pytest.mark.parametrize("alike", [0.0, 0.2, 1.0])
def test_logits_in_half_precision_are_those_of_float64(alike: float, device: str) -> None:
    """What the last matrix makes of the states that go into it, which are of half precision themselves: of the choices,
    and which of all is the largest, though many tokens be nearly `alike`, so that rounding makes others the largest."""
    model = tiny("llama", "bfloat16", device=device)
    head, drawn = model.get_output_embeddings(), torch.Generator().manual_seed(2)
    with torch.no_grad():
        likeliest = model(torch.tensor([PROMPT.tokens], device=device)).logits[0, -1].argmax()
        rows = head.weight[likeliest].cpu().float() * (1 + 0.01 * torch.randn(head.weight.shape, generator=drawn))
        few = torch.rand(len(rows), generator=drawn) < alike
        head.weight[few.to(device)] = rows[few].to(head.weight)
    backend = HfBackend(model, name="llama")
    seen: list[torch.Tensor] = []
    head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    layers, states = moved(backend, PROMPT, 60)
    found = backend.rerun(PROMPT, layers, states)
    back = np.argsort(np.argsort(layers, kind="stable"))
    exact = (seen[-1].double() @ head.weight.double().T).flatten(0, -2).cpu().numpy()[back]
    assert np.abs(found.logits - exact[:, list(PROMPT.choices)]).max() < 1e-5
    assert np.array_equal(found.top, exact.argmax(axis=1))
    rounded = torch.from_numpy(exact).bfloat16().float().numpy().argmax(axis=1)
    assert not alike or (rounded != found.top).any()


def test_prefixes_that_are_asked_for_again_are_kept_within_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [Prompt((11 + number, *PROMPT.tokens), PROMPT.choices) for number in range(4)]
    model, runs = tiny("llama"), list[int]()
    for room in (0, 1 << 30):
        monkeypatch.setattr(model_module, "KEPT_BYTES_CPU", room)
        backend = HfBackend(model, name="llama")
        layers, states = moved(backend, PROMPT)
        hook = model.get_input_embeddings().register_forward_hook(lambda module, ids, out: runs.append(ids[0].numel()))
        runs.clear()
        found = [backend.rerun(prompt, layers, states) for prompt in asked * 3]
        hook.remove()
        assert runs.count(len(PROMPT.tokens)) == (4 if room else 12)
        for first, again in zip(found[:4] * 2, found[4:], strict=True):
            assert np.array_equal(first.logits, again.logits)


def test_states_that_are_not_finite_are_put_nowhere() -> None:
    backend = HfBackend(tiny("llama"), name="llama")
    with pytest.raises(ValueError, match="finite"):
        backend.rerun(PROMPT, np.array([1]), np.full((1, WIDTH), np.nan, np.float32))
    nothing = backend.rerun(PROMPT, np.zeros(0, np.int64), np.zeros((0, WIDTH), np.float32))
    assert (nothing.logits.shape, nothing.top.shape) == ((0, 4), (0,))
