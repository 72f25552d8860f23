"""The queue: which experiments are admitted, in which order they wait, and what people may do with them.
The page of the queue: what waits in which order, and buttons that work as plain forms."""

import math
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from tests.conftest import ROOT
from tests.helpers.examples import copied_example
from tests.helpers.queues import experiment, items, job, put, queue_of, state
from tests.helpers.workbenches import lab, member, signed_in, visitor
from tomserve.content.paths import runs_root, state_root
from tomserve.errors import ConfigError, ConflictError, NoSuchRunError, NotAllowedError
from tomserve.web import accounts, background, run_index
from tomserve.web import queue as web_queue
from tomserve.web.accounts import Person, Role
from tomserve.web.app import make_app
from tomserve.web.queue import Queue
from tomserve.web.run_index import Card, RunIndex, State
from tomserve.web.settings import Settings
from tomserve.web.worker import rebuild
from tomserve.workflows import evaluate
from tomserve.workflows.evaluate import Experiment

ME = Person()
ADA, BEN, EVE = Person("ada"), Person("ben"), Person("eve", Role.READER)
URL = "http://127.0.0.1:9/v1"


@pytest.fixture
def queue() -> Queue:
    return queue_of(Settings())


def taken(queue: Queue, group: str = URL) -> list[str]:
    """The names in the order in which a worker would take them."""
    lines = [(line.name, job(line.name)) for line in queue.lines(ME)]
    return [name for name, found in lines if found.group == group and found.waits]


def order(queue: Queue) -> list[str]:
    return [line.name for line in queue.lines(ME) if job(line.name).active]


def three(queue: Queue) -> list[str]:
    return [queue.submit(experiment(URL, run=name), ME) for name in ("a", "b", "c")]


def ended(name: str, how: State = State.DONE) -> None:
    put(name, state=how, ended="2026-01-01T00:00:00Z")


def test_an_experiment_is_kept_as_a_file_that_eval_takes_under_a_free_name(queue: Queue) -> None:
    given = experiment(URL, model="m/x", noise_check=0.5)
    assert [queue.submit(given, ME) for _ in range(3)] == ["items-m-x", "items-m-x-2", "items-m-x-3"]
    kept = evaluate.read_experiment(runs_root() / "items-m-x" / evaluate.EXPERIMENT_FILE)
    assert kept == given.model_copy(update={"run": "items-m-x"})
    found = job("items-m-x")
    assert (found.state, found.turn, found.group, found.order) == ("queued", 1, URL, 1.0)


def test_they_come_in_order_and_can_be_moved_within_their_group(queue: Queue) -> None:
    other = "http://127.0.0.1:10/v1"
    queue.submit(experiment("127.0.0.1:10", run="y"), ME)
    queue.submit(experiment(other, run="z"), ME)
    queue.act("move", "z", ME, "first")
    assert taken(queue, other) == ["z", "y"]
    for name in "yz":
        queue.act("cancel", name, ME)
        ended(name, State.DONE)
    three(queue)
    queue.act("move", "c", ME, "first")
    assert order(queue) == ["c", "a", "b"]
    queue.act("move", "c", ME, "down")
    assert order(queue) == ["a", "c", "b"]
    queue.act("move", "b", ME, "up")
    queue.act("move", "a", ME, "last")
    queue.act("move", "a", ME, "down")
    assert order(queue) == taken(queue) == ["b", "c", "a"]


def test_there_is_always_a_place_between_two(queue: Queue) -> None:
    three(queue)
    put("b", order=math.nextafter(job("a").order, 2))
    queue.act("move", "c", ME, "up")
    assert order(queue) == taken(queue) == ["a", "c", "b"]


def test_paused_resumed_cancelled_and_tried_again(queue: Queue) -> None:
    three(queue)
    queue.act("pause", "a", ME)
    queue.act("cancel", "b", ME)
    assert (state("a"), state("b"), state("c")) == ("paused", "cancelled", "queued")
    assert [line.name for line in queue.lines(ME)] == ["a", "c", "b"]
    assert taken(queue) == ["c"]
    queue.act("resume", "a", ME)
    queue.act("retry", "b", ME)
    assert (state("a"), state("b"), job("b").ended) == ("queued", "queued", None)
    assert taken(queue) == ["a", "c", "b"]
    for name, action, wanted in (("a", "pause", "paused"), ("b", "cancel", "cancelled")):
        ended(name, State.RUNNING)
        act(queue, action)(name, ME)
        assert (state(name), job(name).wanted) == ("stopping", wanted)
    queue.act("cancel", "a", ME)
    assert job("a").wanted == "cancelled"


def test_what_a_stranger_has_queued_sends_no_key_and_no_items_elsewhere(queue: Queue, monkeypatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-0123456789")
    own = {"path": None, "benchmark": "perturbed", "key": "TOMSERVE_API_KEY"}
    for name, url, fields in (("key", URL, own), ("items", "http://elsewhere.example/v1", {})):
        queue.submit(experiment(url, run=name, **fields), ME)
        put(name, state=State.PAUSED, seal="0" * 64)
        with pytest.raises(NotAllowedError, match="has not made this experiment, which would send"):
            queue.act("resume", name, ME)


REFUSED = {
    State.QUEUED: "resume retry",
    State.WAITING: "resume retry",
    State.PAUSED: "pause retry",
    State.RUNNING: "resume retry move",
    State.STOPPING: "pause resume retry move",
    **dict.fromkeys((State.DONE, State.FAILED, State.CANCELLED), "pause resume cancel move"),
}


@pytest.mark.parametrize("now", REFUSED)
def test_what_the_state_does_not_allow_is_a_conflict(queue: Queue, now: State) -> None:
    queue.submit(experiment(URL, run="a"), ME)
    ended("a", now)
    before = job("a")
    for name in REFUSED[now].split():
        with pytest.raises(ConflictError, match=f"^a is {now.value}"):
            act(queue, name)("a", ME)
    assert job("a") == before


def act(queue: Queue, name: str) -> Callable[[str, Person], None]:
    if name == "rescore":
        return queue.rescore
    return lambda run, person: queue.act(name, run, person, "first" if name == "move" else None)  # type: ignore[arg-type]


ACTIONS = ("pause", "resume", "cancel", "retry", "move", "rescore")


@pytest.mark.parametrize("name", ACTIONS)
def test_nobody_changes_what_is_not_theirs(name: str) -> None:
    queue = queue_of(Settings())
    queue.submit(experiment(URL, run="shown"), ADA)
    queue.submit(experiment(URL, run="hidden"), ADA, private=True)
    before = job("shown"), job("hidden")
    for person in (BEN, EVE):
        with pytest.raises(NotAllowedError, match="belongs to ada"):
            act(queue, name)("shown", person)
        with pytest.raises(NoSuchRunError, match="there is no run 'hidden'"):
            act(queue, name)("hidden", person)
        with pytest.raises(NoSuchRunError):
            act(queue, name)("../shown", person)
    assert (job("shown"), job("hidden")) == before
    with pytest.raises(NotAllowedError):
        queue.submit(experiment(URL, run="a"), EVE)
    items(1)
    if name != "rescore":
        with pytest.raises(ConflictError, match="given was never in the queue"):
            act(queue, name)("given", ME)
    assert [line.name for line in queue.lines(BEN)] == ["shown"]
    assert {line.name for line in queue.lines(ADA)} == {"shown", "hidden"}
    assert run_index.read_card(runs_root() / "hidden").private


def test_a_run_goes_on_with_another_experiment_of_the_same_person() -> None:
    queue = queue_of(Settings())
    queue.submit(experiment(URL, run="a", limit=2), ADA, private=True)
    with pytest.raises(ConflictError, match="in the queue or being asked already"):
        queue.submit(experiment(URL, run="a", limit=4), ADA)
    ended("a")
    for person, said in ((BEN, "is taken"), (Person("cas"), "is taken")):
        with pytest.raises(ConflictError, match=said):
            queue.submit(experiment(URL, run="a"), person)
    assert queue.submit(experiment(URL, run="a", limit=4), ADA) == "a"
    assert evaluate.read_experiment(runs_root() / "a" / evaluate.EXPERIMENT_FILE).limit == 4
    assert (job("a").turn, state("a"), run_index.read_card(runs_root() / "a").private) == (2, "queued", True)
    for name, owner in (("b", "ada"), ("c", "")):
        queue.submit(experiment(URL, run=name), Person(owner))
        ended(name)
    queue.submit(experiment(URL, run="b"), ADA, private=True)
    assert run_index.read_card(runs_root() / "b").private, "it is from now on"
    with pytest.raises(ConflictError, match="'c' belongs to every runner"):
        queue.submit(experiment(URL, run="c"), ADA, private=True)


def test_names_that_are_taken_by_something_else() -> None:
    queue = queue_of(Settings())
    queue.submit(experiment(URL, run="a"), ME)
    (runs_root() / "other").mkdir()
    (runs_root() / "other/precious.txt").write_text("mine")
    (runs_root() / "link").symlink_to("/tmp")
    for name in ("a/inner", "other", "link", "link/x"):
        with pytest.raises(ConflictError, match="is taken"):
            queue.submit(experiment(URL, run=name), ME)
    assert (runs_root() / "other/precious.txt").read_text() == "mine"
    (runs_root() / "cut-short").mkdir()
    (runs_root() / "cut-short" / evaluate.EXPERIMENT_FILE).write_text("model: m\n")
    assert queue.submit(experiment(URL, run="cut-short"), ME) == "cut-short"


def test_of_many_that_want_the_same_name_each_gets_its_own_and_databases_can_be_made_again(queue: Queue) -> None:
    found: list[str] = []
    items(6)
    threads = [
        threading.Thread(target=lambda: found.append(queue.submit(experiment(URL, model="m"), ME))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8
    queue.act("move", found[7], ME, "first")
    queue.act("pause", found[0], ME)
    before = queue.lines(ME)
    assert rebuild() == (9, 7)
    assert queue_of(Settings()).lines(ME) == before
    assert sorted(taken(queue)) == sorted(set(found) - {found[0]})


def test_a_run_is_scored_anew_by_one_at_a_time(monkeypatch: pytest.MonkeyPatch, queue: Queue) -> None:
    folder = copied_example(runs_root())
    (folder / "scores.parquet").unlink(missing_ok=True)
    assert queue.rescored("example", ME) == (False, None)
    queue.rescore("example", ME)
    going, found = queue.rescored("example", ME)
    assert found is not None
    assert (going, found.facts["said"]) == (False, "example: 352 answers scored, 278 correct")
    assert (folder / "scores.parquet").exists()
    monkeypatch.setattr(background, "_IMMEDIATE", [])
    queue.rescore("example", ME)
    with pytest.raises(ConflictError, match="is being scored already"):
        queue.rescore("example", ME)
    assert queue.rescored("example", ME) == (True, None)
    with pytest.raises(NoSuchRunError):
        queue.rescored("none", ME)


def test_cards_are_changed_by_one_at_a_time(queue: Queue) -> None:
    three(queue)

    def note() -> None:
        for _ in range(10):
            run_index.change_card(runs_root() / "a", lambda card: card.model_copy(update={"notes": card.notes + "x"}))

    threads = [threading.Thread(target=note) for _ in range(4)]
    for thread in threads:
        thread.start()
    for where in ("last", "first") * 3:
        queue.act("move", "a", ME, where)
    for thread in threads:
        thread.join()
    assert (len(run_index.read_card(runs_root() / "a").notes), job("a").turn) == (40, 7)


KEYS = Settings(keys=(("ANY_KEY", ""), ("BOUND_KEY", "https://api.example.org/v1"), ("UNSET_KEY", "")))


def check(person: Person = ME, settings: Settings = KEYS, **fields: Any) -> Experiment:
    return web_queue.check_experiment(Experiment(**{"base_url": (URL,), **fields}), person, RunIndex(), settings)


def test_addresses_are_written_in_one_way() -> None:
    found = check(base_url=("127.0.0.1:9", "http://127.0.0.1:9/v1/", "https://h"))
    assert found.base_url == (URL, "https://h/v1")
    assert web_queue.group_of(found) == f"{URL} https://h/v1"
    assert web_queue.group_of(check(base_url=(), model="reference")) == web_queue.THIS_MACHINE


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"strategy": (".",)}, "unknown strategy"),
        ({"benchmark": "hitom", "gold": "../x"}, "unknown set of right answers"),
        ({"base_url": (), "model": "/models/mine"}, "unknown model"),
        ({"base_url": (), "model": "org/model", "start": True}, "unknown model"),
        ({"model": "a\nb"}, "expected a name"),
        ({"base_url": ("file:///etc/passwd",)}, "is no address of a server"),
        ({"base_url": ("ftp://h",)}, "is no address of a server"),
        ({"base_url": ("http://user:secret@h/v1",)}, "holds a user name, a password or a query that may be a key"),
        ({"base_url": ("http://h/v1?key=secret",)}, "holds a user name, a password or a query that may be a key"),
        ({"variants": ("nothing",)}, "nothing"),
        ({"run": "a/" * 13 + "b"}, "lies in more than 12 folders"),
        ({"repeats": 3}, "temperature"),
        ({"where": tuple(f"factor={number}" * 100 for number in range(1000))}, "more than 65,536 bytes"),
    ],
)
def test_anything_else_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        check(**fields)
    assert "secret" not in str(error.value)


def test_files_of_content_and_of_runs_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(benchmark="items", path=str(items(3)))
    content = tmp_path / "content"
    content.mkdir()
    (content / "mine.jsonl").write_text("{}")
    with pytest.raises(NotAllowedError):
        check(benchmark="items", path=str(content / "mine.jsonl"))
    monkeypatch.setenv("TOMSERVE_CONTENT", str(content))
    check(benchmark="items", path=str(content / "mine.jsonl"))
    with pytest.raises(ConfigError, match="is not there"):
        check(benchmark="items", path=str(content / "none.jsonl"))


def test_no_other_file_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, root = items(1), runs_root()
    (root / "given/out").symlink_to("/etc/passwd")
    (root / "given/away").symlink_to("/etc")
    (root / ".web").mkdir(exist_ok=True)
    for path in (root / ".web/token", root / "loose.jsonl", tmp_path / "near.jsonl"):
        path.write_text("{}")
    monkeypatch.chdir(tmp_path)
    outside = ("/etc/passwd", "~/.ssh/id_rsa", f"{given}/../out", "given/out", "given/away/passwd", ".web/token",
               "loose.jsonl", "", "../near.jsonl", "../../../../../etc/passwd", f"{ROOT}/runs/example/items.jsonl")  # fmt: skip
    for name in (*outside, "near.jsonl", ".", "/", "a\0b", "/proc/self/environ", "/etc/none", f"{root}x"):
        for path in {name, str(root / name)}:
            with pytest.raises(NotAllowedError, match="in none of the folders"):
                check(benchmark="items", path=path)


def test_files_of_another_ones_private_run_cannot() -> None:
    folder = runs_root() / "hidden"
    run_index.write_card(folder, Card(owner="ada", private=True))
    (folder / "items.jsonl").write_text("{}")
    check(ADA, benchmark="items", path=str(folder / "items.jsonl"))
    for name in ("items.jsonl", "none.jsonl", ""):
        with pytest.raises(NotAllowedError, match="in none of the folders"):
            check(BEN, benchmark="items", path=str(folder / name))


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ("TOMSERVE_API_KEY", "OPENAI_API_KEY", "VLLM_API_KEY", "HF_TOKEN")
    for name in ("ANY_KEY", "BOUND_KEY", *own, "AWS_SECRET", "MY_TOKENS"):
        monkeypatch.setenv(name, f"value-of-{name}")
    monkeypatch.setenv("COPY_OF_IT", "value-of-TOMSERVE_API_KEY")
    monkeypatch.setenv("TOMSERVE_QUEUE", "redis://:password@h/0")
    monkeypatch.setenv("HARMLESS", "1")


def keys_of(settings: Settings = KEYS, **fields: Any) -> set[str]:
    """The variables of the process that hold a key."""
    found = web_queue.experiment_environment(Experiment(**fields), settings)
    assert found["HARMLESS"] == "1"
    assert "PATH" in found
    assert "TOMSERVE_QUEUE" not in found
    return {name for name, value in found.items() if value.startswith("value-of-")}


@pytest.mark.usefixtures("environment")
def test_the_process_gets_the_key_that_the_experiment_names_or_that_is_bound_to_its_address() -> None:
    assert keys_of(base_url=(URL,), key="ANY_KEY") == {"ANY_KEY"}
    assert keys_of(base_url=("https://api.example.org",), key="BOUND_KEY") == {"BOUND_KEY"}
    assert keys_of(base_url=(URL,)) == set()
    assert keys_of(base_url=("https://api.example.org",)) == {"BOUND_KEY"}
    assert keys_of(base_url=("https://api.example.org", URL)) == set()
    assert keys_of(base_url=("https://api.example.org.evil.net",)) == set()
    assert keys_of(Settings()) == {"TOMSERVE_API_KEY", "OPENAI_API_KEY"}, "servers of this machine"
    os.environ["TOMSERVE_HEADERS"] = "api-key=BOUND_KEY"
    for url, sent in (("https://api.example.org", True), (URL, False)):
        made = web_queue.experiment_environment(Experiment(base_url=(url,)), KEYS)
        assert ("TOMSERVE_HEADERS" in made) == sent, "a header goes where the key in it may go"
    assert keys_of(Settings(), start=True) == {"TOMSERVE_API_KEY", "OPENAI_API_KEY", "HF_TOKEN"}


@pytest.mark.usefixtures("environment")
def test_a_key_must_be_allowed_and_set_and_goes_nowhere_else() -> None:
    check(key="ANY_KEY")
    check(key="BOUND_KEY", base_url=("https://api.example.org/v1/",))
    for fields, said in (
        ({"key": "AWS_SECRET"}, "AWS_SECRET is no variable that this workbench may use"),
        ({"key": "BOUND_KEY"}, "may only be sent to https://api.example.org/v1"),
        ({"key": "BOUND_KEY", "base_url": ("https://api.example.org", URL)}, "may only be sent to"),
        ({"key": "BOUND_KEY", "base_url": ()}, "may only be sent to"),
    ):
        with pytest.raises(NotAllowedError, match=said):
            check(**fields)
    assert "UNSET_KEY" not in os.environ
    with pytest.raises(ConfigError, match="UNSET_KEY is not set where the workbench runs"):
        check(key="UNSET_KEY")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.yaml"
    path.write_bytes(b"model: m\n")
    return path


def test_a_seal_is_that_of_one_experiment_of_one_name(file: Path, tmp_path: Path, monkeypatch) -> None:
    mark = web_queue.seal("r", file.read_bytes())
    assert web_queue.is_sealed("r", file, mark)
    assert not web_queue.is_sealed("s", file, mark)
    assert not web_queue.is_sealed("r", file, "")
    assert not web_queue.is_sealed("r", file, "\N{SNOWMAN}")
    file.write_bytes(b"model: n\n")
    assert not web_queue.is_sealed("r", file, mark)
    mark = web_queue.seal("r", file.read_bytes())
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "other"))
    assert not web_queue.is_sealed("r", file, mark), "another workbench has another secret"


def test_what_a_strangers_folder_of_runs_knows_opens_nothing() -> None:
    theirs = {"secret": "s" * web_queue.SECRET_LENGTH, "token": "t" * 43}
    (runs_root() / ".web").mkdir(parents=True)
    for name, known in theirs.items():
        (runs_root() / ".web" / name).write_text(known)
        (runs_root() / ".web" / name).chmod(0o600)
    assert web_queue.secret() != theirs["secret"].encode()
    own = accounts.load_token(runs_root() / ".web")
    assert own == accounts.load_token(runs_root() / ".web") != theirs["token"]


def test_the_secret_is_this_users_alone(file: Path) -> None:
    mark = web_queue.seal("r", file.read_bytes())
    (path,) = (state_root() / "tomserve/web").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert web_queue.seal("r", file.read_bytes()) == mark
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="is no secret of this user alone"):
        web_queue.is_sealed("r", file, mark)
    path.chmod(0o600)
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="is no secret of this user alone"):
        web_queue.is_sealed("r", file, mark)
    path.unlink()
    path.symlink_to(file)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        web_queue.secret()
    assert os.path.islink(path)


@pytest.fixture
def app() -> FastAPI:
    return make_app(Settings())


ANYBODY = Person()


def submit(app: FastAPI, *names: str, person: Person = ANYBODY, private: bool = False) -> None:
    for name in names:
        experiment = Experiment(run=name, model="tiny", base_url=("http://127.0.0.1:9/v1",), benchmark="perturbed")
        app.state.workbench.queue.submit(experiment, person, private)


def order_shown(html: str) -> list[str]:
    return re.findall(r'class="run-name" href="/live/([^"]+)"', html)


def test_buttons_are_forms_that_work_without_scripts(app: FastAPI) -> None:
    web = visitor(app)
    submit(app, "a", "b", "deep/c")
    page = web.get("/queue").text
    assert order_shown(page) == order_shown(web.get("/parts/queue").text) == ["a", "b", "deep/c"]
    assert "3 queued." in page
    assert 'hx-get="/parts/queue"' in page
    csrf = re.search(r'name="csrf" value="([^"]+)"', page)
    assert csrf

    def press(action: str, name: str, **more: Any) -> Any:
        headers = {"Origin": "http://127.0.0.1:8321"}
        return web.post(f"/queue/{action}/{name}", data={"csrf": csrf[1], "back": "/queue"} | more, headers=headers)

    assert 'action="/queue/first/deep/c"' in page
    answer = press("first", "deep/c")
    assert (answer.status_code, str(answer.url).endswith("/queue")) == (200, True)
    assert order_shown(answer.text) == ["deep/c", "a", "b"]
    assert 'action="/queue/retry/b"' in press("cancel", "b").text
    assert state("b") == "cancelled"
    refused = press("resume", "a")
    assert (refused.status_code, "not paused" in refused.text) == (409, True)
    assert press("explode", "a").status_code in (404, 422)
    web.follow_redirects = False
    for back in ("https://evil.example/", "//evil.example", "/\\evil.example", ""):
        assert press("first", "a", back=back).headers["location"] == "/queue"


def test_readers_and_others_have_no_buttons() -> None:
    app = lab()
    submit(app, "ours", person=Person("ada"))
    submit(app, "hers", person=Person("ada"), private=True)
    assert order_shown(member(app, "ada").get("/queue").text) == ["ours", "hers"]
    for name in ("ben", "eve"):
        page = signed_in(app, name).get("/queue").text
        assert order_shown(page) == ["ours"]
        assert "/queue/pause/" not in page
        assert "/queue/pause/" not in signed_in(app, name).get("/live/ours").text
    assert 'action="/queue/cancel/ours"' in signed_in(app, "ada").get("/live/ours").text
