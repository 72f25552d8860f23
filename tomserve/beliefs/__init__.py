"""What people believe after every line of a story, to any depth: the one engine behind all benchmarks that derive gold.

A benchmark turns its story into *updates*: at this line, these labels become known, to this *audience*. Everything else
is the same for all: a *chain* of agents (nobody: what is really so; Ann; what Ann thinks that Ben thinks; ...) takes
over the updates whose audience it belongs to, one after the other, and what it took over last is what it believes.

>>> from tomserve.beliefs import Trace, Update, together
>>> trace = Trace.of(3, ("Ann", "Ben"), lambda bits: [
...     Update(0, ("drawer",), together(bits["Ann"] | bits["Ben"])), Update(2, ("basket",), together(bits["Ann"]))])
>>> trace.chain(()), trace.chain(("Ann", "Ben"))
(['drawer', 'drawer', 'basket'], ['drawer', 'drawer', 'drawer'])
"""

from tomserve.beliefs.audience import Audience, apart, hearsay, shared_hearsay, together
from tomserve.beliefs.trace import Belief, Chain, Layer, Manner, Trace, Update

__all__ = [
    "Audience",
    "Belief",
    "Chain",
    "Layer",
    "Manner",
    "Trace",
    "Update",
    "apart",
    "hearsay",
    "shared_hearsay",
    "together",
]
