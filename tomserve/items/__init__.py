"""Items: one question about one story, its gold answer and belief automaton, and the drawing of subsets."""

from tomserve.items.item import (
    RESERVED,
    RESERVED_BEGINNINGS,
    SCHEMA,
    UNKNOWN,
    Factor,
    Gold,
    Item,
    Label,
    Text,
    items_digest,
    nfc,
    read_items,
    read_line,
    where,
    write_chunks,
    write_items,
)

__all__ = [
    "RESERVED",
    "RESERVED_BEGINNINGS",
    "SCHEMA",
    "UNKNOWN",
    "Factor",
    "Gold",
    "Item",
    "Label",
    "Text",
    "items_digest",
    "nfc",
    "read_items",
    "read_line",
    "where",
    "write_chunks",
    "write_items",
]
