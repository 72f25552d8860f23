"""Before anything is asked: a server where none runs yet, and whether it can answer these questions."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Iterator
from pathlib import Path

from tomserve.engine.request import Sampling
from tomserve.prompting.strategy import Message
from tomserve.runs.listening import Listener
from tomserve.runs.phases import Questions
from tomserve.serving import install, keys, provenance, reference, target
from tomserve.serving.command import vllm_command
from tomserve.serving.ports import free_port
from tomserve.serving.probe import CHECKED_PROMPTS, Probe
from tomserve.serving.server import Server
from tomserve.serving.target import Target


def need_engine(listener: Listener, *, setup: bool) -> None:
    """Raise MachineError where vLLM is missing; with `setup` install it first."""
    if setup:
        install.setup(None, listener.message)
    install.require_engine()


def start(
    stack: contextlib.ExitStack, chosen: Target, folder: Path, note: Callable[[str], None]
) -> tuple[Server, Target]:
    """Start the embedded server, to be stopped by `stack`; it says what it does in ``server.log`` of the run folder.

    note: told every few seconds how it goes; an error that it raises ends the waiting.
    Returns it with the target that it makes. Raises ServerError, MachineError.
    """
    preset = chosen.preset
    assert preset is not None  # an embedded target is the reference preset
    port = free_port()
    command = vllm_command(preset, str(reference.folder()), port=port)
    command.env["VLLM_API_KEY"] = ""  # nobody else talks to it; a key of the environment would lock us out
    note("starting the embedded server (vLLM on the CPU, reference model) ...")
    server = stack.enter_context(Server(command, host="127.0.0.1", port=port, log=folder / "server.log"))
    took = server.wait_healthy(lambda message: note(f"  {message}"))
    note(f"server healthy after {took:.0f} s")
    found = target.ask_endpoints([server.url], preset.served_name, chosen.revision)
    found.server |= provenance.started(preset, str(reference.folder()), command, (), revision=found.revision)
    return server, found


def check(chosen: Target, questions: Questions, sampling: Sampling, timeout: float) -> int | None:
    """Ask every endpoint something small, and count the tokens of the longest prompts.

    Returns the tokens of the longest prompt, None where the server does not count. Raises ServerError where chat does
    not work, ConfigError where a prompt and its reply exceed the context.
    """
    longest = None
    for endpoint in chosen.endpoints:
        with Probe(endpoint, keys.api_key(), timeout) as probe:
            probe.check_chat(chosen.model, sampling.extra)
            if endpoint == chosen.endpoints[0]:
                prompts = _longest_prompts(questions)
                longest = probe.check_context(chosen.model, chosen.context, prompts, sampling.extra)
    return longest


def _longest_prompts(questions: Questions) -> Iterator[tuple[str, str, tuple[Message, ...], int]]:
    """Of every strategy the prompts of the longest items, as (item, strategy, messages, tokens for the reply).

    A template shows the texts of an item and something around every sentence and label, so the items with the most
    text and those with the most parts make the longest prompts. Only these are rendered: each of the others is rendered
    once in the whole evaluation, when it is asked.
    """
    items = questions.items
    sizes = list(zip(items.characters, items.parts, strict=True))
    by_text = heapq.nlargest(CHECKED_PROMPTS, range(len(items)), lambda place: sizes[place])
    by_parts = heapq.nlargest(CHECKED_PROMPTS, range(len(items)), lambda place: sizes[place][::-1])
    few = [items[place] for place in dict.fromkeys((*by_text, *by_parts))]
    return (
        (item.id, strategy.name, turn.messages, turn.max_tokens)
        for strategy in questions.strategies
        for item in few
        for turn in [strategy.turn(item)]
    )
