"""The reference model's architecture, Llama, written for training on trees; its checkpoint can be loaded by any server.

A tree is a story with several questions (see packing.py). The forward pass computes the opening (system text and
demonstration) once for a whole batch of stories: all of them share its keys and values, and gradients flow back through
it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

THETA, EPS = 10000.0, 1e-5
"""Base of the rotary position embedding (THETA) and the small number inside RMS norms (EPS)."""
CONTEXT = 4096
"""The most tokens that the model can read."""


@dataclass(frozen=True)
class Size:
    """The dimensions of the model; the default has 1.27 million parameters.

    `width` of the hidden states, number of `layers`, attention `heads`, and `inner` width of the MLP. Six layers of
    width 160 learned less in the same time on a CPU.
    """

    width: int = 128
    layers: int = 5
    heads: int = 4
    inner: int = 352

    @property
    def head(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads


class Seen:
    """What the forward pass should note, by number of the layer (from 1), and then has noted.

    `hidden`: the layer's normed output for stories [B, S, d] and for branches [N, L, d]. `attention`: the branches'
    queries [N, heads, L, d/heads], the keys that they see (opening, story, branch) [N, heads, T, d/heads], and the bias
    [N, L, T] that hides what comes later.
    """

    def __init__(self, hidden: Iterable[int], attention: Iterable[int]) -> None:
        nothing = torch.empty(0)
        self.hidden: dict[int, tuple[Tensor, Tensor]] = dict.fromkeys(hidden, (nothing, nothing))
        self.attention: dict[int, tuple[Tensor, Tensor, Tensor]] = dict.fromkeys(attention, (nothing, nothing, nothing))


class Layer(nn.Module):
    """The parameters of one layer: attention and a gated MLP, each behind an RMS norm; names as in transformers."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width, inner = size.width, size.inner
        self.input_layernorm = nn.Parameter(torch.ones(width))
        self.post_attention_layernorm = nn.Parameter(torch.ones(width))
        self.qkv = nn.Parameter(torch.empty(3, width, width))
        self.o_proj = nn.Parameter(torch.empty(width, width))
        self.gate_up = nn.Parameter(torch.empty(2, inner, width))
        self.down_proj = nn.Parameter(torch.empty(width, inner))


class Llama(nn.Module):
    """A Llama with tied token embeddings. Parameters are float32; `dtype` is the type of the arithmetic."""

    def __init__(self, vocabulary: int, size: Size | None = None, *, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.size = size = size or Size()
        self.dtype = dtype
        # with a standard deviation of .02 the model does not learn to copy
        self.embed = nn.Parameter(torch.randn(vocabulary, size.width) * 0.15)
        self.blocks = [Layer(size) for _ in range(size.layers)]  # a list keeps the type that a ModuleList forgets
        self.layers = nn.ModuleList(self.blocks)
        self.norm = nn.Parameter(torch.ones(size.width))
        for name, matrix in self.matrices().items():
            scale = 1 / math.sqrt(matrix.shape[-1])
            if "o_proj" in name or "down_proj" in name:
                scale /= math.sqrt(2 * size.layers)
            nn.init.normal_(matrix, std=scale)
        frequencies = THETA ** (-torch.arange(0, size.head, 2).float() / size.head)
        angles = torch.outer(torch.arange(CONTEXT).float(), frequencies)
        self.cos: Tensor
        self.sin: Tensor
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, 1), persistent=False)
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, 1), persistent=False)

    def matrices(self) -> dict[str, nn.Parameter]:
        """The matrices of the layers by name, which Muon trains."""
        return {name: parameter for name, parameter in self.layers.named_parameters() if parameter.ndim > 1}

    def hidden(
        self,
        opening: Tensor,
        stories: Tensor,
        lengths: Tensor,
        branches: Tensor,
        owner: Tensor,
        seen: Seen | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Final hidden states of the stories [B, S, d] and of the branches [N, L, d].

        A story sees the opening and itself; a branch sees the opening, its story and itself; both see only what comes
        before.

        opening: token ids [P], where P may be 0.
        stories: token ids [B, S], padded at the end.
        lengths: of the stories without padding [B].
        branches: token ids [N, L], padded at the end.
        owner: the story that each branch belongs to [N].
        seen: filled with what it asks for, where given.
        """
        start, (batch, long), (count, wide) = len(opening), stories.shape, branches.shape
        x = self.embed[torch.cat([opening, stories.flatten(), branches.flatten()])]
        steps = torch.arange(max(start, long, wide), device=x.device)
        places = torch.cat(
            [
                steps[:start],
                (start + steps[:long]).repeat(batch),
                (start + lengths[owner][:, None] + steps[:wide]).flatten(),
            ]
        )
        cos, sin = self.cos[places][:, None].to(self.dtype), self.sin[places][:, None].to(self.dtype)
        sizes = [start, batch * long, count * wide]
        first_bias = self._bias(steps[:start, None] < steps[None, :start])
        story_bias = F.pad(self._bias(steps[:long, None] < steps[None, :long]), (start, 0))
        absent = (steps[:long] >= lengths[owner][:, None])[:, None, :].expand(-1, wide, -1)
        later = (steps[:wide, None] < steps[None, :wide]).expand(count, -1, -1)
        branch_bias = F.pad(self._bias(torch.cat([absent, later], 2)), (start, 0))[:, None]
        for number, layer in enumerate(self.blocks, 1):
            y = F.rms_norm(x, (self.size.width,), layer.input_layernorm, EPS).to(self.dtype)
            qkv = F.linear(y, layer.qkv.flatten(0, 1).to(self.dtype))
            q, k, v = qkv.view(-1, 3, self.size.heads, self.size.head).unbind(1)
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
            of_opening, of_stories, of_branches = (
                [_heads(part, rows) for part in parts]
                for parts, rows in zip(
                    zip(*(torch.split(part, sizes) for part in (q, k, v)), strict=True), (1, batch, count), strict=True
                )
            )
            mixed = []
            if start:
                mixed.append(_attend(of_opening[0], of_opening[1], of_opening[2], first_bias))
            keys, values = (
                torch.cat([head.expand(batch, -1, -1, -1), tail], 2)
                for head, tail in zip(of_opening[1:], of_stories[1:], strict=True)
            )
            mixed.append(_attend(of_stories[0], keys, values, story_bias))
            keys, values = (
                torch.cat([head[owner], tail], 2) for head, tail in zip((keys, values), of_branches[1:], strict=True)
            )
            mixed.append(_attend(of_branches[0], keys, values, branch_bias))
            if seen is not None and number in seen.attention:
                seen.attention[number] = of_branches[0], keys, branch_bias[:, 0]
            x = x + F.linear(torch.cat(mixed), layer.o_proj.to(self.dtype))
            y = F.rms_norm(x, (self.size.width,), layer.post_attention_layernorm, EPS).to(self.dtype)
            gate, up = F.linear(y, layer.gate_up.flatten(0, 1).to(self.dtype)).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down_proj.to(self.dtype))
            if seen is not None and number in seen.hidden:
                _, story_states, branch_states = torch.split(F.rms_norm(x, (self.size.width,), eps=EPS), sizes)
                seen.hidden[number] = story_states.view(batch, long, -1), branch_states.view(count, wide, -1)
        _, story_states, branch_states = torch.split(F.rms_norm(x, (self.size.width,), self.norm, EPS), sizes)
        return story_states.view(batch, long, -1), branch_states.view(count, wide, -1)

    def _bias(self, hidden: Tensor) -> Tensor:
        """An additive mask that hides the places where `hidden` is true."""
        return torch.zeros(hidden.shape, dtype=self.dtype, device=hidden.device).masked_fill(hidden, -1e4)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [n, vocabulary] of hidden states [n, d]."""
        return F.linear(hidden.to(self.dtype), self.embed.to(self.dtype)).float()

    def checkpoint(self) -> dict[str, Tensor]:
        """The parameters under the names of transformers' LlamaForCausalLM; tied embeddings need no lm_head."""
        tensors: dict[str, Tensor] = {"model.embed_tokens.weight": self.embed, "model.norm.weight": self.norm}
        for number, layer in enumerate(self.blocks):
            prefix = f"model.layers.{number}."
            tensors |= {
                prefix + "input_layernorm.weight": layer.input_layernorm,
                prefix + "post_attention_layernorm.weight": layer.post_attention_layernorm,
                prefix + "self_attn.o_proj.weight": layer.o_proj,
                prefix + "mlp.down_proj.weight": layer.down_proj,
            }
            tensors |= {
                f"{prefix}self_attn.{name}_proj.weight": part
                for name, part in zip("qkv", layer.qkv.unbind(0), strict=True)
            }
            tensors |= {
                f"{prefix}mlp.{name}_proj.weight": part
                for name, part in zip(("gate", "up"), layer.gate_up.unbind(0), strict=True)
            }
        return {name: tensor.detach().float().contiguous().clone() for name, tensor in tensors.items()}

    @torch.no_grad()
    def load_checkpoint(self, state: Mapping[str, Tensor]) -> None:
        """Load parameters that have the names of `checkpoint`; others, such as a tied lm_head, are ignored."""
        self.embed.copy_(state["model.embed_tokens.weight"])
        self.norm.copy_(state["model.norm.weight"])
        for number, layer in enumerate(self.blocks):
            prefix = f"model.layers.{number}."
            for name in ("input_layernorm", "post_attention_layernorm"):
                getattr(layer, name).copy_(state[f"{prefix}{name}.weight"])
            layer.o_proj.copy_(state[prefix + "self_attn.o_proj.weight"])
            layer.down_proj.copy_(state[prefix + "mlp.down_proj.weight"])
            layer.qkv.copy_(torch.stack([state[f"{prefix}self_attn.{name}_proj.weight"] for name in "qkv"]))
            layer.gate_up.copy_(torch.stack([state[f"{prefix}mlp.{name}_proj.weight"] for name in ("gate", "up")]))


def _heads(part: Tensor, rows: int) -> Tensor:
    """Tokens [rows x length, heads, width] as [rows, heads, length, width]."""
    return part.reshape(rows, -1, *part.shape[1:]).transpose(1, 2)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Attention with an additive mask, heads joined: [tokens, d]. On a CPU in bfloat16 plain products take half the
    time of torch's fused kernel.
    """
    if q.is_cuda:
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    else:
        scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-1, -2)) + bias
        mixed = torch.matmul(scores.softmax(-1), v)
    return mixed.transpose(1, 2).flatten(2).flatten(0, 1)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotary position embedding."""
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


def config(vocabulary: int, size: Size, end: int, pad: int) -> dict[str, object]:
    """The content of the checkpoint's config.json. `end`, `pad`: ids of the tokens that end a reply and that pad."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": size.width,
        "intermediate_size": size.inner,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.heads,
        "head_dim": size.head,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": EPS,
        "rope_theta": THETA,
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": end,
        "pad_token_id": pad,
        "dtype": "float32",
    }


def save(model: Llama, folder: Path, end: int, pad: int) -> None:
    """Write config.json and model.safetensors into a folder that exists."""
    from safetensors.torch import save_file

    text = json.dumps(config(len(model.embed), model.size, end, pad), indent=2)
    (folder / "config.json").write_text(text + "\n")
    weights = folder / "model.safetensors"
    save_file(model.checkpoint(), weights, metadata={"format": "pt"})
    weights.chmod(0o644)  # safetensors makes it readable for its owner only
