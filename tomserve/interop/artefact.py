"""Writes what reviewers ask for as one zip file: runs, tables, figures, the report, versions, digests, and a program
that checks the digests and computes the tables again, offline.

The same runs give the same bytes. Only files that make up a run are taken, never logs, locks or what a server printed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

import tomserve
from tomserve.content import files, outputs, temporary
from tomserve.errors import ConfigError
from tomserve.interop import recompute
from tomserve.reporting import printing, tables
from tomserve.reporting.html import build, figured
from tomserve.runs import measured, packed, sealing
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import existing_run
from tomserve.studies import Analysis

TAKEN = (*sealing.SEALED, packed.PACKED, sealing.FILE, "people.csv", "scores.parquet")
"""The files of a run that are handed on, as far as it has them; scores only of a measured run."""

EARLIEST = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Wish:
    """What an artefact is to hold. runs: by name or path. study, intervals, by, labels: as `tomserve analyze` takes
    them. title: what it is called."""

    runs: Sequence[str]
    study: str | None = None
    intervals: str | None = None
    by: Sequence[str] = ()
    labels: Sequence[str] = ()
    title: str = "Artefact"


@dataclass
class _Zip:
    """A zip file that is written, with the digest of every member."""

    file: zipfile.ZipFile
    digests: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, content: bytes) -> None:
        member = zipfile.ZipInfo(name, EARLIEST)
        member.compress_type = zipfile.ZIP_DEFLATED
        member.external_attr = 0o644 << 16
        self.file.writestr(member, content)
        self.digests[name] = hashlib.sha256(content).hexdigest()

    def copy(self, name: str, path: Path) -> None:
        """Add a file block by block, since a journal may be larger than the memory."""
        member = zipfile.ZipInfo(name, EARLIEST)
        member.compress_type = zipfile.ZIP_DEFLATED
        member.external_attr = 0o644 << 16
        sha = hashlib.sha256()
        with files.reading(path) as source, self.file.open(member, "w", force_zip64=True) as target:
            for block in iter(lambda: source.read(1 << 20), b""):
                sha.update(block)
                target.write(block)
        self.digests[name] = sha.hexdigest()


def write(wish: Wish, analysis: Analysis, path: Path) -> list[str]:
    """Write the artefact.

    wish: what it is to hold. analysis: what the study says of these runs. path: the file to write. Returns the names of
    its members. Raises ConfigError for what is no run, two runs of one name, and a file that cannot be written.
    """
    folders = _folders(wish.runs)
    with outputs.writing(path, *folders.values()) as target, zipfile.ZipFile(target, "w") as made:
        out = _Zip(made)
        for name, folder in folders.items():
            for file in _of_run(folder):
                out.copy(f"runs/{name}/{file}", folder / file)
        with temporary.folder() as scratch:
            _put_results(out, wish, analysis, scratch)
        out.put("requirements.txt", _requirements().encode())
        out.put("artefact.json", orjson.dumps(_about(wish, analysis, folders), option=orjson.OPT_INDENT_2) + b"\n")
        out.put("recompute.py", Path(recompute.__file__).read_bytes())
        out.put("citation.bib", _citation().encode())
        out.put("README.md", _readme(wish, folders).encode())
        sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(out.digests.items()))
        out.put("SHA256SUMS", sums.encode())
        return list(out.digests)


def _folders(runs: Sequence[str]) -> dict[str, Path]:
    """The folder of each run by the name that it has in the artefact."""
    found: dict[str, Path] = {}
    for run in runs:
        folder = existing_run(run)
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name)
        if name in found:
            raise ConfigError(f"{run}: two runs are called {name!r}; rename the folder of one")
        found[name] = folder
    return found


def _of_run(folder: Path) -> Iterator[str]:
    """The names of the files of a run that are handed on."""
    whole = measured.manifest_of(folder) is not None
    for name in TAKEN:
        if (folder / name).is_file() and (whole or name != "scores.parquet"):
            yield name
    for name in sorted(one.name for one in folder.glob("*.parquet") if one.name not in TAKEN) if whole else ():
        yield name


def _put_results(out: _Zip, wish: Wish, analysis: Analysis, scratch: Path) -> None:
    """Add the tables as CSV and LaTeX, the figures as PDF, and the report."""
    layouts, notes = analysis.study.layouts, analysis.notes
    for form in ("csv", "latex"):
        for file in tables.write(analysis.tables, scratch / form, form, layouts, notes):
            out.put(f"tables/{form}/{file.name}", file.read_bytes())
    figures, _ = figured.figures(wish.runs, wish.intervals, wish.labels, wish.study, by=wish.by)
    try:
        drawn = printing.write(figures, scratch / "figures", ("pdf",), 1)
    except ConfigError:  # a study without figures
        drawn = []
    for one in drawn:
        for file in (*one.files, one.files[0].with_suffix(".txt")):
            out.put(f"figures/{file.name}", file.read_bytes())
    page = build.write_report(wish.runs, scratch / "report.html", wish.intervals, wish.labels, wish.study, by=wish.by)
    out.put("report.html", page.read_bytes())


def _requirements() -> str:
    """The exact versions of all that tomserve's core needs, as this environment has them."""
    found: dict[str, str] = {}
    waiting = [re.split(r"[<>=!~;\[ ]", one)[0] for one in _needed("tomserve")]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        waiting += [re.split(r"[<>=!~;\[ ]", one)[0] for one in _needed(name)]
    return "".join(f"{name}=={version}\n" for name, version in sorted(found.items()))


def _needed(name: str) -> list[str]:
    try:
        told = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [one for one in told if "extra ==" not in one]


def _about(wish: Wish, analysis: Analysis, folders: dict[str, Path]) -> dict[str, object]:
    manifests = {name: Manifest.read(folder) for name, folder in folders.items()}
    return {
        "schema": 1,
        "title": wish.title,
        "tomserve": tomserve.__version__,
        "python": platform.python_version(),
        "study": analysis.study.name,
        "intervals": analysis.intervals,
        "by": list(wish.by),
        "labels": list(wish.labels),
        "runs": {
            name: {
                "model": one.model,
                "revision": one.revision,
                "benchmark": one.benchmark,
                "benchmark_digest": one.benchmark_digest,
                "tomserve": one.tomserve,
                "sealed": (folders[name] / sealing.FILE).exists(),
                "collected_by": one.foreign.tool if one.foreign is not None else None,
            }
            for name, one in manifests.items()
            if one is not None
        },
    }


def _citation() -> str:
    return (
        "@software{tomserve,\n"
        "  title = {tomserve: Theory-of-Mind evaluation of language models},\n"
        "  author = {{The tomserve maintainers}},\n"
        f"  version = {{{tomserve.__version__}}},\n"
        "  year = {2026}\n}\n"
    )


def _readme(wish: Wish, folders: dict[str, Path]) -> str:
    listed = "\n".join(f"- `runs/{name}/`" for name in folders)
    return f"""# {wish.title}

{listed}

`tables/` and `figures/` are what `tomserve analyze` and `tomserve figures` made of these runs, `report.html` shows all
of it with every question and reply (it opens offline), `artefact.json` says which versions, models and data, and
`requirements.txt` lists the exact packages.

    python recompute.py --here              # uses an environment in which tomserve {tomserve.__version__} is installed
    python recompute.py --wheel tomserve-{tomserve.__version__}-py3-none-any.whl     # makes a new one

It checks the digests of `SHA256SUMS`, scores the replies again, computes every table anew, and compares all cells. It
asks no server. A run that is sealed has `seal.json`, which `tomserve verify ./runs/NAME` checks. Cite the papers of the
benchmarks, and tomserve (`citation.bib`).
"""
