"""The templates of a strategy: Jinja in a sandbox, rendered fast, with errors that name the file and the line.

A template may include another of its folder, or of a folder beside it, by a path that is relative to its own folder:
``{% include "../parts/assumptions.j2" %}``.

>>> Template(environment(Path("prompts/mine")), "Who? {{ person }}", Path("user.j2")).render({"person": "Ann"})
'Who? Ann'
"""

import os
import re
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import jinja2
import jinja2.compiler
import jinja2.meta
import jinja2.nodes
import jinja2.sandbox
import orjson

from tomserve.content import files
from tomserve.errors import ContentError, one_of

_LOOP = frozenset({"index", "index0", "first", "last", "length"})
"""Attributes of jinja's ``loop`` that are harmless whatever an item holds."""

_NO_ATTRIBUTE = re.compile(r"'dict object' has no attribute '([^']*)'")
"""How jinja reports that a mapping lacks a key."""


class _Generator(jinja2.compiler.CodeGenerator):
    """Writes ``loop.index`` and the like without the sandbox's check, which took half of the time of a prompt."""

    def visit_Getattr(self, node: jinja2.nodes.Getattr, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Write the access to an attribute as Python code; called by jinja for each in a template."""
        if isinstance(node.node, jinja2.nodes.Name) and node.node.name == "loop" and node.attr in _LOOP:
            self.visit(node.node, frame)
            self.write(f".{node.attr}")
        else:
            super().visit_Getattr(node, frame)


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    code_generator_class = _Generator


def environment(folder: Path) -> jinja2.Environment:
    """The surroundings of the templates of one folder; an unknown variable is an error, and no HTML is escaped."""

    def load_include(name: str) -> tuple[str, str, None]:
        path = folder / name
        if not _is_includable(path, folder):
            raise jinja2.TemplateNotFound(name)
        text = _read(path)  # the template that includes it has looked where it lies
        return text + "\n" * text.endswith("\n"), str(path), None  # jinja drops the last line end of every source

    made = _Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        loader=jinja2.FunctionLoader(load_include),
        auto_reload=False,
    )
    made.filters["tojson"] = _to_json
    return made


class Template:
    """A compiled template. uses: the variables that it and what it includes look up. included: the sources of the files
    that it includes, by the name that it gives them. Raises ContentError by file and line for what is no template."""

    def __init__(self, surroundings: jinja2.Environment, source: str, path: Path) -> None:
        self.source, self.path = source, path
        self.included: dict[str, str] = {}
        self._environment = surroundings
        uses, code = self._look_through(source, path)
        self.uses = frozenset(uses)
        self._template = surroundings.template_class.from_code(surroundings, code, surroundings.make_globals(None))
        self._globals = dict(surroundings.globals)
        self._context = self._template.new_context({}, shared=True)

    def _look_through(self, source: str, path: Path) -> tuple[set[str], CodeType]:
        """The variables that a source uses, and its code; notes what it includes, and looks through that, too."""
        try:
            tree = self._environment.parse(source)
            code = self._environment.compile(source)  # some mistakes, such as an unknown filter, only show here
        except jinja2.TemplateSyntaxError as error:
            raise ContentError(f"broken template: {error.message}", path=path, line=error.lineno) from None
        used = jinja2.meta.find_undeclared_variables(tree)
        for name in jinja2.meta.find_referenced_templates(tree):
            if name is None:
                reason = "includes a file by a computed name; write the name as a text, so that the digest covers it"
                raise ContentError(reason, path=path)
            if name not in self.included:
                file = self.path.parent / name
                if not _is_includable(file, self.path.parent):
                    reason = f"includes {name!r}, and there is no such file NAME.j2 in its folder or in one beside it"
                    raise ContentError(reason, path=path)
                self.included[name] = read_template(file, self.path.parent, self.path)
                used |= self._look_through(self.included[name], file)[0]
        return used, code

    def line_of(self, variable: str) -> int | None:
        """The line in which the template itself first names the variable; None where only an included file does."""
        names = self._environment.parse(self.source).find_all(jinja2.nodes.Name)
        return min((node.lineno for node in names if node.name == variable), default=None)

    def members(self, variable: str) -> Iterator[tuple[str, int]]:
        """The names that the template looks up as VARIABLE.name or VARIABLE["name"], each with its line."""
        tree = self._environment.parse(self.source)
        for named in tree.find_all(jinja2.nodes.Getattr):
            if isinstance(named.node, jinja2.nodes.Name) and named.node.name == variable:
                yield named.attr, named.lineno
        for item in tree.find_all(jinja2.nodes.Getitem):
            looked_up = isinstance(item.node, jinja2.nodes.Name) and item.node.name == variable
            if looked_up and isinstance(item.arg, jinja2.nodes.Const) and isinstance(item.arg.value, str):
                yield item.arg.value, item.lineno

    def asks_only_whether(self, label: str, variable: str) -> bool:
        """Whether all that the template looks up is whether the label is in the list: ``"LABEL" in VARIABLE``."""
        if self.uses != {variable} or self.included:
            return False
        tree = self._environment.parse(self.source)
        tests = [
            node.ops[0].expr
            for node in tree.find_all(jinja2.nodes.Compare)
            if isinstance(node.expr, jinja2.nodes.Const) and node.expr.value == label
            if len(node.ops) == 1 and node.ops[0].op == "in"
        ]
        return len(tests) == sum(node.name == variable for node in tree.find_all(jinja2.nodes.Name))

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text for these variables, without white space around it. Raises ContentError by file and line where it
        cannot be rendered, such as for a variable that is not known."""
        context = self._context
        try:  # this is what Template.render does, but with one context for all items, which takes less time
            context.parent = {**self._globals, **variables}
            context.vars, context.exported_vars = {}, set()
            return "".join(self._template.root_render_func(context)).strip()
        except Exception:
            return self._slowly(variables)

    def _slowly(self, variables: Mapping[str, Any]) -> str:
        """Render by jinja's own slower method, which tells the line of an error."""
        try:
            return self._template.render(variables).strip()
        except RecursionError:
            raise ContentError("cannot be rendered: it includes itself, or goes too deep", path=self.path) from None
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            reason = f"cannot be rendered: {error}"
            if isinstance(error, jinja2.UndefinedError):
                reason += f"; known here: {', '.join(variables) or 'no variables'}"
                reason = _about_factors(str(error), variables.get("factors")) or reason
            files = {"<template>": self.path} | {str(self.path.parent / name): Path(name) for name in self.included}
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
            path, line = self.path, None
            if frames:
                path, line = self.path.parent / files[frames[-1].filename], frames[-1].lineno
            raise ContentError(reason, path=path, line=line) from None


def _about_factors(error: str, factors: Mapping[str, Any] | None) -> str:
    """The reason where a template named a factor that the item lacks; empty for another error."""
    found = _NO_ATTRIBUTE.search(error)
    if factors is None or found is None or found[1] in factors:
        return ""
    return f"cannot be rendered: for this item, {one_of('factor', found[1], factors)}"


def drop_sentences(text: str, word: str) -> str:
    """The text without the sentences that hold the word in double quotes."""
    lines = []
    for line in text.splitlines():
        kept = [part for part in re.split(r"(?<=[.!?]) +", line) if f'"{word}"' not in part]
        if kept or not line:
            lines.append(" ".join(kept))
    return "\n".join(lines)


def _is_includable(path: Path, folder: Path) -> bool:
    # What a template takes in is sent to the model's server, so that a stranger's may name no other file than those of
    # its folder or of one beside it.
    return path.suffix == ".j2" and path.is_file() and is_near(path, folder)


def is_near(path: Path, folder: Path) -> bool:
    """Whether a path, which may lead through "..", is one of a folder or of those beside it."""
    return Path(os.path.normpath(path.absolute())).is_relative_to(os.path.normpath(folder.absolute().parent))


def read_template(path: Path, folder: Path, known: Path) -> str:
    """The source of a template. folder: that it belongs to. known: a file of that folder. Raises ContentError where it
    cannot be read, and for a link to a file elsewhere: an installation may consist of links, but a stranger's leads to
    a file of yours, which would be sent to a server."""
    real = path.resolve()
    if real.suffix != path.suffix or not any(is_near(real, one) for one in (folder.resolve(), known.resolve().parent)):
        reason = f"is a link to {real}, which is no template of this folder; put the file itself there"
        raise ContentError(reason, path=path)
    return _read(path)


def _read(path: Path) -> str:
    try:
        return files.read_own_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ContentError(f"cannot be read ({error})", path=path) from None


def _to_json(value: Any) -> str:
    if isinstance(value, jinja2.Undefined):
        str(value)  # jinja raises an error here that names the variable
    return orjson.dumps(value).decode()
