"""A small study of measurements, and runs that hold what it reads."""

import textwrap
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.items import Item
from tomserve.runs.measurement import MeasuredRun

NAME = "depths"
"""What the study is called by --study."""

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"run": pl.String, "model": pl.String, "benchmark": pl.String, "item": pl.String, "cluster": pl.String},
    **{"kind": pl.Enum(("state", "fit")), "depth": pl.Int16, "held": pl.Boolean, "error": pl.Float64},
}
"""The columns of a measured table: whether a state held something at a depth, by item, and how well a fit did there."""

STUDY = '''
"""How often a state holds what it should, by depth."""

import polars as pl

from tomserve.reporting.html.charts import Line, Point, points
from tomserve.reporting.html.charts import Axis, draw_figure, rows_of, small_multiples
from tomserve.studies import BAD, GOOD, Card, Excerpt, Figure, Section, Study, Verdict

COLUMNS = {
    **{"run": pl.String, "model": pl.String, "benchmark": pl.String, "item": pl.String, "cluster": pl.String},
    **{"kind": pl.Enum(("state", "fit")), "depth": pl.Int16, "held": pl.Boolean, "error": pl.Float64},
}
FIGURE = Figure("depth", "What is held, by depth", Section("depth", "By depth", "Depth"),
                caption="Each point is the share of states that hold it.", tables=("held",))


def tables(scores, intervals):
    held = scores.filter(pl.col("kind") == "state").group_by("model", "depth").agg(
        pl.col("held").mean().alias("share"), pl.len().alias("states"))
    fits = scores.filter(pl.col("kind") == "fit").group_by("model", "depth").agg(pl.col("error").mean())
    return {"held": held.sort("model", "depth").collect(), "fits": fits.sort("model", "depth").collect()}


def figures(tables, context):
    def make():
        rows = [{**row, "depth": f"depth {row['depth']}", "series": "held"}
                for row in rows_of(tables, "held", "model depth share")]
        return small_multiples(FIGURE, rows, ("depth", "series", "share", "low", "high"), Axis("share", (0, 1)))
    return [draw_figure(FIGURE, make)]


def verdicts(tables, context):
    assert not context.chance
    for model in tables["held"]["model"].unique(maintain_order=True):
        best = tables["held"].filter(model=model)["share"].max()
        card = Card("Is it held?", "Yes" if best > 0.5 else "No", GOOD if best > 0.5 else BAD,
                    (("best depth", f"{best:.0%} of its states hold it."),), "It is judged by the best depth.")
        yield Verdict(model, (f"at best {best:.0%} of the states hold it",), (card,))


STUDY = Study(
    name="depths", tables=tables, answers=False, columns=COLUMNS, intervals=("recommended",), figures=figures,
    verdicts=lambda made, context: list(verdicts(made, context)),
    notes=lambda intervals: {"held": "The share of states that hold it."},
    warnings=lambda made: ["few states were measured"] if made["held"]["states"].min() < 10 else [],
    summary=lambda made: [Excerpt("held by depth", made["held"], ("held",))],
)
'''


def study(content: Path) -> Path:
    """A content folder with the study, which is made where it is missing."""
    (content / "analysis").mkdir(parents=True, exist_ok=True)
    (content / "analysis" / f"{NAME}.py").write_text(textwrap.dedent(STUDY))
    return content


def table(run: str = "deep", model: str = "tiny", items: int = 12) -> pl.DataFrame:
    """A measured table: at depth 2 the states of two thirds of the items hold it, at depth 1 those of a third."""
    rows: list[dict[str, Any]] = []
    named = {"run": run, "model": model, "benchmark": "items"}
    for number in range(items):
        for depth in (1, 2):
            one = {"item": f"q{number}", "cluster": f"s{number // 2}", "kind": "state", "depth": depth}
            rows.append({**named, **one, "held": number % 3 < depth})
    rows += [{**named, "kind": "fit", "depth": depth, "error": 1 / depth} for depth in (1, 2)]
    return pl.DataFrame(rows, schema=SCHEMA)


def items(count: int = 12) -> list[Item]:
    """The items that were measured."""
    given: dict[str, Any] = {"story": ["Tea is in the jar."], "question": "What is in the jar?", "answer": "tea"}
    return [Item(id=f"q{number}", choices=["tea", "salt"], **given) for number in range(count)]


def measured_run(folder: Path, *, model: str = "tiny", finished: bool = True, **more: Any) -> Path:
    """A measured run in that folder. more: see `opened`."""
    given: dict[str, Any] = {
        **{"model": model, "revision": "sha256:0", "benchmark": "items", "settings": {"depths": [1, 2], "folds": 5}},
        **{"environment": {"device": "cpu", "torch": "2.1"}, "command": f"tomserve measure {model} --items items"},
    }
    with opened(folder, **{**given, **more}) as run:
        run.write_items(items())
        if finished:
            run.finish(table(folder.name, model))
    return folder


LAYERS = {"layers": 3, "alphas": [0.1, 1.0]}
LAYER_TABLE = pl.DataFrame({"model": ["m"] * 3, "layer": [1, 2, 3], "value": [0.1, 0.2, 0.3]})
JAR_ITEMS = [
    Item(id="q", story=["Tea is in the jar."], question="What is in the jar?", choices=["tea", "salt"], answer="tea")
]


def opened(folder: Path, **changed: Any) -> MeasuredRun:
    """A measured run of three layers that is open. changed: parameters that are other than usual."""
    given: dict[str, Any] = {
        **{"study": NAME, "model": "m", "revision": "r1", "benchmark": "b", "benchmark_digest": "sha256:1"},
        **{"settings": LAYERS, "environment": {"torch": "2.1"}, **changed},
    }
    return MeasuredRun.open(folder, **given)
