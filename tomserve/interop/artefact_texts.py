"""What an artefact says of itself: README, citation, the exact packages, and a record for the program in it."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from tomserve import content
from tomserve._version import __version__
from tomserve.interop import licences
from tomserve.interop.snapshot import Snapshot
from tomserve.items import read_items
from tomserve.reporting.tables import markdown
from tomserve.studies import Analysis


@dataclass(frozen=True)
class About:
    """What the texts need. title: of the artefact. by, labels: as the tables were made. study: the file of the study in
    the artefact, None for one that comes with tomserve. wheel: the name of tomserve's wheel in it, where it has one."""

    title: str
    by: Sequence[str]
    labels: Sequence[str]
    study: str | None
    wheel: str | None


def record(about: About, analysis: Analysis, runs: Snapshot) -> bytes:
    """The record ``artefact.json``, which says how its tables are computed."""
    told = {
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
    return orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n"


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


def requirements() -> str:
    """The exact versions of all that tomserve's core needs: the list that it was tested with, with the digests of all
    files, where this environment has these versions; else the versions that it has."""
    installed = _installed()
    path = content.find("launch/locked/core.txt")
    locked = path.read_text("utf-8") if path is not None else ""
    versions = {_plain(name): version for name, version in re.findall(r"^([\w.-]+)==([^ ;\\\n]+)", locked, re.M)}
    if locked and all(versions.get(name) == version for name, version in installed.items()):
        return locked.partition("\n")[2]  # without the line that says what wrote it
    return "".join(f"{name}=={version}\n" for name, version in sorted(installed.items()))


def _installed() -> dict[str, str]:
    """The versions of the packages that tomserve's core needs, and of what these need, as far as they are installed."""
    found: dict[str, str] = {}
    waiting = _needed("tomserve")
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        waiting += _needed(name)
    return found


def _needed(name: str) -> list[str]:
    try:
        told = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [_plain(re.split(r"[^\w.-]", one.strip())[0]) for one in told if not re.search(r"\bextra\s*==", one)]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def citation(runs: Snapshot) -> str:
    """BibTeX entries of tomserve, and of the papers of the benchmarks, as far as tomserve knows them."""
    own = licences.entry(
        "software",
        "tomserve",
        {
            "title": "tomserve: Theory-of-Mind evaluation of language models",
            "author": "{The tomserve maintainers}",
            "version": __version__,
            "year": "2026",
        },
    )
    return "\n".join(one for one in (own, licences.bibtex(_papers(runs))) if one)


def _papers(runs: Snapshot) -> list[str]:
    return licences.papers(one.benchmark for one in runs.manifests.values() if one.foreign is None)


def canaries(runs: Snapshot) -> list[str]:
    """The canaries of the questions of these runs, sorted."""
    found = set()
    for name in runs.names:
        path = runs.root / name / "items.jsonl"
        if path.exists():
            found |= {item.canary for item in read_items(path) if item.canary}
    return sorted(found)


def readme(about: About, runs: Snapshot, counts: Mapping[str, int]) -> str:
    """What whoever opens the artefact reads first. counts: how many tables and figures it has."""
    held = {name: licences.of_run(name, one) for name, one in runs.manifests.items()}
    own = sorted({one.benchmark for one in held.values() if one.others is None})
    others = list(dict.fromkeys(one.others for one in held.values() if one.others))
    listed = "\n".join(_listed(runs, name) for name in runs.names)
    return "\n".join(
        (
            f"# {markdown(' '.join(about.title.split()))}\n",
            f"Runs of language models, and what tomserve {__version__} computes from them.\n",
            f"{listed}\n",
            _contents(counts),
            _recomputing(about),
            _said(runs),
            "## Licences\n",
            *(f"- {one}" for one in _licences(own, others)),
            "",
            *_not_for_training(canaries(runs)),
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


def _listed(runs: Snapshot, name: str) -> str:
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


def _recomputing(about: About) -> str:
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


def _said(runs: Snapshot) -> str:
    sealed = sorted(runs.sealed)
    if not sealed:
        return "Folders of the machine that asked are replaced in the manifests by short words.\n"
    return (
        f"Sealed runs ({', '.join(sealed)}) are as they were sealed: `tomserve verify ./runs/NAME` says so. In the "
        "manifests of others, folders of the machine that asked are replaced by short words.\n"
    )


def _not_for_training(found: Sequence[str]) -> list[str]:
    told = ["## Not for training\n", "These data measure models: whoever trains on them takes that away.\n"]
    return [*told, *(f"```text\n{one}\n```\n" for one in found)]
