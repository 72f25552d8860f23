"""The noise floor: what is asked again, at what, what of it counts, and where a reader finds it beside an effect."""

import functools
import random
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import orjson
import polars as pl
import pytest
from aiohttp import web
from scipy.stats import binomtest
from tenacity import wait_none

from tests.conftest import Endpoint, completion
from tests.helpers.command import TOMSERVE, until
from tests.helpers.outcomes import passes, refuses_in_a_line
from tomserve.engine.retry import RetryPolicy
from tomserve.runs import noise_check, planning
from tomserve.runs.journal import read_rows
from tomserve.runs.scores import load_scores
from tomserve.stats.proportions import exact
from tomserve.studies import noise

CROWD = 4
"""Requests that the run itself has in flight; the server of these tests answers otherwise above that."""


@pytest.fixture
def asking(endpoint: Endpoint, items_file: Path) -> list[str]:
    """The command: twenty items, two strategies, four in flight."""
    given = {"--benchmark": "items", "--path": items_file, "--base-url": endpoint.url, "--run": "r"}
    return ["eval", *(str(word) for pair in given.items() for word in pair), "--concurrency", str(CROWD)]


def number_of(body: dict) -> int:
    """Of the item that a request asks about."""
    return int(re.findall(r"Jar number (\d+)", body["messages"][-1]["content"])[-1])


def crowded(endpoint: Endpoint, before: int) -> None:
    """Answer so many requests at once, and the others only when more than CROWD have met."""
    endpoint.hold = lambda body: len(endpoint.requests) > before and endpoint.peak <= CROWD


def unsteady(endpoint: Endpoint, every: int = 5) -> None:
    """Make the server answer every fifth question otherwise once more than CROWD are in flight: with vanilla another
    answer, with cot another chain to the same one."""
    crowded(endpoint, 80)  # 40 of the run, and 40 with one in flight

    def script(body: dict, n: int):
        if body.get("preflight") or endpoint.peak <= CROWD or number_of(body) % every:
            return None
        if "beliefs" not in body["response_format"]["json_schema"]["schema"]["properties"]:
            return completion('{"answer": "salt"}')
        beliefs = [{"sentence": place, "belief": "salt"} for place in (1, 2, 3)]
        return completion(orjson.dumps({"beliefs": beliefs, "answer": "tea"}).decode())

    endpoint.script = script


def rows(tmp_path: Path, name: str = "noise.jsonl") -> list[dict]:
    return [row for _, row in read_rows(tmp_path / "runs/r" / name)]


def manifest(tmp_path: Path) -> dict:
    return orjson.loads((tmp_path / "runs/r/manifest.json").read_bytes())


def test_flips_of_a_server_that_depends_on_its_batches_are_counted(endpoint, cli, asking, tmp_path: Path) -> None:
    unsteady(endpoint)
    done = cli(*asking, "--noise-check", 1)
    assert (done.code, done.err) == (0, "")
    assert "noise check: 40 of 40 answers to ask again, 1 in flight" in done.out
    assert (
        "noise floor: 40 answers re-asked at 1 and 64 in flight: 4 answers (10.0%, 2.8% to 23.7%) and 4 chains changed; "
        "only 40 were there to be in flight at 64, a larger share fills it" in done.out
    )
    told = {"share": 1.0, "seed": 0, "items": 20, "of": 20, "concurrencies": [1, 64], "other_engines": []}
    assert manifest(tmp_path)["noise"] == told
    assert "noise check           of 20 items, at 1 and 64 in flight: 80 rows of noise.jsonl" in cli("runs", "r").out
    scores = load_scores("r")
    assert scores["correct"].all(), "what was asked again was scored as an answer"
    floor = noise.noise_floor(scores)
    columns = ["strategy", "in_flight", "compared", "texts_changed", "answers_changed", "chains_changed"]
    assert floor.select(*columns, "right_to_wrong", "wrong_to_right").rows() == [
        ("vanilla", "1", 20, 0, 0, None, 0, 0),
        ("vanilla", "64", 20, 4, 4, None, 4, 0),
        ("vanilla", "any", 20, 4, 4, None, 4, 0),
        ("cot", "1", 20, 0, 0, 0, 0, 0),
        ("cot", "64", 20, 4, 0, 4, 0, 0),
        ("cot", "any", 20, 4, 0, 4, 0, 0),
    ]
    assert floor.filter(strategy="vanilla")["noise"].to_list() == [0.0, 0.2, 0.2]


def test_the_same_bytes_are_sent_with_so_many_in_flight(endpoint, cli, asking, tmp_path: Path) -> None:
    assert cli(*asking).code == 0
    first, endpoint.requests, endpoint.peak = endpoint.requests, [], 0
    crowded(endpoint, 40)
    done = cli(*asking, "--noise-check", 1)
    assert "40 answers re-asked at 1 and 64 in flight: 0 answers (0.0%, 0.0% to 8.8%) and 0 chains changed" in done.out
    assert Counter(map(orjson.dumps, endpoint.requests)) == Counter(list(map(orjson.dumps, first)) * 2)
    assert CROWD < endpoint.peak <= 40
    keys = {(row["item"], row["strategy"]): row["key"] for row in rows(tmp_path, "responses.jsonl")}
    assert len(rows(tmp_path, "responses.jsonl")) == 40
    assert Counter((row["item"], row["strategy"], row["key"], row["concurrency"]) for row in rows(tmp_path)) == Counter(
        (*identity, key, level) for identity, key in keys.items() for level in (1, 64)
    )


def test_a_larger_share_asks_only_what_is_new(endpoint, cli, asking, tmp_path: Path) -> None:
    cli(*asking, "--noise-check", 0.01)
    few = {row["item"] for row in rows(tmp_path)}
    assert (len(few), len(rows(tmp_path))) == (1, 4)  # at least one
    cli(*asking, "--noise-check", 0.25)
    assert few < {row["item"] for row in rows(tmp_path)}
    assert max(Counter((row["item"], row["strategy"], row["concurrency"]) for row in rows(tmp_path)).values()) == 1
    assert len(rows(tmp_path)) == 20
    asked = len(endpoint.requests)
    done = cli(*asking[:-1], 16, "--noise-check", 0.1)
    assert "nothing left to ask" in done.out
    assert "noise floor: 10 answers" in done.out
    assert len(endpoint.requests) == asked
    told = manifest(tmp_path)["noise"]
    assert (told["share"], told["items"]) == (0.25, 5)


@pytest.mark.parametrize("share", ["0", "1.01", "nan", "much"])
def test_what_is_no_share_is_refused(cli, asking, endpoint, share: str) -> None:
    refuses_in_a_line(cli(*asking, "--noise-check", share), "--noise-check")
    assert not endpoint.requests


@pytest.mark.parametrize(
    ("own", "chosen"), [([], (1, 64)), ([4], (1, 64)), ([1], (16, 64)), ([64], (1, 16)), ([100], (1, 16)), ([16, 1], (1, 64))]
)  # fmt: skip
def test_numbers_in_flight_are_others_than_the_runs(own: list[int], chosen: tuple[int, ...]) -> None:
    assert noise_check.choose_levels(own) == chosen


def test_another_engine_than_the_one_that_answered_is_named(endpoint, cli, asking, tmp_path: Path) -> None:
    assert "warning" not in cli(*asking).out
    path = tmp_path / "runs/r/manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"0.0.test"', b'"0.0.old"'))
    said = (
        "warning: earlier answers of this run came from engine 0.0.old; an answer that changes in the noise check may "
        "do so because of that engine rather than by chance"
    )
    assert said in cli(*asking, "--noise-check", 0.1).out
    assert manifest(tmp_path)["server"]["engine_version"] == "0.0.old", "asking again is no session that answered"
    assert manifest(tmp_path)["noise"]["other_engines"] == ["0.0.old"]
    assert "answers came from 0.0.old" in cli("runs", "r").out


@pytest.mark.system
def test_a_check_that_was_stopped_goes_on_where_it_was(endpoint, cli, asking, tmp_path: Path) -> None:
    endpoint.hold = lambda body: len(endpoint.requests) > 47  # 40 of the run, and 7 of the check
    path = tmp_path / "runs/r/noise.jsonl"
    command = [*TOMSERVE, *asking, "--no-report", "--noise-check", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert until(lambda: len(endpoint.requests) > 47)
        process.send_signal(signal.SIGINT)
        endpoint.hold = lambda body: False
        _, err = process.communicate()
    kept = rows(tmp_path)
    assert 7 <= len(kept) < 40
    assert manifest(tmp_path)["complete"] is True  # the run itself is
    assert process.returncode == 130
    assert b"of 40 left to ask again, 1 in flight, everything else is kept" in err
    with path.open("ab") as file:
        file.write(b'{"schema":1,"item":"demo/')
    assert "noise floor: " in cli("score", "r").out, "half a line keeps nobody from scoring"
    before = len(endpoint.requests)
    done = passes(cli(*asking, "--noise-check", 1))
    assert "noise.jsonl: the last line was torn by a crash; moved to noise.torn-" in done.out
    assert rows(tmp_path)[: len(kept)] == kept
    assert set(Counter((r["item"], r["strategy"], r["concurrency"]) for r in rows(tmp_path)).values()) == {1}
    assert len(endpoint.requests) - before == 80 - len(kept)
    assert "40 answers re-asked at 1 and 64 in flight: 0 answers" in done.out


def test_what_fails_is_no_flip_and_what_was_no_answer_is_not_asked_again(
    endpoint, cli, asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = functools.partial(planning.EvalOptions, policy=RetryPolicy(attempts=1, wait=wait_none()))
    monkeypatch.setattr(planning, "EvalOptions", once)
    failing = {7}
    crowded(endpoint, 78)  # 40 of the run, and 38 with one in flight

    def script(body: dict, n: int):
        if body.get("preflight"):
            return None
        if number_of(body) == 3:
            return web.json_response({"error": {"message": "no"}}, status=400)
        fails = endpoint.peak > CROWD and number_of(body) in failing
        return web.json_response({}, status=500) if fails else None

    endpoint.script = script
    done = cli(*asking, "--noise-check", 1)
    assert done.code == 1, "the run's own failures count, as ever"
    assert {row["item"] for row in rows(tmp_path)} == {f"demo/{n}" for n in range(1, 21) if n != 3}
    assert Counter(row["status"] for row in rows(tmp_path)) == {"ok": 74, "http_500": 2}
    assert "not compared: 2 without an answer" in done.out
    floor = noise.noise_floor(load_scores("r")).filter(strategy="vanilla")
    assert floor.select("in_flight", "compared", "not_compared").rows() == [("1", 19, 0), ("64", 18, 1), ("any", 19, 0)]
    failing.clear()
    before = len(endpoint.requests)
    assert "not compared" not in cli(*asking, "--noise-check", 1).out
    assert len(endpoint.requests) - before == 2


def test_everything_is_there_offline_and_the_same_every_time(endpoint, cli, asking, tmp_path: Path) -> None:
    unsteady(endpoint)
    cli(*asking, "--noise-check", 1)
    table, answers = tmp_path / "runs/r/scores.parquet", tmp_path / "runs/r/noise.jsonl"
    first, lines = table.read_bytes(), answers.read_bytes().splitlines(keepends=True)
    answers.write_bytes(b"".join(random.Random(1).sample(lines, len(lines))))
    assert "noise floor: 40 answers re-asked at 1 and 64 in flight: 4 answers (10.0%" in cli("score", "r").out
    assert table.read_bytes() == first, "the order in which answers came is none of the table's"
    cli("score", "r", "--out", tmp_path / "s.csv")  # the score table is the interface: all of it is in there
    assert noise.noise_floor(load_scores(str(tmp_path / "s.csv"))).equals(noise.noise_floor(pl.read_parquet(table)))
    answers.write_bytes(b"".join(lines[:40]))  # a check that goes on makes the table stale
    assert noise.noise_floor(load_scores("r"))["in_flight"].to_list() == ["1", "any"] * 2
    many = [row for row in map(orjson.loads, lines) if row["concurrency"] == 64]
    other = {**many[0], "key": "another request", "text": '{"answer": "salt"}'}
    repeated = {**many[1], "reused": True, "text": '{"answer": "salt"}'}
    answers.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in (other, repeated)))
    assert "noise floor" not in cli("score", "r").out
    assert noise.noise_line(load_scores("r")) is None


def test_the_floor_stands_beside_every_effect(endpoint, cli, asking, tmp_path: Path) -> None:
    unsteady(endpoint)
    assert "cannot be told from batching noise" in cli(*asking, "--noise-check", 1, "--all").out
    study = tmp_path / "study.py"
    study.write_text(
        "import polars as pl\n"
        "def tables(scores, intervals):\n"
        "    effect = {'model': ['tiny'], 'strategy': ['vanilla'], 'risk_difference': [0.1]}\n"
        "    return {'mine': pl.DataFrame(effect)}\n"
        "from tomserve.studies import Study\n"
        "STUDY = Study(name='mine', tables=tables)\n"
    )
    for name in ("accuracy", study):
        passes(cli("analyze", "r", "--study", name, "--format", "csv", "--out", tmp_path / "tables"))
    read = {path.stem: pl.read_csv(path) for path in (tmp_path / "tables").glob("*.csv")}
    high = exact(4, 20).high + exact(0, 20).high
    assert read["prompting_effects"].select("noise", "noise_high").row(0) == pytest.approx((0.2, high))  # both sides
    assert read["mine"].row(0)[:4] == ("tiny", "vanilla", 0.1, 0.4)  # vanilla on both sides
    assert "mine: Column noise says how far batching alone" in (tmp_path / "tables/notes.txt").read_text()
    cli("score", "r", "--out", tmp_path / "s.parquet")
    compared = cli("compare", "r", tmp_path / "s.parquet", "--all").out
    assert "noise floor: A: 40 answers re-asked" in compared
    assert "noise_high" in compared


def test_an_effect_gets_the_noise_of_the_arms_it_compares() -> None:
    lists = {"noise_compared": [[1], [1], [1], None], "noise_answer": [[1], None, None, None]}
    arms = {"model": ["m", "m", "m", "n"], "strategy": ["cot", "cot", "vanilla", "cot"], "correct": [True] * 4}
    scores = pl.DataFrame({**arms, **lists})
    effects = [
        ("m", None, "cot", "vanilla"),
        ("m", "cot", None, None),
        ("n", "cot", None, None),
        ("m", "vanilla", "deceptive", "filler"),
        ("m", None, "cot", "other"),
    ]
    frame = pl.DataFrame(effects, ["model", "strategy", "treatment", "control"], orient="row")
    found = noise.with_noise({"effects": frame.with_columns(risk_difference=0.0)}, scores)["effects"]
    assert found["noise"].to_list() == [0.5, 1.0, None, 0.0, 1.0]


def test_flips_of_one_side_are_not_diluted_by_the_other() -> None:
    """10 of 20 on one side and none of 1,000 on the other can move a difference by a half."""
    assert noise.noise_reach([(20, 10), (1000, 0)])["noise"] == 0.5
    assert noise.noise_reach([(100, 10), (100, 10)])["noise"] == pytest.approx(0.2)
    assert noise.noise_reach([(100, 10)])["noise"] == pytest.approx(0.2)
    assert noise.noise_reach([(10, 9), (10, 9)]) == {"noise": 1.0, "noise_high": 1.0}
    assert noise.noise_reach([(0, 0), (5, 1)]) == {"noise": None, "noise_high": None}


def test_the_exact_interval_is_clopper_and_pearsons() -> None:
    for k, n in ((0, 20), (2, 43), (20, 20)):
        found, other = exact(k, n), binomtest(k, n).proportion_ci(method="exact")
        assert (found.estimate, found.low, found.high) == pytest.approx((k / n, other.low, other.high))


def test_a_broken_file_of_the_check_does_not_take_the_run_down(asking, cli, tmp_path: Path) -> None:
    assert cli(*asking, "--noise-check", 0.1).code == 0
    for broken in (b"garbage\n", b"", b'{"item": "gone", "strategy": "cot", "concurrency": 1}\n'):
        (tmp_path / "runs/r/noise.jsonl").write_bytes(broken)
        for again in (("score", "r"), ("analyze", "r", "--study", "accuracy")):
            assert cli(*again).code == 0
    assert cli(*asking).code == 0
