"""More requests in flight than the system allows open files: the limit is raised, or fewer are in flight, and said."""

import resource

import pytest

from tests.conftest import Endpoint
from tests.helpers.outcomes import passes
from tomserve.engine.transports import SPARE, limit_in_flight

INFINITY = resource.RLIM_INFINITY


class Limits:
    """The limits of a process, which may forbid to be changed."""

    def __init__(self, soft: int, hard: int, *, fixed: bool = False) -> None:
        self.soft, self.hard, self.fixed = soft, hard, fixed

    def set(self, kind: int, limits: tuple[int, int]) -> None:
        if self.fixed or kind != resource.RLIMIT_NOFILE:
            raise ValueError("not allowed to raise maximum limit")
        self.soft, self.hard = limits


def limited(patch: pytest.MonkeyPatch, limits: Limits) -> None:
    patch.setattr(resource, "getrlimit", lambda kind: (limits.soft, limits.hard))
    patch.setattr(resource, "setrlimit", limits.set)


@pytest.mark.parametrize(
    ("limits", "wanted", "endpoints", "allowed", "soft"),
    [
        (Limits(1024, 1024), 65536, 1, 1024 - SPARE, 1024),
        (Limits(1024, 4096), 65536, 1, 4096 - SPARE, 4096),
        (Limits(1024, INFINITY), 65536, 1, 65536, 65536 + SPARE),
        (Limits(INFINITY, INFINITY), 65536, 1, 65536, INFINITY),
        (Limits(1024, 4096, fixed=True), 65536, 1, 1024 - SPARE, 1024),
        (Limits(1024, 1024), 800, 2, (1024 - SPARE) // 2, 1024),
        (Limits(1024, 1024), 100, 1, 100, 1024),
        (Limits(64, 64), 100, 1, 1, 64),
    ],
)
def test_as_many_as_the_system_allows(
    limits: Limits, wanted: int, endpoints: int, allowed: int, soft: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, limits)
    assert limit_in_flight(wanted, endpoints) == allowed
    assert limits.soft == soft


def test_a_run_says_that_fewer_are_in_flight(endpoint: Endpoint, cli, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, Limits(SPARE + 3, SPARE + 3))
    endpoint.delay = 0.02
    done = passes(cli("eval", "--base-url", endpoint.url, "--limit", 40, "--concurrency", 65536))
    assert "65,536 requests in flight need more open files than this system allows: 3 are in flight" in done.out
    assert endpoint.peak <= 3
