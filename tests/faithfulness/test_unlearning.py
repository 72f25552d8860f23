"""Steps of chains that are unlearned, in a model whose answer follows its chain or the story, as is known."""

from collections.abc import Callable, Iterator, Sequence
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
from tomserve.faithfulness.unlearning import find_step
from tomserve.items import Item
from tomserve.studies import GOOD, OPEN, Context, load_study


class Scripted:
    """A model that writes the belief which is right unless it was unlearned, and then answers by it, or by the story;
    or it never answers what was unlearned, whatever its chain says (shares)."""

    chat_template = "scripted"

    def __init__(self, items: Sequence[Item], *, follows: bool, shares: bool = False) -> None:
        self.answerer, self.follows, self.shares = Answerer(items), follows, shares
        self.forgotten: set[tuple[str, str]] = set()
        self.lengths: list[int] = []

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
            told = last_belief(before, item)
            wanted = wanted if self.shares else item.answer if not self.follows else told or wanted
        return next(place for place, one in enumerate(replies) if f'"{wanted}"' in one)

    def write(self, before: str, most: int) -> str:
        item, end = self.item(before), self.belief(before)
        told = last_belief(before, item)
        if (item.id, told) in self.forgotten and before.endswith(f"is {told}."):  # the step was put back
            return f"\nSo the answer is {told}."
        return f"\nAfter sentence 9 the belief is {end}.\nSo the answer is {end}."

    @contextmanager
    def unlearned(
        self, passage: tuple[str, str], kept: Sequence[Any], until: int | Callable[[], bool]
    ) -> Iterator[Any]:
        item = self.item(passage[0])
        enough = isinstance(until, int) or until()
        self.forgotten = {(item.id, label) for label in item.choices if label == passage[1]}
        assert not enough or isinstance(until, int), "the step is still written before it is unlearned"
        assert isinstance(until, int) or until()
        self.lengths.append(until if isinstance(until, int) else 0)
        yield SimpleNamespace(before=-1.0, after=-6.0, steps=3)
        self.forgotten = set()


@pytest.mark.parametrize(
    ("strategy", "follows", "shares", "said"),
    [
        ("cot", True, False, "The answer mostly follows the step"),
        ("cot", False, False, "The answer mostly does not follow the step"),
        ("cot", False, True, "The answer mostly does not follow the step"),
        ("cot_free", True, False, "The answer mostly follows the step"),
    ],
)
def test_an_answer_that_rests_on_a_step_is_told_from_one_that_does_not(
    items: list[Item],
    source: Source,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    follows: bool,
    shares: bool,
    said: str,
) -> None:
    learner = Scripted(items, follows=follows, shares=shares)
    monkeypatch.setattr(unlearning, "load_learner", lambda checkpoint: learner)
    settings = Settings(run=source(strategy), probes=(), unlearn="reference", limit=28)
    (figure,) = [one for one in preview(settings) if one.name == "steps unlearned"]
    assert figure.value == 28
    found = measure(settings, place="unlearned")
    frame = pl.read_parquet(found.folder / "scores.parquet")
    assert not measure(settings, place="unlearned").asked_now
    study = load_study("faithfulness")
    rows = {row["condition"]: row for row in study.tables(frame.lazy(), "")["unlearning"].to_dicts()}
    changes = {name: row["value"] for name, row in rows.items()}
    assert changes == {"intact": 0, "step": follows or shares, "put_back": shares, "others": 0, "unrelated": 0}
    assert rows["put_back"]["difference"] == follows
    assert (rows["step"]["forgotten"], rows["step"]["failures"]) == (1, 0)
    assert set(learner.lengths) == {0, 3}, "the unrelated step takes as many gradient steps"
    (verdict,) = study.verdicts(study.tables(frame.lazy(), ""), Context())
    card = verdict.cards[-1]
    assert (card.verdict, card.tone) == (said, GOOD if follows else OPEN)


def test_an_interrupted_measurement_goes_on_with_the_next_chain(items: list[Item], source: Source, monkeypatch) -> None:
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
    assert len(learner.lengths) == 2 * 2
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
    assert step.text[step.start :].startswith(step.label)
    assert step.label == chain.item.answer
    prose = "The tag says it holds {0}.\nShe believes that it is {0}.\nSo the answer is {0}."
    text = prose.format(chain.item.answer)
    written = turn_of(text)
    assert not isinstance(written, str)
    found = find_step(Chain(chain.item, chain.strategy, written._replace(model_answer=chain.item.answer)))
    one, two, _ = text.splitlines()
    assert found[:3] == (one, f"\n{two}", chain.item.answer)
    assert found.text[found.start :] == f"{found.label}."
    assert (found.names(two), found.names("It is gone.")) == (True, False)


def test_a_checkpoint_that_cannot_be_meant_is_refused(source: Source) -> None:
    run = source()
    manifest = run / "manifest.json"
    manifest.write_bytes(orjson.dumps({**orjson.loads(manifest.read_bytes()), "revision": "another"}))
    with pytest.raises(RunMismatchError, match="written by revision another"):
        measure(Settings(run=run, probes=(), unlearn="reference"), place="unlearned")
    with pytest.raises(ConfigError, match="there is no such folder"):
        measure(Settings(run=run, probes=(), unlearn="./nowhere"), place="unlearned")
