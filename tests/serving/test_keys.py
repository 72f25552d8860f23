"""Keys: from which files they are taken, and to whom they would be shown."""

import os
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from tests.conftest import ROOT, Endpoint, make_item
from tests.helpers.hostile import Hostile, completion, response
from tomserve.engine.addresses import normalize_url, redact_url
from tomserve.engine.transports import TRANSPORTS
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.serving import keys
from tomserve.serving.endpoint import find_plain_http

KEY = "sk-0123456789"


def text(content: bytes, mode: int = 0o600) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(content)
        path.chmod(mode)

    return make


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.mkdir(mode=0o700), "a text file that can be read"),
        (lambda path: os.mkfifo(path, 0o600), "a text file that can be read"),
        (lambda path: path.symlink_to("/dev/zero"), "a text file that can be read"),
        (lambda path: None, "a text file that can be read"),
        (text(b"\xff\xfe"), "a text file that can be read"),
        (text(b""), "and it is empty"),
        (text(b"sk-one-secret\nsk-two-secret\n"), "on one line and nothing else"),
        (text(b"sk-one-secret\x0bsk-two-secret\n"), "on one line and nothing else"),
        (text(b"sk-one-secret\n" + b" " * 2**20), "on one line and nothing else"),
        (text(b"sk-one\x00secret"), "no HTTP header can carry"),
        (text("sk-öne".encode()), "no HTTP header can carry"),
        (text(KEY.encode(), 0o640), "others on this machine can read"),
        (text(KEY.encode(), 0o604), "others on this machine can read"),
    ],
)
def test_a_file_that_is_no_file_of_one_key_is_refused_in_one_line(
    make: Callable[[Path], None], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "the key"
    make(path)
    monkeypatch.setenv("TOMSERVE_API_KEY_FILE", str(path))
    with pytest.raises(ConfigError, match=said) as error:
        keys.own_key()
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)
    if "others" in said:
        assert f"`chmod 600 '{path}'`" in str(error.value)
        path.chmod(0o600)
        assert keys.own_key() == KEY


def test_all_keys_of_the_environment_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text(f"{KEY}\r\n".encode(), 0o400)(tmp_path / "key")
    (tmp_path / "link").symlink_to(tmp_path / "key")  # of one's own it is followed
    monkeypatch.setenv("TOMSERVE_API_KEY_FILE", str(tmp_path / "link"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("VLLM_API_KEY", "sk-vllm")
    assert keys.api_key() == KEY
    assert set(keys.all_keys()) == {KEY, "sk-openai", "sk-vllm"}
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-own")
    assert set(keys.all_keys()) == {"sk-own", "sk-openai", "sk-vllm"}


def test_headers_of_the_user_are_sent_with_every_request_and_shown_nowhere(cli, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    monkeypatch.setenv("AZURE_KEY", KEY)
    monkeypatch.setenv("OTHER", "Basic dXNlcjpwYXNz")
    said = orjson.dumps({"data": [{"id": "tiny"}], **orjson.loads(completion(f"tea, {KEY}, dXNlcjpwYXNz"))})
    write_items(tmp_path / "items.jsonl", [make_item()])
    for name in TRANSPORTS:
        with Hostile(lambda: [response(said)]) as server:
            done = cli(
                *("eval", "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", server.url),
                *("--header", "api-key=AZURE_KEY", "--header", "Authorization=OTHER"),
                *("--run", name, "--transport", name),
            )
        assert len(server.heard) > 3, done.err
        for head in server.heard:
            assert {f"api-key: {KEY}".encode(), b"authorization: Basic dXNlcjpwYXNz"} <= {
                line.lower().split(b":")[0] + b":" + line.partition(b":")[2] for line in head.split(b"\r\n")
            }
            assert b"another" not in head
        written = b"".join(file.read_bytes() for file in (tmp_path / "runs" / name).rglob("*") if file.is_file())
        for secret in (KEY, "dXNlcjpwYXNz"):
            assert secret not in done.err + done.out
            assert secret.encode() not in written
    refused = cli("eval", "--base-url", server.url, "--header", f"api-key={KEY}")
    assert (refused.code, KEY in refused.err, "NAME=VARIABLE" in refused.err) == (2, False, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("api-key=NOT_SET", "--header api-key: the environment variable that it names is not set"),
        ("api-key", "expected NAME=VARIABLE"),
        ("sk-0123456789abcdef=", r"--header NAME=\.\.\.: expected NAME=VARIABLE"),
        ("Host=HOME", "tomserve sets this header itself"),
        ("a=LINES", "no HTTP header can carry"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused(given: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "one\ntwo")
    with pytest.raises(ConfigError, match=said):
        keys.use_headers([given])


def test_a_host_is_sent_the_key_that_is_named_for_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", KEY)
    monkeypatch.setenv("TOMSERVE_KEYS", "api.other.org=READER_KEY, open.org:81=")
    monkeypatch.setenv("READER_KEY", "sk-reader")
    monkeypatch.setenv("AZURE_KEY", "sk-azure")
    keys.use_headers(["api-key=AZURE_KEY"])
    assert keys.credentials("http://lab.org/v1") == (KEY, {"api-key": "sk-azure"})
    assert keys.credentials("https://API.other.org:8443/v1") == ("sk-reader", {})
    assert keys.credentials("http://open.org:81/v1") == (None, {})
    assert {KEY, "sk-reader", "sk-azure"} <= set(keys.all_keys())
    with pytest.raises(ConfigError, match="one key"):
        keys.credentials("http://lab.org/v1", "https://api.other.org/v1")
    monkeypatch.delenv("READER_KEY")
    with pytest.raises(ConfigError, match="READER_KEY is not set"):
        keys.credentials("https://api.other.org/v1")


def test_two_models_on_two_hosts_are_not_sent_the_same_key(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, reader = ("http://lab.org:8000/v1", "http://lab2.org:8000/v1"), "https://api.other.org/v1"
    keys.check_one_host(lab, [reader])  # without any secret
    monkeypatch.setenv("TOMSERVE_API_KEY", KEY)
    keys.check_one_host(lab, ["http://lab2.org:9000"], ["llama3-8b"], ["http://localhost:8000"])
    keys.check_one_host((), [reader])
    with pytest.raises(ConfigError, match=r"api\.other\.org=VARIABLE") as refused:
        keys.check_one_host(lab, [reader])
    assert KEY not in str(refused.value)
    hosts = ("--base-url", lab[0], "--predictor", reader)
    refused_too = cli("faithfulness", ROOT / "runs/example", *hosts)
    assert (refused_too.code, refused_too.err.strip()) == (2, f"tomserve: {refused.value}")
    monkeypatch.setenv("TOMSERVE_KEYS", "api.other.org=")
    keys.check_one_host(lab, [reader])


@pytest.mark.parametrize("pasted", [f"Bearer {KEY}", f'export OPENAI_API_KEY="{KEY}"', f"Authorization: Bearer {KEY}"])
def test_a_pasted_key_is_understood(pasted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", pasted)
    assert keys.api_key() == KEY
    assert KEY in keys.all_keys()


SECRETIVE = (
    "http://user:SECRET@host:99999", "http://user:SECRET@host:8000/v1", "http://SECRET@host/v1",
    "http://:SECRET@host/v1", "user:SECRET@host", "http://user:SECRET%40host/v1",
    "http://user:SEC/SECRET@host/v1", "http://user:SEC?SECRET@host/v1", "http://user:SEC#SECRET@host/v1",
    "http://user:SECRET@[::1", "http://user:SECRET", "http://host:SECRET/v1", "http://host/v1?key=SECRET",
    "http://host/v1#SECRET", "http://host /SECRET@x", "ftp://user:SECRET@host", "SECRET:user@host://x",
    "http://user:SECRET\uff20host/v1", "http://user:SECRET@ho\u2100st/v1", "http://user:SECRET\t@host:bad",
    "http://host/v1?v=1&api_key=SECRET", "http://host/v1?SECRET", "http://host/v1?v=sk-SECRET",
    "http://host/v1?v=SECRETxxxxxxxxxxxxxxxx", "http://host/v1?v=a%20SECRET", "http://host/v1?subscription-key=SECRET",
    "http://:@host", "http://@host", "http:///SECRET@", "https:user:SECRET@host", "http://SECRET\\@host:99999",
)  # fmt: skip


@pytest.mark.parametrize("url", SECRETIVE)
def test_no_address_shows_what_is_secret_in_it(url: str) -> None:
    assert "SECRET" not in redact_url(url)
    assert redact_url(url).isprintable()
    with pytest.raises(ConfigError) as error:
        normalize_url(url)
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize(
    ("said", "endpoint"),
    [
        ("http://h:8000", "http://h:8000/v1"),
        ("host:8000/", "http://host:8000/v1"),
        ("http://h/v1/chat/completions", "http://h/v1"),
        ("https://host/openai/deployments/a_b/", "https://host/openai/deployments/a_b"),
        ("https://api.example.org/openai/v1/", "https://api.example.org/openai/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("https://h/v1/chat/completions?api-version=2024-10-21", "https://h/v1?api-version=2024-10-21"),
        ("https://h/openai/deployments/d/?api-version=1&x=", "https://h/openai/deployments/d?api-version=1&x="),
        ("http://münchen.example:80/v1", "http://xn--mnchen-3ya.example:80/v1"),
    ],
)
def test_addresses(said: str, endpoint: str) -> None:
    assert normalize_url(said) == endpoint
    assert redact_url(endpoint) == endpoint
    assert redact_url("http://user:SECRET@host:99999/v1") == "http://***@host:99999/v1"


def test_a_key_over_plain_http_to_another_host_is_warned_of() -> None:
    others = ["http://192.0.2.1:8000/v1", "http://host.example/v1"]
    own = ["http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://[::1]:1/v1", "https://host.example/v1"]
    assert [line.split(": ")[0] for line in find_plain_http(others + own, KEY)] == others
    assert list(find_plain_http(others, None)) == []


@pytest.mark.parametrize("own", [False, True])
def test_the_warning_comes_before_the_key_is_sent(own: bool, endpoint: Endpoint, cli, monkeypatch) -> None:
    monkeypatch.setenv("LAB_KEY" if own else "TOMSERVE_API_KEY", KEY)
    monkeypatch.setenv("TOMSERVE_KEYS", "127.0.0.1=LAB_KEY" if own else "")
    monkeypatch.setattr("tomserve.serving.endpoint.is_this_machine", lambda host: False)
    done = cli("eval", "--base-url", endpoint.url, "--limit", 1)
    assert done.code == 0
    assert done.err.count("the API key goes there over plain http") == 1
    assert KEY not in done.err + done.out
