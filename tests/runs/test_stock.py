"""Items kept as lines, and a resumed run that makes requests of what is left only."""

import functools
import itertools
from pathlib import Path

import pytest

from tests.conftest import make_item
from tomserve.benchmarks import get, load
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import ContentError
from tomserve.items import items_digest, read_ids, write_items
from tomserve.items.draw import draw_share, limit_items
from tomserve.prompting.strategy import Strategy
from tomserve.runs.conversations import Conversations, Questions, count_requests, is_finished
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import Journal
from tomserve.runs.runfolder import store_items


def test_a_stock_is_its_items() -> None:
    items = list(itertools.islice(load("perturbed"), 120))
    draw = get("perturbed").draw
    stock = ItemStore(items, draw)
    assert list(stock) == items
    assert (stock[7], stock[5:8], stock[-1]) == (items[7], items[5:8], items[-1])
    assert list(stock.ids) == [item.id for item in items]
    assert stock.digest() == items_digest(items)
    assert list(stock.take(40)) == limit_items(items, 40, draw)
    assert list(stock.take_share(0.1)) == draw_share(items, 0.1, draw)
    assert stock.take(None).take(120) is stock


def test_ids_of_a_snapshot_are_read_without_checking_it_again(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    write_items(path, [make_item(number) for number in (2, 1, 3)])
    assert list(read_ids(path)) == ["demo/2", "demo/1", "demo/3"]
    path.write_bytes(path.read_bytes() + b'{"id": 5}\n')
    with pytest.raises(ContentError, match=r"items\.jsonl:4"):
        list(read_ids(path))
    with pytest.raises(ContentError, match="cannot be read"):
        list(read_ids(tmp_path / "none.jsonl"))


def test_a_snapshot_keeps_what_was_asked_and_adds_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    first, more = (
        ItemStore([make_item(number) for number in (2, 1)]),
        ItemStore([make_item(number) for number in (3, 1)]),
    )
    assert set(store_items(tmp_path, first, fresh=True)) == {"demo/1", "demo/2"}
    before = path.read_bytes()
    assert set(store_items(tmp_path, first.take(1), fresh=False)) == {"demo/1", "demo/2"}
    assert path.read_bytes() == before
    assert set(store_items(tmp_path, more, fresh=False)) == {"demo/1", "demo/2", "demo/3"}
    assert list(read_ids(path)) == ["demo/1", "demo/2", "demo/3"]


def test_requests_are_made_of_what_is_left(tmp_path: Path) -> None:
    stock = ItemStore([make_item(number) for number in range(1, 6)])
    questions = Questions(stock, [Strategy.load(name) for name in ("vanilla", "cot")])
    talks = Conversations(functools.partial(Request.build, model="tiny", revision=None, sampling=Sampling()))
    every = [request.identity for request in questions.requests(talks)]
    assert sorted(every) == sorted(question.turn(0) for question in questions)
    with Journal(tmp_path / "responses.jsonl") as journal:

        def requests() -> list[Request]:
            return list(questions.requests(talks, lambda question: not is_finished(journal, question)))

        assert (count_requests(journal, questions), [one.identity for one in requests()]) == ((10, 10, 0, False), every)
        for identity in every[:7]:
            journal.append(row(identity))
        assert count_requests(journal, questions).left == 3
        assert [request.identity for request in requests()] == every[7:]
        for identity in every[7:]:
            journal.append(row(identity))
        assert (count_requests(journal, questions).left, requests()) == (0, [])


def row(identity: Identity) -> dict[str, object]:
    return {"item": identity.item, "strategy": identity.strategy, "turn": 0, "key": "k", "status": "ok"}


def test_a_stock_knows_the_sizes_of_its_items() -> None:
    items = [make_item(number, question="Q" * number) for number in range(1, 4)]
    stock = ItemStore(items)
    texts = [sum(map(len, (*item.story, item.question, *item.choices))) for item in items]
    assert (list(stock.characters), list(stock.parts)) == (texts, [6, 6, 6])
    part = stock.take(2)
    assert list(part.characters) == [texts[int(name[-1]) - 1] for name in part.ids]
