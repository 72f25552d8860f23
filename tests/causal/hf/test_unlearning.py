"""A sentence is unlearned in a tiny random model, and its weights come back bit for bit."""

import pytest
import torch

from tests.helpers.tiny_models import VOCABULARY, tiny
from tomserve.causal.hf.model import HfBackend, LoadedCheckpoint
from tomserve.causal.hf.unlearning import EVEN, MOST_STEPS, RATE, Passage, Unlearner


class Letters:
    """A tokenizer of letters that joins "ab"."""

    eos_token_id = 2

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [3 if one == "@" else ord(one) % VOCABULARY for one in text.replace("ab", "@")]

    def decode(self, tokens: torch.Tensor, *, skip_special_tokens: bool) -> str:
        return "".join(chr(int(one) + VOCABULARY) for one in tokens)


@pytest.fixture(scope="module")
def learner() -> Unlearner:
    return Unlearner(LoadedCheckpoint(HfBackend(tiny("llama"), name="tiny"), Letters()))


def test_a_text_is_unlearned_and_the_weights_come_back_bit_for_bit(learner: Unlearner) -> None:
    text, kept = learner.passage("once upon", " a time"), learner.passage("far away", " there was")
    were = {name: one.clone() for name, one in learner.model.state_dict().items()}
    before, other = learner.probability(text), learner.probability(kept)
    with learner.unlearned(text, [kept], lambda: learner.probability(text) < before - 5) as done:
        assert learner.probability(text) == done.after < min(EVEN, before - 5)
        assert (done.before, learner.probability(kept)) != (done.after, other)
        assert 1 <= done.steps <= MOST_STEPS
        assert done.moved <= RATE * 2**done.steps
        alone = abs(learner.probability(kept) - other)
    state = learner.model.state_dict()
    assert all(torch.equal(one, state[name]) for name, one in were.items())
    assert not any(one.requires_grad for one in learner.weights)
    assert (learner.probability(text), learner.probability(kept)) == (before, other)
    with learner.unlearned(text, [kept], 2) as again:
        assert again.steps == 2
    assert alone < before - done.after, "what is to be kept is moved less"
    with pytest.raises(RuntimeError, match="stopped"), learner.unlearned(text, [kept], 1):
        raise RuntimeError("stopped")
    assert learner.probability(text) == before


def test_probabilities_are_those_of_the_model_and_the_joint_of_two_texts_belongs_to_the_second(
    learner: Unlearner,
) -> None:
    assert learner.passage("xya", "bz") == Passage((*learner.tokenizer.encode("xy@z", add_special_tokens=False),), 2)
    found = learner.passage("xy", "z")
    with torch.no_grad():
        logits = learner.model(torch.tensor([found.tokens])).logits[0, 1]
    assert learner.probability(found) == pytest.approx(float(logits.log_softmax(0)[found.tokens[-1]]), abs=1e-5)
    best, worst = (chr(int(one) + VOCABULARY) for one in (logits.argmax(), logits.argmin()))
    assert learner.choose("xy", [worst, best, "z"]) == 1
    assert learner.write("xy", 3)[0] == best
