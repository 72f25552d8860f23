"""Content that researchers edit (presets, prompts, stages, studies): finding it, reading it as YAML, and handling files
safely.
"""

from tomserve.content.paths import (
    PACKAGE,
    checkout,
    code_digest,
    data_file,
    digest,
    digest_of,
    find,
    names,
    programs,
    require,
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
    "require",
    "roots",
]
