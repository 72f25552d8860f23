"""The runner on virtual time: what is asked when and of whom, what a failure costs, and how a run ends."""

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from tenacity import wait_fixed, wait_none

from tests.helpers.asking import FAST, request, rows
from tests.helpers.virtual import Scripted, virtually
from tomserve.engine.request import AHEAD
from tomserve.engine.retry import Pause, RetryPolicy
from tomserve.engine.transport import Reply
from tomserve.errors import JournalError, ServerError, ServerLostError
from tomserve.runs.journal import Journal

TEA = Reply("ok", '{"answer":"tea"}', usage={"prompt": 10, "completion": 5, "cached": 4})
GONE = Reply("connection", error="refused", reached=False)
PROBE = orjson.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1})
PATIENT = RetryPolicy(attempts=3, wait=wait_fixed(0.05), lost_after=5.0)


def refused(message: str = "no", status: str = "http_400") -> Reply:
    return Reply(status, error=message)


def always(reply: Reply, seconds: float = 0.01) -> Scripted:
    return Scripted(lambda question, number, endpoint: (seconds, reply))


def statuses(journal: Journal) -> list[str]:
    return [row["status"] for row in rows(journal)]


def questions(count: int, first: int = 0) -> Iterator[Any]:
    return (request(number) for number in range(first, first + count))


# what is asked


def test_every_request_becomes_one_row_and_is_made_when_a_worker_is_free(journal: Journal) -> None:
    server, made = always(TEA, 0.1), 0

    def stream() -> Iterator[Any]:
        nonlocal made
        for one in questions(200):
            made += 1
            assert made <= len(server.sent) + 5 + AHEAD
            yield one

    assert virtually(server, journal, stream()) == (True, pytest.approx(200 / 4 * 0.1))
    found = rows(journal)
    assert sorted(row["item"] for row in found) == sorted(f"i{n}" for n in range(200))
    first = found[0]
    assert (first["status"], first["text"], first["usage"], first["schema"]) == ("ok", TEA.text, TEA.usage, 1)
    assert (first["attempts"], first["reused"], first["endpoint"]) == (1, False, "a")
    assert server.peak == 4


def test_equal_prompts_are_sent_once_and_get_a_row_each_also_in_the_next_session(journal: Journal) -> None:
    server = always(TEA, 1.0)
    assert virtually(server, journal, [request(n, "the same") for n in range(6)])[0]
    assert virtually(server, journal, [request(9, "the same")])[0]
    assert len(server.sent) == 1
    found = rows(journal)
    assert sorted(row["item"] for row in found) == ["i0", "i1", "i2", "i3", "i4", "i5", "i9"]
    assert sorted(row["reused"] for row in found) == [False] + [True] * 6
    assert {row["text"] for row in found} == {TEA.text}


def test_what_is_final_is_not_asked_again_and_what_failed_is(journal: Journal) -> None:
    server = Scripted(lambda question, number, endpoint: (0.01, TEA if number != 3 else refused(status="malformed")))
    assert virtually(server, journal, questions(5), policy=RetryPolicy(attempts=1))[0]
    assert virtually(server, journal, questions(8), policy=RetryPolicy(attempts=1))[0]
    assert len(server.sent) == 5 + 1 + 3
    assert statuses(journal).count("ok") == 8


# what a failure costs

TRIES = {
    **dict.fromkeys(("http_400", "http_422", "http_302", "length", "refusal"), 1),
    **dict.fromkeys(("http_500", "http_502", "http_503", "http_429", "malformed", "connection"), 3),
    **dict.fromkeys(("http_409", "http_424", "http_425", "http_498", "http_529"), 3),
    **dict.fromkeys(("timeout", "http_504", "http_522", "http_524"), 2),
}


@pytest.mark.parametrize("status", TRIES)
def test_each_status_has_its_number_of_attempts_and_costs_the_others_nothing(status: str, journal: Journal) -> None:
    """A server that drops connections is there: only one that refuses them is lost."""
    bad = Reply(status, text="half" if status in ("length", "refusal") else None, error="bad")
    server = Scripted(lambda question, number, endpoint: (0.01, bad if question == "bad" else TEA))
    assert virtually(server, journal, [request(0, "bad"), *questions(5, 1)], policy=FAST, concurrency=1)[0]
    found = {row["item"]: row for row in rows(journal)}
    assert (found["i0"]["status"], found["i0"]["attempts"]) == (status, TRIES[status])
    assert {found[f"i{n}"]["status"] for n in range(1, 6)} == {"ok"}
    assert sum(question == "bad" for _, _, question in server.sent) == TRIES[status]


def test_retry_after_is_waited_for_by_all(journal: Journal) -> None:
    busy = Reply("http_429", error="busy", retry_after=7.0)
    server = Scripted(lambda question, number, endpoint: (0.5 if number == 2 else 0.0, busy if number == 1 else TEA))
    assert virtually(server, journal, questions(6), policy=FAST, concurrency=2)[0]
    times = [at for at, _, _ in server.sent]
    assert times[1] == times[0] == 0.0
    assert min(times[2:]) >= 7.0
    assert statuses(journal) == ["ok"] * 6


def test_how_long_is_waited(journal: Journal) -> None:
    policy = RetryPolicy(wait=wait_fixed(3))
    for after, seconds in ((0.0, 3), (2.0, 3), (7.0, 7), (9999.0, 120), (None, 3)):
        assert policy.seconds(Reply("http_503", retry_after=after), 1) == seconds
    assert 0 <= RetryPolicy().seconds(Reply("http_429"), 3) <= 20


def test_a_pause_doubles_and_one_that_is_as_good_as_over_is_over() -> None:
    """An event loop does not wait for less than its clock can tell: whoever asked again would ask for ever."""
    now = 60.0
    pause = Pause(lambda: now)
    pause.note_refusal(Reply("http_429", retry_after=2.0), sent=60.0)
    assert pause.left == 2.0
    now = 62.0 - 2**-40
    assert pause.left == 0.0
    now = 62.5
    assert pause.left == -0.5
    pause.note_answer()
    for seconds in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0):
        now += 100.0
        for _ in range(3):  # refused together, which counts once
            pause.note_refusal(Reply("http_503"), sent=now - 1.0)
        assert pause.left == seconds
    pause.note_answer()
    now += 100.0
    pause.note_refusal(Reply("http_503"), sent=now)
    assert pause.left == 0.25


def test_the_healthy_rest_is_not_slowed_by_a_silent_item(journal: Journal) -> None:
    server = Scripted(lambda question, number, endpoint: (60.0 if question == "bad" else 0.1, TEA))
    assert virtually(server, journal, [request(0, "bad"), *questions(100, 1)]) == (True, 60.0)
    assert [row["item"] for row in rows(journal)][-1] == "i0"
    assert max(at for at, _, _ in server.sent) < 4.0


# a server that is gone, or fails


def test_a_server_that_is_gone_ends_the_run_and_loses_nothing(journal: Journal) -> None:
    assert virtually(always(TEA), journal, [request(0)])[0]
    with pytest.raises(ServerLostError, match=r"no contact for .*refused\)\); repeat the command to resume") as error:
        virtually(always(GONE), journal, questions(10), policy=PATIENT)
    assert error.value.exit_code == 3
    assert [row["item"] for row in rows(journal)] == ["i0"], "no failure rows for what was never answered"


def test_a_process_that_has_ended_is_said_at_once(journal: Journal) -> None:
    with pytest.raises(ServerLostError, match="killed by signal 9"):
        virtually(always(GONE), journal, questions(3), policy=PATIENT, alive=lambda: "killed by signal 9")


def test_a_server_that_only_fails_ends_the_run_with_a_diagnosis(journal: Journal) -> None:
    fails = refused("overloaded", "http_500")
    server = Scripted(lambda question, number, endpoint: (0.01, fails if number > 20 else TEA))
    reason = (
        r"no answer for \d+ s \(since \d\d:\d\d:\d\d UTC\), \d+ questions in a row failed; last error: a.*overloaded"
    )
    with pytest.raises(ServerLostError, match=reason) as error:
        virtually(server, journal, questions(300), policy=PATIENT, concurrency=16)
    assert error.value.exit_code == 3
    assert statuses(journal).count("ok") == 20
    assert len(statuses(journal)) < 40
    assert virtually(always(TEA), journal, questions(300))[0]
    assert len({row["item"] for row in rows(journal) if row["status"] == "ok"}) == 300


def test_an_outage_that_passes_costs_no_item(journal: Journal) -> None:
    def behave(question: str, number: int, endpoint: str) -> tuple[float, Reply]:
        out = 0.2 < asyncio.get_running_loop().time() < 15.0
        return 0.05, refused(status="http_503") if out else TEA

    policy = RetryPolicy(attempts=2, wait=wait_fixed(0.05), lost_after=20)
    assert virtually(Scripted(behave), journal, questions(200), policy=policy, concurrency=16)[0]
    assert statuses(journal).count("ok") >= 200 - 8, "only those given up before the outage was suspected"


def test_items_that_always_fail_end_as_rows_once_a_probe_is_answered(journal: Journal) -> None:
    """More bad items than an outage needs, and nothing else left: they must not keep the run from ever ending."""
    server = Scripted(
        lambda question, number, endpoint: (0.01, TEA if question == "hi" else refused(question[-1:] * 9, "http_500"))
    )
    asked = [request(number, "a sad tale " + "abcdefghijkl"[number]) for number in range(12)]
    assert virtually(server, journal, asked, policy=PATIENT, probe=PROBE)[0]
    assert statuses(journal) == ["http_500"] * 12


def test_first_questions_that_all_fail_alike_end_the_run_with_the_words_of_the_server(journal: Journal) -> None:
    fails = refused("response_format must be text", "http_500")
    server = Scripted(lambda question, number, endpoint: (0.01, TEA if question == "hi" else fails))
    with pytest.raises(ServerError, match=r"all failed alike, with http_500 \(response_format must be text"):
        virtually(server, journal, questions(1000), policy=PATIENT, probe=PROBE, concurrency=None)
    assert rows(journal) == []
    assert len(server.sent) < 40


def test_a_slow_server_is_not_lost_because_some_items_fail(journal: Journal) -> None:
    """Eight items are dropped at once, the healthy rest takes longer than the bound for an outage."""
    dropped = Reply("connection", error="reset")

    def behave(question: str, number: int, endpoint: str) -> tuple[float, Reply]:
        return (0.0, dropped) if "bad" in question else (0.0, TEA) if question == "hi" else (12.0, TEA)

    asked = [*(request(n, f"bad {n}") for n in range(8)), *questions(16, 8)]
    assert virtually(Scripted(behave), journal, asked, policy=PATIENT, concurrency=24, probe=PROBE)[0]
    assert sorted(statuses(journal)) == ["connection"] * 8 + ["ok"] * 16


# refusals


@pytest.mark.parametrize(
    ("word", "said"), [("no such field", "no such field"), ("you asked for {} tokens", "you asked for")]
)
def test_the_same_refusal_of_the_first_questions_is_one_error(word: str, said: str, journal: Journal) -> None:
    server = Scripted(lambda question, number, endpoint: (0.01, refused(word.format(1000 + number))))
    with pytest.raises(ServerError, match=rf"the first 8 questions were all refused with http_400 \({said}") as error:
        virtually(server, journal, questions(1000))
    assert error.value.exit_code == 2
    assert rows(journal) == []
    assert len(server.sent) <= 12
    assert virtually(always(TEA), journal, questions(20))[0]
    assert len(rows(journal)) == 20, "nothing of it was final"


def test_few_questions_all_refused_one_question_refused_and_different_refusals(tmp_path: Path) -> None:
    for count in (3, 1):
        with Journal(tmp_path / f"{count}.jsonl") as journal:
            if count == 3:
                with pytest.raises(ServerError, match="the first 3 questions"):
                    virtually(always(refused()), journal, questions(3))
            else:
                assert virtually(always(refused()), journal, questions(1))[0]
            assert statuses(journal) == ([] if count == 3 else ["http_400"])
    words = ("too long", "no such field", "bad schema")
    server = Scripted(lambda question, number, endpoint: (0.01, refused(words[number % 3])))
    with Journal(tmp_path / "different.jsonl") as journal:
        assert virtually(server, journal, questions(20))[0]
        assert statuses(journal) == ["http_400"] * 20


def test_refusals_held_back_are_left_open_when_the_run_is_stopped(journal: Journal) -> None:
    server, stop = always(refused()), asyncio.Event()

    def slowly() -> Iterator[Any]:
        for number, one in enumerate(questions(5)):
            yield one
            if number == 3:
                stop.set()

    assert not virtually(server, journal, slowly(), concurrency=1, stop=stop)[0]
    assert len(server.sent) > 1
    assert rows(journal) == []


@pytest.mark.parametrize("hedge", [None, 0.01])
def test_a_refused_key_ends_the_run_with_one_error(hedge: float | None, journal: Journal, caplog) -> None:
    """Every worker of many hears of it, and none of their errors is left for asyncio to complain about."""
    server = Scripted(lambda question, number, endpoint: (0.05, TEA if number <= 64 else refused("no", "http_401")))
    with pytest.raises(ServerError, match=r"the API key was refused in mid-run \(no\); set a valid key"):
        virtually(server, journal, questions(1000), ["a", "b"], concurrency=100, hedge=hedge)
    gc.collect()
    assert set(statuses(journal)) <= {"ok"}
    assert caplog.records == []


# replicas


def test_a_dead_replica_costs_no_item(journal: Journal) -> None:
    server = Scripted(lambda question, number, endpoint: (0.01, GONE if endpoint == "b" else TEA))
    policy = RetryPolicy(attempts=2)
    assert virtually(server, journal, questions(100), ["a", "b"], policy=policy, concurrency=8)[0]
    assert statuses(journal) == ["ok"] * 100


@pytest.mark.parametrize("status", ["http_404", "http_500"])
def test_a_replica_that_fails_at_once_does_not_attract_the_work(status: str, journal: Journal) -> None:
    server = Scripted(
        lambda question, number, endpoint: (0.02, TEA) if endpoint == "b" else (0.0, refused("x", status))
    )
    policy = RetryPolicy(attempts=4, wait=wait_none(), lost_after=20)
    assert virtually(server, journal, questions(60), ["a", "b"], policy=policy, concurrency=8)[0]
    assert statuses(journal) == ["ok"] * 60


def test_a_replica_that_comes_back_is_used_again(journal: Journal) -> None:
    def back(endpoint: str) -> bool:
        return asyncio.get_running_loop().time() > 5.0

    server = Scripted(
        lambda question, number, endpoint: (0.2, TEA if endpoint == "a" or back(endpoint) else GONE), back
    )
    policy = RetryPolicy(attempts=2, lost_after=20)
    assert virtually(server, journal, questions(400), ["a", "b"], policy=policy, concurrency=8)[0]
    assert {row["endpoint"] for row in rows(journal)} == {"a", "b"}
    assert statuses(journal) == ["ok"] * 400
    late = [endpoint for at, endpoint, _ in server.sent if at > 8.0]
    assert abs(late.count("a") - late.count("b")) < len(late) / 2


def test_a_slow_answer_is_hedged_and_makes_one_row(journal: Journal) -> None:
    server = Scripted(lambda question, number, endpoint: (9.0 if endpoint == "a" else 1.0, TEA))
    assert virtually(server, journal, [request(0)], ["a", "b"], hedge=0.5, concurrency=1) == (True, 1.5)
    assert [(row["item"], row["endpoint"]) for row in rows(journal)] == [("i0", "b")]


def test_the_slower_copy_counts_where_the_faster_one_failed(journal: Journal) -> None:
    server = Scripted(
        lambda question, number, endpoint: (2.0, TEA) if endpoint == "a" else (0.1, refused("x", "http_500"))
    )
    assert virtually(server, journal, [request(0)], ["a", "b"], hedge=0.5, concurrency=1) == (True, 2.0)
    assert [(row["status"], row["endpoint"]) for row in rows(journal)] == [("ok", "a")]


# the end, and the disk


def test_the_first_stop_drains_what_is_in_flight_and_no_longer_than_allowed(tmp_path: Path) -> None:
    for seconds, drain, written in ((2.0, 30.0, 6), (50.0, 10.0, 0)):
        server, stop = always(TEA, seconds), asyncio.Event()

        def endless(stop: asyncio.Event = stop) -> Iterator[Any]:
            asyncio.get_running_loop().call_later(3.0, stop.set)
            yield from questions(1000)

        with Journal(tmp_path / f"{drain}.jsonl") as journal:
            done, took = virtually(server, journal, endless(), concurrency=3, stop=stop, drain=drain)
            assert (done, took) == (False, pytest.approx(4.0 if written else 13.0))
            assert len(rows(journal)) == written


def broken_disk(fd: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_disk_that_fails_to_sync_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, server = Journal(tmp_path / "responses.jsonl"), always(TEA, 0.2)
    monkeypatch.setattr(os, "fsync", broken_disk)
    with pytest.raises(JournalError, match="No space left on device") as error:
        virtually(server, journal, questions(100), concurrency=1)
    assert error.value.exit_code == 3
    assert len(server.sent) < 10
    monkeypatch.undo()
    journal.close()


def test_rows_are_synced_within_a_second_and_at_the_end(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[float, int]] = []
    real: Callable[[int], None] = os.fsync

    def noted(fd: int) -> None:
        synced.append((asyncio.get_running_loop().time(), len(rows(journal))))
        real(fd)

    monkeypatch.setattr(os, "fsync", noted)
    virtually(always(TEA, 0.3), journal, questions(8), concurrency=1)
    assert max(after - before for (before, _), (after, _) in pairwise(synced)) < 1.0
    assert synced[-1][1] == 8
