"""Reports that are made once for all tests that read them, and visits of a browser to them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browsing import Watched
from tests.helpers.examples import copied_example
from tests.helpers.reports import hitom_run, hostile_run, sampled_run, talking_run, varied_run
from tomserve.reporting.html.report import report_html, write_report


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed run, in a place of its own, which no test changes."""
    return copied_example(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="session")
def whole(example: Path) -> str:
    return report_html([str(example)])


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the committed run and of a second model that answers "unknown" to everything."""
    folder = tmp_path_factory.mktemp("pair")
    copied_example(folder)
    shutil.copytree(folder / "example", folder / "second")
    journal = folder / "second/responses.jsonl"
    journal.write_text(journal.read_text().replace(r"\"socks\"", r"\"unknown\""))
    return write_report([str(folder / "example"), str(folder / "second")], folder / "r.html", labels=["second=second"])


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The report of a small run, by its kind; each is made when it is first wanted."""
    folder, found = tmp_path_factory.mktemp("small"), dict[str, Path]()
    makers = {
        "hostile": hostile_run,
        "long": lambda place: hostile_run(place, "m" * 300),
        **{one.__name__: one for one in (hitom_run, talking_run, sampled_run, varied_run)},
    }

    def made(kind: str) -> Path:
        if kind not in found:
            found[kind] = write_report([str(makers[kind](folder / kind))], folder / f"{kind}.html")
        return found[kind]

    return made


class Visit(Watched):
    """Somebody who looks at a report."""

    def __init__(self, browser: Any, path: Path, address: str = "", **options: Any) -> None:
        super().__init__(browser, **options)
        self.show(path, address)

    def count(self) -> str:
        return str(self.page.inner_text("#count"))

    def choose(self, label: str, value: str) -> None:
        self.page.get_by_label(label, exact=True).select_option(label=value)

    def outcomes(self) -> set[str]:
        cells = self.page.locator("#answers tbody .right, #answers tbody .wrong").all_inner_texts()
        return {text.split()[-1] for text in cells}


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    visits: list[Visit] = []

    def go(path: Path, address: str = "", **options: Any) -> Visit:
        visits.append(Visit(browser, path, address, **options))
        return visits[-1]

    yield go
    wrong = [line for one in visits for line in one.wrong]
    for one in visits:
        one.context.close()
    assert not wrong
