"""The pages of a run, its answers, one answer and comparisons, as somebody's browser gets them."""

import html
import io
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from fastapi.testclient import TestClient

from tests.conftest import ROOT
from tests.helpers.examples import change_manifest, copied_example
from tests.helpers.workbenches import client, lab, member, settled, signed_in
from tomserve.runs.runfolder import RunFolder
from tomserve.runs.scores import load_scores
from tomserve.web import answers as web_answers
from tomserve.web import page_templates, run_index
from tomserve.web.run_index import Card, Job

ITEM = "C1/add_unrelated_information/informed_protagonist/belief/swapped"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(ROOT))
    copied_example(tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def person(runs: Path) -> TestClient:
    del runs
    return client()


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


def test_the_page_of_a_run_has_the_panels_of_its_report(person: TestClient) -> None:
    first = person.get("/run/example")
    assert first.status_code == 200
    assert 'hx-get="/run/example"' in first.text
    page = settled(person, "/run/example").text
    for part in ('id="verdicts"', 'id="tables"', 'id="failures"', 'id="provenance"', 'id="table-accuracy"', "<svg"):
        assert part in page
    assert 'id="table-by_kind"' in settled(person, "/run/example?study=accuracy&by=kind").text
    assert person.get("/run/example?study=../../etc/passwd").status_code == 404
    assert person.get("/run/example?study=/tmp/evil.py").status_code == 404
    part = person.get("/run/example", headers={"HX-Request": "true"}).text
    assert "<html" not in part
    assert 'id="verdicts"' in part
    assert "style=" not in page
    assert "<script>" not in page


def test_the_shares_of_several_benchmarks_are_named(runs: Path, person: TestClient) -> None:
    items = runs / "example/items.jsonl"
    items.write_text(items.read_text("utf-8").replace('"benchmark":"perturbed"', '"benchmark":"mine"', 40), "utf-8")
    assert "vanilla<small>mine</small>" in settled(person, "/run/example").text
    assert "vanilla, mine</span>" in settled(person, "/").text


def test_a_measured_run_has_its_page(runs: Path, person: TestClient) -> None:
    shutil.copytree(ROOT / "runs/functional-example/inside", runs / "inside")
    page = settled(person, "/run/inside").text
    assert 'id="verdicts"' in page
    assert 'id="failures"' not in page
    assert "has no answers" in settled(person, "/answers/inside").text
    assert "cannot be compared question by question" in settled(person, "/compare?a=inside&b=example").text


def test_runs_that_hold_nothing_yet_say_so(runs: Path, person: TestClient) -> None:
    (runs / "example/responses.jsonl").unlink()
    assert "nothing was answered yet" in settled(person, "/run/example").text
    assert person.get("/run/none").status_code == 404
    assert person.get("/run/../../etc").status_code == 404


def test_a_run_that_goes_on_shows_what_there_is(runs: Path, person: TestClient) -> None:
    with RunFolder(runs / "example"):
        page = person.get("/run/example").text
        assert "is in progress" in page
        assert 'href="/live/example"' in page
        address = html.unescape(re.findall(r'href="(/run/example\?[^"]*upto=\d+)"', page)[0])
        assert 'id="verdicts"' in settled(person, address).text
        answers = person.get("/answers/example").text
        assert "newest replies" in answers
        assert answers.count("<tr>") == 51
        one = person.get("/answer/example", params={"item": ITEM, "strategy": "cot"})
        assert "Exactly as sent" in one.text


def test_answers_are_listed_and_each_has_its_page(person: TestClient) -> None:
    page = settled(person, "/answers/example?outcome=wrong&f.stage=C1&sort=answer").text
    assert "74 wrong" in text_of(page)
    links = [html.unescape(link) for link in re.findall(r'href="(/answer/[^"]+)"', page)]
    wrong = load_scores("example").filter(pl.col("correct").not_(), stage="C1")
    assert len(links) == wrong.height
    one = person.get(links[1]).text
    assert f'href="{html.escape(links[0])}"' in one
    assert f'href="{html.escape(links[2])}"' in one
    assert "chain breaks here" in person.get("/answer/example", params={"item": ITEM, "strategy": "cot"}).text
    assert person.get("/answer/example?item=none&strategy=cot").status_code == 404


def test_a_reply_of_millions_of_characters_costs_a_page_little(person: TestClient, monkeypatch) -> None:
    monkeypatch.setattr(page_templates, "LONGEST", 20)
    monkeypatch.setattr(web_answers, "LONGEST", 20)
    about = {"params": {"item": ITEM, "strategy": "cot"}}
    settled(person, "/answers/example")
    assert re.search(r">[^<]{20} … \(the first 20 of \d+ characters\)<", person.get("/answer/example", **about).text)
    monkeypatch.setattr(web_answers, "index_of", lambda _: None)
    refused = person.get("/api/v1/answer/example", **about)
    assert (refused.status_code, "too many to be scored while a page waits" in refused.text) == (422, True)


def test_notes_and_tags_are_kept_and_scores_made_anew(runs: Path, person: TestClient) -> None:
    answer = person.post("/run/example", data={"notes": "<b>mine</b>", "tags": "a, b ,a"}, follow_redirects=False)
    assert answer.status_code == 303
    card = run_index.read_card(runs / "example")
    assert (card.notes, card.tags) == ("<b>mine</b>", ("a", "b"))
    assert "&lt;b&gt;mine&lt;/b&gt;" in person.get("/run/example").text
    assert person.post("/run/example", data={"tags": "x" * 41}).status_code == 422
    answer = person.post("/run/example", data={"action": "rescore"}, follow_redirects=False)
    assert "Rescored." in text_of(settled(person, answer.headers["location"]).text)


@pytest.mark.system
def test_scores_report_tables_and_experiment_can_be_taken_away(runs: Path, person: TestClient) -> None:
    for form in ("parquet", "csv", "jsonl"):
        found = settled(person, f"/download/example?what=scores&form={form}")
        assert found.headers["content-disposition"] == f'attachment; filename="example.{form}"'
        rows = pl.read_parquet(io.BytesIO(found.content)).height if form == "parquet" else len(found.text.splitlines())
        assert rows == 352 + (form == "csv")
    report = settled(person, "/download/example?what=report")
    assert "attachment" in report.headers["content-disposition"]
    assert "<!doctype html>" in report.text
    settled(person, "/run/example")
    table = person.get("/download/example?what=table&table=accuracy&form=latex")
    assert "\\toprule" in table.text
    for strange in ("table=../x&form=csv", "table=accuracy&form=html", "table=&form=csv"):
        assert person.get(f"/download/example?what=table&{strange}").status_code == 404
    (runs / "example/experiment.yaml").write_text("schema: 1\n")
    assert person.get("/download/example?what=experiment").text == "schema: 1\n"
    (runs / "example/experiment.yaml").unlink()
    (runs / "example/experiment.yaml").symlink_to("/etc/passwd")
    assert person.get("/download/example?what=experiment").status_code == 404


def test_strategies_and_runs_are_compared_on_a_page_and_a_margin_that_is_none_is_refused(
    runs: Path, person: TestClient
) -> None:
    shutil.copytree(runs / "example", runs / "more/second")
    change_manifest(runs / "more/second", sampling={"temperature": 0.7, "seed": 0})
    assert person.get("/compare").status_code == 200
    page = settled(person, "/compare?a=example&sa=vanilla&sb=cot").text
    assert "6 gained" in text_of(page)
    link = html.unescape(re.findall(r'href="(/compare/item[^"]+)"', page)[0])
    settled(person, "/answers/example")
    assert "B: example" in text_of(person.get(link).text)
    table = person.get("/compare/download?a=example&sa=vanilla&sb=cot&what=flips&form=csv")
    assert len(table.text.splitlines()) == 21
    assert person.get("/compare/download?a=example&sa=vanilla&sb=cot&what=x").status_code == 404
    several = settled(person, "/compare?b=example&b=more/second&b=example&sa=vanilla&sb=cot").text
    assert several.count('"n">−5.0<') == 2
    assert several.count("<td>A by vanilla, B by cot</td>") == 2
    assert "⚠ B was sampled at temperature 0.7 instead of 0.0" in several
    assert 'href="/compare?a=example&amp;b=more%2Fsecond' in several
    assert person.get("/compare/item?a=example&sa=vanilla&sb=cot&item=none").status_code == 404
    assert person.get("/compare?a=example&sa=vanilla&sb=cot&margin=2").status_code in (400, 422)


def test_only_who_may_changes_a_run(runs: Path) -> None:
    run_index.write_card(runs / "example", Card(owner="ada", job=Job()))
    app = lab()
    assert member(app, "ben").post("/run/example", data={"notes": "x"}).status_code == 403
    assert "<textarea" not in member(app, "eve").get("/run/example").text
    ada = signed_in(app, "ada")
    assert ada.post("/run/example", data={"notes": "x"}).status_code == 403  # the form's own token is missing
    page = ada.get("/run/example").text
    token = re.findall(r'name="csrf" value="([^"]+)"', page)[0]
    data = {"csrf": token, "notes": "x", "private": "yes"}
    assert ada.post("/run/example", data=data, follow_redirects=False).status_code == 303
    assert run_index.read_card(runs / "example").private
    for more, private in (({}, True), ({"private": "no"}, False)):  # a box that is not checked says no
        ada.post("/run/example", data={"csrf": token, "notes": "y", **more})
        assert run_index.read_card(runs / "example").private is private
    assert re.search(r'name="private" value="no">.*type="checkbox" name="private"', page)
    assert run_index.read_card(runs / "example").job is not None
