"""Evaluations that are larger than one machine: divided into parts, asked anywhere, and joined again.

A *part* is a run folder of its own that holds some of an evaluation's questions, so that everything that is true of a
run is true of a part: it can be killed, resumed, scored and audited. The parts of an evaluation lie in one folder,
``runs/NAME.parts/``, with the record ``shards.json`` of what the whole evaluation asks (see tomserve.shards.record).
"""
