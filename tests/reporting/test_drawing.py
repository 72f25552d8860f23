"""What charts are drawn with: numbers on axes, names that fit, and pictures as wide as they have to be."""

import pytest

from tomserve.reporting.drawing import spread, text_width, ticks, wrap
from tomserve.reporting.figure_export import subset_font
from tomserve.reporting.html.charts import BLUES, Fit, Point, points
from tomserve.reporting.pdf import pdf


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ((0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ((-1, 1), [-1, -0.5, 0, 0.5, 1]),
        ((-0.13, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ((0, 2), [0, 0.5, 1, 1.5, 2]),
    ],
)
def test_an_axis_has_round_numbers(ends: tuple[float, float], found: list[float]) -> None:
    assert ticks(*ends, 5) == pytest.approx(found)


def test_a_long_name_takes_two_lines_and_is_cut_only_then() -> None:
    name = "the story is of the family contents and is told by somebody who was there"
    assert " ".join(wrap(name, 300)) == name
    first, second = wrap(name, 150)
    assert name.startswith(f"{first} {second.removesuffix('…')}")
    assert max(map(text_width, (first, second))) <= 150


def test_a_colour_between_two_lies_between_them() -> None:
    assert [spread(BLUES, at) for at in (-1, 0, 0.25, 1, 2)] == [BLUES[0], BLUES[0], BLUES[1], BLUES[4], BLUES[4]]
    assert spread(["#000000", "#ff8000"], 0.5) == "#804000"


def test_a_pdf_has_the_size_of_its_drawing_and_the_same_bytes_each_time() -> None:
    chart = points([Point("row", "series", 0.5, 0.4, 2.0)], ["row"], ["series"], (0, 1), [], "share")
    drawing = chart.drawing(Fit(axis=100))
    made = [pdf(drawing, 0.5, *subset_font(drawing.letters())) for _ in range(2)]
    assert made[0] == made[1]
    box = f"/MediaBox [0 0 {drawing.width / 2:.2f} {drawing.height / 2:.2f}]"
    assert box.encode() in made[0]
    assert chart.drawing(Fit(axis=200)).width == pytest.approx(drawing.width + 100)
