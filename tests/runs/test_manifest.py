"""The manifest as a typed object, and conversations of several turns as far as they can be told today."""

from pathlib import Path

import orjson
import pytest

import tomserve
from tests.conftest import ROOT, Endpoint, make_item
from tomserve.engine.request import Identity
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.items import write_items
from tomserve.prompting.strategy import Strategy
from tomserve.runs.evaluation import opened
from tomserve.runs.manifest import AskedStrategy, Manifest
from tomserve.runs.planning import EvalOptions
from tomserve.runs.runfolder import RunFolder

EXAMPLE = ROOT / "runs/example/manifest.json"


def test_what_is_read_is_written_again_with_fields_nobody_knows_yet(tmp_path: Path) -> None:
    given = orjson.loads(EXAMPLE.read_bytes())
    given["shard"] = {"index": 1, "of": 4}
    given["sessions"][0]["cost"] = 2.5
    given["strategies"]["cot"]["program"] = "sha256:1"
    (tmp_path / "manifest.json").write_bytes(orjson.dumps(given))
    found = Manifest.read(tmp_path)
    assert found is not None
    assert found.to_dict() == given
    with RunFolder(tmp_path) as folder:
        folder.write_manifest(found)
    assert orjson.loads((tmp_path / "manifest.json").read_bytes()) == given


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"strategies": {"cot": {"digest": 5}}}, "strategies.cot.digest: expected a text; found 5; restore the file"),
        ({"strategies": {"cot": {"turns": "two"}}}, "strategies.cot.turns: expected a whole number; found 'two'"),
        ({"sessions": [{"concurrency": "many"}]}, "sessions.0.concurrency: expected a whole number; found 'many'"),
        ({"sessions": {}}, "sessions: expected a list; found an empty mapping"),
        ({"noise": {"concurrencies": [1, "64"]}}, "noise.concurrencies.1: expected a whole number; found '64'"),
        ({"complete": "yes"}, "complete: expected true or false; found 'yes'"),
        ({"model": None}, "model: expected a text; found nothing"),
        ({"schema": 2}, "schema is not 1; it was written by another version"),
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_named(tmp_path: Path, change: dict, said: str) -> None:
    (tmp_path / "manifest.json").write_bytes(orjson.dumps({**orjson.loads(EXAMPLE.read_bytes()), **change}))
    with pytest.raises(ConfigError, match=f"manifest.json: {said}"):
        Manifest.read(tmp_path)


def test_a_field_that_is_missing_is_named(tmp_path: Path) -> None:
    given = orjson.loads(EXAMPLE.read_bytes())
    del given["benchmark"]
    (tmp_path / "manifest.json").write_bytes(orjson.dumps(given))
    with pytest.raises(ConfigError, match=r"manifest.json: benchmark: is missing; expected a text; restore the file"):
        Manifest.read(tmp_path)


def test_turns_are_recorded_only_where_there_are_several(two_turns: None) -> None:
    assert AskedStrategy.of(Strategy.load("vanilla")).model_dump(exclude_unset=True)["turns"] == 2


def test_choices_shown_by_letter_are_recorded_only_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "strategy.yaml").write_text("schema: 1\ndescription: x\nmax_tokens: 5\nlettered: true\n")
    (tmp_path / "user.j2").write_text("{{ question }} A. {{ choices[0] }} B. {{ choices[1] }}")
    assert AskedStrategy.of(Strategy(tmp_path)).model_dump(exclude_unset=True)["lettered"] is True


def test_one_turn_leaves_the_manifest_as_it_was() -> None:
    assert AskedStrategy.of(Strategy.load("vanilla")).model_fields_set == {"digest", "max_tokens", "chain"}


# two turns: no strategy has them yet, so the test declares them, and writes the journal by hand


@pytest.fixture
def two_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every strategy declares two turns."""
    monkeypatch.setattr(Strategy, "turns", 2)


def row(item: str, turn: int, status: str = "ok", text: str | None = '{"answer": "tea"}') -> bytes:
    fields = {"schema": 1, "item": item, "strategy": "vanilla", "turn": turn, "key": f"{item}{turn}", "status": status}
    return orjson.dumps({**fields, "text": text}) + b"\n"


@pytest.fixture
def conversations(tmp_path: Path, endpoint: Endpoint, two_turns: None) -> Path:
    """A run of six questions: both turns answered, the last missing, the last failed, the first failed, nothing; and
    the last right after a wrong first one."""
    folder = tmp_path / "runs/talk"
    folder.mkdir(parents=True)
    items = [make_item(number) for number in range(1, 7)]
    write_items(folder / "items.jsonl", items)
    wrong = '{"answer": "salt"}'
    lines = [row("demo/1", 0), row("demo/1", 1), row("demo/2", 0), row("demo/3", 0), row("demo/3", 1, "timeout", None)]
    lines += [row("demo/4", 0, "http_500", None), row("demo/6", 0, text=wrong), row("demo/6", 1)]
    with opened(options(endpoint, items)) as evaluation:
        evaluation.save()
    (folder / "responses.jsonl").write_bytes(b"".join(lines))
    return folder


def options(endpoint: Endpoint, items: list[tomserve.Item]) -> EvalOptions:
    return EvalOptions("demo", tuple(items), strategies=("vanilla",), base_urls=(endpoint.url,), run="talk")


def test_only_a_finished_conversation_is_scored(conversations: Path) -> None:
    scores = tomserve.load_scores("talk").sort("item")
    assert scores.select("item", "status", "answer", "correct").rows() == [
        ("demo/1", "ok", "tea", True),
        ("demo/2", "unfinished", None, False),
        ("demo/3", "timeout", None, False),
        ("demo/4", "unfinished", None, False),
        ("demo/6", "ok", "tea", True),
    ]
    total = tomserve.analyze(scores, "accuracy")["accuracy"]
    assert total.select("correct", "total").row(0) == (2, 5), "an unfinished one counts as a failure"


def test_every_turn_counts_for_what_is_left(conversations: Path, endpoint: Endpoint) -> None:
    items = list(tomserve.read_items(conversations / "items.jsonl"))
    with opened(options(endpoint, items)) as evaluation:
        phase = next(evaluation.phases())
        left = {identity for identity in phase.identities() if identity not in evaluation.journal.final}
        assert left == {
            Identity("demo/2", "vanilla", 1),
            Identity("demo/3", "vanilla", 1),
            *(Identity(f"demo/{number}", "vanilla", turn) for number in (4, 5) for turn in (0, 1)),
        }
        assert (phase.left(), phase.total(), len(evaluation.plan.questions)) == (6, 12, 12)
        assert evaluation.complete() is False
        assert evaluation.result().failures == {"http_500": 1, "timeout": 1, "unfinished": 1}
    with (conversations / "responses.jsonl").open("ab") as file:
        file.writelines(row(identity.item, identity.turn) for identity in left)
    with opened(options(endpoint, items)) as evaluation:
        assert (phase.left(), evaluation.complete(), evaluation.result().failures) == (6, True, {})
    assert tomserve.Run.open("talk").manifest.turns("vanilla") == 2
    assert tomserve.load_scores("talk")["status"].to_list() == ["ok"] * 6


def test_a_strategy_that_gained_a_turn_needs_another_run(conversations: Path, endpoint: Endpoint, monkeypatch) -> None:
    monkeypatch.setattr(Strategy, "turns", 3)
    with (
        pytest.raises(RunMismatchError, match="strategy 'vanilla', turns was 2 when it was asked, now it is 3"),
        opened(options(endpoint, list(tomserve.read_items(conversations / "items.jsonl")))),
    ):
        pass
