"""What a paper is made with: pdflatex, and the programs of poppler that say what a PDF holds.

Tests are skipped where they are missing; with NEED_LATEX=1, as in CI, they fail.
"""

import os
import re
import shutil
import subprocess
import unicodedata
from dataclasses import dataclass
from pathlib import Path

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


def text(pdf: Path) -> str:
    """The text of a PDF, as a reader copies it."""
    needed("pdftotext")
    told = subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, check=True).stdout
    return unicodedata.normalize("NFC", told)
