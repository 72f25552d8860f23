"""A run in Python: the folder with everything that was asked and answered, its scores, report, seal and verification.

>>> import tomserve
>>> tomserve.Run.open("example").scores().height
352
>>> found = tomserve.Run.open("example").verify()
>>> found.holds, [one.what for one in found.findings]
(True, ['rows', 'prompts', 'questions', 'scores', 'seal'])
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tomserve.engine.records import CLOSES
from tomserve.runs import journal, verification
from tomserve.runs.journal import read_rows, row_identity
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Stop
from tomserve.runs.runfolder import find_run, missing_manifest_error
from tomserve.runs.verification import SEAL, Finding, VerifyOptions
from tomserve.status import ANSWERS, FINAL, UNFINISHED

if TYPE_CHECKING:
    import polars as pl

    from tomserve.engine.request import Identity
    from tomserve.runs.grader import ReadingOutcome


# Seconds between two looks whether Ctrl-C was pressed while a notebook waits. A wait without an end would not notice
# it, because Polars sets signals to restart the system call that they interrupt.
LOOK_EVERY = 0.2


Done = TypeVar("Done")
Place = str | Path  # a file or folder, given as text or as a Path


def as_name(given: Place | None) -> Any:
    """A name as it is, a Path as an absolute path, which is never mistaken for a name; None stays None."""
    return str(given.absolute()) if isinstance(given, Path) else given


def given_options(function: str, known: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a function that are not None. known: the TypedDict that lists all. Raises TypeError for others."""
    if unknown := sorted(set(options) - set(known.__annotations__)):
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}")
    return {name: value for name, value in options.items() if value is not None}


def run_beside_loop(do: Callable[[], Done], stop: Stop) -> Done:
    """Do something that needs an event loop of its own: in a notebook, in a thread beside the loop that runs. stop: is
    set where the waiting ends early, so that what is in flight is kept and nothing more is begun."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return do()
    with ThreadPoolExecutor(1, thread_name_prefix="tomserve-ask") as pool:
        doing = pool.submit(do)
        try:
            while not wait([doing], timeout=LOOK_EVERY).done:
                pass
            return doing.result()
        except BaseException:
            stop.set()
            raise


@dataclass(frozen=True)
class Run:
    """One run: what was asked of one model, and what it answered.

    folder
        The run's folder, which holds everything.
    failures
        How many questions got no answer, by status, such as {"timeout": 3}; empty where all were answered. After `ask`
        it counts the questions of that call, after `Run.open` those of the whole run.

    >>> import tomserve
    >>> run = tomserve.Run.open("example")
    >>> run.failures, run.manifest.model, run.scores().height
    ({}, 'reference', 352)
    """

    folder: Path
    failures: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, run: str | Path | None = None) -> Run:
        """Open a run that exists already.

        run
            Its name or its folder; without it the newest run.

        Raises ConfigError where there is no such run.
        """
        folder = find_run(as_name(run))
        return cls(folder, _failures(folder))

    @property
    def manifest(self) -> Manifest:
        """The record of which benchmark, model, prompts and server were used, read from ``manifest.json``. Raises
        ConfigError where that file is broken, RunMismatchError where it is missing."""
        manifest = Manifest.read(self.folder)
        if manifest is None:
            raise missing_manifest_error(self.folder / "responses.jsonl")
        return manifest

    def scores(self) -> pl.DataFrame:
        """The scores as a Polars table with one row for each item and strategy. Its columns hold the status of the
        response, the answer, whether it is `correct`, the measures of the belief chain, and the factors of the item
        (see the README). The table is computed from the run's folder and kept there as ``scores.parquet``, so that the
        next call is quick. Of a measured run it is the table that was measured. Raises ConfigError where a file of the
        run is broken."""
        from tomserve.runs.scores import scores_of

        return scores_of(self.folder)

    def read_by(
        self, reader: str, *, model: str | None = None, sample: int = 100, may_be_evaluated_model: bool = False
    ) -> ReadingOutcome:
        """Have another model read the replies that could not be read; from then on `scores` uses what it read.

        reader
            The address of its server, or the name of a model that `tomserve serve` runs on this machine.
        model
            Which model reads, where the address serves several.
        sample
            How many replies that the rules have read it reads as well, to see how far both agree.
        may_be_evaluated_model
            True to let the model of this run read its own replies, which is otherwise refused.

        Returns what came of it: `read`, `none`, `nonsense`, `failures` and the `agreement`; `lines` says it in words.
        What was read is kept, so that the same call asks nothing twice. Raises ConfigError or ServerError where there
        is no such server, or where the reader is the evaluated model.

        >>> import tomserve
        >>> run = tomserve.Run.open("example")
        >>> print(*run.read_by("http://localhost:8000/v1").lines(), sep="\\n")                    # doctest: +SKIP
        """
        from tomserve.runs import grader
        from tomserve.runs.grader import find_reader

        stop = Stop()

        def read() -> ReadingOutcome:
            found = find_reader(reader, model)
            return grader.read_run(self.folder, found, sample=sample, own=may_be_evaluated_model, stop=stop)

        return run_beside_loop(read, stop)

    def verify(
        self, *, path: str | Path | None = None, strategies: Iterable[str] = (), signers: str | Path | None = None
    ) -> Verification:
        """Check whether what the folder holds fits together: rows, prompts, questions, scores, report and seal are made
        again and compared.

        path
            The file that the benchmark read instead of its own data, where the run used one.
        strategies
            The folders of your own strategies that the run used.
        signers
            A file of the SSH keys that may have signed the run: OpenSSH's "allowed signers", or a public key (.pub).

        Returns a Verification, whose `holds` says whether nothing is wrong and whose `findings` say what was found.
        Raises ConfigError where the folder is no run or `signers` is no such file, MachineError where ssh-keygen is
        missing that checks a signature.

        >>> import tomserve
        >>> print(tomserve.Run.open("example").verify().findings[1].said)
        352 rows answer the prompts that the questions make
        """
        read, by = (None if one is None else Path(one).expanduser() for one in (path, signers))
        return verify_run(self.folder, VerifyOptions(read, tuple(strategies), by))

    def seal(self, key: str | Path | None = None) -> str:
        """Seal the run as it is now, in ``seal.json``, and return the digest to publish: with it anybody can tell later
        whether anything of the run was changed.

        key
            The file of an SSH key to sign with [no signature].

        Raises ConfigError where the run is not as an earlier seal says or there is no such key, MachineError where the
        run is in use or its folder cannot be written.

        >>> import tomserve
        >>> tomserve.Run.open("example").seal("~/.ssh/id_ed25519")                             # doctest: +SKIP
        'sha256:c400e1e7caf681edb3090c517bb6790ce3181e85669bc2c2fd48120dfb5aa38a'
        """
        return verification.seal(self.folder, None if key is None else Path(key).expanduser()).digest

    def report(self, path: str | Path | None = None) -> Path:
        """Write the report, a single HTML file with tables and figures that any browser shows, and return its path.

        path
            The file to write; without it ``report.html`` in the run's folder.

        Raises ConfigError where the file cannot be written, or a file of the run is broken.
        """
        from tomserve.reporting.html.report import write_report

        return write_report([f"{self.folder.absolute()}/"], None if path is None else Path(path).expanduser())


def _failures(folder: Path) -> dict[str, int]:
    """How many requests have a last row that is no answer, by its status; and how many conversations were begun and
    not finished although none of their turns failed."""
    failed: dict[Identity, str] = {}
    manifest = Manifest.read(folder)
    if manifest is not None and manifest.measured:
        return {}
    talking = {name for name, one in manifest.strategies.items() if one.turns != 1} if manifest else set()
    begun: set[Identity] = set()
    closed: set[Identity] = set()
    for _, row in read_rows(journal.journal_path(folder)):
        identity = row_identity(row)
        if row["status"] in ANSWERS:
            failed.pop(identity, None)
        else:
            failed[identity] = row["status"]
        if identity.strategy in talking:
            (closed if row.get(CLOSES) else begun).add(identity._replace(turn=0))
    for identity in [one for one in failed if failed[one] not in FINAL and one._replace(turn=0) in closed]:
        del failed[identity]  # nobody will ask it again
    waiting = begun - closed - {identity._replace(turn=0) for identity in failed}
    failures = Counter(failed.values()) + Counter({UNFINISHED: len(waiting)})
    return dict(sorted(failures.items()))


@dataclass(frozen=True)
class Verification:
    """What came of verifying a run.

    folder
        The run's folder.
    findings
        What was checked, each as (what, holds, said): `holds` is True where all is as it should be, False where it is
        not, and None where that could not be found out; `said` tells it in words.
    """

    folder: Path
    findings: Sequence[Finding]

    @property
    def holds(self) -> bool:
        """Whether nothing was found that is not as it should be. What could not be checked does not count."""
        return all(one.holds is not False for one in self.findings)

    def __str__(self) -> str:
        marks = {True: "ok", False: "NOT OK", None: "not checked"}
        return "\n".join(f"{one.what}: {marks[one.holds]}: {one.said}" for one in self.findings)


def verify_run(folder: Path, wanted: VerifyOptions | None = None) -> Verification:
    """Check a run folder. Raises ConfigError where it is no run, or what the user gives is wrong."""
    return Verification(folder, tuple(iterate_checks(folder, wanted)))


def iterate_checks(folder: Path, wanted: VerifyOptions | None = None) -> Iterator[Finding]:
    """The same checks one by one, as each of them may take minutes where a run has a million rows. The report is made
    again only where all else holds that it is made of, so that nothing forged is overwritten."""
    holds = True
    for one in verification.verify_run(folder, wanted):
        if one.what == SEAL and holds:
            from tomserve.reporting.html.report import check_report

            if (page := check_report(folder)) is not None:
                yield page
        holds &= one.holds is not False
        yield one
