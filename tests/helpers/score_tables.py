"""A small score table that studies can be computed from."""

import polars as pl


def scores(**changes) -> pl.DataFrame:
    rows = []
    for cls in ("none", "late_label"):
        for n in range(4):
            for strategy in ("cot", "vanilla"):
                row = {"run": "r", "model": "m", "strategy": strategy, "item": f"{cls}/{n}", "status": "ok"}
                row |= {"correct": n != 0, "perturbation": cls, "scenario": "false_belief" if n < 2 else "no_transfer"}
                rows.append(row | {"question_kind": "belief", "stage": "C1"})
    return pl.DataFrame(rows).with_columns(**changes)
