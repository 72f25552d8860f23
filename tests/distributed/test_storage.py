"""Parts in a store: what is copied there and back is the same, whatever happens to the connection meanwhile."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import fsspec
import orjson
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import DTPHandler, FTPHandler
from pyftpdlib.servers import FTPServer

from tests.conftest import Cli
from tests.helpers import parting
from tomserve.distributed import journals, storage
from tomserve.distributed.merge import merge
from tomserve.errors import ConfigError, ConflictError, MachineError, ServerError, TomserveError

USER, PASSWORD = "writer", "the-secret-word"


@dataclass
class Store:
    """A running server. url: of its root. root: the folder that it serves. cuts: how many more transfers it cuts off.
    after: how many bytes of each of them it lets through."""

    url: str
    root: Path
    cuts: int = 0
    after: int = 10


@contextlib.contextmanager
def serving(root: Path) -> Iterator[Store]:
    """Serve a folder until the block ends; writing and reading take USER and PASSWORD."""
    store, ending = Store("", root), threading.Event()

    class Transfer(DTPHandler):  # type: ignore[misc]  # the library has no types
        def handle_read(self) -> None:
            super().handle_read()
            self._cut()

        def handle_write(self) -> None:
            super().handle_write()
            self._cut()

        def _cut(self) -> None:
            if store.cuts > 0 and self.get_transmitted_bytes() > store.after and self.cmd in ("STOR", "RETR"):
                store.cuts -= 1
                self.cmd_channel.close_when_done()
                self.close()
                self.cmd_channel.close()

    class Handler(FTPHandler):  # type: ignore[misc]
        dtp_handler = Transfer
        auth_failed_timeout = 0.01  # it would let whoever gives a wrong password wait for seconds
        authorizer = DummyAuthorizer()

    Handler.authorizer.add_user(USER, PASSWORD, str(root), perm="elradfmwMT")
    with FTPServer(("127.0.0.1", 0), Handler) as server:
        store.url = f"ftp://127.0.0.1:{server.socket.getsockname()[1]}"

        def serve() -> None:
            while not ending.is_set():
                server.serve_forever(timeout=0.02, blocking=False, handle_exit=False)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield store
        finally:
            ending.set()
            thread.join(30)


ITEMS = parting.names(2)


def part(folder: Path, item: str) -> Path:
    rows = [row for name in (parting.ONCE, parting.TALK) for row in parting.talk(item, name, 0, failures=1, second=5)]
    return parting.written(folder, [item], rows, complete=True, sampling={"temperature": 0.0, "repeats": 1})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setitem(fsspec.config.conf, "ftp", {"username": USER, "password": PASSWORD})
    monkeypatch.setattr(storage, "LONGEST_WAIT", 0.01)
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as running:
        yield running


@pytest.fixture(params=["ftp", "file", "kept"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a place where parts may lie."""
    if request.param == "ftp":
        running: Store = request.getfixturevalue("store")
        return f"{running.url}/mine.parts"
    fsspec.register_implementation("kept", MemoryFileSystem, clobber=True)
    return f"file://{tmp_path}/store/mine.parts" if request.param == "file" else f"kept://{tmp_path.name}/mine.parts"


def test_parts_come_back_as_they_were_and_merge_as_if_they_had_stayed(tmp_path: Path, place: str) -> None:
    here = [part(tmp_path / f"mine.parts/000{n}", item) for n, item in enumerate(ITEMS)]
    journals.pack(here[1])
    assert [storage.upload_part(one, place) for one in here] == [f"{place}/0000", f"{place}/0001"]
    assert storage.upload_part(here[0], place) == f"{place}/0000"  # again does no harm
    assert storage.list_parts(place) == storage.list_parts(f"{place}/*") == [f"{place}/0000", f"{place}/0001"]
    assert storage.list_parts(f"{place}/0001") == [f"{place}/0001"]
    (tmp_path / "back").mkdir()
    there = storage.download_parts([f"{place}/*"], tmp_path / "back")
    for one, copy in zip(here, there, strict=True):
        wanted = {path.name: path.read_bytes() for path in one.iterdir() if path.name != ".lock"}
        assert {path.name: path.read_bytes() for path in copy.iterdir()} == wanted
    merge(here, tmp_path / "a/run")
    merge(there, tmp_path / "b/run")
    assert parting.talks(tmp_path / "a/run") == parting.talks(tmp_path / "b/run")
    assert parting.scored(tmp_path / "a/run") == parting.scored(tmp_path / "b/run")
    for at in "ab":
        parts = orjson.loads((tmp_path / at / "run/manifest.json").read_bytes())["parts"]
        assert [one["run"] for one in parts] == ["mine.parts/0000", "mine.parts/0001"]


def test_a_connection_that_is_cut_is_made_again(tmp_path: Path, store: Store) -> None:
    here = part(tmp_path / "0000", ITEMS[0])
    store.cuts, store.after = 3, 100
    there = storage.upload_part(here, f"{store.url}/mine.parts")
    assert store.cuts == 0
    store.cuts = 2
    (tmp_path / "back").mkdir()
    back = storage.download_part(there, tmp_path / "back")
    assert store.cuts == 0
    assert (back / "responses.jsonl").read_bytes() == (here / "responses.jsonl").read_bytes()


def test_a_store_that_is_away_shows_no_password(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    here = part(tmp_path / "0000", ITEMS[0])
    with pytest.raises(ServerError, match="cannot be reached") as raised:
        storage.upload_part(here, "ftp://127.0.0.1:1/mine.parts")
    assert PASSWORD not in str(raised.value)
    monkeypatch.setitem(fsspec.config.conf, "ftp", {"username": USER, "password": "wrong"})
    with pytest.raises(ServerError, match="530") as raised:
        storage.upload_part(here, f"{store.url}/mine.parts")
    assert "wrong" not in str(raised.value)


def test_what_was_changed_in_the_store_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LONGEST_WAIT", 0.01)
    here, root = part(tmp_path / "0000", ITEMS[0]), tmp_path / "store"
    url = storage.upload_part(here, f"file://{root}")
    journal = root / "0000/responses.jsonl"
    for number, content in enumerate((journal.read_bytes()[:-1], journal.read_bytes() + b"x", b"")):
        journal.write_bytes(content)
        (tmp_path / f"{number}").mkdir()
        with pytest.raises(ServerError, match=r"responses.jsonl: is not what copied.json says"):
            storage.download_part(url, tmp_path / f"{number}")
    record = root / "0000/copied.json"
    held = {"bytes": 1, "digest": "sha256:" + "0" * 64}
    for text in (b"{", b"[]", orjson.dumps({"schema": 1, "files": {"../../outside": held}})):
        record.write_bytes(text)
        with pytest.raises(ConfigError, match=r"copied.json: is not what tomserve writes"):
            storage.download_part(url, tmp_path / "0")
    (tmp_path / "3").mkdir()
    record.write_bytes(orjson.dumps({"schema": 1, "files": {"responses.jsonl": {**held, "bytes": 2**62}}}))
    with pytest.raises(MachineError, match=r"responses.jsonl: has 4,611,.* bytes by copied.json, and .* are free here"):
        storage.download_part(url, tmp_path / "3")
    record.unlink()
    with pytest.raises(ConfigError, match="is no part that was copied whole"):
        storage.download_part(url, tmp_path / "0")


@pytest.mark.parametrize("name", ["responses.jsonl", "copied.json", "shards.json", "0000"])
def test_no_link_in_a_store_on_a_disk_leads_elsewhere(tmp_path: Path, name: str) -> None:
    here, root, mine = part(tmp_path / "mine.parts/0000", ITEMS[0]), tmp_path / "store", tmp_path / "mine"
    (here.parent / "shards.json").write_bytes(b"{}")
    place = root / name if name in ("shards.json", "0000") else root / "0000" / name
    place.parent.mkdir(parents=True)
    mine.mkdir() if name == "0000" else mine.write_text("mine")
    place.symlink_to(mine)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        storage.upload_part(here, f"file://{root}")
    assert not list(mine.iterdir()) if name == "0000" else mine.read_text() == "mine"
    if name == "responses.jsonl":  # nor is a stranger's link copied from there
        place.unlink()
        storage.upload_part(here, f"file://{root}")
        place.unlink()
        place.symlink_to(mine)
        (tmp_path / "back").mkdir()
        with pytest.raises(ConfigError, match="is a symbolic link"):
            storage.download_part(f"file://{root}/0000", tmp_path / "back")
        (root / "0001").symlink_to(root / "0000")
        with pytest.raises(ConfigError, match="0001: is a symbolic link"):
            storage.download_part(f"file://{root}/0001", tmp_path / "back")


def test_only_finished_parts_are_copied_and_one_that_is_ended_early_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = part(tmp_path / "0000", ITEMS[0])
    with monkeypatch.context() as patched:
        patched.setattr(storage, "_copy_pieces", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            storage.upload_part(here, f"file://{tmp_path}/store")
    with pytest.raises(ConfigError, match="no part that was copied whole"):
        storage.list_parts(f"file://{tmp_path}/store")
    (here / "manifest.json").write_bytes(orjson.dumps(parting.manifest(complete=False)))
    with pytest.raises(ConflictError, match="is not complete"):
        storage.upload_part(here, f"file://{tmp_path}/store")


@pytest.mark.parametrize(
    ("url", "kind", "said"),
    [
        ("ftp://me:geheim@host/x", ConfigError, r"ftp://...: holds a name, a password or a token"),
        ("https://host/x?sig=geheim", ConfigError, r"https://...: holds a name"),
        ("simplecache::ftp://me:geheim@host/x", ConfigError, r"...://...: holds a name"),
        ("memory://x\x1b[31m", ConfigError, "no address of a store"),
        ("memory://x", ConfigError, "ends with the command"),
        ("https://host/x", ConfigError, "no store is reached by https; download the parts"),
        ("gs://bucket/x", MachineError, "needs a package that is not installed"),
        ("reference://x", ConfigError, r"cannot be used \(an address alone does not tell it\)"),
    ],
)
def test_a_bad_address_says_why_and_no_secret(tmp_path: Path, url: str, kind: type[TomserveError], said: str) -> None:
    with pytest.raises(kind, match=said) as raised:
        storage.upload_part(part(tmp_path / "0000", ITEMS[0]), url)
    assert "geheim" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_merge_takes_addresses(tmp_path: Path, cli: Cli) -> None:
    for number, item in enumerate(ITEMS):
        storage.upload_part(part(tmp_path / f"mine.parts/000{number}", item), f"file://{tmp_path}/store")
    assert "--into is missing" in cli("merge", f"file://{tmp_path}/store").err
    done = cli("merge", f"file://{tmp_path}/store/*", "--into", "all", "--quiet")
    assert (done.code, "4 of 4 have their final reply, complete" in done.out) == (0, True)
    assert not list((tmp_path / "runs").glob(".tomserve-*"))
