"""What a model has read for several runs (see tomserve.scoring.grades), as that of one run."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import orjson

from tomserve.content import temporary
from tomserve.content.files import FileSnapshot
from tomserve.errors import RunMismatchError
from tomserve.scoring.grades import JOURNAL, MARK, RECORD, GradeFiles, GraderChoices
from tomserve.shards.joining import whole


def unite(folders: Sequence[Path], stack: contextlib.ExitStack, into: Path, made: list[tuple[IO[bytes], Path]]) -> None:
    """Add the choices of all runs, and the record of the reader who made them, to the files that are made.

    folders: of the runs, the merged run's own last. stack: keeps the files. Raises RunMismatchError where the runs were
    read by different readers, and ConfigError for a file that cannot be read.
    """
    places = [GradeFiles.of_run(folder) for folder in folders if (folder / RECORD).exists()]
    if not places:
        return
    records = [GraderChoices(place).record for place in places]
    for place, record in zip(places, records, strict=True):
        if record[MARK] != records[0][MARK]:
            raise RunMismatchError(
                f"{place.record}: names another reader than {places[0].record}; have one reader read both "
                "(`tomserve score RUN --reader`), or remove one of the records, and read again what is merged"
            )
    rows = stack.enter_context(temporary.file(into))
    seen: set[bytes] = set()
    for place in places:
        for _, _, line in FileSnapshot(place.journal, whole(place.journal)).lines():
            if (digest := hashlib.blake2b(line, digest_size=12).digest()) not in seen:
                seen.add(digest)
                rows.write(line)
    record = records[-1] if len(places) == 1 or places[-1].record.parent == into else {**records[0], "sample": None}
    note = stack.enter_context(temporary.file(into))
    note.write(orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")
    made += [(rows, into / JOURNAL), (note, into / RECORD)]
