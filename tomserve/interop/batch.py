r"""Batch files of OpenAI's Batch API: the requests of an evaluation are written, and their results read into its run.

OpenAI's Batch API, `vllm run-batch` and other queues take a file with a request on each line, and give back files
with a result on each line, in any order, named by `custom_id`, here the request's key. What is still to be asked
follows from the journal, so that export and import are repeated until nothing is left. The record ``batch.json`` holds
the options of every export and the model.

>>> from tomserve.engine.request import Identity
>>> request_line(Request(Identity("a", "cot", 0), "0f", b'{"messages":[]}'))
b'{"custom_id":"0f","method":"POST","url":"/v1/chat/completions","body":{"messages":[]}}\n'
>>> parse_reply({"custom_id": "0f", "response": None, "error": {"code": "batch_expired"}}).status
'timeout'
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple

import orjson
import pydantic

from tomserve import benchmarks
from tomserve.content import files, output_path
from tomserve.content.validation import Name, Strict, is_own, note_own, read_record, strategy_name
from tomserve.distributed.shards import FILE, Shards
from tomserve.distributed.worker import Connection, part_options
from tomserve.engine.adaptations import SchemaPolicy
from tomserve.engine.records import CLOSES, Row, build_row, reuse_row
from tomserve.engine.redact import Redactor
from tomserve.engine.refusals import Refusals, is_refusal
from tomserve.engine.replies import error_text, read_reply
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import ModelGuard
from tomserve.engine.transport import Reply, redact_reply
from tomserve.errors import ConfigError
from tomserve.runs import runfolder
from tomserve.runs.conversations import Conversations, is_finished
from tomserve.runs.evaluation import Evaluation, ServerChanges, resume_evaluation
from tomserve.runs.journal import JOURNAL, Journal, restore_journal
from tomserve.runs.manifest import Session
from tomserve.runs.planning import EvalOptions, Plan, load_strategy_folders, make_plan
from tomserve.runs.progress import Listener, Stop
from tomserve.serving import endpoint, keys
from tomserve.serving.endpoint import Target
from tomserve.serving.presets import Preset
from tomserve.serving.probe import WaitPolicy
from tomserve.serving.weights import find_weights
from tomserve.status import ANSWERS, CONNECTION, MALFORMED, SPOKEN, TIMEOUT, http

URL = "/v1/chat/completions"
"""The path that every request of a batch file names."""

ENDPOINT = "batch"
"""What stands as the endpoint in rows whose replies came from a batch file."""

_STATUSES = {"batch_expired": TIMEOUT, "request_timeout": TIMEOUT, "batch_cancelled": CONNECTION}
"""The status of a request that the queue did not ask, by the code of its error; all of them may be asked again."""


def request_line(request: Request) -> bytes:
    """The line of a file of requests, with exactly the body that our own client sends."""
    about = orjson.dumps({"custom_id": request.key, "method": "POST", "url": URL})
    return b'%b,"body":%b}\n' % (about[:-1], request.body)


def parse_reply(data: dict[str, Any]) -> Reply:
    """The reply that a line of results holds. It raises nothing, whatever the line holds.

    A reply of the server, whatever its status, is read as one that our own client has got. Where there is none, the
    code of the error tells the status. An error without a body, as vLLM writes it, has its words beside the response.
    """
    response, error = data.get("response"), data.get("error")
    if not isinstance(response, dict):
        code = error.get("code") if isinstance(error, dict) else None
        status = _STATUSES.get(code, CONNECTION) if isinstance(code, str) else CONNECTION
        return Reply(status, error=_error_words(error) or "the batch holds neither a reply nor an error")
    code, body = response.get("status_code", 200), response.get("body")
    if type(code) is not int or not 100 <= code <= 999:
        return Reply(MALFORMED, error=f"status_code is {code!r:.40}; expected the number of an HTTP status")
    if body is None:
        return Reply(http(code) if code != 200 else MALFORMED, error=_error_words(error) or "the result holds no body")
    try:
        return read_reply(code, orjson.dumps(body))
    except (TypeError, orjson.JSONEncodeError):  # nested more deeply than any reply
        return Reply(MALFORMED, error="the body cannot be read as a reply")


def _error_words(error: Any) -> str:
    """What an error says, with its code where it has one that is a text."""
    if not error:
        return ""
    code = error.get("code") if isinstance(error, dict) else None
    text = error_text(error)
    return f"{code}: {text}" if isinstance(code, str) and code not in text else text


MOST_REQUESTS = 50_000
"""How many requests OpenAI takes in one file at most."""

MOST_BYTES = 200_000_000
"""How many bytes OpenAI takes in one file at most."""


class RequestFile(NamedTuple):
    """A file of requests that was written, and how many requests and bytes it has."""

    path: Path
    requests: int
    bytes: int


class RequestWriter:
    """Writes requests to files of limited size; of requests that are equal only the first is written.

    path: the first file; further ones are called ``NAME-2.jsonl``, ``NAME-3.jsonl`` and so on. per_file, most_bytes:
    how many requests, and bytes, a file has at most. again: whether the same export was begun before, so that a file
    that is there and holds just these requests is one that it wrote. written: the files so far, each of which is whole.

    Nothing is written for no requests. Raises ConfigError where another file is there already: it may be in a queue
    at the moment, and what is asked twice is paid twice.
    """

    def __init__(
        self, path: Path, per_file: int = MOST_REQUESTS, most_bytes: int = MOST_BYTES, *, again: bool = False
    ) -> None:
        self._path, self._per_file, self._most_bytes, self._again = path, per_file, most_bytes, again
        self._there = False  # whether the file is compared, and not written
        self.written: list[RequestFile] = []
        self._keys: set[str] = set()
        self._stack = contextlib.ExitStack()
        self._file: IO[bytes] | None = None
        self._requests = self._bytes = 0
        output_path.check_output(path)
        for number in (1, 2):
            self._new_path(number)

    def __enter__(self) -> RequestWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if kind is None:
            self._close()
        else:
            self._stack.__exit__(kind, *error)

    def __len__(self) -> int:
        """How many requests were written."""
        return len(self._keys)

    def add(self, request: Request) -> bool:
        """Write a request, unless an equal one was written. Returns whether it was. Raises ConfigError for one that is
        longer than a file may be, OSError where the file cannot be written."""
        if request.key in self._keys:
            return False
        line = request_line(request)
        if len(line) > self._most_bytes:
            item, strategy, turn, _ = request.identity
            raise ConfigError(
                f"strategy {strategy!r}, item {item!r}, turn {turn} (counted from 0): the request has {len(line):,} "
                f"bytes, a file at most {self._most_bytes:,}; raise --max-bytes, or leave that item out"
            )
        if self._requests >= self._per_file or self._bytes + len(line) > self._most_bytes:
            self._close()
        if self._file is None:
            path = self._new_path(len(self.written) + 1)
            self._there = path.exists()
            opened = files.open_for_reading(path) if self._there else files.replace_file(path)
            self._file = self._stack.enter_context(opened)
        if not self._there:
            self._file.write(line)
        elif self._file.readline(len(line)) != line:
            raise self._taken(len(self.written) + 1)
        self._keys.add(request.key)
        self._requests, self._bytes = self._requests + 1, self._bytes + len(line)
        return True

    def _close(self) -> None:
        """Put the file that is being written in its place."""
        if self._file is not None:
            path = self._new_path(len(self.written) + 1)
            if self._there and self._file.read(1):
                raise self._taken(len(self.written) + 1)
            self._stack.close()
            self.written.append(RequestFile(path, self._requests, self._bytes))
            self._file, self._requests, self._bytes = None, 0, 0

    def _new_path(self, number: int) -> Path:
        path = self._place(number)
        if (path.exists() and not self._again) or path.is_symlink():
            raise self._taken(number)
        return path

    def _place(self, number: int) -> Path:
        path = self._path
        return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")

    def _taken(self, number: int) -> ConfigError:
        return ConfigError(
            f"{self._place(number)}: is there already, and may wait in a queue; name another file by --out, or move it "
            "away"
        )


class ResultReader:
    """The results in files that came back from a queue, found by their ids.

    paths: output and error files in any order. Lines are read again when they are wanted. A last line that is not
    whole, as a broken download leaves one, is left out and counted. Raises ConfigError by file and line for anything
    else that is no result, before any result is used.

    digests: of each file, by its path. cut_off: the files that end within a line. unused: of each id for which no
    request was found so far, the file and the place of its result, and whether that is final.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.digests: dict[str, str] = {}
        self.cut_off: list[Path] = []
        self.unused: dict[str, tuple[Path, int, bool]] = {}
        self._files = contextlib.ExitStack()
        self._open: dict[Path, IO[bytes]] = {}
        self._count = 0
        for path in dict.fromkeys(paths):
            self._read(path)

    def __enter__(self) -> ResultReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def __len__(self) -> int:
        """How many results there are."""
        return self._count

    def reply(self, key: str) -> Reply | None:
        """The reply to the request with that key; None where there is none. Of several results of one request the first
        final one counts, else the last. Raises ConfigError where the file has changed meanwhile."""
        if key not in self.unused:
            return None
        path, offset, _ = self.unused.pop(key)
        self._open[path].seek(offset)
        try:
            return parse_reply(orjson.loads(self._open[path].readline(files.LONGEST_LINE + 1)))
        except orjson.JSONDecodeError:
            raise ConfigError(f"{path}: has changed while it was read; repeat the command") from None

    def _read(self, path: Path) -> None:
        """Take note of where each result of a file stands."""
        with files.refuse_os_errors(path):
            file = self._open[path] = self._files.enter_context(files.open_for_reading(path))
        offset, digest = 0, hashlib.sha256()
        for row, line in enumerate(files.read_lines(file, path), 1):
            digest.update(line)
            if (data := self._result(path, row, line)) is not None:
                self._count += 1
                name = str(data["custom_id"])
                if name not in self.unused or not self.unused[name][2]:
                    self.unused[name] = (path, offset, parse_reply(data).final)
            offset += len(line)
        self.digests[str(path)] = digest.hexdigest()

    def _result(self, path: Path, row: int, line: bytes) -> dict[str, Any] | None:
        """The result on a line; None for an empty line, and for a last line that is not whole."""
        if not line.strip():
            return None
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if not line.endswith(b"\n"):
                self.cut_off.append(path)
                return None
            raise ConfigError(f"{path}:{row}: not JSON ({error.msg}); expected a result; download it again") from None
        given = data if isinstance(data, dict) else {}
        if {"response", "error"} & set(given) and isinstance(given.get("custom_id"), str):
            return given
        if "body" in given and "response" not in given:
            raise ConfigError(
                f"{path}:{row}: holds requests (field 'body'); expected the results of a batch (fields 'custom_id' and "
                "'response'): hand this file to the queue, and import what it gives back"
            )
        raise ConfigError(
            f"{path}:{row}: is no result of a batch; expected an object with 'custom_id' and 'response' or 'error'"
        )


BATCH_FILE = "batch.json"
"""The name of the record in the run's folder."""

WAY_OUT = "restore the file, or repeat `tomserve export batch` with the options of the run"


class BatchModel(Strict):
    """The model that was to be asked."""

    name: str  # as the queue knows it
    revision: str | None = None
    preset: dict[str, Any] | None = None  # the fields that were set

    def target(self) -> Target:
        """The model, without a server. Raises ConfigError as `Preset.of_record` does."""
        preset = None if self.preset is None else Preset.of_record(self.preset, f"{BATCH_FILE}: model.preset")
        return Target(self.name, self.revision, preset)


class Export(Strict):
    """The options of `tomserve export batch` that shape the requests, by the names of EvalOptions, and the model."""

    benchmark: Name | None = None
    path: str | None = None
    gold: str | None = None
    where: tuple[str, ...] = ()
    strategies: tuple[Name, ...] = ()
    limit: Annotated[int, pydantic.Field(ge=1)] | None = None
    max_tokens: Annotated[int, pydantic.Field(ge=1)] | None = None
    thinking: str | None = None
    reasoning_effort: str | None = None
    extra_body: dict[str, Any] = {}
    answer_schema: SchemaPolicy = "on"
    temperature: float = 0.0
    seed: int = 0
    repeats: int = 1
    variants: tuple[str, ...] = ()
    model: BatchModel

    def noted(self) -> dict[str, Any]:
        """What this user's exports are known by; fields that came later count where they say something."""
        later = {name for name in ("reasoning_effort", "extra_body") if not getattr(self, name)}
        return self.model_dump(mode="json", exclude=later)

    @classmethod
    def of(cls, options: EvalOptions, benchmark: str, chosen: Target) -> Export:
        """The record of these options, with the names of what may have been given by a path. benchmark: its name."""
        own = {name: getattr(options, name) for name in cls.model_fields if name not in ("path", "model")}
        own["benchmark"] = benchmark if options.benchmark else None
        own["strategies"] = tuple(map(strategy_name, options.strategies))
        path = None if options.path is None else str(options.path.expanduser().absolute())
        preset = chosen.preset
        fields = None if preset is None else preset.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return cls(path=path, model=BatchModel(name=chosen.model, revision=chosen.revision, preset=fields), **own)

    def options(self, folder: Path) -> EvalOptions:
        """The options of an evaluation of that run's folder. Raises ConfigError for a file that a stranger's record
        names."""
        own = self.model_dump(exclude={"path", "model"})
        path = None if self.path is None else Path(self.path)
        if path is not None and not is_own("exports", self.noted()):
            raise ConfigError(
                f"{folder / BATCH_FILE}: path: names {str(path)[:200]!r}, which no export of yours has written; a "
                "stranger's record opens no file, so repeat `tomserve export batch` with the run's options and --path"
            )
        return EvalOptions(path=path, model=self.model.name, run=str(folder.absolute()), **own)


class Exports(Strict):
    """All exports of a run that differ, in the order in which they were first made."""

    schema_: Literal[1] = pydantic.Field(alias="schema", default=1)
    exports: tuple[Export, ...] = ()

    def write(self, folder: Path, export: Export) -> None:
        """Write the record to a run's folder, with one more export, which stands last. Raises OSError where that is not
        possible."""
        every = Exports(exports=(*(one for one in self.exports if one != export), export))
        with files.replace_file(folder / BATCH_FILE) as file:
            held = every.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            file.write(orjson.dumps({"schema": 1, **held}, option=orjson.OPT_INDENT_2) + b"\n")
        note_own("exports", export.noted())

    @classmethod
    def read(cls, folder: Path) -> Exports:
        """The record of a run; an empty one where nothing was exported. Raises ConfigError by file and field."""
        return read_record(folder / BATCH_FILE, cls, WAY_OUT) or cls()


def part_number(folder: Path) -> int | None:
    """The number of the part that a folder is; None where it is no part of an evaluation that was divided."""
    is_part = folder.name.isdecimal() and (folder.resolve().parent / FILE).exists()
    return int(folder.name) if is_part else None


def find_exports(
    folder: Path, benchmark: str | None = None, strategies: Sequence[str] = ()
) -> list[tuple[EvalOptions, Target]]:
    """What was exported of a run, or what a part is to ask: the options, and the model.

    benchmark, strategies: the user's own file and folders, as the record holds their names alone. Raises ConfigError
    where the record is broken, and where it does not name these strategies.
    """
    if benchmark is not None:
        benchmarks.get(benchmark)  # from now on known by its name
    if (number := part_number(folder)) is None:
        exports = Exports.read(folder).exports
        load_strategy_folders([name for one in exports for name in one.strategies], strategies)
        named = [load_strategy_folders(one.strategies, strategies, some=True) for one in exports]
        found = [(one.options(folder), one.model.target()) for one in exports]
        return [(replace(options, strategies=own), to) for (options, to), own in zip(found, named, strict=True)]
    shards = Shards.read(folder.parent)
    options = part_options(folder.parent, shards, number, Connection(strategies=tuple(strategies)))
    options = replace(options, noise_check=None)
    preset = None if shards.preset is None else Preset.load(shards.preset)
    return [(options, Target(shards.model, shards.revision, preset))]


def choose_export(options: EvalOptions, waiting: WaitPolicy) -> tuple[EvalOptions, Target]:
    """The options of an export, and its model. waiting: how to wait for a server that is asked what it serves. Raises
    ConfigError where no model is named."""
    own: dict[str, Any] = {"benchmark": options.benchmark, "strategies": options.strategies}
    paths = all("/" in one for one in options.strategies) and (options.benchmark or ".py").endswith(".py")
    repeated = paths and options == EvalOptions(run=options.run, policy=options.policy, **own)
    before = find_exports(runfolder.run_path(options.run), **own) if repeated and options.run is not None else []
    if before:
        return before[-1]
    if options.noise_check:
        raise ConfigError(
            "--noise-check compares numbers of requests in flight, which a batch queue chooses; leave it out, or ask a "
            "server by `tomserve eval`"
        )
    if options.base_urls:
        return options, endpoint.choose_target(options.base_urls, options.model, options.revision, waiting)
    if options.model is None:
        raise ConfigError("name the model by --model, as the batch queue knows it, or a preset; or give --base-url")
    preset = Preset.lookup(options.model)
    if preset is None:
        return options, Target(options.model, options.revision, None)
    return options, Target(preset.name, options.revision or find_weights(preset).revision, preset)


TELL_EVERY = 100_000
"""After so many requests it is said how many there were."""

UNKNOWN: dict[str, Any] = {"engine_version": None, "root": None, "max_model_len": None}
"""What a batch file tells of the server that answered: nothing."""

NAMED = 3
"""So many ids of results that belong to no request are named."""


@dataclass(frozen=True)
class ExportResult:
    """What was written."""

    folder: Path  # of the run
    files: tuple[RequestFile, ...]
    requests: int  # how many the files hold, of which equal ones are one
    questions: int  # how many questions, with their strategies and samples, wait for them
    total: int  # of how many
    turns: bool  # whether further turns may follow from the replies


@dataclass
class ImportResult:
    """What was read."""

    folder: Path  # of the run
    results: int = 0  # how many the files held
    added: Counter[str] = field(default_factory=Counter)  # how many rows they made, by status
    known: int = 0  # results whose requests had a final row before
    unknown: int = 0  # results of requests that the run does not have
    strange: list[str] = field(default_factory=list)  # the first of their ids
    cut_off: list[Path] = field(default_factory=list)  # files that end within a line
    left: int = 0  # how many requests are left that can be asked now

    @property
    def failures(self) -> dict[str, int]:
        """How many of the new rows are no answer, by status."""
        return {status: count for status, count in sorted(self.added.items()) if status not in ANSWERS}


def export_requests(
    options: EvalOptions,
    out: Path,
    *,
    per_file: int = MOST_REQUESTS,
    most_bytes: int = MOST_BYTES,
    listener: Listener | None = None,
) -> ExportResult:
    """Write every request of an evaluation that can be asked now and has no final reply yet in the run.

    options: what to ask of which model; where they name only a run that was exported before, what was exported last;
    where they name only a part of an evaluation that was divided, what that part asks. out, per_file, most_bytes: as
    for `RequestWriter`. The run's folder is made at once, and reused replies of equal requests are written to it.
    Raises TomserveError, and OSError where a file cannot be written.
    """
    listener = listener or Listener()
    options, chosen = choose_export(options, WaitPolicy(listener.message))
    plan, folder = _plan_export(options, chosen)
    is_part = part_number(folder) is not None  # what a part asks is known from the record of the parts
    begun, export = Exports.read(folder).exports, Export.of(options, plan.benchmark.name, chosen)
    written = RequestWriter(out, per_file, most_bytes, again=is_part or export in begun)
    with _open_evaluation(plan, folder, listener) as evaluation:
        evaluation.save()
        if not is_part:
            Exports.read(folder).write(folder, export)
        open_questions, last = 0, None
        with written:
            for request in _open_requests(evaluation, lambda request: None):
                open_questions += request.identity.question != last
                last = request.identity.question
                if written.add(request) and len(written) % TELL_EVERY == 0:
                    listener.message(f"{len(written):,} requests written so far")
        questions = evaluation.plan.questions
        total = len(questions.items) * len(questions.strategies) * questions.repeats
        evaluation.folder.log(
            f"{len(written)} requests written to {len(written.written)} batch files, {out.name} first"
        )
        several = any(strategy.is_multi_turn for strategy in questions.strategies)
        return ExportResult(
            folder, tuple(written.written), len(written), open_questions, total, several and open_questions > 0
        )


def import_results(
    run: str,
    paths: Sequence[Path],
    *,
    benchmark: str | None = None,
    strategies: Sequence[str] = (),
    accept_change: bool = False,
    listener: Listener | None = None,
) -> ImportResult:
    """Read the results of batches into the run that their requests were exported from.

    paths: output and error files, of any number of batches in any order, also again. benchmark, strategies: the user's
    own file and folders, which the record of the export does not hold. accept_change: whether to go on where replies
    name another model than those before. Rows are made and appended as those of live replies. Raises TomserveError;
    what was read until then is kept, and the command can be repeated.
    """
    listener = listener or Listener()
    folder = runfolder.find_run(run)
    exports = find_exports(folder, benchmark, strategies)
    if not exports:
        raise ConfigError(
            f"{folder}: nothing was exported from this run; `tomserve export batch --run {run}` does that"
        )
    done = ImportResult(folder)
    open_keys: set[str] = set()
    with ResultReader(paths) as results:
        done.results, done.cut_off = len(results), results.cut_off
        for place, (options, chosen) in enumerate(exports):
            with _open_evaluation(*_plan_export(options, chosen), listener) as evaluation:
                _import_export(evaluation, results, done, open_keys, accept_change)
                if place == len(exports) - 1:
                    _count_others(evaluation.journal, results, done)
    done.left = len(open_keys)
    return done


def _plan_export(options: EvalOptions, chosen: Target) -> tuple[Plan, Path]:
    """What is asked, and the folder of the run."""
    plan = make_plan(options, chosen=chosen)
    return plan, runfolder.answers_folder(options.run or runfolder.default_name(plan.benchmark_name, plan.name))


@contextlib.contextmanager
def _open_evaluation(plan: Plan, path: Path, listener: Listener) -> Iterator[Evaluation]:
    """The evaluation of a plan in that folder, which is locked; nothing is asked of any server."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(runfolder.RunFolder(path))
        restore_journal(folder.path)
        journal = stack.enter_context(Journal(folder.path / JOURNAL))
        evaluation = resume_evaluation(plan, folder, journal, listener, Stop(), time.monotonic())
        try:
            yield evaluation
        finally:
            journal.sync()
        evaluation.save()


def _open_requests(
    evaluation: Evaluation, reply: Callable[[Request], Row | None], write: Callable[[Row], None] | None = None
) -> Iterator[Request]:
    """The requests that can be asked now and have no row, one after the other."""
    journal, questions = evaluation.journal, evaluation.plan.questions
    write = write or journal.append
    conversations = Conversations(evaluation.request)
    last: Identity | None = None
    for first in questions.requests(conversations, lambda question: not is_finished(journal, question)):
        if last is not None and first.identity.question != last.question:
            conversations.leave(last)
        last = first.identity
        line = [first]
        while line:
            request = line.pop(0)
            known = request.identity in journal.final
            if (found := journal.find(request.key)) is not None:
                row: Row | None = reuse_row(found, request.identity)
            elif known:
                raise _other_request_error(request.identity)
            else:
                row = reply(request)
            if row is None:
                yield request
                continue
            line += conversations.follow(row)
            if not known or CLOSES in row:
                write(row)


def _other_request_error(identity: Identity) -> ConfigError:
    item, strategy, turn, _ = identity
    return ConfigError(
        f"strategy {strategy!r}, item {item!r}, turn {turn} (counted from 0): the program asks something else than "
        "when this turn was answered; make it depend on the item and the replies alone, or use --run NEW"
    )


def _import_export(
    evaluation: Evaluation, results: ResultReader, done: ImportResult, open_keys: set[str], accept_change: bool
) -> None:
    """Make rows of the results that belong to one export. open_keys: takes the keys of requests that stay open."""
    options, journal = evaluation.plan.options, evaluation.journal
    evaluation.target = replace(evaluation.target, endpoints=[ENDPOINT])
    batch_files = [{"name": Path(one).name, "sha256": digest} for one, digest in results.digests.items()]
    session = evaluation.session = Session.begin(
        evaluation.target, {**UNKNOWN, "batch_files": batch_files}, asked=True, limit=options.limit, where=options.where
    )
    changes = ServerChanges(session, accept_change, (evaluation.folder.log, evaluation.listener.message))
    reader = _Reader(evaluation, results, changes.answering(journal.models), open_keys)
    try:
        for request in _open_requests(evaluation, reader.row, reader.write):
            open_keys.add(request.key)
        reader.finish()
    finally:
        session.note_answers(sum(reader.added[status] for status in SPOKEN), sorted(reader.answering.named))
        done.added += reader.added
        evaluation.folder.log(f"{reader.added.total()} rows added from batch files, by status {dict(reader.added)}")
    model = evaluation.target.model
    for name in sorted(one for one in reader.answering.named if not one.startswith(model)):
        evaluation.listener.message(f"warning: replies name the model {name!r}, and {model!r} was asked")


@dataclass
class _Reader:
    """Makes rows of results and writes them."""

    evaluation: Evaluation
    results: ResultReader
    answering: ModelGuard
    open_keys: set[str]
    added: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._mask = Redactor(*keys.all_keys())
        self._refusals = Refusals(begun=bool(len(self.evaluation.journal.final)))

    def row(self, request: Request) -> Row | None:
        """The row of the result of a request; None where there is none, or one that the journal has already."""
        reply: Reply | None = self.results.reply(request.key)
        if reply is None:
            return None
        redact_reply(reply, self._mask)
        if not reply.final:
            self.open_keys.add(request.key)
            if self.evaluation.journal.failed.get(request.identity) == reply.status:
                return None
        self.answering.note_reply(reply, ENDPOINT)
        return build_row(request, reply, ENDPOINT, 1)

    def write(self, row: Row) -> None:
        """Write a row, unless it may be the beginning of refusals of all requests."""
        refusals = self._refusals
        refused = is_refusal(row)
        self._append(refusals.take(row, refusals.note_sent(), refused=refused))
        if refused and refusals.suspected():
            self._append(refusals.believe() if refusals.needs_probe else refusals.judge_beginning())

    def finish(self) -> None:
        """Write what was held back. Raises ServerError where all requests were refused for the same reason."""
        if not self._refusals.answered and self._refusals.suspected(last=True):
            self._append(self._refusals.judge_beginning(last=True))
        self._append(self._refusals.believe())

    def _append(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if not self.added:  # written before the first row, as the command may be killed
                self.evaluation.manifest.add_session(self.evaluation.session, UNKNOWN)
                self.evaluation.save()
            self.evaluation.journal.append(row)
            self.added[row["status"]] += 1


def _count_others(journal: Journal, results: ResultReader, done: ImportResult) -> None:
    """Count the results that made no row: those of requests that had their final row, and those of no request."""
    for name in results.unused:
        if journal.find(name) is not None:
            done.known += 1
            continue
        done.unknown += 1
        if len(done.strange) < NAMED:
            done.strange.append(name)
