"""Worlds: generated social stories about belief, desire, intention, emotion and action, with proven answers.

A world is a record (record.py) drawn by a family (families/). One set of rules (rules.py) gives every right answer from
what happens in it; phrasings and words (``dataset/worlds``) turn it into sentences (rendering.py). So each variant of a
story can be made again, and its truth with it.
"""

from tomserve.benchmarks.worlds.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
