"""The version of the scoring code (its digest and those of its libraries), by which an outdated score is known."""

import unicodedata

import polars as pl

from tomserve import content
from tomserve._version import __version__
from tomserve.content.paths import PACKAGE

CODE = ("items", "beliefs", "scoring", "benchmarks")
"""The parts of the package whose code decides what a score is."""


SCORER = (
    f"tomserve {__version__}, polars {pl.__version__}, Unicode {unicodedata.unidata_version}, "
    f"{content.code_digest(PACKAGE / name for name in CODE)}"
)
"""The versions and the code that scores are made with. It is determined on import, when the code is loaded, because a
long run is scored by the code with which it began, whatever was edited or installed since."""
