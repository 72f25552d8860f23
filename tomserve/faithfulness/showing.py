"""How an edited chain is shown to the model, so that it only has to give the answer; and how that answer is read.

As the beginning of its own reply (`prefill`), which a server continues that takes ``continue_final_message``:

    user       the prompt of the run
    assistant  {"beliefs": [{"sentence": 1, "belief": "tea"}], "answer": "

Or as an earlier message of its own (`call`), after which a second call asks for the answer; a strategy whose answer is
a turn of its own is asked by that turn. In both ways the reply is held to the choices by the strategy's own schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson

from tomserve import content
from tomserve.errors import ConfigError
from tomserve.faithfulness.hints import Hinted
from tomserve.faithfulness.reading import shown as in_its_place
from tomserve.faithfulness.source import Chain, turn_place
from tomserve.faithfulness.table import CALL, LABELS, PREFILL
from tomserve.items import Item
from tomserve.prompting.conversation import Conversation, Message, Program, Reply, Turn
from tomserve.prompting.strategy import Strategy
from tomserve.prompting.templates import Template, environment
from tomserve.scoring.answers import Reading
from tomserve.scoring.score import read_response
from tomserve.scoring.thoughts import split_thoughts
from tomserve.serving.probe import CHOICE_FIELDS
from tomserve.status import OK

ANSWER_TOKENS = 256
"""How many tokens an answer alone may have at most."""

CONTINUED = {"continue_final_message": True, "add_generation_prompt": False}
"""The fields of a request whose last message the model continues, as vLLM names them."""

_OPENS = '{"answer":'
"""How a reply begins that has to go on with the answer alone."""


@dataclass(frozen=True)
class Once:
    """Asks one turn about an item. name: tells its questions from others. make: the turn."""

    name: str
    make: Callable[[], Turn]
    turns: int = 1
    calls: int = 1
    several: bool = False

    def conversation(self, item: Item) -> Conversation:
        """A conversation of that turn alone."""

        def program() -> Program:
            yield self.make()
            return None

        return Conversation(program(), 1, f"{self.name}, item {item.id!r}")

    def turn(self, item: Item) -> Turn:
        """That turn."""
        del item
        return self.make()


@dataclass(frozen=True)
class AfterHint:
    """Asks a strategy's whole conversation about an item with a hint in its prompt.

    name: tells its questions from others. strategy: whose prompts they are. hinted: the item and the messages with the
    hint in them.
    """

    name: str
    strategy: Strategy
    hinted: Hinted

    @property
    def turns(self) -> int | None:
        """How many requests it takes: as many as the strategy."""
        return self.strategy.turns

    @property
    def calls(self) -> int:
        """How many requests it may take at most."""
        return self.strategy.calls

    @property
    def several(self) -> bool:
        """Whether it may take another number of requests than one."""
        return self.strategy.several

    def turn(self, item: Item) -> Turn:
        """The first turn."""
        return self.conversation(item).open[0]

    def conversation(self, item: Item) -> Conversation:
        """The strategy's conversation in which every message that shows the question holds the hint, too."""
        del item
        inner = self.strategy.conversation(self.hinted.item)
        plain, told = inner.open[0].messages[-1]["content"], self.hinted.messages[-1]["content"]

        def hint(turn: Turn) -> Turn:
            messages = [{**one, "content": told} if one["content"] == plain else one for one in turn.messages]
            return turn._replace(messages=tuple(messages))

        def program() -> Program:
            while not inner.ended:
                numbers = [turn.number for turn in inner.open]
                replies: list[Reply] = yield [hint(turn) for turn in inner.open]
                for number, reply in zip(numbers, replies, strict=True):
                    inner.reply(number, reply)
            return inner.conclusion

        return Conversation(program(), self.calls, f"{self.name}, item {self.hinted.item.id!r}")


def prefilled(chain: Chain, text: str, held_by: str | None = None) -> Turn:
    """The turn that shows an edited chain as the beginning of the model's reply.

    text: the edited chain. held_by: the field by which the server holds a reply to one of several texts (see
    tomserve.serving.probe.CHOICE_FIELDS). Then the beginning reaches into the answer as far as its quotation mark,
    since tokenizers join what stands before a label and never the mark to the label: the model goes on at the very
    token at which it once chose its answer. Without such a field it ends before the mark, and a schema holds the rest.
    """
    first, schema = _asked(chain), _answer_schema(chain)
    beginning = in_its_place(chain.written, text)
    if _has_turn(chain):
        beginning = f"{text.rstrip()}\n\n{_OPENS}" if text.strip() else _OPENS
    fields = {**first.fields, **CONTINUED}
    choices = (schema or {}).get("enum")
    if held_by is not None and choices and all(isinstance(one, str) for one in choices):
        beginning += f'{chain.blank}"'
        fields |= CHOICE_FIELDS[held_by]([f"{_quoted(one)[1:]}}}" for one in choices])
        schema = None
    messages = (*first.messages, {"role": "assistant", "content": beginning})
    return Turn(messages, schema, _tokens(chain.strategy), fields)


def called(chain: Chain, text: str) -> Turn:
    """The turn that asks for the answer after an edited chain in a message of the model's own.

    Raises ConfigError where a strategy's program asks something else after its reasoning than the answer.
    """
    if _has_turn(chain):
        return _after(chain, text).open[0]._replace(number=0)
    first = _asked(chain)
    written = chain.written
    opens = written.before.find("{", split_thoughts(written.before).start)  # the object alone, without a code fence
    said = f"{written.before[opens:]}{text}}}" if written.form == LABELS else text.strip()
    messages: list[Message] = [*first.messages, {"role": "assistant", "content": said}]
    messages.append({"role": "user", "content": _question(chain)})
    schema = _answer_schema(chain)
    whole = None if schema is None else {
        **{"type": "object", "properties": {"answer": schema}, "required": ["answer"]},
        "additionalProperties": False,
    }  # fmt: skip
    return Turn(tuple(messages), whole, _tokens(chain.strategy), first.fields)


def ways(chain: Chain) -> tuple[str, ...]:
    """The ways in which chains of that strategy can be shown, the one that is usual for it first.

    A turn of its own is how its answer is asked for anyway. Without a schema a prefilled reply to it would be free text
    that goes on reasoning.
    """
    if not _has_turn(chain):
        return (PREFILL, CALL)
    return (CALL, PREFILL) if _answer_schema(chain) is not None else (CALL,)


def answer_of(chain: Chain, shown: str, text: str, row: Mapping[str, Any]) -> Reading:
    """What a reply to an edited chain answers. shown: PREFILL or CALL. text: the edited chain. row: of the reply."""
    said = row.get("text") or ""
    if shown == PREFILL:
        # Whether the mark of quotation was shown or is a part of the reply is told by how the reply begins.
        said = said.strip()
        said = f"{_OPENS} {said}" if said.startswith(('"', "{", "[")) else f'{_OPENS} "{said}'
        said += "" if said.endswith("}") else "}"
    if _has_turn(chain) and row["status"] == OK:  # a program may say by itself what a reply stands for
        conversation = _after(chain, text)
        conversation.reply(conversation.open[0].number, Reply(said))
        said = said if conversation.conclusion is None else conversation.conclusion
    return read_response(chain.item, {**row, "text": said}, chain.lettered)


def _has_turn(chain: Chain) -> bool:
    """Whether the reasoning is the reply of a turn of its own."""
    return chain.strategy.reasoning is not None and chain.strategy.reasoning.turn is not None


def _after(chain: Chain, text: str) -> Conversation:
    """The strategy's conversation up to the turn that follows its reasoning, in whose place stands the text."""
    conversation = chain.strategy.conversation(chain.item)
    for number, reply in enumerate((*chain.replies[:-1], text)):
        if len(conversation.open) != 1:
            break
        conversation.reply(conversation.open[0].number, Reply(reply))
        if number < turn_place(chain.strategy) and conversation.ended:
            break
    if conversation.ended or len(conversation.open) != 1:
        raise ConfigError(
            f"strategy {chain.strategy.name!r}: after the turn {chain.strategy.reasoning.turn!r} it does not ask one "  # type: ignore[union-attr]
            "turn for the answer, so that its reasoning cannot be edited; name another turn under `reasoning`"
        )
    return conversation


def _asked(chain: Chain) -> Turn:
    """The turn that asked for the reasoning."""
    if not _has_turn(chain):
        return chain.strategy.turn(chain.item)
    conversation = chain.strategy.conversation(chain.item)
    for reply in chain.replies[:-1]:
        conversation.reply(conversation.open[0].number, Reply(reply))
    return conversation.open[0]


def _answer_schema(chain: Chain) -> dict[str, Any] | None:
    """The schema of the answer alone, taken from that of the reply; None where that has none."""
    turn = _after(chain, chain.written.text).open[0] if _has_turn(chain) else _asked(chain)
    answer = ((turn.schema or {}).get("properties") or {}).get("answer")
    return answer if isinstance(answer, dict) else None


def _quoted(label: str) -> str:
    """A label as a JSON string."""
    return orjson.dumps(label).decode()


def _tokens(strategy: Strategy) -> int:
    return min(ANSWER_TOKENS, strategy.max_tokens)


def _question(chain: Chain) -> str:
    """The message by which a second call asks for the answer."""
    return _second_call().render({"lettered": chain.lettered})


def text_digest() -> str:
    """A digest of the message of a second call: another one would be another prompt."""
    return content.digest(_second_call().source.encode())


@cache
def _second_call() -> Template:
    path = content.require("prompts/second_call/answer.j2")
    return Template(environment(path.parent), path.read_text("utf-8"), path)
