"""Writes an artefact for reviewers (reproducibility package) as one zip file, with a program that checks it.

It holds runs, tables, figures, report, versions and digests.

The same runs give the same bytes. All tables are computed from copies of the runs at one moment, which hold only the
files that make up a run: never logs, what a server printed, who the people of a study are, or what a link leads to;
folders of this machine are replaced by short words.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tomserve import content
from tomserve._version import __version__
from tomserve.content import files, output_path
from tomserve.content.paths import run_name, runs_root
from tomserve.errors import ConfigError
from tomserve.interop import hub, recompute
from tomserve.interop.inspect_export import stable_zip_member
from tomserve.items import read_items
from tomserve.reporting import figure_export, tables
from tomserve.reporting.html import figures, report
from tomserve.reporting.html.sources import load_sources
from tomserve.reporting.tables import markdown
from tomserve.runs import journal, runfolder, verification
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import check_files, find_run
from tomserve.scoring.table import TABLES
from tomserve.studies import Analysis, compute, missing_data
from tomserve.studies.comparison import same_model_notes

MANIFEST = "manifest.json"
TAKEN = (*verification.SEALED, journal.PACKED, verification.SEAL_FILE)
"""The files of a run of answers that are handed on, as far as it has them. A measured run has its table besides."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_SECRET = re.compile(r"key|token|secret|passw|credential", re.I)
_SHORTEST = 12
"""Fewest characters of a secret of the environment that is looked for; a shorter one would be found by chance."""


@dataclass
class Snapshot:
    """Copies of runs.

    root: the folder that holds them, as TOMSERVE_RUNS. folders: by name, where each run lies really. manifests: by
    name. taken: the files of the copies, each with its run's name. sealed: the names of those with a seal. warnings:
    what the user has to know, in sentences.
    """

    root: Path
    folders: dict[str, Path] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    sealed: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """What the runs are called here, in the order in which they were given."""
        return list(self.folders)

    def files(self) -> Iterator[tuple[str, Path]]:
        """Every file of the copies with its name below the folder of all runs."""
        for name in self.taken:
            yield name, self.root / name

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
    with files.temporary_folder() as scratch:
        snapshot = Snapshot((scratch / "runs").resolve())
        places = _places()
        for run in runs:
            if run.endswith(TABLES):
                raise ConfigError(f"{run}: is a table of scores; an artefact holds runs, from which it can be computed")
            folder = find_run(run)
            name = _run_name(run_name(folder))
            if name in snapshot.folders:
                raise ConfigError(f"{run}: two runs are called {name!r}; rename the folder of one")
            snapshot.folders[name] = folder
            _copy(snapshot, name, folder, places)
        before = os.environ.get("TOMSERVE_RUNS")
        os.environ["TOMSERVE_RUNS"] = str(snapshot.root)
        try:
            yield snapshot
        finally:
            if before is None:
                del os.environ["TOMSERVE_RUNS"]
            else:
                os.environ["TOMSERVE_RUNS"] = before


def _run_name(name: str) -> str:
    """What a run is called in an artefact: as before, where that can be the name of a run."""
    parts = [re.sub(r"[^A-Za-z0-9._-]+", "-", part) for part in name.split("/")]
    return "/".join(part if _NAME.fullmatch(part) else f"run{part}"[:200] for part in parts)


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
    names = (*TAKEN, runfolder.TABLE) if manifest.measured else TAKEN
    for one in names:
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
        _without_places(target / MANIFEST, places)
    for path in sorted(target.iterdir()):
        _check_content(snapshot, name, path, places)


def _without_places(path: Path, places: Sequence[tuple[str, str]]) -> None:
    """Write a manifest anew without the folders of this machine, where it names any."""
    given = orjson.loads(path.read_bytes())
    record = make_portable(given, places)
    if record != given:
        path.write_bytes(orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")


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


def _check_content(snapshot: Snapshot, name: str, path: Path, places: Sequence[tuple[str, str]]) -> None:
    """Look for what must not be handed on: refuse a secret of the environment, and tell of folders of this machine."""
    secrets = {
        variable: value.encode()
        for variable, value in os.environ.items()
        if _SECRET.search(variable) and len(value) >= _SHORTEST and not Path(value).exists()
    }
    home = next((folder.encode() for folder, short in places if short == "~"), None)
    found, before = 0, b""
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            text = before + block
            for variable, value in secrets.items():
                if value in text:
                    raise ConfigError(
                        f"{snapshot.folders[name] / path.name}: holds what the variable {variable} of your environment "
                        "holds, which looks like a key; take it out of the file, or unset the variable"
                    )
            found += home is not None and home + b"/" in text
            before = text[-4096:]
    if found:
        snapshot.warnings.append(
            f"{snapshot.folders[name] / path.name}: names your home folder, and is handed on as it is; look whether "
            "that may be read by others"
        )


@dataclass(frozen=True)
class ArtefactAbout:
    """What the texts need. title: of the artefact. by, labels: as the tables were made. study: the file of the study in
    the artefact, None for one that comes with tomserve. wheel: the name of tomserve's wheel in it, where it has one."""

    title: str
    by: Sequence[str]
    labels: Sequence[str]
    study: str | None
    wheel: str | None


def render_record(about: ArtefactAbout, analysis: Analysis, runs: Snapshot) -> bytes:
    """The record ``artefact.json``, which says how its tables are computed."""
    record = {
        "schema": 1,
        "title": about.title,
        "tomserve": __version__,
        "code": content.code_digest([content.PACKAGE]),
        "python": platform.python_version(),
        "study": analysis.study.name if about.study is None else None,
        "study_file": about.study,
        "intervals": analysis.intervals,
        "by": list(about.by),
        "labels": list(about.labels),
        "wheel": about.wheel,
        "runs": {name: _of_run(runs, name) for name in runs.names},
    }
    return orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n"


def _of_run(runs: Snapshot, name: str) -> dict[str, object]:
    one = runs.manifests[name]
    return {
        "model": one.model,
        "revision": one.revision,
        "benchmark": one.benchmark,
        "benchmark_digest": one.benchmark_digest,
        "tomserve": one.tomserve,
        "measured": one.measured,
        "sealed": name in runs.sealed,
        "collected_by": one.foreign.tool if one.foreign is not None else None,
    }


def list_requirements() -> str:
    """The exact versions of all that tomserve's core needs: the list that it was tested with, with the digests of all
    files, where this environment has these versions; else the versions that it has."""
    installed = _installed_versions()
    path = content.find("launch/locked/core.txt")
    locked = path.read_text("utf-8") if path is not None else ""
    versions = {_plain(name): version for name, version in re.findall(r"^([\w.-]+)==([^ ;\\\n]+)", locked, re.M)}
    if locked and all(versions.get(name) == version for name, version in installed.items()):
        return locked.partition("\n")[2]  # without the line that says what wrote it
    return "".join(f"{name}=={version}\n" for name, version in sorted(installed.items()))


def _installed_versions() -> dict[str, str]:
    """The versions of the packages that tomserve's core needs, and of what these need, as far as they are installed."""
    found: dict[str, str] = {}
    waiting = _requirements_of("tomserve")
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        waiting += _requirements_of(name)
    return found


def _requirements_of(name: str) -> list[str]:
    try:
        record = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [_plain(re.split(r"[^\w.-]", one.strip())[0]) for one in record if not re.search(r"\bextra\s*==", one)]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def render_citation(runs: Snapshot) -> str:
    """BibTeX entries of tomserve, and of the papers of the benchmarks, as far as tomserve knows them."""
    own = hub.bibtex_entry(
        "software",
        "tomserve",
        {
            "title": "tomserve: Theory-of-Mind evaluation of language models",
            "author": "{The tomserve maintainers}",
            "version": __version__,
            "year": "2026",
        },
    )
    return "\n".join(one for one in (own, hub.render_bibtex(_papers(runs))) if one)


def _papers(runs: Snapshot) -> list[str]:
    return hub.list_papers(one.benchmark for one in runs.manifests.values() if one.foreign is None)


def collect_canaries(runs: Snapshot) -> list[str]:
    """The canaries of the questions of these runs, sorted."""
    found = set()
    for name in runs.names:
        path = runs.root / name / "items.jsonl"
        if path.exists():
            found |= {item.canary for item in read_items(path) if item.canary}
    return sorted(found)


def render_readme(about: ArtefactAbout, runs: Snapshot, counts: Mapping[str, int]) -> str:
    """What whoever opens the artefact reads first. counts: how many tables and figures it has."""
    held = {name: hub.run_holding(name, one) for name, one in runs.manifests.items()}
    own = sorted({one.benchmark for one in held.values() if one.others is None})
    others = list(dict.fromkeys(one.others for one in held.values() if one.others))
    listed = "\n".join(_run_line(runs, name) for name in runs.names)
    return "\n".join(
        (
            f"# {markdown(' '.join(about.title.split()))}\n",
            f"Runs of language models, and what tomserve {__version__} computes from them.\n",
            f"{listed}\n",
            _contents(counts),
            _recomputing(about),
            _seal_note(runs),
            "## Licences\n",
            *(f"- {one}" for one in _licences(own, others)),
            "",
            *_not_for_training(collect_canaries(runs)),
            "## Citation\n",
            "`citation.bib` has the entries of tomserve and of the papers of the benchmarks.\n",
            *(f"- {markdown(one)}" for one in _papers(runs)),
        )
    ).rstrip() + "\n"  # fmt: skip


def _licences(own: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Whose what is, in sentences. own: names of benchmarks of tomserve. others: why data may be somebody else's."""
    if own:
        yield f"The questions of {', '.join(own)} come with tomserve, under CC BY 4.0: `LICENSE-data`."
    for one in others:
        yield f"{markdown(one[:1].upper() + one[1:])}. Find out under which terms they may be shared."
    yield "What a model replied is not tomserve's; the terms of whoever serves the model may limit its use."
    yield "`recompute.py` belongs to tomserve, under Apache-2.0."


def _run_line(runs: Snapshot, name: str) -> str:
    one = runs.manifests[name]
    by = f", collected by {one.foreign.tool}" if one.foreign is not None else ""
    what = "what was measured inside the model" if one.measured else f"replies to {one.benchmark}"
    return f"- `runs/{name}/`: {markdown(f'{one.model}, {what}{by}')}"


def _contents(counts: Mapping[str, int]) -> str:
    return f"""| file or folder | holds |
|---|---|
| `runs/` | every question and every raw reply, and `manifest.json`: what was asked of which model, and how |
| `tables/` | {counts["tables"]} tables, as CSV and as LaTeX; `notes.txt` says what each means |
| `figures/` | {counts["figures"]} figures as PDF, each with its caption |
| `report.html` | tables, figures, and every question with its reply; opens offline |
| `artefact.json`, `requirements.txt` | how it was computed, and the exact packages |
| `SHA256SUMS` | digests of all files; `sha256sum --check SHA256SUMS` checks them, too |
"""


def _recomputing(about: ArtefactAbout) -> str:
    version = __version__
    new = f"recompute.py --wheel {about.wheel or f'tomserve-{version}-py3-none-any.whl'}"
    wheel = "The wheel is tomserve's own, a program; without --wheel the package registry is asked.\n"
    trust = ""
    if about.study is not None:
        trust = (
            f"\nThe tables are made by a program of its own, `{about.study}`, run only with `--run-study`: read "
            "it first, as it can do all that you can.\n"
        )
    python = platform.python_version().rpartition(".")[0]
    return f"""## Compute it again

    python {new}     # in a new environment
    python recompute.py --here     # in one that has tomserve {version}

It checks the digests, scores the replies again, computes every table anew, and compares all cells. A new environment
takes Python {python} and the network, for the packages alone; the computing takes neither network nor GPU.
{wheel}The exit code is 0 where all is the same, 1 where anything differs, 2 where it could not be tried.
{trust}"""


def _seal_note(runs: Snapshot) -> str:
    sealed = sorted(runs.sealed)
    if not sealed:
        return "Folders of the machine that asked are replaced in the manifests by short words.\n"
    return (
        f"Sealed runs ({', '.join(sealed)}) are as they were sealed: `tomserve verify ./runs/NAME` says so. In the "
        "manifests of others, folders of the machine that asked are replaced by short words.\n"
    )


def _not_for_training(found: Sequence[str]) -> list[str]:
    record = ["## Not for training\n", "These data measure models: whoever trains on them takes that away.\n"]
    return [*record, *(f"```text\n{one}\n```\n" for one in found)]


PROGRAM_FILES = (".py", ".json", ".yaml", ".yml", ".csv", ".txt")
"""What a study that is a folder may consist of; other files in it are not handed on."""

MOST = 5 << 20
"""Most bytes of a study's own files, and a tenth of those of a wheel."""


@dataclass(frozen=True)
class ArtefactOptions:
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

    def add(self, name: str, data: bytes) -> None:
        self.file.writestr(stable_zip_member(name), data)
        self.digests[name] = hashlib.sha256(data).hexdigest()

    def copy(self, name: str, path: Path) -> None:
        """Add a file block by block, since a journal may be larger than the memory."""
        sha = hashlib.sha256()
        with (
            files.open_for_reading(path) as source,
            self.file.open(stable_zip_member(name), "w", force_zip64=True) as target,
        ):
            for block in iter(lambda: source.read(1 << 20), b""):
                sha.update(block)
                target.write(block)
        self.digests[name] = sha.hexdigest()


def write_artefact(options: ArtefactOptions, path: Path, say: Callable[[str], None] = lambda text: None) -> list[str]:
    """Write the artefact.

    options: what it is to hold. path: the file to write. say: is told what is lacking of the runs, and what else is to
    be known. Returns the names of its members. Raises ConfigError as `copy_runs` and `compute` do, for a wheel of
    another tomserve, and for a file that cannot be written.
    """
    wheel = _wheel(options.wheel)
    with copy_runs(options.runs) as runs:
        output_path.check_output(path, *runs.folders.values(), options.wheel)
        labels = runs.labels(options.labels, options.runs)
        analysis = _analysis(options, labels, runs, say)
        try:
            with (
                output_path.open_output(path, *runs.folders.values(), options.wheel) as target,
                zipfile.ZipFile(target, "w") as archive,
            ):
                out = _Zip(archive)
                _fill(out, options, labels, analysis, runs, wheel)
                return [*out.digests]
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None


def _analysis(options: ArtefactOptions, labels: Sequence[str], runs: Snapshot, say: Callable[[str], None]) -> Analysis:
    """What the study says of the copies, after what is lacking of them was told."""
    for warning in runs.warnings:
        say(warning)
    sources, scores = load_sources(runs.names, labels, lambda text: say(text.replace(f"{runs.root}/", "")))
    for source in sources:
        for warning in missing_data.gap_sentences(
            missing_data.gaps_of_scores(source.scores, runs.root / source.run, source.run)
        ):
            say(warning)
    for warning in same_model_notes(scores, {name: one.to_dict() for name, one in runs.manifests.items()}):
        say(warning)
    return compute(scores, options.study, options.intervals, options.by, named=figures.common_study(sources))


def _fill(
    out: _Zip, options: ArtefactOptions, labels: Sequence[str], analysis: Analysis, runs: Snapshot, wheel: str | None
) -> None:
    for name, file in runs.files():
        out.copy(f"runs/{name}", file)
    with files.temporary_folder() as scratch:
        drawn = _put_results(out, options, labels, analysis, runs, scratch)
    study = None
    for name, file in _own_study(analysis):
        study = study or name
        out.copy(name, file)
    if wheel is not None and options.wheel is not None:
        out.copy(wheel, options.wheel)
    about = ArtefactAbout(options.title, tuple(options.by), tuple(labels), study, wheel)
    if any(hub.run_holding(name, one).others is None for name, one in runs.manifests.items()):
        out.add("LICENSE-data", hub.own_terms().encode())
    out.add("requirements.txt", list_requirements().encode())
    out.add("artefact.json", render_record(about, analysis, runs))
    out.add("recompute.py", Path(recompute.__file__).read_bytes())
    out.add("citation.bib", render_citation(runs).encode())
    counts = {"tables": len(analysis.tables), "figures": drawn}
    out.add("README.md", render_readme(about, runs, counts).encode())
    out.add("SHA256SUMS", "".join(f"{digest}  {name}\n" for name, digest in sorted(out.digests.items())).encode())


def _put_results(
    out: _Zip, options: ArtefactOptions, labels: Sequence[str], analysis: Analysis, runs: Snapshot, scratch: Path
) -> int:
    """Add the tables as CSV and LaTeX, the figures as PDF, and the report. Returns how many figures there are."""
    layouts, notes = analysis.study.layouts, analysis.notes
    for form in ("csv", "latex"):
        for file in tables.write_tables(analysis.tables, scratch / form, form, layouts, notes):
            out.add(f"tables/{form}/{file.name}", file.read_bytes())
    drawings, _ = figures.figures(runs.names, options.intervals, labels, options.study, by=options.by)
    try:
        drawn = figure_export.write_figures(drawings, scratch / "figures", ("pdf",), 1)
    except ConfigError:  # a study without figures
        drawn = []
    for file in sorted((scratch / "figures").iterdir()) if drawn else ():
        out.add(f"figures/{file.name}", file.read_bytes())
    page = report.write_report(runs.names, scratch / "report.html", labels=labels, analysis=analysis)
    out.add("report.html", page.read_bytes())
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
