"""The families of worlds, in the order in which they are generated."""

from tomserve.benchmarks.worlds.draft import Family
from tomserve.benchmarks.worlds.families import false_belief, narratives, social

FAMILIES: tuple[Family, ...] = (
    false_belief.CONTENTS_FAMILY,
    false_belief.TRANSFER_FAMILY,
    false_belief.SECOND_ORDER_FAMILY,
    narratives.CAUSAL_FAMILY,
    social.APPEARANCE_FAMILY,
    social.TESTIMONY_FAMILY,
    narratives.VALLEY_FAMILY,
)
BY_NAME = {family.name: family for family in FAMILIES}
