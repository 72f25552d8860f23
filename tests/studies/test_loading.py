"""Studies as values and as files: how they are checked, found, loaded, and what is said of those that cannot be.
The texts of a study, in a file beside it."""

from pathlib import Path

import polars as pl
import pytest

from tests.helpers.measurements import SCHEMA
from tests.helpers.score_tables import scores
from tomserve.errors import ConfigError, ContentError
from tomserve.studies import Study, analyze, load_study, study_names
from tomserve.studies.phrases import PHRASES
from tomserve.studies.texts import Texts

TABLES = "def tables(scores, intervals):\n    return {'n': scores.select('item').collect()}\n"
DECLARED = "from tomserve.studies import Study\n" + TABLES + "STUDY = Study(name='mine', tables=tables)\n"


def count(frame: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    return {"n": frame.select(pl.len().alias(intervals)).collect()}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ny = x / 0\n", r"mine.py:2: cannot be loaded \(ZeroDivisionError"),
        ("x = 1\n", "has no STUDY; write STUDY = Study"),
        ("STUDY = {}\n", "STUDY is a dict; expected STUDY = Study"),
        ("def tables(:\n", r"mine.py:1: cannot be loaded \(SyntaxError"),
        (
            DECLARED.replace("tables=tables)", "tables=tables, intervals=())"),
            r"mine.py:4: cannot be loaded \(Study.intervals: is empty",
        ),
    ],
)
def test_a_file_that_is_no_study_is_told_where(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ContentError, match=said):
        load_study(str(tmp_path / "mine.py"))


def test_a_study_may_be_a_folder_with_modules_of_its_own(tmp_path: Path) -> None:
    """Two folders with modules of one name do not see each other's, also when they import one only as they are called."""
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "rows.py").write_text(f"NAME = {name!r}\n")
        (folder / "late.py").write_text("from .rows import NAME\n")
        (folder / "study.py").write_text(
            "import polars as pl\n"
            "from tomserve.studies import Study\n"
            "from .rows import NAME\n"
            "def tables(scores, intervals):\n"
            "    from . import late\n"
            "    return {'names': pl.DataFrame({'early': [NAME], 'late': [late.NAME]})}\n"
            "STUDY = Study(name=NAME, tables=tables)\n"
        )
    one, two = load_study(f"{tmp_path}/one/"), load_study(str(tmp_path / "two"))
    assert analyze(scores(), one)["names"].rows() == [("one", "one")]
    assert analyze(scores(), two)["names"].rows() == [("two", "two")]
    (tmp_path / "two/late.py").write_text("fail = 1 / 0\n")
    with pytest.raises(ContentError, match=r"two/late.py:1: failed \(ZeroDivisionError"):
        analyze(scores(), load_study(str(tmp_path / "two")))


def test_a_single_file_imports_what_lies_beside_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "beside_it.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "mine.py").write_text("from beside_it import NAME\n" + DECLARED.replace("'mine'", "NAME"))
    found = [load_study(str(tmp_path / name / "mine.py")).name for name in ("one", "two")]
    assert found == ["one", "two"]


def test_studies_are_found_by_name_as_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"accuracy", "hitom", "perturbed"} <= set(study_names())
    folder = tmp_path / "analysis"
    (folder / "ours").mkdir(parents=True)
    (folder / "ours/study.py").write_text(DECLARED.replace("'mine'", "'a folder'"))
    (folder / "_helper.py").write_text("")
    (folder / "perturbed.py").write_text(DECLARED.replace("'mine'", "'a file'"))
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path))
    assert {"ours", "accuracy"} <= set(study_names())
    assert "_helper" not in study_names()
    assert load_study("ours").name == "a folder"
    (folder / "ours/study.py").write_text(DECLARED.replace("'mine'", "'a changed folder'"))
    assert load_study("ours").name == "a changed folder"
    assert load_study("perturbed").name == "a file"  # the first folder that has a study of the name, whatever its kind
    with pytest.raises(ConfigError, match="unknown study 'our'; did you mean 'ours'"):
        load_study("our")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tables": None}, "Study.tables: None is not a function"),
        ({"name": " "}, "Study.name: ' '; expected the study's name as text"),
        ({"required": "item"}, "Study.required: 'item'; expected a tuple of names"),
        ({"values": {"stage": "C1"}}, r"Study.values\['stage'\]: 'C1'; expected a tuple of names"),
        ({"layouts": {"n": "wide"}}, r"Study.layouts\['n'\]: 'wide'; expected a Layout"),
        ({"labels": ["stage"]}, r"Study.labels: \['stage'\]; expected a mapping by name"),
        ({"answers": False}, "Study.columns: is empty"),
        ({"columns": SCHEMA}, "Study.columns: only a study of measurements has them"),
        ({"answers": False, "columns": {"a": 1}}, r"Study.columns\['a'\]: 1; expected a type of Polars"),
        ({"together": True, "answers": False, "columns": SCHEMA}, "leave out answers=False"),
        ({"together": 1}, "Study.together: 1; expected True or False"),
    ],
)
def test_a_mistake_in_a_field_is_named_when_the_study_is_made(fields: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Study(**{"name": "mine", "tables": count, **fields})


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
    assert texts.notes() == {"accuracy": f"T{share}, and t{share}. {PHRASES['about_tests']}", "cost": "In tokens."}
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
