"""What is secret in the settings and errors of other tools is taken out, and what is not stays."""

import json

import pytest

from tomserve.interop.samples import LONGEST, redact_settings, redact_text

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
        "max_tokens=5, tokens: 1200 of 4096 used",
        "tokenizer: llama-tokenizer",
        "the key: a value",
        "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000",
        "Basic questions are basic.",
        "https://host:8000/v1/chat",
    ],
)
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
