"""The short form in which every command shows a result: at most LINES lines of 80 characters.

It has a line for each strategy (accuracy as a bar with its interval, the best shortcut baseline as a tick, and the
replies that are missing), three lines of verdicts, and one table. `--all` prints tomserve.reporting.tables instead.
"""

from collections.abc import Collection, Mapping, Sequence

import polars as pl
from rich.console import Console
from rich.text import Text

from tomserve.content.text import sanitize
from tomserve.errors import ContentError
from tomserve.reporting.table_layout import print_table
from tomserve.studies import Analysis, Excerpt, Verdict, overall_accuracy
from tomserve.studies.presentation import answers_by_question, finite_or_none, one_line, percent

LINES = 23  # of 25, which leaves a line each for the run and its report
WIDTH = 80  # characters, where the console is wider
_ARMS = 12  # the most strategies that have a line
_SENTENCES = 3  # the most verdicts that are shown
_FEWEST = 8  # lines, in fewer of which no part of a table is shown
_BAR = range(10, 25)  # how many characters a bar may have
_NUMBERS = 46  # characters beside a name and a bar
MORE = "All tables with their notes: repeat the command with --all."


def show_overview(analysis: Analysis, console: Console) -> None:
    """Print the short form of what a study found."""
    said: list[str] = []
    try:
        verdicts = analysis.verdicts()
    except ContentError as error:
        verdicts, said = (), [f"The verdicts are in the report only: {error}"]
    shares = overall_accuracy(analysis.tables)
    tables = _own_tables(analysis, shares.height, len(verdicts))
    if verdicts:
        said = [f"{one.model}: {line}" for one in verdicts if not one.marks for line in one.lead]
        said = [*(said[:_SENTENCES] if shares.is_empty() else []), *_answers(verdicts)]
    print_overview(_marked(verdicts) if shares.is_empty() else shares, said, tables, console)


def _marked(verdicts: Sequence[Verdict]) -> pl.DataFrame:
    """The shares that verdicts are about, of a study without a table of accuracy, in the columns of one."""
    rows = [
        {"model": one.model, "strategy": mark.name, "accuracy": mark.value, "ci_low": mark.low, "ci_high": mark.high}
        for one in verdicts
        for mark in one.marks or next((card.marks for card in one.cards if card.marks and not card.signed), ())
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def print_overview(
    shares: pl.DataFrame | None, said: Sequence[str], found: Sequence[Excerpt], console: Console
) -> None:
    """Print bars, sentences and one table, and how to see the rest.

    shares: as of overall_accuracy; None for no bars. said: sentences, of which the first are shown. found: tables,
    of which the first is shown that the lines that are left hold, or else as many rows of the very first as they hold.
    """
    width = min(console.width, WIDTH)
    shares = pl.DataFrame() if shares is None else shares
    lines = bar_lines(shares.head(_ARMS), width)
    if shares.height > _ARMS:
        lines.append(Text(f"and {shares.height - _ARMS} more", style="dim"))
    for sentence in said[: _SENTENCES + 1]:
        first, *rest = Text(sanitize(sentence)).wrap(console, width - 2)
        more = int(shares.height <= _ARMS // 2)  # lines of a sentence beside the first
        lines += [Text("- ") + first, *(Text("  ") + line for line in rest[:more])]
        if len(rest) > more:
            kept = lines[-1].plain.rstrip()
            lines[-1] = Text((kept if len(kept) < width - 1 else kept.rpartition(" ")[0]) + " …")
    if found and (drawn := _fit(found, LINES - len(lines) - 2, console)):
        lines += [Text(), *drawn]
    if len(lines) < LINES - 1:
        lines.append(Text())
    for line in lines:
        console.print(line, soft_wrap=True)
    console.print(Text(MORE, style="dim"), soft_wrap=True)


def _answers(verdicts: Sequence[Verdict]) -> list[str]:
    """The first questions about the models with their answers, each with the models that have it."""
    said = []
    for question, answers in list(answers_by_question(verdicts).items())[:_SENTENCES]:
        common = sorted(answers.items(), key=lambda one: -len(one[1]))
        said.append(f"{question} {'; '.join(f'{answer}{_whose(who, len(verdicts))}' for answer, who in common)}.")
    return said


def _whose(models: Collection[str], count: int) -> str:
    """Behind an answer the models that have it, of so many."""
    if count == 1:
        return ""
    if len(models) == count:
        return " (all models)"
    return f" ({', '.join(map(one_line, models)) if len(models) < 3 else f'{len(models)} of {count} models'})"


def _own_tables(analysis: Analysis, arms: int, models: int) -> list[Excerpt]:
    """The tables by the factors that were asked for, else those of the study that say more than the bars do, and of
    several models those that have them all."""
    excerpts = analysis.summary()
    asked = [one for one in excerpts if set(one.notes) & set(analysis.by)]
    more = [one for one in excerpts if one.notes != ("accuracy",) or one.frame.height > arms]
    whole = [one for one in more if models < 2 or "model" in one.frame.columns]
    return asked[:1] or whole or more[:1]


def _fit(found: Sequence[Excerpt], room: int, console: Console) -> list[Text]:
    """The first table that takes at most so many lines; else the first rows of the first, with how many there are."""
    for table in found:
        drawn = _draw(table.title, _without_constant(table.frame), console)
        if len(drawn) <= room:
            return drawn
    first = found[0]
    frame = _without_constant(first.frame)
    for rows in range(min(frame.height - 1, room), 0, -1) if room >= _FEWEST else ():
        drawn = _draw(f"{first.title} ({rows} of {frame.height} rows)", frame.head(rows), console)
        if len(drawn) <= room:
            return drawn
    return []


def _draw(title: str, frame: pl.DataFrame, console: Console) -> list[Text]:
    """The lines of a table."""
    with console.capture() as captured:
        print_table(title, frame, console)
    return list(Text.from_ansi(captured.get().rstrip()).split())


def _without_constant(frame: pl.DataFrame) -> pl.DataFrame:
    """The table without the name of the only model, and without the row of all questions, which has a bar."""
    if "model" in frame.columns and frame["model"].n_unique() == 1 and frame.width > 2:
        frame = frame.drop("model")
    first = frame.to_series()
    return frame.filter(first != "overall") if first.dtype == pl.String and frame.height > 2 else frame


def bar_lines(shares: pl.DataFrame, width: int) -> list[Text]:
    """A line for each row of overall_accuracy, or of other shares, below a line with headings; none without rows. A bar
    is filled up to the accuracy, its interval is shaded, and the tick is the best shortcut baseline."""
    if not shares.height:
        return []
    rows = shares.rows(named=True)
    most = width - _NUMBERS - _BAR[0]
    names = [one_line(row["strategy"], most) for row in rows]
    title = one_line(rows[0]["model"], most)
    if len({row["model"] for row in rows}) > 1:
        title = ""
        names = [
            f"{one_line(row['model'], max(8, most - len(name) - 1))} {name}"
            for row, name in zip(rows, names, strict=True)
        ]
    wide = max(map(len, [*names, title]))
    bar = max(_BAR[0], min(_BAR[-1], width - wide - _NUMBERS))
    numbers = f"{'accuracy [95%]':14}  {'baseline │':>10}  {'unread':>6}  {'failed':>6}"
    numbers = numbers if "unread" in shares.columns else "share [95%]"
    lines = [Text(f"{title:{wide}}  0%{'100%':>{bar - 2}}  {numbers}", style="bold")]
    for name, row in zip(names, rows, strict=True):
        accuracy = percent(row["accuracy"])
        if finite_or_none(row.get("ci_low")) is not None:
            accuracy += f" [{100 * row['ci_low']:.0f}, {100 * row['ci_high']:.0f}]"
        best = finite_or_none(row.get("best_rule_accuracy"))
        baseline = "" if best is None else percent(best)
        unread, lacking = row.get("unread"), row.get("failed")  # unread replies are among those that lack an answer
        failed = lacking if lacking is None or unread is None else max(0, lacking - unread)
        missing = [f"{count:,}" if count is not None else "" for count in (unread, failed)]
        beside = f"  {accuracy:14}  {baseline:>8}    {missing[0]:>6}  {missing[1]:>6}"
        lines.append(Text(f"{name:{wide}}  ") + accuracy_bar(row, bar) + Text(beside.rstrip()))
    return lines


def accuracy_bar(row: Mapping[str, object], size: int) -> Text:
    """A row's accuracy as a bar of so many characters, with its interval and the best shortcut baseline.

    >>> accuracy_bar({"accuracy": 0.5, "ci_low": 0.3, "ci_high": 0.7, "best_rule_accuracy": 0.9}, 10).plain
    '███▓▓░░··│'
    """
    share, low, high, best = (
        finite_or_none(row.get(name)) for name in ("accuracy", "ci_low", "ci_high", "best_rule_accuracy")
    )
    share = share or 0.0
    low, high = share if low is None else low, share if high is None else high
    cells = []
    for place in range(size):
        middle = (place + 0.5) / size
        shaded = low <= middle <= high
        cells.append(("▓" if shaded else "█") if middle <= share else "░" if shaded else "·")
    bar = Text("".join(cells), style="cyan")
    if best is None:
        return bar
    tick = min(int(best * size), size - 1)
    return bar[:tick] + Text("│", style="bold yellow") + bar[tick + 1 :]
