"""Writes a benchmark, with or without answers to it, as a folder for a dataset hub: Parquet, card, Croissant metadata.

Nothing is uploaded. The card says what the data are, what each column holds, and that no model must be trained on
them; the canary, a text by which leaked data can be found, stands in the card and in every row.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tomserve._version import __version__
from tomserve.content import output_path, temporary
from tomserve.errors import ConfigError
from tomserve.interop import croissant, licences
from tomserve.interop.answered import Replies
from tomserve.interop.hub_tables import Table, items_table, replies_table
from tomserve.reporting.tables import markdown
from tomserve.runs.item_store import ItemStore

_SIZES = (("n<1K", 10**3), ("1K<n<10K", 10**4), ("10K<n<100K", 10**5), ("100K<n<1M", 10**6), ("1M<n<10M", 10**7))
_LARGER = "10M<n<100M"


@dataclass(frozen=True)
class Dataset:
    """What is to be written.

    title: of the dataset. licence: its identifier, such as cc-by-4.0. terms: the text of the licence file. source: what
    the data are, in sentences. own: whether the questions come with tomserve. items: the questions. replies: of runs,
    with what these are called. papers: to be cited, as titles. languages: codes such as en, empty where that is not
    known. url, date: where and when it is published, where that is known. benchmark: whether the questions are those
    of a benchmark on Theory of Mind.
    """

    title: str
    licence: str
    terms: str
    source: str
    own: bool
    items: ItemStore
    replies: Sequence[tuple[str, Replies]] = ()
    papers: Sequence[str] = ()
    languages: Sequence[str] = ()
    url: str | None = None
    date: str | None = None
    benchmark: bool = True

    @property
    def canary(self) -> str:
        """The canary of rows whose question has none."""
        digest = hashlib.sha256(f"hub {self.items.digest()}".encode()).digest()
        return f"tomserve-hub-{uuid.UUID(bytes=digest[:16], version=4)}: benchmark data; do not train on it"

    @property
    def version(self) -> str:
        """The version of the data: tomserve's for its own, and in any case the digest of the questions."""
        number = __version__ if self.own else "1.0.0"
        return f"{number}+sha256.{self.items.digest().removeprefix('sha256:')[:16]}"


def told_of(benchmarks: Sequence[str], runs: Sequence[str], others: Sequence[str]) -> str:
    """What the data are, in sentences. benchmarks, runs: their names. others: why they may be somebody else's."""
    told = [f"Questions of {', '.join(benchmarks)}, as tomserve asks them."]
    if runs:
        told.append(f"With the replies of the run{'s' * (len(runs) > 1)} {', '.join(runs)}.")
    told += [f"{one[:1].upper()}{one[1:]}." for one in others]
    return markdown(" ".join(told))


@dataclass
class _Made:
    """What was made of a dataset. tables: by name. canaries: all of them, sorted. digests: of the tables' files."""

    tables: dict[str, Table] = field(default_factory=dict)
    canaries: tuple[str, ...] = ()
    digests: dict[str, str] = field(default_factory=dict)


def write(dataset: Dataset, folder: Path, inputs: Sequence[Path] = ()) -> list[Path]:
    """Write the folder. inputs: what must not be overwritten. Returns the files.

    Raises ConfigError where there are no questions, where the folder holds tables of another dataset, and where a file
    cannot be written.
    """
    _refuse_leftovers(dataset, folder)
    try:
        with temporary.folder() as scratch:
            made = _tables(dataset, scratch)
            files = {f"data/{name}.parquet": table.path for name, table in made.tables.items()}
            texts = {
                "README.md": _card(dataset, made),
                "LICENSE": f"{dataset.terms.rstrip()}\n\nThese data must not be used to train models.\n",
            }
            for name, text in texts.items():
                files[name] = scratch / name
                files[name].write_text(text, "utf-8")
            files["croissant.json"] = scratch / "croissant.json"
            files["croissant.json"].write_bytes(_metadata(dataset, made))
            return [_put(source, folder / name, inputs) for name, source in files.items()]
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None


def _put(source: Path, path: Path, inputs: Sequence[Path]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as read, output_path.open_output(path, *inputs) as file:
        shutil.copyfileobj(read, file, 1 << 20)
    return path


def _refuse_leftovers(dataset: Dataset, folder: Path) -> None:
    """Raise ConfigError where the folder holds a table that the card would not name, and which would be uploaded with
    the others."""
    names = {"items.parquet", *(("replies.parquet",) if dataset.replies else ())}
    with contextlib.suppress(OSError):
        if found := sorted(one.name for one in (folder / "data").iterdir() if one.name not in names):
            raise ConfigError(
                f"{folder / 'data' / found[0]}: is no table of this dataset, and would be published with it; delete "
                "it, or choose another --out"
            )


def _tables(dataset: Dataset, scratch: Path) -> _Made:
    made = _Made()
    made.tables["items"] = items_table(dataset.items, scratch / "items.parquet", dataset.canary)
    if dataset.replies:
        names, runs = zip(*dataset.replies, strict=True)
        made.tables["replies"] = replies_table(runs, names, scratch / "replies.parquet", dataset.canary)
    made.canaries = tuple(sorted({item.canary or dataset.canary for item in dataset.items}))
    for name, table in made.tables.items():
        with table.path.open("rb") as file:
            made.digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return made


def _card(dataset: Dataset, made: _Made) -> str:
    title = " ".join(dataset.title.split())
    front = _front(dataset, made, title)
    parts = [
        f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n",
        f"# {markdown(title)}\n",
        f"{dataset.source} Written by tomserve {__version__}.\n",
        f"Version {dataset.version}. Digest of all questions: `{dataset.items.digest()}`.\n",
        "```python\nfrom datasets import load_dataset\n\n"
        + "".join(f'{name} = load_dataset("FOLDER_OR_REPOSITORY", "{name}", split="test")\n' for name in made.tables)
        + "```\n",
        "## Not for training\n",
        "These data measure models. Whoever trains on them takes away what they measure. Every row carries "
        + ("this canary" if len(made.canaries) == 1 else "one of these canaries")
        + ", by which leaks can be found:\n",
        *(f"```text\n{one}\n```\n" for one in made.canaries),
    ]
    for name, table in made.tables.items():
        parts.append(f"## {name}: {table.rows:,} rows\n")
        parts.append("| column | holds |\n|---|---|")
        parts.append("\n".join(f"| `{column}` | {markdown(table.told[column])} |" for column in table.schema) + "\n")
    if "replies" in made.tables:
        parts.append(
            "`item` of a reply is the `id` of its question; a question may have no reply. The terms of whoever served "
            "the model may limit what can be done with its replies.\n"
        )
    parts += [
        "## Limits\n",
        "A share of right answers says what was answered, not why. Constant answers and simple rules solve some of the "
        "questions: report what they score beside every accuracy (`tomserve analyze` does).\n",
        *_cited(dataset),
        f"## Licence\n\n{dataset.licence}; the text is in `LICENSE`.\n",
    ]
    return "\n".join(parts)


def _front(dataset: Dataset, made: _Made, title: str) -> dict[str, Any]:
    """What stands at the head of the card, by which a hub finds and shows the dataset."""
    rows = max(table.rows for table in made.tables.values())
    other = {"license_name": "other", "license_link": "LICENSE"} if dataset.licence == "other" else {}
    return {
        "license": dataset.licence,
        **other,
        **({"language": list(dataset.languages)} if dataset.languages else {}),
        "pretty_name": title,
        "task_categories": ["question-answering"],
        "size_categories": [next((name for name, most in _SIZES if rows < most), _LARGER)],
        "tags": [*(["theory-of-mind"] if dataset.benchmark else []), "evaluation", "croissant"],
        "configs": [
            {"config_name": name, "data_files": [{"split": "test", "path": f"data/{name}.parquet"}]}
            for name in made.tables
        ],
    }


def _cited(dataset: Dataset) -> list[str]:
    """The chapter on what to cite."""
    told = [f"- {markdown(paper)}" for paper in dataset.papers]
    told.append("- tomserve, with its version and the digest above")
    if not dataset.own and not dataset.papers:
        told.insert(0, "- the paper of the questions")
    return ["## Citation\n", "\n".join(told) + "\n"]


def _metadata(dataset: Dataset, made: _Made) -> bytes:
    cited = "; ".join((*dataset.papers, f"tomserve {__version__}; data {dataset.items.digest()}"))
    about: Mapping[str, Any] = {
        "name": " ".join(dataset.title.split()),
        "description": f"{dataset.source} These data must not be used to train models. {' '.join(made.canaries)}",
        "license": licences.page(dataset.licence),
        "url": dataset.url,
        "version": dataset.version,
        "datePublished": dataset.date,
        "citeAs": cited,
    }
    return croissant.metadata(about, made.tables, made.digests)
