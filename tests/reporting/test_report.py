"""The HTML report without a browser: what it says, and that nothing in it can run. tests/interop/test_artefact.py has the
same runs give the same bytes."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import make_item
from tests.helpers.reports import PAYLOADS, Elements, data_of, run_folder
from tomserve.benchmarks.perturbed.stages import PERTURBATIONS
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.reporting.html import item_browser as items_module
from tomserve.reporting.html import page as page_module
from tomserve.reporting.html.charts import Line, Picture, Point, points
from tomserve.reporting.html.report import report_html, write_report
from tomserve.reporting.html.sources import load_sources, provenance
from tomserve.runs.scores import load_scores
from tomserve.scoring.table import write_scores
from tomserve.studies import Context, Study, Verdict, compute, load_study
from tomserve.studies.presentation import one_line, percent


def verdicts(tables: dict[str, pl.DataFrame], chance: float | None) -> list[Verdict]:
    return list(load_study("perturbed").verdicts(tables, Context({} if chance is None else {"all": chance})))


# what it says


def test_nested_beliefs_have_heat_maps_verdicts_and_who_knows_what(small: Any) -> None:
    text = small("hitom_run").read_text()
    labels = [attributes.get("aria-label", "") for attributes in Elements(text).all("svg")]
    maps = [label for label in labels if label.startswith("Heat map, ")]
    assert len(maps) == 4
    assert "; hitom chain, 1 chapter, order 2: 1.00;" in maps[0]
    assert "What lies do to matched twins. Not drawn: these stories have no matched twins." in text
    assert "Does it nest beliefs?" in text
    assert "containers mentioned)" in text
    items = data_of(text)["items"]
    words = data_of(text)["words"]
    for item in items:
        asked = item["id"].split("/")[3:]
        asked = [] if asked == ["really"] else asked
        gold = [] if item["gold"] >= 0 else [" › ".join(asked)]
        rest = ["sees it", "really", *(asked if len(asked) > 1 else [])] if asked else []
        assert [heading for heading, _ in item["beliefs"]] == rest + gold
        assert all(len(labels) == len(item["story"]) for _, labels in item["beliefs"])
    one = next(item for item in items if item["id"].endswith("/compass/Bela/Cleo"))
    columns = {heading: [words[place] for place in places] for heading, places in one["beliefs"]}
    assert columns["really"][-1] == "gray_satchel"
    assert columns["Cleo"][-1] == "plum_locker"
    assert columns["Bela"][-1] == "ochre_urn"
    assert columns["sees it"][6:10] == ["Cleo", "Cleo", "Cleo", "–"]


def test_a_report_answers_in_the_order_of_the_questions(example: Path, whole: str) -> None:
    text = whole
    headings = [
        "Verdicts", "Where does it break?", "Does step-by-step reasoning help?", "Is its reasoning faithful?",
        "Control questions", "Items", "Tables", "Failures", "Provenance",
    ]  # fmt: skip
    places = [text.index(f">{heading}</h2>") for heading in headings]
    assert places == sorted(places)
    assert "of 176 correct (" in text
    assert "chance (33%)" in text
    assert "None: all 352 answers could be read." in text
    assert json.loads((example / "manifest.json").read_text())["revision"] in text
    assert "tomserve-perturbed-6f0c9d1e" in text  # the canary travels with every export
    assert "Not drawn" not in text


def test_every_table_is_there_with_its_note_and_intervals_and_labels_are_handed_on(example: Path) -> None:
    text = report_html([str(example)], intervals="published", labels=["example=Big Model"])
    copies = data_of(text)["tables"]
    page = Elements(text)
    shown = {attributes["id"].removeprefix("table-") for attributes in page.all("details") if "id" in attributes}
    assert shown == set(copies)
    assert {"accuracy", "criteria", "faithfulness", "placebo", "subtasks", "failures"} <= shown
    assert copies["accuracy"]["latex"].count(r"\begin{tabular}") == 2  # laid out: one a subset
    assert copies["accuracy"]["csv"].startswith("subset,model,strategy,perturbation,correct,total,accuracy")
    assert "as if unpaired" in text
    assert "published intervals" in text
    assert "<h1>Big Model</h1>" in text
    assert [arm["model"] for arm in data_of(text)["arms"]] == ["Big Model"]
    with pytest.raises(ConfigError, match="unknown intervals 'x'"):
        report_html([str(example)], intervals="x")


def test_a_table_too_long_for_a_paper_is_copied_as_csv_alone() -> None:
    tables = {name: pl.DataFrame({"n": range(rows)}) for name, rows in (("short", 100), ("long", 101))}
    copies = page_module.copyable_tables(tables, {})
    assert {name: set(forms) for name, forms in copies.items()} == {"short": {"latex", "csv"}, "long": {"csv"}}


def tea(folder: Path, *items: Item, model: str = "tiny", **more: Any) -> Path:
    answer = {item.id: {"text": json.dumps({"answer": "tea"})} for item in items}
    return run_folder(folder, {"vanilla": answer}, list(items), model, **more)


def test_several_runs_make_one_report_here(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (str(tea(tmp_path / name, make_item(1))) for name in ("one", "other"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"are of one model, 'tiny', and .*; tell them apart by --label one=NAME"):
        write_report([one, other])
    assert write_report([one, other], labels=["other=second"]) == Path("report.html")
    assert write_report([one]) == Path(one) / "report.html"
    text = pair.read_text()
    assert "<h1>reference, second</h1>" in text
    assert 'class="glance"' in text
    found = data_of(text)
    assert [arm["model"] for arm in found["arms"]] == ["reference", "second"]
    assert len(found["rows"]["item"]) == 704
    assert len(found["items"]) == 176  # the same items once


def test_what_no_report_can_be_made_of_is_refused(example: Path, tmp_path: Path) -> None:
    empty = run_folder(tmp_path / "empty", {"vanilla": {}}, [make_item()])
    for runs, said in (
        (["nowhere.parquet"], "nowhere.parquet: no such file"),
        (["./nowhere"], "no run there"),
        ([str(example)] * 2, "given twice"),
        ([str(empty)], "nothing was answered yet"),
    ):
        with pytest.raises(ConfigError, match=re.escape(said)):
            report_html(runs)


def test_an_incomplete_run_is_marked_and_what_could_not_be_read_stands_at_the_head(tmp_path: Path) -> None:
    items = [make_item(number) for number in range(5)]
    texts = ["I would rather not say.", '{"answer": "tea"}', '{"answer": "tea"}', None]
    answers = {
        item.id: {"text": text, "status": "ok" if text else "timeout"} for item, text in zip(items, texts, strict=False)
    }
    page = report_html([str(run_folder(tmp_path / "r", {"vanilla": answers}, items, complete=False))])
    for said in (
        "Run r is incomplete: 1 of 5 answers (20.0%) have not been asked yet",
        "Run r: 1 of 4 answers (25.0%) could not be read, and 1 (25.0%) did not come (1 timeout)",
    ):
        assert page.index(said) < page.index("<h2")
    assert '<a href="#failures">Failures by strategy</a>' in page
    assert "<dt>complete</dt><dd>no: 1 not asked yet, 1 unreadable, 1 failed</dd>" in page


def test_a_score_table_has_a_report_that_says_what_it_cannot_show(example: Path, whole: str, tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    write_scores(load_sources([str(example)], [], None)[1], table)
    path = write_report([str(table)])
    assert path == tmp_path / "mine-report.html"
    page = path.read_text()
    assert "Of mine.csv there are no stories, no replies and no chance level here, because" in page
    assert 'id="answers"' not in page
    assert "chance (33%)" not in page
    assert page.count('role="img"') == whole.count('role="img"')
    assert data_of(page)["tables"]["accuracy"] == data_of(whole)["tables"]["accuracy"]
    least = pl.DataFrame({"model": "m", "strategy": "s", "item": ["a", "b"], "status": "ok", "correct": [True, False]})
    least.write_csv(table)  # as another tool may write it
    assert data_of(write_report([str(table)]).read_text())["tables"]["accuracy"]
    least.with_columns(kind=pl.Series(["x", None])).write_csv(table)
    assert "--by kind: 1 of 2 questions have no value of it" in write_report([str(table)], by=["kind"]).read_text()


def test_chance_is_that_of_the_questions_however_many_variants_each_has(tmp_path: Path) -> None:
    asked = [make_item(1, choices=["tea", "salt"], gold=None), make_item(2, gold=None)]
    kinds = ({"variant": kind, "variant_by": "rules"} for kind in ("object", "person"))
    asked += [make_item(2, id=f"demo/2/{one['variant']}", base="demo/2", gold=None, factors=one) for one in kinds]
    replies = {"vanilla": {one.id: {"text": '{"answer": "tea"}'} for one in asked}}
    assert "chance</dt><dd>0.42 " in re.sub(r"\s+", " ", report_html([str(run_folder(tmp_path / "r", replies, asked))]))


def test_chance_is_among_the_choices_that_are_offered(tmp_path: Path) -> None:
    told = make_item(choices=["unknown", "tea", "salt"], gold=None, benchmark="hitom")
    folder = run_folder(tmp_path / "r", {"vanilla": {told.id: {"text": "tea"}}}, [told])
    ((asked, _, _),) = load_sources([str(folder)], (), None)[0][0].outlines()
    assert asked.choices == 2, "Hi-ToM's prompts offer no unknown"


def test_models_that_were_asked_different_questions_have_no_chance_in_common(tmp_path: Path) -> None:
    offered = {"a": ["tea", "salt"], "b": ["tea", "salt", "milk", "unknown"]}
    runs = [
        run_folder(tmp_path / name, {"vanilla": {f"q/{name}": {"text": "tea"}}},
                   [make_item(1, id=f"q/{name}", choices=choices, gold=None)], name)
        for name, choices in offered.items()
    ]  # fmt: skip
    named = [run_folder(tmp_path / f"as-{one}", {"vanilla": {"1": {"text": "tea"}}},
                        [make_item(1, id="1", benchmark=one, choices=choices, gold=None)], one)
             for one, choices in offered.items()]  # fmt: skip
    for those in (runs, named):
        page = report_html([str(run) for run in those])
        assert "2 models, 2 questions of " in page
        assert "not one number, as not all were asked the same questions" in page
        assert "chance (" not in page


def test_other_benchmarks_get_what_their_study_has(tmp_path: Path) -> None:
    """The study `accuracy` has no figures of its own: what can be drawn of any study is."""
    items = [make_item(n, choices=["tea", *["salt"][: n % 2], "unknown"], gold=None) for n in (1, 2, 3)]
    right = {item.id: {"text": json.dumps({"answer": "tea"})} for item in items}
    wrong = {item.id: {"text": "I do not know at all"} for item in items}
    text = report_html([str(run_folder(tmp_path / "r", {"vanilla": right, "cot": wrong}, items))])
    assert "Not drawn" not in text
    assert "this study has no table" not in text
    labels = [attributes["aria-label"] for attributes in Elements(text).all("svg") if "aria-label" in attributes]
    first, effects = "Accuracy with its uncertainty", "Prompting effects"
    assert [label.split(":")[0] for label in labels] == [first, first, effects]
    assert "cot, cot: -1.00 [" in labels[2]
    assert "Accuracy with its uncertainty" in text
    assert "vanilla: 3 of 3 correct" in text
    assert "tiny, cot: 3 of 3 without an answer (100.0%)." in text
    assert "strategies differ by 100 points in how often they fail" in text
    assert "0.39 (mean over questions of 1 / number of choices)" in text  # 1/3, 1/2, 1/3


# verdicts


def criteria(**changes: Any) -> pl.DataFrame:
    row = {"subset": "all", "model": "m", "strategy": "vanilla", "rule": "strict", "ostensible": True}
    return pl.DataFrame([{**row, "classes_above": 10, "limited_robust": True, "robust": True, **changes}])


def accuracy(low: float, high: float) -> pl.DataFrame:
    row = {"subset": "all", "model": "m", "strategy": "vanilla", "correct": 5, "total": 8, "accuracy": 5 / 8}
    classes = ["none", *map(str, range(10)), "overall"]
    return pl.DataFrame([{**row, "perturbation": name, "ci_low": low, "ci_high": high} for name in classes])


@pytest.mark.parametrize(
    ("changes", "interval", "verdict", "tone"),
    [
        ({}, (0.6, 0.7), "Yes, in every class", "good"),
        ({}, (0.4, 0.7), "By its shares yes, but not significantly", "open"),
        ({"robust": False}, (0.4, 0.7), "Limited: in some classes only", "open"),
        ({"robust": False, "limited_robust": False}, (0.1, 0.7), "No: on unperturbed stories only", "bad"),
        ({"robust": False, "limited_robust": False, "ostensible": False}, (0.1, 0.4), "No", "bad"),
        ({"robust": False, "limited_robust": False, "ostensible": False}, (0.1, 0.7), "Not shown, but not ruled out", "open"),
    ],
)  # fmt: skip
def test_a_verdict_is_as_sure_as_its_intervals(
    changes: dict[str, Any], interval: tuple[float, float], verdict: str, tone: str
) -> None:
    (found,) = verdicts({"accuracy": accuracy(*interval), "criteria": criteria(**changes)}, 1 / 3)
    card = found.cards[0]
    assert (card.verdict, card.tone) == (verdict, tone)


def test_shares_are_said_as_a_reader_says_them() -> None:
    assert [percent(value) for value in (None, float("nan"), 0, 0.002, 0.5, 0.998, 1)] == [
        "undefined", "undefined", "0%", "0.2%", "50%", "99.8%", "100%",
    ]  # fmt: skip


# figures


def test_a_drawing_holds_no_more_than_shapes_and_text() -> None:
    marks = [Point(payload, payload, 0.5, 0.1, 0.9) for payload in map(one_line, PAYLOADS)]
    names = [mark.row for mark in marks]
    svg = str(Picture(points(marks, names, names, (0, 1), [Line(0.3, "chance")], "x"), PAYLOADS[3]))
    page = Elements(svg)
    assert {name for name, _ in page.found} <= {"svg", "g", "path", "circle", "text", "title"}
    for name, attributes in page.found:
        assert not [key for key in attributes if key.startswith("on") or key in ("href", "style", "src")], name
    assert page.all("svg")[0]["role"] == "img"
    assert "http:" not in svg.replace("http://www.w3.org/2000/svg", "").replace("http://evil", "")


# the data of the item browser


def test_the_browser_has_every_item_with_its_gold_chain_and_base(whole: str) -> None:
    found = data_of(whole)
    rows, words = found["rows"], found["words"]
    assert {len(column) for column in rows.values()} == {352}
    place = {item["id"]: at for at, item in enumerate(found["items"])}
    identifier = next(i for i in place if "/none/" not in i and i.replace(i.split("/")[1], "none") in place)
    base = found["items"][found["base"][place[identifier]]]["id"]
    assert base == identifier.replace(identifier.split("/")[1], "none")
    assert all(found["base"][place[i]] == -1 for i in place if "/none/" in i)
    at = next(row for row in range(352) if rows["kind"][row] >= 0)
    numbers, labels, verdicts_ = found["chains"][rows["chain"][at]]
    item = found["items"][rows["item"][at]]
    assert len(verdicts_) == len(item["story"])
    assert words[verdicts_[rows["break"][at] - 1]] == words[rows["kind"][at]]
    assert {words[label] for label in labels} <= {words[choice] for choice in item["choices"]}
    assert numbers == sorted(set(numbers))  # a chain may leave out what does not change
    assert set(numbers) <= set(range(1, len(item["story"]) + 1))
    assert len(found["golds"][item["gold"]][0]) == len(item["story"])
    text = json.loads(found["texts"][rows["text"][at]])
    assert text["answer"] == words[rows["answer"][at]]


def test_items_of_one_id_that_differ_are_kept_apart(tmp_path: Path) -> None:
    one = tea(tmp_path / "one", make_item(1), model="a")
    two = tea(tmp_path / "two", make_item(1, question="Another?"), model="b")
    found = data_of(report_html([str(one), str(two)]))
    assert [item["id"] for item in found["items"]] == ["demo/1", "demo/1 (version 2)"]


def test_of_several_samples_the_one_that_is_scored_is_shown(small: Any) -> None:
    page = small("sampled_run").read_text("utf-8")
    assert "2 of 6 samples without an answer (33.3%)" in page
    found = data_of(page)
    shown = [found["texts"][place] for place in found["rows"]["text"]]
    assert shown == ['{"answer": "tea"}', '{"answer": "salt"}']


def test_long_texts_are_cut_and_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items_module, "BUDGET", 20_000)
    items = [make_item(n) for n in range(40)]
    noise = ["".join(hashlib.sha256(bytes([n, m])).hexdigest() for m in range(40)) for n in range(40)]
    answers = {i.id: {"text": json.dumps({"answer": "tea"}), "reasoning": noise[n]} for n, i in enumerate(items)}
    text = report_html([str(run_folder(tmp_path / "r", {"vanilla": answers}, items))])
    cut = data_of(text)["cut"]
    assert cut in items_module.CUTS[1:]
    assert f"Texts are cut to {cut} characters each" in text
    assert "[…]" in "".join(data_of(text)["texts"])


# hostile content


@pytest.fixture(scope="module")
def hostile(small: Any) -> str:
    return str(small("hostile").read_text())


def attributes_of(text: str) -> Iterator[tuple[str, str, str]]:
    for tag, attributes in Elements(text).found:
        for name, value in attributes.items():
            yield tag, name, value


KNOWN = {
    *("html", "head", "meta", "title", "link", "style", "body", "a", "header", "p", "h1", "dl", "div", "dt", "dd"),
    *("nav", "main", "section", "h2", "article", "ul", "li", "h3", "h4", "span", "b", "details", "summary"),
    *("figure", "figcaption", "strong", "code", "table", "thead", "tbody", "tr", "th", "td", "button", "form"),
    *("noscript", "footer", "dialog", "script", "svg", "g", "path", "circle", "text"),
}


def test_nothing_that_others_wrote_becomes_an_element(hostile: str) -> None:
    page = Elements(hostile)
    assert {tag for tag, _ in page.found} <= KNOWN
    assert len(page.all("script")) == 3
    assert len(page.all("style")) == 1
    assert not page.all("img")
    for tag, name, value in attributes_of(hostile):
        assert not name.startswith("on"), (tag, name)
        assert name not in ("style", "src", "srcdoc", "action", "formaction"), (tag, name)
        if name in ("href", "xlink:href"):
            assert value.startswith("#") or value == "data:,", (tag, value)
    shown = " ".join(text for texts in page.texts.values() for text in texts)
    assert "<b>m</b>" in shown  # the model's name, as text
    assert PAYLOADS[0] in shown


def test_the_policy_lets_only_our_script_and_style_in(hostile: str) -> None:
    page = Elements(hostile)
    (policy,) = [a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in policy
    assert "connect-src" not in rules
    for kind, tag, count in (("script-src", "script", 2), ("style-src", "style", 1)):
        inline = re.findall(rf"<{tag}>(.*?)</{tag}>", hostile, re.S)
        assert len(inline) == count
        digests = [base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode() for inside in inline]
        assert rules[kind] == " ".join(f"'sha256-{digest}'" for digest in digests)


def test_our_script_never_makes_markup_or_code_from_text() -> None:
    script = "".join(
        (page_module.ASSETS / name).read_text() for name in ("core.js", "sorting.js", "report.js", "browser.js")
    )
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "new Function", "DOMParser"):
        assert word not in script
    assert "</script" not in script
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|importScripts|https?://", script)


def test_texts_arrive_as_they_were_written(hostile: str) -> None:
    found = data_of(hostile)
    assert set(PAYLOADS) <= set(found["texts"]) | set(found["sentences"])
    assert len(found["items"]) == len(PAYLOADS)


def test_no_credential_of_a_manifest_is_shown(hostile: str) -> None:
    assert "sk-verysecret" not in hostile
    manifest = {
        "endpoints": ["https://me:hunter2@host/v1?key=abc"],
        "server": {"command": ["vllm", "--api-key=abc", "--hf-token", "hunter2", "--max-num-batched-tokens", "64"]},
        "api_key": "hunter2",
        "sessions": [{"headers": {"Authorization": "Bearer hunter2"}}],
        "sampling": {"max_tokens": 256, "tokenizer": "t"},
        "revision": None,
        "limit": [],
    }
    found = dict(provenance(manifest))
    assert "hunter2" not in str(found)
    assert "abc" not in str(found)
    assert found["endpoints"] == "https://host/v1"
    assert found["server.command"] == ("vllm --api-key=(not shown) --hf-token (not shown) --max-num-batched-tokens 64")
    assert found["sampling.max_tokens"] == "256"
    assert found["sampling.tokenizer"] == "t"
    assert found["revision"] == "unknown"


# studies of others


def test_the_report_of_an_own_study_has_nothing_empty(example: Path, tmp_path: Path) -> None:
    """It draws what can be drawn of any study, the classes in the benchmark's order and numbers in theirs, and says what
    there is not."""
    study = Study(name="mine", tables=lambda scores, intervals: {"mine": scores.select(pl.len()).collect()})
    scores = load_scores(str(example)).with_columns(swapped=3 - pl.int_range(pl.len()) % 3)
    scores.write_parquet(tmp_path / "numbers.parquet")
    analysis = compute(scores, study)
    page = write_report([str(tmp_path / "numbers.parquet")], tmp_path / "r.html", analysis=analysis).read_text()
    assert "This study gives no verdicts in words; its tables are below." in page
    assert 'class="cards"' not in page
    assert 'class="lead"' not in page
    labels = [one.get("aria-label", "") for one in Elements(page).all("svg")]
    (classes,) = (label for label in labels if label.startswith("Accuracy by perturbation"))
    places = [classes.index(f"{name.replace('_', ' ')}, ") for name in PERTURBATIONS]
    assert places == sorted(places)
    (numbers,) = (label for label in labels if label.startswith("Accuracy by swapped"))
    assert list(dict.fromkeys(re.findall(r"\b([123]), ", numbers))) == ["1", "2", "3"]
