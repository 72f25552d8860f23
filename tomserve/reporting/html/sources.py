"""Sources of a report: run folders with manifest, scores, items and replies, or score tables alone, and the record of
what a report was made from.

A report is believed by content alone: the user's cache says that this page was made, with the same code and studies,
from these scores and this manifest.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve import content
from tomserve.content import cache, files
from tomserve.content.files import changed_error, digest_bytes
from tomserve.content.paths import PACKAGE, run_name, run_place
from tomserve.distributed.shards import Shards, find_tables, part_folder, parts_folder, score_parts
from tomserve.engine.redact import is_secret_name, redact_text
from tomserve.errors import ConfigError
from tomserve.items import Item, nfc
from tomserve.reporting.html.transcripts import Conversations
from tomserve.runs import journal, runfolder
from tomserve.runs.runfolder import find_run, read_manifest
from tomserve.runs.scores import load_scored_run, load_scores, read_current_record
from tomserve.scoring.labels import count_offered
from tomserve.scoring.responses import ItemFile, ResponseFile
from tomserve.scoring.score import COLUMNS as STANDARD
from tomserve.scoring.table import TABLES, Note
from tomserve.studies import ItemOutline, missing_data, relabel
from tomserve.studies.missing_data import Gaps


@dataclass(frozen=True, slots=True)
class Source:
    """One run, or the file of one score table."""

    folder: Path | None  # None for a score table
    run: str  # its name
    manifest: Mapping[str, Any]  # empty for a score table
    scores: pl.DataFrame  # with models named as --label says
    made_from: runfolder.Record | None  # what the scores of a run were made from
    file: Path | None = None

    def gaps(self) -> list[Gaps]:
        """What is lacking of the scores."""
        named = f"{'run' if self.folder is not None else 'table'} {self.run}"
        given = missing_data.shell_argument(self.file or self.run)
        return [
            replace(gap, source_argument=given) for gap in missing_data.gaps_of_scores(self.scores, self.folder, named)
        ]

    def answers(self, chosen: Collection[str] | None = None) -> Iterator[tuple[Item, Mapping[str, Any]]]:
        """Every response that was scored with its item, in the order of the scores; not what was appended since.
        chosen: ids of the items that are wanted; None for all. Raises ConfigError where the files are not those that
        were scored."""
        if self.folder is None or self.made_from is None or runfolder.JOURNAL not in self.made_from["files"]:
            return
        files = self.made_from["files"]
        known = ItemFile(self.folder / runfolder.ITEMS)
        places = None if chosen is None else {place for place, name in enumerate(known.ids) if name in chosen}
        size = files[runfolder.JOURNAL]["bytes"]
        model, talking = str(self.manifest.get("model")), self.made_from.get("turns") or {}
        found = ResponseFile(journal.journal_path(self.folder), known, model, size=size, talking=talking)
        for file in (known.file, found.file):
            if file.digest != files[file.path.name]["digest"]:
                raise changed_error(file.path)
        for place, row in found.rows(places):
            yield known.item(place), row

    @property
    def several(self) -> frozenset[str]:
        """The strategies of the run that ask more than one request for a question."""
        if int((self.manifest.get("sampling") or {}).get("repeats") or 1) > 1:
            return frozenset(self.manifest.get("strategies") or {})
        strategies: Mapping[str, Mapping[str, Any]] = self.manifest.get("strategies") or {}
        return frozenset(name for name, strategy in strategies.items() if strategy.get("turns", 1) != 1)

    def replies(self) -> int:
        """How many replies there are to show: more than answers where a strategy asks several requests for one."""
        if not self.several or self.folder is None or not journal.has_journal(self.folder):
            return self.scores.height
        path = journal.journal_path(self.folder)
        with files.open_for_reading(path) as file:
            return max(self.scores.height, sum(1 for _ in files.read_lines(file, path)))

    def turns(self, chosen: Collection[str] | None = None) -> Conversations | None:
        """Every reply of the strategies that ask several requests for a question; None where there are none. chosen:
        ids of the items that are wanted; None for all. Raises ConfigError where the journal is not the one that was
        scored."""
        if not self.several or self.folder is None or self.made_from is None:
            return None
        if (scored_file := self.made_from["files"].get(runfolder.JOURNAL)) is None:
            return None
        path, model = journal.journal_path(self.folder), str(self.manifest.get("model"))
        found = Conversations(path, model, self.several, chosen, scored_file["bytes"])
        if found.file.digest != scored_file["digest"]:
            raise changed_error(path)
        return found

    def outlines(self) -> Iterator[tuple[ItemOutline, str | None, bool]]:
        """Every item of the run in outline: what one has to know of it to guess its answer, its canary (a text by which
        leaked data is found), and whether it has a belief chain. Items were checked when they were scored and are not
        checked again, since half a million of them would take a minute and gigabytes."""
        if self.folder is None or not journal.has_journal(self.folder):
            return
        path = self.folder / "items.jsonl"
        with files.open_for_reading(path) as file:
            for line in files.read_lines(file, path):
                if line.strip():
                    data = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
                    offered = count_offered(data["benchmark"], data["choices"])
                    asked = ItemOutline(nfc(data["id"]), offered, data.get("factors") or {})
                    yield asked, data.get("canary"), bool(data.get("gold"))


def load_sources(
    runs: Sequence[str | None], labels: Sequence[str], note: Note | None
) -> tuple[list[Source], pl.DataFrame]:
    """The runs or score tables, and all their scores in one table. runs: names or paths of runs, files of score tables,
    or what lies in several files (tomserve.distributed.shards); None for the newest run. labels: texts RUN=NAME that
    rename the model of a run. note: called with a line for each reply that could not be read. Raises ConfigError for
    what is neither, for a source given twice, and for runs without any answer."""
    loaded: list[Source] = []
    for source in (source for run in runs for source in _sources(run, note)):
        if any(_place(source) == _place(other) for other in loaded):
            raise ConfigError(f"{source.folder or source.file}: given twice")
        if source.folder is not None and any(source.run == other.run for other in loaded):
            name, own = run_place(source.folder), pl.col("run") == source.run  # rows of parts are of the whole run
            named = source.scores.with_columns(run=pl.when(own).then(pl.lit(name)).otherwise("run"))
            source = replace(source, run=name, scores=named)
        loaded.append(source)
    if not loaded:
        raise ConfigError(f"{', '.join(map(str, runs))}: nothing was answered yet")
    scores = loaded[0].scores
    if len(loaded) > 1:
        from tomserve.studies.comparison import combine_scores  # most reports are of one run

        scores = combine_scores([source.scores for source in loaded])
    scores = relabel(scores, labels)
    if not scores.height:
        raise ConfigError(f"{', '.join(str(source.folder) for source in loaded)}: nothing was answered yet")
    sources, start = [], 0
    for source in loaded:
        sources.append(replace(source, scores=scores.slice(start, source.scores.height)))
        start += source.scores.height
    return sources, scores


def _place(source: Source) -> Path:
    return (source.folder or source.file or Path()).resolve()


def _sources(run: str | None, note: Note | None) -> list[Source]:
    """The sources that a name means: a run, a table, every part of an evaluation, or every table of a folder."""
    if run is None or (run.endswith(TABLES) and Path(run).expanduser().exists()):
        return [_table(run, note) if run is not None else _run(find_run(None), note)]
    if (folder := parts_folder(run)) is not None:
        named = pl.lit(Shards.read(folder).run).alias("run")
        parts = [_run(part_folder(folder, number), note) for number in score_parts(folder, note).there]
        return [replace(part, scores=part.scores.with_columns(named)) for part in parts if part.scores.height]
    if (tables := find_tables(run)) is not None:
        return [_table(str(path), note) for path in tables.files]
    return [_table(run, note) if run.endswith(TABLES) else _run(find_run(run), note)]


def _run(folder: Path, note: Note | None) -> Source:
    made = load_scored_run(folder.resolve(), note=note)
    return Source(folder, run_name(folder), read_manifest(folder) or {}, made.table, made.record)


def _table(file: str, note: Note | None) -> Source:
    path, scores = Path(file).expanduser(), load_scores(file, note=note)
    if "strategy" in scores.columns:  # answers, of which another tool's table may not tell all
        lacking = (name for name in STANDARD if name not in scores.columns)
        scores = scores.with_columns(pl.lit(None, STANDARD[name]).alias(name) for name in lacking)
    return Source(None, path.name, {}, scores, None, path)


def input_fields(record: runfolder.Record) -> list[tuple[str, str]]:
    """What scores were made from as (field, text) pairs, to stand below the manifest."""
    files = [(name, f"{file['bytes']:,} bytes, {file['digest']}") for name, file in record["files"].items()]
    scorer = [("scored with", record["scorer"])] if "scorer" in record else []  # a measured table was not scored
    named = [*scorer, (runfolder.TABLE, record["table"])]
    return [(f"scores: {name}", text) for name, text in (*files, *named)]


def provenance(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """A manifest as pairs of a field (nested names joined by dots) and its text, in which credentials are left out and
    missing values are said to be unknown; or a value of it, whose field is `prefix`."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            path = f"{prefix}.{name}" if prefix else str(name)
            if is_secret_name(str(name)) and not isinstance(inner, Mapping):
                yield path, "(not shown)"
            else:
                yield from provenance(inner, path)
    elif isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        for number, inner in enumerate(value, 1):
            yield from provenance(inner, f"{prefix} {number}")
    else:
        yield prefix, _field_text(value)


def _field_text(value: Any) -> str:
    if value is None or value in ([], {}, ""):
        return "unknown" if value is None else "none"
    if isinstance(value, list):
        return " ".join(_without_secrets([str(inner) for inner in value]))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return redact_text(str(value))


def _without_secrets(words: Sequence[str]) -> Iterator[str]:
    hide = False
    for word in words:
        flag = word.startswith("-") and is_secret_name(word.partition("=")[0])
        if hide and not word.startswith("-"):
            yield "(not shown)"
        elif flag and "=" in word:
            yield word.split("=")[0] + "=(not shown)"
        else:
            yield redact_text(word)
        hide = bool(flag) and "=" not in word


PAGE, RECORD = "report.html", "report.json"

# The digest of the code, taken on import, so that it is that of the code which runs
_CODE = content.code_digest([PACKAGE])


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What a user may ask of a report; the fields are parameters of write_report."""

    intervals: str | None = None
    labels: Sequence[str] = ()
    study: str | None = None
    by: Sequence[str] = ()


def record_report(source: Source, page: str, options: ReportOptions) -> None:
    """Note what a page was made from that is the report of one run; not for a score table, nor for a study that was
    given by path, since another file may lie there later."""
    if source.folder is None or source.made_from is None:
        return
    if options.study is None or not (options.study.endswith(".py") or "/" in options.study):
        record = orjson.dumps(_record(source.manifest, source.made_from, options), option=orjson.OPT_INDENT_2)
        cache.keep(cache.place("reports", page.encode()), record)
        with contextlib.suppress(OSError), files.replace_file(source.folder / RECORD) as file:
            file.write(record)  # an export, by which others know with which options to make the page again


def find_current_report(folder: Path) -> Path | None:
    """The report of that run where making it again, with the same options, would give the same; else None. Raises
    ConfigError where the folder is no run."""
    manifest = read_manifest(folder)
    try:
        with files.open_for_reading(folder / PAGE) as page:
            kept = cache.find(cache.place("reports", page.read()))
    except OSError:
        return None
    if kept is None or manifest is None or (scores := read_current_record(folder)) is None:
        return None
    with kept:
        try:
            record = orjson.loads(kept.read())
            wishes = ReportOptions(**record["wishes"])
        except (orjson.JSONDecodeError, TypeError, KeyError):  # as a disk may leave it, or another version
            return None
    now = orjson.loads(orjson.dumps(_record(manifest, scores, wishes)))
    return folder / PAGE if record == now else None


def _record(manifest: Mapping[str, Any], made_from: runfolder.Record, options: ReportOptions) -> Mapping[str, Any]:
    return {
        "wishes": asdict(options),
        "code": _CODE,
        "studies": content.code_digest(root / "analysis" for root in content.roots()),
        "manifest": digest_bytes(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)),
        "scores": dict(made_from),
    }
