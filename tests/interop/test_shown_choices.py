"""Replies by letter that another tool got are read in its order of choices; empty replies are unread, and told."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.foreign_files import generated, samples
from tests.helpers.outcomes import passes
from tomserve import benchmarks
from tomserve.runs.scores import load_scores

DIFFER = "tomserve's reading and the "


def replies(path: Path, row: Callable[[Any, list[str]], dict[str, Any]]) -> Path:
    """A perfect answerer of our questions, shown the choices in the reverse order."""
    lines = []
    for item in itertools.islice(benchmarks.load("hitom", None, None, benchmarks.ALL), 12):
        shown = list(reversed(item.choices))
        text = f"The answer is {chr(ord('A') + shown.index(item.answer))}."
        asked = "\n".join((*item.story, item.question))
        lines.append(json.dumps({"asked": asked, "text": text, "correct": True, "model": "m", **row(asked, shown)}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("told", "right"),
    [
        (lambda asked, shown: {"choices": shown}, 12),
        (lambda asked, shown: {"asked": asked + "".join(f"\n{chr(65 + n)}. {one}" for n, one in enumerate(shown))}, 12),
        (lambda asked, shown: {}, 0),
    ],
)
def test_letters_of_another_order(told: Any, right: int, cli, tmp_path: Path) -> None:
    done = passes(cli("import", "jsonl", replies(tmp_path / "r.jsonl", told), "--run", "r", "--benchmark", "hitom"))
    scores = load_scores("r")
    assert (scores["correct"].sum(), scores["answer"].count()) == (right, right)
    assert (DIFFER in done.err) == (not right)
    assert right or DIFFER in cli("analyze", "r", "--study", "accuracy").err


def test_empty_replies_are_unread(cli, tmp_path: Path) -> None:
    rows = [generated(n, "x", 0.0, resps=[[""]], filtered_resps=["[invalid]"]) for n in range(8)]
    done = cli("import", "lm-eval", samples(tmp_path / "samples_x.jsonl", rows), "--model", "m", "--run", "r")
    assert "8 of 8 replies are empty" in done.err
    scores = load_scores("r")
    assert (set(scores["status"]), set(scores["reason"])) == ({"invalid"}, {"the reply is empty"})
    (tmp_path / "marks.csv").write_text("id,question,correct\n1,Q?,0\n2,R?,1\n")
    assert "empty" not in cli("import", "csv", tmp_path / "marks.csv", "--model", "m", "--run", "c").err


def test_of_old_files_without_filters_names_the_first_counts(cli, tmp_path: Path) -> None:
    rows = [generated(n, f"It is {n}", right) for right in (0.0, 1.0) for n in range(4)]
    for row in rows:
        del row["filter"]
    done = cli("import", "lm-eval", samples(tmp_path / "samples_x.jsonl", rows), "--model", "m", "--run", "r")
    assert "(also there: 'exact_match,filter 2'" in done.out
    assert load_scores("r")["correct"].sum() == 0
