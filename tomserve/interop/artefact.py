"""Writes an artefact for reviewers (reproducibility package) as one zip file, with a program that checks it.

It holds runs, tables, figures, report, versions and digests.

The same runs give the same bytes. All tables are computed from copies of the runs at one moment, which hold only the
files that make up a run: never logs, what a server printed, who the people of a study are, or what a link leads to;
folders of this machine are replaced by short words.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tomserve import content
from tomserve._version import __version__
from tomserve.content import files, output_path
from tomserve.content.paths import run_name, runs_root
from tomserve.content.text import mark_hidden
from tomserve.content.validation import RUN_PART
from tomserve.engine.redact import is_secret_variable
from tomserve.errors import ConfigError
from tomserve.interop import hub, recompute
from tomserve.interop.inspect_export import stable_zip_member
from tomserve.items import read_items
from tomserve.reporting import figure_export, tables
from tomserve.reporting.html import figures, report
from tomserve.reporting.html.sources import load_sources
from tomserve.runs import journal, runfolder, verification
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import check_files, find_run
from tomserve.scoring.table import TABLES
from tomserve.studies import Analysis, compute, missing_data
from tomserve.studies.comparability import unlike_notes
from tomserve.studies.comparison import same_model_notes

MANIFEST = "manifest.json"
TAKEN = (*verification.SEALED, journal.PACKED, verification.SEAL_FILE)
"""The files of a run of answers that are handed on, as far as it has them. A measured run has its table besides."""

_SHORTEST = 12
"""Fewest characters of a secret of the environment that is looked for; a shorter one would be found by chance."""

PROGRAM_FILES = (".py", ".json", ".yaml", ".yml", ".csv", ".txt")
"""What a study that is a folder may consist of; other files in it are not handed on."""

MOST = 5 << 20
"""Most bytes of a study's own files, and a tenth of those of a wheel."""


@dataclass
class Snapshot:
    """Copies of runs."""

    root: Path  # the folder that holds them, as TOMSERVE_RUNS
    folders: dict[str, Path] = field(default_factory=dict)  # by name, where each run lies really
    manifests: dict[str, Manifest] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)  # the files of the copies, each with its run's name
    sealed: set[str] = field(default_factory=set)  # the names of the runs with a seal
    warnings: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """What the runs are called here, in the order in which they were given."""
        return list(self.folders)

    def labels(self, given: Sequence[str], runs: Sequence[str]) -> list[str]:
        """The labels RUN=NAME for the runs as they are called here. given: for the runs as the user calls them. runs:
        these, in the order of `names`."""
        names = {run_name(find_run(run)): name for run, name in zip(runs, self.names, strict=True)}
        parts = [label.partition("=") for label in given]
        return [f"{names.get(run, run)}{equals}{name}" for run, equals, name in parts]


@contextlib.contextmanager
def copy_runs(runs: Sequence[str]) -> Iterator[Snapshot]:
    """Copies of these runs, given by names or paths, which are removed when the block ends.

    Within the block, the runs that are found by name are these copies. Raises ConfigError for what is no run, two runs
    of one name, a secret of the environment in a file, and what cannot be copied.
    """
    with files.temporary_folder() as scratch, contextlib.ExitStack() as stack:
        snapshot = Snapshot((scratch / "runs").resolve())
        places = _places()
        for run in runs:
            if run.endswith(TABLES):
                raise ConfigError(f"{run}: is a table of scores; an artefact holds runs, from which it can be computed")
            folder = find_run(run)
            parts = (re.sub(r"[^A-Za-z0-9._-]+", "-", part) for part in run_name(folder).split("/"))
            name = "/".join(part if RUN_PART.fullmatch(part) else f"run{part}"[:200] for part in parts)
            if name in snapshot.folders:
                raise ConfigError(f"{run}: two runs are called {name!r}; rename the folder of one")
            snapshot.folders[name] = folder
            _copy(snapshot, name, folder, places)
        before = os.environ.get("TOMSERVE_RUNS")
        if before is None:
            stack.callback(os.environ.pop, "TOMSERVE_RUNS", None)
        else:
            stack.callback(os.environ.__setitem__, "TOMSERVE_RUNS", before)
        os.environ["TOMSERVE_RUNS"] = str(snapshot.root)
        yield snapshot


def _places() -> list[tuple[str, str]]:
    """Folders of this machine with what stands for them elsewhere, the longest first. Where a command is called counts
    only outside of the home folder, so that the same run gives the same bytes from everywhere else."""
    home, checkout = Path.home(), content.checkout()
    known = [(folder, short) for folder, short in ((Path.cwd(), "."), (runs_root().resolve(), "runs"))
             if home not in (folder, *folder.parents)]  # fmt: skip
    known += [(checkout, ".")] if checkout is not None else []
    found = {str(folder): short for folder, short in (*known, (home, "~")) if len(folder.parts) > 1}
    return sorted(found.items(), key=lambda one: -len(one[0]))


def _copy(snapshot: Snapshot, name: str, folder: Path, places: Sequence[tuple[str, str]]) -> None:
    check_files(folder)
    manifest = Manifest.read(folder)
    assert manifest is not None  # find_run has found it
    target = snapshot.root / name
    target.mkdir(parents=True)
    snapshot.manifests[name] = manifest
    for one in (*TAKEN, runfolder.TABLE) if manifest.measured else TAKEN:
        if not (folder / one).is_file():
            continue
        try:
            with files.open_for_reading(folder / one) as source, (target / one).open("xb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
            snapshot.taken.append(f"{name}/{one}")
        except OSError as error:
            raise ConfigError(f"{folder / one}: cannot be copied ({error.strerror})") from None
    if (target / verification.SEAL_FILE).exists():
        snapshot.sealed.add(name)
    else:
        given = orjson.loads(files.read_bytes(target / MANIFEST))
        if (record := make_portable(given, places)) != given:
            (target / MANIFEST).write_bytes(orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")
    for path in sorted(target.iterdir()):
        _check_content(snapshot, folder / path.name, path, next((home for home, short in places if short == "~"), None))


def make_portable(value: Any, places: Sequence[tuple[str, str]]) -> Any:
    """The value with short words in the place of the folders of this machine, in all texts in it.

    >>> make_portable({"path": "/home/ann/big.csv", "n": 1}, [("/home/ann", "~")])
    {'path': '~/big.csv', 'n': 1}
    """
    if isinstance(value, dict):
        return {name: make_portable(inner, places) for name, inner in value.items()}
    if isinstance(value, list):
        return [make_portable(inner, places) for inner in value]
    if isinstance(value, str):
        for folder, short in places:
            value = re.sub(rf"{re.escape(folder)}(?=/|$)", short, value)
    return value


def _check_content(snapshot: Snapshot, named: Path, path: Path, home: str | None) -> None:
    """Refuse a file that holds a secret of the environment, and tell of one that names the home folder."""
    secrets = {
        variable: value.encode()
        for variable, value in os.environ.items()
        if is_secret_variable(variable) and len(value) >= _SHORTEST and not Path(value).exists()
    }
    found, before = False, b""
    with files.open_for_reading(path) as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            text = before + block
            for variable, value in secrets.items():
                if value in text:
                    raise ConfigError(
                        f"{named}: holds what the variable {variable} of your environment holds, which looks like a "
                        "key; take it out of the file, or unset the variable"
                    )
            found = found or (home is not None and f"{home}/".encode() in text)
            before = text[-4096:]
    if found:
        snapshot.warnings.append(
            f"{named}: names your home folder, and is handed on as it is; look whether that may be read by others"
        )


def list_requirements() -> str:
    """The exact versions of the packages: the list that tomserve was tested with, with the digests of all files, where
    this environment has these versions; else the versions that it has."""
    described = [one.metadata for one in importlib.metadata.distributions()]  # each is read anew where it is asked for
    installed = {re.sub(r"[-_.]+", "-", one["Name"]).lower(): one["Version"] for one in described if one["Name"]}
    path = content.find("launch/locked/core.txt")
    locked = files.read_own_text(path) if path is not None else ""
    versions = re.findall(r"^([\w.-]+)==([^ ;\\\n]+)", locked, re.M)
    if locked and all(installed.get(name, version) == version for name, version in versions):
        return locked.partition("\n")[2]  # without the line that says what wrote it
    return "".join(f"{name}=={version}\n" for name, version in sorted(installed.items()))


def render_bibtex(titles: Iterable[str]) -> str:
    """BibTeX entries of papers, each given as ``Title (arXiv:NUMBER)`` or ``Title (doi:DOI)``.

    >>> print(render_bibtex(["Hi-ToM (arXiv:2310.16755)"]))
    @misc{arXiv.2310.16755,
      title = {Hi-ToM},
      author = {{The authors of arXiv:2310.16755}},
      eprint = {2310.16755},
      archivePrefix = {arXiv},
      url = {https://arxiv.org/abs/2310.16755}
    }
    <BLANKLINE>
    """
    entries = []
    for number, paper in enumerate(titles, 1):
        match = re.fullmatch(r"(.*) \((arXiv|doi):([\w./-]+)\)", paper)
        title, kind, place = match.groups() if match else (paper, "", "")
        fields = {"title": _tex(title)}
        if kind:
            fields["author"] = f"{{The authors of {kind}:{_tex(place)}}}"
        if kind == "arXiv":
            fields |= {"eprint": place, "archivePrefix": "arXiv", "url": f"https://arxiv.org/abs/{place}"}
        if kind == "doi":
            fields |= {"doi": place, "url": f"https://doi.org/{place}"}
        entries.append(_entry("misc", f"{kind}.{place.replace('/', '-')}" if kind else f"paper.{number}", fields))
    return "\n".join(entries)


def _entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}\n}}\n"


def _tex(text: str) -> str:
    """The text as TeX, of which nothing is a command or ends the field."""
    kept = re.sub(r"[{}\\]", "", mark_hidden(text))
    return re.sub(r"([&%$#_])", r"\\\1", kept).replace("~", " ").replace("^", " ")


@dataclass(frozen=True)
class ArtefactOptions:
    """What an artefact is to hold."""

    runs: Sequence[str]  # by name or path
    study: str | None = None  # this and the next three: as `tomserve analyze` takes them
    intervals: str | None = None
    by: Sequence[str] = ()
    labels: Sequence[str] = ()
    title: str = "Artefact"
    wheel: Path | None = None  # tomserve's wheel, so that nobody has to look for it


def write_artefact(options: ArtefactOptions, path: Path, say: Callable[[str], None] = lambda text: None) -> list[str]:
    """Write the artefact. say: is told what is lacking of the runs, and what else is to be known.

    Returns the names of its members. Raises ConfigError as `copy_runs` and `compute` do, for a wheel of another
    tomserve, and for a file that cannot be written.
    """
    wheel = _wheel(options.wheel)
    with copy_runs(options.runs) as runs:
        inputs = (*runs.folders.values(), options.wheel)
        output_path.check_output(path, *inputs)
        labels = runs.labels(options.labels, options.runs)
        analysis = _analysis(options, labels, runs, say)
        refused = files.refuse_os_errors(path, "cannot be written", "choose another --out")
        with refused, output_path.open_output(path, *inputs) as target, zipfile.ZipFile(target, "w") as archive:
            return _Artefact(options, labels, analysis, runs, wheel, archive).fill()


def _analysis(options: ArtefactOptions, labels: Sequence[str], runs: Snapshot, say: Callable[[str], None]) -> Analysis:
    """What the study says of the copies, after what is lacking of them was told."""
    for warning in runs.warnings:
        say(warning)
    sources, scores = load_sources(runs.names, labels, lambda text: say(text.replace(f"{runs.root}/", "")))
    for source in sources:
        gaps = missing_data.gaps_of_scores(source.scores, runs.root / source.run, source.run)
        for warning in missing_data.gap_sentences(gaps):
            say(warning)
    manifests = {name: one.to_dict() for name, one in runs.manifests.items()}
    for warning in (*same_model_notes(scores, manifests), *unlike_notes(scores, manifests)):
        say(warning)
    return compute(scores, options.study, options.intervals, options.by, named=figures.common_study(sources))


@dataclass
class _Artefact:
    """An artefact that is written. wheel: the name of tomserve's wheel in it, where it has one."""

    options: ArtefactOptions
    labels: Sequence[str]
    analysis: Analysis
    runs: Snapshot
    wheel: str | None
    archive: zipfile.ZipFile
    digests: dict[str, str] = field(default_factory=dict)  # of every member

    def add(self, name: str, data: bytes) -> None:
        self.archive.writestr(stable_zip_member(name), data)
        self.digests[name] = hashlib.sha256(data).hexdigest()

    def copy(self, name: str, path: Path) -> None:
        """Add a file block by block, since a journal may be larger than the memory."""
        sha = hashlib.sha256()
        with (
            files.open_for_reading(path) as source,
            self.archive.open(stable_zip_member(name), "w", force_zip64=True) as target,
        ):
            for block in iter(lambda: source.read(1 << 20), b""):
                sha.update(block)
                target.write(block)
        self.digests[name] = sha.hexdigest()

    def fill(self) -> list[str]:
        """Add all members; returns their names."""
        for name in self.runs.taken:
            self.copy(f"runs/{name}", self.runs.root / name)
        with files.temporary_folder() as scratch:
            drawn = self._put_results(scratch)
        study = None
        for name, file in _own_study(self.analysis):
            study = study or name
            self.copy(name, file)
        if self.wheel is not None and self.options.wheel is not None:
            self.copy(self.wheel, self.options.wheel)
        held = [hub.run_holding(name, one) for name, one in self.runs.manifests.items()]
        if any(one.others is None for one in held):
            self.add("LICENSE-data", hub.own_terms().encode())
        papers = hub.list_papers(one.benchmark for one in self.runs.manifests.values() if one.foreign is None)
        self.add("requirements.txt", list_requirements().encode())
        self.add("artefact.json", self._record(study))
        self.add("recompute.py", files.read_own(Path(recompute.__file__)))
        own = {"title": "tomserve: Theory-of-Mind evaluation of language models"}
        own |= {"author": "{The tomserve maintainers}", "version": __version__, "year": "2026"}
        entries = (_entry("software", "tomserve", own), render_bibtex(papers))
        self.add("citation.bib", "\n".join(one for one in entries if one).encode())
        readme = hub.render(
            "artefact.md",
            title=" ".join(self.options.title.split()),
            runs={name: _describe_run(one) for name, one in self.runs.manifests.items()},
            tables=len(self.analysis.tables),
            figures=drawn,
            wheel=self.wheel,
            python=platform.python_version().rpartition(".")[0],
            study=study,
            sealed=sorted(self.runs.sealed),
            own=sorted({one.benchmark for one in held if one.others is None}),
            others=dict.fromkeys(one.others for one in held if one.others),
            canaries=collect_canaries(self.runs),
            papers=papers,
        )
        self.add("README.md", readme.encode())
        sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(self.digests.items()))
        self.add("SHA256SUMS", sums.encode())
        return [*self.digests]

    def _put_results(self, scratch: Path) -> int:
        """Add the tables as CSV and LaTeX, the figures as PDF, and the report. Returns how many figures there are."""
        options, study, names = self.options, self.analysis.study, self.runs.names
        for form in ("csv", "latex"):
            written = tables.write_tables(
                self.analysis.tables, scratch / form, form, study.layouts, self.analysis.notes
            )
            for file in written:
                self.add(f"tables/{form}/{file.name}", files.read_bytes(file))
        drawings, _ = figures.figures(names, options.intervals, self.labels, options.study, by=options.by)
        try:
            drawn = figure_export.write_figures(drawings, scratch / "figures", ("pdf",), 1)
        except ConfigError:  # a study without figures
            drawn = []
        for file in sorted((scratch / "figures").iterdir()) if drawn else ():
            self.add(f"figures/{file.name}", files.read_bytes(file))
        page = report.write_report(names, scratch / "report.html", labels=self.labels, analysis=self.analysis)
        self.add("report.html", files.read_bytes(page))
        return len(drawn)

    def _record(self, study: str | None) -> bytes:
        """The record ``artefact.json``, which says how its tables are computed."""
        record = {
            "schema": 1,
            "title": self.options.title,
            "tomserve": __version__,
            "code": content.code_digest([content.PACKAGE]),
            "python": platform.python_version(),
            "study": self.analysis.study.name if study is None else None,
            "study_file": study,
            "intervals": self.analysis.intervals,
            "by": list(self.options.by),
            "labels": list(self.labels),
            "wheel": self.wheel,
            "runs": {
                name: {
                    **{key: getattr(one, key) for key in _RECORDED},
                    "sealed": name in self.runs.sealed,
                    "collected_by": one.foreign.tool if one.foreign is not None else None,
                }
                for name, one in self.runs.manifests.items()
            },
        }
        return orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n"


_RECORDED = ("model", "revision", "benchmark", "benchmark_digest", "tomserve", "measured")
"""What the record says of a run's manifest."""


def _describe_run(one: Manifest) -> str:
    by = f", collected by {one.foreign.tool}" if one.foreign is not None else ""
    what = "what was measured inside the model" if one.measured else f"replies to {one.benchmark}"
    return f"{one.model}, {what}{by}"


def collect_canaries(runs: Snapshot) -> list[str]:
    """The canaries of the questions of these runs, sorted."""
    paths = [path for name in runs.names if (path := runs.root / name / "items.jsonl").exists()]
    return sorted({item.canary for path in paths for item in read_items(path) if item.canary})


def _own_study(analysis: Analysis) -> Iterator[tuple[str, Path]]:
    """The files of a study that does not come with tomserve, each with its name in the artefact, the study's own first.
    Raises ConfigError where they are too large."""
    path = analysis.study.path
    shipped = [content.PACKAGE / "_content", *([here] if (here := content.checkout()) is not None else [])]
    if path is None or any((root / "analysis").resolve() in path.resolve().parents for root in shipped):
        return
    folder, found, root = path.parent, [path], "study"
    if path.name == "study.py":
        inside = sorted(
            one for one in folder.rglob("*") if one.suffix in PROGRAM_FILES and "__pycache__" not in one.parts
        )
        found += [one for one in inside if one != path and one.is_file() and not one.is_symlink()]
        if len(found) > 1:
            root = f"study/{re.sub(r'[^A-Za-z0-9._-]+', '-', folder.resolve().name)}"
    elif (texts := path.with_suffix(".yaml")).is_file() and not texts.is_symlink():
        found.append(texts)
    if sum(one.stat().st_size for one in found) > MOST:
        raise ConfigError(f"{folder}: the study and what lies beside it have more than {MOST >> 20} MB; move data away")
    for one in found:
        yield f"{root}/{one.relative_to(folder).as_posix()}", one


def _wheel(path: Path | None) -> str | None:
    """The name that tomserve's wheel has in the artefact; None where there is none."""
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
