"""The families of worlds, in the order in which they are generated."""

from tomserve.benchmarks.worlds.families import contents, transfer
from tomserve.benchmarks.worlds.family import Family

FAMILIES: tuple[Family, ...] = (transfer.FAMILY, contents.FAMILY)
BY_NAME = {family.name: family for family in FAMILIES}
