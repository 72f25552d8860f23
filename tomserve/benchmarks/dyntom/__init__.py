"""DynToM: how a person's belief, emotion, intention and action change over the scenes of a story, by its own files.

trials.py reads the files and knows their faults; asking.py makes items; rules.py has readers who follow nobody's mind.
"""

from tomserve.benchmarks.dyntom.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
