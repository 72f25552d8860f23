"""The letters in an SVG are those of the font that drew the figure: a real browser without that font draws the same."""

import base64
import io
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vl_convert
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont

from tests.helpers.papers import Grey, alike, grey, shown
from tomserve.errors import ConfigError
from tomserve.reporting import figure_export
from tomserve.reporting.figure_export import embed_fonts, missing_letters

LETTERS = "".join(map(chr, range(0x21, 0x7F))) + "ÄéßØŁđŐ" + "αβΩωμµΔ" + "ЖяЩ" + "−–…→≤≥±“”‘’×°" + "ﬁK"
"""What the font has: of ASCII all, and letters of several scripts, among them two that look like others."""

CELL, SCALE = 24, 3
BOLD = 'font-weight="bold"'


def picture(letters: str, about: str = "", family: str = "") -> str:
    texts = [
        f'<text x="{CELL * place + 4}" y="18" font-size="15" {family} {about}>&#{ord(one)};</text>'
        for place, one in enumerate(letters)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{CELL * len(letters)}" height="{CELL}">'
    return f'{head}<rect width="100%" height="100%" fill="white"/>{"".join(texts)}</svg>'


def blocks(path: Path) -> None:
    """A font in which every letter is a black block, so that a letter that was not embedded is seen at once."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, -200))
    for corner in ((0, 900), (900, 900), (900, -200)):
        pen.lineTo(corner)
    pen.closePath()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "block"])
    builder.setupCharacterMap(dict.fromkeys(range(0x20, 0x3000), "block"))
    builder.setupGlyf(dict.fromkeys((".notdef", "block"), pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys((".notdef", "block"), (1000, 0)))
    builder.setupHorizontalHeader(ascent=900, descent=-200)
    builder.setupNameTable({"familyName": "Blocks", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("fonts")
    blocks(folder / "blocks.ttf")
    (folder / "fonts.conf").write_text(
        f"<fontconfig><dir>{folder}</dir><cachedir>{folder}/cache</cachedir></fontconfig>"
    )
    alone = browser.browser_type.launch(
        executable_path=shutil.which("chromium"),
        args=["--no-sandbox"] if os.getuid() == 0 else [],
        env={**os.environ, "FONTCONFIG_FILE": str(folder / "fonts.conf")},
    )
    yield alone.new_page(device_scale_factor=SCALE)
    alone.close()


def cells(image: Grey, count: int) -> list[Grey]:
    assert image.shape == (CELL * SCALE, CELL * SCALE * count)
    return np.split(image, count, axis=1)


def seen(page: Any, svg: str, count: int) -> list[Grey]:
    return cells(shown(page, svg), count)


def drawn(page: Any, letters: str, about: str = "") -> list[Grey]:
    family = f'font-family="{figure_export.FAMILY}"'
    return cells(grey(page, vl_convert.svg_to_png(picture(letters, about, family), scale=SCALE)), len(letters))


@pytest.mark.system
@pytest.mark.parametrize("about", ["", BOLD, 'font-style="italic"'])
def test_every_letter_is_the_glyph_that_the_figure_has(page: Any, about: str) -> None:
    letters = LETTERS.replace("ﬁ", "") if about else LETTERS
    found = seen(page, embed_fonts(picture(letters, about)), len(letters))
    right = drawn(page, letters, about)
    wrong = [letter for letter, a, b in zip(letters, found, right, strict=True) if alike(a, b) < 0.97]
    assert not wrong
    others = [alike(a, b) for a, b in zip(found, [*right[7:], *right[:7]], strict=True)]
    assert sorted(others)[len(others) // 2] < 0.8, "letters that are not the same are told apart"


@pytest.mark.system
def test_words_are_as_long_as_the_figure_has_room_for(page: Any) -> None:
    words = "office, fill up: Wave AV To"
    page.set_content(embed_fonts(f'<svg xmlns="http://www.w3.org/2000/svg"><text font-size="12">{words}</text></svg>'))
    page.evaluate("document.fonts.ready")
    long = page.evaluate("document.querySelector('text').getComputedTextLength()")
    font = programs(embed_fonts(picture("".join(set(words)))))[0]
    units = sum(font["hmtx"][font.getBestCmap()[ord(one)]][0] for one in words)
    assert long == pytest.approx(12 * units / font["head"].unitsPerEm, rel=0.02)


def programs(svg: str) -> list[TTFont]:
    found = re.findall(r"base64,([A-Za-z0-9+/=]+)\)", svg)
    return [TTFont(io.BytesIO(base64.b64decode(one))) for one in found]


def test_two_letters_that_look_alike_are_both_there() -> None:
    """A PDF says of their glyph that it is one of the two; the sign for kelvin must not take the place of K."""
    svg = embed_fonts(picture("K\u212aÅ\u212b"))
    known = [set(font.getBestCmap()) for font in programs(svg)]
    assert set.union(*known) == {ord(one) for one in "K\u212aÅ\u212b"}
    assert len(known) == 2
    assert svg.count("unicode-range") == 1
    assert not missing_letters(picture("K\u212a"))


def test_letters_that_the_font_does_not_have_are_named_and_take_nothing_from_the_others() -> None:
    svg = picture("aZ≰≤汉字😀")
    assert missing_letters(svg) == "≰字汉😀"
    (font,) = programs(embed_fonts(svg))
    assert set(font.getBestCmap()) == {ord(one) for one in "aZ≤"}
    assert missing_letters(picture("汉字")) == "字汉"
    assert "font-face" not in embed_fonts(picture("汉字"))


def test_the_font_holds_no_more_than_what_is_written_and_may_be_embedded() -> None:
    (font,) = programs(embed_fonts(picture("abc")))
    assert len(font.getGlyphOrder()) == 4
    assert font["OS/2"].fsType == 0
    assert "Liberation" in str(font["name"].getDebugName(1) or font["name"].getDebugName(6))
    assert len(embed_fonts(picture("abc"))) < 4000


def test_texts_of_other_people_stay_texts() -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><text>&lt;/style&gt;&lt;script&gt;&amp;x</text></svg>'
    assert "<script" not in embed_fonts(svg)
    assert embed_fonts(picture("")) == picture("")
    assert "&lt;script&gt;&amp;x</text>" in embed_fonts(svg)


@pytest.mark.parametrize(
    "pdf",
    [
        b"%PDF-1.7",
        b"1 0 obj\n<< /Type0 /LiberationSans /DescendantFonts [2 0 R] >>\nendobj",
        b"1 0 obj\n<< /Type0 /LiberationSans /ToUnicode 1 0 R >>\nendobj",
        b"1 0 obj\n<< /Type0 /LiberationSans /DescendantFonts [1 0 R] /FontDescriptor 1 0 R /FontFile2 1 0 R "
        b"/FlateDecode >>\nstream\nxx\nendstream\nendobj",
    ],
)
def test_a_pdf_of_another_form_is_told(pdf: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vl_convert, "svg_to_pdf", lambda _svg: pdf)
    with pytest.raises(ConfigError, match="vl-convert-python"):
        embed_fonts(picture("abc"))
