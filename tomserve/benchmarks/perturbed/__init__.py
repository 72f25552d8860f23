"""Perturbed false-belief tasks (design of arXiv 2602.22072): stage files, their checks, their items, their audit."""

from tomserve.benchmarks.perturbed.benchmark import BENCHMARK, load, stages

__all__ = ["BENCHMARK", "load", "stages"]
