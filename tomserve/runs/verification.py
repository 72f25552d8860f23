"""The seal of a run, ``seal.json``, and the verification of a run: rows, prompts, questions and scores are made again
and compared.

A seal is a chain of links, one for each time that the run was sealed, each with the digest of every file and of the
link before; journals have further digests of every thousandth line. Whoever can write to the folder could make
another seal: publish the digest of the newest link elsewhere, or sign it. The key of a row is a digest of all that
was said to the model, so that verification finds changed prompts, answers and scores; replies that were made up only
a seal can tell.

>>> seal(Path("runs/example")).digest                                                             # doctest: +SKIP
'sha256:3f0c...'
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import orjson
import polars as pl
import pydantic

from tomserve import benchmarks, variants
from tomserve._version import __version__
from tomserve.content import files, signatures
from tomserve.content.compact_index import Index
from tomserve.content.files import digest_bytes, digest_file, one_line
from tomserve.content.paths import run_name
from tomserve.content.validation import Strict, read_record
from tomserve.engine.adaptations import check_names
from tomserve.engine.records import utc_now
from tomserve.engine.request import THINKING_BUDGET, Request, Sampling
from tomserve.errors import ConfigError, TomserveError
from tomserve.items import read_items
from tomserve.prompting import strategy as known
from tomserve.prompting.strategy import Strategy
from tomserve.runs import journal, measurement, runfolder
from tomserve.runs.conversations import Build, replay_conversation
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import Row, read_rows, row_identity
from tomserve.runs.manifest import AskedStrategy, Manifest
from tomserve.runs.planning import add_variants
from tomserve.runs.runfolder import RunFolder, check_files
from tomserve.runs.scores import score_run
from tomserve.scoring import grades
from tomserve.scoring.responses import NOISE
from tomserve.serving.presets import Preset
from tomserve.status import ANSWERS, FINAL

SEAL_FILE = "seal.json"

GROWING = (runfolder.JOURNAL, NOISE, grades.JOURNAL)  # files to which lines are only ever added

SEALED = ("manifest.json", runfolder.ITEMS, grades.RECORD, *GROWING)
"""The files that make up a run of answers. A measured run has its table besides."""

EVERY = 1000  # a journal is digested anew after so many lines

Digest = Annotated[str, pydantic.StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Name = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z-]{1,50}\.[a-z]{1,10}$")]
Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]


class SealedFile(Strict, strict=True):
    """A file as it was sealed. bytes, digest: its length, and its digest as ``sha256sum`` prints it. chain: the digests
    of its beginning up to every thousandth line, behind those of the links before."""

    bytes: Count
    digest: Digest
    lines: Count | None = None  # how many it had, of a file that grows
    chain: tuple[Digest, ...] | None = None


class SealLink(Strict, strict=True):
    """What one sealing recorded."""

    time: str  # when, by the clock of who sealed
    tomserve: str  # by which version
    previous: Digest | None = None  # the digest of the link before, with its signature; None for the first
    files: dict[Name, SealedFile]  # the files by their names
    signature: str | None = None  # that of this link's digest

    @property
    def digest(self) -> str:
        """The digest of all that the link holds but its signature, which is what is signed and published: of its JSON
        without blanks, with sorted names."""
        held = self.model_dump(exclude={"signature"}, exclude_none=True)
        return digest_bytes(orjson.dumps(held, option=orjson.OPT_SORT_KEYS))

    @property
    def whole(self) -> str:
        """The digest of the link with its signature, which the next link names."""
        return digest_bytes(orjson.dumps(self.model_dump(exclude_none=True), option=orjson.OPT_SORT_KEYS))


class Seal(Strict, strict=True):
    """The seal of a run."""

    schema_: Literal[1] = pydantic.Field(alias="schema")
    run: str
    links: Annotated[tuple[SealLink, ...], pydantic.Field(min_length=1)]  # what each sealing recorded, the oldest first

    @classmethod
    def read(cls, folder: Path) -> Seal | None:
        """The seal of that run; None where it has none. Raises ConfigError, by file and field, where it is broken."""
        return read_record(folder / SEAL_FILE, cls, WAY_OUT)


WAY_OUT = "take the seal from where you have the run from, or delete it and seal the run yourself"


class SealBreak(NamedTuple):
    """What is not as it was sealed."""

    text: str  # in words
    grown: bool = False  # whether rows were only added, and nothing was changed


def seal(folder: Path, key: Path | None = None) -> SealLink:
    """Seal a run as it is now, which is locked meanwhile: add a link to its seal, unless nothing has changed since the
    newest one. key: the SSH key to sign with; None for no signature. Raises ConfigError where the folder holds no run,
    its journal ends in half a line, or it is not as an earlier link says; MachineError where it is in use or cannot be
    written."""
    with RunFolder(folder):
        sealed_before = Seal.read(folder)
        links = sealed_before.links if sealed_before is not None else ()
        if links and (broken := [one for one in seal_differences(folder, links) if not one.grown]):
            raise ConfigError(
                f"{folder}: is not as it was sealed ({broken[0].text}); whoever changed it must say so: delete "
                f"{SEAL_FILE}, and seal it anew"
            )
        now_there = {name: _describe_file(_place(folder, name), links) for name in _list_files(folder)}
        newest = {name: one.digest for name, one in links[-1].files.items()} if links else {}
        same = newest == {name: one.digest for name, one in now_there.items()}
        if links and same and (key is None or links[-1].signature is not None):
            return links[-1]
        previous = links[-1].whole if links else None
        link = SealLink(time=utc_now(), tomserve=__version__, previous=previous, files=now_there)
        if key is not None:
            link = link.model_copy(update={"signature": signatures.sign_text(link.digest, key)})
        made = Seal.model_validate({"schema": 1, "run": run_name(folder), "links": (*links, link)})
        text = orjson.dumps(made.model_dump(by_alias=True, exclude_none=True), option=orjson.OPT_INDENT_2) + b"\n"
        path = folder / SEAL_FILE
        with files.refuse_os_errors(path, "cannot be written"), files.replace_file(path) as file:
            file.write(text)
        return link


def seal_differences(folder: Path, links: tuple[SealLink, ...]) -> Iterator[SealBreak]:
    """What of a run is not as its seal says, one by one; nothing where all of it is. Raises ConfigError for a file that
    cannot be read."""
    for number, (before, link) in enumerate(pairwise(links), 2):
        if link.previous != before.whole:
            yield SealBreak(f"link {number} of {SEAL_FILE} does not follow from the one before it")
    newest = links[-1].files
    there = _list_files(folder)
    grown = any(
        name in GROWING and journal.file_size(folder / name) > one.bytes
        for name, one in newest.items()
        if name in there
    )
    grown |= any(name in GROWING and name not in newest for name in there)
    for name in dict.fromkeys((*newest, *there)):
        if name not in there:
            yield SealBreak(f"{name} is missing")
        elif name in GROWING:
            yield from _journal_differences(_place(folder, name), links)
        elif name not in newest:
            yield SealBreak(f"{name} was added", grown)
        elif (found := _describe_file(_place(folder, name), ())) != newest[name]:
            yield SealBreak(f"{name} is another one ({found.bytes:,} bytes, sealed were {newest[name].bytes:,})", grown)


def _journal_differences(path: Path, links: tuple[SealLink, ...]) -> Iterator[SealBreak]:
    """What of a journal is not as it was sealed. Where only lines were added, how many."""
    name = path.name
    sealed = [link.files[name] for link in links if name in link.files]
    lengths = {one.bytes: one.digest for one in sealed}
    expected = [digest for one in sealed for digest in one.chain or ()]
    fits, last, offset, number = 0, max(lengths, default=0), 0, 0
    found, seen = hashlib.sha256(), {0: _hex(hashlib.sha256())}
    with files.refuse_os_errors(path), files.open_for_reading(path) as file:
        for number, line in enumerate(files.read_lines(file, path), 1):
            found.update(line)
            offset += len(line)
            if offset in lengths:
                seen[offset] = _hex(found)
            if number % EVERY == 0 and number // EVERY <= len(expected):
                if _hex(found) != expected[number // EVERY - 1]:
                    yield SealBreak(f"{name} was changed between lines {fits + 1:,} and {number:,}")
                    return
                fits = number
    if offset < last:
        yield SealBreak(f"{name} was changed behind line {fits:,}: it is {last - offset:,} bytes shorter")
    elif any(seen.get(length) != digest for length, digest in lengths.items()):
        yield SealBreak(f"{name} was changed behind line {fits:,}")
    elif number > (lines := (sealed[-1].lines or 0) if sealed else 0):
        yield SealBreak(f"{number - lines:,} lines of {name} were added since", grown=True)


def _list_files(folder: Path) -> list[str]:
    """The names of the files in a folder that make up the run. Raises ConfigError where it holds no run."""
    check_files(folder)
    manifest = Manifest.load(folder)
    names = (*SEALED, runfolder.TABLE) if manifest.measured else SEALED
    return [name for name in names if _place(folder, name).exists()]


def _describe_file(path: Path, links: tuple[SealLink, ...]) -> SealedFile:
    """A file as it is now; of one that grows, the chain goes on where that of the links ends."""
    if path.name not in GROWING:
        with files.refuse_os_errors(path):
            size, digest = digest_file(path)
        return SealedFile(bytes=size, digest=digest)
    found, size, number, chain = hashlib.sha256(), 0, 0, []
    done, line = sum(len(link.files[path.name].chain or ()) for link in links if path.name in link.files), b"\n"
    with files.refuse_os_errors(path), files.open_for_reading(path) as file:
        for number, line in enumerate(files.read_lines(file, path), 1):
            found.update(line)
            size += len(line)
            if number % EVERY == 0 and number // EVERY > done:
                chain.append(_hex(found))
    if not line.endswith(b"\n"):
        raise ConfigError(
            f"{path}: line {number} ends in the middle, as a killed process leaves it; repeat the command that made "
            "the run, which puts that right, then seal it"
        )
    return SealedFile(bytes=size, digest=_hex(found), lines=number, chain=tuple(chain))


def _place(folder: Path, name: str) -> Path:
    """The path of a file of the run, from which it can be read: that of a packed journal is a temporary one."""
    return journal.journal_path(folder) if name == runfolder.JOURNAL else folder / name


def _hex(found: hashlib._Hash) -> str:
    return f"sha256:{found.hexdigest()}"


@dataclass
class KeyComparison:
    """What came of comparing the keys of rows. strange: how many rows, by their strategy, could not be compared,
    because today's prompts of that strategy are others, or there is none of that name here."""

    equal: int = 0  # how many rows have the key of their prompt
    differing: int = 0  # how many have
    first: str | None = None  # the first row that has another one, in words; None where there is none
    strange: Counter[str] = field(default_factory=Counter)

    def count(self, row: Row, key: str | None) -> None:
        """Compare a row's key with that of its prompt; None for a turn that nobody would have asked."""
        if row["key"] == key:
            self.equal += 1
            return
        self.differing += 1
        if self.first is None:
            self.first = f"item {row['item']!r}, strategy {row['strategy']!r}, turn {row['turn']} (counted from 0)"


class RunPrompts:
    """The prompts of a run, made from its items by today's strategies of the same digests. given: folders of the user's
    own strategies. Raises ConfigError where the items cannot be read."""

    def __init__(self, folder: Path, manifest: Manifest, given: Sequence[str] = ()) -> None:
        self._items = ItemStore(read_items(folder / "items.jsonl"))
        self._places = {name: place for place, name in enumerate(self._items.ids)}
        self._build = recorded_build(manifest)
        folders = [Path(one).expanduser().resolve() for one in given]
        own = {folder.name: str(folder) for folder in folders}
        asked = manifest.strategies.items()
        self._strategies = {name: find_same_strategy(name, one, manifest, own.get(name)) for name, one in asked}

    def compare(self, journal: Path) -> KeyComparison:
        """Compare the key of every row of a journal. Raises ConfigError where a row cannot be read, or a strategy's
        program makes a mistake."""
        keys = KeyComparison()
        conversations: dict[tuple[str, str, int], array[int]] = {}
        for offset, row in read_rows(journal):
            strategy, place = self._strategies.get(row["strategy"]), self._places.get(row["item"])
            if strategy is None:
                keys.strange[row["strategy"]] += 1
            elif place is None:
                keys.count(row, None)
            elif strategy.is_multi_turn:
                conversations.setdefault(row_identity(row).question, array("Q")).append(offset)
            else:
                keys.count(row, self._build(row_identity(row), strategy.turn(self._items[place])).key)
        with files.open_for_reading(journal) as file:
            for question, offsets in conversations.items():
                rows = []
                for offset in offsets:
                    file.seek(offset)
                    rows.append(orjson.loads(file.readline()))
                self._compare_conversation(question, rows, keys)
        return keys

    def _compare_conversation(self, question: tuple[str, str, int], rows: list[Row], keys: KeyComparison) -> None:
        """Lead a conversation once more with the replies of the run, and compare the keys of its rows."""
        name, by, sample = question
        item, strategy = self._items[self._places[name]], self._strategies[by]
        assert strategy is not None
        last = {row["turn"]: row for row in rows}
        asked = replay_conversation(self._build, strategy, item, sample, last)
        keys_now = {request.identity.turn: request.key for request in asked}
        for row in rows:
            keys.count(row, keys_now.get(row["turn"]))


def recorded_build(manifest: Manifest) -> Build:
    """What makes the requests of a run once more, as its manifest records them; no key ever stands in one."""
    fields: dict[str, Any] = dict(manifest.sampling)
    temperature, seed = fields.pop("temperature", 0.0), fields.pop("seed", 0)
    fields.pop("repeats", None)
    sampling = Sampling(temperature, seed, fields, manifest.repeats, check_names(manifest.adaptations or ()))
    return partial(Request.build, model=manifest.model, revision=manifest.revision, sampling=sampling)


def find_same_strategy(name: str, asked: AskedStrategy, manifest: Manifest, own: str | None = None) -> Strategy | None:
    """The strategy of today of the same digest; None where there is none. Only names of this user's content are looked
    at, and the folder `own` that he gave: what a run folder says is never a path."""
    if own is None and name not in known.list_strategies():
        return None
    for options in _options(asked, manifest):
        try:
            found = Strategy.load(own or name, **options)
            renamed = found.renamed(asked.digest) if asked.digest not in (None, found.digest) else None
            if renamed is not None:
                found = Strategy.load(renamed, **options)
                return found if found.digest_as(name) == asked.digest else None
        except TomserveError:
            continue
        if found.digest == asked.digest:
            return found
    return None


def _options(asked: AskedStrategy, manifest: Manifest) -> Iterator[dict[str, Any]]:
    """The options with which a strategy may have been loaded: those of its model's preset, thinking or not, and the
    number of tokens that the run gave it."""
    try:
        preset = Preset.lookup(manifest.preset)
    except TomserveError:
        preset = None
    thoughts = {0} if preset is None else {preset.thinking_tokens(), 0}
    extra = manifest.sampling.get(THINKING_BUDGET)
    thoughts |= {extra} if type(extra) is int else set()
    own = {} if preset is None else {"system_role": preset.system_role, "overrides": preset.prompt_parts}
    for thinking in sorted(thoughts, reverse=True):
        for most in dict.fromkeys((0, max(0, (asked.max_tokens or 0) - thinking))):
            yield {**own, "max_tokens": most, "thinking": thinking}


SEAL = "seal"  # what the check of a seal is called; every run is looked at for one, after all else


class Finding(NamedTuple):
    """What came of one check."""

    what: str  # what was looked at
    holds: bool | None  # whether it is as it should be; None where that could not be found out
    said: str  # what was found, without a full stop


class VerifyOptions(NamedTuple):
    """What a user gives for the checks of a run."""

    path: Path | None = None  # the file or folder that the benchmark read instead of its own data (``--path``)
    strategies: Sequence[str] = ()  # folders of the user's own strategies
    signers: Path | None = None  # the keys that may have signed the run (see tomserve.content.signatures)


def verify_run(folder: Path, options: VerifyOptions | None = None) -> Iterator[Finding]:
    """Check a run, one thing after the other: its rows, prompts, questions, scores and seal. folder: the run's folder.
    Raises ConfigError where it is no run, or what the user gives is wrong."""
    check_files(folder)
    manifest, options = Manifest.load(folder), options or VerifyOptions()
    if manifest.measured:
        yield _table(folder, manifest)
    elif not journal.has_journal(folder):
        yield Finding("rows", None, "nothing was asked yet")
    else:
        rows = _rows(folder, manifest)
        yield rows
        if rows.holds:
            yield _prompts(folder, manifest, options)
            yield _questions(folder, manifest, options)
            yield _scores(folder)
    yield from verify_seal(folder, options.signers)


def verify_seal(folder: Path, signers: Path | None = None) -> Iterator[Finding]:
    """Check the seal of a run, and its signature. signers: one of them must have signed the newest link."""
    try:
        seal = Seal.read(folder)
        broken = [] if seal is None else list(seal_differences(folder, seal.links))
    except ConfigError as error:
        yield Finding(SEAL, False, str(error))
        return
    if seal is None:
        lacks = "not sealed, so that nobody can tell whether replies were changed since; `tomserve seal` does it"
        yield Finding(SEAL, False if signers is not None else None, lacks)
        return
    newest = seal.links[-1]
    since = f"sealed {one_line(newest.time)[:40]}, {newest.digest}"
    if not broken:
        links = f" (the newest of {len(seal.links)} seals)" if len(seal.links) > 1 else ""
        yield Finding(SEAL, True, f"nothing has changed since it was {since}{links}")
    else:
        kind = "grown since it was" if all(one.grown for one in broken) else "not as it was"
        yield Finding(SEAL, False, f"{kind} {since}: {'; '.join(one.text for one in broken)}")
    if newest.signature is None:
        yield Finding("signature", False if signers is not None else None, "the seal is not signed")
    else:
        found = signatures.check_signature(newest.digest, newest.signature, signers)
        yield Finding("signature", found.is_valid, found.message)


def _table(folder: Path, manifest: Manifest) -> Finding:
    """Whether a measured run holds the table that was measured."""
    try:
        frame, _ = measurement.read_measurement(folder, manifest)
    except ConfigError as error:
        return Finding("table", False, str(error))
    return Finding("table", True, f"the {frame.height:,} rows that the manifest names; they cannot be made again")


def _rows(folder: Path, manifest: Manifest) -> Finding:
    """Whether every line is a row about an item and a strategy of the run, and nothing was asked after its answer."""
    strange: Counter[str] = Counter()
    try:
        items = {item.id for item in read_items(folder / runfolder.ITEMS)}
        seen, count, statuses = Index(), 0, Counter[str]()
        for _, row in read_rows(journal.journal_path(folder)):
            count += 1
            identity, final = row_identity(row), row["status"] in FINAL
            statuses[row["status"]] += not final
            strange["about an item that the run does not hold"] += row["item"] not in items
            strange["of a strategy that the manifest does not name"] += row["strategy"] not in manifest.strategies
            strange["to a question that had its answer"] += identity in seen
            if row["status"] in ANSWERS:  # a failure that is final may have been asked again (`--again`)
                seen.add(identity)
        for _, row in read_rows(folder / NOISE):
            strange[f"of {NOISE} about an item that the run does not hold"] += row["item"] not in items
    except TomserveError as error:
        return Finding("rows", False, str(error))
    if found := [f"{number:,} {what}" for what, number in strange.items() if number]:
        return Finding("rows", False, f"{count:,} rows, of which {'; '.join(found)}")
    failed = sum(statuses.values())
    return Finding("rows", True, f"{count:,} rows" + (f", {failed:,} of them failed attempts" if failed else ""))


def _prompts(folder: Path, manifest: Manifest, options: VerifyOptions) -> Finding:
    """Whether the rows answer the prompts that their questions and strategies make."""
    try:
        prompts = RunPrompts(folder, manifest, options.strategies)
        found = [prompts.compare(path) for path in (journal.journal_path(folder), folder / NOISE) if path.exists()]
    except TomserveError as error:
        return Finding("prompts", None, f"could not be made again: {error}")
    equal, differing = sum(one.equal for one in found), sum(one.differing for one in found)
    strange = sum((one.strange for one in found), Counter[str]())
    rest = "; ".join(
        f"{count:,} rows of {one_line(name)[:80]} not compared, whose prompts are not those of this version"
        for name, count in strange.items()
    )
    if differing:
        first = next(one.first for one in found if one.first)
        text = f"{differing:,} rows answer another prompt than their question makes, first {one_line(first)[:200]}"
        return Finding("prompts", False, f"{text}; {rest}" if rest else text)
    text = f"{equal:,} rows answer the prompts that the questions make"
    return Finding("prompts", None if strange else True, f"{text}; {rest}" if rest else text)


def _questions(folder: Path, manifest: Manifest, options: VerifyOptions) -> Finding:
    """Whether the items of a run, with their right answers, are those of the benchmark."""
    named = one_line(manifest.benchmark)[:80]
    benchmark = benchmarks.find(manifest.benchmark)
    if benchmark is None:
        return Finding("questions", None, f"not compared: the benchmark {named!r} is not known here")
    if manifest.study is not None:
        return Finding("questions", None, "not compared: they followed from the answers, round by round")
    if manifest.benchmark_path is not None and options.path is None:
        return Finding("questions", None, "not compared: they came from a file; give it by --path")
    try:
        every = ItemStore(benchmark.items(options.path, manifest.benchmark_gold, benchmarks.ALL))
    except TomserveError as error:
        return Finding("questions", None, f"not compared: {error}")
    if every.digest() != manifest.benchmark_digest:
        text = f"not compared: {named} holds other questions in this version than when the run was made"
        return Finding("questions", None, text)
    own, lines = ItemStore(read_items(folder / runfolder.ITEMS)), {name: at for at, name in enumerate(every.ids)}
    strange = [place for place, name in enumerate(own.ids) if name not in lines]
    differing = [
        name
        for place, name in enumerate(own.ids)
        if (at := lines.get(name)) is not None and every.lines[at] != own.lines[place]
    ]
    changed, unknown = _variants(manifest, own, strange, benchmark, options.path, every)
    differing += changed
    if differing:
        first = one_line(differing[0])[:200]
        return Finding("questions", False, f"{len(differing):,} are not those of {named}, first item {first!r}")
    text = f"{len(own) - len(unknown):,} are those of {named}, with their right answers"
    if unknown:
        more = f"; {len(unknown):,} variants could not be made again, first {one_line(unknown[0])[:200]!r}"
        return Finding("questions", None, text + more)
    return Finding("questions", True, text)


def _variants(
    manifest: Manifest,
    own: ItemStore,
    places: Sequence[int],
    benchmark: benchmarks.Benchmark,
    path: Path | None,
    every: ItemStore,
) -> tuple[list[str], list[str]]:
    """Of the items at these places, which the benchmark does not hold, the ids of those that differ from the variants
    of these kinds that are made of its items, and the ids of those that nothing is known about."""
    if not places:
        return [], []
    known = set(manifest.variants.kinds) if manifest.variants is not None else set()
    kinds = [kind for kind in variants.parse_kinds(("all",)) if kind.name in known]
    originals = own.part([place for place in range(len(own)) if place not in set(places)])
    made = add_variants(originals, ItemStore(), kinds, benchmarks.retelling(benchmark, path), every.ids).variants
    there = {name: place for place, name in enumerate(made.ids)}
    differing, unknown = [], []
    for place in places:
        name = own.ids[place]
        at = there.get(name)
        if at is None:
            unknown.append(name)
        elif made.lines[at] != own.lines[place]:
            differing.append(name)
    return differing, unknown


def _scores(folder: Path) -> Finding:
    """Whether the kept table is what scoring gives."""
    unread: list[str] = []
    try:
        now = score_run(folder, note=unread.append)
    except TomserveError as error:
        return Finding("scores", False, f"cannot be made: {error}")
    path = folder / runfolder.TABLE
    if not path.exists():
        return Finding("scores", True, f"{now.height:,} rows are made; no table is kept")
    try:
        table = files.read_foreign_parquet(path)
    except (ConfigError, OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = one_line(" ".join(str(error).split()))[:120]
        return Finding("scores", False, f"{path.name} is no table ({reason}); it is made again when it is needed")
    if found := compare_tables(table, now):
        return Finding("scores", False, f"{path.name} is not what the replies give: {found}; `tomserve score` mends it")
    return Finding("scores", True, f"{path.name} holds what the replies give, {now.height:,} rows")


def compare_tables(table: pl.DataFrame, now: pl.DataFrame) -> str | None:
    """How a kept table differs from the one that was made now, in words; None where it does not. The column `run` is
    left out, because a run may have been given another name since."""
    there, wanted = (set(frame.columns) - {"run"} for frame in (table, now))
    if there != wanted:
        parts = [f"it lacks {', '.join(sorted(wanted - there)[:5])}"] if wanted - there else []
        more = ", ".join(one_line(name)[:40] for name in sorted(there - wanted)[:5])
        return "; ".join([*parts, *([f"it has columns besides ({more})"] if more else [])])
    if table.height != now.height:
        return f"it has {table.height:,} rows in place of {now.height:,}"
    differing = []
    for name in now.columns:
        if name == "run":
            continue
        one, other = table[name], now[name]
        if one.dtype != other.dtype:
            differing.append(f"{name} is {one.dtype} in place of {other.dtype}")
        elif not one.equals(other, null_equal=True):
            rows = (one.ne_missing(other)).sum() if not one.dtype.is_nested() else None
            differing.append(f"{name} differs" + (f" in {rows:,} of {now.height:,} rows" if rows else ""))
    return ", ".join(differing[:5]) or None
