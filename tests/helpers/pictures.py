"""Pictures as numbers: what a browser shows, and what a PDF looks like."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.helpers.papers import needed

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
