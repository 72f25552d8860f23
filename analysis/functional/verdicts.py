"""What the report says of each model in words: the three layers, and what the score licenses and what not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Verdict
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import cell, finite, p_value, percent, readable, signed

from .notes import LICENSES

QUESTION = "How far does it reach, layer by layer?"
LICENSE = "What does this license, and what not?"
ALIKE = "Does reasoning help small models and hurt large ones?"


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model its layers and scores, the claim about reasoning, and what follows from them.

    tables: by name. context: what a guesser scores, for which B is corrected already.
    """
    del context
    frame = tables.get("score", pl.DataFrame())
    return [_verdict(row, tables) for row in frame.to_dicts()]


def _verdict(row: Row, tables: Tables) -> Verdict:
    lead = [_lead(row)]
    cards = [_layers(row, tables), *_claims(tables), Card(LICENSE, "Less than the number suggests", OPEN, LICENSES)]
    return Verdict(str(row["model"]), tuple(lead), tuple(cards))


def _lead(row: Row) -> str:
    if finite(row["ftom"]) is not None:
        return f"{row['formula']}: FToM {_with(row, 'ftom')}; without the mechanism FToM_BS {_with(row, 'ftom_bs')}"
    if finite(row["ftom_bs"]) is not None:
        return f"FToM_BS {_with(row, 'ftom_bs')}; there is no FToM, as C is missing ({row['no_c']})"
    return "no score: " + "; ".join(f"{name.upper()} is missing ({row[f'no_{name}']})" for name in "bs"
                                    if row[f"no_{name}"])  # fmt: skip


def _with(row: Row, name: str) -> str:
    low, high = finite(row[f"{name}_low"]), finite(row[f"{name}_high"])
    ends = "" if low is None or high is None else f" [{cell(low)}, {cell(high)}]"
    return f"{cell(finite(row[name]))}{ends}"


def _layers(row: Row, tables: Tables) -> Card:
    """The three layers with what stands beside each, and a verdict that is as good as the weakest of them."""
    figures = _figures(str(row["model"]), tables)
    grounds, unknown = [], []
    shown: dict[str, bool] = {}
    for name, words, proof in (
        ("b", "behaviour", "over_rule"),
        ("c", "mechanism", ""),
        ("s", "stability", "kappa"),
    ):
        if row[f"no_{name}"] is not None:
            grounds.append((f"{words} ({name.upper()})", f"Not known: {row[f'no_{name}']}."))
            unknown.append(words)
            continue
        low = finite(row["c_low"]) if name == "c" else min((one[1] for one in figures.get(proof, [])), default=None)
        shown[words] = low is not None and low > 0
        beside = _mechanism(row, tables) if name == "c" else _beside(name, figures)
        grounds.append((f"{words} ({name.upper()})", f"{_with(row, name)}{beside}."))
    remark = (
        "A layer is shown where its control is left behind: B above the best simple rule in every benchmark, C above 0 "
        "after the largest control, kappa above 0 with every kind of variant, each by its 95% interval. The score adds "
        "layers up, and can be high although one of them shows nothing: read the layers first."
    )
    if not shown:
        return Card(QUESTION, "Nothing is known", OPEN, tuple(grounds), remark)
    if all(shown.values()) and not unknown:
        return Card(QUESTION, "All three layers are shown", GOOD, tuple(grounds), remark)
    parted = {
        "shown": [words for words, is_shown in shown.items() if is_shown],
        "not shown": [words for words, is_shown in shown.items() if not is_shown],
        "not known": unknown,
    }
    said = "; ".join(f"{how}: {', '.join(words)}" for how, words in parted.items() if words)
    bad = not any(shown.values()) and not unknown
    return Card(QUESTION, f"{said[:1].upper()}{said[1:]}", BAD if bad else OPEN, tuple(grounds), remark)


def _figures(model: str, tables: Tables) -> dict[str, list[tuple[float, float, float]]]:
    """By figure: estimate and ends in every benchmark, of the strategy that is counted."""
    layers, inputs = tables.get("layers", pl.DataFrame()), tables.get("inputs", pl.DataFrame())
    if not layers.height or not inputs.height:
        return {}
    plain = {(str(row["benchmark"]), row["strategy"]) for row in
             inputs.filter("counted", model=model, holds="answers").to_dicts()}  # fmt: skip
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in layers.filter(pl.col("model") == model).to_dicts():
        low, high = finite(row["low"]), finite(row["high"])
        named = (str(row["benchmark"]) or "items", row["strategy"])
        if low is not None and high is not None and named in plain:
            found.setdefault(str(row["figure"]), []).append((float(row["value"]), low, high))
    return found


def _mechanism(row: Row, tables: Tables) -> str:
    """What stands beside C, as a clause. It is counted in another cell than that in which the map moves most, so that
    a reader who sees the map below a control in a layer of the figure has to be told."""
    layers, inputs = tables.get("layers", pl.DataFrame()), tables.get("inputs", pl.DataFrame())
    tested = ""
    if layers.height and inputs.height:
        measured = inputs.filter("counted", model=row["model"], holds="measurement")["benchmark"].to_list()
        over = layers.filter(model=row["model"], layer="causal", figure="p_over_controls")
        own = [one["value"] for one in over.to_dicts() if (one["benchmark"] or "items") in measured]
        tested = f", {p_value(own[0])} over all cells and controls" if own else ""
    return (
        "; counted in the layer and at the strength where other scenarios show the map most above its controls, which "
        f"need not be where it moves most: there it is {signed(row['adjusted'])} points above the largest control"
        f"{tested}; ceiling {signed(row['ceiling'])}, {row['eligible']} eligible items"
    )


def _beside(name: str, figures: dict[str, list[tuple[float, float, float]]]) -> str:
    """What stands beside B or S, as a clause."""
    figure, words = ("over_rule", "B minus that of the best simple rule") if name == "b" else ("kappa", "kappa by kind")
    told = [f"{cell(value)} [{cell(low)}, {cell(high)}]" for value, low, high in figures.get(figure, [])]
    return f"; {words} {', '.join(told)}" if told else ""


def _claims(tables: Tables) -> Iterator[Card]:
    """The claim about sizes, where there are sizes to compare: not with one model alone."""
    for row in tables.get("cot_claim", pl.DataFrame()).to_dicts():
        if (finite(row["models"]) or 0) < 2:
            continue
        effects = tables["cot_by_task"].filter(task="all tasks").to_dicts()
        grounds = tuple(
            (readable(one["model"]), f"{signed(one['risk_difference'])} [{signed(one['rd_low'])}, "
             f"{signed(one['rd_high'])}] points with reasoning ({percent(one['share_treated'])} against "
             f"{percent(one['share_control'])} right).")
            for one in effects
        )  # fmt: skip
        said = str(row["verdict"])
        remark = (
            "The source says so of its models without a test. Here the effect over all tasks, on the same questions, "
            "is regressed on the logarithm of the models' size; a claim about sizes needs several models of each."
        )
        yield Card(ALIKE, f"{said[:1].upper()}{said[1:]}", OPEN, grounds, remark)
