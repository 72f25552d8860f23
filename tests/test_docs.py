"""The documentation: it builds without a warning, loads nothing from anywhere, and what it tells a reader to type works."""

import importlib
import importlib.util
import os
import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tomserve
from tests.conftest import ROOT, Endpoint, running
from tests.helpers.documents import ELSEWHERE, Reader, commands, files, programs
from tests.helpers.examples import copied_example
from tomserve.cli.app import VARIABLES
from tomserve.errors import TomserveError
from tomserve.workflows import evaluate

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
MAINTAINERS = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
TYPED = [
    page
    for page in PAGES
    if (commands((DOCS / page).read_text()) or programs((DOCS / page).read_text()))
    and not page.startswith(("gallery/", "how-to/error-bars"))
]
"""Pages with something to type, but for those that tests/docs/test_gallery.py follows."""


INSIDE = ("how-to/causal.md", "how-to/functional.md")
"""Pages whose commands look inside a model, which takes a minute each; they are followed in the long tier."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: every warning, such as a link that leads nowhere, is an error. Where
    BUILT_SITE names the one that `make docs` has built, as in CI, it is that one."""
    if built := os.environ.get("BUILT_SITE"):
        return Path(built)
    if importlib.util.find_spec("sphinx") is None:
        pytest.skip("needs the extra `docs`, which `dev` brings: so `make test` always has it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run(
        [*command, "-d", folder / "read", DOCS, folder / "html"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs that the reader of every page has already."""
    with running() as server:
        return Reader.begin(tmp_path_factory.mktemp("begun"), server)


class _Loads(HTMLParser):
    """Collects what a browser would fetch by itself: scripts, styles, fonts, pictures, frames; not links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        names = {"link": ("href",), "form": ("action",)}.get(tag, ("src", "srcset", "data", "poster"))
        self.found += [value for name in names if (value := given.get(name))]


@pytest.mark.system
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        parser = _Loads()
        parser.feed(page.read_text())
        assert parser.found, page
        outside = [place for place in parser.found if re.match(r"(?:[a-z]+:)?//", place)]
        assert not outside, f"{page.name}: {outside}"
    for style in site.rglob("*.css"):
        text = style.read_text()
        outside = re.findall(r"@import[^;]*//[^;]*|url\(\s*['\"]?(?:https?:)?//[^)]*", text)
        assert not outside, f"{style.name}: {outside}"
    assert (site / "searchindex.js").stat().st_size > 10_000


@pytest.mark.system
def test_the_reference_lists_every_command_and_every_public_name(site: Path) -> None:
    shown = _text(site / "reference/commands.html")
    for command in ("eval", "export batch", "import batch", "serve", "seal", "merge", "submit slurm", "cancel"):
        assert f"tomserve {command}" in shown
    for option in ("--base-url", "--noise-check", "--dry-run", "--responses", "--twins"):
        assert option in shown
    python = _text(site / "reference/python.html")
    for name in tomserve.__all__:
        assert name in python
    assert "after each sentence" in python  # from the docstring of Gold


def _text(page: Path) -> str:
    return re.sub(r"<[^>]+>", "", page.read_text())


@pytest.fixture(scope="module")
def generated() -> Any:
    """What the module holds that fills pages."""
    return SimpleNamespace(**runpy.run_path(str(DOCS / "generated.py")))


def test_every_field_of_an_experiment_is_listed(generated: Any) -> None:
    page = generated.filled((DOCS / "reference/files.md").read_text())
    listed = page.partition("## Experiments")[2].partition("\n## ")[0]
    for field in evaluate.Experiment.model_json_schema(by_alias=True)["properties"]:
        assert f"`{field}`" in listed


def test_names_that_pages_import_exist() -> None:
    """Programs of pages run in the system tier; a name that has moved is found at once."""
    sources = {page: "\n".join([*files(text).values(), *programs(text)]) for page, text in _texts()}
    sources |= {path.name: path.read_text() for path in DOCS.rglob("*.py")}
    missing = []
    for page, source in sources.items():
        for module, names in re.findall(r"^from (tomserve[\w.]*) import ([\w, ]+)$", source, re.M):
            loaded = importlib.import_module(module)
            for name in names.split(", "):
                if not (hasattr(loaded, name) or (ROOT / module.replace(".", "/") / f"{name}.py").exists()):
                    missing.append(f"{page}: {module}.{name}")
    assert missing == []


def _texts() -> list[tuple[str, str]]:
    return [(page, (DOCS / page).read_text()) for page in PAGES]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.long if page in INSIDE else pytest.mark.system) for page in TYPED]
)
def test_what_a_page_tells_the_reader_to_type_works(page: str, endpoint: Endpoint, begun: Path, tmp_path: Path) -> None:
    Reader(tmp_path, endpoint, begun).follow((DOCS / page).read_text())


def test_commands_that_are_not_run_exist_and_are_still_told() -> None:
    places = [ROOT / "README.md", *(ROOT / name for name in MAINTAINERS), *(DOCS / page for page in PAGES)]
    told = {command for place in places for command in commands(place.read_text())}
    assert set(ELSEWHERE) <= told


def test_the_reference_names_every_variable_column_and_exit_code(cli, tmp_path: Path) -> None:
    outside = (DOCS / "reference/outside.md").read_text()
    assert not [name for name in VARIABLES if f"`{name}`" not in outside]
    codes = {kind.exit_code for kind in _subclasses(TomserveError)} | {0, 1, 130, 143}
    assert not [code for code in codes if f"\n| {code} |" not in outside]
    assert "answers scored" in cli("score", copied_example(tmp_path), "--out", tmp_path / "s.csv").out
    columns = (tmp_path / "s.csv").read_text().splitlines()[0].split(",")
    listed = re.findall(r"`([a-z0-9_*]+)`", (DOCS / "reference/files.md").read_text())
    patterns = [name[:-1] for name in listed if name.endswith("*")]
    assert not [one for one in columns if one not in listed and not one.startswith(tuple(patterns))]


def _subclasses(kind: type[TomserveError]) -> list[type[TomserveError]]:
    return [kind, *(deeper for one in kind.__subclasses__() for deeper in _subclasses(one))]


# What maintainers and reference managers expect


def test_links_of_the_files_beside_the_code_lead_somewhere() -> None:
    for name in ("README.md", *MAINTAINERS):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / name).read_text()):
            if not target.startswith(("http:", "https:", "mailto:")):
                assert (ROOT / target).exists(), f"{name}: {target}"
