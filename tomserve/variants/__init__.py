"""Variants of items: the same question in other words, by which it shows whether an answer is stable.

A *variant* is an item made from another one, its original (`Item.base`), by one of seven kinds of change
(tomserve.variants.base). Its right answer is that of the original, choice by choice (`Item.meanings`). Where an item
has a record of its story, its benchmark tells it anew and computes the truth again; where it is text alone, rules
change the text, or a model rewrites it and every rewriting is verified. A variant that cannot be made is left out, and
counted with the reason.
"""

from tomserve.variants.base import (
    AGAIN,
    CHOICES,
    CONDENSED,
    KINDS,
    OBJECT,
    ORDER,
    PARAPHRASE,
    PERSON,
    TAKEN,
    Dropped,
    Kind,
    Retell,
    find_rewriters,
    make_variant,
    make_variants,
    parse_kinds,
)

__all__ = [
    "AGAIN",
    "CHOICES",
    "CONDENSED",
    "KINDS",
    "OBJECT",
    "ORDER",
    "PARAPHRASE",
    "PERSON",
    "TAKEN",
    "Dropped",
    "Kind",
    "Retell",
    "find_rewriters",
    "make_variant",
    "make_variants",
    "parse_kinds",
]
