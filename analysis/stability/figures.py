"""The report's figures of stability: how many answers survive each kind of change, and how far beyond habit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tomserve.reporting.html.charts import Line, Point, points
from tomserve.reporting.html.panels import drawn, rows_of, short_names, values_of
from tomserve.reporting.html.svg import PALETTE, draw
from tomserve.reporting.html.vegalite import Spec, field, layer, layered
from tomserve.studies import Context, Figure, Panel, Section
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import finite, readable
from tomserve.variants import AGAIN

SECTION = Section("stability", "Does the answer survive?", "Does the answer survive")
FIGURE = Figure(
    "stability",
    "Answers that survive what should not matter",
    SECTION,
    "In the picture of S each point is the share of variants of one kind that got the same answer as their "
    "original, each line its 95% interval over stories. The bands are T0, the same prompt asked again among other "
    "requests, with its interval: what lies left of its band changed by more than noise. The other picture shows "
    "kappa, which is S after what the habit of naming certain places gives by itself; at 0 the answers agree no "
    "more than that, and there is no point where all answers are one. An answer that survives may still be wrong.",
    ("stability",),
    caption_below=True,
)


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figure of S and kappa by kind of variant, with two pictures for each model.

    tables: by name. context: what a guesser scores, which is not drawn: stability is not about being right.
    """
    del context
    return [drawn(FIGURE, lambda: _drawn(tables))]


def _drawn(tables: Tables) -> Figure:
    needed = "model strategy benchmark variant short s s_low s_high kappa kappa_low kappa_high"
    rows = rows_of(tables, "stability", needed)
    kinds = [row for row in rows if row["variant"] != AGAIN.name and not str(row["variant"]).startswith("mean")]
    several = len(values_of(rows, "benchmark")) > 1
    series = [readable(name) for name in values_of(rows, "strategy")]
    panels: list[Panel] = []
    for model, short in short_names(values_of(rows, "model")).items():
        for benchmark in values_of([row for row in rows if row["model"] == model], "benchmark"):
            key = {"model": model, "benchmark": benchmark}
            own = [row for row in kinds if key.items() <= {k: str(row[k]) for k in key}.items()]
            floors = [
                row
                for row in rows
                if row["variant"] == AGAIN.name and key.items() <= {k: str(row[k]) for k in key}.items()
            ]
            title = f"{short}, {readable(benchmark)}" if several else short
            panels += _panels(own, floors, title, series, len(panels))
    return replace(FIGURE, panels=tuple(panels))


def _panels(kinds: Sequence[Row], floors: Sequence[Row], title: str, series: Sequence[str], count: int) -> list[Panel]:
    """The picture of S with the bands of T0, and that of kappa."""
    found: list[Panel] = []
    for value, name, domain in (("s", "S, the share that survives", (0.0, 1.0)), ("kappa", "kappa", (-0.5, 1.0))):
        marks = [
            Point(
                _row(row), readable(row["strategy"]), number, finite(row[f"{value}_low"]), finite(row[f"{value}_high"])
            )
            for row in kinds
            if (number := finite(row[value])) is not None
        ]
        if not marks:
            continue
        names = list(dict.fromkeys(_row(row) for row in kinds))
        lines = [Line(0, "")] if value == "kappa" else []
        chart = points(marks, names, series, domain, lines, name, width=300)
        bands = _bands(floors, series) if value == "s" else []
        label = f"{FIGURE.title}: {title}, {name}. " + "; ".join(mark.in_words() for mark in marks) + "."
        if value == "s":
            chart = layered([*bands, chart], 300, chart["height"])
            label += "".join(f" {_in_words(row)}." for row in floors)
        panel = f"{title}: {'S' if value == 's' else 'kappa'}"
        found.append(Panel(panel, draw(chart, label, f"{FIGURE.name}-{count + len(found)}")))
    return found


def _row(row: Row) -> str:
    return readable(" ".join(filter(None, (str(row["short"] or ""), str(row["variant"])))))


def _in_words(row: Row) -> str:
    return f"T0, {readable(row['strategy'])}: {row['s']:.2f} [{row['s_low']:.2f}, {row['s_high']:.2f}]"


def _bands(floors: Sequence[Row], series: Sequence[str]) -> list[Spec]:
    """An upright band for T0 of each strategy, in its colour, with a line at its estimate."""
    layers: list[Spec] = []
    for row in floors:
        if finite(row["s_low"]) is None:
            continue
        colour = PALETTE[series.index(readable(row["strategy"])) % len(PALETTE)]
        data = [{"low": row["s_low"], "high": row["s_high"], "at": row["s"], "words": _in_words(row)}]
        ends = {"x": field("low:Q"), "x2": {"field": "high"}, "description": field("words:N")}
        layers.append(layer("rect", data, ends, color=colour, opacity=0.16))
        layers.append(layer("rule", data, {"x": field("at:Q")}, color=colour, opacity=0.8, strokeDash=[3, 2]))
    return layers
