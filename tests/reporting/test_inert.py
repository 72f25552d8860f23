"""One list of hostile texts, over everything that tomserve prints or writes for people: none of it is obeyed."""

import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import orjson
import polars as pl
import pytest
from rich.text import Text

from tests.conftest import ROOT, make_item
from tests.helpers.measurements import measured_run, study
from tests.helpers.reports import run_folder
from tomserve.content.text import HIDDEN, escape_hidden, mark_hidden, sanitize, say
from tomserve.reporting import tables
from tomserve.reporting.progress import MeasureScreen, RunScreen
from tomserve.reporting.table_layout import Terminal, print_entry, print_prose, print_table

PAYLOADS = (
    *("\x1b[2J\x1b[31mred", "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "\x1b]52;c;ZXZpbA==\x07", "\x9b2J"),
    *("\x1bP+q544e\x1b\\", "\x1b[6n", "\x1b[>c", "over\rwritten", "a\x08\x08\x08b", "\x07bell", "a\x00b", "a\x7fb", "a\x85b"),
    *("\u202egnp.exe", "\u2066x\u2069", "\u200fx", "\u061cx", "a\u200bb", "a\u200cb", "a\ufeffb", "a\u2060b", "a\u00adb"),
    *("a\u2028b", "a\u2029b", "a\U000e0041b", "\ufff9x"),
)  # fmt: skip
"""Texts that a terminal obeys, that turn the direction of what follows, or that hide."""

ACTIVE = (
    *("=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(A1)", "\t=1", "  =1", "＝1+1"),
    *("\\input{/etc/passwd}", "\\write18{id}", "^^5cinput{x}", "%\n\\input{x}", "$\\immediate$", "a&b\\\\c"),
    *("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "javascript:alert(1)", "' onmouseover='alert(1)"),
    *("[x](javascript:alert(1))", "![x](https://evil.example/p.png)", "<b>bold</b>", "a|b", "[red]x[/red]", "[link=https://evil.example]x"),
)  # fmt: skip
"""Texts that a spreadsheet, LaTeX, a browser, Markdown or rich would run or take for markup."""

HOSTILE = (*PAYLOADS, *ACTIVE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A|\r")
"""What rich itself writes: colours, and the movements of a bar."""


def assert_inert(said: str) -> None:
    strange = {c for c in said if not c.isprintable() and c != "\n"}
    assert not strange, said


def on_a_terminal(doing: Callable[[Terminal], object]) -> str:
    told = io.StringIO()
    doing(Terminal(file=told, force_terminal=True, width=100, highlight=False))
    return COLOUR.sub("", told.getvalue())


@pytest.mark.parametrize("text", HOSTILE, ids=[repr(one)[:24] for one in HOSTILE])
def test_nothing_that_is_printed_is_obeyed(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pl.DataFrame({"model": [text], text or "x": [text], "n": [1]})
    for doing in (
        lambda screen: print_table(text, frame, screen),
        lambda screen: print_prose(text, screen),
        lambda screen: print_entry(Text(text), text, screen),
        lambda screen: screen.print(text, markup=False),
        lambda screen: screen.print(Text(text)),
        lambda screen: RunScreen(screen).message(text),
        lambda screen: MeasureScreen(screen).note(text),
        lambda screen: tables.show_tables({text: frame}, screen, {text: text}),
    ):
        assert_inert(on_a_terminal(doing))
    say(text)
    say(text, error=True)
    out, err = capsys.readouterr()
    assert_inert(out)
    assert_inert(err)
    assert_inert(sanitize(text))


@pytest.mark.parametrize("text", HOSTILE, ids=[repr(one)[:24] for one in HOSTILE])
def test_no_table_hides_or_runs_anything(text: str) -> None:
    frame = pl.DataFrame({"model": [text], text or "x": [text]})
    found = {form: tables.render(frame, form) for form in ("csv", "md", "latex", "json")}
    for form, said in found.items():
        assert re.search(HIDDEN, said) is None, (form, said)
    rows = pl.read_csv(io.StringIO(found["csv"]), infer_schema=False)
    for value in (*rows.columns, *rows.row(0)):
        assert not re.match(r"\s*[=+\-@＝]|[\t\r]", value), value
    assert orjson.loads(found["json"]) == [{"model": text, text: text}]  # nothing is lost
    told = re.sub(
        r"\\(?:textbackslash|textasciicircum|textless|textgreater|textbar|textasciitilde)\{\}", "", found["latex"]
    )
    assert not re.search(r"\\(?:input|write|immediate)|\^\^", told), told
    lines = found["md"].splitlines()
    assert len(lines) == 3
    assert "<" not in found["md"]
    assert not re.search(r"(?<!\\)\]\(", found["md"])
    together = tables.render_all({"one": frame, "two": frame}, "csv", {}, {"one": text, "two": text})
    assert re.search(HIDDEN, together) is None


class _Read(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.active: list[object] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attrs:
            if name.startswith("on") or (name in ("href", "src") and not (value or "").startswith(("#", "data:,"))):
                self.active.append((tag, name, value))


def read(page: str) -> _Read:
    found = _Read()
    found.feed(page)
    return found


def test_a_strangers_run_is_shown_and_nothing_of_it_is_obeyed(cli, tmp_path: Path) -> None:
    """Every text of the manifest, of the answers and of the items that may be any text is hostile at once."""
    text = "".join(PAYLOADS) + "</script><script>alert(1)</script>" + "javascript:alert(1)" + '" onerror="alert(1)'
    items = [make_item(n, factors={"kind": text, "n": n}, question=f"{text} {n}?") for n in range(3)]
    answers = {
        item.id: {"text": text if n else "tea", "error": text, "reasoning": text} for n, item in enumerate(items)
    }
    more = {"server": {"engine_version": text, "root": text, text: text, "flags_changed": {text: {"used": text}}},
            "sessions": [{"time": text, "engine_version": text, "changes": [{"what": text, "before": text}]}, {"time": "b",
            "engine_version": "c"}], "revision": text, "tomserve": text, "created": text, "endpoints": [text],
            "noise": {"concurrencies": [1], "items": 3, "other_engines": [text]}, text: text}  # fmt: skip
    folder = run_folder(tmp_path / "runs/r", {"vanilla": answers}, items, model=text, **more)
    clean = run_folder(tmp_path / "runs/clean", {"vanilla": {item.id: {"text": "tea"} for item in items}}, items)
    for command in (
        *(("runs",), ("runs", "r"), ("runs", "r", "--unread"), ("score", "r")),
        *(("analyze", "r", "--by", "kind"), ("analyze", "r", "--format", "latex")),
        *(("compare", "clean", "r"), ("report", "r")),
    ):
        done = cli(*command)
        assert done.code in (0, 1), done.err
        assert_inert(done.out.replace("\t", ""))
        assert_inert(done.err)
    assert cli("report", clean).code in (0, 1)
    page, own = (read((one / "report.html").read_text()) for one in (folder, clean))
    assert re.search(HIDDEN, (folder / "report.html").read_text()) is None
    assert page.active == own.active == []
    assert page.scripts == own.scripts


def test_what_a_measured_run_says_of_itself_is_inert(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(study(tmp_path / "content")))
    text = "".join(PAYLOADS)
    measured_run(tmp_path / "runs/deep", environment={"device": text, text: text}, settings={text: [text], "n": text})
    for command in (("runs",), ("runs", "deep"), ("analyze", "deep"), ("report", "deep")):
        done = cli(*command)
        assert done.code == 0, done.err
        assert_inert(done.out)
        assert_inert(done.err)
    assert re.search(HIDDEN, (tmp_path / "runs/deep/report.html").read_text()) is None


def test_what_is_hidden_in_json_is_only_written_otherwise() -> None:
    text = "a\u200bb\u202ec\U000e0041d"
    assert orjson.loads(escape_hidden(f'"{text}"')) == text
    assert mark_hidden(text) == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}d"


def test_ordinary_texts_of_all_scripts_stay_as_they_are() -> None:
    for text in ("Zoë", "小明\u3000说", "Привет", "naïve — “quoted”", "שלום", "가나다", "a\tb\nc", "🙂", "e\u0301"):
        assert mark_hidden(text) == escape_hidden(text) == text


def test_the_pages_own_scripts_hold_nothing_that_is_written_otherwise() -> None:
    """Their digests stand in the page's policy, so that not a character of them may change."""
    for path in (ROOT / "tomserve/reporting/html/assets").iterdir():
        assert re.search(HIDDEN, path.read_text()) is None, path


def test_whatever_is_printed_passes_through_one_place() -> None:
    """Commands and what they call print by `say` or a Terminal; the exceptions are data for programs, whose text is
    made inert by whoever renders it, and the end of a command and of its output, which have a rule of their own."""
    allowed = {"cli/analyze.py": 1, "cli/app.py": 1, "cli/exit_codes.py": 2, "content/text.py": 1}
    for path in sorted((ROOT / "tomserve").rglob("*.py")):
        name = path.relative_to(ROOT / "tomserve").as_posix()
        lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith((">>>", "...", "#"))]
        code = [
            line for line in lines if re.search(r"(?<![\w.`])print\(", line) and not re.search(r"^\s+print\(.*#", line)
        ]
        consoles = [line for line in lines if re.search(r"(?<!\w)Console\(\w", line) and "class " not in line]
        if name.startswith(("cli/", "serving/", "reporting/", "runs/", "workflows/evaluate", "workflows/functional")):
            assert len(code) <= allowed.get(name, 0), (name, code)
            assert len(consoles) <= (name == "cli/exit_codes.py"), (name, consoles)
