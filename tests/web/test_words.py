"""How pages say sizes, times and rates."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tomserve.web import words


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (1_530_000, "1.5 MB"), (123e9, "123 GB"), (5e15, "5000 TB")],
)
def test_sizes(count: float, said: str) -> None:
    assert words.size(count) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, ""), (0.04, "under a second"), (7.2, "7 s"), (150, "2 min 30 s"), (7300, "2 h 1 min")]
)
def test_durations(seconds: float | None, said: str) -> None:
    assert words.lasting(seconds) == said


@pytest.mark.parametrize(("rate", "said"), [(None, ""), (1234.5, "1,234.5 per second"), (0.05, "3.0 per minute")])
def test_rates(rate: float | None, said: str) -> None:
    assert words.rate(rate) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-03-01T10:20:30Z", "2026-03-01 10:20"),
        ("2026-03-01T10:20:30+02:00", "2026-03-01 08:20"),
        ("2026-03-01T10:20:30", "2026-03-01 10:20"),
        ("yesterday", "yesterday"),
        ("", ""),
        (None, ""),
    ],
)
def test_moments(text: str | None, said: str) -> None:
    assert words.moment(text) == said


def test_what_is_no_moment_is_none() -> None:
    assert words.read_moment("2026-03-01T10:20:30Z") == datetime(2026, 3, 1, 10, 20, 30, tzinfo=UTC)
    assert [words.read_moment(one) for one in (None, 7, "", "x", [])] == [None] * 5
