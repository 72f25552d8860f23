"""Reading answers, and the score table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import make_item
from tomserve.errors import ConfigError
from tomserve.scoring.answers import read
from tomserve.scoring.score import score_row, table

CHOICES = ("tea", "salt", "unknown")


@pytest.mark.parametrize(
    ("text", "answer", "parse"),
    [
        ('{"answer": "tea"}', "tea", "json"),
        (' \n{"answer":"Tea "}\n', "tea", "json"),
        ('```json\n{"answer": "salt"}\n```', "salt", "fenced"),
        ('Let me think.\n```\n{"answer": "salt"}\n```\nDone.', "salt", "fenced"),
        ('The answer is {"answer": "unknown"}.', "unknown", "embedded"),
        ('{"x": "}"} and {"answer": "tea"}', "tea", "embedded"),
    ],
)
def test_answers(text: str, answer: str, parse: str) -> None:
    reading = read(text, CHOICES)
    assert (reading.answer, reading.parse, reading.reason) == (answer, parse, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty text"),
        ("tea or salt", "no JSON object with an answer"),
        ('{"answer": "milk"}', 'answer "milk" is not one of the labels'),
        ('{"answer": ["tea"]}', 'answer ["tea"] is not one of the labels'),
        ('{"belief": "tea"}', "no field 'answer'"),
        ('{"answer": "tea"} or {"answer": "salt"}', "several JSON objects with an answer"),
        ('```\n{"answer": "tea"}\n```\n```\n{"answer": "salt"}\n```', "several JSON objects"),
        ('{"answer": "te', "no JSON object with an answer"),
        ("null", "no JSON object with an answer"),
    ],
)
def test_what_is_unclear_is_invalid(text: str, reason: str) -> None:
    reading = read(text, CHOICES)
    assert (reading.answer, reading.reason) == (None, reason)


def chain(beliefs: str, sentences: int = 3):
    return read(f'{{"beliefs": {beliefs}, "answer": "tea"}}', CHOICES, sentences)


def test_chains() -> None:
    assert chain('[{"sentence": 1, "belief": "unknown"}, {"sentence": 2, "belief": "tea"}]').chain == (
        (1, "unknown"),
        (2, "tea"),
    )
    assert chain('["unknown", "tea", "TEA"]').chain == ((1, "unknown"), (2, "tea"), (3, "tea"))
    assert chain('[{"sentence": 3, "belief": "tea"}, {"sentence": 1, "belief": "salt"}]').chain == (
        (1, "salt"),
        (3, "tea"),
    )
    twice = '[{"sentence": 1, "belief": "tea"}, {"sentence": 1, "belief": "salt"}]'
    assert chain(twice).chain == ((1, "salt"),)


@pytest.mark.parametrize(
    ("beliefs", "reason"),
    [
        ('[{"sentence": 4, "belief": "tea"}]', "belief 1: sentence 4 is out of range"),
        ('[{"sentence": 0, "belief": "tea"}]', "belief 1: sentence 0 is out of range"),
        ('["tea", "milk"]', "belief 2 is not one of the labels"),
        ('[{"sentence": "1", "belief": "tea"}]', "belief 1: sentence is not a number"),
        ('[{"sentence": true, "belief": "tea"}]', "belief 1: sentence is not a number"),
        ("[]", "beliefs is not a list with entries"),
        ('"tea"', "beliefs is not a list with entries"),
    ],
)
def test_a_faulty_chain_keeps_the_answer(beliefs: str, reason: str) -> None:
    reading = chain(beliefs)
    assert (reading.answer, reading.chain, reading.chain_reason) == ("tea", None, reason)


@given(st.text(alphabet=st.sampled_from(list('{}[]",:`\n\\ teaslunkow"answerblif1234')), max_size=400))
def test_no_text_breaks_the_reader(text: str) -> None:
    reading = read(text, CHOICES, 3)
    assert reading.answer in (*CHOICES, None)
    assert (reading.answer is None) == (reading.reason is not None)


def test_many_braces_cost_linear_time() -> None:
    assert read("{" * 200_000, CHOICES).answer is None
    assert read("{}" * 100_000, CHOICES).answer is None


def response(text: str | None, status: str = "ok", **more) -> dict:
    return {"item": "demo/1", "strategy": "cot", "turn": 0, "status": status, "text": text, "error": None, **more}


def test_a_row_carries_answer_and_chain_metrics() -> None:
    text = '{"beliefs": ["unknown", "unknown", "tea"], "answer": "tea"}'
    row = score_row("r", "m", make_item(), response(text))
    assert row["correct"] is True
    assert row["chain"] == ["unknown", "unknown", "tea"]
    assert (row["chain_proper"], row["chain_lcs"], row["chain_lcps"], row["chain_transitions"]) == (True, 1.0, 1.0, 1.0)
    early = score_row("r", "m", make_item(), response('{"beliefs": ["tea", "tea", "tea"], "answer": "tea"}'))
    assert early["correct"] is True
    assert early["chain_proper"] is False
    assert early["chain_lcs"] == pytest.approx(1 / 3)


def test_a_faulty_chain_scores_nothing_and_no_chain_is_null() -> None:
    faulty = score_row("r", "m", make_item(), response('{"beliefs": ["milk"], "answer": "tea"}'))
    assert (faulty["correct"], faulty["chain_proper"], faulty["chain_lcs"]) == (True, False, 0.0)
    none = score_row("r", "m", make_item(), response('{"answer": "tea"}'))
    assert (none["chain"], none["chain_proper"], none["chain_lcs"]) == (None, None, None)


def test_statuses() -> None:
    cut = score_row("r", "m", make_item(), response('{"answer": "tea"}', "length"))
    assert (cut["status"], cut["correct"]) == ("ok", True)
    assert score_row("r", "m", make_item(), response('{"answ', "length"))["status"] == "length"
    assert score_row("r", "m", make_item(), response("hm"))["status"] == "invalid"
    failed = score_row("r", "m", make_item(), response(None, "timeout", error="no reply"))
    assert (failed["status"], failed["correct"], failed["reason"]) == ("timeout", False, "no reply")


def test_factors_become_columns_and_may_not_shadow() -> None:
    frame = table("r", "m", [(make_item(1, factors={"order": 2}), response('{"answer": "tea"}'))])
    assert frame["order"].to_list() == [2]
    with pytest.raises(ConfigError, match="factor 'correct' of the items has the name of a score column"):
        table("r", "m", [(make_item(1, factors={"correct": 2}), response('{"answer": "tea"}'))])
