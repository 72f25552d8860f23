"""Shards as an array of Slurm jobs: the batch script, what is handed to `sbatch`, and what Slurm tells of it.

Slurm schedules, starts again and kills; the script of a task does the rest. The template is a file that the owner of
a cluster edits, ``launch/slurm/array.sh.jinja`` or a copy of it; every value is quoted for the shell, so that none
can end a word or begin a command. Nothing needs more than sbatch, squeue, scancel, and sacct where it is set up.

>>> quote(["--mem", "a; rm b"])
"--mem 'a; rm b'"
"""

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tomserve.content import files
from tomserve.distributed.cluster import Job, Task
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, ContentError, MachineError

LONGEST_VALUE = 1 << 20  # bytes that a template, or what is included in it, may have


def quote(value: object) -> str:
    """A value as a word of the shell, and a list as several. Raises ConfigError for text with a line end or another
    control character."""
    words = [str(word) for word in value] if isinstance(value, list | tuple) else [str(value)]
    for word in words:
        check_shell_text(word, "a value of the batch script")
    return shlex.join(words)


def check_shell_text(text: str, what: str) -> str:
    """The text itself. Raises ConfigError, which names `what` it is, where it holds a control character."""
    if not text.isprintable():
        raise ConfigError(f"{what}: found {files.one_line(text)!r}; expected one line without control characters")
    return text


def render_script(template: Path, **values: Any) -> str:
    """The script that a template makes of these values; what it includes lies beside it. Raises ContentError, by file
    and line, where it cannot be read or filled in, and ConfigError for a value that cannot stand in a script."""
    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.FunctionLoader(lambda name: _source(template, name)),
        undefined=jinja2.StrictUndefined,
        finalize=quote,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        return environment.get_template(template.name).render(values)
    except jinja2.TemplateSyntaxError as error:
        raise ContentError(str(error.message), path=template, line=error.lineno) from None
    except (jinja2.TemplateError, TypeError, ArithmeticError) as error:
        raise ContentError(f"cannot be filled in ({error})", path=template) from None


def _source(template: Path, name: str) -> tuple[str, str, None]:
    path = template.parent / name
    if Path(name).name != name:
        raise ContentError(f"includes {name!r}; expected a file that lies beside it", path=template)
    try:
        with files.refuse_os_errors(path), files.open_for_reading(path) as file:
            data = file.read(LONGEST_VALUE + 1)
        if len(data) > LONGEST_VALUE:
            raise ContentError(f"has more than {LONGEST_VALUE} bytes; expected a batch script", path=path)
        return data.decode("utf-8"), str(path), None
    except UnicodeDecodeError:
        raise ContentError("is no text in UTF-8; expected a batch script", path=path) from None


SCRIPT = "slurm.sh"  # the name of the batch script in the folder of the parts

LOGS = "slurm"
"""The folder, in that of the parts, for what each task prints (0002.txt) and when it was started (0002.starts)."""

PATIENCE = 10.0  # seconds that a question to Slurm may take
SUBMITTING = 60.0  # seconds that handing over a job may take: a controller that is busy lets one wait

ENDED = frozenset(
    ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "PREEMPTED")
)
"""States in which a task is not going to run any more, unless somebody starts it again."""

_OURS = (
    *("array", "parsable", "requeue", "no-requeue", "signal", "open-mode", "output", "error", "job-name", "wrap"),
    *("export", "export-file", "wait", "test-only", "help", "version", "input", "kill-on-invalid-dep"),
)
"""Options of sbatch that tomserve gives itself, or that would have sbatch print or do something else."""


@dataclass(frozen=True)
class ArrayOptions:
    """What the tasks of an array need, in Slurm's words where they are texts."""

    nodes: int  # tasks that run at once, at most
    gpus: int = 0  # of each node of a task
    nodes_each: int = 1  # that a task takes
    cpus: int | None = None  # of each task
    mem: str | None = None  # of each node, such as 64G
    time: str | None = None  # limit of a task, such as 8:00:00
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    exclude: str | None = None
    grace: int = 120  # seconds before the limit at which a task stops and starts itself again
    words: tuple[str, ...] = ()  # further ones for sbatch, such as --constraint=a100


def sbatch_command(folder: Path, run: str, parts: Collection[int], options: ArrayOptions) -> list[str]:
    """The words that hand the parts to Slurm. run: the name of the evaluation. Raises ConfigError for what Slurm is not
    to see."""
    logs = check_shell_text(str(folder.resolve() / LOGS), "the path of the parts")
    if "\\" in logs:
        raise ConfigError(f"{folder}: Slurm takes a backslash in a path for a sign of its own; move the folder")
    words = [
        "sbatch",
        "--parsable",
        f"--array={format_ranges(parts)}%{options.nodes}",
        "--requeue",
        f"--signal=B:TERM@{options.grace}",
        "--open-mode=append",
        "--export=ALL",
        f"--job-name=tomserve-{re.sub(r'[^A-Za-z0-9._-]', '-', run)[:60]}",
        f"--output={logs.replace('%', '%%')}/%4a.txt",
        f"--nodes={options.nodes_each}",
        "--ntasks-per-node=1",
    ]
    given = {name: getattr(options, name) for name in ("mem", "time", "partition", "account", "qos", "exclude")}
    gpus = f"gpu:{options.gpus}" if options.gpus else None
    for name, value in {"gres": gpus, "cpus-per-task": options.cpus, **given}.items():
        if value is not None:
            words.append(f"--{name}={_check_value(name, str(value))}")
    return [*words, *map(_check_option, options.words), str(folder.resolve() / SCRIPT)]


def _check_value(name: str, value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_.,:=+@/\[\]-]{1,1000}", value) is None:
        raise ConfigError(
            f"--{name} {files.one_line(value)!r}: expected letters, digits and _ . , : = + @ / [ ] - as sbatch takes it"
        )
    return value


def _check_option(given: str) -> str:
    """A word for sbatch that the user adds. Raises ConfigError for what is no long option, or tomserve's own."""
    check_shell_text(given, "--sbatch")
    match = re.fullmatch(r"--([a-z][a-z0-9-]*)(=.*)?", given)
    if match is None:
        raise ConfigError(f"--sbatch {given!r}: expected one long option with its value, such as --constraint=a100")
    name = match[1]
    # sbatch takes a beginning of a name for the whole one, as --arr for --array.
    if clash := next((ours for ours in _OURS if ours.startswith(name)), None):
        raise ConfigError(f"--sbatch {given!r}: tomserve decides about --{clash} itself; leave it out")
    return given


def format_ranges(parts: Collection[int]) -> str:
    """Numbers as Slurm writes them.

    >>> format_ranges([0, 1, 2, 3, 7, 9, 10])
    '0-3,7,9-10'
    """
    found: list[list[int]] = []
    for number in sorted(parts):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in found)


def submit(folder: Path, run: str, parts: Sequence[int], options: ArrayOptions, script: str) -> Job:
    """Put the script beside the parts, hand them to Slurm, and record the job there.

    Raises MachineError where Slurm is not at hand or refuses the job, ConfigError as `sbatch_command` does, and OSError
    where the folder cannot be written; then no job is left behind.
    """
    words = sbatch_command(folder, run, parts, options)
    files.refuse_link(folder / LOGS)
    (folder / LOGS).mkdir(exist_ok=True)
    for path in sorted((folder / LOGS).iterdir()):  # Slurm and the script write to them, wherever a link would lead
        files.check_regular(path, alone=True)
    files.replace_bytes(folder / SCRIPT, script.encode())
    printed = run_slurm_command(words, SUBMITTING).strip()
    match = re.fullmatch(r"(\d{1,12})(;[\w.-]{1,100})?", printed)
    if match is None:
        raise MachineError(f"sbatch: printed {files.one_line(printed)[:200]!r}; expected the number of a job")
    details = {"cluster": match[2][1:]} if match[2] else {}
    job = Job(cluster="slurm", id=match[1], time=utc_now(), parts=tuple(parts), command=tuple(words), details=details)
    try:
        job.write(folder)
    except OSError:
        with contextlib.suppress(MachineError):  # nobody could find it again
            Slurm().cancel(job)
        raise
    return job


def run_slurm_command(words: Sequence[str], seconds: float = PATIENCE) -> str:
    """What a command of Slurm prints. Raises MachineError where it is missing, takes longer, or fails."""
    env = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            words, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except FileNotFoundError:
        raise MachineError(f"{words[0]}: not found; do this on a machine that belongs to a Slurm cluster") from None
    except subprocess.TimeoutExpired:
        raise MachineError(f"{words[0]}: Slurm has not answered within {seconds:.0f} s; try again later") from None
    except OSError as error:
        raise MachineError(f"{words[0]}: cannot be started ({error.strerror})") from None
    if done.returncode:
        said = files.one_line(" ".join(done.stderr.decode("utf-8", "replace").split()))[:500]
        raise MachineError(f"{said or words[0] + ': failed'}; exit code {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


class Slurm:
    """A cluster that Slurm runs: see tomserve.distributed.cluster.Cluster."""

    def states(self, job: Job) -> Mapping[int, Task]:
        """What Slurm says of each part, by its controller or else its accounting. Raises MachineError where squeue
        cannot be asked."""
        found = dict(_read_squeue(job))
        if set(job.parts) - found.keys():
            with contextlib.suppress(MachineError):  # many clusters keep no accounting
                found = {**_read_sacct(job), **found}
        return {number: found[number] for number in job.parts if number in found}

    def alive(self, job: Job) -> frozenset[int]:
        """The parts that Slurm still asks, or is going to. Raises MachineError where squeue cannot be asked."""
        return frozenset(number for number, task in _read_squeue(job).items() if task.state not in ENDED)

    def cancel(self, job: Job) -> None:
        """End what is left of the job. Raises MachineError where scancel fails."""
        run_slurm_command(["scancel", *_cluster_option(job), "--quiet", job.id])


def _cluster_option(job: Job) -> list[str]:
    """The option that names the cluster of a job, where sbatch named one. Raises ConfigError for a broken record."""
    name = job.details.get("cluster")
    if not re.fullmatch(r"\d{1,12}", job.id) or not (name is None or re.fullmatch(r"[\w.-]{1,100}", str(name))):
        raise ConfigError(f"job.json: {job.id!r} is no number of a Slurm job; submit the parts again")
    return [f"--clusters={name}"] if name else []


def _read_squeue(job: Job) -> dict[int, Task]:
    """What squeue tells of the tasks that the controller still has in mind, those that ended lately included."""
    words = ["squeue", *_cluster_option(job), "--noheader", "--array", "--states=all", f"--jobs={job.id}"]
    try:
        printed = run_slurm_command([*words, "--format=%K|%T|%N|%r"])
    except MachineError as error:
        if "Invalid job id" in str(error):  # it has forgotten the whole job
            return {}
        raise
    found = {}
    for line in printed.splitlines():
        number, *rest = line.split("|", 3)
        if number.isdecimal() and len(rest) == 3:
            state, node, reason = rest
            found[int(number)] = Task(state, node, note="" if reason == "None" else reason)
    return found


def _read_sacct(job: Job) -> dict[int, Task]:
    words = ["sacct", *_cluster_option(job), "--noheader", "--parsable2", "--allocations", f"--jobs={job.id}"]
    found = {}
    for line in run_slurm_command([*words, "--format=JobID,State,NodeList"]).splitlines():
        match = re.fullmatch(r"\d+_(\d+)\|([A-Z_]+)[^|]*\|([^|]*)", line)
        if match is not None:
            found[int(match[1])] = Task(match[2], "" if match[3] == "None assigned" else match[3])
    return found


LONGEST_STARTS = 1 << 16  # bytes of a record that are read, its last ones: a thousand starts write less


@dataclass(frozen=True)
class Starts:
    """How often the task of a part was started by one job, and on which node it was started last."""

    count: int
    node: str


def read_starts(path: Path, job: str) -> Starts | None:
    """The starts by the job of that number; None where there are none, or where the record cannot be read."""
    lines = files.read_tail(path, LONGEST_STARTS).splitlines()
    own = [words for line in lines if len(words := line.split()) == 4 and words[0] == job]
    return Starts(len(own), own[-1][2][:100]) if own else None
