"""The Dashboard: what runs, what waits, what is new, and a list of runs that can be filtered, sorted and paged."""

from typing import Any

import pytest

from tests.helpers.workbenches import client, example, lab, member
from tomserve.content.paths import runs_root
from tomserve.web import run_status
from tomserve.web.accounts import Person
from tomserve.web.run_index import Card, Job, RunIndex, State
from tomserve.web.run_status import Filters


@pytest.fixture
def several() -> RunIndex:
    example("a", model="small", created="2026-01-01T00:00:00Z", complete=False)
    example("b", Card(tags=("pilot",), notes="odd answers"), model="Large", created="2026-01-03T00:00:00Z")
    example("deep/c", model="small", created="2026-01-02T00:00:00Z")
    example("d", Card(job=Job(state=State.QUEUED, order=2.0)), model="x", complete=False)
    example("e", Card(job=Job(state=State.PAUSED, order=1.0)), model="x", complete=False)
    example("f", Card(job=Job(state=State.FAILED, said="no such model")), model="x", complete=False)
    return RunIndex(runs_root() / ".web")


def names(register: RunIndex, **filters: Any) -> list[str]:
    shown = run_status.overview(register, Person(), Filters(**filters))
    return [row.line.name for row in shown.rows]


def test_filters_and_sorting(several: RunIndex) -> None:
    assert names(several, model="small", sort="name", down=False) == ["a", "deep/c"]
    assert names(several, text="ODD large") == ["b"]
    assert names(several, tag="pilot") == ["b"]
    assert names(several, state="queued") == ["d"]
    assert names(several, state="incomplete") == ["a"]
    assert names(several, text="a b c nothing") == []
    assert [name for name in names(several, sort="made") if name in ("a", "b", "deep/c")] == ["b", "deep/c", "a"]
    assert names(several, sort="name", down=True) == sorted(names(several), reverse=True)


def test_what_waits_what_failed_and_what_there_is(several: RunIndex) -> None:
    shown = run_status.overview(several, Person())
    assert [row.line.name for row in shown.waiting] == ["e", "d"]
    assert [row.line.name for row in shown.failed] == ["f"]
    assert {row.line.name for row in shown.finished} == {"b", "deep/c"}
    assert shown.models == {"small": 2, "Large": 1, "x": 3}
    assert shown.every == 6
    assert shown.free is not None


def test_pages_of_many_runs(monkeypatch: pytest.MonkeyPatch, several: RunIndex) -> None:
    monkeypatch.setattr(run_status, "PAGE", 4)
    first = names(several, sort="name", down=False)
    second = names(several, sort="name", down=False, page=2)
    assert (len(first), len(second)) == (4, 2)
    assert names(several, sort="name", down=False, page=99) == second
    html = client().get("/?sort=name&down=no").text
    assert "page 1 of 2" in html
    assert 'href="/?sort=name&amp;down=no&amp;page=2"' in html


def test_filters_from_an_address_that_makes_no_sense() -> None:
    filters = Filters.read({"sort": "; drop", "page": "-3", "model": "x" * 999, "down": "?"})
    assert (filters.sort, filters.page, len(filters.model)) == ("made", 1, run_status.LONGEST)
    assert Filters.read({"page": "99999999999999"}).page == 1
    assert Filters.read({"sort": "name"}).turned("name").endswith("down=yes")
    assert Filters().address() == "/"
    answer = client().get("/chosen?run=a&run=b&run=c%26x&run=a", follow_redirects=False)
    assert answer.headers["location"] == "/compare?a=a&b=b&b=c%26x"


def test_the_page_shows_all_of_it_and_escapes_what_it_shows(several: RunIndex) -> None:
    example("g", Card(tags=("<b>",), notes="n"), model="<script>alert(1)</script>\u202e")
    page = client().get("/")
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert "\u202e" not in page.text
    for said in ("Next", "no such model", "&lt;b&gt;", "deep/c", "7 runs"):
        assert said in page.text
    assert 'href="/live/d"' in page.text
    assert 'href="/run/deep/c"' in page.text


def test_an_empty_folder_says_how_to_begin() -> None:
    page, reader = client().get("/").text, member(lab(), "eve").get("/").text
    assert "There are no runs yet" in page
    assert "There are no runs yet" in reader
    assert ['href="/new"' in one for one in (page, reader)] == [True, False]


def test_parts_that_fetch_themselves(several: RunIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    web = client()
    assert "no such model" not in web.get("/parts/now").text
    assert 'href="/live/e"' in web.get("/parts/now").text
    monkeypatch.setattr(run_status.SERVERS, "_at", -run_status.FOUND_FOR)
    assert "None runs." in web.get("/parts/servers").text
