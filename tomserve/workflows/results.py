"""Loading items, scoring answers, analyzing and comparing scores in Python. No function here needs a model server."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve import benchmarks, studies
from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.items import Item, write_items
from tomserve.runs import scores as run_scores
from tomserve.scoring import table
from tomserve.scoring.responses import ItemFile, ResponseFile
from tomserve.studies import Study, comparison
from tomserve.studies.comparison import Comparison
from tomserve.workflows.run import Run

# A function that is called with a sentence for each thing worth knowing, such as `print`
Note = Callable[[str], None]

# A run (its name, its folder, or a Run) or a file with a score table (.parquet, .jsonl, .csv)
Source = str | Path | Run


def load(
    benchmark: str, path: str | Path | None = None, gold: str | None = None, where: str | Iterable[str] | None = None
) -> list[Item]:
    """Load the items of a benchmark: its stories with their questions, choices and correct answers.

    benchmark
        Its name, such as "perturbed", or "items" to read a file of your own.
    path
        The file or folder to read [the benchmark's own].
    gold
        Which set of correct answers counts, for a benchmark that has several [its first].
    where
        Conditions such as "order=1" that the items have to meet, or a list of them; "all" for every item [those that
        the benchmark asks by default, which mostly are all].

    Returns a list of Item in the benchmark's order. Raises ConfigError for a name that does not exist, and ContentError
    with file, line and field for a mistake in a file.

    >>> import tomserve
    >>> items = tomserve.load("perturbed")
    >>> items[0].question, sorted(items[0].choices)
    ('At the end of the story, what is really in the bag?', ['mittens', 'socks', 'unknown'])
    """
    conditions = (where,) if isinstance(where, str) else where
    return list(benchmarks.load(benchmark, None if path is None else Path(path).expanduser(), gold, conditions))


def score(
    responses: str | Path | Iterable[Mapping[str, Any]],
    items: str | Path | Iterable[Item],
    *,
    model: str | None = None,
    note: Note | None = None,
) -> pl.DataFrame:
    """Score responses that you collected with any other tool.

    responses
        A JSONL file, or dictionaries, one for each response. Each needs `item` (the item's id) and `text` (the model's
        reply), and may have `strategy` ["vanilla"], `model` and `status` ["ok"]. Where two responses have the same
        item, strategy and model, the later one counts.
    items
        The items that were asked, as a JSONL file or as Item objects.
    model
        The model's name, for responses without one [the name of the file, or "responses"].
    note
        A function such as `print` that is told, in a sentence, which lines could not be read.

    Returns a Polars table with one row for each item, strategy and model, and the columns of `Run.scores`. Raises
    ConfigError where no response belongs to one of the items, ContentError for a mistake in the file of items.

    >>> import tomserve
    >>> item = tomserve.Item(id="q", story=["Tea is in the jar."], question="What is in the jar?",
    ...                      choices=["tea", "salt"], answer="tea")
    >>> tomserve.score([{"item": "q", "text": "Answer: tea"}], [item]).select("answer", "correct").row(0)
    ('tea', True)
    """
    with files.temporary_folder() as scratch:
        folder = scratch
        asked = ItemFile(_items_file(items, folder))
        name = Path(responses).stem if isinstance(responses, str | Path) else "responses"
        answered = ResponseFile(_responses_file(responses, folder), asked, model or name, foreign=True)
        table.report_problems(note, answered)
        table.write_score_table(asked, answered, folder / "scores.parquet", run=name, rules=benchmarks.scoring_of)
        return files.scan_parquet(folder / "scores.parquet").collect()


def _items_file(items: str | Path | Iterable[Item], folder: Path) -> Path:
    if isinstance(items, str | Path):
        return Path(items).expanduser()
    if not (kept := list(items)):
        raise ConfigError("there are no items to score against; give the items that were asked")
    write_items(folder / "items.jsonl", kept)
    return folder / "items.jsonl"


def _responses_file(responses: str | Path | Iterable[Mapping[str, Any]], folder: Path) -> Path:
    """The file with the responses; those given as mappings are written to one in `folder`. Raises ConfigError."""
    if isinstance(responses, str | Path):
        return Path(responses).expanduser()
    path = folder / "responses.jsonl"
    with files.replace_file(path) as file:
        for number, response in enumerate(responses):
            try:
                file.write(orjson.dumps(dict(response), option=orjson.OPT_APPEND_NEWLINE))
            except (TypeError, ValueError) as error:
                raise ConfigError(f"response {number} is no mapping that JSON can hold ({error})") from None
    return path


def load_scores(source: Source | None = None, *, note: Note | None = None) -> pl.DataFrame:
    """Load the scores of a run, or of a file with a score table.

    source
        A run (its name, its folder, or a Run), or a .parquet, .jsonl or .csv file [the newest run].
    note
        A function such as `print` that is told, in a sentence, which lines could not be read.

    Returns a Polars table with one row for each item and strategy, whose columns docs/reference/files.md explains.
    Raises ConfigError where there is no such run or file, or where the file is no score table.

    >>> import tomserve
    >>> tomserve.load_scores("example").group_by("strategy").len().sort("strategy").rows()
    [('cot', 176), ('vanilla', 176)]
    """
    return run_scores.load_scores(_source(source), note=note)


def analyze(
    scores: pl.DataFrame, study: str | Study | None = None, intervals: str | None = None, by: str | Sequence[str] = ()
) -> dict[str, pl.DataFrame]:
    """Compute the tables of a study from scores, such as accuracy with confidence intervals.

    scores
        The table of `Run.scores`, `load_scores` or `score`. To analyze several runs together, concatenate their tables
        first (`pl.concat`).
    study
        The name of a study such as "accuracy", the path of a study's file, or a Study [that of the scores' benchmark].
    intervals
        How confidence intervals are computed, "recommended", "published" or, in the study accuracy, "effective"
        [the study's first].
    by
        Factors by whose values answers are counted as well, such as "kind", or "kind,order" for both crossed, or a list
        of such texts. Each adds a table of accuracy, `by_kind`, and tables of effects and differences [none].

    Returns the study's tables (Polars) by their names. Raises ConfigError where the scores lack a column that the study
    needs, or hold a value that it does not know, and for a factor that the questions do not have.

    >>> import tomserve
    >>> sorted(tomserve.analyze(tomserve.load_scores("example"), "accuracy"))
    ['accuracy', 'baselines', 'prompting_effects']
    """
    return dict(studies.compute(scores, study, intervals, (by,) if isinstance(by, str) else by).tables)


def compare(
    a: Source,
    b: Source | None = None,
    *,
    strategies: tuple[str, str] | None = None,
    common: bool = False,
    margin: float | None = None,
    by: str | Sequence[str] = (),
    note: Note | None = None,
) -> Comparison:
    """Compare two runs, two score tables or two strategies on the same questions: how much better or worse is b than a?

    The questions of a fresh edition, told anew with other names and words, are compared with those they were made from.

    a, b
        A run (its name, its folder, or a Run) or a file with a score table, each. Without b, two strategies of a.
    strategies
        The strategy of a and that of b [each strategy that both have is compared with itself].
    common
        True to compare only the questions that both were asked; otherwise different questions are an error.
    margin
        The largest difference that does not matter, such as 0.02 for two points; then it is tested whether b is not
        worse than a by as much, and whether both are the same up to it [None].
    by
        Factors whose values are compared one by one as well, such as "kind", or "kind,order" for both crossed, or a
        list of such texts [none].
    note
        A function such as `print` that is told, in a sentence, which lines could not be read, and what is lacking.

    Returns a Comparison with these fields:

    effects
        A table with the paired difference for each strategy and class of items, the overall one last.
    flips
        A table of the items that one of the two got right and the other did not.
    differences
        What else differs between the runs, such as the prompts.
    left_out
        How many answers of a, and of b, have no partner in the other.
    noise
        How often answers change by chance, in words; None where that was not measured.
    lacking
        Sentences on answers that could not be read, failed or were not asked for.
    caption
        Where one side is a fresh edition of the other's questions, what a gap between them means; None elsewhere.
    changes
        A table of harmful and beneficial flips and of changed answers, as shares with intervals.
    margins
        A table of the tests against the margin, empty without one.
    values
        A table of grades that are more than right or wrong, empty where there are none.
    by
        By name, such as "by_kind", a table of differences for the values of each factor.

    Raises ConfigError where the questions differ, where it is not clear which strategies to compare, and for a factor
    that the questions do not have.

    >>> import tomserve
    >>> tomserve.compare("example", "example").flips.height
    0
    >>> tomserve.compare("example", strategies=("vanilla", "cot")).effects.height
    12
    """
    second = None if b is None else str(_source(b))
    first = str(_source(a))
    factors = (by,) if isinstance(by, str) else by
    found = comparison.compare(
        first, second, strategies=strategies, common=common, margin=margin, by=factors, note=note
    )
    if note is not None:
        for said in found.lacking:
            note(said)
    return found


def _source(source: Source | None) -> str | None:
    if isinstance(source, Run):
        source = source.folder
    return str(source.expanduser().absolute()) if isinstance(source, Path) else source
