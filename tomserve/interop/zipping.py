"""Members of zip files that are the same whenever they are written, so that the same run gives the same bytes."""

from __future__ import annotations

import zipfile

EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every member, the first that a zip file can tell."""


def member(name: str) -> zipfile.ZipInfo:
    """A compressed file that its owner may write and everybody may read. name: its path in the zip file."""
    found = zipfile.ZipInfo(name, EARLIEST)
    found.compress_type = zipfile.ZIP_DEFLATED
    found.external_attr = 0o644 << 16
    return found
