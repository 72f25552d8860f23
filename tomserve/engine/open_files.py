"""How many connections this process may hold: each is an open file, and the system limits these."""

from __future__ import annotations

import resource

SPARE = 128
"""How many of the open files that the system allows are kept for other things than connections."""


def bearable(wanted: int, endpoints: int = 1) -> int:
    """How many requests may be in flight at each of so many endpoints, at most `wanted` and at least 1.

    Where it takes more open files than the process may have, its limit is raised as far as the system lets it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = endpoints * wanted + SPARE
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
        except (OSError, ValueError):  # a sandbox may forbid it, or the kernel has a limit of its own
            pass
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, (soft - SPARE) // endpoints))
