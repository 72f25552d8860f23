"""Scoring: from a model's text to an answer and a chain of beliefs, and from these to metrics and a table of scores.

It reads files only, so that it can be repeated without asking a model again.
"""
