"""Perturbed false-belief tasks, second edition: more stages, minimal pairs, and answers that no word gives away."""

from tomserve.benchmarks.perturbed_2.benchmark import BENCHMARK, load, stages

__all__ = ["BENCHMARK", "load", "stages"]
