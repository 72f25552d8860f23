"""The texts of a study, in a file beside it."""

from pathlib import Path

import polars as pl
import pytest

from tomserve.errors import ContentError
from tomserve.studies.presentation import ABOUT_TESTS
from tomserve.studies.texts import Texts

TEXTS = """
phrases: {share: "the share right, beyond {margin}", twice: "{share}, and {share}"}
notes:
  recommended: {accuracy: "{Twice}. {about_tests}", cost: "In tokens."}
  published: {accuracy tasks: "{Share}.", cost: }
shown: {accuracy: model accuracy absent, none: model}
read: accuracy
sections: {first: {heading: Heading, link: Link}}
figures: {shares: {section: first, title: Title, caption: "{Share}.", tables: accuracy tasks, wide: true}}
texts: {lost: "{count} lost, {share}"}
"""


def test_phrases_stand_in_texts_notes_excerpts_and_figures(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(TEXTS)
    texts = Texts(str(tmp_path / "mine.py"), margin="10%")
    share = "he share right, beyond 10%"
    assert texts.notes() == {"accuracy": f"T{share}, and t{share}. {ABOUT_TESTS}", "cost": "In tokens."}
    assert texts.notes("published") == {"accuracy": f"T{share}.", "tasks": f"T{share}.", "cost": "In tokens."}
    assert texts.notes("another") == texts.notes()
    (excerpt,) = texts.excerpts({"accuracy": pl.DataFrame({"accuracy": [1.0], "model": ["m"]})}, "published")
    assert (excerpt.frame.columns, excerpt.reading) == (["model", "accuracy"], f"T{share}.")
    figure = texts.figure("shares")
    assert (figure.section.link, figure.caption, figure.tables, figure.wide) == (
        *("Link", f"T{share}.", ("accuracy", "tasks")),
        True,
    )
    assert texts["lost"].format(count=3) == f"3 lost, t{share}"


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("notes:\n  a: [\n")
    with pytest.raises(ContentError, match=r"study\.yaml:3: broken YAML"):
        Texts(str(tmp_path / "figures.py")).notes()
