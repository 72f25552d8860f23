"""OpenToM (Xu et al. 2024, arXiv 2402.06044): what two people know and feel about a thing that one of them moves away.

reader.py reads the folder of files; labels.py says what a question asks and which labels contradict each other;
official.py reads replies as the authors do; rules.py answers without following anybody; benchmark.py makes items of it.
"""

from tomserve.benchmarks.opentom.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
