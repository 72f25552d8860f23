"""What came back is read into a run that every command takes; what does not fit is refused by file, line and field."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import Cli, make_item
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tests.helpers.questionnaires import fill, form_file, items, keys, made
from tests.helpers.reports import run_folder
from tomserve.benchmarks import Benchmark
from tomserve.errors import ConfigError, ContentError
from tomserve.humans import answers, run
from tomserve.humans import plan as planning
from tomserve.humans.questionnaire import QuestionnaireOptions, make_questionnaire
from tomserve.runs.manifest import Manifest
from tomserve.runs.scores import scores_of
from tomserve.status import UNANSWERED
from tomserve.studies import comparison as comparing
from tomserve.studies import compute
from tomserve.web.tally import of_run


@pytest.fixture
def study(tmp_path: Path) -> Path:
    made(tmp_path / "study")
    return tmp_path / "study"


def read(study: Path, *places: Path) -> run.FormOutcome:
    plan, _ = planning.read_plan(study)
    return run.judge_forms(answers.read_answers(places, plan), plan)


def run_of(study: Path, folder: Path, *places: Path) -> Path:
    plan, known = planning.read_plan(study)
    run.write_run(folder, plan, known, read(study, *places))
    return folder


def careless(person: int, number: int, right: str, choices: list[str], check: bool) -> str | None:
    """The first fails a check, the second leaves questions 1 and 2 out, the third is always wrong."""
    if check:
        return next(c for c in choices if c != right) if person == 0 else right
    if person == 1 and number <= 2:
        return None
    return next(c for c in choices if c != right) if person == 2 else right


def shy(person: int, number: int, right: str, choices: list[str], check: bool) -> str | None:
    """Leaves out what is no check in the first three places."""
    del person, choices
    return right if check or number > 3 else None


def test_a_run_of_people_is_scored_and_each_question_keeps_who_answered(study: Path, tmp_path: Path) -> None:
    fill(study, tmp_path / "in", careless)
    (excluded,) = read(study, tmp_path / "in").excluded
    codes = list(keys(study))
    told = f"{excluded.wrong} of 2 attention checks wrong, 0 allowed"
    assert (excluded.form.code, excluded.reason) == (codes[0], told)
    folder = run_of(study, tmp_path / "human", tmp_path / "in")
    rows = [json.loads(line) for line in (folder / "responses.jsonl").open()]
    assert len(rows) == 3 * 4
    assert {(row["person"], row["sample"]) for row in rows} == {(code, codes.index(code) + 1) for code in codes[1:]}
    assert {row["person"] for row in map(json.loads, (folder / "excluded.jsonl").open())} == {codes[0]}
    open_ = [row for row in rows if row["status"] == UNANSWERED]
    assert {row["person"] for row in open_} == {codes[1]}
    scores = scores_of(folder)
    assert scores.select("model", "strategy").unique().row(0) == ("human", "whole")
    assert compute(scores, "accuracy").tables["accuracy"].row(0, named=True)["total"] <= scores.height
    told = scores.explode("people", "people_right").drop_nulls("people")
    assert told.height == 12 - len(open_)
    by_person = dict(told.group_by("people").agg(pl.col("people_right").mean()).iter_rows())
    assert by_person == {codes[1]: 1.0, codes[2]: 0.0, codes[3]: 1.0}
    table = (folder / "people.csv").read_text().splitlines()
    assert table[0] == "person,counted,reason,medium,answered,left_out,checks_wrong,age,language"
    assert table[1].startswith(f"{codes[0]},no,")
    assert table[2] == f"{codes[1]},yes,,form,{4 - len(open_)},{len(open_)},0,,"


def test_single_people_are_counted_beside_the_majority(study: Path, tmp_path: Path) -> None:
    paths = fill(study, tmp_path / "in", careless)
    scores = scores_of(run_of(study, tmp_path / "human", tmp_path / "in"))
    found = compute(scores, "accuracy")
    overall = found.tables["people"].row(0, named=True)
    answered = int(scores["people"].list.len().sum())
    right = int(scores["people_right"].list.sum().sum())
    assert (overall["share"], overall["answers"], overall["people"]) == (right / answered, answered, 3)
    assert 0 <= overall["ci_low"] < overall["share"] < overall["ci_high"] <= 1
    assert found.tables["people"].filter(factor="question_kind")["answers"].sum() == answered
    assert "samples" not in found.tables, "people are no samples of one another"
    assert not found.warnings, "nobody was asked what somebody else was asked"
    # A t interval of few people would reach beyond one; no difference of shares does.
    scores = scores_of(run_of(study, tmp_path / "two", *paths[1:3]))
    row = compute(scores, "accuracy").tables["people_effects"].row(0, named=True)
    assert -1 <= row["low"] <= row["difference"] <= row["high"] <= 1
    assert -1 in (row["low"], -row["high"])


def test_beside_the_share_of_people_stand_their_answers_and_no_majorities(tmp_path: Path) -> None:
    made(tmp_path / "all", people=12, stories=8)  # one fails a check, one leaves two open, one is always wrong
    fill(tmp_path / "all", tmp_path / "in", careless)
    (shown,) = of_run(run_of(tmp_path / "all", tmp_path / "human", tmp_path / "in")).shares
    assert (shown.correct, shown.total, shown.estimate) == (78, 86, 78 / 86)


def test_classes_beside_the_share_of_people_are_shares_of_answers_too(tmp_path: Path) -> None:
    asked = [make_item(1), make_item(2, factors={"perturbation": "late_label"})]
    folder = run_folder(tmp_path / "two", {"whole": {}}, asked)
    rows = [
        {
            "item": item,
            "strategy": "whole",
            "status": "ok",
            "text": f'{{"answer": "{one}"}}',
            "sample": n,
            "person": f"P{n}",
        }
        for item, said in (("demo/1", ("tea", "tea", "salt")), ("demo/2", ("salt", "salt", "tea")))
        for n, one in enumerate(said)
    ]
    lines = [json.dumps({"schema": 1, "turn": 0, "key": f"{n}", **row}) for n, row in enumerate(rows)]
    (folder / "responses.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    assert dict(of_run(folder).shares[0].profile) == {"none": 2 / 3, "late_label": 1 / 3}


def test_questions_left_open_are_no_failures(tmp_path: Path) -> None:
    made(tmp_path / "alone", people=1, stories=8)
    fill(tmp_path / "alone", tmp_path / "one", shy)
    scores = scores_of(run_of(tmp_path / "alone", tmp_path / "human", tmp_path / "one"))
    assert scores.filter(status=UNANSWERED).height > 0
    tables = compute(scores, "accuracy").tables
    assert (tables["accuracy"]["accuracy"][0], tables["people"]["share"][0]) == (1, 1)


def test_people_and_a_model_are_compared_on_the_same_questions(study: Path, tmp_path: Path) -> None:
    fill(study, tmp_path / "in")
    run_of(study, tmp_path / "runs/human", tmp_path / "in")
    told = pl.DataFrame(
        {
            "model": "salty", "strategy": "vanilla", "item": [item.id for item in items()], "status": "ok",
            "answer": "salt", "correct": [item.answer == "salt" for item in items()],
            "cluster": [item.cluster for item in items()], "benchmark": "jars", "run": "salty",
        }
    )  # fmt: skip
    told.write_parquet(tmp_path / "salty.parquet")
    found = comparing.compare("human", str(tmp_path / "salty.parquet"), common=True)
    row = found.people.row(-1, named=True)
    scores = scores_of(tmp_path / "runs/human").join(told.select("item", model_right="correct"), on="item")
    weights = scores["people"].list.len()
    share = sum(r * w for r, w in zip(scores["model_right"], weights, strict=True)) / sum(weights)
    assert (row["class"], row["A"], row["B"]) == ("overall", 1.0, pytest.approx(share))
    assert row["difference"] == pytest.approx(share - 1)
    assert row["high"] < 0
    fixed = {name: value for name, value in Manifest.load(tmp_path / "runs/human").to_dict().items() if "bench" in name}
    fixed["sampling"] = {"temperature": 0.7}
    said = {"vanilla": {item.id: {"text": '{"answer": "salt"}'} for item in items()}}
    run_folder(tmp_path / "runs/salty", said, items(), "salty", **fixed)
    assert not [one for one in comparing.compare("human", "salty", common=True).lacking if "side by side" in one]


def test_paper_and_forms_give_the_same_answers(study: Path, tmp_path: Path) -> None:
    paths = fill(study, tmp_path / "in")
    lines = ["participant;question;answer"]
    for place, (code, asked) in enumerate(keys(study).items()):
        for number, (right, choices, _) in enumerate(asked, 1):
            lines.append(f"{code.lower()};{number};{right if place % 2 else 'ABC'[choices.index(right)].lower()}")
    typed = tmp_path / "typed.csv"
    typed.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*lines, f"{paths[0].stem};age;34", ";;"]).encode())
    form, paper = read(study, *paths), read(study, typed)
    assert [one.filled.choices() for one in form.people] == [one.filled.choices() for one in paper.people]
    assert paper.people[0].filled.about == {"age": "34"}
    both = read(study, *paths[1:], typed)
    assert both.repeated == [typed] * 3
    assert len(both.counted) == 4


def test_a_letter_on_paper_is_taken_for_no_other_choice(tmp_path: Path) -> None:
    shown = {}
    for choices in (["A", "B"], ["B", "A", "D"]):
        of = [one.model_copy(update={"choices": choices, "answer": "A"}) for one in items()]
        wishes, folder = QuestionnaireOptions(people=8, stories=4, attention=0), tmp_path / "".join(choices)
        make_questionnaire(Benchmark("jars", lambda path, gold, of=of: iter(of)), None, folder, wishes)
        forms = planning.read_plan(folder)[0].forms
        shown |= {
            tuple(one.choices): (folder, form.code, n) for form in forms for n, one in enumerate(form.questions, 1)
        }
    assert [one for one in shown if len(one) == 2] == [("A", "B")]
    folder, code, number = shown["B", "D", "A"]
    typed, head = tmp_path / "typed.csv", f"participant,question,answer\n{code},{number},"
    for written, choice in (("B (D)", "D"), ("C", "A")):
        typed.write_text(head + written)
        assert read(folder, typed).people[0].filled.choices() == {number: choice}
    typed.write_text(head + "A")
    with pytest.raises(ContentError, match=r"'A' is a letter of the answer sheet and another choice; expected A \(B\)"):
        read(folder, typed)


def test_who_stops_half_way_has_not_failed_the_checks_that_follow(study: Path, tmp_path: Path) -> None:
    code, asked = next(iter(keys(study).items()))
    path = tmp_path / "half.json"
    first = [{"question": 1, "answer": asked[0][0]}]
    path.write_text(json.dumps(form_file(study, code, first, finished=False)))
    (person,) = read(study, path).people
    assert (person.reason, person.answered, person.left_out) == ("", 1, 3)
    path.write_text(json.dumps(form_file(study, code, [], finished=False)))
    assert [person.reason for person in read(study, path).people] == ["no question answered"]


def test_one_code_with_two_ages_is_two_people(study: Path, tmp_path: Path) -> None:
    code, asked = next(iter(keys(study).items()))
    paths = [tmp_path / "34.json", tmp_path / "=HYPERLINK(x).json"]
    for path in paths:
        first = [{"question": 1, "answer": asked[0][0]}]
        path.write_text(json.dumps(form_file(study, code, first, finished=False, about={"age": path.stem})))
    with pytest.raises(ContentError, match=f"{code} has answers in .* already, and they differ"):
        read(study, *paths)
    folder = run_of(study, tmp_path / "human", paths[1])
    assert "'=HYPERLINK" in (folder / "people.csv").read_text(), "it is no formula of a spreadsheet"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"questionnaire": "0" * 16}, r"in.json:\d+: questionnaire: is '0000000000000000', but this folder's plan"),
        ({"code": "AAAA"}, r"in.json:\d+: code: 'AAAA' is the code of none of the plan's 4 forms"),
        ({"agreed": False}, r"in.json:\d+: agreed: is false: this person has not agreed to take part"),
        ({"about": {"age": "9" * 201}}, r"in.json:\d+: about.age: expected at most 200 characters in one line"),
        ({"about": {"age": "\x1b[31m"}}, r"in.json:\d+: about.age: .* in one line; found '\\x1b\[31m'"),
        ({"answers": [{"question": 99, "answer": "tea"}]}, r"in.json:\d+: answers.0.question: question 99 is none of"),
        ({"answers": [{"question": 1, "answer": "beer"}]}, r"in.json:\d+: answers.0.answer: is 'beer'; question 1 has"),
        ({"answers": [{"question": 1, "answer": None}] * 2}, r"in.json:\d+: answers.1.question: .*answered twice"),
        ({"answers": [{"question": 1, "answer": None, "seconds": -1}]}, r"in.json:\d+: answers.0.seconds"),
    ],
)
def test_a_form_that_does_not_fit_is_refused(study: Path, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    data = form_file(study, next(iter(keys(study))), [{"question": 1, "answer": None}])
    (tmp_path / "in.json").write_text(json.dumps(data | change, indent=1))
    with pytest.raises(ContentError, match=said) as caught:
        read(study, tmp_path / "in.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("who,what\n", r"typed.csv:1: has the columns"),
        ("{head}\n{code},1,Z\n", r"typed.csv:2: answer: is 'Z'; expected A \("),
        ("{head}\n{code},77,A\n", r"typed.csv:2: question: question 77 is none of form"),
        ("{head}\n{code},\u0663,A\n", r"typed.csv:2: question: is '\u0663'; expected the number"),
        ("{head}\n{code},1,A\n{code},1,B\n", r"typed.csv:3: question: question 1 of .* is answered twice"),
        ("{head}\n{code},age,34\n{code},age,35\n", r"typed.csv:3: question: age of .* is given twice"),
        ("{head}\n{code},age," + "9" * 201 + "\n", r"typed.csv:2: answer: expected at most 200 characters in one line"),
        ("{head}\n{code}," + "9" * 100_000 + ",\n", r"typed.csv:2: question: question 999999999 is none of form"),
        ('{head}\n{code},1,"A\n', r"typed.csv:\d: answer: is 'A"),
    ],
)
def test_a_typed_table_that_does_not_fit_is_refused(study: Path, tmp_path: Path, text: str, said: str) -> None:
    filled = text.replace("{head}", "participant,question,answer").replace("{code}", next(iter(keys(study))))
    (tmp_path / "typed.csv").write_text(filled)
    if '"A' in text:  # a quote that nobody closes takes in the rest of the file, here only the letter
        assert read(study, tmp_path / "typed.csv").people
        return
    with pytest.raises(ContentError, match=said):
        read(study, tmp_path / "typed.csv")


def test_a_key_given_twice_and_no_word_of_consent_are_refused(study: Path, tmp_path: Path) -> None:
    """A parser would take one of the two and say nothing."""
    data = form_file(study, next(iter(keys(study))), [{"question": 1, "answer": None}])
    text = json.dumps(data, indent=1).replace('"answer": null', '"answer": "tea", "answer": null')
    (tmp_path / "in.json").write_text(text)
    with pytest.raises(ContentError, match=r"in.json:\d+: answers.0: the key 'answer' is given twice"):
        read(study, tmp_path / "in.json")
    (tmp_path / "in.json").write_text(json.dumps({name: data[name] for name in data if name != "agreed"}))
    with pytest.raises(ContentError, match=r"in.json: agreed: is missing; expected true, which a form says once"):
        read(study, tmp_path / "in.json")


NO_FORM = [b"", b"{", b"\xff", b"[]", b"null", b'{"schema": 1}', b"[" * 5000]
NO_FORM += [
    b'{"schema": ' + b"9" * 1_500_000,
    b" " * 2_000_001,
    b'{"questionnaire":' + b"[" * 1000 + b"]" * 1000 + b"}",
]


@pytest.mark.parametrize("content", NO_FORM, ids=range(len(NO_FORM)))
def test_files_that_are_no_form_end_in_one_line(study: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ContentError, match=r"x\.json") as caught:
        read(study, tmp_path / "x.json")
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ContentError, match=r"x\.csv"):
        read(study, tmp_path / "x.csv")


def test_places_without_answers_are_named(study: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link.json").symlink_to("/etc/passwd")
    for name, said in (
        ("empty", r"holds no \.json or \.csv file"),
        ("a.txt", r"expected a \.json file"),
        ("missing.json", "cannot be read"),
        ("link.json", "symbolic link"),
    ):
        with pytest.raises(ConfigError, match=said):
            read(study, tmp_path / name)


def test_nothing_is_written_where_nobody_counts_or_a_run_is_there(study: Path, tmp_path: Path) -> None:
    fill(study, tmp_path / "in", lambda person, number, right, choices, check: next(c for c in choices if c != right))
    with pytest.raises(ConfigError, match=r"^the files hold nobody's answers; nothing was written$"):
        run_of(study, tmp_path / "human", study / "typed.csv")
    with pytest.raises(ConfigError, match=r"none of the 4 forms that came back counts \(first: .*attention"):
        run_of(study, tmp_path / "human", tmp_path / "in")
    assert not (tmp_path / "human").exists()
    fill(study, tmp_path / "in")
    run_of(study, tmp_path / "human", tmp_path / "in")
    before = (tmp_path / "human/responses.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="holds a run already"):
        run_of(study, tmp_path / "human", tmp_path / "in")
    assert (tmp_path / "human/responses.jsonl").read_bytes() == before
    (tmp_path / "human/manifest.json").unlink()  # as one that was killed leaves it
    run_of(study, tmp_path / "human", tmp_path / "in")
    (tmp_path / "human/manifest.json").unlink()
    (tmp_path / "human/responses.jsonl").write_bytes(before[:-2])
    with pytest.raises(ConfigError, match="holds a run already"):
        run_of(study, tmp_path / "human", tmp_path / "in")


def test_of_two_commands_for_one_run_the_quicker_counts(study: Path, tmp_path: Path, monkeypatch) -> None:
    fill(study, tmp_path / "in")
    fill(study, tmp_path / "other", careless)
    held = run.RunFolder

    def quicker(folder: Path) -> run.RunFolder:
        monkeypatch.setattr(run, "RunFolder", held)
        run_of(study, folder, tmp_path / "other")
        return held(folder)

    monkeypatch.setattr(run, "RunFolder", quicker)
    with pytest.raises(ConfigError, match="holds a run already"):
        run_of(study, tmp_path / "human", tmp_path / "in")


def test_the_commands_make_read_score_analyze_and_report(cli: Cli, tmp_path: Path) -> None:
    own = tmp_path / "jars.py"
    own.write_text(
        "from tests.helpers.questionnaires import items\nfrom tomserve.benchmarks import Benchmark\n"
        'BENCHMARK = Benchmark("jars", lambda path, gold: iter(items()))\n'
    )
    study = tmp_path / "study"
    make = ("dataset", "questionnaire", own, "--out", study, "--people", 4, "--stories", 4)
    done = passes(cli(*make, "--mode", "sentences", "--questions", "all"), "9 placeholders that are not filled in")
    fill(study, tmp_path / "in", careless)
    done = passes(cli("dataset", "answers", study, tmp_path / "in", "--run", "human"))
    for said in (
        f"left out: {next(iter(keys(study)))}: ",
        "left open: ",
        "4 forms: 3 counted, 1 left out, 0 not returned",
    ):
        assert said in done.out
    assert "people: what single people have right" in cli("analyze", "human", "--study", "accuracy", "--all").out
    assert cli("score", "human").code == cli("report", "human").code == 0
    refuses_in_a_line(cli("dataset", "answers", study, tmp_path / "in", "--run", "human"))
    refuses(cli(*make, "--mode", "words"), "unknown --mode 'words'")
