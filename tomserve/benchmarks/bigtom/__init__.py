"""BigToM (Gandhi et al. 2023): 200 templates of stories, each told in up to 31 ways, about beliefs and actions.

What lies where:

    template.py     a row of the file: the parts of a story, its questions and answers, each checked
    conditions.py   the ways to tell a template: which questions it asks, and the official files they stand in
    official.py     the authors' scoring of replies, beside ours
    rules.py        readers who follow nobody's mind
    you.py          a text about somebody, told to the reader as that person
    triples.py      stories with a false belief and the two versions of them that take the person's place
    benchmark.py    all of it as a benchmark
"""

from tomserve.benchmarks.bigtom.benchmark import BENCHMARK, load

__all__ = ["BENCHMARK", "load"]
