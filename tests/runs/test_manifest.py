"""The manifest as a typed object, and what a run's rows tell of conversations of several turns."""

from pathlib import Path

import orjson
import pytest

import tomserve
from tests.conftest import ROOT, Endpoint, make_item
from tests.helpers.talking import FAN_OUT, write_strategy
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.items import write_items
from tomserve.prompting.strategy import Strategy
from tomserve.runs.evaluation import open_evaluation
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
        ({"benchmark": "left out"}, "benchmark: is missing; expected a text; restore the file"),
        ({"schema": 2}, "schema is not 1; it was written by another version"),
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_named(tmp_path: Path, change: dict, said: str) -> None:
    manifest = {**orjson.loads(EXAMPLE.read_bytes()), **change}
    kept = {name: value for name, value in manifest.items() if value != "left out"}
    (tmp_path / "manifest.json").write_bytes(orjson.dumps(kept))
    with pytest.raises(ConfigError, match=f"manifest.json: {said}"):
        Manifest.read(tmp_path)


def test_turns_are_recorded_only_where_there_are_several(tmp_path: Path) -> None:
    assert AskedStrategy.of(Strategy.load("vanilla")).model_fields_set == {"digest", "max_tokens", "chain"}
    two = Strategy(write_strategy(tmp_path / "two", 2))
    assert AskedStrategy.of(two).model_dump(exclude_unset=True)["turns"] == 2
    program = Strategy(write_strategy(tmp_path / "free", 3, FAN_OUT))
    assert AskedStrategy.of(program).model_dump(exclude_unset=True)["turns"] == 0, "only its program knows"


# two turns: the journal is written by hand


def row(item: str, turn: int, status: str = "ok", text: str | None = '{"answer": "tea"}', **more: object) -> bytes:
    fields = {"schema": 1, "item": item, "strategy": "talk", "turn": turn, "key": f"{item}{turn}", "status": status}
    closes = {"closes": 2} if turn == 1 and status == "ok" else {}
    return orjson.dumps({**fields, "text": text, **closes, **more}) + b"\n"


@pytest.fixture
def conversations(tmp_path: Path, endpoint: Endpoint) -> Path:
    """A run of seven questions: both turns answered, the last missing, the last failed, the first failed, nothing; the
    last right after a wrong first one; the first refused."""
    folder = tmp_path / "runs/talk"
    folder.mkdir(parents=True)
    items = [make_item(number) for number in range(1, 8)]
    write_items(folder / "items.jsonl", items)
    wrong = '{"answer": "salt"}'
    lines = [row("demo/1", 0), row("demo/1", 1), row("demo/2", 0), row("demo/3", 0), row("demo/3", 1, "timeout", None)]
    lines += [row("demo/4", 0, "http_500", None), row("demo/6", 0, text=wrong), row("demo/6", 1)]
    lines += [row("demo/7", 0, "refusal", "No.", closes=1)]
    write_strategy(tmp_path / "talk", 2)
    with open_evaluation(options(endpoint, items, tmp_path)) as evaluation:
        evaluation.save()
    (folder / "responses.jsonl").write_bytes(b"".join(lines))
    return folder


def options(endpoint: Endpoint, items: list[tomserve.Item], tmp_path: Path) -> EvalOptions:
    asked = (str(tmp_path / "talk"),)
    return EvalOptions("demo", tuple(items), strategies=asked, base_urls=(endpoint.url,), run="talk")


def test_only_a_finished_conversation_is_scored(conversations: Path) -> None:
    scores = tomserve.load_scores("talk").sort("item")
    assert scores.select("item", "status", "answer", "correct").rows() == [
        ("demo/1", "ok", "tea", True),
        ("demo/2", "unfinished", None, False),
        ("demo/3", "unfinished", None, False),
        ("demo/4", "unfinished", None, False),
        ("demo/6", "ok", "tea", True),
        ("demo/7", "refusal", None, False),
    ]
    total = tomserve.analyze(scores, "accuracy")["accuracy"]
    assert total.select("correct", "total").row(0) == (2, 6), "an unfinished one counts as a failure"


def test_every_turn_counts_for_what_is_left(conversations: Path, endpoint: Endpoint, tmp_path: Path) -> None:
    items = list(tomserve.read_items(conversations / "items.jsonl"))
    with open_evaluation(options(endpoint, items, tmp_path)) as evaluation:
        phase = next(evaluation.phases())
        left = [("demo/2", 1), ("demo/3", 1), *((f"demo/{number}", turn) for number in (4, 5) for turn in (0, 1))]
        assert phase.count() == (6, 13, 0, True), "a refusal of the first turn spares the second"
        assert evaluation.complete() is False
        assert evaluation.result().total == 13
        assert evaluation.result().failures == {"http_500": 1, "refusal": 1, "timeout": 1, "unfinished": 1}
    with (conversations / "responses.jsonl").open("ab") as file:
        file.writelines(row(*turn) for turn in left)
    with open_evaluation(options(endpoint, items, tmp_path)) as evaluation:
        assert next(evaluation.phases()).count().left == 0
        assert (evaluation.complete(), evaluation.result().failures) == (True, {"refusal": 1})
    assert tomserve.Run.open("talk").manifest.turns("talk") == 2
    assert tomserve.load_scores("talk")["status"].to_list() == ["ok"] * 6 + ["refusal"]


def test_a_strategy_that_gained_a_turn_is_refused(conversations: Path, endpoint: Endpoint, tmp_path: Path) -> None:
    write_strategy(tmp_path / "talk", 3)
    with (
        pytest.raises(RunMismatchError, match=r"strategy 'talk', digest was .* when it was asked, now it is"),
        open_evaluation(options(endpoint, list(tomserve.read_items(conversations / "items.jsonl")), tmp_path)),
    ):
        pass
