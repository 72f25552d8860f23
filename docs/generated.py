"""The generated half of the documentation: commands from the command line's own definitions, Python from its
docstrings, and tables of what code and content declare.

A page says where with a line of its own, such as `<!-- commands -->`; Sphinx puts Markdown there while it reads the
page. So all of it follows the code by itself, and nothing that was generated is kept in the repository.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import sys
import textwrap
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

Node = ast.FunctionDef | ast.AsyncFunctionDef


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx to hand every page over before it is read."""
    app.connect("source-read", lambda _app, _page, source: source.__setitem__(0, filled(source[0])))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def filled(page: str) -> str:
    """The page with its marks replaced by what they stand for."""
    makers: dict[str, Callable[[], Iterator[str]]] = {
        **{"commands": commands, "python": python, "client": client},
        **{"routes": routes, "statuses": statuses, "strategies": strategies},
        **{"packages": packages, "exceptions": exceptions},
    }
    for mark, maker in makers.items():
        line = f"<!-- {mark} -->"
        if line in page:
            page = page.replace(line, "\n".join(maker()))
    described = re.compile(r"^<!-- fields ([\w.]+) ([\w ]+) -->$", re.M)
    return described.sub(lambda named: "\n".join(fields(named[1], named[2])), page)


def escaped(text: str) -> str:
    """Prose in which angle brackets and vertical bars outside of `code` are letters, not HTML and not table rules."""
    parts = re.split(r"(`+[^`]*`+)", text)
    parts[::2] = [part.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;") for part in parts[::2]]
    return "".join(parts)


# The command line


def commands() -> Iterator[str]:
    """Markdown: a section a command, with its usage, its help, and a table of what it takes."""
    import typer

    from tomserve.cli.app import build_app

    yield from _command("tomserve", typer.main.get_command(build_app()))


def _command(path: str, command: Any) -> Iterator[str]:
    context_type = getattr(command, "context_class", None)
    context = context_type(command, info_name=path) if context_type else None
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"## `{path}`\n"
    yield f"```text\n{path} {pieces}\n```\n"
    yield escaped(inspect.cleandoc(command.help or "")) + "\n"
    rows = [row for parameter in command.params if (row := _parameter(parameter)) is not None]
    if rows:
        yield "| argument or option | default | what it means |\n|---|---|---|"
        yield from rows
        yield ""
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _command(f"{path} {name}", command.get_command(context, name))


def _parameter(parameter: Any) -> str | None:
    if getattr(parameter, "hidden", False):
        return None
    if parameter.param_type_name == "argument":
        shown = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        names = "`, `".join((*parameter.opts, *parameter.secondary_opts))
        repeated = " (may be repeated)" if parameter.multiple else ""
        shown = f"`{names}`{repeated}"
    default = parameter.default() if callable(parameter.default) else parameter.default
    if default is True:
        default = parameter.opts[0]
    known = "" if default in (None, False, ()) or type(default).__name__ == "Sentinel" else f"`{default}`"
    help_text = getattr(parameter, "help", None) or ""
    own = re.search(r"\s*\[([^\]]*)\](\.?)$", help_text)  # "[the newest]" ends a help text whose default is found out
    if own and not known:
        known, help_text = own[1], help_text[: own.start()] + own[2]
    return f"| {shown} | {escaped(known)} | {escaped(help_text)} |"


# Tables of what code and content declare


def statuses() -> Iterator[str]:
    """Markdown: the statuses of replies, as their module has them."""
    from tomserve import status

    head, rule, *rows = (line for line in (status.__doc__ or "").splitlines() if line.startswith("|"))
    yield from (head, rule, *(re.sub(r"(?<=^\| )\S+", r"`\g<0>`", row) for row in rows))


def strategies() -> Iterator[str]:
    """Markdown: the strategies of prompts/, with their own descriptions and how many requests a question takes."""
    from tomserve.prompting.strategy import Strategy, list_strategies

    yield "| strategy | how it asks | requests |\n|---|---|---|"
    for name in list_strategies():
        strategy = Strategy.load(name)
        yield f"| `{name}` | {escaped(strategy.description)} | {strategy.turns or 'by program'} |"


def packages() -> Iterator[str]:
    """Markdown: the packages of the engine in the order in which they may import one another, and what each is."""
    source = ast.parse((ROOT / "tests/test_house.py").read_text("utf-8"))
    assigned = {
        node.targets[0].id: node.value
        for node in source.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    yield "| package | what it is |\n|---|---|"
    for name in eval(ast.unparse(assigned["ORDER"])):
        path = ROOT / "tomserve" / name
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        yield f"| `{name}` | {escaped(' '.join(text.split(chr(10) * 2)[0].split()))} |"


def fields(module: str, names: str) -> Iterator[str]:
    """Markdown: what these classes of a module, which describe a file, say of their fields."""
    for name in names.split():
        value = getattr(importlib.import_module(module), name)
        aliases = {own: field.alias or own for own, field in getattr(value, "model_fields", {}).items()}
        texts: dict[str, str] = {}
        for one in reversed([one for one in value.__mro__ if one.__module__.startswith("tomserve")]):
            source = textwrap.dedent(inspect.getsource(one))
            tree = ast.parse(source).body[0]
            assert isinstance(tree, ast.ClassDef)
            texts |= {ast.unparse(node.target): text for node, text in _fields(tree, source)}
        yield f"**`{name}`.** {_prose(inspect.getdoc(value) or '')}\n"
        if plain := ", ".join(f"`{aliases.get(own, own)}`" for own, text in texts.items() if not text):
            yield f"{'Further fields' if any(texts.values()) else 'Fields'}: {plain}.\n"
        if any(texts.values()):
            yield "| field | what it is |\n|---|---|"
            yield from (f"| `{aliases.get(own, own)}` | {text} |" for own, text in texts.items() if text)
            yield ""


def exceptions() -> Iterator[str]:
    """Markdown: where a recommended method misses its target, as bench/coverage.py checks it."""
    sys.path.append(str(ROOT / "bench"))
    import _exceptions

    yield _exceptions.markdown()


# The Python surface


def python() -> Iterator[str]:
    """Markdown: every public name of the package with its signature and its docstring, in alphabetical order."""
    import tomserve

    for name in sorted(tomserve.__all__, key=lambda name: (name.startswith("_"), name.lower())):
        yield from _entry(name, getattr(tomserve, name))


def routes() -> Iterator[str]:
    """Markdown: the programming interface of the workbench, route by route."""
    import interface

    yield from interface.routes(escaped)


def client() -> Iterator[str]:
    """Markdown: the client of the workbench, with its methods."""
    from tomserve.web import client as module

    yield _module_text(inspect.getdoc(module) or "")
    tree = ast.parse(textwrap.dedent(inspect.getsource(module.Workbench))).body[0]
    assert isinstance(tree, ast.ClassDef)
    yield from _directive("class", "tomserve.web.client.Workbench", _class(module.Workbench, tree), depth=5)


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"## `{name}`\n"
    if inspect.ismodule(value):
        yield from _directive("module", f"tomserve.{name}", [], depth=3)
        yield _module_text(inspect.getdoc(value) or "")
        return
    own = getattr(value, "__module__", "").startswith("tomserve")
    if not own or not (isinstance(value, type) or inspect.isroutine(value)):
        what = "The version of the package." if name == "__version__" else f"A name for `{value!r}`."
        yield from _directive("data", f"tomserve.{name}", [what], depth=3)
        return
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value)))).body[0]
    if isinstance(value, type) and isinstance(tree, ast.ClassDef):
        # Without a signature: it would repeat the fields, which stand below with what they mean.
        yield from _directive("class", f"tomserve.{name}", _class(value, tree), depth=5)
    elif isinstance(tree, Node):
        body = [_docstring(tree), *_options(inspect.unwrap(value), tree)]
        yield from _directive("function", f"tomserve.{name}{_signature(tree)}", body, depth=4)


def _options(function: Any, tree: Node) -> Iterator[str]:
    """What a function takes by name beyond its signature, where a TypedDict says so."""
    annotation = tree.args.kwarg.annotation if tree.args.kwarg is not None else None
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("Unpack"):
        kind = function.__globals__[ast.unparse(annotation.slice)]
        yield f"\n**{kind.__name__}.** {_prose(inspect.getdoc(kind) or '')}"


def _module_text(text: str) -> str:
    """The docstring of a module: a paragraph that is a drawing, as a tree of errors is, keeps its lines."""
    paragraphs = re.split(r"\n\s*\n", text)
    drawn = [f"```text\n{textwrap.dedent(one)}\n```" if one.startswith("    ") else escaped(one) for one in paragraphs]
    return "\n\n".join(drawn) + "\n"


def _class(value: type, tree: ast.ClassDef) -> Iterator[str]:
    """The docstring of a class, then its public fields and methods as its source has them."""
    yield _prose(inspect.getdoc(value) or "")
    yield ""
    texts = dict(_fields(tree, textwrap.dedent(inspect.getsource(value))))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and node in texts:
            options = [f":type: {_plain(ast.unparse(node.annotation))}"]
            if node.value is not None and not isinstance(node.value, ast.Call):
                options.append(f":value: {_plain(ast.unparse(node.value))}")
            yield from _directive("attribute", ast.unparse(node.target), [texts[node]], depth=4, options=options)
        elif isinstance(node, Node) and (node.name[0] != "_" or node.name in ("__call__", "__iter__")):
            decorators = {ast.unparse(one) for one in node.decorator_list}
            if decorators & {"property", "functools.cached_property", "cached_property"}:
                kind, signature = "property", node.name
            else:
                kind, signature = "method", node.name + _signature(node)
            yield from _directive(kind, signature, [_docstring(node)], depth=4)


def _fields(tree: ast.ClassDef, source: str) -> Iterator[tuple[ast.AnnAssign, str]]:
    """The public fields of a class, each with what stands below it, beside it or above it."""
    comments = _comments(source)
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            yield node, _below(following) or comments.get(node.end_lineno or 0) or comments.get(node.lineno, "")


def _comments(source: str) -> dict[int, str]:
    """The comments of a source as prose, by the line of the code that they stand beside or above."""
    found: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, alone = token.start[0], not token.line[: token.start[1]].strip()
            text = f"{found.pop(line, '')} {_prose(token.string.removeprefix('#').strip())}"
            found[line + alone] = text.strip()
    return found


def _below(node: ast.stmt | None) -> str:
    """The text that stands under a field, where the author wrote one."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return _prose(inspect.cleandoc(node.value.value))
    return ""


def _docstring(node: Node) -> str:
    return _prose(ast.get_docstring(node) or "")


def _signature(node: Node) -> str:
    arguments = node.args
    for group in (arguments.posonlyargs, arguments.args):
        if group and group[0].arg in ("self", "cls"):
            del group[0]
    returns = f" -> {_plain(ast.unparse(node.returns))}" if node.returns is not None else ""
    return f"({_plain(ast.unparse(arguments))}){returns}"


def _plain(code: str) -> str:
    """Code on one line, as an option or an argument of a directive has to be."""
    return " ".join(code.split())


def _prose(text: str) -> str:
    """A docstring as Markdown: examples that begin with >>> become blocks of code, a line with an indented text below
    it an entry of a list, all else is escaped prose."""
    shown = []
    for paragraph in re.split(r"\n\s*\n", text):
        code = paragraph.lstrip().startswith(">>>")
        if code:
            shown.append(f"```pycon\n{textwrap.dedent(paragraph)}\n```")
        elif paragraph.startswith("    "):
            shown.append(f"```python\n{textwrap.dedent(paragraph)}\n```")
        else:
            entries = re.sub(r"^(\S[^\n]*)\n {4}(?=\S)", r"- **\1.** ", escaped(paragraph), flags=re.M)
            shown.append(re.sub(r"^ {4}", "  ", entries, flags=re.M))
    return "\n\n".join(shown)


def _directive(
    kind: str, signature: str, body: Iterator[str] | list[str], *, depth: int, options: list[str] | None = None
) -> Iterator[str]:
    """A directive of Sphinx's Python domain, fenced by so many backticks that others fit inside."""
    fence = "`" * depth
    yield f"{fence}{{py:{kind}}} {signature}"
    yield from options or []
    yield ""
    yield from body
    yield f"{fence}\n"


if __name__ == "__main__":
    sys.stdout.write(filled("<!-- commands -->\n\n<!-- python -->\n"))
