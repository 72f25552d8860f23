"""The published tables 3 to 6 beside ours, and how the source's table 6 comes about.

The source is Mohanty et al., "Functional Theory of Mind Evaluation in Large Language Models: A Behavioral and Causal
Stability Framework". Its items, code and answers are not public: no cell can be computed again but those of table 6,
which follow from the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

import polars as pl

from tomserve.stats.functional import FTOM_1
from tomserve.stats.paper_formulas import paper_compat, printed_formula
from tomserve.studies.contrasts import Record

from .rows import B_NAME, C_NAME, S_NAME, Gathered

BEHAVIOUR_COLUMNS = ("overall", "understanding", "influence", "transformation", "belief", "emotion")
TABLE_3: Mapping[str, tuple[int, ...]] = {
    "human": (78, 91, 84, 67, 76, 83),
    "gpt-4o": (67, 79, 71, 54, 58, 74),
    "claude-sonnet": (63, 75, 68, 49, 55, 71),
    "llama3.1-70b": (58, 70, 62, 44, 51, 65),
    "qwen2.5-72b": (53, 65, 57, 39, 46, 61),
    "mistral-7b": (41, 54, 45, 27, 34, 48),
}
"""Behaviour, raw accuracy in per cent, in the order of BEHAVIOUR_COLUMNS."""

TABLE_4: Mapping[str, tuple[float | None, str | None, str | None]] = {
    "llama3.1-70b": (0.23, "65-75", "1e-4..1e-2"),
    "qwen2.5-72b": (0.20, "70-80", "1e-4..1e-2"),
    "gpt-4o": (None, None, None),
    "mistral-7b": (0.11, "28-32", "1e-3..1e-2"),
}
"""Mechanism: peak net effect, which the source calls C, the layers of the peak, and the range of alpha."""

TABLE_5: Mapping[str, tuple[float, ...]] = {
    "gpt-4o": (0.74, 0.81, 0.78, 0.85, 0.80),
    "claude-sonnet": (0.71, 0.79, 0.76, 0.83, 0.77),
    "llama3.1-70b": (0.66, 0.74, 0.70, 0.79, 0.72),
    "qwen2.5-72b": (0.63, 0.71, 0.68, 0.76, 0.70),
    "mistral-7b": (0.52, 0.61, 0.55, 0.67, 0.59),
}
"""Stability under T1 to T4, and the printed average."""

REFERENCE = "reference"
"""What the row of people holds: no score, and an S that was not measured."""

TABLE_6: Mapping[str, tuple[float, float | None, float, float | None, str, int | None]] = {
    "human": (0.78, None, 0.97, None, REFERENCE, None),
    "gpt-4o": (0.67, None, 0.80, 0.50, "b_and_s_only", 1),
    "claude-sonnet": (0.63, None, 0.77, 0.47, "b_and_s_only", 2),
    "llama3.1-70b": (0.58, 0.23, 0.72, 0.58, "full", 1),
    "qwen2.5-72b": (0.53, 0.20, 0.70, 0.54, "full", 2),
    "mistral-7b": (0.41, 0.11, 0.59, 0.39, "full", 3),
}
"""B, C and S, the printed score, what it holds, and the printed rank."""

SOURCE, OURS = "source", "ours"
"""Where a row comes from."""


def compat() -> pl.DataFrame:
    """The table `paper_compat`: printed scores, what reproduces them, what the printed formula gives, and FToM_BS."""
    rows = []
    for model, (b, c, s, printed, kind, rank) in TABLE_6.items():
        # Decimals, since a half is to be rounded up as the source does: .335 + .16 = .495 is printed as .50.
        made = Decimal(str(round(paper_compat(b, c, s), 9)))
        rounded = float(made.quantize(Decimal("0.01"), ROUND_HALF_UP))
        rows.append(
            {
                **{"model": model, "holds": kind, "rank": rank, "b": b, "c": c, "s": s, "printed": printed},
                "paper_compat": float(made) if printed is not None else None,
                "rounds_to": rounded if printed is not None else None,
                "same": None if printed is None else rounded == printed,
                "printed_formula": None if c is None else round(printed_formula(b, c, s), 4),
                # The source prints an S of people, which nobody measured.
                "b_s_renormalised": None if kind == REFERENCE else round(FTOM_1.without_c(b, s), 4),
            }
        )
    return pl.DataFrame(rows)


def beside(found: Gathered) -> dict[str, pl.DataFrame]:
    """The tables `published_behaviour`, `published_causal` and `published_stability`: the source's rows, then ours."""
    shares = {name: [cell / 100 for cell in cells] for name, cells in TABLE_3.items()}
    behaviour: list[Record] = [
        {"from": SOURCE, "model": name, **dict(zip(BEHAVIOUR_COLUMNS, cells, strict=True))}
        for name, cells in shares.items()
    ]
    causal: list[Record] = [{"from": SOURCE, "model": name, "net_effect": value, "layers": layers, "alpha": alpha}
                            for name, (value, layers, alpha) in TABLE_4.items()]  # fmt: skip
    kinds = ("T1", "T2", "T3", "T4")
    stability: list[Record] = [{"from": SOURCE, "model": name, **dict(zip((*kinds, "average"), cells, strict=True))}
                 for name, cells in TABLE_5.items()]  # fmt: skip
    for model in found.models:
        behaviour += [{"from": OURS, "model": model, **row} for row in _behaviour(found, model)]
        causal += [{"from": OURS, "model": model, **row} for row in _causal(found, model)]
        stability += [{"from": OURS, "model": model, **row} for row in _stability(found, model)]
    made = {"behaviour": behaviour, "causal": causal, "stability": stability}
    return {f"published_{name}": pl.DataFrame(rows, infer_schema_length=None) for name, rows in made.items()}


def _behaviour(found: Gathered, model: str) -> list[Record]:
    """Raw shares right as the source counts them: of all questions, by the beginning of the task, and by dimension."""
    if found.asked is None or B_NAME not in found.told:
        return []
    own = found.asked.rows.filter(pl.col("model") == model, pl.col("mind"))
    rows = []
    for (strategy,), part in own.group_by(["strategy"], maintain_order=True):
        if strategy not in {name for (who, _), name in found.plain.items() if who == model}:
            continue
        row: Record = {"overall": part["correct"].mean()}
        for name in BEHAVIOUR_COLUMNS[1:4]:
            row[name] = part.filter(pl.col("task").str.starts_with(name))["correct"].mean()
        row |= {name: part.filter(dimension=name)["correct"].mean() for name in BEHAVIOUR_COLUMNS[4:]}
        rows.append(row)
    return rows


def _causal(found: Gathered, model: str) -> list[Record]:
    """The source's NetEffect (in-sample, likeliest choice, the largest cell of its window) of our measurement."""
    headline = found.told.get(C_NAME, {}).get("headline", pl.DataFrame())
    if model not in found.measured or not headline.height:
        return []
    own = headline.filter(model=model, benchmark=found.measured[model].arm["benchmark"])
    return [
        {"net_effect": row["published_net"], "layers": None if (at := row["published_layer"]) is None else str(at),
         "alpha": None if (alpha := row["published_alpha"]) is None else f"{alpha:g}"}
        for row in own.iter_rows(named=True)
    ]  # fmt: skip


def _stability(found: Gathered, model: str) -> list[Record]:
    table = found.told.get(S_NAME, {}).get("stability", pl.DataFrame())
    if not table.height:
        return []
    rows = []
    for (strategy, benchmark), part in table.filter(model=model).group_by(
        ["strategy", "benchmark"], maintain_order=True
    ):
        if found.plain.get((model, str(benchmark) or "items")) == strategy:
            shares = {str(short): s for short, s in part.select("short", "s").iter_rows()}
            row: Record = {kind: shares.get(kind) for kind in ("T1", "T2", "T3", "T4")}
            rows.append({**row, "average": shares.get("T1-T4")})
    return rows
