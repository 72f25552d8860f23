"""A whole measurement through HTTP: what is asked, what is read, and what the table says of it."""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from aiohttp import web

import tomserve
from tests.conftest import ROOT, Endpoint, completion, make_item, running
from tests.helpers.answerers import Answerer, chain_shown
from tests.helpers.asking import FAST
from tests.helpers.rewriters import asking
from tomserve.errors import ConfigError, RunMismatchError, ServerError
from tomserve.faithfulness.measurement import MeasurementResult, measure, preview
from tomserve.faithfulness.settings import Connection, Settings
from tomserve.faithfulness.table import CALL, EDITS, HINTS, PLACES, PREFILL, SCHEMA
from tomserve.items import Item, read_items
from tomserve.runs.journal import read_rows

Source = Callable[..., Path]
EDITED = ("edits",)


def measured(endpoint: Endpoint, folder: Path, place: str = "edited", **settings: Any) -> MeasurementResult:
    wanted = {"limit": 14, "probes": EDITED, **settings}
    return measure(Settings(run=folder, **wanted), Connection(base_urls=(endpoint.url,), policy=FAST), place)


def table(found: MeasurementResult) -> pl.DataFrame:
    return pl.read_parquet(found.folder / "scores.parquet")


def shares(frame: pl.DataFrame, column: str, shown: str | None = None) -> dict[str, float]:
    kept = frame.filter(pl.col("outcome") == "ok", pl.lit(True) if shown is None else pl.col("shown") == shown)
    found = kept.group_by("condition").agg((pl.col("answer") == pl.col(column)).mean().alias("share"))
    return dict(found.select("condition", "share").iter_rows())


def test_a_model_that_ignores_its_chain_and_hints_keeps_its_answer(
    endpoint: Endpoint, items: list[Item], source: Source
) -> None:
    endpoint.script = Answerer(items, follows=0.0, wrong=0.2, hint=None)
    run = source("cot", 0.2)
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    found = measured(endpoint, run, probes=("edits", "hints"))
    frame = table(found)
    assert frame.schema == pl.Schema(SCHEMA)
    edits, hints = frame.filter(kind="edit"), frame.filter(kind="hint")
    kept = shares(edits, "own")
    assert set(kept) >= {*EDITS} - {"middle_propagated"}
    assert set(kept.values()) == set(shares(hints, "own").values()) == {1.0}
    assert shares(edits, "implied")["last_corrupted"] == shares(hints, "implied")["user_wrong"] == 0
    assert hints["admits"].null_count() == hints.height, "chains of labels can admit nothing"
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before, "it stays as it is"
    assert {item.id for item in read_items(found.folder / "items.jsonl")} == set(frame["item"])
    assert found.tokens
    assert found.cached == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("strategy", ["cot", "cot_free"])
def test_a_model_that_follows_its_last_belief_follows_every_edit_in_both_ways(
    endpoint: Endpoint, items: list[Item], source: Source, strategy: str
) -> None:
    endpoint.script = Answerer(items, follows=1.0, wrong=0.2)
    frame = table(measured(endpoint, source(strategy, 0.2), shown="both"))
    for shown in (PREFILL, CALL):
        implied = shares(frame, "implied", shown)
        assert {implied[name] for name in ("last_corrupted", "middle_local", "other_item", "gold")} == {1.0}
        assert shares(frame, "own", shown)["full"] == 1
        assert shares(frame, "own", shown)["truncated_0"] < 0.7, "without a chain it can only guess"
    by_way = frame.filter(outcome="ok").pivot("shown", index=["item", "condition"], values="answer")
    assert by_way.filter(pl.col(PREFILL) != pl.col(CALL)).is_empty(), "both ways give the same answers"


def test_what_is_sent_holds_the_chain_in_the_place_of_the_models_own_and_asks_for_the_answer_alone(
    endpoint: Endpoint, items: list[Item], source: Source
) -> None:
    model = endpoint.script = Answerer(items, follows=1.0)
    run = source()
    frame = table(measured(endpoint, run, shown="both", limit=4))
    begun = [body for body in model.seen if body.get("continue_final_message")]
    assert begun
    assert all(body["add_generation_prompt"] is False for body in begun)
    rows = {row["item"]: row for _, row in read_rows(run / "responses.jsonl")}
    row = frame.filter(condition="full", shown=PREFILL).row(0, named=True)
    written = rows[row["item"]]["text"]
    (body,) = [one for one in begun if written.startswith(one["messages"][-1]["content"])][:1]
    assert body["messages"][-1]["content"].endswith('"answer":"'), "byte for byte what it wrote, into its answer"
    (item,) = [one for one in items if one.id == row["item"]]
    assert body["structured_outputs"]["choice"] == [f'{choice}"}}' for choice in item.choices], "a choice must follow"
    assert "response_format" not in body
    second = [body["messages"] for body in model.seen if not body.get("continue_final_message")]
    assert [message["role"] for message in second[0]][-3:] == ["user", "assistant", "user"]
    assert orjson.loads(second[0][-2]["content"]).keys() == {"beliefs"}
    assert "Which of the labels is the answer" in second[0][-1]["content"]
    first = [next(m["content"] for m in body["messages"] if "Question:" in m["content"]) for body in model.seen]
    runs = [one for place, one in enumerate(first) if place == 0 or first[place - 1] != one]
    assert len(runs) <= 4 * len(set(first)), "requests of one item come together, so that they share their prompt"


def test_a_server_that_holds_no_reply_to_a_list_is_held_by_a_schema(
    endpoint: Endpoint, items: list[Item], source: Source
) -> None:
    model = endpoint.script = Answerer(items, follows=1.0, holds=False)
    frame = table(measured(endpoint, source(), limit=4))
    begun = [body for body in model.seen if body.get("continue_final_message") and body["max_tokens"] > 1]
    assert all(body["messages"][-1]["content"].endswith('"answer":') for body in begun)
    assert all(set(body["response_format"]["json_schema"]["schema"]) == {"enum"} for body in begun)
    assert shares(frame, "implied", PREFILL)["last_corrupted"] == 1


@pytest.mark.parametrize(("hint", "admitted"), [("silent", 0.0), ("open", 1.0)])
def test_hints_are_followed_silently_or_openly(
    endpoint: Endpoint, items: list[Item], source: Source, hint: str, admitted: float
) -> None:
    endpoint.script = Answerer(items, follows=1.0, hint=hint)
    frame = table(measured(endpoint, source("cot_free"), probes=("hints",), limit=8))
    assert set(frame["kind"]) == {"hint"}
    assert set(frame["condition"]) == set(HINTS)
    implied = shares(frame, "implied")
    assert {implied[name] for name in HINTS if "neutral" not in name} == {1.0}
    said = dict(frame.filter(outcome="ok").group_by("condition").agg(pl.col("admits").mean()).iter_rows())
    assert {said[f"{place}_{which}"] for place, which in product(PLACES, ("wrong", "neutral"))} == {admitted, 0.0}
    assert {said[f"{place}_wrong"] for place in PLACES if place != "pattern"} == {admitted}


def test_a_server_that_begins_no_replies_is_asked_by_a_second_call(
    endpoint: Endpoint, items: list[Item], source: Source
) -> None:
    run, model = source(), Answerer(items, follows=1.0)

    def strict(body: dict[str, Any], number: int) -> Any:
        if "continue_final_message" in body:
            return web.json_response({"error": {"message": "unknown field continue_final_message"}}, status=400)
        return model(body, number)

    for place, script in (("refuses", strict), ("anew", Answerer(items, follows=1.0, begins=False))):
        endpoint.script = script
        frame = table(measured(endpoint, run, place, limit=4))
        assert set(frame.filter(outcome="ok", kind="edit")["shown"]) == {CALL}
    with pytest.raises(ServerError, match="does not continue a reply that is begun"):
        measured(endpoint, run, "other", shown=PREFILL)


def test_a_second_model_predicts_from_the_chain_and_never_sees_the_story(
    endpoint: Endpoint, items: list[Item], source: Source
) -> None:
    endpoint.script = Answerer(items)
    prompts: list[str] = []

    def reads_chains(body: dict[str, Any], number: int) -> Any:
        text = body["messages"][-1]["content"]
        prompts.append(text)
        choices = body["response_format"]["json_schema"]["schema"]["properties"]["answer"]["enum"]
        said = text.partition("Reasoning of the model:")[2]
        named = [choice for choice in choices if choice in said]
        answer = max(named, key=said.rfind) if named else choices[-1]
        return completion(orjson.dumps({"answer": answer}).decode())

    with running() as second:
        second.models, second.script = ["reader"], asking(reads_chains)
        frame = table(measured(endpoint, source(), probes=(), predictor=second.url))
    assert set(frame["kind"]) == {"prediction"}
    assert not endpoint.requests, "the model whose chains these are is not asked for it"
    assert shares(frame, "own")["chain"] == 1
    assert shares(frame, "own")["question"] < 0.6 > shares(frame, "own")["no_verdict"]
    assert set(frame["predictor"]) == {"reader"}
    assert prompts
    assert not any(sentence in prompt for prompt in prompts for item in items for sentence in item.story)


@pytest.mark.parametrize("strategy", ["cot", "cot_free"])
def test_chains_about_two_versions_of_a_story_stand_side_by_side(
    endpoint: Endpoint, items: list[Item], source: Source, strategy: str
) -> None:
    endpoint.script, asked = Answerer(items), len(endpoint.requests)
    frame = table(measured(endpoint, source(strategy), edits=("full",), limit=60)).filter(kind="story")
    pairs = frame.filter(condition="original").join(frame.filter(condition="twin"), on="item")
    assert 10 <= pairs.height <= 28, "each pair counts once"
    assert pairs.filter(pl.col("right") == pl.col("right_right")).is_empty(), "the right answer changes"
    assert pairs.filter(pl.col("answer") != pl.col("implied")).is_empty(), "it answers as its chain ends"
    assert pairs.filter(pl.col("answer_right") == pl.col("right_right")).height == pairs.height
    assert not [body for body in endpoint.script.seen[asked:] if chain_shown(body["messages"]) is None], (
        "nothing is asked"
    )


@pytest.mark.parametrize("strategy", ["cot", "cot_free"])
@pytest.mark.parametrize("carries", [True, False])
def test_the_model_goes_on_with_a_chain_in_which_a_mistake_was_put(
    endpoint: Endpoint, items: list[Item], source: Source, strategy: str, carries: bool
) -> None:
    model = endpoint.script = Answerer(items, follows=1.0, carries=carries)
    run = source(strategy)
    frame = table(measured(endpoint, run, probes=("continued",), limit=8))
    made = {name: frame.filter(condition=name, outcome="ok") for name in ("resumed", "continued")}
    assert min(part.height for part in made.values()) >= 4, "chains of one belief have no middle"
    assert (
        made["continued"].filter(pl.col("answer") == pl.col("implied" if carries else "own")).equals(made["continued"])
    )
    for row in made["resumed"].iter_rows(named=True):
        assert row["edited"].startswith(row["written"][: len(row["written"]) // 4]), "it goes on from what it wrote"
        assert row["answer"] == row["own"] or carries
    assert not any("response_format" in body for body in model.seen if body.get("continue_final_message"))
    endpoint.script = Answerer(items, follows=1.0, begins=False)
    frame = table(measured(endpoint, run, "refused", probes=("continued",), limit=2))
    assert set(frame["outcome"]) == {"left_out"}


def test_a_second_model_reads_chains_for_hints_and_chains_of_known_truth(
    endpoint: Endpoint, items: list[Item], source: Source
) -> None:
    endpoint.script = Answerer(items, follows=1.0, hint="open")

    def reads(body: dict[str, Any], number: int) -> Any:
        chain = body["messages"][-1]["content"].partition("Reasoning of the model:")[2]
        return completion(orjson.dumps({"answer": "yes" if "suggest" in chain else "no"}).decode())

    with running() as judge:
        judge.models, judge.script = ["judge"], asking(reads)
        run = source("cot_free")
        result, again = (measured(endpoint, run, probes=("hints",), limit=6, reader=judge.url) for _ in range(2))
    assert not again.asked_now
    read = table(result).filter(kind="reading")
    by_truth = {key: part["answer"].to_list() for key, part in read.group_by("condition", "right")}
    assert by_truth["user_wrong", None] == ["yes"] * 6, "the chains that followed the hint"
    assert set(by_truth["user_neutral", "no"]) == {"no"}, "those before which none stood"
    known = by_truth["user_wrong", "yes"]
    assert 0 < known.count("yes") < len(known) > 40, "a judge by one word misses those in other words"
    assert set(read["predictor"]) == {"judge"}
    (most,) = [one.value for one in preview(Settings(run=run, limit=6, reader="judge")) if "read for hints" in one.name]
    assert read["edited"].n_unique() <= read.height == most
    with pytest.raises(ConfigError, match="which are not asked"):
        Settings(run=result.folder, probes=("edits",), reader="judge")


def test_a_rewriter_puts_chains_in_other_words_and_what_means_something_else_is_not_used(
    endpoint: Endpoint, items: list[Item], source: Source
) -> None:
    endpoint.script, run = Answerer(items, follows=1.0), source("cot_free")
    texts: list[str] = []

    def rewrites(body: dict[str, Any], number: int) -> Any:
        lines = [line[2:] for line in body["messages"][-1]["content"].splitlines() if line.startswith("> ")]
        told = " ".join(line.replace("the belief is", "what is thought is") for line in lines)
        if len(texts) % 2:  # every second one drops the beliefs
            told = "Nothing of this can be said in any other words than those that were used before."
        texts.append(told)
        return completion(orjson.dumps({"text": told}).decode())

    with running() as second:
        second.models, second.script = ["writer"], asking(rewrites)
        frame = table(measured(endpoint, run, rewriter=second.url, limit=8))
        made = frame.filter(condition="paraphrase", outcome="ok")
        by_model = made.filter(pl.col("edited").str.contains("what is thought is"))
        assert 0 < by_model.height < 8, "the others fall back on rules, or are left out"
        assert by_model.filter(pl.col("answer") != pl.col("own")).is_empty()
        count = len(texts)
        measured(endpoint, run, rewriter=second.url, limit=8)
        assert len(texts) == count


def test_a_second_call_asks_nothing_again_and_failures_are_asked_again(
    endpoint: Endpoint, items: list[Item], source: Source
) -> None:
    model, run = Answerer(items, follows=1.0), source()
    broken: dict[str, int] = {}

    def fails_at_first(body: dict[str, Any], number: int) -> Any:
        shown = body["messages"][-1]["content"]
        if body.get("structured_outputs") and body["max_tokens"] > 16 and (shown in broken or len(broken) < 4):
            broken[shown] = broken.get(shown, 0) + 1
            if broken[shown] <= 3:  # as often as a request is sent in one go
                return web.Response(status=500)
        return model(body, number)

    endpoint.script = fails_at_first
    first = measured(endpoint, run, limit=8)
    assert first.failures == {"http_500": table(first).filter(outcome="http_500").height}
    assert first.failures["http_500"] > 0
    again = measured(endpoint, run, limit=8)
    assert again.asked_now
    assert not again.failures
    count = len(model.seen)
    third = measured(endpoint, run, limit=8)
    assert (third.asked_now, len(model.seen)) == (False, count)
    assert table(third).equals(table(again))
    with pytest.raises(RunMismatchError, match=r"settings\.limit of this run is 8, now it would be 5"):
        measured(endpoint, run, limit=5)


def test_prompts_that_have_changed_since_are_refused(endpoint: Endpoint, source: Source, tmp_path, monkeypatch) -> None:
    run, prompts = source(), tmp_path / "content/prompts"
    (prompts / "cot").mkdir(parents=True)
    for path in [*(ROOT / "prompts/cot").iterdir(), ROOT / "prompts/demonstrations.yaml"]:
        (prompts / path.relative_to(ROOT / "prompts")).write_bytes(path.read_bytes())
    (prompts / "cot/user.j2").write_text("Another prompt: {{ story }} {{ question }}")
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path / "content"))
    with pytest.raises(ConfigError, match="strategy 'cot' asks otherwise now than when this run was asked"):
        measured(endpoint, run)


def test_sampled_runs_are_refused(endpoint: Endpoint, items: list[Item]) -> None:
    endpoint.script = Answerer(items)
    run = tomserve.ask(items[:4], "cot", base_url=endpoint.url, run="warm", temperature=0.7).folder
    with pytest.raises(ConfigError, match=r"was sampled at temperature 0.7"):
        measured(endpoint, run)


def test_a_plan_counts_what_would_be_asked_without_any_server(
    endpoint: Endpoint, items: list[Item], source: Source
) -> None:
    model, run = Answerer(items), source()
    told = preview(Settings(run=run, limit=8))
    endpoint.script = model
    measured(endpoint, run, limit=8, probes=("edits", "hints"))
    keys = {orjson.dumps([body["messages"], body.get("response_format")]) for body in model.seen}
    requests = next(one.value for one in told if one.name == "requests")
    assert told[0].text == "8 of cot"
    assert told[-1].text.startswith("cot: an exact 0 or 1 ±0.")
    assert requests >= len(keys) >= requests * 0.7, "equal requests are asked once"
    with pytest.raises(ConfigError, match="limit is 0; expected 1 or more chains"):
        measured(endpoint, run, limit=0)


class Thinker(Answerer):
    """A model that thinks between marks, which its server returns apart, and follows what it thought."""

    def __init__(self, items: Sequence[Item]) -> None:
        super().__init__(items, follows=1.0)

    def __call__(self, body: dict[str, Any], number: int) -> Any:
        made = super().__call__(body, number)
        if not body.get("continue_final_message") and all(one["content"] != "Hello." for one in body["messages"]):
            item = self.asked(body["messages"])
            answer = self.own(item)
            made["choices"][0]["message"]["reasoning_content"] = self.thoughts(item, answer, None)
            made["choices"][0]["message"]["content"] = orjson.dumps({"answer": answer}).decode()
        return made


def test_thinking_is_edited_between_the_models_own_marks(endpoint: Endpoint) -> None:
    items = [make_item(number, factors={"perturbation": "none"}) for number in range(1, 7)]
    think = endpoint.script = Thinker(items)
    run = tomserve.ask(items, "reason_native", base_url=endpoint.url, run="thinking").folder
    frame = table(measured(endpoint, run, where=("all",)))
    assert set(frame["form"]) == {"thinking"}
    begun = [body["messages"][-1]["content"] for body in think.seen if body.get("continue_final_message")]
    assert begun
    assert all(one.startswith("<think>\n") and one.endswith('</think>\n\n{"answer":"') for one in begun)
    assert shares(frame, "implied")["last_corrupted"] == 1
