"""Items (one question about one story each), their gold rationales, files of items, and draws of a part of them."""

from tomserve.items.files import is_variant, numbered_items, read_ids, read_items, read_line, write_chunks, write_items
from tomserve.items.item import (
    EVERY,
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
    where,
    wrong_factor,
)

__all__ = [
    "EVERY",
    "RESERVED",
    "RESERVED_BEGINNINGS",
    "SCHEMA",
    "UNKNOWN",
    "Factor",
    "Gold",
    "Item",
    "Label",
    "Text",
    "is_variant",
    "items_digest",
    "nfc",
    "numbered_items",
    "read_ids",
    "read_items",
    "read_line",
    "where",
    "write_chunks",
    "write_items",
    "wrong_factor",
]
