"""What several commands print: warnings, what is lacking of runs, findings about a benchmark, and which runs an
import made.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from rich.text import Text

from tomserve.benchmarks import Findings
from tomserve.cli import options
from tomserve.content import output_path
from tomserve.content.paths import run_argument
from tomserve.content.text import count_noun, say
from tomserve.interop.samples import LEVELS
from tomserve.items import write_chunks
from tomserve.reporting import tables
from tomserve.studies import missing_data

if TYPE_CHECKING:
    from tomserve.interop.importer import ImportedRun, ImportSummary


def warn(message: str) -> None:
    """Print a warning on standard error: as one line, or in a terminal as lines of its width under a coloured word."""
    # The message may quote a stranger's file, so it must not be able to control the terminal.
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in message)
    if not sys.stderr.isatty():
        say(f"warning: {line}", error=True)
        return
    from rich.text import Text

    from tomserve.reporting.table_layout import Terminal

    Terminal(stderr=True, highlight=False).print(Text.assemble(("warning: ", "bold yellow"), line))


def warn_gaps(source: str | Path, scores: pl.DataFrame, given: str = "") -> list[missing_data.Gaps]:
    """Warn of what is lacking: replies that could not be read, failures, answers not asked for, a mere sample.

    source: a run's folder, or the file of a score table. scores: what was loaded from it. given: what `tomserve runs`
    is given to list the replies that could not be read; "" for the source. Returns what is lacking.
    """
    lacking = [replace(gap, given=given or gap.given) for gap in missing_data.gaps_of_source(source, scores)]
    for said in missing_data.gap_sentences(lacking):
        warn(said)
    return lacking


def tell_unread(lacking: Sequence[missing_data.Gaps]) -> int:
    """Say as the last thing how many replies could not be read, in a line for each source, and which was the first.

    Returns the exit code: 1 where more than one in ten of the replies of a source could not be read, else 0.
    """
    sys.stdout.flush()  # so that the line also stands last where both streams go to one file
    for line in missing_data.unread_lines(lacking):
        warn(line)
    return int(any(gap.many_unread for gap in lacking))


def show_findings(found: Findings) -> int:
    """Print sections, tables, notes and lines, and write the Markdown file where one is wanted; returns the exit code.

    Raises JournalError where that file cannot be written.
    """
    console = options.console()
    for heading, lines in found.sections.items():
        console.print(Text(heading, style="bold"))
        for line in lines:
            shown = f"  {line}"
            if console.is_terminal:  # elsewhere a line stays whole, for other programs
                shown = textwrap.fill(shown, console.width, subsequent_indent=" " * 6, break_on_hyphens=False)
            console.print(Text(shown), soft_wrap=True)
        console.print()
    tables.show_tables(found.tables, console, found.notes)
    if found.markdown is not None:
        text = tables.render_all(found.tables, "md", {}, found.notes)
        write_chunks(found.markdown, [text.encode()], output_path.open_output)
    for line in found.lines:
        console.print(Text(line), soft_wrap=True)
    return found.code


MOST_UNREAD = 10
"""So many files of which nothing could be read are named."""

MOST_NAMES = 8
"""So many grades are named that do not count, and so many facts that are no factors."""


def show_imported(brought: ImportSummary) -> int:
    """Print what was made and what was left out; returns the exit code."""
    for made in brought.runs:
        _show_run(made)
    for reason, (count, place) in brought.left_out.items():
        where = f"as it {reason} ({place})" if count == 1 else f"as each {reason} (first: {place})"
        say(f"warning: {count:,} left out, {where}", error=True)
    for reason in brought.unread[:MOST_UNREAD]:
        say(f"warning: left out: {reason}", error=True)
    if (more := len(brought.unread) - MOST_UNREAD) > 0:
        say(f"warning: {count_noun(more, 'more file')} left out", error=True)
    if brought.other:
        say(f"{_replies(brought.other)} of other models or tasks left out")
    first, *others = brought.runs
    same = [made for made in others if made.benchmark == first.benchmark]
    if len(brought.runs) == 2 and same:
        say(f"next: tomserve compare {run_argument(first.folder)} {run_argument(same[0].folder)}")
    else:
        say(f"next: tomserve analyze {run_argument(first.folder)}")
    return 1 if brought.left_out or brought.unread else 0


def _show_run(made: ImportedRun) -> None:
    what = f"{_replies(made.replies)} to {count_noun(made.items, 'question')}"
    say(f"{made.folder}: {what}" + ("" if made.fresh else "; was there before, and is unchanged"))
    if made.matched:
        say(f"  questions: items of {made.benchmark}, found by their texts")
    else:
        factors = ", ".join(made.factors) or "none"
        say(f"  questions: taken as they are, as benchmark {made.benchmark}; factors: {factors}")
        if made.passed_over:
            say(f"  left out as factors, as each has more than {LEVELS} values: {_passed_over(made)}")
    say(f"  reading that counts: {_reading(made)}")
    if made.others:
        say(f"  left out: {_more(made.others)} of another reply to the same question")
    for text in _warnings(made):
        say(f"warning: {made.folder}: {text}", error=True)


def _passed_over(made: ImportedRun) -> str:
    """The facts that are no factors because they have too many values, and what to do."""
    names = [f"{name!r:.60}" for name in made.passed_over]
    more = [f"{len(names) - MOST_NAMES:,} more"] if len(names) > MOST_NAMES else []
    way_out = "--factor NAME takes one, and then only what is named so"
    return f"{', '.join([*names[:MOST_NAMES], *more])}; {way_out}"


def _reading(made: ImportedRun) -> str:
    """Whose reading counts, which of the other tool's grades were taken, and how to take others."""
    names, others = ([f"{name!r:.100}" for name in given] for given in (made.grades, made.other_grades))
    grade = " ".join(["the other tool's", "grades" if len(names) > 1 else "grade", " and ".join(names)]).strip()
    text = grade
    if made.counts == "tomserve":
        text = f"tomserve's; {grade} {'stand' if len(names) > 1 else 'stands'} beside" if names else "tomserve's"
    if not others:
        return text
    more = [f"{len(others) - MOST_NAMES} more"] if len(others) > MOST_NAMES else []
    return f"{text} (also there: {', '.join([*others[:MOST_NAMES], *more])}; --scorer NAME chooses)"


def _warnings(made: ImportedRun) -> Iterator[str]:
    """What a user should know of a run, each in a sentence."""
    if made.nearly:
        yield made.nearly
    if made.repeated:
        yield f"{_replies(made.repeated, 'was', 'were')} replaced by a later one to the same question"
    names = " and ".join(f"{name!r:.100}" for name in made.grades[:MOST_NAMES])
    if told := made.agreement.sentence(f"the tool's grade {names}".strip()):
        yield told
    if made.empty:
        yield (
            f"{made.empty:,} of {_replies(made.replies, 'is', 'are')} empty and not right, and "
            f"{_agree(made.empty, 'counts', 'count')} as unread; look whether the tool kept what the model said "
            "(a parser of reasoning, or a budget of tokens that thinking used up, leaves nothing)"
        )
    if made.ungraded:
        as_wrong = f"{_agree(made.ungraded, 'counts', 'count')} as wrong"
        yield f"{_replies(made.ungraded, 'has', 'have')} no grade, and {as_wrong}"
    if made.highest > 1 and made.counts == "tool" and made.threshold is None:
        yield (
            f"grades are numbers up to {made.highest:g}, and count as right from 1 on; say from where on they do by "
            "--threshold"
        )
    elif made.between and made.counts == "tool":
        start = 1 if made.threshold is None else made.threshold
        yield (
            f"{count_noun(made.between, 'grade is', 'grades are')} neither 0 nor 1; "
            f"{_agree(made.between, 'it counts', 'they count')} as right from {start:g} on (--threshold)"
        )
    for count, what in ((made.cut, "cut off"), (made.failed, "ended by an error")):
        if count:
            yield f"{_replies(count, 'was', 'were')} {what}, and the tool counts {_agree(count, 'it', 'them')} as right"
    if made.differing:
        yield (
            f"{count_noun(made.differing, 'right answer in the file is another', 'right answers in the file are others')} "
            f"than tomserve's (first: item {made.differs_first}); tomserve's count"
        )


def _replies(count: int, one: str = "", several: str = "") -> str:
    """A number of replies, and what one of them or several do."""
    return count_noun(count, f"reply {one}".strip(), f"replies {several}".strip())


def _more(count: int) -> str:
    return count_noun(count, "more reply, which shares the grade", "more replies, each of which shares the grade")


def _agree(count: int, one: str, several: str) -> str:
    return one if count == 1 else several
