"""How pages say sizes, times and rates."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tomserve.content.text import format_bytes
from tomserve.web import page_templates

MOMENT = datetime(2026, 3, 1, 10, 20, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("say", "known"),
    [
        (format_bytes, {0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 1_530_000: "1.5 MB", 123e9: "123 GB", 5e15: "5,000 TB"}),
        (page_templates.lasting, {None: "", 0.04: "under a second", 7.2: "7 s", 150: "2 min 30 s", 7300: "2 h 1 min"}),
        (page_templates.rate, {None: "", 1234.5: "1,234.5 per second", 0.05: "3.0 per minute"}),
        (page_templates.moment, {"2026-03-01T10:20:30Z": "2026-03-01 10:20", "2026-03-01T10:20:30+02:00": "2026-03-01 08:20"}),
        (page_templates.moment, {"2026-03-01T10:20:30": "2026-03-01 10:20", "yesterday": "yesterday", "": "", None: ""}),
        (page_templates.read_moment, {"2026-03-01T10:20:30Z": MOMENT, None: None, 7: None, "": None, "x": None}),
    ],
)  # fmt: skip
def test_words(say: Any, known: dict[Any, Any]) -> None:
    assert {given: say(given) for given in known} == known
