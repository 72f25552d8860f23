"""The form in a real browser: Debian's chromium, from disk, with the network watched, filled in by keyboard and mouse.

Skipped where chromium is missing; with NEED_CHROMIUM=1 (as CI sets it) that is a failure.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browsing import Watched
from tests.helpers.questionnaires import HOSTILE, JARS, hostile, keys, made
from tomserve.humans import answers, run
from tomserve.humans import plan as planning

pytestmark = pytest.mark.system


class Participant(Watched):
    """Somebody with a browser and a form."""

    own = ("file:", "blob:")

    def __init__(self, browser: Any, form: Path, **options: Any) -> None:
        super().__init__(browser, **{"viewport": {"width": 360, "height": 700}, **options})
        self.form = form
        self.show(form)

    def open(self) -> None:
        """Open the form once more, in a new tab."""
        self.begin_page()
        self.show(self.form)

    def leave(self) -> None:
        """Close the tab, once the browser has written down what the page has stored."""
        self.page.goto("about:blank")
        self.page.close()

    def step(self) -> str:
        return str(self.page.evaluate("document.documentElement.dataset.step"))

    def press(self, *pressed: str) -> None:
        for key in pressed:
            self.page.keyboard.press(key)

    def begin(self) -> None:
        """Agree, leave the optional details empty, read the instructions; by keyboard alone."""
        assert self.step() == "consent"
        assert self.page.is_disabled("button.main")
        paint = "node => getComputedStyle(node).backgroundColor"
        assert self.page.eval_on_selector("button.main", paint) == "rgba(0, 0, 0, 0)", "it looks as if it did something"
        self.press("Tab", "Space", "Enter")
        if self.step() == "consent":  # Enter on a checkbox does nothing; the button is next
            self.press("Tab", "Enter")
        assert self.step() == "about"
        self.page.click("button.main")
        self.press("Enter")
        assert self.step() == "pages"

    def choose(self, label: str) -> None:
        """Choose by the number beside the answer, and go on."""
        labels = self.page.eval_on_selector_all(".choice input", "all => all.map(one => one.value)")
        self.press(str(labels.index(label) + 1), "Enter")

    def saved(self, act: Any) -> dict[str, Any]:
        """The file that the page saves while `act` happens."""
        with self.page.expect_download() as download:
            act()
        assert download.value.suggested_filename == f"{self.form.stem}.json"
        found: dict[str, Any] = json.loads(Path(download.value.path()).read_text())
        return found


def study(folder: Path, **wishes: Any) -> tuple[Path, str, list[tuple[str, list[str], bool]]]:
    """A questionnaire for one person: its folder, the code, and what is right."""
    made(folder, people=1, **wishes)
    ((code, asked),) = keys(folder).items()
    return folder, code, asked


def test_a_form_filled_in_by_keyboard_is_read_as_it_was_meant(browser: Any, tmp_path: Path) -> None:
    folder, code, asked = study(tmp_path / "study")
    who = Participant(browser, folder / "forms" / f"{code}.html")
    who.begin()
    story = who.page.inner_text(".story")
    assert any(f"the {jar} jar" in story for jar in JARS)
    who.press("Enter")
    assert "Please choose" in who.page.inner_text(".warning")
    for answer, choices, _ in asked[:-1]:
        assert who.page.eval_on_selector_all(".choice input", "all => all.map(one => one.value)") == choices
        who.choose(answer)
    data = who.saved(lambda: who.choose(asked[-1][0]))
    assert who.step() == "end"
    assert json.loads(who.page.input_value("#text")) == data
    assert data["finished"] is True
    assert [one["answer"] for one in data["answers"]] == [answer for answer, _, _ in asked]
    assert all(0 <= one["seconds"] < 60 for one in data["answers"])
    assert data["about"] == {}, "nothing about a person that was not given"
    (tmp_path / f"{code}.json").write_text(json.dumps(data, indent=1))
    plan, _ = planning.read_plan(folder)
    (person,) = run.judge_forms(answers.read_answers([tmp_path / f"{code}.json"], plan), plan).counted
    assert (person.answered, person.left_out, person.wrong) == (4, 0, 0)
    assert not who.wrong


def test_sentences_come_one_by_one_without_a_way_back_and_their_times_are_kept(browser: Any, tmp_path: Path) -> None:
    folder, code, asked = study(tmp_path / "study", mode="sentences", attention=0, together=True)
    who = Participant(browser, folder / "forms" / f"{code}.html")
    who.begin()
    for count in (1, 2, 3):
        assert who.page.locator(".story p").count() == count
        assert who.page.locator("form").count() == 0
        who.page.click("button.main") if count == 2 else who.press(" ")  # a tap does the same as the key
    assert who.page.locator("form").count() == 1
    who.choose(asked[0][0])
    assert who.page.locator("form").count() == 1, "the second question about the story follows at once"
    who.choose(asked[1][0])
    assert who.page.locator(".story p").count() == 1
    assert who.page.locator("text=/back/i").count() == 0
    data = who.saved(lambda: who.page.click("text=Stop here"))
    assert data["finished"] is False
    assert [len(one["reading"]) for one in data["answers"] if "reading" in one] == [3]
    assert all(time >= 0 for time in data["answers"][0]["reading"])
    who.page.click("text=Go on answering")
    assert who.step() == "pages"
    for _ in range(3):
        who.press(" ")
    who.choose(asked[2][0])
    data = who.saved(lambda: who.page.click("text=Stop here"))
    assert [one.get("resumed", False) for one in data["answers"]] == [False, False, True], "its time is not whole"
    assert not who.wrong


def test_a_closed_tab_loses_nothing_and_answers_can_be_deleted(browser: Any, tmp_path: Path) -> None:
    folder, code, asked = study(tmp_path / "study")
    who = Participant(browser, folder / "forms" / f"{code}.html")
    who.page.check("#agree")
    who.page.click("button.main")
    who.leave()
    who.open()
    assert who.step() == "about"
    who.page.fill("[name=age]", " 34 ")
    who.page.fill("[name=language]", "1 Türkçe <b>")
    who.page.click("button.main")
    who.page.click("button.main")
    who.choose(asked[0][0])
    who.page.click("text=I would rather leave")
    place = who.page.inner_text("#place")
    who.leave()
    who.open()
    assert who.page.inner_text("#place") == place == "3 of 6"
    who.choose(asked[2][0])
    data = who.saved(lambda: who.page.click("text=Stop here"))
    assert [one["answer"] for one in data["answers"]] == [asked[0][0], None, asked[2][0]]
    assert [one.get("resumed", False) for one in data["answers"]] == [False, False, True]
    assert data["about"] == {"age": "34", "language": "1 Türkçe <b>"}
    who.agrees = True
    who.page.click("text=Delete my answers")
    assert "have been deleted" in who.page.inner_text("main")
    who.leave()
    who.open()
    assert who.step() == "consent"
    assert not who.wrong


def test_hostile_stories_are_shown_as_they_are_written(browser: Any, tmp_path: Path) -> None:
    """Stories may be anybody's file (--path): nothing in them runs or becomes a part of the page."""
    ((code, _),) = keys(hostile(tmp_path / "study")).items()
    who = Participant(browser, tmp_path / "study/forms" / f"{code}.html")
    who.begin()
    assert who.page.inner_text(".story p") == who.page.inner_text("legend") == HOSTILE
    assert who.page.title() != "taken"
    data = who.saved(lambda: who.choose(HOSTILE))
    assert data["answers"][0]["answer"] == HOSTILE
    assert not who.wrong
