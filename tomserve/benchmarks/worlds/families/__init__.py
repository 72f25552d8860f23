"""The families of worlds, in the order in which they are generated."""

from tomserve.benchmarks.worlds.families import contents, second_order, transfer
from tomserve.benchmarks.worlds.family import Family

FAMILIES: tuple[Family, ...] = (transfer.FAMILY, contents.FAMILY, second_order.FAMILY)
BY_NAME = {family.name: family for family in FAMILIES}
