"""Fills in the template of a batch script. Every value is quoted for the shell, whatever it holds.

The template is a file that the owner of a cluster edits, ``launch/slurm/array.sh.jinja`` or a copy of it. An expression
in double braces stands for one or several words of the shell, so that no value can end a word or begin a command.

>>> quoted(["--mem", "a; rm b"])
"--mem 'a; rm b'"
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tomserve.content import files
from tomserve.errors import ConfigError, ContentError

LONGEST = 1 << 20
"""Bytes that a template, or what is included in it, may have."""


def quoted(value: object) -> str:
    """A value as a word of the shell, and a list as several. Raises ConfigError for text with a line end or another
    control character."""
    words = [str(word) for word in value] if isinstance(value, list | tuple) else [str(value)]
    for word in words:
        check(word, "a value of the batch script")
    return shlex.join(words)


def check(text: str, what: str) -> str:
    """The text itself. Raises ConfigError, which names `what` it is, where it holds a control character."""
    if not text.isprintable():
        raise ConfigError(f"{what}: found {files.one_line(text)!r}; expected one line without control characters")
    return text


def render(template: Path, **values: Any) -> str:
    """The script that a template makes of these values.

    template: the file; what it includes lies beside it. Raises ContentError, by file and line, where it cannot be read
    or filled in, and ConfigError for a value that cannot stand in a script.
    """
    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.FunctionLoader(lambda name: _source(template, name)),
        undefined=jinja2.StrictUndefined,
        finalize=quoted,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        return environment.get_template(template.name).render(values)
    except jinja2.TemplateSyntaxError as error:
        raise ContentError(str(error.message), path=template, line=error.lineno) from None
    except (jinja2.TemplateError, TypeError, ArithmeticError) as error:
        raise ContentError(f"cannot be filled in ({error})", path=template) from None


def _source(template: Path, name: str) -> tuple[str, str, None]:
    """The text of a template, and the name of its file, as jinja2 wants them."""
    path = template.parent / name
    if Path(name).name != name:
        raise ContentError(f"includes {name!r}; expected a file that lies beside it", path=template)
    try:
        with files.open_for_reading(path) as file:
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise ContentError(f"has more than {LONGEST} bytes; expected a batch script", path=path)
        return data.decode("utf-8"), str(path), None
    except OSError as error:
        raise ContentError(f"cannot be read ({error.strerror})", path=path) from None
    except UnicodeDecodeError:
        raise ContentError("is no text in UTF-8; expected a batch script", path=path) from None
