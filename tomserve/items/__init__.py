"""Items (one question about one story each), their gold rationales, files of items, and draws of a part of them."""

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
