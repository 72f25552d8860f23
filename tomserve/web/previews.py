"""What would be sent about an item: the messages, and the body of the request as an evaluation sends it, byte for byte.

Only the first requests can be known before anything is asked: the later turns of a conversation are made from replies.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from tomserve import benchmarks
from tomserve.benchmarks import ANYBODYS
from tomserve.content.paths import names
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import ConfigError, one_of
from tomserve.items import Item
from tomserve.prompting import strategy as known
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.runs.planning import EvalOptions, load_strategies, thinking_budget
from tomserve.serving.presets import Preset

MODEL = "MODEL"
"""What stands for the name of the model where neither a preset nor a name is given."""


@dataclass(frozen=True, slots=True)
class How:
    """How an item is asked. strategy: its name, "" for the first of the benchmark. preset: the name of a model's
    preset, "" for none. model: the name that the server knows the model by, "" for the preset's. thinking: on, off, a
    number of tokens, or "" for what the preset says. temperature, seed, max_tokens: as the options of `tomserve eval`;
    0 tokens for the strategy's own number."""

    strategy: str = ""
    preset: str = ""
    model: str = ""
    thinking: str = ""
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """One request. messages: each with role and content. schema: what the reply has to look like, as JSON with
    indents, "" for free text. fields: the further fields of the body, in their order. body: all of it as it is sent."""

    messages: tuple[dict[str, str], ...]
    schema: str
    fields: dict[str, object]
    body: bytes

    @property
    def readable(self) -> str:
        """The body with line breaks and indents."""
        return orjson.dumps(orjson.loads(self.body), option=orjson.OPT_INDENT_2).decode()


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be sent. strategy: by which it is asked. sent: the first requests, of which there are several where
    the strategy asks them side by side. more: whether others follow that are made from the replies. digest: of the
    strategy's prompts, as the manifest of a run notes it."""

    strategy: Strategy
    sent: tuple[Sent, ...]
    more: bool
    digest: str


def strategies() -> tuple[str, ...]:
    """The names of all strategies of the content."""
    return tuple(known.list_strategies())


def presets() -> tuple[str, ...]:
    """The names of all presets of the content."""
    return tuple(names("launch/models", ".yaml"))


def preview(item: Item, how: How) -> Preview:
    """What would be sent about an item. Raises ConfigError for a strategy or preset that is not among the content, for
    what does not fit together, and ContentError where a template cannot be rendered."""
    benchmark = benchmarks.find(item.benchmark) or benchmarks.get(ANYBODYS)
    name = how.strategy or benchmark.strategies[0]
    if name not in strategies():
        raise ConfigError(one_of("strategy", name, strategies()))
    if how.preset and how.preset not in presets():
        raise ConfigError(one_of("preset", how.preset, presets()))
    preset = Preset.load(how.preset) if how.preset else None
    model = how.model or (preset.served_name if preset is not None else MODEL)
    options = EvalOptions(strategies=(name,), max_tokens=how.max_tokens or None, thinking=how.thinking or None)
    thinking = thinking_budget(preset, model, options.thinking)
    (strategy,) = load_strategies(options, benchmark, preset, thinking)
    extra = preset.extra(options.thinking) if preset is not None else {}
    sampling = Sampling(float(how.temperature), how.seed, extra)
    turns = strategy.conversation(item).open if strategy.several else [strategy.turn(item)]
    sent = tuple(_sent(item, strategy, turn, model, sampling) for turn in turns)
    return Preview(strategy, sent, strategy.turns is None or strategy.turns > len(sent), strategy.digest)


def _sent(item: Item, strategy: Strategy, turn: Turn, model: str, sampling: Sampling) -> Sent:
    identity = Identity(item.id, strategy.name, turn.number)
    request = Request.build(identity, turn, model=model, revision=None, sampling=sampling)
    fields = orjson.loads(request.body)
    fields.pop("messages")
    schema = fields.pop("response_format", None)
    told = "" if schema is None else orjson.dumps(schema["json_schema"]["schema"], option=orjson.OPT_INDENT_2).decode()
    return Sent(tuple(turn.messages), told, fields, request.body)
