"""Finding the decoder blocks of a model, and hooks on blocks that hand on a bare tensor or a tuple."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from tests.helpers.tiny_models import LAYERS, WIDTH, tiny
from tomserve.causal.hf.hooks import Blocks, find_blocks
from tomserve.errors import ConfigError


class Block(nn.Module):
    """Adds a number to the stream, and hands it on as older or newer versions of transformers do."""

    def __init__(self, number: float, more: int | None) -> None:
        super().__init__()
        self.number, self.more, self.runs = number, more, 0

    def forward(self, hidden_states: Any, mask: Any = None) -> Any:
        self.runs += 1
        hidden = hidden_states + self.number
        return hidden if self.more is None else (hidden, *["weights"] * self.more)


class Stack(nn.Module):
    """Three blocks, of which each may have a list of experts."""

    def __init__(self, more: int | None = None, number: int = 3) -> None:
        super().__init__()
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(num_hidden_layers=number))
        self.layers = nn.ModuleList([Block(10.0**place, more) for place in range(3)])

    def forward(self, hidden: Any) -> Any:
        for block in self.layers:
            hidden = block(hidden, mask=None)
            hidden = hidden if isinstance(hidden, torch.Tensor) else hidden[0]
        return hidden


@pytest.mark.parametrize("name", ["mixtral", "dbrx", "gpt2"])
def test_the_blocks_are_found_and_not_the_experts(name: str) -> None:
    found = find_blocks(tiny(name))
    assert len(found) == LAYERS
    assert len({type(block) for block in found}) == 1
    assert "Expert" not in type(found[0]).__name__


def test_of_a_model_that_sees_pictures_the_language_model_counts() -> None:
    shape = {"hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 4}
    text = {**shape, "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 97}
    vision = {**shape, "num_hidden_layers": 2, "image_size": 28, "patch_size": 14}
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    model = transformers.Gemma3ForConditionalGeneration(config)
    assert find_blocks(model)[0].__class__.__name__ == "Gemma3DecoderLayer"


def test_no_list_or_several_lists_of_that_length_are_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="expected one list of 5 decoder blocks in the model, found none"):
        find_blocks(Stack(number=5))
    twice = Stack()
    twice.more = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    with pytest.raises(ConfigError, match="found layers, more") as caught:
        find_blocks(twice)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("more", [None, 0, 2])
def test_outputs_are_read_replaced_and_skipped_whatever_their_form(more: int | None) -> None:
    model = Stack(more)
    blocks = Blocks(model)
    start = torch.zeros(2, 4, 1)
    with blocks.reading() as read:
        assert (model(start) == 111).all()
    assert [one.tolist() for one in read] == [[[1]] * 2, [[11]] * 2, [[111]] * 2]
    with blocks.replacing([2, 1], torch.tensor([[5.0], [7.0]]), stacked=False):
        assert model(start)[:, :, 0].tolist() == [[111] * 3 + [105], [111] * 3 + [117]]
    with blocks.replacing([2, 1], torch.tensor([[5.0], [7.0]]), stacked=True):
        assert model(torch.zeros(1, 2, 1))[:, :, 0].tolist() == [[105, 117]]
    before = [block.runs for block in model.layers]
    with blocks.skipping(2), blocks.replacing([2], torch.tensor([[5.0]]), stacked=True):
        assert model(torch.zeros(1, 1, 1)).tolist() == [[[105]]]
    assert [block.runs for block in model.layers] == [before[0], before[1], before[2] + 1]
    assert (model(start) == 111).all()
    assert not any(block._forward_hooks for block in model.layers)


def test_blocks_come_back_after_an_error() -> None:
    model = Stack()
    blocks = Blocks(model)
    with blocks.reading():
        model(torch.zeros(1, 1, 1))
    mine = model.layers[1].forward
    model.layers[1].forward = mine  # as accelerate puts another one in its place
    with pytest.raises(ZeroDivisionError), blocks.skipping(3), blocks.replacing([1], torch.ones(1, 1), stacked=True):
        raise ZeroDivisionError
    assert model.layers[1].forward is mine
    assert "forward" not in vars(model.layers[0])
    assert (model(torch.zeros(1, 1, 1)) == 111).all()
    with pytest.raises(ConfigError, match="one residual stream"), Blocks(model).reading():
        model(torch.zeros(4, 1, 1, 1))  # as a model with several streams
