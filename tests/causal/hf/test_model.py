"""What a backend reads of tiny random models: bit for bit what transformers shows itself, alone and in batches."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.tiny_models import CONFIGS, LAYERS, VOCABULARY, WIDTH, WINDOW, tiny
from tomserve.causal.activations import Prompt
from tomserve.causal.hf.model import HfBackend

LENGTHS = (21, 8, 14)
BATCHED = 2e-5
"""States and logits are of the order of 1 to 10; batches of other sizes round otherwise in float32."""
NORMS = {"dbrx": "transformer.norm_f", "gpt2": "transformer.ln_f", "gpt_neox": "gpt_neox.final_layer_norm"}


def prompts(lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> list[Prompt]:
    drawn = np.random.default_rng(seed)
    return [Prompt(tuple(drawn.integers(3, VOCABULARY, n).tolist()), (5, 6, 7)) for n in lengths]


def shown(model: Any, prompt: Prompt) -> tuple[np.ndarray, np.ndarray]:
    """What transformers itself shows: hidden_states[1:] [layers, width] and logits [vocabulary] at the last token."""
    with torch.inference_mode():
        output = model(torch.tensor([prompt.tokens], device=model.device), output_hidden_states=True, use_cache=False)
    states = np.stack([one[0, -1].float().cpu().numpy() for one in output.hidden_states[1:]])
    return states, output.logits[0, -1].float().cpu().numpy()


@pytest.mark.parametrize("name", CONFIGS)
def test_states_are_bit_for_bit_those_of_transformers_and_a_batch_is_padded_on_the_left(name: str, device: str) -> None:
    model = tiny(name, device=device)
    backend = HfBackend(model, name=name, batch=3)
    asked = prompts()
    assert min(LENGTHS) < WINDOW < max(LENGTHS)
    together = backend.run(asked)
    for row, prompt in enumerate(asked):
        found = backend.run([prompt])
        states, logits = shown(model, prompt)
        assert found.states.shape == (1, LAYERS, WIDTH)
        assert found.states.dtype == found.answers.logits.dtype == np.float32
        assert np.array_equal(found.states[0, :-1], states[:-1])
        norm = model.get_submodule(NORMS.get(name, "model.norm"))
        with torch.inference_mode():
            after = norm(torch.from_numpy(found.states[0, -1]).to(device)[None, None])[0, 0].cpu().numpy()
        assert np.allclose(after, states[-1], atol=1e-6)  # transformers shows its last state after the norm
        assert not np.allclose(found.states[0, -1], states[-1], atol=1e-2)
        assert np.allclose(found.answers.logits[0], logits[[5, 6, 7]], atol=1e-6)
        assert found.answers.top.tolist() == [logits.argmax()]
        assert np.abs(together.states[row] - found.states[0]).max() < BATCHED
        assert np.abs(together.answers.logits[row] - found.answers.logits[0]).max() < BATCHED
        assert together.answers.top[row] == found.answers.top[0]


@pytest.mark.parametrize("name", CONFIGS)
def test_prompts_that_share_their_beginning_are_read_after_it_and_alike(name: str, monkeypatch) -> None:
    backend, (start, *ends) = HfBackend(tiny(name), name=name), prompts((WINDOW + 9, 2, 7, 4))
    asked = [Prompt(start.tokens + end.tokens[:length], (5, 6, 7)) for end in ends for length in (1, 7)]
    singly = [backend.run([prompt]) for prompt in asked]
    lengths: list[int] = []
    backend.model.get_input_embeddings().register_forward_hook(lambda module, ids, out: lengths.append(ids[0].numel()))
    together = backend.run(asked)
    if backend._again.beyond == "batched":
        assert sum(lengths) < len(start.tokens) + sum(len(end.tokens) + 2 for end in ends)
    for row, single in enumerate(singly):
        assert np.abs(together.states[row] - single.states[0]).max() < BATCHED
        assert np.abs(together.answers.logits[row] - single.answers.logits[0]).max() < BATCHED
        assert together.answers.top[row] == single.answers.top[0]


def test_prompts_with_fewer_choices_have_no_logits_in_their_place() -> None:
    backend = HfBackend(tiny("llama"), name="llama")
    found = backend.run([Prompt((3, 4, 5), (7, 8)), Prompt((3, 4), (9, 10, 11))]).answers.logits
    assert np.isnan(found).tolist() == [[False, False, True], [False, False, False]]
    nothing = backend.run([])
    assert (nothing.states.shape, nothing.answers.logits.shape) == ((0, LAYERS, WIDTH), (0, 0))


@pytest.mark.parametrize("name", ["llama", "dbrx", "gemma3_text"])
def test_half_precision_reads_what_the_model_holds_and_computes_logits_in_float32(name: str, device: str) -> None:
    model = tiny(name, "bfloat16", device=device)
    (prompt,) = prompts((21,))
    states, rounded = shown(model, prompt)
    backend = HfBackend(model, name=name)
    found = backend.run([prompt])
    assert backend.describe()["dtype"] == "bfloat16"
    assert np.array_equal(found.states[0, :-1], states[:-1])
    own, theirs = found.answers.logits[0], rounded[[5, 6, 7]]
    assert np.allclose(own, theirs, rtol=1e-2, atol=2e-2)
    assert not np.array_equal(own, torch.from_numpy(own).bfloat16().float().numpy())  # finer than bfloat16 can hold


def test_a_model_whose_padding_would_be_read_is_run_in_batches_of_one_length(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = HfBackend(tiny("llama"), name="llama")
    backend._pads = False
    seen: list[list[int]] = []
    forward = backend._forward
    monkeypatch.setattr(backend, "_forward", lambda some: seen.append([len(one) for one in some]) or forward(some))
    backend.run(prompts((5, 9, 5, 9, 9, 3)))
    assert seen == [[9, 9, 9], [5, 5], [3]]


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        (Prompt((), (1,)), "one token or more"),
        (Prompt((3, VOCABULARY), (1,)), f"tokens from 0 to {VOCABULARY - 1}"),
        (Prompt((3, -1), (1,)), "tokens from 0"),
        (Prompt((3,), (VOCABULARY,)), "choices from 0"),
    ],
)
def test_prompts_that_cannot_be_asked(prompt: Prompt, told: str) -> None:
    backend = HfBackend(tiny("llama"), name="llama")
    with pytest.raises(ValueError, match=told):
        backend.run([prompt])
    with pytest.raises(ValueError, match=told):
        backend.rerun(prompt, np.array([1]), np.zeros((1, WIDTH), np.float32))
