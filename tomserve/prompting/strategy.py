"""A prompting strategy: a folder ``prompts/<name>/`` of templates that turn an Item into messages and a JSON schema.

docs/how-to/strategy.md says what lies in the folder. A strategy of one turn has ``user.j2`` and, where wanted,
``system.j2``, ``schema.j2`` and ``reply.j2`` (for demonstrations); several turns are listed under ``turns`` in
strategy.yaml and asked in that order, unless a ``program.py`` decides (see Ask), which is run as code because the user
named its folder. The text of an item is data and is never rendered as a template.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from types import GeneratorType
from typing import Any, NamedTuple, TypeVar

import orjson

from tomserve import content
from tomserve.content.python_file import describe_failure, load_module
from tomserve.errors import ConfigError, ContentError, Interrupted, TomserveError, one_of
from tomserve.items import UNKNOWN, Item
from tomserve.prompting.conversation import Conversation, Message, Program, Reply, Turn
from tomserve.prompting.folder import TURN_PARTS, Folder, TurnFile
from tomserve.prompting.persons import people_of
from tomserve.prompting.templates import Template, drop_sentences, environment

T = TypeVar("T")

VARIABLES = ("story", "question", "choices", "factors", "benchmark", "people", "person")
"""The variables that the templates of every part see; a shared turn's see only those that it is shared by."""

_PLAIN = frozenset({"story", "question", "choices", "benchmark"})
"""Variables whose values can be keys of a cache."""

REMEMBERED = 1024
"""How many texts of a template that many items share are kept, by the variables that it uses."""

ROTATION_SEED = b"rotation-1"
"""The seed by which stories get their demonstrations; it never changes, so that a prompt can be made again."""


def variables_of(item: Item, used: frozenset[str]) -> dict[str, Any]:
    """The variables of an item. Who is asked about is only found out where that is used, since it takes time."""
    known: dict[str, Any] = {
        "story": item.story,
        "question": item.question,
        "choices": item.choices,
        "factors": item.factors,
        "benchmark": item.benchmark,
    }
    if "people" in used or "person" in used:
        people = people_of(item)
        known["people"], known["person"] = people, people[0] if people else ""
    return known


class NamedTurn:
    """Makes turns from the templates "user" and, where there are such, "system" and "schema".

    shared: the variables of an item that they see; None for all. demonstrations: messages that follow the system
    message; of several alternatives a story gets one. system_role: as for `Strategy`.
    """

    def __init__(
        self,
        templates: Mapping[str, Template],
        *,
        max_tokens: int,
        fields: Mapping[str, Any],
        system_role: bool,
        shared: Sequence[str] | None = None,
        demonstrations: Sequence[Sequence[Message]] = ((),),
    ) -> None:
        self.max_tokens, self.fields, self.shared = max_tokens, fields, shared
        self.user, self.system, self.schema = templates["user"], templates.get("system"), templates.get("schema")
        self.templates = list(templates.values())
        self.uses = frozenset[str]().union(*(template.uses for template in self.templates))
        self._varies = self.system is not None and bool(self.system.uses)
        self._system_role, self._demonstrations = system_role, [list(one) for one in demonstrations]
        texts = [tuple(message["content"] for message in one) for one in self._demonstrations]
        self._ranks = [sorted(texts).index(text) for text in texts]
        self._schema = _remember(self.schema, self._parsed_schema)
        self.fixed_opening = _remember(self.system, self._rendered_opening)
        """What of the opening is the same for all stories: all of it, unless demonstrations are drawn for each."""

    def variables(self, item: Item) -> dict[str, Any]:
        """The variables of an item that the templates see."""
        known = variables_of(item, self.uses)
        return known if self.shared is None else {name: known[name] for name in self.shared if name in known}

    def turn(self, variables: Mapping[str, Any], after: Sequence[Message] | None = None) -> Turn:
        """The turn for these variables. after: the messages that it continues; None where it begins a chat."""
        text = self.user.render(variables)
        if after is not None:
            messages = (*after, {"role": "user", "content": text})
        else:
            opening = self.opening(variables)
            if not self._system_role and opening and opening[0]["role"] == "system":
                first = opening[0]["content"]
                if len(opening) == 1:
                    text, opening = f"{first}\n\n{text}", []
                else:
                    opening = [{**opening[1], "content": f"{first}\n\n{opening[1]['content']}"}, *opening[2:]]
            messages = (*opening, {"role": "user", "content": text})
        return Turn(messages, self._schema(variables), self.max_tokens, self.fields)

    def opening(self, variables: Mapping[str, Any]) -> list[Message]:
        """The messages that begin a chat: the system message, if any, and the demonstrations."""
        opening = self.fixed_opening(variables)
        if len(self._demonstrations) == 1:  # they are part of what is remembered
            return opening
        return [*opening, *self._demonstrations[self.alternative(variables)]]

    def openings(self, variables: Mapping[str, Any]) -> list[list[Message]]:
        """Every opening that a story may get: as many as there are alternative demonstrations."""
        if len(self._demonstrations) == 1:
            return [self.fixed_opening(variables)]
        return [[*self.fixed_opening(variables), *shown] for shown in self._demonstrations]

    def alternative(self, variables: Mapping[str, Any]) -> int:
        """Which of the alternative demonstrations a story gets, drawn by a digest of its sentences and a fixed seed."""
        if (several := len(self._demonstrations)) < 2:
            return 0
        story = "\x1f".join(variables["story"]).encode()
        return int.from_bytes(hashlib.blake2b(story, digest_size=8, salt=ROTATION_SEED).digest(), "big") % several

    def varying(self, variables: Mapping[str, Any]) -> tuple[Any, ...]:
        """What of the opening depends on the item: the system text, and the demonstration's place in the order of their
        texts (so that those which begin alike stand together)."""
        system = (self.fixed_opening(variables)[0]["content"],) if self._varies else ()
        return (*system, self._ranks[self.alternative(variables)]) if len(self._demonstrations) > 1 else system

    def _rendered_opening(self, variables: Mapping[str, Any]) -> list[Message]:
        shown = self._demonstrations[0] if len(self._demonstrations) == 1 else []
        if self.system is None:
            return [*shown]
        return [{"role": "system", "content": self.system.render(variables)}, *shown]

    def _parsed_schema(self, variables: Mapping[str, Any]) -> dict[str, Any] | None:
        if self.schema is None:
            return None
        return _parse_schema(self.schema.render(variables), self.schema.path)


def _remember(template: Template | None, make: Callable[[Mapping[str, Any]], T]) -> Callable[[Mapping[str, Any]], T]:
    """The function `make`, of the variables that the template uses, with a memory: many items share these."""
    uses = sorted(template.uses) if template is not None else []
    if not _PLAIN.issuperset(uses):
        return make

    @lru_cache(maxsize=REMEMBERED)
    def remembered(*values: Any) -> T:
        return make(dict(zip(uses, values, strict=True)))

    def recall(variables: Mapping[str, Any]) -> T:
        try:
            return remembered(*[variables[name] for name in uses])
        except (KeyError, TypeError):  # a program gave a list, or a shared turn lacks the variable
            return make(variables)

    return recall


@lru_cache(maxsize=REMEMBERED)  # many items share a schema, which mostly depends on choices and sentence count
def _parse_schema(text: str, path: Path) -> dict[str, Any]:
    try:
        schema = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ContentError(f"does not render to JSON: {error.msg}", path=path, line=error.lineno) from None
    if not isinstance(schema, dict):
        raise ContentError("does not render to a JSON object", path=path)
    return schema


ProgramFunction = Callable[[Item, "Ask"], Program]
"""What ``program.py`` defines under the name `program`."""


class Ask:
    """What a program asks with. people: the persons whose minds the question goes through, the outermost first."""

    def __init__(self, turns: Mapping[str, NamedTurn], item: Item) -> None:
        self._turns, self._item = turns, item
        self.people = people_of(item)

    def __call__(self, name: str, *, after: tuple[Turn, Reply] | None = None, **variables: Any) -> Turn:
        """A turn from the templates NAME.system.j2, NAME.user.j2 and NAME.schema.j2, listed under ``turns``.

        after: the turn whose chat this one continues, with the reply to it; None to begin a new chat. variables: what
        the templates see besides, or in the place of, those of the item: ``story=kept`` shows other sentences. Raises
        ConfigError for an unknown name, ContentError where a template cannot be rendered.
        """
        named = self._turns.get(name)
        if named is None:
            raise ConfigError(f"ask: {one_of('turn', name, self._turns)}; strategy.yaml lists them under `turns`")
        chat = None if after is None else continue_chat(*after)
        return named.turn({**named.variables(self._item), **variables}, chat)


def continue_chat(turn: Turn, reply: Reply) -> list[Message]:
    """The messages of a chat in which the model has replied to that turn."""
    return [*turn.messages, {"role": "assistant", "content": reply.text}]


def load_program(path: Path) -> ProgramFunction:
    """Run the file and return its function `program`. Raises ContentError by file and line where it cannot."""
    module = load_module(path, "strategy")
    function: ProgramFunction | None = vars(module).get("program")
    if not callable(function):
        raise ContentError("defines no function `program(item, ask)`", path=path)
    return function


def start_program(function: ProgramFunction, path: Path, item: Item, ask: Ask, depth: int) -> Program:
    """The running program of an item. depth: how many generators deep it may call itself with ``yield from``. Raises
    ContentError by file and line where it fails, is no generator, or goes deeper."""
    what = f"failed for item {item.id!r}"
    value: Any = None
    try:
        running = function(item, ask)
    except Interrupted:
        raise
    except (Exception, SystemExit) as error:
        raise _describe_error(error, path, what) from None
    if not isinstance(running, GeneratorType):
        raise ContentError("`program` is no generator; it must yield what it asks", path=path)
    while True:
        try:
            yielded = running.send(value)
        except StopIteration as end:
            conclusion: str | None = end.value
            return conclusion
        except Interrupted:
            raise
        except (Exception, SystemExit) as error:
            raise _describe_error(error, path, what) from None
        if (found := _depth(running)) > depth:
            reason = f"calls itself {found} generators deep for item {item.id!r}; at most {depth}"
            raise ContentError(f"{reason} (`depth` in strategy.yaml)", path=path)
        value = yield yielded


def _describe_error(error: BaseException, path: Path, what: str) -> TomserveError:
    """The error of a program as one line; one that tomserve raised, such as by a template, says all itself."""
    return error if isinstance(error, TomserveError) else describe_failure(error, path, what)


def _depth(running: Any) -> int:
    """How many generators are running inside each other, the program itself included."""
    deep = 0
    while isinstance(running, GeneratorType):
        running, deep = running.gi_yieldfrom, deep + 1
    return deep


class ShownReply(NamedTuple):
    """A reply as templates see it."""

    text: str
    json: Any  # the text as data, None where it is no JSON
    cut: bool  # whether it was cut off at its number of tokens


class Replies:
    """The replies so far as templates see them, by place (from 0) and by the name of the turn."""

    def __init__(self) -> None:
        self._shown: list[ShownReply] = []
        self._names: dict[str, int] = {}

    def add(self, name: str, reply: Reply) -> None:
        """Take the reply to the turn of that name."""
        try:
            data = reply.json()
        except ValueError:
            data = None
        self._names[name] = len(self._shown)
        self._shown.append(ShownReply(reply.text, data, reply.cut))

    def __getitem__(self, key: int | str) -> ShownReply:
        """The reply at a place or to a turn. Raises LookupError where there is none."""
        return self._shown[self._names[key] if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[ShownReply]:
        return iter(self._shown)

    def __len__(self) -> int:
        return len(self._shown)


def ask_in_order(turns: Mapping[str, NamedTurn], continues: Mapping[str, bool], item: Item) -> Program:
    """Ask the turns one after the other. continues: which of them follow the chat so far."""
    replies = Replies()
    chat: list[Message] = []
    *_, last = turns
    for name, named in turns.items():
        variables = named.variables(item)
        if named.shared is None:
            variables["replies"] = replies
        turn = named.turn(variables, chat if continues[name] else None)
        reply: Reply = yield turn
        if name == last:  # nobody needs what its reply says
            break
        replies.add(name, reply)
        chat = continue_chat(turn, reply)
    return None


def list_strategies() -> list[str]:
    """The names of all strategies that can be found."""
    return list(content.names("prompts", "/strategy.yaml"))


class Strategy:
    """A loaded strategy, called by the name of its folder. Raises ContentError by file and line for a mistake in it.

    system_role
        False for models without a system role: the system text then goes into the first user message of a chat.
    overrides
        Texts of templates that replace the folder's own, by part ("user") or strategy and part ("cot/user",
        "simtom/answer.user").
    max_tokens
        How many tokens a reply may have; 0 for the numbers in ``strategy.yaml``.
    thinking
        Tokens for the model's thinking, which come on top of those of every reply.

    Of its attributes `digest` covers everything that shapes a request, `chain` says whether the reply that answers is
    asked to hold a belief chain, `turns` how many requests a conversation takes (None where only its program knows),
    `calls` how many it may take at most, and `is_multi_turn` whether it may take another number than one; `lettered`
    and `reasoning` are those of ``strategy.yaml``.
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
        self.turns = None if self._program else len(self._turns)
        self.calls = config.calls if self._program else len(self._turns)
        self.is_multi_turn = self.turns != 1
        self.max_tokens = max(turn.max_tokens for turn in self._turns.values())
        answering = self._turns.values() if self._program else [*self._turns.values()][-1:]
        self.chain = any("beliefs" in (turn.schema.source if turn.schema else "") for turn in answering)
        self._sources = sources
        self.digest = self.digest_as(self.name)

    @classmethod
    def load(cls, name: str, **options: Any) -> Strategy:
        """Load a strategy by its name, or by the path of its folder, with options of `Strategy`. Raises ConfigError
        where there is no strategy of that name, ContentError for a mistake in its files."""
        return cls(Path(name).expanduser().resolve(), **options) if "/" in name else cls.named(name, **options)

    @classmethod
    def named(cls, name: str, **options: Any) -> Strategy:
        """Load a strategy as `load` does, by a name that is never taken for a path, as a stranger may have given it."""
        if (file := content.names("prompts", "/strategy.yaml").get(name)) is None:
            raise ConfigError(f"{one_of('strategy', name, list_strategies())}; the path of a folder has a / in it")
        return cls(file.parent, **options)

    @property
    def turn_names(self) -> list[str]:
        """The names of its turns as strategy.yaml lists them; that of an only one is ""."""
        return list(self._turns)

    def greedy(self, temperature: float) -> bool:
        """Whether no turn is sampled with chance. temperature: of the turns that have none of their own."""
        return not any(turn.fields.get("temperature", temperature) for turn in self._turns.values())

    def conversation(self, item: Item) -> Conversation:
        """A new conversation about the item, from its first turn. Raises ContentError where the strategy's texts cannot
        be rendered for the item, or its program fails."""
        program: Program
        if self._program is not None and self._files.program is not None:
            ask, depth = Ask(self._turns, item), self._files.config.depth
            program = start_program(self._program, self._files.program, item, ask, depth)
        elif self.is_multi_turn:
            program = ask_in_order(self._turns, self._continues, item)
        else:
            program = self._once(item)
        return Conversation(program, self.calls, f"strategy {self.name}, item {item.id!r}")

    def _once(self, item: Item) -> Program:
        yield self.turn(item)
        return None

    def turn(self, item: Item) -> Turn:
        """The first turn about an item, of a strategy of one turn the only one."""
        if self.is_multi_turn:
            return self.conversation(item).open[0]
        return self._first.turn(self._first.variables(item))

    def openings(self, item: Item) -> list[list[Message]]:
        """What may stand before the question in the first turn: the system message and the demonstrations, several
        where each story gets another of these (`rotate`)."""
        return self._first.openings(self._first.variables(item))

    def order(self, item: Item) -> tuple[Any, ...]:
        """A key to sort items by, so that those whose prompts share the longest beginning stand together: the parts of
        the item as the first turn shows them. A server with a prefix cache then computes shared beginnings once."""
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
                    raise self._files.error(one_of("variable", variable, VARIABLES), "turns", place, "shared_by")
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
        """The strategy that asks today what this one asked when its digest was `digest`, since its strategy.yaml says
        `formerly`; None where there is none."""
        for name, file in content.names("prompts", "/strategy.yaml").items():
            with contextlib.suppress(ConfigError):  # of a folder that has nothing to do with this one
                if Folder(file.parent, {}).config.formerly != self.name:
                    continue
                own = {key.replace(f"{self.name}/", f"{name}/"): text for key, text in self._overrides.items()}
                if Strategy(file.parent, overrides=own, **self._options).digest_as(self.name) == digest:
                    return name
        return None

    def digest_as(self, name: str) -> str:
        """The digest of everything that shapes a request, for that name of the strategy."""
        sources = self._sources
        included = {file: text for one in self._templates.values() for file, text in sorted(one.included.items())}
        if not self._files.turns:
            system, opening = self._digested_system()
            if system is not None:
                sources = {**sources, "system": system}
            fixed = [name, self.system_role, self.max_tokens, sources, opening]
            if len(self._alternatives) > 1:
                fixed.append([ROTATION_SEED.decode(), self._alternatives])
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
        """The system text as the digest covers it (None for its source), and the messages that begin every prompt."""
        # A text that leaves out the sentences about "unknown" where that is not offered counts with them, so that runs
        # begun when it always had them can be resumed.
        system = self._templates.get("system")
        if system is None or not system.uses:
            return None, self._first.fixed_opening({})
        if system.asks_only_whether(UNKNOWN, "choices"):
            text = system.render({"choices": (UNKNOWN,)})
            if system.render({"choices": ()}) == drop_sentences(text, UNKNOWN):
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
