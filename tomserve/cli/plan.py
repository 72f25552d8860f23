"""The command `plan`: what a study would cost and find, or what a large evaluation would take on a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from tomserve.cli.options import AllOption, BenchmarkOption, PathOption, StrategyOption, console
from tomserve.content.text import count_noun, say
from tomserve.errors import ConfigError, one_of

if TYPE_CHECKING:
    from tomserve.distributed.cost import Workload

FORMS = ("table", "json")
"""The forms of a plan for a cluster."""


def plan(
    benchmark: BenchmarkOption = None,
    path: PathOption = None,
    strategy: StrategyOption = None,
    models: Annotated[int, typer.Option(min=1, help="Number of models.")] = 1,
    requests: Annotated[
        int | None,
        typer.Option(help="Plan an evaluation of so many requests on a cluster, rather than a study."),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(help="On so many nodes; without --requests, all of the benchmark.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Preset of the model, for a rough guess of a node's speed.")] = None,
    gpus: Annotated[
        str | None, typer.Option(help="GPUs of one node, such as 4xA100-80GB. Default: 8xA100-80GB.")
    ] = None,
    prompt_tokens: Annotated[
        float | None, typer.Option(metavar="N", help="Tokens of a prompt. Default: measured on the benchmark.")
    ] = None,
    reply_tokens: Annotated[
        float | None, typer.Option(metavar="N", help="Tokens of a reply. Default: a quarter of those that it may have.")
    ] = None,
    shared: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Share of the prompt tokens in a prefix cache. Default: measured."),
    ] = None,
    tokens_a_second: Annotated[
        float | None, typer.Option(metavar="N", help="Reply tokens a second that one node gives, as measured on one.")
    ] = None,
    gpu_tflops: Annotated[
        float | None,
        typer.Option(metavar="N", help="Operations a second (10^12) of one GPU. Default: 30% of its peak."),
    ] = None,
    parameters: Annotated[
        float | None,
        typer.Option(
            metavar="N", help="Parameters (10^9) that a token takes; of a mixture of experts the active ones."
        ),
    ] = None,
    reply_weight: Annotated[
        float | None, typer.Option(metavar="N", help="Prompt tokens that a reply token costs. Default: 4.")
    ] = None,
    start_minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Minutes until the server of a node answers. Default: 10.")
    ] = None,
    lost: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Share that is asked twice as nodes fail. Default: 0.05.")
    ] = None,
    part_rows: Annotated[int | None, typer.Option(help="Most requests in one part. Default: 500000.")] = None,
    part_hours: Annotated[
        float | None, typer.Option(metavar="N", help="Most hours that one part takes. Default: 4.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="Format of the plan for a cluster: table or json.")] = "table",
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Samples of each question, as for eval.")] = 1,
    power: Annotated[
        float, typer.Option(min=0.01, max=0.999, help="Power: the probability of finding a true effect.")
    ] = 0.8,
    alpha: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Significance level of the tests.")] = 0.05,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Margin, such as 0.02 for two points: the sample size for a test of non-inferiority of one of two "
            "models (see compare)."
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Name or path of a run, or a score table, whose spread the study is expected to have."
        ),
    ] = None,
    people: Annotated[
        int | None, typer.Option(min=2, max=2000, help="Plan a study with so many people, too (dataset questionnaire).")
    ] = None,
    stories: Annotated[int, typer.Option(min=1, max=1000, help="How many stories each person reads.")] = 24,
    faithfulness: Annotated[
        bool, typer.Option("--faithfulness", help="Count the requests of `tomserve faithfulness`, too.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Plan for at most N questions, drawn as by eval and dataset questionnaire."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="FACTOR=VALUE: plan for the questions that meet this condition; repeatable."),
    ] = None,
    whole: AllOption = False,
) -> None:
    """Estimate the cost and the statistical power of a study.

    It counts requests and prompt tokens, and estimates the smallest effects that can be found. It asks no model. With
    --people it estimates the power of a study with people, and how many people and stories it takes. With --requests or
    --nodes it tells what so large an evaluation would take on a cluster: time, GPU hours, disk, memory and parts, each
    with what it rests on.
    """
    nodes_given: dict[str, Any] = {
        "gpus": gpus,
        "tokens_a_second": tokens_a_second,
        "tflops": gpu_tflops,
        "parameters": parameters,
        "reply_weight": reply_weight,
        "start_minutes": start_minutes,
        "lost": lost,
        "part_rows": part_rows,
        "part_hours": part_hours,
    }
    per_request = {"prompt_tokens": prompt_tokens, "reply_tokens": reply_tokens, "shared": shared}
    if requests is not None or nodes is not None:
        if form not in FORMS:
            raise ConfigError(one_of("format", form, FORMS))
        asked_how = (benchmark, path, tuple(strategy or ()), where or (), limit, repeats)
        _show(_load(requests, per_request, asked_how), nodes or 1, model, nodes_given, form, whole)
        return
    if wrong := [name for name, value in {**nodes_given, **per_request, "model": model}.items() if value is not None]:
        option = {"tflops": "gpu_tflops"}.get(wrong[0], wrong[0]).replace("_", "-")
        raise ConfigError(f"--{option} belongs to the plan for a cluster; add --requests N --nodes N")
    from tomserve import benchmarks
    from tomserve.cli import score
    from tomserve.cli.output import warn
    from tomserve.reporting import tables
    from tomserve.reporting.overview import MORE
    from tomserve.reporting.table_layout import print_prose
    from tomserve.stats.power import ASSUMED
    from tomserve.studies import comparison_tables
    from tomserve.studies import power as planning

    asked = benchmarks.get(benchmark)
    comparison_tables.check_margin(margin)
    known = None if like is None else score.load_answers(like)
    names = tuple(strategy or asked.strategies)
    items = planning.draw_items(asked, path, limit, where or ())
    questions = planning.questions_of(items)
    if known is not None and (other := planning.other_questions(known, asked, items)):
        warn(
            f"--like {like}: these are answers to {other}; the planned questions, those of {asked.name}, may vary more "
            "or less (--benchmark says what is planned)"
        )
    wanted = {"power": power, "alpha": alpha}
    found = planning.plan_study(asked, path, names, models=models, repeats=repeats, like=known, items=items, **wanted)
    samples = f" x {repeats} samples" if repeats > 1 else ""
    level = f"(power {power:g}, level {alpha:g})"
    effects = found.comparisons if whole else found.effects()
    shown = {"requests": found.cost, f"the smallest effects that would be found {level}": effects}
    if margin is not None:
        shown[planning.margin_title(margin, power)] = planning.margin_units(questions, margin, power, known)
    note = None
    if faithfulness:
        from tomserve.faithfulness.plan import estimate_costs

        shown["faithfulness: chains edited, hints in prompts"] = estimate_costs(asked, items, names, models)
    if people is not None:
        spread = None if known is None else planning.people_spread(known)
        title = f"a study with {people} people who read {stories} stories each {level}"
        shown[title] = planning.people_power_table(questions, people, stories, spread=spread or ASSUMED, **wanted)
        note = planning.people_note(questions, spread, like)
    say(f"{count_noun(found.items, 'question')}{samples}, {count_noun(models, 'model')}: {found}")
    tables.show_tables(shown, console(), None if whole else {})
    if not whole:
        whose = "is assumed, unless --like RUN measures it" if known is None else f"is that of {like}"
        print_prose(f"0.2 is 20 points. How much units differ (the standard deviation, SD) {whose}. {MORE}", console())
    elif note is not None:
        print_prose(note, console())


def _load(requests: int | None, given: dict[str, float | None], how: tuple[Any, ...]) -> Workload:
    """What is asked: as given and, where something is not given, as measured on the benchmark's prompts."""
    from tomserve import benchmarks
    from tomserve.distributed.cost import Workload, measure_load
    from tomserve.prompting.strategy import Strategy
    from tomserve.runs.conversations import Questions
    from tomserve.runs.item_store import ItemStore
    from tomserve.studies import power as planning

    known: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if requests is not None and len(known) == len(given):
        return Workload(requests, **known)
    benchmark, path, names, where, limit, repeats = how
    asked = benchmarks.get(benchmark)
    items = ItemStore(planning.draw_items(asked, path, limit, where))
    strategies = [Strategy.load(name) for name in dict.fromkeys(names or asked.strategies)]
    measured = measure_load(Questions(items, strategies, repeats), requests)
    said = "".join(f"; {name.replace('_', ' ')} as given" for name in known)
    return replace(measured, **known, source=f"{asked.name}: {measured.source}{said}")


def _show(load: Workload, nodes: int, model: str | None, given: dict[str, Any], form: str, whole: bool) -> None:
    """Print what an evaluation takes on a cluster. whole: with what each figure rests on."""
    from tomserve.distributed.cost import Nodes, estimate_cost
    from tomserve.reporting.table_layout import print_figures
    from tomserve.serving.presets import Preset

    known = {name: value for name, value in given.items() if value is not None}
    preset = None if model is None else Preset.load(model)
    figures = estimate_cost(load, Nodes(nodes, preset=preset, **known))
    if form == "json":
        say(orjson.dumps([one.record() for one in figures], option=orjson.OPT_INDENT_2).decode())
        return
    print_figures(figures, console(), whole=whole)
