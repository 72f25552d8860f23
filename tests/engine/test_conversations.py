"""Conversations of several turns in the engine: what is asked when, of whom, and what a failure does to them."""

import functools
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import Endpoint, completion, make_item
from tests.helpers.asking import SCHEMA, ask, page, rows
from tests.helpers.virtual import Scripted, virtually
from tomserve.engine import transport
from tomserve.engine.endpoints import EndpointPool
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.prompting.conversation import Conversation, Reply, Turn
from tomserve.prompting.strategy import Strategy
from tomserve.runs.conversations import Conversations, Questions, count_requests, is_finished
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import Journal

Talk = Generator[Turn | list[Turn], Any, str | None]
BUILD = functools.partial(Request.build, model="tiny", revision=None, sampling=Sampling())


def says(text: str, **more: Any) -> Turn:
    """A turn that asks just that, for a reply of the schema that scripted endpoints fill."""
    return Turn(({"role": "user", "content": text},), SCHEMA, 16, **more)


class Programmed(Strategy):
    """A strategy called `name` that asks by a program of the test's own. turns: None where only the program knows."""

    def __init__(
        self, program: Callable[[Item], Talk], turns: int | None = None, calls: int = 16, name: str = "talk"
    ) -> None:
        super().__init__(Strategy.load("vanilla").folder)
        self.name, self.program = name, program
        self.turns, self.calls, self.is_multi_turn = turns, turns or calls, turns != 1

    def order(self, item: Item) -> tuple[Any, ...]:
        return (item.story,)

    def turn(self, item: Item) -> Turn:
        return self.conversation(item).open[0]

    def conversation(self, item: Item) -> Conversation:
        return Conversation(self.program(item), self.calls, f"strategy {self.name}, item {item.id!r}")


def three_turns(item: Item) -> Talk:
    """Three turns, each of which repeats what was said before."""
    said = ""
    for number in range(3):
        reply: Reply = yield says(f"{item.id} turn {number}: {said}")
        said += reply.text
    return None


def fan_out(item: Item) -> Talk:
    """One turn, then five at the same time, then one that ends it."""
    first: Reply = yield says(f"{item.id} begins")
    replies: list[Reply] = yield [says(f"{item.id} part {number} {first.text}") for number in range(5)]
    yield says(f"{item.id} ends {[reply.text for reply in replies]}")
    return None


def converse(
    endpoint: Endpoint, journal: Journal, strategy: Strategy, items: Sequence[Item], **options: Any
) -> tuple[bool, Conversations]:
    """Ask what is left of these items through a real transport; returns whether all was asked, and the open talks."""
    talks = Conversations(BUILD)
    questions = Questions(ItemStore(items), [strategy])
    talks.ahead = count_requests(journal, questions).open
    requests = questions.requests(talks, lambda question: not is_finished(journal, question))
    return ask(endpoint, journal, requests, follower=talks, **options), talks


def asked(endpoint: Endpoint) -> list[str]:
    """What the endpoint was asked, in order."""
    return [body["messages"][-1]["content"] for body in endpoint.requests]


def numbered(body, n: int):
    return completion(f'{{"answer":"reply {n}"}}')


def closing(journal: Journal) -> dict[str, int]:
    return {row["item"]: row["closes"] for row in rows(journal) if "closes" in row}


def test_a_conversation_ends_before_the_next_question_is_asked(endpoint: Endpoint, journal: Journal) -> None:
    endpoint.script = numbered
    items = [make_item(n) for n in range(3)]
    done, talks = converse(endpoint, journal, Programmed(three_turns, 3), items, concurrency=1)
    assert done
    assert [text.split(":")[0] for text in asked(endpoint)] == [
        f"demo/{item} turn {turn}" for item in range(3) for turn in range(3)
    ]
    assert asked(endpoint)[2] == 'demo/0 turn 2: {"answer":"reply 1"}{"answer":"reply 2"}'
    found = rows(journal)
    assert [(row["item"], row["turn"], row.get("closes")) for row in found] == [
        (f"demo/{item}", turn, 3 if turn == 2 else None) for item in range(3) for turn in range(3)
    ]
    assert not any("conclusion" in row for row in found)
    assert (len(talks), talks.extra_requests) == (0, 0)


def test_a_list_of_turns_is_asked_at_the_same_time(endpoint: Endpoint, journal: Journal) -> None:
    met = 5
    endpoint.hold = lambda body: "part" in body["messages"][0]["content"] and endpoint.peak < met
    strategy = Programmed(fan_out)
    done, talks = converse(endpoint, journal, strategy, [make_item(1)], concurrency=8)
    assert done
    assert endpoint.peak == 5, "workers that had nothing to do are started again"
    assert (len(endpoint.requests), closing(journal), talks.extra_requests) == (7, {"demo/1": 7}, 6)
    endpoint.peak, met = 0, 2
    assert converse(endpoint, journal, strategy, [make_item(2)], concurrency=2)[0]
    assert endpoint.peak == 2


def test_a_copied_row_does_not_end_the_conversation_it_was_copied_to(endpoint: Endpoint, journal: Journal) -> None:
    def longer(item: Item) -> Talk:
        yield says("the same")
        if item.id == "demo/2":
            yield says("one more")
        return

    items = [make_item(1), make_item(2)]
    assert converse(endpoint, journal, Programmed(longer), items, concurrency=1)[0]
    assert [(row["item"], row["turn"], row.get("closes")) for row in rows(journal)] == [
        ("demo/1", 0, 1),
        ("demo/2", 0, None),
        ("demo/2", 1, 2),
    ]


def test_a_turn_that_has_no_answer_leaves_the_conversation_for_later(endpoint: Endpoint, journal: Journal) -> None:
    endpoint.script = lambda body, n: page(500) if "turn 1" in body["messages"][0]["content"] else None
    strategy, items = Programmed(three_turns, 3), [make_item(1), make_item(2)]
    done, talks = converse(endpoint, journal, strategy, items, concurrency=1)
    assert done
    assert len(talks) == 0, "it is not kept in memory"
    assert [(row["item"], row["turn"], row["status"]) for row in rows(journal)] == [
        (f"demo/{item}", turn, status) for item in (1, 2) for turn, status in ((0, "ok"), (1, "http_500"))
    ]
    endpoint.script = lambda body, n: None
    before = len(endpoint.requests)
    assert converse(endpoint, journal, strategy, items, concurrency=1)[0]
    assert [text[:13] for text in asked(endpoint)[before:]] == [
        f"demo/{item} turn {turn}" for item in (1, 2) for turn in (1, 2)
    ]
    assert closing(journal) == {"demo/1": 3, "demo/2": 3}


def test_a_failure_in_a_list_leaves_the_others_their_answers(endpoint: Endpoint, journal: Journal) -> None:
    endpoint.script = lambda body, n: page(500) if "part 2" in body["messages"][0]["content"] else None
    done, talks = converse(endpoint, journal, Programmed(fan_out), [make_item(1)], concurrency=1)
    assert (done, len(talks), closing(journal)) == (True, 0, {})
    assert sum(row["status"] == "ok" for row in rows(journal)) == 5
    endpoint.script = lambda body, n: None
    before = len(endpoint.requests)
    assert converse(endpoint, journal, Programmed(fan_out), [make_item(1)], concurrency=1)[0]
    assert [text.split(" {")[0].split(" [")[0] for text in asked(endpoint)[before:]] == ["demo/1 part 2", "demo/1 ends"]
    assert closing(journal) == {"demo/1": 7}


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (lambda: page(400, '{"error": {"message": "too long"}}'), "http_400"),
        (lambda: completion(None, refusal="I would rather not."), "refusal"),
    ],
)
def test_a_refusal_ends_the_conversation(endpoint: Endpoint, journal: Journal, reply, status: str) -> None:
    endpoint.script = lambda body, n: reply() if "demo/1 turn 1" in body["messages"][0]["content"] else None
    strategy, items = Programmed(three_turns, 3), [make_item(1), make_item(2)]
    done, talks = converse(endpoint, journal, strategy, items, concurrency=1)
    assert done
    assert (len(talks), talks.extra_requests) == (0, -1)
    assert [(row["item"], row["turn"], row["status"], row.get("closes")) for row in rows(journal)] == [
        ("demo/1", 0, "ok", None),
        ("demo/1", 1, status, 2),
        ("demo/2", 0, "ok", None),
        ("demo/2", 1, "ok", None),
        ("demo/2", 2, "ok", 3),
    ]
    assert Identity("demo/1", "talk", 0) in journal.closed
    before = len(endpoint.requests)
    assert converse(endpoint, journal, strategy, items)[0]
    assert len(endpoint.requests) == before, "it is final"


def test_a_reply_that_was_cut_off_goes_to_the_program(endpoint: Endpoint, journal: Journal) -> None:
    def careful(item: Item) -> Talk:
        reply: Reply = yield says("think")
        yield says("again, please" if reply.cut else "good")
        return

    endpoint.script = lambda body, n: completion("half", finish="length") if n == 1 else None
    assert converse(endpoint, journal, Programmed(careful, 2), [make_item(1)])[0]
    assert asked(endpoint) == ["think", "again, please"]


@pytest.mark.parametrize("answered", [0, 1, 4, 6])
def test_a_run_goes_on_at_any_turn_of_a_list(endpoint: Endpoint, tmp_path: Path, answered: int) -> None:
    endpoint.script = lambda body, n: completion(f"reply to {body['messages'][0]['content'][:13]}")
    whole = tmp_path / "whole.jsonl"
    with Journal(whole) as journal:
        assert converse(endpoint, journal, Programmed(fan_out), [make_item(1)], concurrency=1)[0]
    lines = whole.read_bytes().splitlines(keepends=True)
    first = asked(endpoint)
    part = tmp_path / "part.jsonl"
    part.write_bytes(b"".join(lines[:answered]))
    with Journal(part) as journal:
        assert converse(endpoint, journal, Programmed(fan_out), [make_item(1)], concurrency=1)[0]
        assert asked(endpoint)[7:] == first[answered:], "what was answered is not asked again"
        found = rows(journal)
        assert [(row["turn"], row["key"], row.get("closes")) for row in found] == [
            (row["turn"], row["key"], row.get("closes")) for row in map(orjson.loads, lines)
        ]


def test_a_conversation_that_ends_without_another_reply_is_closed_all_the_same(endpoint, journal: Journal) -> None:
    """Its program made a mistake at the last reply, and was mended."""
    mended = False

    def concluding(item: Item) -> Talk:
        yield says(f"about {item.id}")
        return "tea" if mended else 5  # type: ignore[return-value]

    with pytest.raises(ConfigError, match=r"item 'demo/1': returned 5; expected the text of the answer"):
        converse(endpoint, journal, Programmed(concluding), [make_item(1)])
    assert closing(journal) == {}
    mended = True
    assert converse(endpoint, journal, Programmed(concluding), [make_item(1)])[0]
    assert len(endpoint.requests) == 1
    last = rows(journal)[-1]
    assert (last["closes"], last["conclusion"], last["reused"]) == (1, "tea", True)


def test_a_later_turn_goes_where_the_turn_before_went(journal: Journal) -> None:
    server = Scripted(lambda question, number, url: (0.01 * (1 + number % 3), transport.Reply("ok", "tea")))
    talks, questions = (
        Conversations(BUILD),
        Questions(ItemStore(map(make_item, range(30))), [Programmed(three_turns, 3)]),
    )
    assert virtually(server, journal, questions.requests(talks, lambda question: True), "ab", follower=talks)[0]
    assert {url for _, url, _ in server.sent} == {"a", "b"}
    places: dict[str, set[str]] = {}
    for row in rows(journal):
        places.setdefault(row["item"], set()).add(row["endpoint"])
    assert all(len(where) == 1 for where in places.values()), places


def test_a_busy_replica_does_not_get_a_later_turn() -> None:
    pool = EndpointPool(["a", "b"], 60, concurrency=8)
    talk = Programmed(three_turns, 3)
    request = BUILD(Identity("demo/1", "talk", 1), talk.turn(make_item(1)))
    assert pool.pick(request, near="b") == "b"
    for number in range(2):
        pool.note_sent("b", Identity(f"other/{number}", "talk", 0))
    assert pool.pick(request, near="b") == "a", "b has half of its share in flight, a has nothing"
    assert pool.pick(request, avoid="a", near="a") == "b"
