"""Hi-ToM: stories as events, nested beliefs of any order, the official file, and its audit (arXiv 2310.16755).

What lies where:

    events.py       what happens in a story and what is asked, read and written exactly; the words, from dataset/hitom
    tracker.py      which sentences show or say where an object is, and to whom, under two named semantics
    items.py        the official JSON file, and a question as an Item with its design factors
    baselines.py    rules that nest nothing, and the containers to which known errors lead
    audit.py        every label of the official file against the tracker
    plan.py         what to generate, and what cannot be had
    sampler.py      a story drawn by seeded dice, with its twins, and what its agents believe at its end
    generator.py    whom to ask about, in balance; items with gold chains, as JSONL or in the official form
    benchmark.py    the benchmark, `tomserve generate hitom` and its tables of balance
    variants.py     variants of a question: the story changed, told again and tracked again
"""

from tomserve.benchmarks.hitom.benchmark import BENCHMARK, BUILT_IN, GOLDS, load

__all__ = ["BENCHMARK", "BUILT_IN", "GOLDS", "load"]
