"""The score of functional Theory of Mind as its source prints it, from its own B, C and S.

The source is Mohanty et al., "Functional Theory of Mind Evaluation in Large Language Models: A Behavioral and Causal
Stability Framework". It defines FToM = .5 B + .3 C + .2 S. Its table 6 does not follow from that: of the open models it
holds .5 B + .3 C/.46 + .2 S, in which C is divided by twice that of the best model, and of the closed ones, whose C
nobody measured, .5 B + .2 S, which is at most .7 and not comparable with the others.

>>> round(paper_compat(0.58, 0.23, 0.72), 2), round(printed_formula(0.58, 0.23, 0.72), 3)
(0.58, 0.503)
>>> round(paper_compat(0.67, None, 0.80), 3)
0.495
"""

from __future__ import annotations

WEIGHTS = (0.5, 0.3, 0.2)
"""The weights of B, C and S that the source prints."""

DIVISOR = 0.46
"""What C is divided by in its table: twice the largest C of the table, .23."""


def printed_formula(b: float, c: float, s: float) -> float:
    """What the formula that the source prints gives: .5 B + .3 C + .2 S. b, c, s: from 0 to 1."""
    return WEIGHTS[0] * b + WEIGHTS[1] * c + WEIGHTS[2] * s


def paper_compat(b: float, c: float | None, s: float) -> float:
    """What the source's table 6 holds, which its formula does not give.

    b, s: from 0 to 1. c: the same, None for a model whose mechanism was not measured; then the result is at most .7 and
    not comparable with that of a model that has C. It repeats the printed values, and is no score to report.
    """
    return WEIGHTS[0] * b + (0.0 if c is None else WEIGHTS[1] * c / DIVISOR) + WEIGHTS[2] * s
