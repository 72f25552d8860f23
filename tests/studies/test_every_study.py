"""What every study of the folder analysis/ keeps: its numbers, notes, verdicts, forms and refusals."""

import io
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from rich.console import Console

from tests.helpers import golden_tables
from tests.helpers.every_study import every, score_table
from tomserve.errors import ConfigError
from tomserve.reporting import tables as forms
from tomserve.scoring.table import COLUMNS
from tomserve.studies import Analysis, Context, compute, load_study
from tomserve.studies.analysis import compute_files
from tomserve.studies.presentation import BAD, GOOD, OPEN

STUDIES = sorted(every())
WAYS = [(name, way) for name in STUDIES for way in load_study(name).intervals]
CHANCE = Context({"all": 1 / 3, "false_belief": 1 / 3})


@cache
def scores(study: str) -> pl.DataFrame:
    with TemporaryDirectory() as folder:
        frame = score_table(study, Path(folder), ["m"])
    known = {name: kind for name, kind in COLUMNS.items() if frame.schema.get(name) == pl.Null}
    return frame.with_columns(pl.col(name).cast(kind) for name, kind in known.items())


@cache
def analysis(study: str, intervals: str) -> Analysis:
    return compute(scores(study), study, intervals)


@pytest.mark.parametrize(("study", "intervals"), WAYS)
def test_numbers_and_words_are_what_they_were(study: str, intervals: str) -> None:
    found = analysis(study, intervals)
    shown = [(one.title, *golden_tables.columns(one.frame)) for one in found.summary()]
    words = {"warnings": found.warnings, "verdicts": found.verdicts_with(CHANCE), "summary": shown}
    golden_tables.check(f"{study}-{intervals}", found.tables, **words)


@pytest.mark.parametrize("study", STUDIES)
def test_neither_the_order_of_rows_nor_files_change_a_cell(study: str) -> None:
    frame, whole = scores(study), analysis(study, load_study(study).intervals[0])
    mixed = frame.sample(fraction=1.0, shuffle=True, seed=3)
    if whole.study.answers and study != "functional":
        place = mixed["item"].rank("dense") % 3
        found = compute_files([mixed.filter(place == number).lazy() for number in range(3)], study)
    else:
        found = compute(mixed, study)
    assert list(found.tables) == list(whole.tables)
    for name, table in whole.tables.items():
        assert_frame_equal(found.tables[name], table, rel_tol=1e-12, abs_tol=1e-12)
    assert found.warnings == whole.warnings


@pytest.mark.parametrize(("study", "intervals"), WAYS)
def test_every_table_has_a_note_a_place_in_80_columns_and_every_form(study: str, intervals: str) -> None:
    found = analysis(study, intervals)
    assert set(found.tables) <= set(found.notes) | {"noise_floor"}
    for name, note in found.notes.items():
        assert note[0].isupper(), name
        assert "{" not in note, name
        assert note.rstrip().endswith((".", ")")), name
    printed = io.StringIO()
    forms.show_analysis(found, Console(file=printed, width=80))
    assert max(map(len, printed.getvalue().splitlines())) <= 80
    assert found.summary()
    for form in forms.FORMATS[1:] if intervals == found.study.intervals[0] else ():  # the layouts are the same
        assert forms.render_all(dict(found.tables), form, found.study.layouts, found.notes)


@pytest.mark.parametrize(("study", "intervals"), WAYS)
def test_verdicts_are_grounded(study: str, intervals: str) -> None:
    found = analysis(study, intervals)
    for card in [card for verdict in found.verdicts_with(CHANCE) for card in verdict.cards]:
        assert card.tone in (GOOD, OPEN, BAD)
        assert card.grounds
        assert not re.search(r"\b(nan|None|inf)\b", str((card.verdict, card.grounds, card.remark))), card


@pytest.mark.parametrize("study", STUDIES)
def test_figures_are_drawn_or_say_what_is_missing(study: str) -> None:
    draw = load_study(study).figures
    if draw is None:
        return
    for figure in draw(analysis(study, load_study(study).intervals[0]).tables, CHANCE):
        assert bool(figure.missing) != bool(figure.panels or figure.exhibits), figure.name
        assert figure.title
        assert figure.missing or figure.caption.endswith("."), figure.name
        for panel in figure.panels:
            assert str(panel.svg).startswith("<svg")
            assert 'role="img"' in str(panel.svg)


@pytest.mark.parametrize("study", STUDIES)
def test_tables_that_do_not_fit_are_refused_in_one_line(study: str) -> None:
    told, frame = load_study(study), scores(study)

    def refused(wrong: pl.DataFrame, said: str) -> None:
        with pytest.raises(ConfigError, match=said) as error:
            compute(wrong, study)
        assert "\n" not in str(error.value)

    for name in () if told.together else told.required:
        refused(frame.drop(name, strict=False), f"column '{name}' is missing")
    refused(pl.concat([frame, frame]), "more than one|twice|more than once")
    with pytest.raises(ConfigError, match="unknown intervals 'recomended'"):
        compute(frame, study, "recomended")
