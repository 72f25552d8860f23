"""What a paper is made with: pdflatex, and the programs of poppler that say what a PDF holds.

Tests are skipped where they are missing; with NEED_LATEX=1, as in CI, they fail.
"""

import base64
import os
import re
import shutil
import subprocess
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

_OVERFULL = re.compile(r"^Overfull \\([hv])box \(([\d.]+)pt too (?:wide|high)\)(.*)$", re.M)


def needed(*programs: str) -> None:
    """Skip the test where one of the programs is missing, or fail it where they have to be there."""
    lacking = [name for name in programs if shutil.which(name) is None]
    if lacking:
        reason = f"needs {', '.join(lacking)} (Debian: texlive-latex-recommended, poppler-utils)"
        if os.environ.get("NEED_LATEX") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@dataclass(frozen=True)
class Compiled:
    """What LaTeX made: the PDF, and what it said."""

    pdf: Path
    log: str

    def complaints(self, points: float = 3) -> list[str]:
        """What a reader would see: boxes that stick out by more than so many points, letters that are not there, and
        references that lead nowhere."""
        over = [one[0] for one in _OVERFULL.finditer(self.log) if float(one[2]) > points]
        lacking = re.findall(
            r"^Missing character.*$|^LaTeX Warning: .*undefined.*$|^LaTeX Font Warning.*$", self.log, re.M
        )
        return [*over, *lacking]


def compiled(document: Path) -> Compiled:
    """A LaTeX document as PDF, beside it. The test fails where LaTeX ends with an error."""
    needed("pdflatex")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", document.name]
    done = subprocess.run(command, cwd=document.parent, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    log = document.with_suffix(".log").read_text("utf-8", errors="replace")
    told = re.findall(r"^!.*(?:\n.*){0,5}", log, re.M) or [log[-2000:]]
    assert done.returncode == 0, f"{document}: {told}"
    return Compiled(document.with_suffix(".pdf"), log)


def fonts(pdf: Path) -> list[tuple[str, bool]]:
    """The fonts of a PDF, each with whether it lies in the file."""
    needed("pdffonts")
    lines = subprocess.run(["pdffonts", pdf], capture_output=True, text=True, check=True).stdout.splitlines()
    return [(line.split()[0], line[lines[1].index("-", 60) :].split()[-5] == "yes") for line in lines[2:]]


def size(pdf: Path) -> tuple[float, float]:
    """How wide and how high the first page of a PDF is, in points."""
    needed("pdfinfo")
    told = subprocess.run(["pdfinfo", pdf], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^Page size:\s+([\d.]+) x ([\d.]+) pts", told, re.M)
    assert found is not None, told
    return float(found[1]), float(found[2])


def text(pdf: Path) -> str:
    """The text of a PDF, as a reader copies it."""
    needed("pdftotext")
    told = subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, check=True).stdout
    return unicodedata.normalize("NFC", told)


Grey = npt.NDArray[np.uint8]

_READ = """async source => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height), drawing = canvas.getContext("2d");
    drawing.drawImage(image, 0, 0);
    const colours = drawing.getImageData(0, 0, image.width, image.height).data;
    let text = "";
    for (let at = 0; at < colours.length; at += 4)
        text += String.fromCharCode(Math.round((colours[at] + colours[at + 1] + colours[at + 2]) / 3));
    return [image.height, btoa(text)];
}"""


def grey(page: Any, png: bytes) -> Grey:
    """A PNG as shades of grey, row by row, from 0 for black to 255. page: of a browser, which decodes it."""
    height, text = page.evaluate(_READ, f"data:image/png;base64,{base64.b64encode(png).decode()}")
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, -1)


def shown(page: Any, svg: str) -> Grey:
    """What a page of a browser shows of an SVG, with all its fonts."""
    page.set_content(f'<body style="margin:0;background:white">{svg}')
    page.evaluate("document.fonts.ready")
    return grey(page, page.locator("svg").screenshot())


def of_pdf(pdf: Path, wide: int, high: int) -> Grey:
    """The first page of a PDF in so many pixels."""
    needed("pdftoppm")
    command = ["pdftoppm", "-gray", "-singlefile", "-scale-to-x", str(wide), "-scale-to-y", str(high), str(pdf)]
    kind, size, most, pixels = subprocess.run(command, capture_output=True, check=True).stdout.split(b"\n", 3)
    assert (kind, most) == (b"P5", b"255")
    assert size.split() == [b"%d" % wide, b"%d" % high]
    return np.frombuffer(pixels, np.uint8).reshape(high, wide)


def alike(one: Grey, other: Grey, by: int = 1) -> float:
    """The share of the ink of two pictures that has ink of the other no more than `by` pixels away."""
    first, second = one < 128, other < 128
    near = (first & _spread(second, by)).sum() + (second & _spread(first, by)).sum()
    return float(near / max(first.sum() + second.sum(), 1))


def _spread(ink: npt.NDArray[np.bool_], by: int) -> npt.NDArray[np.bool_]:
    padded = np.pad(ink, by)
    high, wide = ink.shape
    moved = [padded[y : y + high, x : x + wide] for y in range(2 * by + 1) for x in range(2 * by + 1)]
    found: npt.NDArray[np.bool_] = np.logical_or.reduce(moved)
    return found
