"""The rules of the second edition: those that both editions share, and those of readers who only look at words.

They stand in the score table beside every reply, and `tomserve dataset audit perturbed-2` counts them by class.
"""

from __future__ import annotations

from tomserve.benchmarks.perturbed.rules import PLAIN
from tomserve.benchmarks.perturbed_2.shortcuts import SHIPPED, WRITTEN

RULES = (*PLAIN, *WRITTEN, *SHIPPED.rules)
"""The rules of the benchmark's field `rules`."""
