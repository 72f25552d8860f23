"""What is done before anything is asked: starting a server where none runs, and checking that it can answer."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tomserve.engine.request import Sampling
from tomserve.prompting.conversation import Message
from tomserve.runs.listening import Listener
from tomserve.runs.questions import Questions
from tomserve.serving import endpoint, install, keys, provenance, serve
from tomserve.serving.endpoint import Target
from tomserve.serving.presets import Preset
from tomserve.serving.probe import CHECKED_PROMPTS, Probe, WaitPolicy
from tomserve.serving.server import Server, free_port


def need_engine(listener: Listener, *, setup: bool) -> None:
    """Raise MachineError where vLLM is missing. setup: whether to install it first if needed."""
    if setup:
        install.setup(None, listener.message)
    install.require_engine()


class Servers:
    """Servers that are started when the first run needs them, kept for the next, and stopped when this is left."""

    def __init__(self, share: float = 1.0) -> None:
        """Begin without a server. share: how much of each GPU's memory a server may take of what it otherwise would."""
        self._share = share
        self._stack = contextlib.ExitStack()
        self._kept: dict[str, tuple[Server, Target]] = {}

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *raised: object) -> None:
        self._kept.clear()
        self._stack.close()

    def of(self, chosen: Target, folder: Path, note: Callable[[str], None]) -> tuple[Server, Target]:
        """The server of that target, started unless it runs already; arguments and errors are those of `start`."""
        kept = self._kept.get(chosen.starts)
        if kept is None or kept[0].gone() is not None:
            kept = self._kept[chosen.starts] = start(self._stack, chosen, folder, note, self._share)
        return kept


def start(
    stack: contextlib.ExitStack, chosen: Target, folder: Path, note: Callable[[str], None], share: float = 1.0
) -> tuple[Server, Target]:
    """Start a server on this machine: of the small reference model on the CPU, or of the model that was named.

    stack: stops the server when it is closed.
    chosen: the target, which has no server yet.
    folder: the run's folder; the server writes its output to ``server.log`` there.
    note: called every few seconds with a sentence on how far the start is; an error that it raises ends the waiting.
    share: how much of each GPU's memory the server may take of what it otherwise would.

    Returns the server, and the target with the server's address. Raises ServerError, MachineError.
    """
    extra = sharing(chosen.preset, share)
    (replica,) = serve.plan_replicas(serve.ServeOptions(chosen.starts, port=free_port(), extra=extra))
    preset, command = replica.preset, replica.command
    # A key from the environment would lock tomserve out of its own server.
    command.env["VLLM_API_KEY"] = ""
    command.secret.clear()
    own = preset.model == endpoint.REFERENCE
    note(f"starting {'the embedded' if own else 'a'} server ({_named(preset)}) ...")
    server = stack.enter_context(Server(command, host="127.0.0.1", port=replica.port, log=folder / "server.log"))
    took = server.wait_healthy(lambda message: note(f"  {message}"))
    note(f"server healthy after {took:.0f} s")
    reached = endpoint.ask_endpoints([server.url], preset.served_name, chosen.revision)
    model = command.argv[command.argv.index("serve") + 1]
    revision = reached.revision
    reached.server |= provenance.describe_server(preset, model, command, replica.gpus, revision=revision, extra=extra)
    if replica.own is not None:  # its name alone would not tell what it is
        reached.server["preset"] = replica.own.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return server, replace(reached, preset=preset, starts=chosen.starts)


def sharing(preset: Preset | None, share: float) -> tuple[str, ...]:
    """The flags by which a server of a preset takes a share of each GPU's memory; none for all of it, or on a CPU."""
    if share >= 1 or preset is None or preset.device == "cpu":
        return ()
    return ("--gpu-memory-utilization", f"{preset.utilization * share:.3f}")


def _named(preset: Preset) -> str:
    """What a server is started of, in words."""
    if preset.model == endpoint.REFERENCE:
        return "vLLM on the CPU, reference model"
    return f"vLLM on {'the CPU' if preset.device == 'cpu' else 'GPUs'}, {preset.name}"


def check(
    chosen: Target,
    questions: Questions,
    sampling: Sampling,
    timeout: float,
    waiting: WaitPolicy | None = None,
    note: Callable[[str], None] = lambda message: None,
) -> int | None:
    """Ask every endpoint something small, and check that the longest prompts fit into the model's context.

    chosen: the servers and the model. questions: what will be asked. sampling: fields of each request.
    timeout: seconds that one request may take. waiting: how to wait where an endpoint is busy; None for not at all.
    note: called with a warning where a server that counts no tokens by itself cuts the longest prompt off.

    Returns the tokens of the longest prompt, None where the server does not count tokens. Raises ServerError where an
    endpoint does not answer as it should, ConfigError where a prompt and its reply are longer than the context.
    """
    longest = None
    for endpoint in chosen.endpoints:
        with Probe(endpoint, keys.api_key(), timeout, waiting) as probe:
            probe.check_chat(chosen.model, sampling.extra)
            for strategy, fields in _own_fields(questions):
                probe.check_fields(chosen.model, strategy, {**sampling.extra, **fields})
            if endpoint == chosen.endpoints[0]:
                prompts = _longest_prompts(questions)
                longest = probe.check_context(chosen.model, chosen.context, prompts, sampling.extra)
                if longest is None and (said := _cut(probe, chosen.model, _longest_prompts(questions), sampling)):
                    note(f"warning: {said}")
    return longest


SHORT = 8000
"""Characters of a prompt that every server takes whole: about 2,000 tokens."""


def _cut(
    probe: Probe, model: str, prompts: Iterator[tuple[str, str, Sequence[Message], int]], sampling: Sampling
) -> str:
    """What to say where the server cuts the longest prompt off without a word; "" where it does not, or is not asked as
    that prompt is short."""
    lengths = ((sum(len(one["content"]) for one in messages), messages) for _, _, messages, _ in prompts)
    size, longest = max(lengths, key=lambda found: found[0], default=(0, ()))
    return probe.cut(model, longest, sampling.extra) if size > SHORT else ""


Prompt = tuple[str, str, Sequence[Message], int]
"""(item's id, strategy, messages, tokens for the reply)."""


def _longest_prompts(questions: Questions) -> Iterator[Prompt]:
    """The longest prompts of every strategy.

    A template shows the texts of an item, and something around every sentence and choice. So the longest prompts are
    those of the items with the most text, or with the most sentences and choices. Only these are rendered here, because
    rendering all prompts just to measure them would take as long as rendering them to be asked.
    """
    items = questions.items
    text, parts = items.characters, items.parts
    by_text = heapq.nlargest(CHECKED_PROMPTS, range(len(items)), lambda place: (text[place], parts[place]))
    by_parts = heapq.nlargest(CHECKED_PROMPTS, range(len(items)), lambda place: (parts[place], text[place]))
    longest = [items[place] for place in dict.fromkeys((*by_text, *by_parts))]
    return (
        (item.id, strategy.name, turn.messages, turn.max_tokens)
        for strategy in questions.strategies
        for item in longest
        for turn in [strategy.turn(item)]
    )


def _own_fields(questions: Questions) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The strategies whose first requests hold fields of their own, each with its name and these fields."""
    for strategy in questions.strategies if len(questions.items) else ():
        if fields := strategy.turn(questions.items[0]).fields:
            yield strategy.name, fields
