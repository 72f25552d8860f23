"""The families of worlds, in the order in which they are generated."""

from tomserve.benchmarks.worlds.families import causal, transfer
from tomserve.benchmarks.worlds.family import Family

FAMILIES: tuple[Family, ...] = (transfer.FAMILY, causal.FAMILY)
BY_NAME = {family.name: family for family in FAMILIES}
