"""Lines beyond what memory is to hold lie in a temporary file, and read the same."""

import tempfile
from pathlib import Path

import pytest

from tests.conftest import make_item
from tomserve.errors import MachineError
from tomserve.items import items_digest
from tomserve.runs import item_store as lines_module
from tomserve.runs.item_store import ItemStore, LineStore
from tomserve.runs.runfolder import store_items


def filled(count: int) -> tuple[LineStore, list[bytes]]:
    """Lines of many lengths, empty ones among them, and what they are."""
    wanted = [b"%d" % number * (number % 7) for number in range(count)]
    lines = LineStore()
    for number, line in enumerate(wanted):
        lines.append(line)
        assert (lines[number], lines[number // 2]) == (line, wanted[number // 2]), "read while it grows"
    return lines, wanted


@pytest.mark.parametrize("held", [0, 10, 100, 1 << 24])
def test_lines_are_read_wherever_they_lie(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "HELD", held)
    lines, wanted = filled(200)
    assert list(lines) == wanted
    assert len(lines) == 200
    assert lines[-1] == wanted[-1]
    assert lines[50:60] == wanted[50:60]
    part = lines.part([7, 199, 0])
    both = part.concat(lines.part([5])).concat(part)
    assert list(both) == [wanted[place] for place in (7, 199, 0, 5, 7, 199, 0)]
    both.append(b"more")
    assert both[-1] == b"more"
    assert both[0] == wanted[7]
    with pytest.raises(IndexError):
        _ = lines[200]


def test_items_take_little_memory_and_leave_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "HELD", 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    items = [make_item(number, question=f"Where is it {number}" + "?" * 400) for number in range(40)]
    stock = ItemStore(items)
    held = [store for store in stock.lines._stores if len(store._held) > 2000]
    assert list(stock) == items
    assert not held, "what was written to the file is not held any more"
    assert stock.digest() == items_digest(items) == items_digest(reversed(items))
    assert list(stock.part([3, 1]).concat(ItemStore(items[:1]))) == [items[3], items[1], items[0]]
    (tmp_path / "run").mkdir()
    store_items(tmp_path / "run", stock, fresh=True)
    more = [make_item(number, question="Where?") for number in (39, 40)]
    assert len(store_items(tmp_path / "run", ItemStore(more), fresh=False)) == 41
    kept = {item.id: item.question for item in map(type(items[0]).from_json, (tmp_path / "run/items.jsonl").open("rb"))}
    assert kept["demo/39"] == kept["demo/40"] == "Where?"
    assert kept["demo/0"] == items[0].question
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "the temporary files have no names"


def test_no_room_for_many_items_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "HELD", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(MachineError, match=r"no temporary file can take them .*TMPDIR"):
        ItemStore([make_item(1)])
