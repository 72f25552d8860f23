"""Draws the figures of the gallery anew, after a change of how they look: `python docs/gallery/make_figures.py`.

It types what the pages tell a reader to type, in a folder of its own, and keeps the drawings that the pages show.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))


def main(studies: list[str]) -> None:
    """Draw the figures of these studies, or of all."""
    from tests.conftest import running
    from tests.helpers.documents import Reader, pictures

    for page in sorted(HERE.glob("*.md")):
        text = page.read_text("utf-8")
        if page.stem == "index" or (studies and page.stem not in studies):
            continue
        with tempfile.TemporaryDirectory() as folder, running() as endpoint:
            reader = Reader(Path(folder), endpoint)
            reader.follow(text)
            for name in pictures(text):
                (HERE / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(reader.folder / name.removeprefix("figures/"), HERE / name)


if __name__ == "__main__":
    main(sys.argv[1:])
