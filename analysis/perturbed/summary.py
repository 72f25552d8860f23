"""What the terminal shows of the perturbation study's tables, and what it warns of."""

from __future__ import annotations

import math

import polars as pl

from tomserve.studies import Excerpt
from tomserve.studies.noise import shown as shown_noise
from tomserve.studies.showing import Tables

from .rows import OVERALL, SUBSETS

NEW_STAGES = "new stages"


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt an effect of prompting: the two strategies were asked different items, or
    failed on different items, which can look like an effect."""
    effects = tables["prompting_effects"]
    if "p_failure" not in effects.columns or effects.is_empty():
        return []
    totals = tables["accuracy"].filter(perturbation=OVERALL).select("subset", "model", "strategy", "total")
    asked = {tuple(row[:3]): row[3] for row in totals.iter_rows()}
    doubts: dict[str, None] = {}
    for row in effects.filter(perturbation=OVERALL).iter_rows(named=True):
        subset, model, treatment, control = (row[name] for name in ("subset", "model", "treatment", "control"))
        most = max(asked.get((subset, model, strategy), 0) for strategy in (treatment, control))
        if row["n"] < most:
            both = f"({subset}): {row['n']} of {most} compare"
            doubts[f"{model}: {treatment} and {control} were asked different items {both}"] = None
        if row["p_failure"] is not None and row["p_failure"] < 0.05:
            p = f"p {row['p_failure']:.3f}, {subset}"
            doubts[
                f"{model}: {treatment} and {control} failed on different items ({p}); read bound_low and bound_high"
            ] = None
    return list(doubts)


def summary(tables: Tables) -> list[Excerpt]:
    """The tables that the terminal prints: accuracy by class and strategy, effects over all classes, the paper's
    criteria.

    A cell of accuracy reads ``right/asked share [interval]``; two strategies fit in 80 columns.
    """
    by_task = "method" in tables["accuracy"].columns
    excerpts = _accuracy(tables, "95% intervals" if by_task else "published intervals")
    effects = _effects(tables) if by_task else None
    if effects is not None:
        title = "effects (differences of shares) to expect of new stages: read these, not whether two intervals overlap"
        excerpts.append(Excerpt(title, effects, ("perturbation_effects", "prompting_effects")))
    kept = ["ostensible", "classes_above", "limited_robust", "robust", *(["tasks_solved"] if by_task else [])]
    verdicts = tables["criteria"].filter(rule="strict").select("subset", "model", "strategy", *kept)
    title = "theory of mind by the paper's criteria (more than half right)"
    return [*excerpts, Excerpt(title, verdicts, ("criteria",))]


def _accuracy(tables: Tables, kind: str) -> list[Excerpt]:
    cell = pl.format("{}/{} {}", "correct", "total", _cell("accuracy", "ci_low", "ci_high"))
    excerpts = []
    for (subset, model), part in tables["accuracy"].group_by(["subset", "model"], maintain_order=True):
        wide = part.with_columns(cell.alias("cell")).pivot("strategy", index="perturbation", values="cell")
        excerpts.append(Excerpt(f"{model}: accuracy, {SUBSETS[str(subset)]} ({kind})", wide, ("accuracy",)))
    return excerpts


def _effects(tables: Tables) -> pl.DataFrame | None:
    """The effects over all classes together, for new stages: perturbed against unperturbed stories, and each strategy
    against vanilla. None where there are none."""
    effects = []
    for name, perturbed in (("perturbation_effects", True), ("prompting_effects", False)):
        part = tables[name].filter(target=NEW_STAGES).filter(pl.col("perturbation").str.starts_with(OVERALL))
        if not part.is_empty():
            contrast = (
                pl.format("perturbed against none, {}", "strategy")
                if perturbed
                else pl.format("{} against {}", "treatment", "control")
            )
            effect = _cell("risk_difference", "rd_low", "rd_high").alias("effect [95%]")
            p = pl.col("p_permutation" if perturbed else "p_sign_flip").round(3).alias("p")
            effects.append(part.select("subset", "model", contrast.alias("contrast"), effect, p, *shown_noise(part)))
    return pl.concat(effects, how="diagonal_relaxed") if effects else None


def _cell(value: str, low: str, high: str) -> pl.Expr:
    columns = [pl.col(name).map_elements(_share, pl.String, skip_nulls=False) for name in (value, low, high)]
    return pl.format("{} [{}, {}]", *columns)


def _share(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "?"
    return f"{value:.2f}".replace("0.", ".", 1)
