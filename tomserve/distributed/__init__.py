"""Evaluations that are larger than one machine: divided into shards, asked by Slurm, Ray or by hand, and merged
again.

A shard (called a part in files and options) is a run folder of its own that holds some of an evaluation's questions,
so that everything that is true of a run is true of it: it can be killed, resumed, scored and audited. The shards of
an evaluation lie in one folder, ``runs/NAME.parts/``, with the record ``shards.json`` of what the whole evaluation
asks. Nothing here schedules anything: Slurm and Ray do, and tomserve tells them what a shard needs, and reads back
how far each is.
"""
