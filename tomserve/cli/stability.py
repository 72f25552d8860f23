"""The command `stability`: does an answer stay the same when something changes that should not matter?"""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tomserve.cli.evaluate import evaluate_command, make_options, run_and_report
from tomserve.cli.options import Questions, Sampling, Showing, with_groups

if TYPE_CHECKING:
    from rich.console import Console

    from tomserve.runs.evaluation import EvalResult
    from tomserve.studies import Analysis


@with_groups
def stability(
    *,
    config: Path | None,
    questions: Questions,
    sampling: Sampling,
    variants: list[str] | None,
    showing: Showing,
    **options: Any,
) -> int:
    """Measure how often the answer stays the same under changes that should not matter.

    A variant changes an object, the person, the length, the order of the choices, the wording, or the order of
    sentences; "again" repeats the prompt among other requests, as the noise floor. This is `tomserve eval --variants
    all` (or the kinds of --variants), in the same run. If interrupted, repeat the command: it resumes where it stopped.
    """
    chosen, experiment = make_options(config, questions, sampling, variants=variants, **options)
    chosen = replace(chosen, variants=chosen.variants or ("all",))
    show = functools.partial(_show_stability, whole=showing.whole)
    return run_and_report(chosen, showing, experiment, show=show)


stability.__signature__ = inspect.signature(evaluate_command, eval_str=True)  # type: ignore[attr-defined]


def _show_stability(result: EvalResult, analysis: Analysis, screen: Console, *, whole: bool) -> None:
    """Print what was found of stability and, as a whole, why variants were left out."""
    from tomserve.cli.output import show_result
    from tomserve.reporting import run_list, tables
    from tomserve.runs.manifest import Manifest

    if analysis.variant_analysis is None:
        screen.print("no variant could be made of these questions", highlight=False)
    else:
        show_result(replace(analysis.variant_analysis, warnings=analysis.warnings), screen, whole=whole)
    if not whole:
        return
    manifest = Manifest.read(result.folder)
    left_out = run_list.left_out_variants(manifest.variants if manifest is not None else None)
    tables.show_tables({run_list.TITLE: left_out} if not left_out.is_empty() else {}, screen, {})
