"""The version, which what is written by tomserve is marked with: a leaf, so that every module may import it."""

__version__ = "0.15.0"
