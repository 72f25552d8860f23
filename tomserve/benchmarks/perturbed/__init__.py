"""The benchmark of perturbed false-belief tasks, after arXiv 2602.22072: stage files, checks, items, audit.

A *stage* is a setting with its persons and things; a *task* is a story in it, told in several versions.
"""

from functools import partial

from tomserve.benchmarks.perturbed import benchmark
from tomserve.benchmarks.perturbed.benchmark import FIRST_EDITION as BENCHMARK
from tomserve.benchmarks.perturbed.stages import FIRST

load = partial(benchmark.load, FIRST)

__all__ = ["BENCHMARK", "load"]
