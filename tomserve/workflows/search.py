"""The search for where a model breaks, from Python (`tomserve.search`) and for the command: an ordinary run whose
questions follow from its answers, its study, and the questions that it found as a frozen benchmark."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

import polars as pl

from tomserve.content import files, output_path
from tomserve.errors import ConfigError
from tomserve.items import Item, items_digest, read_items, write_items
from tomserve.reporting.tables import markdown
from tomserve.runs.item_store import ItemStore
from tomserve.runs.manifest import Manifest
from tomserve.runs.planning import EvalOptions
from tomserve.runs.progress import Listener
from tomserve.runs.scores import scores_of
from tomserve.studies import compute
from tomserve.weakness.rounds import CELL, CONFIRMED, PART, SEARCH, STUDY, Search, SearchSettings
from tomserve.workflows.evaluate import as_texts, choose_listener, run_evaluation
from tomserve.workflows.run import Place, Run, as_name, given_options

BENCHMARK, BUDGET, STRATEGY = "worlds", 2000, "vanilla"


class SearchOptions(TypedDict, total=False):
    """The options of `search`, given by name; those that `ask` has too mean the same.

    budget
        How many questions are asked at most, half of them to confirm what the other half found [2000].
    seed
        The seed of the stories and of the draws [0].
    strategy
        The prompting strategy [vanilla].
    export
        A file to which the questions that confirm are written as a frozen benchmark, with a datasheet beside it [none].
    """

    budget: int
    seed: int
    strategy: Place
    export: Place | None
    base_url: str | Sequence[str] | None
    revision: str | None
    max_tokens: int | None
    thinking: str | None
    reasoning_effort: str | None
    extra_body: Mapping[str, Any]
    answer_schema: str
    timeout: float
    concurrency: int | None
    transport: str
    run: Place | None
    again: str | Sequence[str] | None
    accept_change: bool
    patience: float | None
    setup: bool
    progress: bool | Listener


def search(model: str | None = None, benchmark: str = BENCHMARK, **options: Unpack[SearchOptions]) -> Run:
    """Search for the questions that a model fails, and confirm on fresh ones how often it fails them.

    model
        The model's id or the name of a preset [the model that the server serves].
    benchmark
        The benchmark whose design is explored: worlds, perturbed-2 or hitom.
    options
        Further options by name, listed in `SearchOptions`.

    Returns the run; `tomserve.analyze(run.scores(), "search")` gives the tables of what was found. If it was
    interrupted, repeat the same call. Raises as `ask` does, and ConfigError for a benchmark without a generator.

    >>> import tomserve
    >>> run = tomserve.search(base_url="http://localhost:8000/v1", budget=600)                 # doctest: +SKIP
    >>> tomserve.analyze(run.scores(), "search")["cells"]                                     # doctest: +SKIP
    """
    given = given_options("search", SearchOptions, options)
    settings = SearchSettings(benchmark, given.pop("budget", BUDGET), given.pop("seed", 0))
    listener = choose_listener(cast("bool | Listener", given.pop("progress", False)))
    export, strategy = given.pop("export", None), as_name(given.pop("strategy", STRATEGY))
    for name, field, expected in (("base_url", "base_urls", "an address"), ("again", "again", "a status")):
        given[field] = as_texts(given.pop(name, ()), name, expected)
    wanted = EvalOptions(model=model, strategies=(strategy,), run=as_name(given.pop("run", None)), **given)
    result = run_evaluation(make_search(settings, wanted), listener)
    if export is not None:
        export_found(result.folder, Path(export).expanduser())
    return Run(result.folder, result.failures)


def check_search(budget: int, options: EvalOptions) -> SearchSettings:
    """The settings of the search that an experiment wants by its field `search`. options: of the experiment. Raises
    ConfigError for an option that a search does not have."""
    fields = ("path", "gold", "where", "limit", "noise_check", "variants")
    if given := next((name for name in fields if getattr(options, name)), "repeats" if options.repeats > 1 else None):
        raise ConfigError(f"{given}: a search draws its own questions and asks each once; leave {given} out")
    if len(options.strategies) > 1:
        raise ConfigError(f"strategy: a search asks by one strategy, not by {', '.join(options.strategies)}; name one")
    return SearchSettings(options.benchmark or BENCHMARK, budget, options.seed)


def search_as_experiment(budget: int, options: EvalOptions) -> EvalOptions:
    """The options of an evaluation that is the search of an experiment. Raises as `check_search` does."""
    settings = check_search(budget, options)
    return make_search(settings, replace(options, seed=0, strategies=options.strategies or (STRATEGY,)))


def make_search(settings: SearchSettings, options: EvalOptions) -> EvalOptions:
    """The options of an evaluation whose questions follow from its answers. options: how it is asked, and of whom."""
    rounds = Search(settings)
    return replace(options, benchmark=settings.benchmark, items=ItemStore(rounds.following({})), rounds=rounds)


def datasheet_of(path: Path) -> Path:
    """Where the datasheet of a file of questions lies. Raises ConfigError unless that can be another file beside it."""
    if path.suffix != ".jsonl":
        raise ConfigError(f"--export {path}: expected NAME.jsonl, as the datasheet is called NAME.md")
    return path.with_suffix(".md")


EXAMPLES = 10  # questions of each cell that the datasheet shows


def export_found(folder: Path, path: Path) -> Path:
    """Write the questions that confirm what a search found, with the random ones beside them and the twins, as a file
    of items, and beside it a datasheet (`.md`) that says how it was made. Returns the path of the datasheet. Raises
    ConfigError where the run is no finished search, and where a file cannot be written."""
    manifest = Manifest.read(folder)
    if manifest is None or STUDY not in manifest.settings:
        raise ConfigError(f"{folder}: is no search; make one with `tomserve search`")
    items = [item for item in read_items(folder / "items.jsonl") if item.factors.get(PART) != SEARCH]
    if not manifest.complete or not items:
        raise ConfigError(f"{folder}: the search is not finished; repeat its command, and export then")
    sheet = datasheet_of(path)
    for file in (path, sheet):
        output_path.check_output(file)
    text = write_datasheet(path.name, manifest, items, compute(scores_of(folder), named=STUDY).tables["cells"]).encode()
    title = text.partition(b"\n")[0]
    if sheet.exists():  # the user has named only `path`
        with files.open_for_reading(sheet) as before:
            if before.read(len(title)) != title:
                reason = f"is there already, and no datasheet of {path.name}; give --export another name"
                raise ConfigError(f"{sheet}: {reason}")
    write_items(path, items, output_path.open_output)
    with output_path.open_output(sheet) as made:
        made.write(text)
    return sheet


def write_datasheet(name: str, manifest: Manifest, items: Sequence[Item], cells: pl.DataFrame) -> str:
    """The datasheet of the questions that a search found, in Markdown. name: of their file."""
    settings = manifest.settings[STUDY]
    counts = {part: sum(item.factors.get(PART) == part for item in items) for part in ("confirmed", "random", "twin")}
    lines = [
        f"# {name}: questions that one model fails",
        "",
        "**This set is adversarial to one model.** Its questions lie in the cells of a design in which that model was "
        "found weakest. A comparison of that model with another one on it favours the other; the random questions, "
        "which were drawn without a look at any answer, do not.",
        "",
        "| | |",
        "|---|---|",
        f"| found in | {markdown(manifest.model)}, revision {markdown(manifest.revision or 'unknown')} |",
        f"| searched | {markdown(manifest.benchmark)}, {settings['budget']:,} questions, seed {settings['seed']} |",
        f"| made by | tomserve {markdown(f'{manifest.tomserve}, {manifest.created}')} |",
        f"| holds | {counts['confirmed']:,} questions of the cells, {counts['twin']:,} twins, {counts['random']:,} "
        "drawn at random |",
        f"| digest | {items_digest(items)} |",
        "",
        "Construction: half of the questions were asked in rounds that went where accuracy seemed lowest; none of them "
        "is in this file. For the weakest cells fresh stories were drawn by another seed, one question of each. The "
        "right answers follow from the events of each story by rules, not from any model. The factors `part` and "
        "`cell` say what a question is. Whether another model has the same weak cells: ask it with `tomserve eval "
        "--benchmark items --path FILE`, which prints the same table.",
    ]
    for row in cells.iter_rows(named=True):
        lines += ["", f"## {markdown(row['where'].capitalize())}", "", f"`{row['cell']}`: {row['finding']}", ""]
        own = [item for item in items if item.factors.get(CELL) == row["cell"] and item.factors[PART] == CONFIRMED]
        for item in own[:: max(1, len(own) // EXAMPLES)][:EXAMPLES]:
            story, choices = markdown(" ".join(item.story)), markdown(", ".join(item.choices))
            lines.append(f"- {story} **{markdown(item.question)}** ({choices}) {markdown(item.answer)}")
    return "\n".join([*lines, ""])
