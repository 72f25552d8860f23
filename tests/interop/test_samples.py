"""Samples of other tools: replies by letter are read in the order that was shown, and secrets are taken out."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.foreign_files import generated, samples
from tests.helpers.outcomes import passes
from tomserve import benchmarks
from tomserve.engine.redact import LONGEST, redact_settings, redact_text
from tomserve.runs.scores import load_scores

DIFFER = "tomserve's reading and the "


def replies(path: Path, row: Callable[[Any, list[str]], dict[str, Any]]) -> Path:
    """A perfect answerer of our questions, shown the choices in the reverse order."""
    lines = []
    for item in itertools.islice(benchmarks.load("hitom", None, None, benchmarks.ALL), 12):
        shown = list(reversed(item.choices))
        text = f"The answer is {chr(ord('A') + shown.index(item.answer))}."
        asked = "\n".join((*item.story, item.question))
        lines.append(json.dumps({"asked": asked, "text": text, "correct": True, "model": "m", **row(asked, shown)}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("told", "right"),
    [
        (lambda asked, shown: {"choices": shown}, 12),
        (lambda asked, shown: {"asked": asked + "".join(f"\n{chr(65 + n)}. {one}" for n, one in enumerate(shown))}, 12),
        (lambda asked, shown: {}, 0),
    ],
)
def test_letters_of_another_order(told: Any, right: int, cli, tmp_path: Path) -> None:
    done = passes(cli("import", "jsonl", replies(tmp_path / "r.jsonl", told), "--run", "r", "--benchmark", "hitom"))
    scores = load_scores("r")
    assert (scores["correct"].sum(), scores["answer"].count()) == (right, right)
    assert (DIFFER in done.err) == (not right)
    analyzed = cli("analyze", "r", "--study", "accuracy", "--all")
    assert right or DIFFER in analyzed.err
    assert f"  tomserve's reading and the tool's grade agree in {right} of 12 replies\n" in done.out
    assert f"tomserve's reading and the grade of the tool that asked agree in {right} of 12 replies\n" in analyzed.out


def test_empty_replies_are_unread(cli, tmp_path: Path) -> None:
    rows = [generated(n, "x", 0.0, resps=[[""]], filtered_resps=["[invalid]"]) for n in range(8)]
    done = cli("import", "lm-eval", samples(tmp_path / "samples_x.jsonl", rows), "--model", "m", "--run", "r")
    assert "8 of 8 replies are empty" in done.err
    scores = load_scores("r")
    assert (set(scores["status"]), set(scores["reason"])) == ({"invalid"}, {"the reply is empty"})
    (tmp_path / "marks.csv").write_text("id,question,correct\n1,Q?,0\n2,R?,1\n")
    assert "empty" not in cli("import", "csv", tmp_path / "marks.csv", "--model", "m", "--run", "c").err


def test_of_old_files_without_filters_names_the_first_counts(cli, tmp_path: Path) -> None:
    rows = [generated(n, f"It is {n}", right) for right in (0.0, 1.0) for n in range(4)]
    for row in rows:
        del row["filter"]
    done = cli("import", "lm-eval", samples(tmp_path / "samples_x.jsonl", rows), "--model", "m", "--run", "r")
    assert "(also there: 'exact_match,filter 2'" in done.out
    assert load_scores("r")["correct"].sum() == 0


SECRETS = {
    "keys by their form": "wrong key sk-proj-abcdef1234, hf_abcdefgh12345 and AKIAABCDEFGH12345678",
    "a header": "sent Authorization: Bearer abcdefgh12345",
    "a header of another kind": "sent Proxy-Authorization: Basic YWJjZGVmZ2gxMjM0NQ==",
    "a token alone": "Bearer abcdefgh12345",
    "JSON": '{"api_key": "abcdefgh12345", "x-api-key":"abcdefgh12345"}',
    "Python": "{'apiKey': 'abcdefgh12345'}",
    "an address": "https://ann:abcdefgh12345@host/v1?key=abcdefgh12345#abcdefgh12345",
    "a query": "POST /v1?access_token=abcdefgh12345&x=1",
    "a list of arguments": "model=m,api_key=abcdefgh12345,max_tokens=5",
    "a password": "password=abcdefgh12345; user=ann",
}


@pytest.mark.parametrize("what", SECRETS)
def test_what_looks_like_a_secret_is_taken_out(what: str) -> None:
    text = SECRETS[what]
    for shown in (
        redact_text(text),
        json.dumps(redact_settings({"text": text, "list": [text], "deep": {"text": text}})),
    ):
        for secret in ("abcdef", "12345", "YWJj", "ABCDEFGH"):
            assert secret not in shown, shown


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=5, tokens: 1200 of 4096 used", "tokenizer: llama-tokenizer", "the key: a value",
        "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000", "Basic questions are basic.",
        "https://host:8000/v1/chat",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


def test_what_is_called_like_a_secret_is_left_out_of_settings() -> None:
    given = {
        "model_args": {"api_key": "s1", "base_url": "https://ann:pw@host:8000/v1?token=t", "cookie": "s4"}
        | {"headers": {"Authorization": "s2"}, "extra_headers": "s3", "max_tokens": 5, "tokenizer": "t"},
        "deep": {"a": {"b": {"c": {"d": 1}}}},
        "long": "x" * 10_000,
        "many": list(range(10_000)),
        "nan": float("nan"),
        "huge": 10**30,
        "none": None,
        "sk-abcdefgh12345": 1,
    }
    kept = redact_settings(given)
    assert kept["model_args"] == {"base_url": "https://host:8000/v1", "max_tokens": 5, "tokenizer": "t"}
    assert kept["deep"] == {"a": {"b": {}}}
    assert (len(kept["long"]), len(kept["many"])) == (LONGEST, 100)
    assert set(kept) == {"model_args", "deep", "long", "many", "***"}


def test_long_texts_of_strangers_take_no_time() -> None:
    """By the square of their length this would take minutes."""
    for text in ("a" * 100_000, "a-" * 50_000, "api_key" * 20_000, "://" * 30_000, "=" * 100_000, "bearer " * 20_000):
        redact_text(text)
        redact_settings(text)
