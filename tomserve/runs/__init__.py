"""Runs: an evaluation from its options to its scores, and the run folder that keeps everything of it.

`planning` turns options into a plan, `evaluation` asks it in phases, `journal` and `manifest` keep what was answered
and by whom, and `scores` makes the score table from the folder.
"""
