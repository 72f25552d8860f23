"""Published benchmarks that others own, one module each: the user names their files by ``--path``.

The files are never part of tomserve. base.py says where a file comes from and whether it is the known one (by the
digests in NAME.txt), and audits any of them.
"""

from tomserve.benchmarks.published.base import Source

__all__ = ["Source"]
