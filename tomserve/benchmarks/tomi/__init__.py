"""ToMi (Le et al. 2019): where people look for an object that was moved, with labels checked by a tracker of beliefs.

reader.py reads the file in any of its forms; tracker.py derives every answer from the story; rules.py answers without
following anybody; benchmark.py makes items of it, and checks files.
"""

from tomserve.benchmarks.tomi.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
