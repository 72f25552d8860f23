"""Files of other tools for tests: spreadsheets, lm-eval's samples, and what the real Inspect and lm-eval have written."""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

REAL = ROOT / "tests/data/other_tools"
"""What the real tools have written; bench/other_tools.py has them write it anew."""

HEAD = ["question", "sheet", "prompt", "reply", "read", "target", "mark"]
MAP = ["id=question", "asked=prompt", "text=reply", "answer=read", "correct=mark", "cluster=sheet"]


def sheet(path: Path, marks: str, *, separator: str = ",") -> Path:
    """A spreadsheet of sums, two on each sheet. marks: 1 or 0 for each."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter=separator)
        rows.writerow(HEAD)
        for number, mark in enumerate(marks):
            said = number + number if mark == "1" else number + number + 1
            asked = f"Ann has {number} pens.\nHow many has she with {number} more?"
            row = [f"s{number}", f"sheet {number // 2}", asked, f"It is {said}.", said, number + number, mark]
            rows.writerow(row)
    return path


def mapped() -> list[str]:
    """The options that say what the columns of a sheet mean."""
    return [word for one in MAP for word in ("--map", one)]


def samples(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A file of lm-eval's samples."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def generated(number: int, text: str, right: float, **more: Any) -> dict[str, Any]:
    """A line of lm-eval for a task whose replies are texts."""
    return {
        "doc_id": number,
        "doc": {"question": f"Sum {number}?", "level": f"level {number % 2}"},
        "target": str(number),
        "arguments": {"gen_args_0": {"arg_0": f"Tell me.\n\nSum {number}?", "arg_1": {"until": []}}},
        "resps": [[text]],
        "filtered_resps": [text.split()[-1]],
        "filter": "none",
        "metrics": ["exact_match"],
        "exact_match": right,
        **more,
    }
