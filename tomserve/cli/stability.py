"""The command `stability`: does the answer survive what should not matter?"""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tomserve.cli.evaluate import as_options, asked, evaluate_command

if TYPE_CHECKING:
    from rich.console import Console

    from tomserve.runs.evaluation import EvalResult
    from tomserve.studies import Analysis


def stability(
    *, config: Path | None, report: bool, opened: bool, quiet: bool, variants: list[str] | None, **options: Any
) -> int:
    """Ask a benchmark's questions and variants of them, and count how often the answer stays the same.

    A variant changes what should not matter: an object, the person, the length, the order of the choices, the wording,
    or the order of sentences; "again" sends the same prompt among other requests, as the noise floor. This is `tomserve
    eval --variants all` (or the kinds given by --variants), in the same run, of which the tables of stability are
    printed with the reasons why variants were left out. Interrupted, it goes on where it was.
    """
    chosen, experiment = as_options(config, variants=variants, **options)
    chosen = replace(chosen, variants=chosen.variants or ("all",))
    return asked(chosen, experiment, report=report, opened=opened, quiet=quiet, show=_show)


stability.__signature__ = inspect.signature(evaluate_command, eval_str=True)  # type: ignore[attr-defined]


def _show(result: EvalResult, analysis: Analysis, screen: Console) -> None:
    """Print the tables of stability, and why variants were left out."""
    from tomserve.reporting import run_list, tables
    from tomserve.runs.manifest import Manifest

    if analysis.beside is None:
        screen.print("no variant could be made of these questions", highlight=False)
    else:
        tables.show_analysis(analysis.beside, screen)
    manifest = Manifest.read(result.folder)
    left_out = run_list.left_out_variants(manifest.variants if manifest is not None else None)
    tables.show_tables({run_list.TITLE: left_out} if not left_out.is_empty() else {}, screen, {})
