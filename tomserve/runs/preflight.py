"""What is done before anything is asked: starting a server where none runs, and checking that it can answer."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tomserve.engine.request import Sampling
from tomserve.prompting.turn import Message
from tomserve.runs.listening import Listener
from tomserve.runs.questions import Questions
from tomserve.serving import install, keys, provenance, reference, target
from tomserve.serving.command import vllm_command
from tomserve.serving.ports import free_port
from tomserve.serving.probe import CHECKED_PROMPTS, Probe
from tomserve.serving.server import Server
from tomserve.serving.target import Target
from tomserve.serving.waiting import Waiting


def need_engine(listener: Listener, *, setup: bool) -> None:
    """Raise MachineError where vLLM is missing. setup: whether to install it first if needed."""
    if setup:
        install.setup(None, listener.message)
    install.require_engine()


def start(
    stack: contextlib.ExitStack, chosen: Target, folder: Path, note: Callable[[str], None]
) -> tuple[Server, Target]:
    """Start the embedded server, a small reference model on the CPU.

    stack: stops the server when it is closed.
    chosen: the target, whose preset is that of the reference model.
    folder: the run's folder; the server writes its output to ``server.log`` there.
    note: called every few seconds with a sentence on how far the start is; an error that it raises ends the waiting.

    Returns the server, and the target with the server's address. Raises ServerError, MachineError.
    """
    preset = chosen.preset
    assert preset is not None  # an embedded target is the reference preset
    port = free_port()
    command = vllm_command(preset, str(reference.folder()), port=port)
    command.env["VLLM_API_KEY"] = ""  # a key from the environment would lock tomserve out of its own server
    note("starting the embedded server (vLLM on the CPU, reference model) ...")
    server = stack.enter_context(Server(command, host="127.0.0.1", port=port, log=folder / "server.log"))
    took = server.wait_healthy(lambda message: note(f"  {message}"))
    note(f"server healthy after {took:.0f} s")
    reached = target.ask_endpoints([server.url], preset.served_name, chosen.revision)
    reached.server |= provenance.started(preset, str(reference.folder()), command, (), revision=reached.revision)
    return server, reached


def check(
    chosen: Target, questions: Questions, sampling: Sampling, timeout: float, waiting: Waiting | None = None
) -> int | None:
    """Ask every endpoint something small, and check that the longest prompts fit into the model's context.

    chosen: the servers and the model. questions: what will be asked. sampling: fields of each request.
    timeout: seconds that one request may take. waiting: how to wait where an endpoint is busy; None for not at all.

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
    return longest


def _longest_prompts(questions: Questions) -> Iterator[tuple[str, str, Sequence[Message], int]]:
    """The longest prompts of every strategy, each as (item's id, strategy, messages, tokens for the reply).

    A template shows the texts of an item, and something around every sentence and choice. So the longest prompts are
    those of the items with the most text, or with the most sentences and choices. Only these are rendered here, because
    rendering all prompts just to measure them would take as long as rendering them to be asked.
    """
    items = questions.items
    sizes = list(zip(items.characters, items.parts, strict=True))
    by_text = heapq.nlargest(CHECKED_PROMPTS, range(len(items)), lambda place: sizes[place])
    by_parts = heapq.nlargest(CHECKED_PROMPTS, range(len(items)), lambda place: sizes[place][::-1])
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
