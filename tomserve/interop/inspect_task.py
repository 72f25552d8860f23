"""Our benchmarks as tasks of Inspect, with our prompts and our scorer. It needs the extra `inspect`.

    inspect eval tomserve/worlds --model openai/gpt-4o -T strategy=cot -T limit=300
    inspect eval tomserve/benchmark --model vllm/... -T name=my_benchmark.py

What is asked and how replies are read is the same as in `tomserve eval`: the same messages, the same JSON schema where
the provider takes one, the same number of tokens, temperature 0. What Inspect does not have stays with tomserve:
strategies of several turns, the noise check, and intervals over clusters of other kinds than its own standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tomserve.errors import MachineError
from tomserve.interop.asking_inside import Asking
from tomserve.items import Item

try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        GenerateConfig,
        ResponseSchema,
    )
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver
    from inspect_ai.util import JSONSchema
except ImportError as error:  # pragma: no cover - the development environment has it
    raise MachineError(
        f"tomserve.interop.inspect_task needs inspect_ai ({error}); pip install 'tomserve[inspect]'"
    ) from None

_MESSAGES: dict[str, type[ChatMessageSystem] | type[ChatMessageUser] | type[ChatMessageAssistant]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def evaluation(asking: Asking) -> Task:
    """The task of these questions. Questions are samples, whose metadata hold factors, cluster and canary, and what an
    import by `tomserve import inspect` needs to find them again."""
    samples = [_sample(asking, item) for item in asking.items]
    return Task(
        dataset=MemoryDataset(samples, name=asking.benchmark),
        solver=asked_by_tomserve(asking),
        scorer=read_by_tomserve(asking),
        config=GenerateConfig(temperature=0.0, seed=0),
        name=asking.benchmark,
        metadata={"tomserve": {"benchmark": asking.benchmark, "prompts": asking.strategy.digest}},
    )


def _sample(asking: Asking, item: Item) -> Sample:
    ours = {
        "item": item.id,
        "strategy": asking.strategy.name,
        "benchmark": item.benchmark,
        "cluster": item.cluster,
    }
    canary = {"canary": item.canary} if item.canary else {}
    return Sample(
        id=item.id,
        input=[_message(one) for one in asking.messages(item)],
        choices=list(item.choices),
        target=item.answer,
        metadata={**item.factors, **canary, "cluster": item.cluster, "tomserve": ours},
    )


def _message(message: dict[str, str]) -> ChatMessage:
    return _MESSAGES[message["role"]](content=message["content"])


@solver
def asked_by_tomserve(asking: Asking) -> Solver:
    """Asks one question under the schema and with the number of tokens of its strategy."""
    known = {item.id: item for item in asking.items}

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        turn = asking.strategy.turn(known[str(state.sample_id)])
        told: dict[str, Any] = {"max_tokens": turn.max_tokens or asking.strategy.max_tokens}
        if turn.schema is not None:
            schema = JSONSchema.model_validate(turn.schema)
            told["response_schema"] = ResponseSchema(name="answer", json_schema=schema, strict=True)
        return await generate(state, **told)

    return solve


@scorer(metrics=[accuracy(), stderr(), stderr(cluster="cluster")])
def read_by_tomserve(asking: Asking) -> Scorer:
    """Reads the reply by our rules. The value is C or I; the metadata hold how it was read, and the chain metrics."""
    known = {item.id: item for item in asking.items}

    async def score(state: TaskState, target: Target) -> Score:
        del target  # the item knows its answer
        ended = state.output.choices[0].stop_reason if state.output.choices else None
        found = asking.scored(
            known[str(state.sample_id)],
            state.output.completion,
            cut_off=ended in ("max_tokens", "model_length"),
            model=str(state.model),
        )
        kept = {name: one for name, one in found.items() if one is not None and name.startswith(("chain", "metric_"))}
        return Score(
            value=CORRECT if found["correct"] else INCORRECT,
            answer=found["answer"],
            explanation=found["reason"] or state.output.completion,
            metadata={**kept, "status": found["status"], "parse": found["parse"]},
        )

    return score


def _named(function: Callable[..., Task]) -> str:
    """The name of the benchmark that a task is called after."""
    return function.__name__.replace("_", "-")


def _conditions(where: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(one for one in (where.split(";") if isinstance(where, str) else where) if one)


@task
def benchmark(name: str, strategy: str = "", path: str = "", limit: int | None = None, where: str = "") -> Task:
    """Any benchmark, by its name or the FILE.py that declares it. where: conditions with ; between them."""
    asking = Asking.of(name, strategy, path=path or None, limit=limit, conditions=_conditions(where))
    return evaluation(asking)


@task
def perturbed(strategy: str = "", limit: int | None = None, where: str = "") -> Task:
    """The perturbed false-belief tasks as published (arXiv 2602.22072)."""
    return evaluation(Asking.of(_named(perturbed), strategy, limit=limit, conditions=_conditions(where)))


@task
def perturbed_2(strategy: str = "", limit: int | None = None, where: str = "") -> Task:
    """The second edition of the perturbed false-belief tasks."""
    return evaluation(Asking.of(_named(perturbed_2), strategy, limit=limit, conditions=_conditions(where)))


@task
def worlds(strategy: str = "", limit: int | None = None, where: str = "") -> Task:
    """Generated social worlds, whose right answers are proven."""
    return evaluation(Asking.of(_named(worlds), strategy, limit=limit, conditions=_conditions(where)))


@task
def hitom(strategy: str = "", path: str = "", limit: int | None = None, where: str = "") -> Task:
    """Nested beliefs of orders 0 to 4 (Hi-ToM, arXiv 2310.16755); path: the official file, else generated stories."""
    asking = Asking.of(_named(hitom), strategy, path=path or None, limit=limit, conditions=_conditions(where))
    return evaluation(asking)
