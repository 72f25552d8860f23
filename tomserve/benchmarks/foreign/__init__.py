"""Published benchmarks that others own: their files are never part of tomserve, the user names them by ``--path``.

source.py says where a file comes from and whether it is the known one; auditing.py counts what any such file holds. The
benchmarks themselves are the modules beside this package, one each.
"""

from tomserve.benchmarks.foreign.source import Source

__all__ = ["Source"]
