"""Shows runs in the terminal: all of them in a table, or everything that is known of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import polars as pl
from rich.console import Console
from rich.text import Text

from tomserve.content import files
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.reporting.terminal import print_entry, print_table
from tomserve.runs import journal
from tomserve.runs.journal import read_rows, row_identity
from tomserve.runs.measurement import environment_changes
from tomserve.runs.runfolder import find_run, newest_first, read_manifest
from tomserve.scoring.responses import NOISE
from tomserve.scoring.table import MEASURED
from tomserve.serving import provenance
from tomserve.serving.provenance import describe_flags
from tomserve.status import listed


def list_runs(console: Console) -> None:
    """Print name, model, benchmark, strategies, time and completeness of every run, the newest first.

    A run whose manifest cannot be read is named in a line of its own, with the reason.
    """
    folders = newest_first()
    if not folders:
        console.print(f"no runs in {runs_root()}/; make one with `tomserve eval` (or `make eval`)", markup=False)
        return
    rows = []
    for folder in folders:
        try:
            manifest = read_manifest(folder) or {}
        except ConfigError as error:  # one broken run must not hide the others
            console.print(str(error), markup=False, soft_wrap=True)
            continue
        rows.append(
            {
                "run": folder.relative_to(runs_root()).as_posix(),
                "model": str(manifest.get("model")),
                "benchmark": str(manifest.get("benchmark")),
                "strategies": _asked(manifest),
                "created": str(manifest.get("created")),
                "complete": "yes" if manifest.get("complete") else "no",
            }
        )
    if rows:
        print_table("runs, the newest first", pl.DataFrame(rows), console)


def _asked(manifest: Mapping[str, Any]) -> str:
    """The strategies of a run, or in their place which study reads what was measured."""
    if manifest.get("kind") == MEASURED:
        return f"measured, for {manifest.get('study')}"
    return ", ".join(manifest.get("strategies", {}))


def show_run(name: str, console: Console) -> None:
    """Print where the answers of a run came from, and how many there are of each status; of a measured run, what was
    measured by what means.

    name: a run's name or path. Raises ConfigError where there is no run of that name.
    """
    folder = find_run(name)
    manifest = read_manifest(folder)
    if manifest is None:
        raise ConfigError(f"{folder}: no run there")
    if manifest.get("kind") == MEASURED:
        _show_measured(manifest, console)
        return
    final = {row_identity(row): row["status"] for _, row in read_rows(journal.journal_path(folder))}

    def tell(field: str, text: object) -> None:
        print_entry(Text(f"{field:<17} "), str(text), console)

    for field in ("run", "model", "revision", "benchmark", "benchmark_digest", "created", "complete", "tomserve"):
        tell(field, _said(manifest.get(field)))
    for field, text in origin(manifest):
        tell(field, text)
    for strategy, spec in manifest["strategies"].items():
        counts = Counter(status for identity, status in final.items() if identity.strategy == strategy)
        tell(strategy, f"{listed(counts) or 'nothing yet'}; prompts {_said(spec.get('digest'))[:19]}")
    if check := manifest.get("noise"):
        levels = " and ".join(map(str, check.get("concurrencies") or ["an unknown number"]))
        done = sum(1 for _ in read_rows(folder / NOISE)) if (folder / NOISE).exists() else 0
        wanted = f"of {_said(check.get('items'))} items, at {levels} in flight: {done} rows of {NOISE}"
        others = check.get("other_engines")
        tell("noise check", wanted + (f"; answers came from {', '.join(others)}" if others else ""))
    for change in provenance.list_changes(manifest.get("sessions")):
        tell("changed", change)
    if flags := describe_flags(manifest.get("server", {})):
        tell("server flags", flags)
    for field, value in manifest.get("server", {}).items():
        if field not in ("flags", "flags_changed", "preset"):  # they stand in the command, or in the line above
            tell(f"server {field}", _said(value))


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
        *((f"setting {name}", _said(value)) for name, value in (told.get("settings") or {}).items()),
    ]


def _show_measured(manifest: Mapping[str, Any], console: Console) -> None:
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
    width = max(17, *(len(name) for name in told))
    for name, value in told.items():
        if value is not None:
            print_entry(Text(f"{files.one_line(name):<{width}} "), files.one_line(_said(value)), console)
    for change in environment_changes(manifest):
        print_entry(Text(f"{'changed':<{width}} "), change, console)


def _said(value: object) -> str:
    """A value of the manifest in words: yes or no, a list by its parts, a mapping as name=value, "unknown" for None."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items()) or "none"
    return str(value)
