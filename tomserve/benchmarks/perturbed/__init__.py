"""The benchmark of perturbed false-belief tasks, after arXiv 2602.22072: stage files, checks, items, audit.

A *stage* is a setting with its persons and things; a *task* is a story in it, told in several versions.
"""

from tomserve.benchmarks.perturbed.edition_1 import BENCHMARK, load
from tomserve.benchmarks.perturbed.stages_1 import load_stages

__all__ = ["BENCHMARK", "load", "load_stages"]
