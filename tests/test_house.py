"""The house keeps its plan: which room may know which, how large a module may grow, what names may stand where."""

import ast
import functools
import gc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "tomserve"
ORDER = (
    *("errors", "status", "content", "items", "beliefs", "stats", "scoring", "prompting", "engine"),
    *("variants", "benchmarks", "serving", "runs", "distributed", "causal", "faithfulness", "humans", "weakness"),
    *("studies", "reporting", "interop", "workflows", "web", "cli"),
)
"""The rooms of the engine; each may import only from those before it, so that there can be no circle."""

LOOSE = {"__init__.py", "__main__.py", "_version.py", "errors.py", "status.py"}
"""The only modules that lie in no room: public names, the entry point, every error and every status on one page each."""

FRONT = ("__init__", "__main__")
"""The public face of the package, which may name whatever it offers."""

BLIND = ("engine", "runs", "distributed", "reporting", "interop", "web", "cli")
"""Rooms that serve every benchmark and every study alike, and so name none."""


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a module, which several tests walk. Garbage is not looked for among the nodes meanwhile, of
    which there are millions: that took four times as long as reading them."""
    gc.disable()
    try:
        return ast.parse(path.read_text("utf-8"))
    finally:
        gc.enable()


def modules() -> Iterator[tuple[str, Path]]:
    """(room, file) of every module of the engine."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """(line, room) of every import of the engine in a module, those for type checkers included."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "tomserve":
            names = [f"tomserve.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "tomserve" and len(parts) > 1 and parts[1] in ORDER:
                yield node.lineno, parts[1]


def test_every_module_lies_in_a_room() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} <= LOOSE
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms <= set(ORDER), "a room that the order of the rooms does not know"


def test_rooms_import_only_rooms_below_them() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {room} may not import {other}"
        for room, path in modules()
        if room not in FRONT
        for line, other in imported_rooms(path)
        if other != room and ORDER.index(other) > ORDER.index(room)
    ]
    studies = ((path, other) for path in (ROOT / "analysis").rglob("*.py") for _, other in imported_rooms(path))
    wrong += [f"{path.relative_to(ROOT)}: a study may not import cli" for path, other in studies if other == "cli"]
    assert not wrong, "\n".join(wrong)


def names_of_content() -> set[str]:
    """The names of the benchmarks and the studies that come with tomserve, without the words that mean something else.

    `items` and `accuracy` are names of a benchmark and of a study, and words that every room needs; `causal`,
    `functional`, `faithfulness`, `search` and `stability` are studies, and the commands whose runs they read.
    """
    studies = {path.stem for path in (ROOT / "analysis").glob("*.py")}
    studies |= {path.parent.name for path in (ROOT / "analysis").glob("*/study.py")}
    benchmarks = {path.stem for path in (PACKAGE / "benchmarks").iterdir() if path.is_dir()} | {"perturbed_2"}
    benchmarks |= {path.stem for path in (PACKAGE / "benchmarks/published").glob("*.py")}
    return {name for name in studies | benchmarks if not name.startswith("_")} - {
        "items", "accuracy", "causal", "functional", "faithfulness", "search", "stability", "published", "base",
    }  # fmt: skip


@pytest.mark.parametrize("room", BLIND)
def test_rooms_for_all_name_no_benchmark_and_no_study(room: str) -> None:
    names = names_of_content()
    assert {"perturbed", "hitom"} <= names
    pattern = re.compile(rf"(?<![A-Za-z])({'|'.join(sorted(names))})(?![A-Za-z])")
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value[:60]!r}"
        for path in (PACKAGE / room).rglob("*.py")
        for tree in [parsed(path)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if pattern.search(node.value) and not _is_docstring(node, tree)
    ]
    assert not wrong, "\n".join(wrong)


def _is_docstring(node: ast.Constant, tree: ast.Module) -> bool:
    """Whether a text only explains: examples in docstrings may name what they like."""
    for parent in ast.walk(tree):
        body = getattr(parent, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and statement.value is node:
                return True
    return False


FUNCTION_LINES, PARAMETERS = 60, 7
"""How long a function may grow, and how many parameters it takes, before it is two things."""

DECLARATIVE = ("cli/", "web/routes/", "benchmarks/hitom/benchmark.py")
"""Where a parameter is an option of a command or of an address, so that there are as many as it has."""


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _docstring_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines explain the function: they are no reason to make them fewer."""
    first = function.body[0]
    explains = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return (first.end_lineno or 0) - first.lineno + 1 if explains and isinstance(first.value.value, str) else 0


def sources() -> list[Path]:
    return [*PACKAGE.rglob("*.py"), *(ROOT / "analysis").rglob("*.py")]


def test_functions_have_one_reason_to_change() -> None:
    wrong = []
    for path in sources():
        shown = path.relative_to(ROOT)
        for function in functions(path):
            declarative = any(f"tomserve/{place}" in str(shown) for place in DECLARATIVE)
            size = (function.end_lineno or 0) - function.lineno + 1 - _docstring_lines(function)
            if size > FUNCTION_LINES and not declarative:
                wrong.append(f"{shown}:{function.lineno}: {function.name} has {size} lines; at most {FUNCTION_LINES}")
            arguments = function.args
            count = len([a for a in (*arguments.posonlyargs, *arguments.args) if a.arg not in ("self", "cls")])
            if count > PARAMETERS and not declarative:
                wrong.append(f"{shown}:{function.lineno}: {function.name} takes {count} parameters by position")
    assert not wrong, "\n".join(wrong)


OPENS = ("open", "io.open", "os.open", "json.load", "pickle.load", "pickle.loads", "np.load", "torch.load")
OPENS += ("yaml.load", "yaml.safe_load", "yaml.parse", "yaml.compose", "exec", "eval", "__import__", "runpy.run_path")
IMPORTS = ("importlib.import_module", "importlib.util.spec_from_file_location", "load_module")
ALLOWED = {
    **dict.fromkeys(("__init__.py", "cli/app.py", "web/background.py"), (IMPORTS, "modules that a table here names")),
    "engine/openai_transport.py": (IMPORTS, "the base of a class of the openai SDK"),
    "benchmarks/__init__.py": (IMPORTS, "a benchmark of tomserve's by its name, or a file that the user typed"),
    "prompting/strategy.py": (IMPORTS, "the program of a strategy in a content folder, or that the user typed"),
    "studies/study.py": (IMPORTS, "a study in a content folder, or that the user typed"),
    "interop/inspect_reader.py": ((".open",), "a member of an archive, of which a bounded length is read"),
    "interop/recompute.py": (
        (".open", ".read_text", ".read_bytes"),
        "runs without tomserve, and its reader has read it",
    ),
    "cli/exit_codes.py": (("os.open",), "/dev/null"),
    "scoring/parallel.py": (("pickle.load",), "the pipe from the process that has started this one"),
    "scoring/table.py": (("pl",), "a score table that the user named, which Polars reads"),
    "serving/keys.py": (("open", "os.open"), "a key, once it is known who else can read its file"),
    "serving/weights.py": ((".open",), "a member of an archive whose digest was compared"),
}
"""Modules outside of content/ that open files or import by themselves, with the calls, and why no stranger decides."""

OWN = ("benchmarks", "prompting", "items", "humans", "serving", "faithfulness/hints.py", "faithfulness/model_access.py")
OWN += ("causal/checkpoints.py", "interop/hub.py", "interop/artefact.py", "web/routes/experiments.py")
"""Where files are read that no stranger chooses (files.open_own): data and texts that come with tomserve or that the
user typed, weights, /proc."""


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def _opens(call: ast.Call) -> str:
    """The way in which a call opens a file for reading or imports a module; "" for any other call."""
    name = _dotted(call.func)
    *before, last = name.split(".")
    if name in (*OPENS, *IMPORTS):
        return "" if name == "open" and _mode(call, 1)[:1] in ("x", "w") else name
    if last in ("read_text", "read_bytes") and before != ["files"]:
        return f".{last}"
    if last == "open" and before and before[-1][:1].islower() and before[-1] not in ("webbrowser", "system"):
        return "" if {*_mode(call, 0), *_mode(call, 1)} & {"x", "w"} else ".open"
    if before == ["pl"] and last.startswith(("read_", "scan_")):
        first = call.args[0] if call.args else None
        memory = isinstance(first, ast.Call) and _dotted(first.func).endswith(("BytesIO", "StringIO"))
        return "" if memory else "pl"
    return ""


def _mode(call: ast.Call, place: int) -> str:
    found = call.args[place] if len(call.args) > place else None
    return found.value if isinstance(found, ast.Constant) and isinstance(found.value, str) else ""


def test_files_are_opened_by_one_module() -> None:
    """Whatever a stranger may have written is read by content/, which follows no link and reads within bounds."""
    wrong, used = [], set()
    for path in sources():
        place = str(path.relative_to(PACKAGE if PACKAGE in path.parents else ROOT))
        calls, _ = ALLOWED.get(place, ((), ""))
        for node in ast.walk(parsed(path)) if not place.startswith("content/") else ():
            if not isinstance(node, ast.Call):
                continue
            if (way := _opens(node)) in calls:
                used.add((place, way))
            elif way or (
                _dotted(node.func).startswith(("files.open_own", "files.read_own")) and not place.startswith(OWN)
            ):
                wrong.append(f"{place}:{node.lineno}: {ast.unparse(node)[:70]}")
    assert not wrong, "\n".join(wrong)
    assert {place for place, _ in used} == set(ALLOWED), "what is allowed and not used any more"


def test_modules_are_run_by_one_function() -> None:
    """Python looks for a module that it is to run in the working directory, unless content/python_file.py tells it."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        if path.name not in ("python_file.py", "recompute.py")  # of which the latter runs without tomserve
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and node.value == "-m"
    ]
    assert not wrong, "\n".join(wrong)


def test_pages_name_modules_that_exist() -> None:
    """A newcomer finds the module by the table of a page, so that a moved one is moved there, too."""
    named = list[Path]()
    for page in ("CONTRIBUTING.md", "README.md", "tests/README.md", "dataset/README.md"):
        paths = re.findall(r"`((?:tomserve|analysis|tests|bench)/[\w/]+\.py)`", (ROOT / page).read_text())
        named += [ROOT / path for path in paths if "NAME" not in path]
    assert len(named) > 10
    assert [str(path) for path in named if not path.exists()] == []
