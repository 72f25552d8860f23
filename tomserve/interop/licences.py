"""Whose data a run or a benchmark holds, and under which licence they may be handed on.

Questions that come with tomserve are under CC BY 4.0. Of all others only who holds them can say under which licence
they may be shared, so that nothing here guesses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tomserve import benchmarks, content
from tomserve.content.text import mark_hidden
from tomserve.errors import ConfigError
from tomserve.runs.manifest import Manifest

OWN = "cc-by-4.0"
"""The licence of the data that come with tomserve."""

_PAGES = {
    OWN: "https://creativecommons.org/licenses/by/4.0/",
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "cc-by-nc-4.0": "https://creativecommons.org/licenses/by-nc/4.0/",
    "mit": "https://opensource.org/license/mit",
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
}
"""Where the text of a licence is, by its identifier."""

MOST = 1 << 20
"""Most bytes of the text of a licence."""


@dataclass(frozen=True)
class Holding:
    """What a benchmark or a run holds. benchmark: its name. others: a sentence that says why it may be somebody else's;
    None for data that come with tomserve."""

    benchmark: str
    others: str | None


def of_benchmark(name: str, path: Path | None) -> Holding:
    """Whose the questions of a benchmark are. name: its name or file. path: the user's file of them. Raises ConfigError
    for an unknown one."""
    found = benchmarks.get(name)
    if found.terms:
        return Holding(found.name, f"the questions of {found.name} are others': {found.terms}")
    if path is not None:
        return Holding(found.name, f"the questions of {found.name} come from {path.name}")
    if found.file is not None:
        return Holding(found.name, f"the benchmark {found.name} is declared in a file of its own, {found.file.name}")
    return Holding(found.name, None)


def of_run(name: str, manifest: Manifest) -> Holding:
    """Whose the questions and replies of a run are. name: of the run. What a manifest says is never looked for."""
    benchmark = mark_hidden(manifest.benchmark)[:100]
    known = benchmarks.find(manifest.benchmark)
    if manifest.foreign is not None:
        tool = mark_hidden(manifest.foreign.tool)[:40]
        return Holding(benchmark, f"the questions and replies of {name} were brought from files of {tool}")
    if known is None or known.file is not None:
        return Holding(benchmark, f"the benchmark {benchmark} of {name} is none of tomserve's")
    if known.terms:
        return Holding(benchmark, f"the questions of {name} are others': {known.terms}")
    if manifest.benchmark_path is not None or known.mixed:
        file = mark_hidden(Path(manifest.benchmark_path or "items").name)[:100]
        return Holding(benchmark, f"the questions of {name} come from a file, {file}")
    return Holding(benchmark, None)


def papers(names: Iterable[str]) -> list[str]:
    """The papers of the benchmarks of these names, as far as tomserve knows them, each once."""
    found = (benchmarks.find(name) for name in sorted(set(names)))
    return list(dict.fromkeys(paper for one in found if one is not None for paper in one.papers))


def bibtex(titles: Iterable[str]) -> str:
    """BibTeX entries of papers, each given as ``Title (arXiv:NUMBER)`` or ``Title (doi:DOI)``.

    >>> print(bibtex(["Hi-ToM (arXiv:2310.16755)"]))
    @misc{arXiv.2310.16755,
      title = {Hi-ToM},
      author = {{The authors of arXiv:2310.16755}},
      eprint = {2310.16755},
      archivePrefix = {arXiv},
      url = {https://arxiv.org/abs/2310.16755}
    }
    <BLANKLINE>
    """
    made = []
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
        key = f"{kind}.{place.replace('/', '-')}" if kind else f"paper.{number}"
        made.append(entry("misc", key, fields))
    return "\n".join(made)


def entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    """A BibTeX entry. fields: their values as TeX, by name."""
    told = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@{kind}{{{key},\n{told}\n}}\n"


def _tex(text: str) -> str:
    """The text as TeX, of which nothing is a command or ends the field."""
    kept = re.sub(r"[{}\\]", "", mark_hidden(text))
    return re.sub(r"([&%$#_])", r"\\\1", kept).replace("~", " ").replace("^", " ")


def identifier(given: str) -> str:
    """The identifier of a licence as hubs write it. Raises ConfigError for what is none.

    >>> identifier("CC-BY-NC-4.0")
    'cc-by-nc-4.0'
    """
    made = given.strip().lower()
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]{1,39}", made):
        raise ConfigError(
            f"--license: found {given!r:.60}; expected an identifier such as cc-by-4.0, mit or apache-2.0, or `other` "
            "with --license-file FILE"
        )
    return made


def page(licence: str) -> str:
    """Where the licence of that identifier is explained, or the identifier itself where that is not known."""
    return _PAGES.get(licence, licence)


def of_minds(names: Iterable[str]) -> bool:
    """Whether all of these are benchmarks of tomserve, which ask about people's minds."""
    found = [benchmarks.find(name) for name in names]
    return all(one is not None and one.file is None and not one.mixed for one in found)


def stated(licence: str, named: str) -> str:
    """What stands in the place of the text of a licence that the user names without its text."""
    where = f" Its text: {_PAGES[licence]}" if licence in _PAGES else ""
    return f"The data of {named} are under the licence {licence}.{where}"


def own_terms() -> str:
    """The text of the licence of the data that come with tomserve."""
    return content.require("dataset/LICENSE").read_text("utf-8")


def terms_of(path: Path) -> str:
    """The text of a licence from the user's file. Raises ConfigError where it is no short text."""
    try:
        with path.expanduser().open("rb") as file:
            data = file.read(MOST + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); expected the text of a licence") from None
    if len(data) > MOST:
        raise ConfigError(f"{path}: has more than {MOST >> 20} MB; expected the text of a licence")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no UTF-8 text ({error.reason}); expected the text of a licence") from None
    if not text.strip():
        raise ConfigError(f"{path}: is empty; expected the text of a licence")
    return text
