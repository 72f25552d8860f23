"""Where the file of a published benchmark comes from, and whether the file at hand is that file.

>>> source = Source("demo", "somebody/demo", "data/demo.csv", "MIT", "1f2e3d4", digests=("f9df9163",))
>>> source.words
'data/demo.csv of github.com/somebody/demo (licence: MIT)'
>>> source.differences([b"a;b"])
'this is not data/demo.csv of commit 1f2e3d4: 1 of 1 rows differs'
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tomserve.errors import ConfigError, ContentError

DIGITS = 8
"""How many hexadecimal digits of a row's SHA-256 digest are kept: enough to tell a changed row, and no copy of it."""


@dataclass(frozen=True)
class Source:
    """Where a benchmark's file comes from.

    benchmark: its name. repository: on GitHub, as owner/name. file: the path in it of the file or folder. licence: as
    its owners state it. commit: the commit whose file is known. digests: of each row of that file, in any order (see
    `digest`); empty where none are known. note: what a user must know to get the file, a whole sentence, or "". row:
    what one row is called in messages, and what several are.
    """

    benchmark: str
    repository: str
    file: str
    licence: str
    commit: str
    digests: tuple[str, ...] = ()
    note: str = ""
    row: tuple[str, str] = ("row", "rows")

    @property
    def words(self) -> str:
        """The file, its repository and its licence, in words."""
        return f"{self.file} of github.com/{self.repository} (licence: {self.licence})"

    def need(self, path: Path | None) -> Path:
        """The path, where something is there. Raises ConfigError that says where the file comes from."""
        name = PurePosixPath(self.file).name
        more = f". {self.note}" if self.note else ""
        if path is None:
            raise ConfigError(
                f"benchmark {self.benchmark!r} needs its file, which tomserve does not hold: --path {name}, which is "
                f"{self.words}{more}"
            )
        path = path.expanduser()
        if not path.exists():
            raise ConfigError(f"{path}: is not there; expected {self.words}{more}")
        return path

    def text(self, path: Path | None) -> str:
        """The text of the file. Raises ConfigError where it is missing, ContentError where it cannot be read."""
        path = self.need(path)
        try:
            return path.read_text("utf-8-sig")
        except OSError as error:
            raise ContentError(f"cannot be read ({error.strerror}); expected {self.words}", path=path) from None
        except UnicodeDecodeError as error:
            raise ContentError(f"is no UTF-8 text ({error.reason}); expected {self.words}", path=path) from None

    def differences(self, rows: Iterable[bytes], *, whole: bool = True) -> str | None:
        """In one sentence how the rows at hand differ from the known ones; None where they do not, in whatever order,
        and where none are known. whole: whether all rows are expected; of a part, rows that are not there are no
        difference."""
        if not self.digests:
            return None
        found, known = Counter(map(digest, rows)), Counter(self.digests)
        changed, missing = sum((found - known).values()), sum((known - found).values()) if whole else 0
        if not changed and not missing:
            return None
        (one, many), lost = self.row, missing - changed
        said = [
            f"{changed:,} of {found.total():,} {many} {'differ' if changed != 1 else 'differs'}" if changed else "",
            f"{lost:,} {one if lost == 1 else many} {'is' if lost == 1 else 'are'} missing" if lost > 0 else "",
        ]
        return f"this is not {self.file} of commit {self.commit}: {' and '.join(filter(None, said))}"


def digest(row: bytes) -> str:
    """The first DIGITS hexadecimal digits of a row's SHA-256 digest. row: its bytes as its benchmark defines them."""
    return hashlib.sha256(row).hexdigest()[:DIGITS]
