"""Questions in somebody else's form, made into items by a mapping: what fields may hold, and what is refused."""

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers.documents import files
from tomserve.benchmarks.items import _Row, load, tables_of
from tomserve.errors import ConfigError
from tomserve.items import Item

PAGE = files((ROOT / "docs/how-to/published/others.md").read_text("utf-8"))
MAPPING = {"schema": 1, "data": "x.jsonl", "story": "{s}", "question": "{q}", "choices": "{c}", "answer": "{a}"}
ROW = {"s": "Tea is in it. Ann left.", "q": "What is?", "c": ["tea", "salt"], "a": "salt", "n": {"list": ["u-7", 3]}}


def read(folder: Path, row: dict[str, object] | str = ROW, **mapping: object) -> list[Item]:
    """The items of one row, or of the text of a table."""
    told = {**MAPPING, **mapping}
    (folder / str(told["data"])).write_text(row if isinstance(row, str) else json.dumps({**ROW, **row}), "utf-8")
    (folder / "m.yaml").write_text(json.dumps(told), "utf-8")
    return list(load(folder / "m.yaml"))


@pytest.mark.parametrize(("name", "answers"), [("simpletom", "No pay"), ("negotiationtom", "Firewood Not Given")])
def test_the_mappings_of_the_page_read_rows_of_their_form(name: str, answers: str, tmp_path: Path) -> None:
    for file, text in PAGE.items():
        (tmp_path / file).write_text(text, "utf-8")
    items = list(load(tmp_path / f"{name}.yaml"))
    assert " ".join(item.answer for item in items) == answers
    assert {item.benchmark for item in items} == {name}
    assert len({item.cluster for item in items}) == 1
    assert len(list(load(tmp_path / "exploretom.yaml"))) == 2


@pytest.mark.parametrize(
    ("choices", "given"),
    [
        (["tea", "salt", "", None], "{c}"),
        ({"A": "tea", "B": "salt"}, "{c}"),
        ("A. tea\n(B) salt", "{c}"),
        ("1) tea\n2) salt", "{c}"),
        ("['tea', 'salt']", "{c}"),
        ("salt", ["tea", "{c}"]),
    ],
)
@pytest.mark.parametrize(
    ("answer", "kind"),
    [("Salt", "text"), ("(b)", "letter"), ("B. salt", "letter"), (1, "number from 0"), ("2", "number from 1")],
)
def test_choices_and_answers_are_read_in_every_usual_form(choices, given, answer, kind, tmp_path: Path) -> None:
    (item,) = read(tmp_path, {"c": choices, "a": answer}, choices=given, answer_is=kind)
    assert (item.choices, item.answer) == (("tea", "salt"), "salt")


def test_templates_take_parts_of_a_row_and_the_seed_orders_choices(tmp_path: Path) -> None:
    told = {"id": r"q/{n.list.0~\d+}", "cluster": "c", "factors": {"order": 2}}
    told |= {"questions": [{"factors": {"place": "{n.list.1}"}}]}
    (item,) = read(tmp_path, {}, **told)
    assert (item.id, item.cluster, item.factors) == ("q/7", "c", {"place": 3, "order": 2})
    assert item.story == ("Tea is in it.", "Ann left."), "sentences, where a story is one line"
    assert read(tmp_path, {"s": "A: Hi. Tea?\nB: No."})[0].story == ("A: Hi. Tea?", "B: No.")
    assert len({item.id for item in read(tmp_path, f"{json.dumps(ROW)}\n{json.dumps(ROW)}")}) == 2, "a digest, numbered"
    one, two = ([read(tmp_path, {}, shuffle=seed, id=f"q{n}")[0].choices for n in range(8)] for seed in (1, 2))
    assert one != two
    assert set(one) == set(two) == {("tea", "salt"), ("salt", "tea")}


def test_tables_of_every_kind_give_the_same_items(tmp_path: Path) -> None:
    row = {**ROW, "c": "A. tea\nB. salt"}
    sheet = 's;q;c;a\nTea is in it. Ann left.;What is?;"A. tea\nB. salt";salt\n'
    tables = {"x.json": {"data": "x.json", "rows": "all.it"}, "x.csv": {"data": "x.csv"}, "x.jsonl": {}}
    texts = (json.dumps({"all": {"it": {"one": row}}}), sheet, json.dumps(row))
    (first, *others) = (read(tmp_path, text, **tables[name]) for name, text in zip(tables, texts, strict=True))
    assert others == [first, first]
    assert tables_of(tmp_path / "m.yaml") == [tmp_path / "x.jsonl"]
    assert tables_of(tmp_path / "x.jsonl") == []


@pytest.mark.parametrize(
    ("row", "mapping", "said"),
    [
        ({}, {"answer": "{b}"}, "x.jsonl:1: answer: the row has no field 'b'; it has: s, q, c, a, n; mend the row or"),
        ({"a": "tee"}, {}, "x.jsonl:1: answer: 'tee' is none of the choices"),
        ({"a": 2}, {"answer_is": "number from 0"}, "'2' is no number from 0 of one of 2 choices"),
        ({"c": "U.S. tea\nB. salt"}, {}, "choices: gives fewer than two"),
        ({}, {"factors": {"correct": "{a}"}}, "has the name of a score column"),
        ({"s": "x" * 9999}, {"story": "{s}" * 999}, "story: makes a text of more than 1,000,000 characters, 20 times"),
        ({"s": "x" * 9999}, {"story": ["{s}"] * 999}, "story: makes a text of more than 1,000,000 characters, 20"),
        ({}, {"id": "{s~(}"}, "'(' is no regular expression that can be used (unclosed group)"),
        (f'{{"s": "x", "q": {"[" * 300}{"]" * 300}}}', {}, "x.jsonl:1: not JSON (nested too deeply)"),
        ({}, {"only": {"a": ["tea"]}}, "m.yaml: no row is left by 'only' and 'skip'"),
        (f"{json.dumps(ROW)}\n{json.dumps(ROW)}", {"id": "q"}, "x.jsonl:2: id: 'q' was already given"),
        ("[1]", {"data": "x.json"}, "x.json: expected a list of objects"),
        ("s,q\nx", {"data": "x.csv"}, "x.csv:2: the row has 1 fields instead of 2"),
    ],
)
def test_what_makes_no_question_is_refused_in_one_line(row, mapping, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, row, **mapping)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_row_of_many_texts_is_measured_once() -> None:
    """Measured at each of them, one of two megabytes takes minutes."""
    row = _Row(Path("x.jsonl"), 1, {"c": ["tea or salt"] * 200_000}, "m.yaml")
    assert len(row.texts("choices", "{c}")) == 200_000


def test_a_json_file_is_read_up_to_the_length_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tomserve.content.files.LONGEST_LINE", 1 << 20)
    with pytest.raises(ConfigError, match=r"x\.json: has more than 1 MB; .* is called \.jsonl, and may be longer"):
        read(tmp_path, json.dumps([ROW, {"s": "x" * (1 << 20)}]), data="x.json")


@pytest.mark.parametrize("data", ["/etc/hosts", "../x.jsonl", "link.jsonl", "folder/x.jsonl"])
def test_a_mapping_reads_nothing_outside_its_folder(data: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps(ROW), "utf-8")
    (theirs := tmp_path / "theirs").mkdir()
    (theirs / "link.jsonl").symlink_to("../x.jsonl")
    (theirs / "folder").symlink_to("..")
    (theirs / "m.yaml").write_text(json.dumps({**MAPPING, "data": data}), "utf-8")
    with pytest.raises(ConfigError, match=r"data: (expected a file beside this one|is a link to .*; put the file)"):
        list(load(theirs / "m.yaml"))
