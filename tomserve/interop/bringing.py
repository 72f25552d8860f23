"""Brings the replies that another tool collected into run folders, so that all commands for runs work on them.

Every task of every model becomes a run. Its questions are items of a benchmark of ours where the texts say so
(tomserve.interop.matching); then our rules read the replies, and the other tool's grade stands beside. Other questions
are taken as they are, and the grade is the score. The raw text of every reply, all that the model was shown, and the
digests of the files stay with the run, which is marked as foreign: nothing can be asked in it.

>>> brought = bring([InspectLog(Path("log.eval"))], Wish())                                       # doctest: +SKIP
>>> brought.runs[0].folder, brought.runs[0].replies                                               # doctest: +SKIP
(PosixPath('runs/gsm8k-openai-gpt-4o'), 1319)
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Sequence
from pathlib import Path

from tomserve.content import temporary
from tomserve.content.text import count_noun
from tomserve.errors import ConfigError, MachineError
from tomserve.interop.bringing_groups import Brought, Group, Groups, Wish
from tomserve.interop.bringing_match import Benchmarks
from tomserve.interop.bringing_run import Meant, UngradedError, prepared
from tomserve.interop.foreign import Source
from tomserve.runs import runfolder
from tomserve.runs.progress import Listener, SilentListener

__all__ = ["Brought", "Wish", "bring"]


def bring(
    sources: Sequence[Source], wish: Wish, listener: Listener | None = None, found: Collection[Path] = ()
) -> Brought:
    """Bring the replies of these sources into runs.

    sources: the files, each with its reader. wish: what the user wants. found: the files that nobody named, because
    they lay in a folder; what cannot be read of these is left out, where others can. Raises TomserveError: nothing was
    written then, unless the disk failed while the runs were.
    """
    listener = listener or SilentListener()
    if wish.threshold is not None and not math.isfinite(wish.threshold):
        raise ConfigError(f"--threshold {wish.threshold}: expected a number")
    if wish.run is not None:
        runfolder.run_path(wish.run)  # a name that is none is said before anything is read
    benchmarks = Benchmarks(wish.benchmark, wish.path, listener)
    brought = Brought()
    try:
        with temporary.folder() as scratch, contextlib.ExitStack() as stack:
            groups = Groups(wish, brought, scratch, stack, listener)
            for source in sources:
                groups.read(source, lenient=source.path in found and len(sources) > 1)
            if not groups.known:
                raise ConfigError(_nothing(sources, wish, brought))
            ready = []
            for group, folder in (pairs := groups.folders()):
                try:
                    meant = _meant(group, wish)
                    ready.append(prepared(folder, group.spool, meant, benchmarks.of(group.spool), scratch))
                except UngradedError as error:
                    if len(pairs) == 1:
                        raise
                    brought.unread.append(str(error))
            if not ready:
                raise ConfigError(_nothing(sources, wish, brought))
            for one in ready:  # only now is anything written
                one.write()
            brought.runs += [one.made for one in ready]
            for lost in (one.made for one in ready if one.made.lost):
                brought.leave(f"is no question of {lost.benchmark}", lost.lost, lost.lost_first)
    except OSError as error:
        raise MachineError(
            f"{error.filename or 'the folder for temporary files'}: cannot be written ({error.strerror}); free space, "
            "or name another folder for temporary files by TMPDIR"
        ) from None
    return brought


def _nothing(sources: Sequence[Source], wish: Wish, brought: Brought) -> str:
    """Why there is nothing to bring."""
    where = ", ".join(str(source.path) for source in sources[:3])
    if brought.other and not brought.unread:
        named = " and ".join(f"--{name} {text}" for name, text in (("task", wish.task), ("model", wish.model)) if text)
        return f"{where}: of {count_noun(brought.other, 'reply', 'replies')} none is what {named} names"
    if brought.unread:
        more = f" (and {len(brought.unread) - 1:,} more)" if len(brought.unread) > 1 else ""
        return brought.unread[0] + more
    told = "; ".join(f"{reason}: {count:,} (first: {place})" for reason, (count, place) in brought.left_out.items())
    return f"{where}: holds no reply that can be read" + (f" ({told})" if told else "")


def _meant(group: Group, wish: Wish) -> Meant:
    return Meant(
        task=group.task,
        model=group.model,
        tasks=tuple(group.tasks),
        about=group.about,
        origins=tuple(dict.fromkeys(group.origins)),
        left_out=dict(group.left_out),
        strategy=wish.strategy,
        counts=wish.counts,
        prefix="" if wish.together else group.task,
        threshold=wish.threshold,
        factors=group.facts.chosen(),
        grades=tuple(group.grades),
        other_grades=group.other_grades,
        passed_over=tuple(name for name in group.facts.passed_over() if name != wish.cluster),
    )
