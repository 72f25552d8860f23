"""Our benchmarks as tasks of Inspect, with our prompts and our scorer. It needs the extra `inspect`.

    inspect eval tomserve/worlds --model openai/gpt-4o -T strategy=cot -T limit=300
    inspect eval tomserve/hitom --model vllm/... -T where=order=1
    inspect eval tomserve/benchmark --model vllm/... -T name=my_benchmark.py
    inspect score LOG --scorer tomserve/tomserve -S name=worlds -S strategy=cot

What is asked and how replies are read is the same as in `tomserve eval`: the same messages, the same JSON schema where
the provider takes one, the same number of tokens, temperature 0, seed 0. What Inspect does not have stays with
tomserve: strategies of several turns, what presets say of a model, the noise check, and intervals over clusters of
other kinds than its own standard error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from pydantic import PrivateAttr, model_serializer

from tomserve.errors import ConfigError, MachineError
from tomserve.interop.harness import HarnessTask
from tomserve.interop.inspect_export import SCORER, score_metadata
from tomserve.interop.samples import sample_record
from tomserve.items import Item
from tomserve.prompting.conversation import Turn
from tomserve.status import finished

try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        GenerateConfig,
        ModelAPI,
        ResponseSchema,
        modelapi,
    )
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver
    from inspect_ai.util import JSONSchema
except ImportError as error:
    raise MachineError(
        f"tomserve.interop.inspect_task needs inspect_ai ({error}); pip install 'tomserve[inspect]'"
    ) from None

_MESSAGES: dict[str, type[ChatMessageSystem] | type[ChatMessageUser] | type[ChatMessageAssistant]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}

_FIELDS = {"temperature": "temperature", "top_p": "top_p", "seed": "seed", "stop": "stop_seqs"}
"""Fields of a request that Inspect has options for; the others go into the body as they are, where a provider has
one."""

_NARROW = ("anthropic", "bedrock")
"""Providers that refuse a schema with the keywords that Inspect's own form of a schema leaves out."""

Conditions = str | int | Sequence[Any] | None


class WholeSchema(JSONSchema):
    """A schema that Inspect sends as it stands, with all its keywords in their order. Inspect's own form of one knows
    no lengths of lists and no constants."""

    _given: dict[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, schema: dict[str, Any]) -> JSONSchema:
        """The schema of a turn."""
        made = cls.model_validate(schema)
        made._given = schema
        return made

    @model_serializer(mode="plain")
    def _dump(self) -> dict[str, Any]:
        return self._given


WholeSchema.model_rebuild(_types_namespace=globals())  # Inspect may load this file without entering it in sys.modules


def load_task(
    name: str, strategy: str = "", path: str = "", gold: str = "", limit: int | None = None, where: Conditions = ""
) -> HarnessTask:
    """The questions and the strategy, as the arguments of a task name them. where: conditions with ; between them.
    Inspect takes a comma for the end of a value, so that it may come as a list."""
    text = ",".join(map(str, where)) if isinstance(where, list | tuple) else str(where or "")
    conditions = [one.strip() for one in text.split(";") if one.strip()]
    return HarnessTask.of(name, str(strategy), path=path, gold=gold, limit=limit, conditions=conditions)


def evaluation(name: str, **given: Any) -> Task:
    """The task of a benchmark. name, given: as for `load_task`. Questions are samples, whose metadata hold factors,
    cluster and canary, and what an import by `tomserve import inspect` needs to find them again."""
    options = {"name": name, **{one: value for one, value in given.items() if value not in ("", None)}}
    loaded = load_task(**options)
    return Task(
        dataset=MemoryDataset([_sample(loaded, item) for item in loaded.items], name=loaded.benchmark),
        solver=asked_by_tomserve(**options),
        scorer=read_by_tomserve(**options),
        config=GenerateConfig(temperature=0.0, seed=0),
        name=loaded.benchmark,
        metadata={"tomserve": {"benchmark": loaded.benchmark, "prompts": loaded.strategy.digest}},
    )


def _sample(loaded: HarnessTask, item: Item) -> Sample:
    ours = sample_record(item, loaded.strategy.name, benchmark=item.benchmark)
    canary = {"canary": item.canary} if item.canary else {}
    return Sample(
        id=item.id,
        input=[_message(one) for one in loaded.messages(item)],
        choices=list(item.choices),
        target=item.answer,
        metadata={**item.factors, **canary, "cluster": item.cluster, "tomserve": ours},
    )


def _message(message: Mapping[str, str]) -> ChatMessage:
    return _MESSAGES[message["role"]](content=message["content"])


@solver
def asked_by_tomserve(
    name: str, strategy: str = "", path: str = "", gold: str = "", limit: int | None = None, where: Conditions = ""
) -> Solver:
    """Asks a question under the schema and with the number of tokens of the strategy. The arguments are the task's."""
    loaded = load_task(name, strategy, path, gold, limit, where)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        turn = loaded.turn(_item(loaded, state))
        return await generate(state, **_options(turn, state.model.api))

    return solve


def _options(turn: Turn, provider: str) -> dict[str, Any]:
    """What a turn asks besides its messages, as Inspect's options of a request."""
    options: dict[str, Any] = {"max_tokens": turn.max_tokens}
    options |= {_FIELDS[name]: value for name, value in turn.fields.items() if name in _FIELDS}
    if isinstance(stop := options.get("stop_seqs"), str):
        options["stop_seqs"] = [stop]
    if more := {name: value for name, value in turn.fields.items() if name not in _FIELDS}:
        options["extra_body"] = more
    if turn.schema is not None:
        kind = JSONSchema.model_validate if provider in _NARROW else WholeSchema.of
        options["response_schema"] = ResponseSchema(name="answer", json_schema=kind(turn.schema))
    return options


def _item(loaded: HarnessTask, state: TaskState) -> Item:
    if (item := loaded.known.get(str(state.sample_id))) is None:
        raise ConfigError(
            f"sample {state.sample_id!r:.80} is no question of {loaded.benchmark} as it is asked here; give the scorer "
            "the arguments of the task: name, and path, gold, limit and where if they were given"
        )
    return item


@scorer(metrics=[accuracy(), stderr(), stderr(cluster="cluster")], name=SCORER)
def read_by_tomserve(
    name: str, strategy: str = "", path: str = "", gold: str = "", limit: int | None = None, where: Conditions = ""
) -> Scorer:
    """Reads the reply by our rules. The value is C or I; the metadata hold how it was read, and the chain metrics.

    The arguments are the task's."""
    loaded = load_task(name, strategy, path, gold, limit, where)

    async def score(state: TaskState, target: Target) -> Score:
        del target  # the item knows its answer
        ended = state.output.choices[0].stop_reason if state.output.choices else None
        text = state.output.completion
        found = loaded.score(_item(loaded, state), text, status=finished(ended), model=str(state.model))
        return Score(
            value=CORRECT if found["correct"] else INCORRECT,
            answer=found["answer"],
            explanation=found["reason"] or text,
            metadata=score_metadata(found),
        )

    return score


@modelapi(name="tomserve")
class AnsweredBefore(ModelAPI):
    """The model of a log that `tomserve export inspect` wrote, so that `inspect score` finds one. It answers nothing:
    its answers are in the log."""

    async def generate(self, *of: Any, **given: Any) -> NoReturn:
        """Raise ConfigError."""
        del of, given
        raise ConfigError(
            f"tomserve/{self.model_name} is the model of an exported run, whose replies are in the log; name a model "
            "that can be asked, such as --model openai/NAME"
        )


def _task_name(function: Callable[..., Task]) -> str:
    """The name of the benchmark that a task is called after."""
    return function.__name__.replace("_", "-")


@task
def benchmark(
    name: str, strategy: str = "", path: str = "", gold: str = "", limit: int | None = None, where: Conditions = ""
) -> Task:
    """Any benchmark, by its name or the FILE.py that declares it. where: conditions with ; between them."""
    return evaluation(name, strategy=strategy, path=path, gold=gold, limit=limit, where=where)


@task
def perturbed(strategy: str = "", limit: int | None = None, where: Conditions = "") -> Task:
    """The perturbed false-belief tasks, in the design of arXiv 2602.22072."""
    return evaluation(_task_name(perturbed), strategy=strategy, limit=limit, where=where)


@task
def perturbed_2(strategy: str = "", limit: int | None = None, where: Conditions = "") -> Task:
    """The second edition of the perturbed false-belief tasks, on which shortcut baselines come less far."""
    return evaluation(_task_name(perturbed_2), strategy=strategy, limit=limit, where=where)


@task
def worlds(strategy: str = "", limit: int | None = None, where: Conditions = "") -> Task:
    """Generated social worlds, whose right answers are proven."""
    return evaluation(_task_name(worlds), strategy=strategy, limit=limit, where=where)


@task
def hitom(strategy: str = "", path: str = "", gold: str = "", limit: int | None = None, where: Conditions = "") -> Task:
    """Nested beliefs of orders 0 to 4 (Hi-ToM, arXiv 2310.16755); path: the official file, else generated stories."""
    return evaluation(_task_name(hitom), strategy=strategy, path=path, gold=gold, limit=limit, where=where)
