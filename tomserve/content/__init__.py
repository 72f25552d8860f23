"""Content that researchers edit (presets, prompts, stages, studies): finding it, reading it as YAML, and handling files
safely.
"""

from tomserve.content.find import (
    PACKAGE,
    checkout,
    code_digest,
    data_file,
    digest,
    digest_of,
    find,
    names,
    programs,
    required,
    roots,
)

__all__ = [
    "PACKAGE",
    "checkout",
    "code_digest",
    "data_file",
    "digest",
    "digest_of",
    "find",
    "names",
    "programs",
    "required",
    "roots",
]
