"""Decides whether the report in a run folder still stands, by ``report.json``, which records what it was made from.

Like the scores (see tomserve.runs.runfolder) a report is believed by content alone: this user's tomserve wrote the page
as it is now, with the same code and studies, from these scores and this manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from tomserve import content
from tomserve.content import signatures
from tomserve.content.files import digest_bytes, digest_file
from tomserve.content.paths import PACKAGE
from tomserve.reporting.html.sources import Source
from tomserve.runs import runfolder
from tomserve.runs.runfolder import read_manifest
from tomserve.runs.scores import read_current_record

PAGE, RECORD = "report.html", "report.json"

SCHEMA = 1

_CODE = content.code_digest([PACKAGE])
"""The digest of the code, taken on import, so that it is that of the code which runs."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a user may ask of a report; the fields are parameters of write_report."""

    intervals: str | None = None
    labels: Sequence[str] = ()
    study: str | None = None
    by: Sequence[str] = ()


def keep(source: Source, page: str, wishes: Wishes) -> None:
    """Record what a page was made from that is the report of one run, in that run's folder.

    Nothing is recorded for a score table, nor for a study that was given by path, since the record would have to name a
    place on this machine.
    """
    if source.folder is None or source.made_from is None:
        return
    if wishes.study is None or not (wishes.study.endswith(".py") or "/" in wishes.study):
        signatures.write_record(
            source.folder / RECORD, _record(source.manifest, source.made_from, digest_bytes(page.encode()), wishes)
        )


def standing(folder: Path) -> Path | None:
    """The report of that run where making it again, with the same wishes, would give the same; else None.

    Raises ConfigError where the folder is no run.
    """
    record, manifest = signatures.read_record(folder / RECORD), read_manifest(folder)
    if record is None or manifest is None or record.get("schema") != SCHEMA or "wishes" not in record:
        return None
    if (scores := read_current_record(folder)) is None:
        return None
    try:
        page = digest_file(folder / PAGE)[1]
    except OSError:
        return None
    return folder / PAGE if record == _record(manifest, scores, page, Wishes(**record["wishes"])) else None


def _record(manifest: Mapping[str, Any], made_from: runfolder.Record, page: str, wishes: Wishes) -> Mapping[str, Any]:
    return {
        "schema": SCHEMA,
        "page": page,
        "wishes": {**asdict(wishes), "labels": list(wishes.labels), "by": list(wishes.by)},
        "code": _CODE,
        "studies": content.code_digest(root / "analysis" for root in content.roots()),
        "manifest": digest_bytes(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)),
        "scores": dict(made_from),
    }
