"""Runs in the terminal: all of them in a table, everything that is known of one, its unreadable replies, and the
variants that it left out.

What a model has written is a stranger's text: no character of it can control the terminal or hide what follows.
"""

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.text import Text

from tomserve.content import files
from tomserve.content.paths import runs_root
from tomserve.content.text import sanitize
from tomserve.engine import adaptations
from tomserve.engine.request import Identity
from tomserve.errors import ConfigError
from tomserve.reporting.table_layout import print_entry, print_prose, print_table
from tomserve.runs import journal
from tomserve.runs.journal import read_rows, row_identity
from tomserve.runs.manifest import VariantsRecord
from tomserve.runs.measurement import environment_changes
from tomserve.runs.runfolder import find_run, newest_first, read_manifest
from tomserve.runs.scores import kept_scores
from tomserve.scoring.responses import NOISE
from tomserve.scoring.table import MEASURED
from tomserve.serving import provenance
from tomserve.serving.provenance import describe_flags
from tomserve.status import ANSWERS, LENGTH, inert, listed
from tomserve.studies.causes import find_causes
from tomserve.studies.missing_data import UnreadReplies, UnreadReply, gaps_of_scores, last_stop


def list_runs(console: Console) -> None:
    """Print name, model, benchmark, strategies, time and completeness of every run, the newest first. A run whose
    manifest cannot be read is named in a line of its own, with the reason."""
    folders = newest_first()
    if not folders:
        console.print(f"no runs in {runs_root()}/; make one with `tomserve eval` (or `make eval`)", markup=False)
        return
    rows = []
    for folder in folders:
        try:
            manifest = read_manifest(folder) or {}
        except ConfigError as error:  # one broken run must not hide the others
            console.print(sanitize(str(error)), markup=False, soft_wrap=True)
            continue
        measured = f"measured, for {manifest.get('study')}" if manifest.get("kind") == MEASURED else None
        rows.append(
            {
                "run": sanitize(folder.relative_to(runs_root()).as_posix()),
                "model": str(manifest.get("model")),
                "benchmark": str(manifest.get("benchmark")),
                "strategies": measured or ", ".join(manifest.get("strategies", {})),
                "created (UTC)": str(manifest.get("created"))[:16].replace("T", " "),
                "complete": "yes" if manifest.get("complete") else "no",
            }
        )
    if rows:
        print_table("runs, the newest first", pl.DataFrame(rows), console)


def show_run(name: str, console: Console) -> None:
    """Print where the answers of a run came from, and how many there are of each status; of a measured run, what was
    measured by what means. name: a run's name or path. Raises ConfigError where there is no run of that name."""
    folder = find_run(name)
    manifest = read_manifest(folder)
    if manifest is None:
        raise ConfigError(f"{folder}: no run there")
    if manifest.get("kind") == MEASURED:
        _show_measurement(manifest, console)
        return
    final: dict[Identity, str] = {}
    failed: dict[Identity, str] = {}
    for _, row in read_rows(journal.journal_path(folder)):
        final[one := row_identity(row)] = row["status"]
        if row["status"] in ANSWERS:
            failed.pop(one, None)
        else:
            failed[one] = row.get("error") or ""

    def tell(field: str, text: object) -> None:
        print_entry(Text(f"{field:<{FIELD}} "), str(text), console)

    for field in ("run", "model", "revision", "benchmark", "benchmark_digest", "created", "complete", "tomserve"):
        tell(_words(field), _value_text(manifest.get(field)))
    for field, text in origin(manifest):
        tell(field, text)
    for sentence in adaptations.describe(manifest.get("adaptations") or ()):
        tell("adapted", sentence)
    for strategy, spec in manifest["strategies"].items():
        counts = Counter(status for identity, status in final.items() if identity.strategy == strategy)
        tell(strategy, f"{listed(counts) or 'nothing yet'}; prompts {_value_text(spec.get('digest'))[:19]}")
    if why := last_stop(manifest):
        tell("stopped", why)
    for said in _causes(folder, final, failed):
        tell("no answer", said)
    if check := manifest.get("noise"):
        levels = " and ".join(map(str, check.get("concurrencies") or ["an unknown number"]))
        done = sum(1 for _ in read_rows(folder / NOISE)) if (folder / NOISE).exists() else 0
        wanted = f"of {_value_text(check.get('items'))} items, at {levels} in flight: {done} rows of {NOISE}"
        others = check.get("other_engines")
        tell("noise check", wanted + (f"; answers came from {', '.join(others)}" if others else ""))
    for change in provenance.list_changes(manifest.get("sessions")):
        tell("changed", change)
    if flags := describe_flags(manifest.get("server", {})):
        tell("server flags", flags)
    for field, value in manifest.get("server", {}).items():
        if field not in ("flags", "flags_changed", "preset"):  # they stand in the command, or in the line above
            tell(_words(f"server {field}"), _value_text(value))


def _causes(folder: Path, final: Mapping[Identity, str], failed: Mapping[Identity, str]) -> list[str]:
    """Why questions of a run have no answer: by its scores, or where they are not kept by its rows alone, whose
    statuses and errors these are."""
    if (scores := kept_scores(folder)) is not None:
        return [said for gap in gaps_of_scores(scores, folder, folder.name) for said in gap.cause_sentences()]
    rows = {"status": [final[one] for one in failed], "reason": [*failed.values()]}
    return [one.sentence(len(final), len(final)) for one in find_causes(pl.DataFrame(rows))]


def origin(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where the replies of a run come from that another tool collected, as names and texts; nothing for other runs."""
    told = manifest.get("foreign")
    if not told:
        return []
    files = (f"{one['name']} ({one['digest'][:19]}, {one['bytes']:,} bytes)" for one in told.get("files") or ())
    left = "; ".join(f"{reason}: {count:,}" for reason, count in (told.get("left_out") or {}).items())
    whose = "tomserve's reading" if told.get("counts") == "tomserve" else "the other tool's grades"
    named = {"grades taken": told.get("grades"), "further grades": told.get("other_grades")}
    return [
        ("collected by", " ".join(filter(None, (told.get("tool"), told.get("version")))) or "an unknown tool"),
        ("tasks", ", ".join(told.get("tasks") or ()) or "unknown"),
        ("files", ", ".join(files) or "unknown"),
        ("reading", f"what counts is {whose}"),
        *((name, ", ".join(grades)) for name, grades in named.items() if grades),
        ("left out", left or "nothing"),
        *((f"setting {name}", _value_text(value)) for name, value in (told.get("settings") or {}).items()),
    ]


def _show_measurement(manifest: Mapping[str, Any], console: Console) -> None:
    """Print what a measured run has recorded of itself; what it did not record is left out."""
    table = manifest.get("table") or {}
    told: dict[str, object] = {name: manifest.get(name) for name in ("run", "model", "revision", "benchmark")}
    told |= {"benchmark_digest": manifest.get("benchmark_digest"), "items": manifest.get("benchmark_items")}
    told |= {"study": manifest.get("study"), "command": manifest.get("command"), "created": manifest.get("created")}
    told |= {"complete": bool(manifest.get("complete")), "tomserve": manifest.get("tomserve")}
    if table:
        told["table"] = f"{table.get('file')}, {table.get('rows')} rows, {table.get('digest')}"
    told |= {f"setting {name}": value for name, value in (manifest.get("settings") or {}).items()}
    sessions = manifest.get("sessions") or []
    told["sessions"] = len(sessions)
    told |= (sessions[-1].get("measured_on") or {}) if sessions else {}
    told = {_words(name): value for name, value in told.items()}
    width = max(17, *(len(name) for name in told))
    for name, value in told.items():
        if value is not None:
            print_entry(Text(f"{files.one_line(name):<{width}} "), files.one_line(_value_text(value)), console)
    for change in environment_changes(manifest):
        print_entry(Text(f"{'changed':<{width}} "), change, console)


FIELD = 21  # how wide the names of what is known of a run are
WORDS = {
    "benchmark_digest": "digest of its items",
    "created": "begun (UTC)",
    "tomserve": "tomserve version",
    "server root": "server: model files",
    "server max_model_len": "server: context",
    "server unknown": "server: not known",
    "server dtype": "server: number type",
}
"""What fields of a manifest are called where their names do not say it."""


def _words(field: str) -> str:
    return WORDS.get(field, field.replace("server ", "server: ").replace("_", " "))


def _value_text(value: object) -> str:
    """A value of the manifest in words: yes or no, the parts of a list, names with their values, unknown."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items()) or "none"
    return str(value)


WIDTH = 80  # the most characters in a line of the list
LINES = 5  # how many lines of the end of a reply are shown at most

_BEFORE = "    | "


def show_unread(source: str, found: UnreadReplies, console: Console) -> None:
    """Print the replies, each with its item, strategy, reason and last lines, after a line that says how many of how
    many there are. source: the run or file, for that line."""
    if not found.unread:
        _line(console, f"{source}: all {found.replies:,} replies could be read")
        return

    def tell(one: UnreadReply) -> tuple[str, Sequence[str]]:
        lacking = ["(the text is not at hand: a score table holds none)"]
        return "cut off, " if one.status == LENGTH else "", lacking if one.text is None else last_lines(one.text)

    _list_replies(f"{source}: {found.unread:,} of {found.replies:,} replies could not be read", found, console, tell)


def show_failed(source: str, found: UnreadReplies, causes: Sequence[str], console: Console) -> None:
    """Print why requests failed, in these sentences, and the requests, each with its item, strategy, status and the
    server's words, after a line that says how many of how many there are. source: the run or file, for that line."""
    if not found.unread:
        _line(console, f"{source}: none of {found.replies:,} requests failed")
        return
    head = f"{source}: {found.unread:,} of {found.replies:,} requests failed"
    _list_replies(head, found, console, lambda one: (f"{inert(one.status)}: ", ()), causes, "failed")


def _list_replies(
    head: str,
    found: UnreadReplies,
    console: Console,
    tell: Callable[[UnreadReply], tuple[str, Sequence[str]]],
    causes: Sequence[str] = (),
    option: str = "unread",
) -> None:
    """Print the replies below a line that says how many there are, and sentences on why. tell: gives what stands before
    the reason of a reply, and further lines of it. option: by which a user has more of them listed."""
    partly, several = len(found.shown) < found.unread, len({one.model for one in found.shown}) > 1
    _line(console, head + (f"; the first {len(found.shown):,} of them" if partly else ""))
    for said in causes:
        print_prose(printable(said), console)
    for number, one in enumerate(found.shown, 1):
        before, more = tell(one)
        _line(console, "")
        _line(console, f"{number}. {one.item} by {one.strategy}" + (f" ({one.model})" if several else ""))
        for line in textwrap.wrap(printable(before + (one.reason or "no reason is recorded")), WIDTH - 3):
            _line(console, f"   {line}")
        for line in more:
            _line(console, f"{_BEFORE}{line}")
    if partly:
        _line(console, "")
        print_prose(f"`--{option} {found.unread}` lists all of them.", console)


def last_lines(text: str) -> list[str]:
    """The last lines of a reply, as inert text in lines that fit the list; "..." stands for what comes before them.

    >>> last_lines("I cannot\\x1b[2J tell.")
    ['I cannot\\ufffd[2J tell.']
    """
    room = WIDTH - len(_BEFORE)
    # One line can be megabytes long, and only its end is shown.
    written = text.strip()[-2 * LINES * WIDTH :].splitlines() or ["(the reply is empty)"]
    lines = [line for one in written for line in textwrap.wrap(printable(one), room)]
    cut = len(lines) > LINES or len(text.strip()) > 2 * LINES * WIDTH
    return ["...", *lines[1 - LINES :]] if cut else lines


def printable(text: str) -> str:
    """The text with a replacement character for each one that cannot be printed, and blanks for tabs."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text.replace("\t", " "))


def _line(console: Console, text: str) -> None:
    console.print(Text(printable(text)), soft_wrap=True)


TITLE = "variants left out"


def left_out_variants(record: VariantsRecord | None) -> pl.DataFrame:
    """A row for each kind and reason: how many variants of the kind were made, and how many left out for that reason,
    the most frequent first. record: what the run's manifest says of its variants, None where it says nothing."""
    known = record or VariantsRecord()
    rows = [
        {"variant": kind, "made": known.made.get(kind, 0), "left_out": count, "reason": reason}
        for kind, reasons in known.dropped.items()
        for reason, count in sorted(reasons.items(), key=lambda pair: -pair[1])
    ]
    kinds = {"variant": pl.String, "made": pl.Int64, "left_out": pl.Int64, "reason": pl.String}
    return pl.DataFrame(rows, schema=kinds)
