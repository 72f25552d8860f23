"""A prompting strategy: a folder ``prompts/<name>/`` of templates that turn an Item into messages and a JSON schema.

``strategy.yaml``   a description, the number of tokens of a reply, and which items are demonstrations
``system.j2``       the system message (optional)
``user.j2``         the message that asks about an item
``schema.j2``       the JSON schema of the reply (optional: without one, the reply is free text)
``reply.j2``        the model reply that is shown with a demonstration (needed only where there are demonstrations)

A strategy of several turns names them under ``turns`` in strategy.yaml, and its templates are TURN.system.j2,
TURN.user.j2 and TURN.schema.j2; ``system.j2`` then begins every chat whose turn has no system message of its own. The
turns are asked in the order in which they are listed, unless a ``program.py`` decides (see tomserve.prompting.program).

Templates see ``story`` (a list of sentences), ``question``, ``choices``, ``factors`` (the item's design factors),
``benchmark``, ``people`` (whose minds the question goes through, the outermost first) and ``person`` (the first of
them, "" where there is none). Those of a listed turn also see ``replies``, those of a program what it hands to them;
``reply.j2`` also sees ``chain`` (the first gold chain) and ``answer``. The text of an item is data and is never
rendered as a template. A demonstration is an item of any file of items (see tomserve.items.read_items), usually of
``prompts/practice.yaml``.

    >>> turn = Strategy.load("cot").turn(item)                          # doctest: +SKIP
    >>> [message["role"] for message in turn.messages]                  # doctest: +SKIP
    ['system', 'user', 'assistant', 'user']
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from tomserve import content
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.items import UNKNOWN, Item
from tomserve.prompting import named
from tomserve.prompting.conversation import Conversation, Program
from tomserve.prompting.folder import TURN_PARTS, Folder, TurnFile
from tomserve.prompting.listed import listed
from tomserve.prompting.named import VARIABLES, NamedTurn, variables_of
from tomserve.prompting.program import Ask, begin, load_program
from tomserve.prompting.templates import Template, environment, without
from tomserve.prompting.turn import Message, Turn


def names() -> list[str]:
    """The names of all strategies that can be found."""
    return list(content.names("prompts", "/strategy.yaml"))


class Strategy:
    """A loaded strategy.

    folder
        Where its files are; the folder's name is the name of the strategy.
    system_role
        False for models without a system role: the system text then goes into the first user message of a chat.
    overrides
        Texts of templates that replace the folder's own, by part ("user") or strategy and part ("cot/user",
        "simtom/answer.user").
    max_tokens
        How many tokens a reply may have; 0 for the numbers in ``strategy.yaml``.
    thinking
        Tokens for the model's thinking, which come on top of those of every reply.
    digest
        A digest of everything that shapes a request.
    chain
        Whether the reply that answers is asked to hold a belief chain.
    lettered
        Whether the choices are shown as A, B, C, so that a reply may name one by its letter.
    reasoning
        Where a reply holds the reasoning, as ``strategy.yaml`` says; None where it does not.

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
        self._options: dict[str, Any] = {"system_role": system_role, "max_tokens": max_tokens, "thinking": thinking}
        self._overrides = dict(overrides or {})
        self._files = Folder(folder, self._overrides)
        config = self._files.config
        self.description, self.lettered, self.reasoning = config.description, config.lettered, config.reasoning
        self._environment = environment(folder)
        sources = {part: self._files.source(part) for part in self._files.parts}
        self._templates = {
            part: Template(self._environment, text, folder / f"{part}.j2")
            for part, text in sources.items()
            if text is not None
        }
        examples = [self._files.demonstration(entry) for entry in config.demonstrations]
        shown = [self.exchange(example) for example in examples]
        self._shown = [message for messages in shown for message in messages]
        self._alternatives = shown if config.rotate else [self._shown]
        self._turns = self._named_turns(max_tokens, thinking)
        self._first = next(iter(self._turns.values()))
        self._continues = {
            name: bool(place) and turn.shared is None if turn.continues is None else turn.continues
            for place, (name, turn) in enumerate(self._files.turns.items())
        }
        self._refuse()
        self._program = load_program(self._files.program) if self._files.program else None
        self._many = self._program is not None or len(self._turns) > 1
        self.max_tokens = max(turn.max_tokens for turn in self._turns.values())
        answering = self._turns.values() if self._program else [*self._turns.values()][-1:]
        self.chain = any("beliefs" in (turn.schema.source if turn.schema else "") for turn in answering)
        self._sources = sources
        self.digest = self.digest_as(self.name)

    @classmethod
    def load(cls, name: str, **options: Any) -> Strategy:
        """Load a strategy by its name, or by the path of its folder. options: those of `Strategy`, by name.

        Raises ConfigError where there is no strategy of that name, ContentError for a mistake in its files.
        """
        return cls(Path(name).expanduser().resolve(), **options) if "/" in name else cls.named(name, **options)

    @classmethod
    def named(cls, name: str, **options: Any) -> Strategy:
        """Load a strategy as `load` does, by a name that is never taken for a path, as a stranger may have given it."""
        if (file := content.names("prompts", "/strategy.yaml").get(name)) is None:
            raise ConfigError(f"{one_of('strategy', name, names())}; the path of a folder has a / in it")
        return cls(file.parent, **options)

    @property
    def turn_names(self) -> list[str]:
        """The names of its turns as strategy.yaml lists them; that of an only one is ""."""
        return list(self._turns)

    @property
    def turns(self) -> int | None:
        """How many requests a conversation takes; None where only the strategy's program knows."""
        return None if self._program else len(self._turns)

    @property
    def calls(self) -> int:
        """How many requests a conversation may take at most."""
        return self._files.config.calls if self._program else len(self._turns)

    @property
    def several(self) -> bool:
        """Whether a conversation may take another number of requests than one."""
        return self._many

    def greedy(self, temperature: float) -> bool:
        """Whether no turn is sampled with chance. temperature: of the turns that have none of their own."""
        return not any(turn.fields.get("temperature", temperature) for turn in self._turns.values())

    def conversation(self, item: Item) -> Conversation:
        """A new conversation about the item, from its first turn.

        Raises ContentError where the strategy's texts cannot be rendered for the item, or its program fails.
        """
        program: Program
        if self._program is not None and self._files.program is not None:
            ask, depth = Ask(self._turns, item), self._files.config.depth
            program = begin(self._program, self._files.program, item, ask, depth)
        elif self.several:
            program = listed(self._turns, self._continues, item)
        else:
            program = self._once(item)
        return Conversation(program, self.calls, f"strategy {self.name}, item {item.id!r}")

    def _once(self, item: Item) -> Program:
        yield self.turn(item)
        return None

    def turn(self, item: Item) -> Turn:
        """The first turn about an item, of a strategy of one turn the only one.

        Text that all prompts share comes first, the item last.
        """
        if self._many:
            return self.conversation(item).open[0]
        return self._first.turn(self._first.variables(item))

    def openings(self, item: Item) -> list[list[Message]]:
        """What may stand before the question in the first turn: the system message and the demonstrations.

        There is one, or, where each story gets another of the demonstrations (`rotate`), one for each of these.
        """
        return self._first.openings(self._first.variables(item))

    def order(self, item: Item) -> tuple[Any, ...]:
        """A key to sort items by, so that those whose prompts share the longest beginning stand together.

        It lists the parts of the item in the order in which the first turn shows them: what varies in its system text,
        then the variables of its user template. Sorting by it walks the radix tree of the prompts depth first, so that
        a server with a prefix cache computes shared beginnings once.
        """
        variables = variables_of(item, self._first.uses)
        return (*self._first.varying(variables), *(variables[name] for name in self._reading_order))

    @cached_property
    def _reading_order(self) -> tuple[str, ...]:
        """The names of the variables in the order in which the first user prompt shows them."""
        marks = {"story": "\x01story", "question": "\x01question", "choices": "\x01choices"}
        made_up = {"story": (marks["story"],), "question": marks["question"], "choices": (marks["choices"],) * 2}
        others = {"factors": {}, "benchmark": "", "people": (), "person": ""}
        try:
            text = self._first.user.render({**others, **made_up}).replace("\\u0001", "\x01")
        except ContentError:  # a template may fail on this made-up data; the usual order is a good guess then
            return tuple(marks)
        return tuple(sorted(marks, key=lambda name: text.find(marks[name]) % (len(text) + 1)))

    def _named_turns(self, max_tokens: int, thinking: int) -> dict[str, NamedTurn]:
        """The turns by their names; the only one of a strategy that lists none is called ""."""
        config, made = self._files.config, {}
        listed_turns: Mapping[str, TurnFile | None] = self._files.turns or {"": None}
        for name, settings in listed_turns.items():
            prefix = f"{name}." if name else ""
            found = {part: self._templates.get(f"{prefix}{part}") for part in TURN_PARTS}
            if found["user"] is None:
                raise self._files.missing(f"{prefix}user.j2", name)
            found["system"] = found["system"] or self._templates.get("system")
            made[name] = NamedTurn(
                {part: template for part, template in found.items() if template is not None},
                max_tokens=(max_tokens or (settings and settings.max_tokens) or config.max_tokens) + thinking,
                fields={**config.fields(), **(settings.fields() if settings else {})},
                system_role=self.system_role,
                shared=settings.shared if settings else None,
                demonstrations=[[]] if name else self._alternatives,
            )
        return made

    def _refuse(self) -> None:
        """Raise ContentError for a file that nothing reads, and for a template that cannot do what it is to do."""
        self._files.refuse_strays({name for template in self._templates.values() for name in template.included})
        for name, turn in self._turns.items():
            own = self._templates.get(f"{name}.system")
            if own is not None and self._continues.get(name) and not self._files.program:
                reason = f"the turn {name!r} continues a chat, so its system message is too late; see `continues`"
                raise ContentError(reason, path=own.path)
            self._refuse_unknown_replies(name, turn)
            if turn.shared is None:
                continue
            for variable in turn.shared:
                if variable not in VARIABLES:
                    place = list(self._turns).index(name)
                    raise self._files.mistake(one_of("variable", variable, VARIABLES), "turns", place, "shared_by")
            for template in turn.templates if not self._files.program else ():  # a program may hand them others
                for variable in sorted(template.uses - set(turn.shared)):
                    reason = f"uses {variable!r}, but the turn is shared by {', '.join(turn.shared)} alone"
                    raise ContentError(reason, path=template.path, line=template.line_of(variable))

    def _refuse_unknown_replies(self, name: str, turn: NamedTurn) -> None:
        """Raise ContentError where a listed turn looks for the reply to a turn that does not come before it."""
        if self._files.program or not name:
            return
        before = list(self._turns)[: list(self._turns).index(name)]
        for template in turn.templates:
            for wanted, line in template.members("replies"):
                if wanted not in before:
                    reason = f"{one_of('reply', wanted, before)} (the turns before {name!r})"
                    raise ContentError(reason, path=template.path, line=line)

    def renamed(self, digest: str) -> str | None:
        """The strategy that asks today what this one asked when its digest was `digest`; None where there is none.

        Such a strategy says `formerly` in its strategy.yaml. It is loaded with the options of this one.
        """
        for name, file in content.names("prompts", "/strategy.yaml").items():
            with contextlib.suppress(ConfigError):  # of a folder that has nothing to do with this one
                if Folder(file.parent, {}).config.formerly != self.name:
                    continue
                own = {key.replace(f"{self.name}/", f"{name}/"): text for key, text in self._overrides.items()}
                if Strategy(file.parent, overrides=own, **self._options).digest_as(self.name) == digest:
                    return name
        return None

    def digest_as(self, name: str) -> str:
        """A digest of everything that shapes a request: the texts, the settings and the program.

        name: what the strategy is called. The digest of a strategy of one turn keeps its old form.
        """
        sources = self._sources
        included = {file: text for one in self._templates.values() for file, text in sorted(one.included.items())}
        if not self._files.turns:
            system, opening = self._digested_system()
            if system is not None:
                sources = {**sources, "system": system}
            fixed = [name, self.system_role, self.max_tokens, sources, opening]
            if len(self._alternatives) > 1:
                fixed.append([named.ROTATION_SEED.decode(), self._alternatives])
            more: list[Any] = [value for value in (included, self._first.fields) if value]
        else:
            settings = {
                one: [turn.max_tokens, turn.fields, turn.shared, self._continues[one]]
                for one, turn in self._turns.items()
            }
            fixed = [name, self.system_role, settings, sources, included]
            more = [[path.name, content.digest(path)] for path in self._files.modules()]
        return content.digest(orjson.dumps([*fixed, *more], option=orjson.OPT_SORT_KEYS))

    def _digested_system(self) -> tuple[str | None, list[Message]]:
        """The system text as the digest covers it (None for its source), and the messages that begin every prompt.

        A system text may leave out the sentences about "unknown" for a question that does not offer it. The digest is
        then that of the text with these sentences, so that runs begun when it always had them can be resumed.
        """
        system = self._templates.get("system")
        if system is None or not system.uses:
            return None, self._first.fixed_opening({})
        if system.asks_only_whether(UNKNOWN, "choices"):
            text = system.render({"choices": (UNKNOWN,)})
            if system.render({"choices": ()}) == without(text, UNKNOWN):
                return f"{text}\n", self._first.fixed_opening({"choices": (UNKNOWN,)})
        return None, self._shown

    def exchange(self, item: Item) -> list[Message]:
        """How an item is shown as a demonstration: the question, and the right reply to it."""
        if "reply" not in self._templates:
            raise ContentError("is missing, but strategy.yaml lists demonstrations", path=self.folder / "reply.j2")
        user, reply = self._templates.get("user"), self._templates["reply"]
        if user is None:
            raise self._files.missing("user.j2")
        chain = next(item.gold.automaton().chains()) if item.gold else ()
        variables = variables_of(item, user.uses | reply.uses)
        text = reply.render({**variables, "chain": chain, "answer": item.answer})
        return [{"role": "user", "content": user.render(variables)}, {"role": "assistant", "content": text}]
