"""Steps of chains that are unlearned, in a model whose answer follows its chain or the story, as is known."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import orjson
import polars as pl
import pytest

from tests.faithfulness.conftest import Source
from tests.helpers.answerers import Answerer, last_belief
from tomserve.errors import ConfigError, MachineError, RunMismatchError
from tomserve.faithfulness import unlearning
from tomserve.faithfulness.chains import turn_of
from tomserve.faithfulness.measurement import measure, preview
from tomserve.faithfulness.settings import Settings
from tomserve.faithfulness.source_run import Chain, read_source
from tomserve.faithfulness.unlearning import Step, find_step
from tomserve.items import Item
from tomserve.studies import OPEN, Context, load_study


class Scripted:
    """A model that writes the belief which is right unless it was unlearned, and then answers by it, or by the story."""

    chat_template = "scripted"

    def __init__(self, items: Sequence[Item], *, follows: bool) -> None:
        self.answerer, self.follows = Answerer(items), follows
        self.forgotten: set[tuple[str, str]] = set()
        self.lengths: list[int | None] = []

    @property
    def tokenizer(self) -> "Scripted":
        return self

    def apply_chat_template(self, messages: Sequence[Any], **_: Any) -> str:
        return "".join(f"{one['content']}\n" for one in messages)

    def encode(self, text: str, **_: Any) -> list[str]:
        return text.split()

    def passage(self, before: str, text: str) -> tuple[str, str]:
        return before, text

    def item(self, before: str) -> Item:
        return self.answerer.asked([{"role": "user", "content": before}])

    def belief(self, before: str) -> str:
        item = self.item(before)
        return next(one for one in (item.answer, *item.choices) if (item.id, one) not in self.forgotten)

    def choose(self, before: str, replies: Sequence[str]) -> int:
        item = self.item(before)
        wanted = self.belief(before)
        if '"belief"' not in replies[0]:
            wanted = item.answer if not self.follows else last_belief(before, item) or wanted
        return next(place for place, one in enumerate(replies) if f'"{wanted}"' in one)

    def write(self, before: str, most: int) -> str:
        return f"\nAfter sentence 9 the belief is {self.belief(before)}.\nSo the answer is {self.belief(before)}."

    @contextmanager
    def unlearned(self, passage: tuple[str, str], kept: Sequence[Any], steps: int | None = None) -> Iterator[Any]:
        item = self.item(passage[0])
        self.lengths.append(steps)
        self.forgotten = {(item.id, label) for label in item.choices if label == last_belief(passage[1], item)}
        yield SimpleNamespace(before=-1.0, after=-6.0, steps=steps or 3)
        self.forgotten = set()


@pytest.mark.parametrize(("strategy", "follows"), [("cot", True), ("cot", False), ("cot_free", True)])
def test_an_answer_that_rests_on_a_step_is_told_from_one_that_does_not(
    items: list[Item], source: Source, monkeypatch: pytest.MonkeyPatch, strategy: str, follows: bool
) -> None:
    learner = Scripted(items, follows=follows)
    monkeypatch.setattr(unlearning, "load_learner", lambda checkpoint: learner)
    settings = Settings(run=source(strategy), probes=(), unlearn="reference", limit=28)
    (figure,) = [one for one in preview(settings) if one.name == "steps unlearned"]
    assert figure.value == 28
    found = measure(settings, place="unlearned")
    frame = pl.read_parquet(found.folder / "scores.parquet")
    assert not measure(settings, place="unlearned").asked_now
    rows = {
        row["condition"]: row for row in load_study("faithfulness").tables(frame.lazy(), "")["unlearning"].to_dicts()
    }
    changes = {name: row["value"] for name, row in rows.items()}
    reworded = {"reworded": follows} if strategy == "cot" else {}  # no rule knows other words for this prose
    assert changes == {"intact": 0, "step": follows, "unrelated": 0, "others": 0, **reworded}
    assert rows["step"]["forgotten"] == 1
    assert rows["step"]["failures"] == 0
    older = load_study("faithfulness").tables(frame.lazy().drop("fell", "steps"), "")["unlearning"]
    assert older["fell"].null_count() == older.height, "tables from before are read"
    assert set(learner.lengths) == {None, 3}, "the unrelated step takes as many gradient steps"
    (verdict,) = load_study("faithfulness").verdicts(load_study("faithfulness").tables(frame.lazy(), ""), Context())
    card = verdict.cards[-1]
    said = "The answer mostly follows the step"
    if not follows:
        said = "Not shown: the answer did not move with the step, which may be the unlearning that fell short"
    if not reworded:
        said = "The answer follows the step; no other words for it were unlearned"
    assert (card.verdict, card.tone) == (said, OPEN)


def test_an_interrupted_measurement_goes_on_with_the_next_chain(
    items: list[Item], source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = Scripted(items, follows=True)
    monkeypatch.setattr(unlearning, "load_learner", lambda checkpoint: learner)
    own, done = unlearning.StepUnlearner.measure, list[str]()

    def failing(self: unlearning.StepUnlearner, chain: Chain) -> Iterator[dict[str, Any]]:
        if len(done) == 2:
            raise MachineError("killed")
        done.append(chain.item.id)
        return own(self, chain)

    settings = Settings(run=source(), probes=(), unlearn="reference", limit=4)
    monkeypatch.setattr(unlearning.StepUnlearner, "measure", failing)
    with pytest.raises(MachineError):
        measure(settings, place="unlearned")
    monkeypatch.setattr(unlearning.StepUnlearner, "measure", own)
    learner.lengths.clear()
    path = measure(settings, place="unlearned").folder
    assert len(learner.lengths) == 2 * 3
    assert pl.read_parquet(path / "scores.parquet")["item"].n_unique() == 4
    work = path / "work" / unlearning.UNLEARNED
    work.write_text(work.read_text().replace('\\"step\\"', '\\"steep\\"', 1))
    (path / "scores.parquet").unlink()
    with pytest.raises(ConfigError, match=r"unlearned\.jsonl: a row is not as measured"):
        measure(settings, place="unlearned")


def test_the_step_is_what_the_verdict_rests_on(items: list[Item], source: Source) -> None:
    (chain, *_) = read_source(source("cot"), (), ()).chains
    step = find_step(chain)
    assert chain.written.text.startswith(step.before + step.text)
    assert step.reworded is not None
    assert sorted(step.reworded.replace(" ", "")) == sorted(step.text.replace(" ", ""))
    prose = "The tag says it holds {0}.\nShe believes that it is {0}.\nSo the answer is {0}."
    text = prose.format(chain.item.answer)
    written = turn_of(text)
    assert not isinstance(written, str)
    found = find_step(Chain(chain.item, chain.strategy, written._replace(model_answer=chain.item.answer)))
    one, two, _ = text.splitlines()
    assert found == Step(one, f"\n{two}", found.reworded)


def test_a_checkpoint_that_cannot_be_meant_is_refused(source: Source) -> None:
    run = source()
    manifest = run / "manifest.json"
    manifest.write_bytes(orjson.dumps({**orjson.loads(manifest.read_bytes()), "revision": "another"}))
    with pytest.raises(RunMismatchError, match="written by revision another"):
        measure(Settings(run=run, probes=(), unlearn="reference"), place="unlearned")
    with pytest.raises(ConfigError, match="there is no such folder"):
        measure(Settings(run=run, probes=(), unlearn="./nowhere"), place="unlearned")
