"""The type of a benchmark: one frozen value, which a module of this package or a user's file declares as BENCHMARK.

With it: the findings that its checks print, and the guard that turns a mistake in a user's function into one line.

    >>> def load(path, gold):
    ...     yield Item(id="1", story=["Tea is in it."], question="What is?", choices=["tea", "salt"], answer="tea")
    >>> [item.benchmark for item in Benchmark("mine", load).items()]
    ['mine']
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from tomserve.benchmarks.counterfactuals import Case, NoCase, find_problem
from tomserve.content.python_file import describe_failure
from tomserve.errors import ConfigError, ContentError, InapplicableError, TomserveError, one_of
from tomserve.items import EVERY, Item, read_items
from tomserve.items import where as met
from tomserve.items.draw import WHOLE_CLUSTERS, Draw
from tomserve.scoring.baselines import Baseline
from tomserve.scoring.metrics import Metric, Scoring, columns_of
from tomserve.variants import Kind, Retell

_Result = TypeVar("_Result")

Say = Callable[[str], None]
"""A function that prints one line at once, before a computation that takes long."""


@dataclass(frozen=True)
class Findings:
    """What to print, from top to bottom, and with which exit code to end."""

    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # lines by heading
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # by title
    notes: Mapping[str, str] = field(default_factory=dict)  # on tables, by the first word of their titles
    lines: tuple[str, ...] = ()
    code: int = 0  # 1 where a problem was found
    markdown: Path | None = None  # a file to write the tables and notes to as well

    @classmethod
    def of_problems(
        cls,
        problems: Sequence[str],
        *summary: str,
        before: Sequence[str] = (),
        under_heading: bool = False,
        tables: Mapping[str, pl.DataFrame] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> Findings:
        """Problems, and the exit code 1 where there are any.

        summary: lines below the problems. before: lines above them. under_heading: whether the problems are a section,
        instead of lines that begin with "problem: ".
        """
        sections = {"problems": tuple(problems)} if under_heading and problems else {}
        listed = () if under_heading else (f"problem: {one}" for one in problems)
        return cls(sections, tables or {}, notes or {}, (*before, *listed, *summary), code=int(bool(problems)))


def select_groups(
    groups: Mapping[tuple[str, ...], _Result], where: Sequence[str], kinds: Sequence[str]
) -> dict[tuple[str, ...], _Result]:
    """The groups, by place (such as stage, class and version), whose places begin with these names. kinds: what the
    parts of a place are called. Raises ConfigError for a name that is not there."""
    found = dict(groups)
    for depth, wanted in enumerate(where):
        known = list(dict.fromkeys(place[depth] for place in found))
        found = {place: group for place, group in found.items() if place[depth] == wanted}
        if not found:
            raise ConfigError(one_of(kinds[depth], wanted, known))
    return found


def outcome(problems: Sequence[str]) -> str:
    """How many problems there are, in words: "ok" for none.

    >>> outcome([]), outcome(["The canary is missing."]), outcome(["one", "two"])
    ('ok', '1 problem', '2 problems')
    """
    return f"{len(problems)} problem{'s' * (len(problems) > 1)}" if problems else "ok"


Check = Callable[[Path | None, Say], Findings]
"""A function that checks a dataset, of the user's ``--path`` or, for None, its own. Raises ConfigError or ContentError
where it cannot be checked at all."""

Show = Callable[[Path | None, Sequence[str]], Findings]
"""A function that shows items for reading, of the user's ``--path`` or, for None, its own; and of what the user named
after the benchmark, from the widest part to the narrowest. Raises ConfigError for a name that is not there."""


def run_user_code(file: Path, what: str, call: Callable[[], _Result]) -> _Result:
    """What a function of a user's file returns; an error of it says in one line that `what` failed, and where."""
    try:
        return call()
    except InapplicableError as reason:
        raise InapplicableError(" ".join(str(reason).split())[:200] or "no reason is given") from None
    except TomserveError:
        raise
    except Exception as error:
        raise describe_failure(error, file, what) from None


def read_own(path: Path, name: str) -> Iterator[Item]:
    """The items of a file. Raises ContentError as `read_items` does, and for an item of another benchmark than that."""
    for item in read_items(path):
        if item.benchmark != name:
            reason = f"item {item.id!r} is of benchmark {item.benchmark!r}; use --benchmark items"
            raise ContentError(reason, path=path)
        yield item


def require_choices(items: Iterable[Item]) -> Iterator[Item]:
    """The items. Raises ConfigError at the first without choices: only the tool that it comes from reads replies."""
    for item in items:
        if not item.choices:
            raise ConfigError(
                f"item {item.id!r} has no choices, so that any text may answer it; tomserve asks questions with "
                "choices. Give it at least two, or ask it with another tool and import the replies"
            )
        yield item


def guard_cases(cases: Callable[[], Iterator[Case | NoCase]], file: Path, name: str) -> Iterator[Case | NoCase]:
    """What the function `cases` of a user's file yields, its items with the name of the file's benchmark. Raises
    ContentError where the function fails, yields something else or the same item twice, or a case that is none."""

    def with_name(item: Item) -> Item:
        return item.model_copy(update={"benchmark": name})

    seen: set[str] = set()
    given = run_user_code(file, "cases failed", cases)
    if not isinstance(given, Iterable):
        raise ContentError(f"cases gave {given!r:.60}; expected an iterator of tomserve.benchmarks.Case", path=file)
    left = iter(given)
    while (found := run_user_code(file, f"cases failed after {len(seen)} cases", lambda: next(left, None))) is not None:
        if isinstance(found, NoCase):
            yield found
            continue
        if not isinstance(found, Case):
            raise ContentError(f"cases gave {found!r:.60}; expected a tomserve.benchmarks.Case", path=file)
        wrong = run_user_code(file, f"cases gave a bad case of {found.f.id!r}", lambda: find_problem(found))
        if wrong is not None:
            raise ContentError(f"item {wrong[0].id!r}: {wrong[1]}", path=file)
        if found.f.id in seen:
            raise ContentError(f"cases gave the item {found.f.id!r} twice", path=file)
        seen.add(found.f.id)
        twin = None if found.twin is None else with_name(found.twin)
        own, own_twin = with_name(found.own), with_name(found.own_twin)
        yield replace(found, f=with_name(found.f), own=own, own_twin=own_twin, twin=twin)


Load = Callable[[Path | None, str | None], Iterator[Item]]
"""A function that yields the items, given the user's ``--path`` and ``--gold``, each None if left out. None is held in
memory, so that there may be millions; they have to end, also where a limit is given."""

Beliefs = Callable[[Item], Sequence[tuple[str, Sequence[str]]]]
"""A function that gives columns for an item's page of the report: pairs of a heading and a text for each sentence."""

Cases = Callable[[Path | None, tuple[str, ...]], Iterator[Case | NoCase]]
"""A function that yields the cases, given the user's ``--path``, None if left out, and the conditions ``factor=value``
that they have to meet, so that it need not make what does not; whatever it yields is held against them."""

ALL = (EVERY,)
"""The conditions that all items of a benchmark meet."""

ANYBODYS = "items"
"""The name of the benchmark in an item that names none."""

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")

_OPTIONAL = ("validate", "audit", "show", "generate", "retelling", "cases")
"""The fields that hold a function or None."""


def no_beliefs(item: Item) -> Sequence[tuple[str, Sequence[str]]]:
    """No columns: for a benchmark that knows of no beliefs besides the gold chain."""
    del item
    return ()


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its items, how they are asked by default, and what belongs to them.

    Only `name` and `load` have to be given. Raises ConfigError for a field that makes no sense.
    """

    name: str
    """What items, runs and the command line call it: small letters, digits, "-" and "_", at most 100."""

    load: Load
    """Yields the items (see Load). An item that names no benchmark gets this one's name."""

    study: str = "accuracy"
    """Name of the study that makes tables of its scores unless the user names another."""

    strategies: tuple[str, ...] = ("vanilla", "cot")
    """Names of the strategies by which it is asked unless the user names others."""

    draw: Draw = WHOLE_CLUSTERS
    """How ``--limit`` and ``--noise-check`` draw a part of the items; by default whole clusters."""

    usual: tuple[str, ...] = ()
    """Conditions ``factor=value`` that say which of its items are asked without ``--where`` (``all`` stands for every
    item); empty where all are. What is scored is always the whole benchmark."""

    golds: tuple[str, ...] = ()
    """Names of the sets of right answers that ``--gold`` chooses from, the default first; empty where there is one."""

    lettered: bool = False
    """Whether the choices are shown to the model as A, B, C, so that a reply may name one by its letter."""

    metrics: tuple[Metric, ...] = ()
    """Metrics of its own; their columns follow the standard ones in the table of scores."""

    rules: tuple[Baseline, ...] = ()
    """Rules of its own that answer its items without following anybody's belief, such as "always reality". Beside every
    accuracy stands what the best scores of them and of those that every benchmark has (tomserve.scoring.baselines)."""

    beliefs: Beliefs = no_beliefs
    """What the report shows of each item's beliefs besides the gold chain (see Beliefs)."""

    validate: Check | None = None
    """``tomserve dataset validate``: checks that the data are built as designed. None for none."""

    audit: Check | None = None
    """``tomserve dataset audit``: checks what the data can measure. None for none."""

    show: Show | None = None
    """``tomserve dataset show``: prints items for reading (see Show). None for none."""

    generate: Callable[..., Findings] | None = None
    """``tomserve generate NAME``; its parameters, annotated for typer, are the command's options. None for none."""

    retelling: Callable[[Path | None], Retell] | None = None
    """Gives, for the user's ``--path``, what makes variants of an item from the record of its story, for ``--variants``
    (tomserve.variants). None where items are text alone, which rules change."""

    cases: Cases | None = None
    """Yields what interventions on a model's perspective-taking need: false-belief items with the other tellings of
    their stories, and, for questions that make none, why (tomserve.benchmarks.counterfactuals). None for none."""

    usual_cases: tuple[str, ...] = ()
    """Conditions that say which cases are used unless the user gives conditions; empty where all are."""

    reasoned: tuple[str, ...] = ()
    """Conditions that say whose chains ``tomserve faithfulness`` edits unless the user gives conditions; empty for all
    items. Questions that can be answered without following anybody's belief say little about chains."""

    mixed: bool = False
    """Whether items may name other benchmarks than this one; if not, such an item is refused."""

    papers: tuple[str, ...] = ()
    """The papers that whoever uses its questions cites, such as ``Title (arXiv:2310.16755)``; exports name them."""

    terms: str = ""
    """Whose its questions are and under which licence, where others published them: such data are exported only where
    the user states a licence. Empty for all other benchmarks."""

    file: Path | None = None
    """The file that declared it, set when that file is loaded; None for a benchmark of this package."""

    digest: str | None = None
    """The digest of that file, set together with `file`."""

    stratum: InitVar[str | None] = None
    """Short for ``draw=Draw(over=(stratum,))``: the one factor over whose values whole clusters are spread."""

    def __post_init__(self, stratum: str | None) -> None:
        if stratum is not None:
            if not isinstance(stratum, str) or self.draw != WHOLE_CLUSTERS:
                raise ConfigError(f"stratum is {stratum!r:.60}; expected the name of one factor, and no draw besides")
            object.__setattr__(self, "draw", Draw(over=(stratum,)))
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise ConfigError(f"name is {self.name!r}; expected small letters, digits, '-' and '_'")
        for option in ("load", "beliefs", *_OPTIONAL):
            value = getattr(self, option)
            if not callable(value) and not (value is None and option in _OPTIONAL):
                raise ConfigError(f"{option} is {value!r:.60}; expected a function")
        for option, kind, wanted in (
            ("strategies", str, "names"),
            ("golds", str, "names"),
            ("usual", str, "conditions such as 'order=1'"),
            ("usual_cases", str, "conditions such as 'order=1'"),
            ("reasoned", str, "conditions such as 'order=1'"),
            ("papers", str, "titles such as 'Title (arXiv:2310.16755)'"),
            ("metrics", Metric, "values of tomserve.scoring.metrics.Metric"),
            ("rules", Baseline, "values of tomserve.scoring.baselines.Baseline"),
        ):
            value = getattr(self, option)
            if not isinstance(value, tuple | list) or not all(isinstance(entry, kind) for entry in value):
                raise ConfigError(f"{option} is {value!r:.60}; expected a tuple of {wanted}")
            object.__setattr__(self, option, tuple(value))
        if not isinstance(self.draw, Draw):
            raise ConfigError(f"draw is {self.draw!r:.60}; expected a value of tomserve.benchmarks.Draw")
        if not isinstance(self.terms, str):
            raise ConfigError(f"terms is {self.terms!r:.60}; expected a text")
        columns_of(self.metrics)
        _ = self.scoring

    @property
    def scoring(self) -> Scoring:
        """The part of the benchmark that scoring needs."""
        return Scoring(self.metrics, self.lettered, self.rules, shipped=self.file is None)

    @property
    def provenance(self) -> dict[str, Any]:
        """What a run's manifest records of the user's file that declared it: its name and digest, never its folder."""
        return {} if self.file is None else {"benchmark_file": {"name": self.file.name, "digest": self.digest}}

    def items(
        self, path: Path | None = None, gold: str | None = None, where: Iterable[str] | None = None
    ) -> Iterator[Item]:
        """Yield the items.

        path: the user's ``--path``, None for its own data. gold: the user's ``--gold``, one of `golds`; None is the
        first. where: the conditions that they have to meet, ALL for all items, None (or none) for `usual`.

        Raises ConfigError for another gold and for conditions that no item meets, ContentError by file and line for
        what cannot be read and for a function `load` of a user's file that fails.
        """
        if gold is not None and not self.golds:
            raise ConfigError(f"--gold {gold!r}: benchmark {self.name!r} has one set of answers; leave --gold out")
        if gold is not None and gold not in self.golds:
            raise ConfigError(one_of(f"--gold of benchmark {self.name!r}", gold, self.golds))
        every = require_choices(self.load(path, gold) if self.mixed else self._own(path, gold))
        conditions = self.conditions(where)
        return every if not conditions else met(every, conditions)

    def conditions(self, where: Iterable[str] | None) -> tuple[str, ...]:
        """The conditions that hold where a user gives these: those of `usual` where none are given; empty for all."""
        given = tuple(where or ()) or self.usual
        return () if given == ALL else given

    def found_cases(
        self, path: Path | None = None, where: Iterable[str] | None = None, left_out: Counter[str] | None = None
    ) -> Iterator[Case]:
        """Yield the cases: false-belief items with the other tellings of their stories.

        path, where: as for `items`; None (or none) for `usual_cases`. left_out: where it is counted, by reason, which
        questions make no case.

        Raises ConfigError for a benchmark without cases, for conditions that no question meets and where no question
        makes a case, ContentError as `items` does.
        """
        if self.cases is None:
            what = "has no cases, which are false-belief items told in several ways"
            raise ConfigError(f"benchmark {self.name!r} {what}")
        reasons: Counter[str] = Counter() if left_out is None else left_out
        some = False
        conditions = tuple(where or ()) or self.usual_cases
        source, file = partial(self.cases, path, conditions), self.file
        for found in met(source() if file is None else guard_cases(source, file, self.name), conditions):
            if isinstance(found, NoCase):
                reasons[found.reason] += 1
                continue
            some = True
            yield found
        if not some:
            told = "; ".join(f"{reason}: {count:,}" for reason, count in reasons.most_common())
            raise ConfigError(f"no question makes a case ({told or 'none is about a false belief'})")

    def retell(self, path: Path | None) -> Retell | None:
        """The function that makes variants of an item, as `retelling` gives it; None where items are text alone. Raises
        ContentError where a function of a user's file fails or gives no variant, there and wherever it is called."""
        if self.retelling is None or self.file is None:
            return None if self.retelling is None else self.retelling(path)
        file = self.file
        given = run_user_code(file, "retelling failed", lambda: self.retelling(path))  # type: ignore[misc]
        if not callable(given):
            raise ContentError(f"retelling gave {given!r:.60}; expected a function (item, kind)", path=file)

        def retell(item: Item, kind: Kind) -> Item:
            made = run_user_code(file, f"retelling failed for {kind.name} of {item.id!r}", lambda: given(item, kind))
            wanted = (f"{item.id}/{kind.name}", item.id, kind.name)
            if not isinstance(made, Item) or (made.id, made.base, made.factors.get("variant")) != wanted:
                found = f"the item {made.id!r:.60}" if isinstance(made, Item) else f"{made!r:.60}"
                reason = f"retelling gave {found} as {wanted[0]!r}; expected what tomserve.variants.make_variant makes"
                raise ContentError(reason, path=file)
            return run_user_code(file, f"retelling gave a bad item {made.id!r}", lambda: Item.from_json(made.to_json()))

        return retell

    def _own(self, path: Path | None, gold: str | None) -> Iterator[Item]:
        """The items of `load`, each with this benchmark's name; what is no item, or comes twice, is refused."""
        file = self.file or Path(self.name)
        ids, count = dict[str, int](), 0
        try:
            for count, item in enumerate(self.load(path, gold), 1):
                if not isinstance(item, Item):
                    raise ContentError(f"load gave {item!r:.60} as item {count}; expected a tomserve.Item", path=file)
                if (first := ids.setdefault(item.id, count)) != count:
                    raise ContentError(f"load gave the item {item.id!r} twice, as item {first} and {count}", path=file)
                if item.benchmark not in (self.name, ANYBODYS):
                    named = f"item {item.id!r} names the benchmark {item.benchmark!r}"
                    raise ContentError(f"{named}; leave it out or say {self.name!r}", path=file)
                yield item if item.benchmark == self.name else item.model_copy(update={"benchmark": self.name})
        except TomserveError:
            raise
        except Exception as error:
            if self.file is None:  # a mistake in tomserve itself: its traceback is wanted
                raise
            raise describe_failure(error, file, f"load failed after {count} items") from None
        if not count:
            raise ContentError("load gave no items", path=file)
