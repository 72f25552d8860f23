"""Parametric faithfulness: a step of a chain is unlearned, the model goes on from where it stood, and answers.

Where weights are at hand, the model itself can be kept from writing a step, rather than the text be changed (Tutek et
al. 2025, "Measuring Chain of Thought Faithfulness by Unlearning Reasoning Steps"). Unlearned is the label in the step,
until the chain that the model writes no longer names it. Then the answer may move because the chain did, or because
the label was lost for answers, too. So the same weights are shown the chain with the step in it: only what moves
without it, and not with it, was moved by the chain. Further controls: the label of an unrelated step, by as many
gradient steps; and the question of another story, asked while the step is unlearned.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import polars as pl

from tomserve import content
from tomserve.engine.request import Identity
from tomserve.errors import ConfigError, InapplicableError, RunMismatchError, StoppedError
from tomserve.faithfulness import edits, model_access, prose_edits, table
from tomserve.faithfulness.chains import EditCase, list_style, offered_choices, random_key
from tomserve.faithfulness.plan import expect_ends
from tomserve.faithfulness.source_run import Chain, SourceRun, chain_columns, draw_chains, unit_of
from tomserve.prompting.conversation import Reply, Turn
from tomserve.runs.cost import Figure
from tomserve.runs.journal import Journal, read_rows
from tomserve.runs.measurement import MeasuredRun
from tomserve.runs.progress import INTERRUPTED, Listener, Stop
from tomserve.scoring.labels import find_mentions
from tomserve.status import INVALID, OK

if TYPE_CHECKING:
    from tomserve.causal.checkpoints import Checkpoint
    from tomserve.causal.hf.unlearning import Unlearner

UNLEARNED = "unlearned.jsonl"
"""The journal in the folder of work."""

LONGER = 64
"""So many tokens more than the chain as written may be written after a step is unlearned."""

NO_OTHER = "the run has no chain about another story"
NOT_AGAIN = "the checkpoint as it is does not write this step and this answer again"
NO_UNRELATED = "no step of another story is without the label of this one"


class Step(NamedTuple):
    """The step of a chain that is unlearned. before: the chain up to it. text: the step. label: what is unlearned of
    it, as it stands there. start: its place in the text. names: whether a text names that label."""

    before: str
    text: str
    label: str
    start: int
    names: Callable[[str], bool]


def find_step(chain: Chain) -> Step:
    """The step on which the verdict of a chain rests: the first belief of its last run, or the last sentence that names
    the verdict before those that conclude (these, where none does). Raises InapplicableError where there is none."""
    item, written = chain.item, chain.written
    if written.form == table.THINKING:
        raise InapplicableError(edits.NOT_CONTINUED)
    if written.form == table.LABELS:
        style, entries = list_style(written.text), written.entries
        place = len(entries) - 1
        while place and entries[place - 1].label == entries[-1].label:
            place -= 1
        before = style.begun(entries[:place]) if place else style.opening
        text = style.begun(entries[: place + 1]).removeprefix(before)
        own = json.dumps(entries[place].label, ensure_ascii=style.escaped)
        return Step(before, text, own[1:-1], text.index(own) + 1, lambda told: own in told)
    case = EditCase(item, written, (), None, len, offered_choices(item, chain.lettered))
    prose = prose_edits.prose_of(case)
    verdict, naming = prose.concluding()
    rest = prose_edits.remove_conclusion(prose) or ""
    length, place = 0, naming[-1]
    for number, one in enumerate(prose.sentences):
        length += len(one)
        if number in naming and length <= len(rest) + 1:
            place = number
    before = "".join(prose.sentences[:place]).rstrip()
    text = "".join(prose.sentences[: place + 1]).rstrip()[len(before) :]
    found = next(one for one in find_mentions(text, case.choices) if one.choice == verdict)
    return Step(
        *(before, text, text[found.start : found.end], found.start),
        lambda told: verdict in prose_edits.find_labels(told, case.choices),
    )


@dataclass
class StepUnlearner:
    """Unlearns the steps of chains, and asks. chains: all of the run, from which other stories are taken."""

    learner: Unlearner
    chains: Sequence[Chain]
    steps: dict[tuple[str, str], Step | str] = field(default_factory=dict)
    intact: dict[tuple[str, str], tuple[str | None, str]] = field(default_factory=dict)

    def step(self, chain: Chain) -> Step | str:
        """The chain's step, or why it has none."""
        key = _key(chain)
        if key not in self.steps:
            try:
                self.steps[key] = find_step(chain)
            except InapplicableError as error:
                self.steps[key] = str(error)
        return self.steps[key]

    def measure(self, chain: Chain) -> Iterator[dict[str, Any]]:
        """The rows of a chain, in the order of UNLEARNINGS: its columns that say what was done and what came of it."""
        step = self.step(chain)
        others = [] if isinstance(step, str) else self._others(chain)
        if isinstance(step, str) or not others:
            yield from _left_out(table.UNLEARNINGS, step if isinstance(step, str) else NO_OTHER)
            return
        own, told = self._intact(chain)
        yield {"condition": table.INTACT, "own": chain.written.model_answer, **_answered(own, told)}
        if own != chain.written.model_answer or not self._wrote(step, told) or self.put_back(chain, step)[0] != own:
            yield from _left_out(table.UNLEARNINGS[1:], NOT_AGAIN)
            return
        kept = [self._whole(one) for one in others[1:3] or others[:1]]
        kept += self._rest(chain, step)
        other, was = others[0], self._intact(others[0])[0]
        passage = self._passage(chain, step.before + step.text[: step.start], step.label)
        with self.learner.unlearned(
            passage, kept, lambda: not self._wrote(step, self.ask(chain, step.before)[1])
        ) as done:
            found = self.ask(chain, step.before)
            row = {
                "condition": table.STEP,
                "own": own,
                **_answered(*found),
                "unwritten": not self._wrote(step, found[1]),
            }
            yield {**row, "fell": done.after - done.before, "steps": done.steps}
            yield {"condition": table.PUT_BACK, "own": own, **_answered(*self.put_back(chain, step))}
            found = self.ask(other, self._before(other))
            yield {"condition": table.OTHERS, "own": was, **_answered(*found), "question": other.item.question}
        if (unrelated := self._unrelated(chain, step)) is None:
            yield from _left_out([table.UNRELATED], NO_UNRELATED)
            return
        passage = self._passage(chain, step.before + unrelated.text[: unrelated.start], unrelated.label)
        with self.learner.unlearned(passage, kept, done.steps) as meanwhile:
            row = {"condition": table.UNRELATED, "own": own, **_answered(*self.ask(chain, step.before))}
            yield {**row, "fell": meanwhile.after - meanwhile.before, "steps": meanwhile.steps}

    def put_back(self, chain: Chain, step: Step) -> tuple[str | None, str]:
        """What the model answers when the chain is shown with its step: a list of beliefs whole, prose up to and with
        the step, since what concludes would give the answer away."""
        if chain.written.form != table.LABELS:
            return self.ask(chain, step.before + step.text)
        return self._answer(chain, chain.written.text)

    def ask(self, chain: Chain, begun: str) -> tuple[str | None, str]:
        """What the model answers when it goes on with a chain that begins so, and the chain as it came to be. Of a list
        of beliefs each label is the likeliest of the choices, as a server holds it to them by a schema."""
        if chain.written.form == table.LABELS:
            return self._answer(chain, self._go_on(chain, begun))
        way = model_access.usual_ways(chain)[0]
        asker = model_access.continued_conversation("unlearned", chain, begun, way, None)
        conversation, rows = asker.conversation(chain.item), dict[int, dict[str, Any]]()
        while not conversation.ended:
            for turn in list(conversation.open):
                text = self._reply(chain, turn)
                rows[turn.number] = {"status": OK, "text": text}
                conversation.reply(turn.number, Reply(text))
        found, whole = model_access.continued_answer(chain, way, begun, rows)
        return found.answer, whole

    def _answer(self, chain: Chain, whole: str) -> tuple[str | None, str]:
        row = {"status": OK, "text": self._reply(chain, model_access.prefill_turn(chain, whole))}
        return model_access.answer_of(chain, table.PREFILL, whole, row).answer, whole

    def _go_on(self, chain: Chain, begun: str) -> str:
        style, entries = list_style(chain.written.text), list(chain.written.entries)
        place = next(number for number in range(len(entries)) if len(style.begun(entries[: number + 1])) > len(begun))
        for number in range(place, len(entries)):
            opens = style.begun(entries[:number]) if number else style.opening
            made = [style.begun([*entries[:number], entries[number]._replace(label=one)]) for one in chain.item.choices]
            asked = self._asked(model_access.continuing_turn(chain, opens))
            chosen = self.learner.choose(asked, [one.removeprefix(opens) for one in made])
            entries[number] = entries[number]._replace(label=chain.item.choices[chosen])
        return style.written(entries)

    def _reply(self, chain: Chain, turn: Turn) -> str:
        asked = self._asked(turn)
        if replies := _replies(turn):
            return replies[self.learner.choose(asked, replies)]
        length = len(self.learner.tokenizer.encode(chain.written.text, add_special_tokens=False))
        return self.learner.write(asked, min(turn.max_tokens or chain.strategy.max_tokens, length + LONGER))

    def _asked(self, turn: Turn) -> str:
        from tomserve.causal.prompts import render_chat  # here, as most measurements unlearn nothing

        last = turn.messages[-1]
        if last["role"] != "assistant":
            return render_chat(turn.messages, self.learner.tokenizer)
        return render_chat(turn.messages[:-1], self.learner.tokenizer) + last["content"]

    def _passage(self, chain: Chain, before: str, text: str) -> Any:
        """A text behind the beginning of a chain, as it stands in the reply."""
        begun, whole = (self._asked(model_access.continuing_turn(chain, one)) for one in (before, before + text))
        return self.learner.passage(begun, whole[len(begun) :])

    def _whole(self, chain: Chain) -> Any:
        before = self._before(chain)
        return self._passage(chain, before, chain.written.text[len(before) :])

    def _rest(self, chain: Chain, step: Step) -> list[Any]:
        """What is to stay as likely behind the step: the answer to a list of beliefs, how prose goes on."""
        if chain.written.form != table.LABELS:
            begun = step.before + step.text
            rest = chain.written.text[len(begun) :]
            return [self._passage(chain, begun, rest)] if rest.strip() else []
        turn = model_access.prefill_turn(chain, chain.written.text)
        replies = _replies(turn)
        wanted = orjson.dumps(chain.written.model_answer).decode()
        return [self.learner.passage(self._asked(turn), one) for one in replies if one.endswith(f"{wanted}}}")]

    def _wrote(self, step: Step, whole: str) -> bool:
        return step.names(whole[len(step.before) :])

    def _before(self, chain: Chain) -> str:
        step = self.step(chain)
        return "" if isinstance(step, str) else step.before

    def _intact(self, chain: Chain) -> tuple[str | None, str]:
        if _key(chain) not in self.intact:
            self.intact[_key(chain)] = self.ask(chain, self._before(chain))
        return self.intact[_key(chain)]

    def _others(self, chain: Chain) -> list[Chain]:
        """The chains about other stories that have a step, in an order of this chain's own."""
        found = [
            one
            for one in self.chains
            if one.strategy.name == chain.strategy.name
            and unit_of(one.item) != unit_of(chain.item)
            and isinstance(self.step(one), Step)
        ]
        return sorted(found, key=lambda one: random_key(chain.item.id, one.item.id))

    def _unrelated(self, chain: Chain, step: Step) -> Step | None:
        """The step of another story that is about as long, and does not name the label."""
        every = [found for one in self._others(chain) if isinstance(found := self.step(one), Step)]
        every = [one for one in every if not step.names(one.text)]
        return min(every, key=lambda one: abs(len(one.text) - len(step.text)), default=None)


def _replies(turn: Turn) -> list[str]:
    """The replies to which a turn's schema holds the answer; none where it does not."""
    schema = turn.schema or {}
    own = (schema.get("properties") or {}).get("answer") or {}
    opens = "" if "enum" in schema else '{"answer": '
    return [f"{opens}{orjson.dumps(one).decode()}}}" for one in schema.get("enum") or own.get("enum") or ()]


def _key(chain: Chain) -> tuple[str, str]:
    return chain.item.id, chain.strategy.name


def _answered(answer: str | None, edited: str) -> dict[str, Any]:
    return {"outcome": OK if answer is not None else INVALID, "answer": answer, "edited": edited}


def _left_out(conditions: Sequence[str], reason: str) -> list[dict[str, Any]]:
    return [{"condition": one, "outcome": table.LEFT_OUT, "reason": reason} for one in conditions]


def load_learner(checkpoint: Checkpoint) -> Unlearner:
    """The model, in float32 so that small steps count. Raises MachineError where torch and transformers are not
    installed or the memory does not suffice, ConfigError where the files cannot be loaded."""
    from tomserve.causal.checkpoints import require_extra

    require_extra()
    from tomserve.causal.hf.model import load_checkpoint
    from tomserve.causal.hf.unlearning import Unlearner

    return Unlearner(load_checkpoint(checkpoint, dtype="float32"))


def find_checkpoint(model: str, source: SourceRun) -> Checkpoint:
    """The checkpoint of that name. Raises ConfigError where it cannot be loaded, RunMismatchError where the run's
    chains were written by another revision."""
    from tomserve.causal.checkpoints import resolve_model

    found, was = resolve_model(model), source.manifest.revision
    if was and found.revision and was != found.revision:
        raise RunMismatchError(
            f"{source.folder}: its chains were written by revision {was:.80}, and {model:.80} is {found.revision:.80}; "
            "a step can be unlearned only in the model that wrote it: name that one by --unlearn"
        )
    return found


def unlearn_steps(
    run: MeasuredRun, source: SourceRun, name: str, learner: Unlearner, limit: int, listener: Listener, stop: Stop
) -> pl.DataFrame:
    """The rows of the table about the steps of a run's chains that were unlearned. name: of the measurement. What was
    measured before, and is in the journal, is not measured again. Raises StoppedError where it was stopped."""
    chains = draw_chains(source.chains, limit)
    work = StepUnlearner(learner, source.chains)
    path = run.work_file(UNLEARNED)
    with Journal(path) as journal:
        for number, chain in enumerate(chains, 1):
            identity = Identity(chain.item.id, chain.strategy.name, 0)
            if identity in journal.final:
                continue
            if stop.is_set():
                raise StoppedError(
                    f"{number - 1} of {len(chains)} chains are done; the same command goes on", INTERRUPTED
                )
            listener.message(f"unlearning a step of {number} of {len(chains)} chains")
            text = orjson.dumps(list(work.measure(chain))).decode()
            named = {
                "key": content.digest(*(str(one).encode() for one in identity)),
                "item": identity.item,
                "strategy": identity.strategy,
            }
            journal.append({**named, "turn": 0, "status": OK, "text": text})
            journal.sync()
    said = {(str(row["item"]), str(row["strategy"])): row.get("text") for _, row in read_rows(path)}
    named = {"run": name, "model": source.manifest.model, "kind": table.UNLEARNING}
    rows = [
        {**chain_columns(chain), **named, "right": chain.item.answer, **row}
        for chain in chains
        for row in _read(path, said.get(_key(chain)))
    ]
    try:
        return table.of_rows(rows)
    except (pl.exceptions.PolarsError, TypeError, OverflowError):
        raise ConfigError(f"{path}: a row is not as measured; use --run NEW to begin anew") from None


def _read(path: Path, text: object) -> list[Mapping[str, Any]]:
    """The rows of one chain in the journal."""
    try:
        found = orjson.loads(str(text))
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, list) or not all(
        isinstance(one, dict) and one.get("condition") in table.UNLEARNINGS for one in found
    ):
        raise ConfigError(f"{path}: a row is not as measured; use --run NEW to begin anew")
    return found


def count_unlearnings(source: SourceRun, limit: int) -> Figure:
    """How many steps are unlearned, and how wide the intervals will be."""
    chains = draw_chains(source.chains, limit)
    sizes = Counter(unit_of(chain.item) for chain in chains)
    return Figure(
        "steps unlearned",
        len(chains),
        "chains",
        f"{len(chains)} of {len(sizes)} units; {expect_ends(sizes)[1]}",
        "a chain takes twice up to 12 gradient steps",
        ("--limit", "--where"),
    )
