"""The families of worlds, in the order in which they are generated."""

from tomserve.benchmarks.worlds.families import appearance, causal, contents, second_order, testimony, transfer, valley
from tomserve.benchmarks.worlds.family import Family

FAMILIES: tuple[Family, ...] = (
    contents.FAMILY,
    transfer.FAMILY,
    second_order.FAMILY,
    causal.FAMILY,
    appearance.FAMILY,
    testimony.FAMILY,
    valley.FAMILY,
)
BY_NAME = {family.name: family for family in FAMILIES}
