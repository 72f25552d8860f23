"""The check of an endpoint before an evaluation, as `tomserve doctor --base-url URL` prints it: what it serves, how it
wants to be asked, whether it keeps to schemas, its context, its speed on some real questions, and what asking the whole
benchmark would take."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tomserve.content.text import format_duration
from tomserve.distributed.cost import measure_load
from tomserve.engine.adaptations import NO_SCHEMA, TABLE
from tomserve.engine.addresses import normalize_url
from tomserve.engine.retry import RetryPolicy
from tomserve.errors import TomserveError
from tomserve.runs.evaluation import check_endpoints, evaluate, first_adaptations
from tomserve.runs.planning import EvalOptions, Plan, make_plan
from tomserve.runs.progress import Listener
from tomserve.runs.scores import scores_of
from tomserve.runs.verification import Finding
from tomserve.serving import keys
from tomserve.serving.preflight import Preflight, list_turns
from tomserve.serving.probe import ANSWER, Probe, WaitPolicy, format_models
from tomserve.status import ANSWERS
from tomserve.studies import missing_data

ASKED = 8  # real questions that are asked, all at the same time
PATIENCE = 20.0  # seconds for which a server that is busy or loads is waited for
LONG = 24_000
"""Characters of a prompt that asks for next to nothing, and that servers with a small context cut off without a word:
about 6,000 tokens."""


class _Watch(Listener):
    """Keeps the rows that come, and how long the asking takes, in seconds."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.seconds = 0.0

    def begin_phase(self, total: int, done: int) -> None:
        self.seconds -= time.monotonic()

    def end_phase(self) -> None:
        self.seconds += time.monotonic()

    def row(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def check_endpoint(options: EvalOptions) -> Iterator[Finding]:
    """Look at the one endpoint of an evaluation with these options, ask it some of its questions, and tell what was
    found, each as soon as it is. What ends the check is a finding that does not hold. Raises ConfigError where the
    address is none."""
    endpoint = normalize_url(options.base_urls[0])
    options = replace(options, patience=options.patience or PATIENCE)
    waiting = WaitPolicy(patience=options.patience, policy=options.policy, answer=ANSWER)
    try:
        plan = make_plan(options, waiting)
        known = keys.credentials(endpoint)
        probe = Probe(endpoint, known.key, options.timeout, waiting, known.headers)
        version, root = (plan.target.server.get(name) for name in ("engine_version", "root"))
        loaded = f", loaded from {root}" if root else ""
        yield Finding("model", True, f"{plan.target.model}{loaded}; engine version {version or 'unknown'}")
        yield _list_models(probe, plan.target.model)
        yield from _try_requests(plan, probe, waiting)
        yield from _ask(plan)
    except TomserveError as error:
        yield Finding("evaluation", False, _of(error, endpoint))


def _list_models(probe: Probe, model: str) -> Finding:
    """What the list of models holds, from which `model` was chosen."""
    try:
        probe.choose([model])
        served = [one["id"] for one in probe.models()]
    except TomserveError as error:
        return Finding("models", None, probe.unlisted or _of(error, probe.endpoint))
    unlisted = f"; {probe.unlisted}" if probe.unlisted else ""
    return Finding("models", None if unlisted else True, f"serves {format_models(served)}{unlisted}")


def _of(error: TomserveError, endpoint: str) -> str:
    """What an error says of this endpoint."""
    return str(error).removeprefix(f"{endpoint}: ")


def _try_requests(plan: Plan, probe: Probe, waiting: WaitPolicy) -> Iterator[Finding]:
    """Whether the requests of the benchmark's strategies are taken, and how. Raises ServerError or ConfigError where an
    evaluation would end there."""
    options, target, warnings = plan.options, plan.target, list[str]()
    sampling = replace(plan.sampling, adaptations=first_adaptations(plan))
    longest, names = check_endpoints(
        target, plan.questions, sampling, options.timeout, waiting, warnings.append, options.answer_schema
    )
    asked = ", ".join(strategy.name for strategy in plan.questions.strategies)
    yield Finding("requests", True, f"of {asked}: accepted{', adapted as follows' if names else ' as they are'}")
    for name in names:
        yield Finding("adapted", True, f"{name}: {TABLE[name].says}")
    yield _look_at_schema(plan, probe, names)
    limit = "unknown" if target.context is None else f"{target.context:,} tokens"
    counted = "" if longest is None else f"; the longest first prompt of {plan.benchmark_name} has {longest:,}"
    yield Finding("context", None if target.context is None else True, f"{limit}{counted}")
    probe.adaptations = names
    sentence = "It rains, and the neighbours talk about the harbour and the price of fish. "
    long = [{"role": "user", "content": f"{sentence * (LONG // len(sentence) + 1)}Say yes."}]
    cut = "; ".join(one.removeprefix("warning: ") for one in warnings)
    cut = cut or probe.describe_cut(target.model, long, plan.sampling.extra)
    yield Finding("prompts", None if cut else True, cut or "no sign that long ones are cut off")


def _look_at_schema(plan: Plan, probe: Probe, names: tuple[str, ...]) -> Finding:
    item = plan.questions.items[0]
    if NO_SCHEMA in names or all(
        turn.schema is None for one in plan.questions.strategies for turn in list_turns(one, item)
    ):
        return Finding("schema", None, "none is sent")
    loose = [name for name in names if TABLE[name].holds is False]
    if loose:
        return Finding("schema", None, f"not enforced: {TABLE[loose[0]].says}")
    dialect = next((name for name in names if TABLE[name].holds), "response_format")
    if Preflight(probe, plan.target.model).holds_schema(names):
        return Finding("schema", True, f"enforced, by {dialect}: a reply that only the schema demands came back")
    return Finding(
        "schema",
        None,
        f"{dialect} is accepted, but not enforced: replies are read as the model writes them, and more may be "
        "unreadable than elsewhere",
    )


def _ask(plan: Plan) -> Iterator[Finding]:
    """Ask some of the questions all at once, and tell how quick that was and what the rest would take."""
    strategies = plan.questions.strategies
    items = plan.varied.originals.take(math.ceil(ASKED / len(strategies)))
    watch = _Watch()
    with TemporaryDirectory() as folder:
        options = replace(
            plan.options,
            benchmark=plan.benchmark_name,
            items=items,
            path=None,
            gold=None,
            where=(),
            limit=None,
            variants=(),
            noise_check=None,
            run=str(Path(folder) / "check"),
            concurrency=ASKED,
            policy=RetryPolicy(attempts=2),
        )
        result = evaluate(options, watch)
        (gaps,) = missing_data.gaps_of_source(result.folder, scores_of(result.folder))
    rows = [row for row in watch.rows if row["status"] in ANSWERS]
    read = gaps.replies - gaps.unread
    why = "".join(f"; {said}" for said in gaps.cause_sentences())
    yield Finding(
        "replies",
        True if read == gaps.answered else None if read else False,
        f"{read} of {gaps.answered} questions got a readable answer{why}",
    )
    if rows and watch.seconds > 0:
        tokens = [(row.get("usage") or {}).get("completion") for row in rows]
        known = [count for count in tokens if count is not None]
        rate, speed = len(rows) / watch.seconds, sum(known) / watch.seconds
        said = f"{rate:,.1f} replies and {speed:,.0f} reply tokens a second, {ASKED} at a time"
        yield Finding("speed", True, said)
        yield _estimate(plan, rate, sum(known) / len(known) if known else None)


def _estimate(plan: Plan, rate: float, reply: float | None) -> Finding:
    """What asking the whole benchmark takes. rate: replies a second. reply: tokens of a reply; None where not known."""
    load = measure_load(plan.questions)
    prompts, replies = load.requests * load.prompt_tokens, load.requests * (reply or load.reply_tokens)
    return Finding(
        "cost",
        True,
        f"all of {plan.benchmark_name}: {load.requests:,} requests, about {prompts / 1e6:,.1f} million prompt tokens "
        f"and {replies / 1e6:,.1f} million reply tokens, {format_duration(load.requests / rate)} at {ASKED} at a time "
        "(eval finds out how many more the server takes)",
    )
