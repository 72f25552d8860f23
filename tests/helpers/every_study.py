"""A score table for every study of the folder analysis/, of small questions with answers that are drawn by chance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import polars as pl

from tests.conftest import ROOT, make_item
from tests.helpers import chain_tables, dyntom, measured_tables, scored, tombench
from tests.helpers.functional_tables import answers, share
from tomserve import benchmarks
from tomserve.items import Item
from tomserve.runs.scores import load_scores
from tomserve.studies.comparison import combine_scores
from tomserve.variants import KINDS, Kind, make_variant, make_variants
from tomserve.weakness.design import DESIGNS, parse_cell
from tomserve.weakness.rounds import CONFIRMED, RANDOM, SEARCH, TWIN, label

DATA = ROOT / "tests/data"

Made = Callable[[Path], pl.DataFrame]
"""Makes a score table; may write files into the folder that it is given."""


def score_table(
    study: str, folder: Path, models: Sequence[str], strategies: Mapping[str, str] | None = None
) -> pl.DataFrame:
    """A score table that the study of that name can be computed from.

    folder: an empty one, for files of benchmarks. models: what its models are called, by turns; each of them has all
    rows. strategies: other names for strategies.
    """
    frame = MAKERS[study](folder)
    own = frame["model"].unique(maintain_order=True).to_list()
    found = pl.concat(
        frame.filter(pl.col("model") == own[place % len(own)]).with_columns(model=pl.lit(name), run=pl.lit(name))
        for place, name in enumerate(models)
    )
    return found.with_columns(pl.col("^strategy$").replace(dict(strategies or {})))


def answered(items: Sequence[Item], strategies: Sequence[str]) -> pl.DataFrame:
    """The score table of a model that has two of three questions right and guesses the others; some replies cannot be
    read, and some were not given."""
    return pl.concat(scored.answered(items, partial(_reply, strategy), strategy) for strategy in strategies)


def _reply(strategy: str, item: Item) -> str | None:
    chance = Random(f"{strategy}/{item.id}")
    said = item.answer if chance.random() < 0.67 else chance.choice(item.choices or [item.answer])
    text = "hm" if chance.random() < 0.03 else f'{{"answer": "{said}"}}'
    return None if chance.random() < 0.03 else text


def _of(benchmark: str, make: Callable[[Path], Path] | None, strategies: Sequence[str], folder: Path) -> pl.DataFrame:
    path = make(folder) if make is not None else None
    return answered(list(islice(benchmarks.load(benchmark, path), 300)), strategies)


def _there(name: str) -> Callable[[Path], Path]:
    return lambda _folder: DATA / name


def _run(name: str) -> Made:
    return lambda _folder: load_scores(str(ROOT / "runs" / name))


def _searched(_folder: Path) -> pl.DataFrame:
    """Questions as a search labels them: those that it asked, two cells, and random ones."""
    design = DESIGNS["worlds"]
    cells = {CONFIRMED: "family=contents", TWIN: "family=contents", RANDOM: ""}
    items = []
    for place, item in enumerate(islice(benchmarks.load("worlds"), 300)):
        levels = design.read_levels(item)
        part = (SEARCH, RANDOM, CONFIRMED, TWIN)[place % 4]
        cell = cells.get(part, "") if levels["family"] == "contents" else f"order={levels['order']}"
        items.append(label(item, levels, part, place // 100, parse_cell(cell)))
    return answered(items, ("vanilla",))


def _behaviour(folder: Path) -> pl.DataFrame:
    parts = [MAKERS["bigtom"](folder), MAKERS["worlds"](folder), MAKERS["accuracy"](folder)]
    return combine_scores([part.with_columns(model=pl.lit("m")) for part in parts])


def _stability(_folder: Path) -> pl.DataFrame:
    items = [
        make_item(n, choices=["tea", "salt", "rice", "unknown"], gold=None, factors={"family": "ab"[n % 2]}, cluster=f"s/{n // 2}")
        for n in range(48)
    ]  # fmt: skip
    told = make_variants(items, KINDS, lambda _name: _retell)
    rows = [
        (item, {"strategy": strategy, "status": "ok", "text": f'{{"answer": "{_drawn(item)}"}}'})
        for strategy in PLAIN
        for item in [*items, *(one for one in told if isinstance(one, Item))]
    ]
    again = pl.when(pl.col("original_item").is_null()).then([1, 64]).otherwise(None)
    return scored.score_table("r", "m", rows).with_columns(noise_compared=again)


def _drawn(item: Item) -> str:
    return Random(item.base or item.id).choice(item.choices)


def _retell(item: Item, kind: Kind) -> Item:
    if kind.name == "object":
        return make_variant(item, kind, by="record", choices=[f"the {label}" for label in item.choices])
    return make_variant(item, kind, by="rules", question=f"{kind.short}: {item.question}")


def _functional(_folder: Path) -> pl.DataFrame:
    inside = measured_tables.measured(measured_tables.WORKS, items=60, layers=(1, 2), alphas=(1e-2,))
    asked = (("vanilla", share(0.8)), ("cot", share(0.9)))
    return combine_scores([*(answers(right, 0.9, strategy=strategy) for strategy, right in asked), inside])


PLAIN = ("vanilla", "cot")
MAKERS: Mapping[str, Made] = {
    "accuracy": _run("example"),
    "behaviour": _behaviour,
    "bigtom": partial(_of, "bigtom", _there("bigtom_small.csv"), PLAIN),
    "bundles": partial(_of, "bundles", None, PLAIN),
    "causal": lambda _folder: measured_tables.measured(measured_tables.WORKS, items=60, layers=(1, 2), alphas=(1e-2, 1e-1)),
    "dyntom": partial(_of, "dyntom", lambda folder: dyntom.write_trials(folder, 12), ("dyntom_vanilla", "dyntom_cot")),
    "faithfulness": lambda _folder: chain_tables.measured(chain_tables.SOMETIMES),
    "fantom": partial(_of, "fantom", _there("choices/FANToM"), PLAIN),
    "functional": _functional,
    "hitom": partial(_of, "hitom", None, ("hitom_vanilla", "hitom_cot")),
    "mmtom": partial(_of, "mmtom", _there("choices/mmtom.json"), PLAIN),
    "mumatom": partial(_of, "mumatom", _there("choices/mumatom.json"), PLAIN),
    "opentom": partial(_of, "opentom", _there("opentom_small"), PLAIN),
    "perturbed": _run("example"),
    "stability": _stability,
    "tomato": partial(_of, "tomato", _there("choices/tomato_fb.json"), PLAIN),
    "tombench": partial(_of, "tombench", tombench.write, ("tombench_vanilla", "tombench_cot")),
    "tomi": partial(_of, "tomi", _there("tomi_small.txt"), PLAIN),
    "search": _searched,
    "worlds": _run("functional-example/worlds"),
}  # fmt: skip
"""What makes the score table of a study, by its name."""


def every() -> Iterator[str]:
    """The names of all studies of the folder analysis/."""
    for path in sorted((ROOT / "analysis").iterdir()):
        if path.suffix == ".py" or (path / "study.py").exists():
            yield path.stem
