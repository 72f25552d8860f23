"""What the model answered before anything was moved, as rows of the table."""

from __future__ import annotations

import polars as pl

from tomserve.causal.asked import Asked, one_of, said
from tomserve.causal.backend import Answers
from tomserve.causal.moving import rows
from tomserve.causal.table import ANSWER, ROLES, TOLD
from tomserve.causal.tokens import ORDERS


def answered(asked: Asked, answers: Answers) -> pl.DataFrame:
    """The rows of what the model answered before anything was moved, in every telling and order."""
    found: list[dict[str, object]] = []
    for number, case in enumerate(asked.cases):
        for told in TOLD:
            for order in ORDERS:
                if (place := asked.place(number, order, told)) < 0:
                    continue
                one = said(case, asked.prompts[place], one_of(answers, place))
                found.append(
                    {
                        "item": case.f.id,
                        "cluster": case.scenario,
                        "family": case.family,
                        "told": told,
                        "order": order,
                        "role": ROLES[one.role[0]],
                        "strict": bool(one.strict[0]),
                        "gap": float(one.gap[0]),
                    }
                )
    return rows(ANSWER, pl.DataFrame(found))
