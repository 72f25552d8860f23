"""Spreadsheets and JSON lines as people save them: separators, quotes, marks, maps, repeats, and what is wrong with rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from tomserve.errors import ConfigError
from tomserve.interop.csv_reader import MappedFile
from tomserve.interop.samples import Sample
from tomserve.runs.scores import load_scores


def read(path: Path, *given: str, kind: Any = "csv", **more: Any) -> list[Sample]:
    return list(MappedFile(path, kind, given, **{"model": "m", **more}).samples())


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("lead", ["", "\n"])
def test_sheets_of_every_program_are_read(separator: str, end: str, mark: str, lead: str, tmp_path: Path) -> None:
    head = separator.join(["id", "question", "text", "correct"])
    row = separator.join(["q1", f'"Ann has 2{separator} and{end}3 pens."', '"He said ""two""."', "1"])
    path = written(tmp_path / "x.csv", f"{mark}{lead}{head}{end}{row}{end}q2{separator}Q?{separator}b{separator}0{end}")
    first, second = read(path)
    assert (first.id, first.text) == ("q1", 'He said "two".')
    assert first.question == f"Ann has 2{separator} and{end}3 pens."
    assert (first.grade.correct, first.grade.by) == (True, "correct")
    begin = 3 if lead else 2
    assert (first.place, second.place) == (f"x.csv, line {begin}", f"x.csv, line {begin + 2}")


def test_marks_are_read_as_people_write_them(tmp_path: Path) -> None:
    words = dict.fromkeys(("true", "1", " Yes ", "C", "right", "correct", "y"), True)
    words |= dict.fromkeys(("0.0", "no", "I", "Wrong", "incorrect", "n"), False)
    rows = "".join(f"q{n},t,{mark}\n" for n, mark in enumerate(words))
    found = read(written(tmp_path / "x.csv", f"id,text,correct\n{rows}"))
    assert [one.grade and one.grade.correct for one in found] == list(words.values())


def test_decimal_commas_are_read_where_semicolons_separate(cli, tmp_path: Path) -> None:
    rows = ["id;text;score;correct", "a;t;0,5;1,0", "b;t;-,25;0,0", "c;t;1;1", "d;t;1.5;0"]
    found = [one.grade for one in read(written(tmp_path / "x.csv", "\n".join(rows) + "\n"))]
    told = [(one.value, one.correct) for one in found if one is not None]
    assert told == [(0.5, True), (-0.25, False), (1.0, True), (1.5, False)]
    path = written(tmp_path / "y.csv", 'id,text,score\na,t,"0,5"\nb,t,1\nc,t,1,1\n')
    done = cli("import", "csv", path, "--model", "m")
    assert done.code == 1
    assert "1 left out, as it has a score that is no number such as 0.85; write it so" in done.err
    assert "(y.csv, line 2: '0,5')" in done.err, "which may be a thousand as well"
    assert "has 4 fields instead of 3" in done.err


@pytest.mark.parametrize("first", ["sep=;", "SEP=; ", "\ufeffsep=;"])
def test_the_line_by_which_excel_names_the_separator_is_none_of_the_table(first: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", f"{first}\r\nid;question, as asked, in full;text;correct\r\na;Q?;t;1\r\n")
    (found,) = read(path, "question=question, as asked, in full")
    assert (found.question, found.place) == ("Q?", "x.csv, line 3")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"id,text,correct\ra,t,1\r", "x.csv:1: a line ends in a carriage return alone, as old programs for the Mac"),
        ("id\ttext\tcorrect\na\tt\t1\n".encode("utf-16-le"), "x.csv:1: not UTF-8 (zero bytes, as in UTF-16); save"),
        ("id\ttext\tcorrect\na\tt\t1\n".encode("utf-16"), "x.csv:1: not UTF-8 (byte 1 of the line); save"),
    ],
)
def test_files_of_other_codings_are_refused_with_what_to_do(data: bytes, said: str, cli, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    done = cli("import", "csv", path, "--model", "m")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
    assert "universal-newline" not in done.err


def test_values_of_json_are_read_as_what_they_are(tmp_path: Path) -> None:
    rows = [
        {
            "id": 7,
            "question": "Q?",
            "choices": ["tea", "salt"],
            "target": "B",
            "text": "t",
            "correct": True,
            "more": 1.5,
        },
        {"id": 8, "question": "Q?", "choices": "tea | salt", "text": {"a": 1}, "score": 0.5, "none": None, "list": [1]},
    ]
    path = written(tmp_path / "x.jsonl", "\n\n".join(map(json.dumps, rows)))
    first, second = read(path, kind="jsonl")
    assert (first.id, first.choices, first.facts) == ("7", ("tea", "salt"), {"more": 1.5})
    assert (second.choices, second.text, second.facts) == (("tea", "salt"), '{"a":1}', {"none": None})
    assert (first.place, second.place) == ("x.jsonl, line 1", "x.jsonl, line 3")
    assert (second.grade.correct, second.grade.value) == (None, 0.5)


def test_a_field_that_only_later_rows_have_is_read(tmp_path: Path) -> None:
    """The first reply failed, so that it has neither a text nor a grade."""
    rows = [{"id": "a", "status": "timeout"}, {"id": "b", "text": "t", "mark": True}]
    path = written(tmp_path / "x.jsonl", "\n".join(map(json.dumps, rows)))
    first, second = read(path, "correct=mark", kind="jsonl")
    assert (first.status, first.text, first.grade) == ("timeout", None, None)
    assert (second.grade.correct, second.grade.by) == (True, "mark")


def test_a_map_names_columns_and_what_it_names_is_no_fact(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "nr,text,reply,mark,subject\nq,asked of it,t,1,a\n")
    (found,) = read(path, "id=nr", "asked=text", "text=reply", "correct=mark")
    assert (found.id, found.asked, found.text, found.facts) == ("q", "asked of it", "t", {"subject": "a"})


def test_without_ids_a_question_is_known_by_its_text(cli, tmp_path: Path) -> None:
    """So that two files agree whatever the order of their rows; rows of one text are replies to one question."""
    rows = [f"Q{n}?,t{r},{(n + r) % 2}" for n in range(3) for r in range(2)]
    written(tmp_path / "a.csv", "\n".join(["question,text,correct", *rows]) + "\n")
    written(tmp_path / "b.csv", "\n".join(["question,text,correct", *reversed(rows)]) + "\n")
    for name in ("a", "b"):
        assert cli("import", "csv", tmp_path / f"{name}.csv", "--model", name).code == 0
    first, second = load_scores("questions-a"), load_scores("questions-b")
    assert first["item"].to_list() == second["item"].to_list()
    assert first["samples"].to_list() == [2, 2, 2]
    assert first["correct_mean"].to_list() == second["correct_mean"].to_list() == [0.5] * 3


def test_one_id_for_two_texts_is_refused(cli, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "id,question,text,correct\nq,One?,t,1\nq,Two?,t,1\n")
    done = cli("import", "csv", path, "--model", "m")
    assert (done.code, done.out) == (2, "")
    assert "x.csv, line 3: question 'q' has another text, or other choices, than at x.csv, line 2" in done.err
    assert "give every question an id of its own" in done.err
    right = written(tmp_path / "w.csv", "id,question,choices,target,text\nq,One?,a|b,a,a\nq,One?,b|a,b,a\n")
    assert "w.csv, line 3: question 'q' has another" in cli("import", "csv", right, "--model", "m").err
    ways = written(tmp_path / "z.csv", "id,question,text,correct,strategy\nq,One?,t,1,a\nq,Now: One?,t,0,b\n")
    assert cli("import", "csv", ways, "--model", "m").code == 0, "another way of asking has another text"
    assert load_scores("questions-m")["strategy"].to_list() == ["a", "b"]


def test_variants_that_another_tool_asked_take_no_question_s_place(cli, tmp_path: Path) -> None:
    story, question = "Ada looks into the jar. It holds tea.", "What does Ada believe is in it?"
    rows = "".join(f"{name},{story},{question},{mark}\n" for name, mark in (("q/1", 1), ("q/1/choices", 0), ("q/2", 0)))
    path = written(tmp_path / "a.csv", f"id,story,question,correct\n{rows}")
    done = cli("import", "csv", path, "--model", "m", "--run", "theirs")
    assert (done.code, "1 left out, as it is to a variant of another question" in done.err) == (1, True), done.err
    assert load_scores("theirs").select("item", "correct").rows() == [("questions/q/1", True), ("questions/q/2", False)]


def test_questions_about_one_story_are_one_cluster(cli, tmp_path: Path) -> None:
    rows = "".join(f"{n},Ada has jar {n // 2}.,Q{n}?,1\n" for n in range(6))
    path = written(tmp_path / "a.csv", f"id,story,question,correct\n{rows}")
    assert "6 replies to 6 questions in 3 clusters" in cli("import", "csv", path, "--model", "m", "--run", "theirs").out
    assert load_scores("theirs").group_by("cluster").len()["len"].to_list() == [2, 2, 2]


def test_ids_in_two_forms_of_unicode_are_one(cli, tmp_path: Path) -> None:
    rows = [
        "id,question,text,correct",
        "caf\N{LATIN SMALL LETTER E WITH ACUTE},Q?,t,1",
        "cafe\N{COMBINING ACUTE ACCENT},Q?,t,0",
    ]
    assert cli("import", "csv", written(tmp_path / "x.csv", "\n".join(rows)), "--model", "m").code == 0
    assert load_scores("questions-m")["samples"].to_list() == [2]


def test_a_way_of_asking_has_a_name_that_leads_nowhere(cli, tmp_path: Path) -> None:
    names = {"a/b": "a-b", "..": "imported", "x\ty": "x y", "s" * 900: "s" * 200}
    row = {"id": "q", "question": "Q?", "text": "t", "correct": True}
    rows = "\n".join(json.dumps({**row, "strategy": name}) for name in names)
    assert cli("import", "jsonl", written(tmp_path / "x.jsonl", rows), "--model", "m").code == 0
    assert sorted(load_scores("questions-m")["strategy"]) == sorted(names.values())
    two = written(tmp_path / "y.jsonl", "\n".join(json.dumps({**row, "strategy": name}) for name in ("a/b", "a-b")))
    done = cli("import", "jsonl", two, "--model", "m", "--run", "y")
    assert "the strategies 'a/b' and 'a-b' would both be called 'a-b'; rename one in the file" in done.err
    done = cli("import", "jsonl", two, "--model", "m", "--run", "y", "--strategy", "mine")
    assert "would both be called 'mine'; leave --strategy out" in done.err


WRONG_ROWS = {
    "is no JSON": '{"id": ',
    "is no JSON object": "[1]",
    "has a status that nobody knows": {"id": "b", "text": "t", "status": "done"},
    "has no reply": {"id": "b", "text": None},
    "does not say which question it answers": {"text": "t"},
    "has a mark other than true, false, 1, 0,": {"id": "b", "text": "t", "correct": "perhaps"},
    "has a score that is no number such as 0.85; write it so": {"id": "b", "text": "t", "score": "85%"},
    "has a repeat that is no whole number from 0 to 32,767": {"id": "b", "text": "t", "repeat": 1e300},
    "is torn off at the end of the file": '{"id": "b", "te',
}


@pytest.mark.parametrize("reason", WRONG_ROWS)
def test_a_row_that_is_wrong_is_left_out_with_its_reason_and_place(reason: str, tmp_path: Path) -> None:
    wrong = WRONG_ROWS[reason]
    line = wrong if isinstance(wrong, str) else json.dumps(wrong)
    end = "" if "torn" in reason else "\n"
    source = MappedFile(written(tmp_path / "x.jsonl", f'{{"id": "a", "text": "t"}}\n{line}{end}'), "jsonl", (), "m")
    assert [one.id for one in source.samples()] == ["a"]
    ((said, (count, place)),) = source.left_out.items()
    assert said.startswith(reason)
    found = ": 'perhaps'" if "a mark" in reason else ": '85%'" if "a score" in reason else ""
    assert (count, place) == (1, f"x.jsonl, line 2{found}")


def test_a_file_of_endless_names_is_no_table(tmp_path: Path) -> None:
    rows = "".join(
        json.dumps({"id": "a", "text": "t", **{f"n{n}{k}": 1 for k in range(100)}}) + "\n" for n in range(100)
    )
    with pytest.raises(ConfigError, match="names; expected columns"):
        read(written(tmp_path / "x.jsonl", rows), kind="jsonl")
    head = ",".join(f"c{n}" for n in range(3000))
    with pytest.raises(ConfigError, match="has 3,000 columns; expected at most 2,000"):
        read(written(tmp_path / "x.csv", f"{head}\n"))
