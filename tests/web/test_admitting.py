"""What an experiment that comes from a browser may name, which keys its process gets, and the proof that it was queued here."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.queues import items
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError, NotAllowedError
from tomserve.web import queue, run_index
from tomserve.web.accounts import Person
from tomserve.web.run_index import Card, RunIndex
from tomserve.web.settings import Settings
from tomserve.workflows.evaluate import Experiment

ME, ADA, BEN = Person(), Person("ada"), Person("ben")
URL = "http://127.0.0.1:9/v1"
KEYS = Settings(keys=(("ANY_KEY", ""), ("BOUND_KEY", "https://api.example.org/v1"), ("UNSET_KEY", "")))


def check(person: Person = ME, settings: Settings = KEYS, **fields: Any) -> Experiment:
    return queue.check_experiment(
        Experiment(**{"base_url": (URL,), **fields}), person, RunIndex(settings.folder), settings
    )


def test_names_of_content_are_taken() -> None:
    found = check(model="anything/at-all", benchmark="perturbed", strategy=("vanilla", "cot"), run="pilot/a")
    assert found.strategy == ("vanilla", "cot")
    assert check(base_url=(), model="yi-34b", benchmark="hitom", gold="tracked").gold == "tracked"
    assert check(base_url=(), model="reference").model == "reference"


def test_addresses_are_written_in_one_way() -> None:
    found = check(base_url=("127.0.0.1:9", "http://127.0.0.1:9/v1/", "https://h"))
    assert found.base_url == (URL, "https://h/v1")
    assert queue.group_of(found) == f"{URL} https://h/v1"
    assert queue.group_of(check(base_url=(), model="reference")) == queue.THIS_MACHINE


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"strategy": (".",)}, "unknown strategy"),
        ({"benchmark": "hitom", "gold": "../x"}, "unknown set of right answers"),
        ({"base_url": (), "model": "/models/mine"}, "unknown model"),
        ({"base_url": (), "model": "org/model", "start": True}, "unknown model"),
        ({"model": "a\nb"}, "expected a name"),
        ({"run": "~/out"}, "is no name"),
        ({"base_url": ("file:///etc/passwd",)}, "is no address of a server"),
        ({"base_url": ("ftp://h",)}, "is no address of a server"),
        ({"base_url": ("http://user:secret@h/v1",)}, "holds a user name, a password or a query"),
        ({"base_url": ("http://h/v1?key=secret",)}, "holds a user name, a password or a query"),
        ({"variants": ("nothing",)}, "nothing"),
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
               "loose.jsonl", "", "../near.jsonl", "../../../../../etc/passwd")  # fmt: skip
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
    for name in ("ANY_KEY", "BOUND_KEY", *own, "AWS_SECRET"):
        monkeypatch.setenv(name, f"value-of-{name}")
    monkeypatch.setenv("COPY_OF_IT", "value-of-TOMSERVE_API_KEY")
    monkeypatch.setenv("TOMSERVE_QUEUE", "redis://:password@h/0")
    monkeypatch.setenv("HARMLESS", "1")


def keys_of(settings: Settings = KEYS, **fields: Any) -> set[str]:
    """The variables of the process that hold a key."""
    found = queue.experiment_environment(Experiment(**fields), settings)
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


def test_a_seal_is_that_of_one_experiment_of_one_name(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = queue.seal("r", file.read_bytes())
    assert queue.is_sealed("r", file, mark)
    assert not queue.is_sealed("s", file, mark)
    assert not queue.is_sealed("r", file, "")
    assert not queue.is_sealed("r", file, "\N{SNOWMAN}")
    file.write_bytes(b"model: n\n")
    assert not queue.is_sealed("r", file, mark)
    mark = queue.seal("r", file.read_bytes())
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "other"))
    assert not queue.is_sealed("r", file, mark), "another workbench has another secret"


def test_the_secret_is_this_users_alone(file: Path) -> None:
    mark = queue.seal("r", file.read_bytes())
    path = runs_root() / ".web/secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert queue.seal("r", file.read_bytes()) == mark
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="is no secret of this user alone"):
        queue.is_sealed("r", file, mark)
    path.chmod(0o600)
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="is no secret of this user alone"):
        queue.is_sealed("r", file, mark)
    path.unlink()
    path.symlink_to(file)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        queue.secret()
    assert os.path.islink(path)
