"""A model as rewriter of stories (paraphrases): it rewrites, and a verifier checks that the answer stays the same.

A rewriting counts where its text passes all checks of tomserve.variants.rewriter, and the verifier (the rewriter
itself, or a second model) gives the same answer as about the original, with the choices in either order. Every reply
is kept in a journal beside the file of variants, so that the work may be killed and repeated.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from tomserve.content import files, output_path
from tomserve.engine.retry import RetryPolicy
from tomserve.items import Item, write_items
from tomserve.runs.conversations import AskingPhase, LoopRunner, Phase, PhaseRunner, run_asking
from tomserve.runs.grader import PhaseDriver, Reader, ask_items, reader_at
from tomserve.runs.progress import Listener, Stop
from tomserve.scoring.score import read_response
from tomserve.scoring.thoughts import split_thoughts
from tomserve.serving.endpoint import Target
from tomserve.status import ANSWERS, FINAL, listed
from tomserve.variants import TAKEN, Dropped, Kind, Retell, make_variants
from tomserve.variants import rewriter as rewriting
from tomserve.variants.rewriter import Job, PendingVariant

REWRITER, VERIFIER = "rewriter", "verifier"
"""The strategies whose prompts are sent, and the options that name the models; REWRITER is also the field of a row that
tells one model and prompt from another."""


@dataclass(frozen=True)
class RewritingReport:
    """What became of all items and kinds. made: how many variants there are, by kind and by how they were made
    ("record", "rules", "rewriter:MODEL"). right: how many of the rewritten ones the verifier answers rightly, by kind;
    the others it answers wrongly four times over."""

    made: Counter[tuple[str, str]]
    dropped: Counter[tuple[str, str]]  # how many there are not, by kind and reason
    right: Counter[str]
    failures: Counter[str]  # requests without a reply, by status

    def lines(self) -> list[str]:
        """The report in words, one sentence a line."""
        lines = []
        for kind in dict.fromkeys(kind for kind, _ in (*self.made, *self.dropped)):
            ways = [f"{count} by {way}" for (of, way), count in sorted(self.made.items()) if of == kind]
            reasons = [f"{count}: {why}" for (of, why), count in self.dropped.most_common() if of == kind]
            lines.append(
                f"{kind}: {'; '.join(ways) or 'none made'}"
                + (f"; dropped {'; '.join(reasons)}" if reasons else "")
                + (f"; {self.right[kind]} of the rewritten ones answered rightly" if kind in self.right else "")
            )
        if self.failures:
            again = "; repeat the command to ask again" if set(self.failures) - FINAL else ""
            lines.append(f"{self.failures.total()} requests had no reply ({listed(self.failures)}{again})")
        return lines


@dataclass
class RewritingJob:
    """The rewriting of some stories: `ask` asks what was not asked yet. rewriter, verifier: who is asked. After `ask`:
    right: how many of those that were made the verifier answers rightly, by kind. run: has a server asked a phase."""

    jobs: Mapping[str, Job]  # what is to be rewritten
    wanted: Sequence[PendingVariant]  # the items that wait for it
    rewriter: Reader
    verifier: Reader
    journal: Path  # where the replies are kept
    run: PhaseDriver
    made: dict[tuple[str, Kind], Item] = field(default_factory=dict)  # the verified variants by item and kind
    dropped: dict[tuple[str, Kind], str] = field(default_factory=dict)  # why there is none
    right: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)  # requests without a reply

    def ask(self) -> None:
        """Rewrite, check, and verify. Raises TomserveError; every reply that came is kept."""
        shown = {name: rewriting.make_prompt_item(job) for name, job in self.jobs.items()}
        replies = self._ask_model(self.rewriter, shown, "stories to rewrite")
        rewritings = {name: rewriting.parse_sentences(text) for name, text in replies.items()}
        faults = {name: self._fault(name, rewritings) for name in self.jobs}
        drafts: dict[tuple[str, Kind], tuple[Item, Item]] = {}
        for one in self.wanted:
            key, fault = (one.item.id, one.kind), faults[one.job]
            if fault is not None:
                self.dropped[key] = fault
                continue
            rewritten = rewriting.make_rewritten(
                one, self.jobs[one.job], rewritings[one.job] or (), self.rewriter.target.model
            )
            drafts[key] = (one.item, rewritten)
        asked = {
            (name := _name(item)): Item(
                id=name, story=item.story, question=item.question, choices=item.choices, answer=item.choices[0]
            )
            for pair in drafts.values()
            for one in pair
            for item in rewriting.choice_orders(one)
        }
        answers = self._ask_model(self.verifier, asked, "answers to verify by")
        for key, (item, rewritten) in drafts.items():
            four = [each for one in (item, rewritten) for each in rewriting.choice_orders(one)]
            found = [_answer(each, answers.get(_name(each))) for each in four]
            if any(_name(each) not in answers for each in four):
                self.dropped[key] = rewriting.NOT_ASKED
            elif found[0] is None or len(set(found)) > 1:
                self.dropped[key] = rewriting.ANSWER
            else:
                self.made[key] = rewritten
                self.right[key[1].name] += found[0] == item.answer

    def _fault(self, name: str, rewritings: Mapping[str, tuple[str, ...] | None]) -> str | None:
        """Why a job has no rewriting that can be used; None where it has one, as far as its text shows."""
        if name not in rewritings:
            return rewriting.NO_REPLY
        sentences = rewritings[name]
        return rewriting.NO_LIST if sentences is None else rewriting.find_fault(self.jobs[name], sentences)

    def _ask_model(self, who: Reader, shown: Mapping[str, Item], what: str) -> dict[str, str]:
        """The texts of the replies by the name of what is shown, asked for where they are not in the journal yet."""
        rows = ask_items(who, shown, self.journal, REWRITER, self.run, what)
        self.failures.update(row["status"] for row in rows.values() if row["status"] not in ANSWERS)
        return {
            name: split_thoughts(row.get("text") or "").text for name, row in rows.items() if row["status"] in ANSWERS
        }


def _name(item: Item) -> str:
    """A digest of what the verifier reads of an item, so that equal ones are asked about once."""
    return hashlib.blake2b(orjson.dumps([item.story, item.question, item.choices]), digest_size=16).hexdigest()


def _answer(item: Item, reply: str | None) -> str | None:
    """The choice of the original that a reply takes; None where it can be read as none of the choices."""
    if reply is None:
        return None
    found = read_response(item, {"status": "ok", "text": reply}, False).answer
    return item.meaning(found) if found in item.choices else None


def write_variants(
    items: Sequence[Item],
    kinds: Sequence[Kind],
    retelling: Callable[[str], Retell],
    rewriter: Reader | None,
    out: Path,
    listener: Listener | None = None,
    *,
    verifier: Reader | None = None,
    policy: RetryPolicy | None = None,
    drive: LoopRunner = run_asking,
) -> RewritingReport:
    """Write the items and their variants of these kinds to a file of items, once everything was asked; replies are kept
    beside it (see `rewriting_journal`). retelling: gives the function that retells the items of a benchmark. rewriter:
    the model that rewrites what no record and no rule can tell otherwise. verifier: a second model, which answers in
    its place. drive: runs the asking to its end. Raises TomserveError as an evaluation does, ConfigError where a file
    cannot be written."""

    def run(at: Target, phase: Phase) -> None:
        asker = PhaseRunner(at.endpoints, at.model, listener or Listener(), Stop(), policy=policy or RetryPolicy())
        drive(AskingPhase(asker, phase))

    made: dict[tuple[str, Kind], Item] = {}
    dropped: dict[tuple[str, Kind], str] = {}
    named = {kind.name: kind for kind in kinds}
    given = {(item.base, item.factors.get("variant")) for item in items if item.base is not None}
    taken = {item.id for item in items}
    for one in make_variants(items, kinds, retelling):
        if isinstance(one, Dropped):
            of, kind = one.item, one.kind
        else:
            of, kind = one.base or "", named[str(one.factors["variant"])]
        if (of, kind.name) in given:  # it came with the items
            continue
        if f"{of}/{kind.name}" in taken:
            dropped[of, kind] = TAKEN
        elif isinstance(one, Dropped):
            dropped[of, kind] = one.reason
        else:
            made[of, kind] = one
    job = None
    if rewriter is not None:
        job = _plan_job(items, dropped, rewriter, verifier, out, run)
        if job.jobs:
            with files.refuse_os_errors(job.journal.parent, "cannot be made", "choose another place by --out"):
                job.journal.parent.mkdir(parents=True, exist_ok=True)
            files.check_regular(job.journal, alone=True)
            job.ask()
        dropped = {key: job.dropped.get(key, why) for key, why in dropped.items() if key not in job.made}
        made |= job.made
    write_items(out, _in_order(items, kinds, made), output_path.open_output)
    ways = Counter((kind.name, str(one.factors["variant_by"])) for (_, kind), one in made.items())
    reasons = Counter((kind.name, why) for (_, kind), why in dropped.items())
    return RewritingReport(ways, reasons, job.right if job else Counter(), job.failures if job else Counter())


def rewriting_journal(out: Path) -> Path:
    """Where the replies of rewriter and verifier are kept: beside the file of variants."""
    return out.with_name(f"{out.stem}.rewriter.jsonl")


def _plan_job(
    items: Sequence[Item],
    dropped: Mapping[tuple[str, Kind], str],
    rewriter: Reader,
    verifier: Reader | None,
    out: Path,
    run: PhaseDriver,
) -> RewritingJob:
    """What is left for the rewriter of what no rule could make."""
    known = {item.id: item for item in items}
    left = [(known[of], kind) for (of, kind), why in dropped.items() if kind in rewriting.REWRITTEN and why != TAKEN]
    jobs, wanted, hopeless = rewriting.plan_jobs(left)
    verifies = verifier or reader_at(rewriter.target, VERIFIER)
    job = RewritingJob({job.name: job for job in jobs}, wanted, rewriter, verifies, rewriting_journal(out), run)
    job.dropped = {(item.id, kind): why for item, kind, why in hopeless}
    return job


def _in_order(items: Sequence[Item], kinds: Sequence[Kind], made: Mapping[tuple[str, Kind], Item]) -> Iterator[Item]:
    """Every item, followed by its variants."""
    for item in items:
        yield item
        yield from (made[item.id, kind] for kind in kinds if (item.id, kind) in made)
