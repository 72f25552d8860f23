"""A prompting strategy: a folder ``prompts/<name>/`` of templates that turn an Item into messages and a JSON schema.

``strategy.yaml``   a description, the number of tokens of a reply, and which items are demonstrations
``system.j2``       the system message (optional)
``user.j2``         the message that asks about an item
``schema.j2``       the JSON schema of the reply
``reply.j2``        the model reply that is shown with a demonstration (needed only where there are demonstrations)

Templates see ``story`` (a list of sentences), ``question`` and ``choices``; ``reply.j2`` also sees ``chain`` (the first
gold chain) and ``answer``. The text of an item is data and is never rendered as a template. A demonstration is an item
of any file of items (see tomserve.items.read_items), usually of ``prompts/practice.yaml``.

    >>> turn = Strategy.load("cot").turn(item)                          # doctest: +SKIP
    >>> [message["role"] for message in turn.messages]                  # doctest: +SKIP
    ['system', 'user', 'assistant', 'user']
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import jinja2
import jinja2.compiler
import jinja2.meta
import jinja2.nodes
import jinja2.sandbox
import orjson
from pydantic import BaseModel, ConfigDict, Field

from tomserve import content
from tomserve.content.yamlfile import load_model
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.items import Item, read_items
from tomserve.prompting.conversation import Conversation, Program
from tomserve.prompting.turn import Message, Turn

PARTS = ("system", "user", "schema", "reply")
"""The templates of a strategy; each is in a file PART.j2."""

VARIABLES = frozenset({"story", "question", "choices"})
"""The variables that the templates ``user`` and ``schema`` see."""

_LOOP = frozenset({"index", "index0", "first", "last", "length"})
"""Attributes of jinja's ``loop`` that are harmless whatever an item holds."""


class _Generator(jinja2.compiler.CodeGenerator):
    """Compiles ``loop.index`` and the like without the sandbox's check, which took half of the time of a prompt."""

    def visit_Getattr(self, node: jinja2.nodes.Getattr, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Write the access to an attribute as Python code; called by jinja for each in a template."""
        if isinstance(node.node, jinja2.nodes.Name) and node.node.name == "loop" and node.attr in _LOOP:
            self.visit(node.node, frame)
            self.write(f".{node.attr}")
        else:
            super().visit_Getattr(node, frame)


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    code_generator_class = _Generator


class _Demonstration(BaseModel):
    """Which item is shown as a demonstration.

    file: the file that holds it, relative to the strategy's folder. item: the id of the item in that file.
    """

    model_config = ConfigDict(extra="forbid")
    file: str
    item: str


class _StrategyFile(BaseModel):
    """What ``strategy.yaml`` may hold. max_tokens: how many tokens a reply may have."""

    model_config = ConfigDict(extra="forbid")
    schema_: Literal[1] = Field(alias="schema")
    description: str
    max_tokens: int = Field(gt=0)
    demonstrations: list[_Demonstration] = []


def names() -> list[str]:
    """The names of all strategies that can be found."""
    return list(content.names("prompts", "/strategy.yaml"))


class Strategy:
    """A loaded strategy.

    folder
        Where its files are; the folder's name is the name of the strategy.
    system_role
        False for models without a system role: the system text then goes into the first user message.
    overrides
        Texts of templates that replace the folder's own, by part ("user") or strategy and part ("cot/user").
    max_tokens
        How many tokens an answer may have; 0 for the number in ``strategy.yaml``.
    thinking
        Tokens for the model's thinking, which come on top of those of the answer.
    digest
        A digest of everything that shapes a request.
    chain
        Whether the reply is asked to hold a belief chain.

    Raises ContentError by file and line for a mistake in the folder.
    """

    def __init__(
        self,
        folder: Path,
        *,
        system_role: bool = True,
        overrides: Mapping[str, str] | None = None,
        max_tokens: int = 0,
        thinking: int = 0,
    ) -> None:
        self.name, self.folder, self.system_role = folder.name, folder, system_role
        config = load_model(folder / "strategy.yaml", _StrategyFile)
        self.description = config.description
        self.max_tokens = (max_tokens or config.max_tokens) + thinking
        self._environment = _Environment(
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
        )
        self._environment.filters["tojson"] = _to_json
        self._globals = dict(self._environment.globals)
        sources = {part: self._source(part, overrides or {}) for part in PARTS}
        for part in ("user", "schema"):
            if sources[part] is None:
                raise ContentError("is missing", path=folder / f"{part}.j2")
        self.chain = "beliefs" in (sources["schema"] or "")
        self._templates = {part: self._compile(part, text) for part, text in sources.items() if text is not None}
        self._contexts = {part: template.new_context({}, shared=True) for part, template in self._templates.items()}
        used = jinja2.meta.find_undeclared_variables(self._environment.parse(sources["schema"] or ""))
        self._schema_uses = tuple(sorted(used & VARIABLES))
        self._schema = lru_cache(maxsize=1024)(self._render_schema)
        examples = [self._demonstration(entry) for entry in config.demonstrations]
        self._opening: list[Message] = []
        if "system" in self._templates:
            self._opening.append({"role": "system", "content": self._text("system", {})})
        for example in examples:
            self._opening.append({"role": "user", "content": self._text("user", _variables(example))})
            self._opening.append({"role": "assistant", "content": self._reply(example)})
        self.digest = content.digest(
            orjson.dumps([self.name, system_role, self.max_tokens, sources, self._opening], option=orjson.OPT_SORT_KEYS)
        )

    @classmethod
    def load(cls, name: str, **options: Any) -> Strategy:
        """Load a strategy by its name, or by the path of its folder. options: those of `Strategy`, by name.

        Raises ConfigError where there is no strategy of that name, ContentError for a mistake in its files.
        """
        if "/" in name:
            folder = Path(name).expanduser().resolve()
        else:
            file = content.names("prompts", "/strategy.yaml").get(name)
            if file is None:
                raise ConfigError(one_of("strategy", name, names()))
            folder = file.parent
        return cls(folder, **options)

    @property
    def turns(self) -> int | None:
        """How many requests a conversation takes; None where only the strategy's program knows."""
        return 1

    @property
    def calls(self) -> int:
        """How many requests a conversation may take at most."""
        return self.turns or 1

    @property
    def several(self) -> bool:
        """Whether a conversation may take another number of requests than one."""
        return self.turns != 1

    def conversation(self, item: Item) -> Conversation:
        """A new conversation about the item, from its first turn.

        Raises ContentError where the strategy's texts cannot be rendered for the item.
        """
        return Conversation(self._program(item), self.calls, f"strategy {self.name}, item {item.id!r}")

    def _program(self, item: Item) -> Program:
        yield self.turn(item)
        return None

    def turn(self, item: Item) -> Turn:
        """The first turn about an item, of a strategy of one turn the only one.

        Text that all prompts share comes first, the item last.
        """
        variables = _variables(item)
        messages = [*self._opening, {"role": "user", "content": self._text("user", variables)}]
        if not self.system_role and messages[0]["role"] == "system":
            first = {"role": "user", "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}
            messages = [first, *messages[2:]]
        schema = self._schema(*(variables[name] for name in self._schema_uses))
        return Turn(tuple(messages), schema, self.max_tokens)

    def order(self, item: Item) -> tuple[Any, ...]:
        """A key to sort items by, so that those whose prompts share the longest beginning stand together.

        It lists the parts of the item in the order in which the user template shows them. Sorting by it walks the radix
        tree of the prompts depth first, so that a server with a prefix cache computes shared beginnings once.
        """
        variables = _variables(item)
        return tuple(variables[name] for name in self._reading_order)

    @cached_property
    def _reading_order(self) -> tuple[str, ...]:
        """The names of the variables in the order in which the user prompt first shows them."""
        marks = {"story": "\x01story", "question": "\x01question", "choices": "\x01choices"}
        variables = {"story": (marks["story"],), "question": marks["question"], "choices": (marks["choices"],) * 2}
        try:
            text = self._templates["user"].render(variables).replace("\\u0001", "\x01")
        except Exception:  # a template may fail on this made-up data; the usual order is a good guess then
            return tuple(marks)
        return tuple(sorted(marks, key=lambda name: text.find(marks[name]) % (len(text) + 1)))

    def _render_schema(self, *values: Any) -> dict[str, Any]:
        text = self._text("schema", dict(zip(self._schema_uses, values, strict=True)))
        return _parse_schema(text, self.folder / "schema.j2")

    def _source(self, part: str, overrides: Mapping[str, str]) -> str | None:
        if (text := overrides.get(f"{self.name}/{part}", overrides.get(part))) is not None:
            return text
        path = self.folder / f"{part}.j2"
        try:
            return path.read_text("utf-8") if path.exists() else None
        except (OSError, UnicodeDecodeError) as error:
            raise ContentError(f"cannot be read ({error})", path=path) from None

    def _compile(self, part: str, text: str) -> jinja2.Template:
        try:
            return self._environment.from_string(text)
        except jinja2.TemplateSyntaxError as error:
            path = self.folder / f"{part}.j2"
            raise ContentError(f"broken template: {error.message}", path=path, line=error.lineno) from None

    def _text(self, part: str, variables: Mapping[str, Any]) -> str:
        template, context = self._templates[part], self._contexts[part]
        try:  # this is what Template.render does, but with one context for all items, which takes less time
            context.parent = {**self._globals, **variables}
            context.vars, context.exported_vars = {}, set()
            return "".join(template.root_render_func(context)).strip()
        except Exception:
            return self._slowly(part, variables)

    def _slowly(self, part: str, variables: Mapping[str, Any]) -> str:
        """Render by jinja's own slower method, which tells the line of an error. Raises ContentError."""
        try:
            return self._templates[part].render(variables).strip()
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            reason = f"cannot be rendered: {error}"
            if isinstance(error, jinja2.UndefinedError):
                reason += f"; known here: {', '.join(variables) or 'no variables'}"
            frames = traceback.extract_tb(error.__traceback__)
            line = next((frame.lineno for frame in reversed(frames) if frame.filename == "<template>"), None)
            raise ContentError(reason, path=self.folder / f"{part}.j2", line=line) from None

    def _demonstration(self, entry: _Demonstration) -> Item:
        items = {item.id: item for item in read_items((self.folder / entry.file).resolve())}
        if entry.item not in items:
            reason = one_of("item", entry.item, items)
            raise ContentError(reason, path=self.folder / "strategy.yaml", field="demonstrations")
        return items[entry.item]

    def _reply(self, item: Item) -> str:
        if "reply" not in self._templates:
            raise ContentError("is missing, but strategy.yaml lists demonstrations", path=self.folder / "reply.j2")
        chain = next(item.gold.automaton().chains()) if item.gold else ()
        return self._text("reply", {**_variables(item), "chain": chain, "answer": item.answer})


def _variables(item: Item) -> dict[str, Any]:
    return {"story": item.story, "question": item.question, "choices": item.choices}


def _to_json(value: Any) -> str:
    if isinstance(value, jinja2.Undefined):
        str(value)  # jinja raises an error here that names the variable
    return orjson.dumps(value).decode()


@lru_cache(maxsize=1024)  # many items share a schema, which mostly depends on choices and sentence count
def _parse_schema(text: str, path: Path) -> dict[str, Any]:
    try:
        schema = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ContentError(f"does not render to JSON: {error.msg}", path=path, line=error.lineno) from None
    if not isinstance(schema, dict):
        raise ContentError("does not render to a JSON object", path=path)
    return schema
