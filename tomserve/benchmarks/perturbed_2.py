"""The second edition of the perturbed false-belief tasks: ``dataset/perturbed-2/stages/*.yaml``."""

from functools import partial

from tomserve.benchmarks.perturbed import benchmark
from tomserve.benchmarks.perturbed.benchmark import SECOND_EDITION as BENCHMARK
from tomserve.benchmarks.perturbed.stages import SECOND

load = partial(benchmark.load, SECOND)

__all__ = ["BENCHMARK", "load"]
