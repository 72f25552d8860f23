"""What is asked: variants of questions, conditions (--where), and a limit that keeps to what a run drew first.
Every row counts: whatever its status is, it is an outcome in every table, headline and exit code."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from aiohttp import web

import tomserve
from tests.conftest import ROOT, Cli, Endpoint, completion, make_item
from tests.helpers.outcomes import passes
from tomserve import benchmarks, status
from tomserve.engine.transport import Reply
from tomserve.errors import ConfigError, InapplicableError
from tomserve.items import Item, draw, read_ids, write_items
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import read_rows
from tomserve.runs.planning import add_variants, split_variants
from tomserve.runs.runfolder import read_manifest
from tomserve.runs.scores import load_scores
from tomserve.scoring.score import score_row
from tomserve.studies import analyze, load_study, missing_data
from tomserve.variants import AGAIN, CHOICES, KINDS, OBJECT, PARAPHRASE, TAKEN, Kind, make_variant

ITEMS = [make_item(number) for number in range(4)]


def first_choice(body: dict[str, Any], number: int) -> dict[str, Any] | None:
    """The scripted model: it always takes the choice that the schema names first."""
    if body.get("preflight"):
        return None
    prompt = body["messages"][-1]["content"]
    first = min(("tea", "salt"), key=prompt.rfind)
    return completion(f'{{"answer": "{first}"}}')


def retell(item: Item, kind: Kind) -> Item:
    """Tells odd items otherwise, with other names for the choices."""
    if item.id.endswith(("1", "3")):
        choices = [f"the {choice}" for choice in item.choices]
        return make_variant(item, kind, by="rules", question=f"And {item.question}", choices=choices)
    raise InapplicableError("it is even")


def asked(endpoint: Endpoint, **options: Any) -> tomserve.Run:
    endpoint.script = first_choice
    return tomserve.ask(ITEMS, "vanilla", base_url=endpoint.url, **{"run": "r", "variants": "choices", **options})


def test_variants_are_asked_in_the_run_of_their_originals(endpoint: Endpoint) -> None:
    run = asked(endpoint)
    rows = Counter(row["item"] for _, row in read_rows(run.folder / "responses.jsonl"))
    assert rows == {name: 1 for item in ITEMS for name in (item.id, f"{item.id}/choices")}
    assert run.manifest.benchmark_items == len(ITEMS)
    assert run.manifest.complete
    record = run.manifest.variants
    assert (record.kinds, record.made, record.dropped) == (["choices"], {"choices": 4}, {"choices": {}})


def test_the_table_says_each_answer_in_the_words_of_the_original(endpoint: Endpoint) -> None:
    scores = asked(endpoint).scores().sort("item")
    told = scores.filter(pl.col("original_item").is_not_null())
    assert told["original_item"].to_list() == [item.id for item in ITEMS]
    assert set(told["variant_by"]) == {"record"}
    first, last = ITEMS[0].choices.index("tea"), ITEMS[0].choices.index("salt")
    own = scores.filter(pl.col("original_item").is_null())
    assert set(own["original_place"]) == {min(first, last)}  # always the first of the two, whatever stands there
    assert set(told["original_place"]) == {max(first, last)}
    assert "rule_first_choice" in told["original_rules_other"][0]
    assert "rule_always_unknown" in told["original_rules_same"][0]
    assert own["original_rules_same"].null_count() == own.height


def test_other_studies_count_the_originals_alone(endpoint: Endpoint) -> None:
    with_variants = tomserve.analyze(asked(endpoint).scores(), "accuracy")
    without = tomserve.analyze(asked(endpoint, variants=None, run="plain").scores(), "accuracy")
    for name, table in without.items():
        assert with_variants[name].equals(table), name


def test_a_limit_draws_originals_with_their_variants(endpoint: Endpoint) -> None:
    run = asked(endpoint, limit=2)
    names = {row["item"] for _, row in read_rows(run.folder / "responses.jsonl")}
    assert len(names) == 4
    (gap,) = missing_data.gaps_of_source(run.folder, run.scores())
    assert (gap.items, gap.expected, gap.wanted, gap.answered) == (2, 4, 4, 4), "counted in originals"
    assert "covers 2 of 4 questions (50.0%) of its benchmark" in gap.sentences()[0]
    originals = {name for name in names if not name.endswith("/choices")}
    assert names == originals | {f"{name}/choices" for name in originals}


def test_a_run_can_grow_by_variants_and_asks_nothing_twice(endpoint: Endpoint) -> None:
    asked(endpoint, variants=None)
    endpoint.requests.clear()
    run = asked(endpoint)
    assert len([body for body in endpoint.requests if not body.get("preflight")]) == 4
    endpoint.requests.clear()
    asked(endpoint)
    asked(endpoint, variants=None)
    assert not endpoint.requests
    assert run.manifest.complete


def test_t0_asks_originals_again_among_other_numbers_of_requests(endpoint: Endpoint) -> None:
    run = asked(endpoint, variants=["again", "choices"])
    again = [row for _, row in read_rows(run.folder / "noise.jsonl")]
    assert {row["item"] for row in again} == {item.id for item in ITEMS}
    assert len({row["concurrency"] for row in again}) == 2


def test_variants_that_came_with_the_items_are_asked_rather_than_made_again(tmp_path: Path, endpoint: Endpoint) -> None:
    own = [make_variant(item, PARAPHRASE, by="rewriter:other", question="And what is in it?") for item in ITEMS]
    write_items(tmp_path / "items.jsonl", [*ITEMS, *own])
    endpoint.script = first_choice
    run = tomserve.ask(
        "items", "vanilla", base_url=endpoint.url, run="r", path=tmp_path / "items.jsonl", variants="paraphrase,choices"
    )
    scores = run.scores()
    assert Counter(scores["variant"].drop_nulls()) == {"paraphrase": 4, "choices": 4}
    assert set(scores.filter(variant="paraphrase")["variant_by"]) == {"rewriter:other"}


def test_kinds_have_names_and_short_names(endpoint: Endpoint) -> None:
    with pytest.raises(ConfigError, match=r"unknown kind 'colour'.*Known: again, all, choices"):
        asked(endpoint, variants="colour")


def test_what_cannot_be_told_otherwise_is_left_out_and_counted_by_reason() -> None:
    found = add_variants(ItemStore(ITEMS), ItemStore(), (OBJECT, CHOICES), lambda name: retell)
    assert found.made == {"object": 2, "choices": 4}
    assert found.dropped == {"object": {"it is even": 2}, "choices": {}}
    assert found.describe() == "variants of 4 questions: object 2, choices 4; left out: object 2"
    by_id = {item.id: item for item in found.items}
    told = by_id[f"{ITEMS[1].id}/object"]
    assert told.base == ITEMS[1].id
    assert told.meaning(told.answer) == ITEMS[1].answer
    assert told.cluster == ITEMS[1].cluster


def test_a_variant_with_another_right_answer_or_without_a_change_is_left_out() -> None:
    def wrong(item: Item, kind: Kind) -> Item:
        other = next(choice for choice in item.choices if choice != item.answer)
        return make_variant(item, kind, by="record", question="And?", answer=other)

    found = add_variants(ItemStore(ITEMS), ItemStore(), (OBJECT,), lambda name: wrong)
    assert found.dropped == {"object": {"the right answer would change": 4}}
    found = add_variants(
        ItemStore(ITEMS), ItemStore(), (OBJECT,), lambda name: lambda item, kind: make_variant(item, kind, by="rules")
    )
    assert found.dropped == {"object": {"nothing to change": 4}}


def test_a_variant_is_written_and_read_back() -> None:
    told = make_variant(ITEMS[0], KINDS[1], by="record", choices=[f"a {choice}" for choice in ITEMS[0].choices])
    assert Item.from_json(told.to_json()) == told
    assert orjson.loads(told.to_json())["meanings"] == list(ITEMS[0].choices)
    for wrong in (["tea"], ["tea"] * len(told.choices)):
        with pytest.raises(ValueError, match="meanings"):
            Item.from_json(orjson.dumps({**orjson.loads(told.to_json()), "meanings": wrong}))
    with pytest.raises(ValueError, match="names its original"):
        Item.from_json(orjson.dumps({**orjson.loads(told.to_json()), "base": None}))


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"base": "nowhere"}, "item 'v' is a variant of 'nowhere' .* keep the originals together"),
    ({"answer": "salt"}, "item 'v' is a variant of 'item-0' .*its answer do not stand for"),
    ({"choices": ["rice", "oil"], "answer": "rice"}, "item 'v' is a variant of 'item-0' .*say by 'meanings' which"),
    ({"choices": ["tea", "salt", "rice"]}, "item 'v' is a variant of 'item-0' .*say by 'meanings' which"),
    ({"factors": {"variant": 3}}, "item 'v': factor 'variant' is 3; expected the name of a kind"),
    ({"factors": {"variant": ""}}, "item 'v': factor 'variant' is ''; expected"),
    ({"factors": {"variant": AGAIN.name}}, "item 'v': factor 'variant' is 'again'"),  # a kind that makes no items
)


@pytest.mark.parametrize(("update", "expected"), BAD)
def test_a_given_variant_must_fit_its_original(update: dict[str, Any], expected: str, endpoint: Endpoint) -> None:
    own = make_item(0).model_copy(update={"id": "item-0", "choices": ("tea", "salt"), "answer": "tea", "gold": None})
    given = Item.model_validate(make_variant(own, PARAPHRASE, by="rules").model_dump() | {"id": "v"} | update)
    with pytest.raises(ConfigError, match=expected):
        tomserve.ask([own, given], "vanilla", base_url=endpoint.url, run="r")
    assert not endpoint.requests


def test_a_variant_of_a_variant_is_refused() -> None:
    first = make_variant(ITEMS[0], PARAPHRASE, by="rules")
    with pytest.raises(ConfigError, match="no item that is no variant itself has this id"):
        split_variants(ItemStore([ITEMS[0], first, make_variant(first, CHOICES, by="record")]))


def test_no_variant_takes_the_id_of_another_question(endpoint: Endpoint) -> None:
    other = ITEMS[1].model_copy(update={"id": f"{ITEMS[0].id}/choices"})
    endpoint.script = first_choice
    run = tomserve.ask([ITEMS[0], other], "vanilla", base_url=endpoint.url, run="r", variants="choices", limit=2)
    record = run.manifest.variants
    assert (record.made, record.dropped) == ({"choices": 1}, {"choices": {TAKEN: 1}})
    assert set(run.scores()["item"]) == {ITEMS[0].id, other.id, f"{other.id}/choices"}


SMALL = ROOT / "tests/data/bigtom_small.csv"


@pytest.fixture
def ask(cli: Cli, endpoint: Endpoint) -> Cli:
    given = ("--benchmark", "bigtom", "--path", SMALL, "--base-url", endpoint.url, "--strategy", "vanilla")
    return lambda *more: cli("eval", *given, "--no-report", "--run", "mine", *more)


def item_ids(folder: Path, name: str = "responses.jsonl") -> set[str]:
    return {row["item"] for _, row in read_rows(folder / name)}


def test_a_run_may_be_asked_other_conditions_later(ask: Cli, tmp_path: Path) -> None:
    first = passes(ask())
    assert "where headline=true: asks 24 of 116 questions" in first.out + first.err
    folder = tmp_path / "runs/mine"
    usual = {item.id for item in benchmarks.load("bigtom", SMALL)}
    assert item_ids(folder) == usual
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["benchmark_items"] == 24
    assert "where" not in manifest["sessions"][0]
    assert "--limit" not in first.err  # what a benchmark asks by default is no sample of it
    passes(ask("--where", "condition=control", "--where", "init_belief=0"))
    assert item_ids(folder) - usual == {f"bigtom/{number:03d}/backward_belief/control/0" for number in range(1, 5)}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["sessions"][1]["where"] == ["condition=control", "init_belief=0"]
    assert manifest["complete"]


def test_conditions_that_nothing_meets_ask_nothing(ask: Cli, tmp_path: Path) -> None:
    for condition, said in {
        "condition=no": "no item has condition=no",
        "conditon=control": "unknown factor 'conditon'",
        "control": "expected factor=value, or all",
    }.items():
        done = ask("--where", condition)
        assert done.code == 2
        assert said in done.err
        assert not (tmp_path / "runs/mine/responses.jsonl").exists()


def test_a_run_drawn_otherwise_is_finished_and_then_grows(
    endpoint: Endpoint, cli, asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:  # any other seed draws other questions, as an older version did
        older.setattr(draw, "LIMIT_SEED", 5)
        done = cli(*asking, "--limit", 6, "--noise-check", 0.5)
    assert "limit 6: asks 6 of 20 questions\n" in done.out
    before, again = item_ids(tmp_path / "runs/r"), item_ids(tmp_path / "runs/r", "noise.jsonl")
    assert (len(before), len(again)) == (6, 3)
    requests = len(endpoint.requests)

    done = cli(*asking, "--limit", 6, "--noise-check", 0.5)
    assert "nothing left to ask" in done.out
    assert len(endpoint.requests) == requests
    assert (item_ids(tmp_path / "runs/r"), item_ids(tmp_path / "runs/r", "noise.jsonl")) == (before, again)

    cli(*asking, "--limit", 9)
    assert len(item_ids(tmp_path / "runs/r")) == 9
    assert item_ids(tmp_path / "runs/r") > before
    assert set(read_ids(tmp_path / "runs/r/items.jsonl")) == item_ids(tmp_path / "runs/r")
    manifest = read_manifest(tmp_path / "runs/r")
    assert manifest["complete"] is True


FAILURES = (
    *(status.REFUSAL, status.TIMEOUT, status.CONNECTION, status.MALFORMED, status.UNFINISHED),
    *map(status.http, (0, 7, 100, 201, 302, 400, 404, 500, 599, 600, 999, 123456789)),
)
UNKNOWN = (
    *("done", "OK", "ok ", "http_", "http_-1", "http_5xx", "success"),
    *("\x1b]0;title\x07" + "x" * 99, "http_" + "9" * 99),
)


def test_every_http_status_is_an_outcome_everywhere(endpoint: Endpoint, cli, asking, tmp_path: Path) -> None:
    code = 600
    endpoint.script = lambda body, n: web.Response(status=code, text="{}") if n % 2 else None
    done = cli(*asking, "--report")
    assert done.code == 1, done.err
    assert f"failures: 10 http_{code}; repeat the command to ask again" in done.out
    assert not read_manifest(tmp_path / "runs/r")["complete"]
    assert re.search(r"vanilla .* 50% \[", done.out)
    scores = pl.read_parquet(tmp_path / "runs/r/scores.parquet")
    assert dict(scores["status"].value_counts().iter_rows()) == {"ok": 10, f"http_{code}": 10}
    assert scores.filter(pl.col("status") != "ok")["correct"].to_list() == [False] * 10
    page = (tmp_path / "runs/r/report.html").read_text()
    assert "tiny, vanilla: 10 of 20 without an answer (50.0%)." in page
    analyzed = cli("analyze", "r", "--study", "accuracy", "--format", "csv", "--out", tmp_path / "tables")
    assert (analyzed.code, analyzed.err.count("\n")) == (0, 1)
    assert f"r: 10 of 20 answers (50.0%) did not come (10 http_{code}); they count as wrong." in analyzed.err
    assert (tmp_path / "tables/accuracy.csv").read_text().splitlines()[1].startswith("tiny,vanilla,10,20,0.5,")
    endpoint.script = lambda body, n: None
    endpoint.requests.clear()
    again = cli(*asking)
    assert (again.code, len(endpoint.requests)) == (0, 10), "what failed is asked again, and nothing else"
    assert read_manifest(tmp_path / "runs/r")["complete"]


def test_what_each_status_means() -> None:
    assert {"ok", "length", "refusal", "http_400", "http_413", "http_422"} == status.FINAL
    assert {"ok", "length"} == status.ANSWERS
    assert status.UNFINISHED not in status.FINAL, "a conversation without its last turn is to go on"
    for name in FAILURES:
        assert status.known(name), name
        assert status.inert(name) == name
    again = {name for name in (*FAILURES, *UNKNOWN, "ok", "length") if status.transient(name)}
    assert again == {"timeout", "connection", "malformed", "http_500", "http_599"}
    for name in UNKNOWN:
        assert not status.known(name), name
        assert name not in status.FINAL
        assert status.inert(name) not in status.ANSWERS
        assert len(status.inert(name)) <= status.LONGEST
        assert status.inert(name).isprintable()
    assert Reply(status.UNFINISHED).final is False


def test_every_row_is_scored_and_only_answers_can_be_right() -> None:
    for name in (*FAILURES, *UNKNOWN):
        row = {"item": "demo/1", "strategy": "cot", "turn": 0, "status": name, "text": '{"answer": "tea"}'}
        scored = score_row("r", "m", make_item(), row, True)
        assert (scored["status"], scored["answer"], scored["correct"]) == (status.inert(name), None, False)
        assert scored["chain_lcs"] == 0.0


@pytest.mark.parametrize("name", ["timeout", "unfinished", "http_0", "http_999", "OK", UNKNOWN[-2]])
def test_a_table_with_any_status_counts_every_row(name: str, tmp_path: Path) -> None:
    table = [
        {"model": "m", "strategy": "vanilla", "item": f"i{n}", "status": name if n < 2 else "ok", "correct": True}
        for n in range(6)
    ]
    pl.DataFrame(table).write_parquet(tmp_path / "t.parquet")
    said: list[str] = []
    scores = load_scores(str(tmp_path / "t.parquet"), note=said.append)
    found = analyze(scores, load_study("accuracy"))["accuracy"].row(0, named=True)
    assert (found["correct"], found["total"], found["failed"]) == (4, 6, 2)
    assert scores["status"].to_list() == [status.inert(name)] * 2 + ["ok"] * 4
    warning = f"rows of an unknown status count as failures: 2 {status.inert(name)}; known: ok, length, refusal"
    assert [line.partition(": ")[2][: len(warning)] for line in said] == [] if status.known(name) else [warning]
