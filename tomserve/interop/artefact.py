"""Writes what reviewers ask for as one zip file: runs, tables, figures, the report, versions, digests, and a program
that checks the digests and computes the tables again, offline.

The same runs give the same bytes. Only files that make up a run are taken (see tomserve.interop.snapshot), and all
tables are computed from these, as the program does.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tomserve import content
from tomserve._version import __version__
from tomserve.content import files, output_path, temporary
from tomserve.errors import ConfigError
from tomserve.interop import artefact_texts as texts
from tomserve.interop import licences, recompute
from tomserve.interop.snapshot import Snapshot, taken
from tomserve.interop.zipping import member
from tomserve.reporting import printing, tables
from tomserve.reporting.html import build, figured
from tomserve.reporting.html.sources import load
from tomserve.studies import Analysis, compute, missing_data
from tomserve.studies.comparison import same_model_notes

PROGRAM_FILES = (".py", ".json", ".yaml", ".yml", ".csv", ".txt")
"""What a study that is a folder may consist of; other files in it are not handed on."""

MOST = 5 << 20
"""Most bytes of a study's own files, and a tenth of those of a wheel."""


@dataclass(frozen=True)
class Wish:
    """What an artefact is to hold. runs: by name or path. study, intervals, by, labels: as `tomserve analyze` takes
    them. title: what it is called. wheel: tomserve's wheel, so that nobody has to look for it."""

    runs: Sequence[str]
    study: str | None = None
    intervals: str | None = None
    by: Sequence[str] = ()
    labels: Sequence[str] = ()
    title: str = "Artefact"
    wheel: Path | None = None


@dataclass
class _Zip:
    """A zip file that is written, with the digest of every member."""

    file: zipfile.ZipFile
    digests: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, data: bytes) -> None:
        self.file.writestr(member(name), data)
        self.digests[name] = hashlib.sha256(data).hexdigest()

    def copy(self, name: str, path: Path) -> None:
        """Add a file block by block, since a journal may be larger than the memory."""
        sha = hashlib.sha256()
        with files.open_for_reading(path) as source, self.file.open(member(name), "w", force_zip64=True) as target:
            for block in iter(lambda: source.read(1 << 20), b""):
                sha.update(block)
                target.write(block)
        self.digests[name] = sha.hexdigest()


def write(wish: Wish, path: Path, say: Callable[[str], None] = lambda text: None) -> list[str]:
    """Write the artefact.

    wish: what it is to hold. path: the file to write. say: is told what is lacking of the runs, and what else is to be
    known. Returns the names of its members. Raises ConfigError as `snapshot.taken` and `compute` do, for a wheel of
    another tomserve, and for a file that cannot be written.
    """
    wheel = _wheel(wish.wheel)
    with taken(wish.runs) as runs:
        output_path.check_output(path, *runs.folders.values(), wish.wheel)
        labels = runs.labels(wish.labels, wish.runs)
        analysis = _analysis(wish, labels, runs, say)
        try:
            with (
                output_path.open_output(path, *runs.folders.values(), wish.wheel) as target,
                zipfile.ZipFile(target, "w") as made,
            ):
                out = _Zip(made)
                _fill(out, wish, labels, analysis, runs, wheel)
                return [*out.digests]
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None


def _analysis(wish: Wish, labels: Sequence[str], runs: Snapshot, say: Callable[[str], None]) -> Analysis:
    """What the study says of the copies, after what is lacking of them was told."""
    for said in runs.said:
        say(said)
    sources, scores = load(runs.names, labels, lambda text: say(text.replace(f"{runs.root}/", "")))
    for source in sources:
        for said in missing_data.gap_sentences(
            missing_data.gaps_of_scores(source.scores, runs.root / source.run, source.run)
        ):
            say(said)
    for said in same_model_notes(scores, {name: one.to_dict() for name, one in runs.manifests.items()}):
        say(said)
    return compute(scores, wish.study, wish.intervals, wish.by, named=figured.named(sources))


def _fill(out: _Zip, wish: Wish, labels: Sequence[str], analysis: Analysis, runs: Snapshot, wheel: str | None) -> None:
    for name, file in runs.files():
        out.copy(f"runs/{name}", file)
    with temporary.folder() as scratch:
        drawn = _put_results(out, wish, labels, analysis, runs, scratch)
    study = None
    for name, file in _own_study(analysis):
        study = study or name
        out.copy(name, file)
    if wheel is not None and wish.wheel is not None:
        out.copy(wheel, wish.wheel)
    about = texts.About(wish.title, tuple(wish.by), tuple(labels), study, wheel)
    if any(licences.of_run(name, one).others is None for name, one in runs.manifests.items()):
        out.put("LICENSE-data", licences.own_terms().encode())
    out.put("requirements.txt", texts.requirements().encode())
    out.put("artefact.json", texts.record(about, analysis, runs))
    out.put("recompute.py", Path(recompute.__file__).read_bytes())
    out.put("citation.bib", texts.citation(runs).encode())
    counts = {"tables": len(analysis.tables), "figures": drawn}
    out.put("README.md", texts.readme(about, runs, counts).encode())
    out.put("SHA256SUMS", "".join(f"{digest}  {name}\n" for name, digest in sorted(out.digests.items())).encode())


def _put_results(
    out: _Zip, wish: Wish, labels: Sequence[str], analysis: Analysis, runs: Snapshot, scratch: Path
) -> int:
    """Add the tables as CSV and LaTeX, the figures as PDF, and the report. Returns how many figures there are."""
    layouts, notes = analysis.study.layouts, analysis.notes
    for form in ("csv", "latex"):
        for file in tables.write(analysis.tables, scratch / form, form, layouts, notes):
            out.put(f"tables/{form}/{file.name}", file.read_bytes())
    figures, _ = figured.figures(runs.names, wish.intervals, labels, wish.study, by=wish.by)
    try:
        drawn = printing.write(figures, scratch / "figures", ("pdf",), 1)
    except ConfigError:  # a study without figures
        drawn = []
    for file in sorted((scratch / "figures").iterdir()) if drawn else ():
        out.put(f"figures/{file.name}", file.read_bytes())
    page = build.write_report(runs.names, scratch / "report.html", labels=labels, analysis=analysis)
    out.put("report.html", page.read_bytes())
    return len(drawn)


def _own_study(analysis: Analysis) -> Iterator[tuple[str, Path]]:
    """The files of a study that does not come with tomserve, each with its name in the artefact, the study's own first.

    Raises ConfigError where they are too large."""
    path = analysis.study.path
    shipped = [content.PACKAGE / "_content", *([here] if (here := content.checkout()) is not None else [])]
    if path is None or any((root / "analysis").resolve() in path.resolve().parents for root in shipped):
        return
    folder, found = path.parent, [path]
    if path.name == "study.py":
        inside = sorted(
            one for one in folder.rglob("*") if one.suffix in PROGRAM_FILES and "__pycache__" not in one.parts
        )
        found += [one for one in inside if one != path and one.is_file() and not one.is_symlink()]
    if sum(one.stat().st_size for one in found) > MOST:
        raise ConfigError(f"{folder}: the study and what lies beside it have more than {MOST >> 20} MB; move data away")
    root = f"study/{re.sub(r'[^A-Za-z0-9._-]+', '-', folder.resolve().name)}" if len(found) > 1 else "study"
    for one in found:
        yield f"{root}/{one.relative_to(folder).as_posix()}", one


def _wheel(path: Path | None) -> str | None:
    """The name that tomserve's wheel has in the artefact; None where there is none. Raises ConfigError for what is no
    wheel of this version."""
    if path is None:
        return None
    name = f"tomserve-{__version__}-py3-none-any.whl"
    try:
        with zipfile.ZipFile(path) as held:
            names = held.namelist()
        whole = path.stat().st_size <= 10 * MOST and f"tomserve-{__version__}.dist-info/METADATA" in names
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); expected tomserve's wheel, {name}") from None
    except zipfile.BadZipFile:
        whole = False
    if not whole:
        raise ConfigError(f"{path}: is no wheel of tomserve {__version__}; `make release` builds {name}")
    return name
