"""Figures that the authors of DynToM printed, from the README of their repository: quoted, and not computed here.

Their prompt, their 1,100 stories and their answers are not public, so that no cell can be computed again. The average
does not follow from the eight cells beside it by one rule: people's needs another weight of understanding than that of
GPT-4o.
"""

from __future__ import annotations

import polars as pl

STATES = ("belief", "emotion", "intention", "action")

PRINTED: dict[str, tuple[float, ...]] = {
    "human": (83.8, 77.6, 89.5, 78.7, 79.0, 73.8, 76.7, 76.3, 77.7),
    "GPT-4o": (80.9, 44.5, 91.7, 45.8, 87.5, 51.9, 95.1, 55.6, 64.0),
    "GPT-4o with CoT": (79.2, 44.5, 88.0, 47.6, 82.1, 46.6, 90.4, 49.6, 61.1),
}
"""Percent right: for each of STATES the understanding (U) and the transformation (T), then the printed average."""


def table() -> pl.DataFrame:
    """The table `published_states`: the printed cells as shares, and the weight of U that the average would need."""
    rows = []
    for who, cells in PRINTED.items():
        shares = {
            f"{state}_{part}": round(cell / 100, 3)
            for (state, part), cell in zip([(s, p) for s in STATES for p in ("u", "t")], cells[:8], strict=True)
        }
        known, changed = sum(cells[0:8:2]) / 4, sum(cells[1:8:2]) / 4
        rows.append(
            {
                **{"who": who, "quoted": True, **shares},
                **{"understanding": round(known / 100, 3), "transformation": round(changed / 100, 3)},
                **{"average": round(cells[8] / 100, 3)},
                "weight_of_u": round((cells[8] - changed) / (known - changed), 2),
            }
        )
    return pl.DataFrame(rows)
