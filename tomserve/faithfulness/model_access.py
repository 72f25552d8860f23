"""How the model is reached and shown an edited chain.

As the beginning of its own reply (`prefill`), which a server continues that takes ``continue_final_message``, such as
``{"beliefs": [...], "answer": "``; or as an earlier message of its own (`call`), after which a second call asks for the
answer (a strategy whose answer is a turn of its own is asked by that turn). In both ways the reply is held to the
choices by the strategy's own schema.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import orjson

from tomserve import content
from tomserve.content import files
from tomserve.engine.prompt_tokens import estimate_tokens
from tomserve.engine.request import Sampling
from tomserve.errors import ConfigError, RunMismatchError, ServerError
from tomserve.faithfulness.chains import Count, write_beginning
from tomserve.faithfulness.hints import HintedTurn
from tomserve.faithfulness.settings import AUTO, Connection, Settings
from tomserve.faithfulness.source_run import Chain, SourceRun, has_turn, turn_place
from tomserve.faithfulness.table import CALL, LABELS, PREFILL
from tomserve.items import Item
from tomserve.prompting.conversation import Conversation, Message, Program, Reply, Turn
from tomserve.prompting.strategy import Strategy
from tomserve.prompting.templates import Template, environment
from tomserve.runs import evaluation
from tomserve.runs.evaluation import Servers
from tomserve.runs.manifest import make_portable
from tomserve.runs.measurement import MeasuredRun
from tomserve.runs.progress import Listener
from tomserve.scoring.answers import Reading
from tomserve.scoring.score import read_response
from tomserve.scoring.thoughts import split_thoughts
from tomserve.serving import endpoint, keys
from tomserve.serving.endpoint import Target
from tomserve.serving.preflight import PLAIN, learn_adaptations
from tomserve.serving.presets import Preset
from tomserve.serving.probe import CHOICE_FIELDS, PrefillProbe, WaitPolicy
from tomserve.status import OK

ANSWER_TOKENS = 256
"""How many tokens an answer alone may have at most."""

CONTINUED = {"continue_final_message": True, "add_generation_prompt": False}
"""The fields of a request whose last message the model continues, as vLLM names them."""

_OPENS = '{"answer":'
"""How a reply begins that has to go on with the answer alone."""


@dataclass(frozen=True)
class PlannedAsker:
    """Asks one planned question, as tomserve.prompting.conversation.Asker describes."""

    name: str
    program: Callable[[], Program]
    turns: int | None = 1
    calls: int = 1
    is_multi_turn: bool = False

    def conversation(self, item: Item) -> Conversation:
        """The conversation about the item."""
        return Conversation(self.program(), self.calls, f"{self.name}, item {item.id!r}")

    def turn(self, item: Item) -> Turn:
        """The first turn."""
        return self.conversation(item).open[0]


def single_turn(name: str, make: Callable[[], Turn]) -> PlannedAsker:
    """What asks one turn."""

    def program() -> Program:
        yield make()
        return None

    return PlannedAsker(name, program)


def hinted_conversation(name: str, strategy: Strategy, hinted: HintedTurn) -> PlannedAsker:
    """What asks the strategy's conversation in which every message that shows the question holds the hint, too."""

    def program() -> Program:
        inner = strategy.conversation(hinted.item)
        before = inner.open[0].messages
        plain, told = before[-1]["content"], hinted.messages[len(before) - 1 :]

        def hint(turn: Turn) -> Turn:
            shown = (told if one["content"] == plain else (one,) for one in turn.messages)
            return turn._replace(messages=tuple(one for part in shown for one in part))

        while not inner.ended:
            numbers = [turn.number for turn in inner.open]
            replies: list[Reply] = yield [hint(turn) for turn in inner.open]
            for number, reply in zip(numbers, replies, strict=True):
                inner.reply(number, reply)
        return inner.conclusion

    return PlannedAsker(name, program, strategy.turns, strategy.calls, strategy.is_multi_turn)


def prefill_turn(chain: Chain, text: str, held_by: str | None = None) -> Turn:
    """The turn that shows an edited chain as the beginning of the model's reply.

    held_by: the field by which the server holds a reply to one of several texts (see
    tomserve.serving.probe.CHOICE_FIELDS). Then the beginning reaches into the answer as far as its quotation mark, the
    very token at which the model once chose its answer. Without such a field it ends before the mark, since tokenizers
    join it to what stands before it, and a schema holds the rest.
    """
    first, schema = _reasoning_turn(chain), _answer_schema(chain)
    beginning = write_beginning(chain.written, text)
    if has_turn(chain):
        beginning = f"{text.rstrip()}\n\n{_OPENS}" if text.strip() else _OPENS
    fields = {**first.fields, **CONTINUED}
    choices = (schema or {}).get("enum")
    if held_by is not None and choices and all(isinstance(one, str) for one in choices):
        beginning += f'{chain.space}"'
        fields |= CHOICE_FIELDS[held_by]([f"{orjson.dumps(one).decode()[1:]}}}" for one in choices])
        schema = None
    messages = (*first.messages, {"role": "assistant", "content": beginning})
    return Turn(messages, schema, _tokens(chain.strategy), fields)


def second_call_turn(chain: Chain, text: str) -> Turn:
    """The turn that asks for the answer after an edited chain in a message of the model's own. Raises ConfigError where
    a strategy's program asks something else after its reasoning."""
    if has_turn(chain):
        return _after(chain, text).open[0]._replace(number=0)
    first = _reasoning_turn(chain)
    written = chain.written
    opens = written.before.find("{", split_thoughts(written.before).start)  # the object alone, without a code fence
    said = f"{written.before[opens:]}{text}}}" if written.form == LABELS else text.strip()
    messages: list[Message] = [*first.messages, {"role": "assistant", "content": said}]
    messages.append({"role": "user", "content": _second_call().render({"lettered": chain.lettered})})
    schema = _answer_schema(chain)
    whole = None if schema is None else {
        **{"type": "object", "properties": {"answer": schema}, "required": ["answer"]},
        "additionalProperties": False,
    }  # fmt: skip
    return Turn(tuple(messages), whole, _tokens(chain.strategy), first.fields)


def continued_conversation(name: str, chain: Chain, text: str, shown: str, held_by: str | None) -> PlannedAsker:
    """What has the model go on with a chain that begins so, and then asks for the answer. shown: how the whole chain is
    shown where the answer is a turn of its own. held_by: as for `prefill_turn`."""
    if not has_turn(chain):
        return single_turn(name, lambda: continuing_turn(chain, text))

    def program() -> Program:
        reply: Reply = yield continuing_turn(chain, text)
        whole = text + reply.text
        yield prefill_turn(chain, whole, held_by) if shown == PREFILL else second_call_turn(chain, whole)
        return None

    return PlannedAsker(name, program, 2, 2, is_multi_turn=True)


def continuing_turn(chain: Chain, text: str) -> Turn:
    """The turn that begins the reply with the beginning of a chain, which the model goes on with freely: a schema would
    hold the rest alone."""
    first = _reasoning_turn(chain)
    beginning = text if has_turn(chain) else write_beginning(chain.written, text).removesuffix(chain.written.after)
    messages = (*first.messages, {"role": "assistant", "content": beginning})
    return Turn(messages, None, first.max_tokens or chain.strategy.max_tokens, {**first.fields, **CONTINUED})


def continued_answer(chain: Chain, shown: str, text: str, rows: Mapping[int, Mapping[str, Any]]) -> tuple[Reading, str]:
    """What the model answers after it went on with a chain, and the chain as it came to be. shown, text: as for
    `continued_conversation`. rows: of its conversation, by turn, of which none failed."""
    said = str(rows[0].get("text") or "")
    whole = text + said
    if has_turn(chain):
        return answer_of(chain, shown, whole, rows[max(rows)]), whole
    begun = str(continuing_turn(chain, text).messages[-1]["content"])
    return read_response(chain.item, {**rows[0], "text": begun + said}, chain.lettered), whole


def usual_ways(chain: Chain) -> tuple[str, ...]:
    """The ways in which chains of that strategy can be shown, the one that is usual for it first. Without a schema a
    prefilled reply to a turn of its own would be free text that goes on reasoning."""
    if not has_turn(chain):
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
    if has_turn(chain) and row["status"] == OK:  # a program may say by itself what a reply stands for
        conversation = _after(chain, text)
        conversation.reply(conversation.open[0].number, Reply(said))
        said = said if conversation.conclusion is None else conversation.conclusion
    return read_response(chain.item, {**row, "text": said}, chain.lettered)


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


def _reasoning_turn(chain: Chain) -> Turn:
    if not has_turn(chain):
        return chain.strategy.turn(chain.item)
    conversation = chain.strategy.conversation(chain.item)
    for reply in chain.replies[:-1]:
        conversation.reply(conversation.open[0].number, Reply(reply))
    return conversation.open[0]


def _answer_schema(chain: Chain) -> dict[str, Any] | None:
    """The schema of the answer alone, taken from that of the reply; None where that has none."""
    turn = _after(chain, chain.written.text).open[0] if has_turn(chain) else _reasoning_turn(chain)
    answer = ((turn.schema or {}).get("properties") or {}).get("answer")
    return answer if isinstance(answer, dict) else None


def _tokens(strategy: Strategy) -> int:
    return min(ANSWER_TOKENS, strategy.max_tokens)


def text_digest() -> str:
    """A digest of the message of a second call: another one would be another prompt."""
    return content.digest(_second_call().source.encode())


@cache
def _second_call() -> Template:
    path = content.require("prompts/second_call/answer.j2")
    return Template(environment(path.parent), files.read_own_text(path), path)


@dataclass
class ModelAccess:
    """The model that is asked, and the run whose chains it wrote."""

    target: Target
    source: SourceRun
    server_gone: Callable[[], str | None] = lambda: None  # why the process of a server started here has ended
    prefill_support: str | None = None  # the field by which the server holds a continued reply to one of several texts

    @property
    def answering(self) -> Sampling:
        """How an answer after an edited chain is sampled: as the run was, but without any thinking of its own."""
        preset, own = self.source.preset, self.source.sampling
        if preset is None or preset.reasoning is None:
            return own
        return replace(own, extra=preset.extra("off"))

    def probe(self, waiting: WaitPolicy | None = None) -> PrefillProbe:
        """A probe of the first endpoint, which asks as the run did."""
        known = keys.credentials(*self.target.endpoints)
        probe = PrefillProbe(self.target.endpoints[0], known.key, waiting=waiting, headers=known.headers)
        probe.adaptations = self.source.sampling.adaptations
        return probe

    def counting(self, listener: Listener) -> Count:
        """A function that counts tokens as the server does, or estimates them where it does not count."""
        probe = self.probe()
        if probe.count_text_tokens(self.target.model, "one two three") is None:
            listener.message("the server counts no tokens, so that the length of filler is estimated")
            return estimate_tokens

        @cache
        def count(text: str) -> int:
            found = probe.count_text_tokens(self.target.model, text) if text else 0
            return estimate_tokens(text) if found is None else found

        return count


def choose_server(source: SourceRun, connection: Connection, waiting: WaitPolicy) -> Target:
    """The server of the model that wrote the chains of the run; one without an address is to be started. Raises
    ConfigError or ServerError where none can be used, RunMismatchError where another model is served."""
    manifest = source.manifest
    own = manifest.model if connection.base_urls else manifest.preset or manifest.model
    # The run may come from somebody else, who could name any folder, file or model of the hub: on their word none is
    # fetched or served but a preset of this user's.
    start = "/" not in own and Preset.lookup(own) is not None
    found = endpoint.choose_target(connection.base_urls, own, connection.revision, waiting, start=start)
    pairs = (
        ("model", manifest.model, found.model),
        ("revision", manifest.revision, found.revision),
        ("weights", _root(manifest.server.get("root")), _root(found.server.get("root"))),
    )
    for name, was, now in pairs:
        if was and now and was != now:
            raise RunMismatchError(
                f"{source.folder}: its chains were written by {name} {was:.80}, and {now:.80} is served now; edited "
                "chains say something only about the model that wrote them: serve that one, or ask the run again"
            )
    return found


def _root(found: object) -> str | None:
    return str(make_portable(found)) if isinstance(found, str) and found else None


def reach_model(
    chosen: Target,
    source: SourceRun,
    run: MeasuredRun,
    servers: Servers,
    waiting: WaitPolicy,
    connection: Connection,
    listener: Listener,
) -> ModelAccess:
    """Start the server where that is needed, and check that it chats. Raises ServerError, MachineError."""
    if not chosen.embedded:
        found = ModelAccess(chosen, source)
    else:

        def note(text: str) -> None:
            waiting.check()
            waiting.note(text)

        evaluation.ensure_engine(listener, setup=connection.setup)
        server, started = servers.of(chosen, run.path, note)
        found = ModelAccess(started, source, server.gone)
    key, headers = keys.credentials(*found.target.endpoints)
    probes = [PrefillProbe(one, key, connection.timeout, waiting, headers) for one in found.target.endpoints]
    names = learn_adaptations(probes, found.target.model, [("", PLAIN)], source.sampling, "on")
    if names != source.sampling.adaptations:
        raise RunMismatchError(
            f"{source.folder}: the server takes requests in another way ({', '.join(names)}) than when its chains were "
            "written; ask the run again under another name, and edit the chains of that one"
        )
    probe = probes[0]
    found.prefill_support = probe.choice_field(found.target.model, found.answering.extra)
    return found


def check_prefill_unchanged(reached: ModelAccess, held_by: str | None, waiting: WaitPolicy) -> None:
    """Raise RunMismatchError where the server continues replies otherwise than when the measurement was begun, holding
    them by the field `held_by`."""
    probe = reached.probe(waiting)
    reason = probe.explain_no_prefill(reached.target.model, reached.answering.extra)
    if reason is None and reached.prefill_support != held_by:
        reason = f"it held replies by {held_by or 'a schema'}, and now does by {reached.prefill_support or 'a schema'}"
    if reason is not None:
        raise RunMismatchError(
            f"{reached.target.endpoints[0]}: chains were shown as beginnings of replies when this measurement was "
            f"begun, and the server is another one now: {reason}; go on with one like that, or use --run NEW"
        )


def find_ways(
    reached: ModelAccess, settings: Settings, listener: Listener, waiting: WaitPolicy
) -> Callable[[Chain], Sequence[str]]:
    """In which ways the chains of each strategy are shown, as the settings want it and the server can. Raises
    ServerError or ConfigError where they cannot be shown as wanted."""
    first: dict[str, Chain] = {}
    for chain in reached.source.chains:
        first.setdefault(chain.strategy.name, chain)
    able = {name: usual_ways(chain) for name, chain in first.items()}
    if settings.shown == CALL or (all(found[0] == CALL for found in able.values()) and settings.shown == AUTO):
        return lambda chain: (CALL,)
    refused: dict[str, str] = {}
    probe = reached.probe(waiting)
    general = probe.explain_no_prefill(reached.target.model, reached.answering.extra)
    for name, chain in first.items():
        reason = general or _refusal(probe, reached, chain)
        if reason is not None and PREFILL in able[name]:
            refused[name] = reason
    if refused and settings.shown == PREFILL:
        raise ServerError(
            f"the server does not continue a reply that is begun ({next(iter(refused.values()))}); leave --shown out, "
            "or use vLLM"
        )
    if settings.shown == PREFILL:
        if none := [name for name, found in able.items() if PREFILL not in found]:
            raise ConfigError(
                f"strategy {none[0]!r} answers in a turn of its own, which cannot be prefilled; use --shown call"
            )
        return lambda chain: (PREFILL,)
    wanted = {name: tuple(one for one in found if one == CALL or name not in refused) for name, found in able.items()}
    for name, reason in refused.items():
        listener.message(
            f"the server does not continue a reply that is begun for strategy {name} ({reason}); its chains are "
            "shown in an earlier message, and a second call asks for the answer"
        )
    return lambda chain: wanted[chain.strategy.name][: 1 if settings.shown == AUTO else None]


def _refusal(probe: PrefillProbe, reached: ModelAccess, chain: Chain) -> str | None:
    """Why the server refuses the first prefilled reply of a strategy; None where it takes it."""
    turn = prefill_turn(chain, chain.written.text, reached.prefill_support)
    at = reached.target
    body = {"model": at.model, "messages": list(turn.messages), **reached.answering.to_dict(), **turn.fields}
    return probe.explain_chat_refusal(body)
