"""The families of worlds, in the order in which they are generated."""

from tomserve.benchmarks.worlds.families import transfer, valley
from tomserve.benchmarks.worlds.family import Family

FAMILIES: tuple[Family, ...] = (transfer.FAMILY, valley.FAMILY)
BY_NAME = {family.name: family for family in FAMILIES}
