"""Load a Python file that a user wrote; where it fails, name the line of that file and not tomserve's own code.

Such a file is code. It is run because the user named it or put it among the content, never because something else names
it, and not because one stands in its folder: see `module_command`.
"""

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tomserve.errors import ConfigError, ContentError, Interrupted, TomserveError


def module_command(module: str, *words: str) -> list[str]:
    """The command that runs an installed module by this Python, with these words. By `-m` alone Python would look for
    it, and for all that it imports, in the working directory first, whose files may be somebody else's."""
    return [sys.executable, "-P", "-m", module, *words]


class _SourceLoader(SourceFileLoader):
    """Runs the file as it is now: Python takes compiled code that lies beside it for that of a file of equal size that
    was changed in the same second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_module(path: Path, kind: str) -> ModuleType:
    """Run the file as a module and return it; it may import modules beside it. kind: what it is, in one word. Raises
    ConfigError where there is no such file, ContentError with file and line where it cannot be loaded."""
    if not path.is_file():
        raise ConfigError(f"{kind} {str(path)!r}: no such file")
    name = f"tomserve_{kind}_{path.stem}"
    if path.suffix != ".py":
        raise ContentError("is not a Python file", path=path)
    loader = _SourceLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses of the file look their module up
    try:
        with _siblings(path.resolve().parent):
            loader.exec_module(module)
    except Interrupted:
        sys.modules.pop(name, None)
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise describe_failure(error, path, "cannot be loaded") from None
    return module


@contextlib.contextmanager
def _siblings(folder: Path) -> Iterator[None]:
    """Let a file import modules that lie beside it; afterwards they are forgotten, so that no other file gets them."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            origin = getattr(sys.modules[name], "__file__", None)
            if origin and Path(origin).parent == folder and not name.startswith("tomserve_"):
                del sys.modules[name]


def describe_failure(error: BaseException, path: Path, what: str) -> ContentError:
    """The error as one line, with the line of that file that was reached last. error: what was raised. path: the user's
    file. what: what went wrong, such as "cannot be loaded"."""
    own = path.resolve()
    line = None
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).resolve() == own:
        line = error.lineno
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).resolve() == own:
            line = frame.lineno
    reason = str(error) if isinstance(error, TomserveError) else f"{type(error).__name__}: {error}"
    return ContentError(f"{what} ({' '.join(reason.split())[:300]})", path=path, line=line)
