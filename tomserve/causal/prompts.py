"""The prompts of all cases, which end right before the answer, and what the next token says about it.

A prompt is what `tomserve eval` would send, in the model's own chat format, followed by the beginning of the reply up
to where the choices part: `{"answer":"` for most strategies, and what all choices begin with, such as "I believe the
bowl holds ". From there each choice goes on with a token of its own.

Since a tokenizer may merge letters over that seam, every reply is tokenised as a whole, and the first place at which
the tokens differ counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jinja2
import numpy as np
import orjson

from tomserve import content
from tomserve.benchmarks.counterfactuals import Case
from tomserve.causal.activations import Answers, Floats, Ints, Prompt
from tomserve.causal.table import FALSE, OWN, OWN_TWIN, ROLES, TOLD, TWIN
from tomserve.errors import ConfigError
from tomserve.items import UNKNOWN, Item
from tomserve.prompting.conversation import Message, Turn
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.thoughts import opens_thoughts
from tomserve.serving.checkpoint import SWITCHES

ORDERS = (0, 1)  # in which order the choices are shown: 0 as the item lists them, 1 reversed

SAME_TOKEN = "two choices go on with the same token, so that the next token does not tell them apart"
NO_TOKEN = "a choice begins with what the tokenizer has no token for"
NOT_OFFERED = "the strategy does not offer one of the choices"
UNEVEN = "its tellings differ in their number of choices"
TOO_LONG = "a prompt is longer than the model's context"
REASONS = (SAME_TOKEN, NO_TOKEN, NOT_OFFERED, UNEVEN, TOO_LONG)
"""Why a case is left out: the same words for all cases of one sort, so that they can be counted."""


class Tokenizer(Protocol):
    """What is needed of a tokenizer; those of transformers have it."""

    chat_template: Any
    model_max_length: int

    @property
    def unk_token_id(self) -> int | None:
        """The token for what has none; None where every text has tokens."""

    def apply_chat_template(
        self, conversation: list[Message], *, tokenize: bool, add_generation_prompt: bool, **variables: Any
    ) -> Any:
        """The text of a chat in the model's own format, where `tokenize` is False."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The ids of the text's tokens."""


@dataclass(frozen=True, slots=True)
class CasePrompts:
    """The prompts of a case, by how it is told (tomserve.causal.table.TOLD) and the order of its choices (ORDERS); in
    each, `choices` stand in the order of f's choices."""

    case: Case
    prompts: Mapping[tuple[str, int], Prompt]


def prompts_of(case: Case, strategy: Strategy, tokenizer: Tokenizer, context: int | None = None) -> CasePrompts | str:
    """The prompts of a case in all tellings and both orders of the choices, or why it is left out (one of REASONS).

    context: how many tokens the model can read, besides the tokenizer's own limit; the prompt and one token of the
    answer have to fit. Raises ConfigError for a tokenizer without a chat template, a model that cannot be kept from
    thinking first, and a strategy whose reply does not begin with the answer.
    """
    tellings = {FALSE: case.f, OWN: case.own, OWN_TWIN: case.own_twin, TWIN: case.twin}
    told = {name: item for name in TOLD if (item := tellings[name]) is not None}
    if len({len(item.choices) for item in told.values()}) > 1:
        return UNEVEN
    longest = min(context or tokenizer.model_max_length, tokenizer.model_max_length) - 1
    made: dict[tuple[str, int], Prompt] = {}
    for name, item in told.items():
        for order in ORDERS:
            prompt = prompt_of(item, strategy, tokenizer, order)
            if isinstance(prompt, str):
                return prompt
            if len(prompt.tokens) > longest:
                return TOO_LONG
            made[name, order] = prompt
    return CasePrompts(case, made)


def prompt_of(item: Item, strategy: Strategy, tokenizer: Tokenizer, order: int = 0) -> Prompt | str:
    """The prompt about an item up to the token before the answer, or why there is none (one of REASONS). order: 0 shows
    the choices as the item lists them, 1 in reverse. Raises ConfigError as `prompts_of` does."""
    _refuse_several(strategy)
    shown = item.model_copy(update={"choices": item.choices[::-1]}) if order else item
    turn = strategy.turn(shown)
    replies = _replies(turn, shown, strategy)
    if isinstance(replies, str):
        return replies
    asked = render_chat(turn.messages, tokenizer)
    return _split_prompt(asked, [replies[choice] for choice in item.choices], tokenizer)


def adapt_strategy(name: str, tokenizer: Tokenizer) -> Strategy:
    """The strategy of that name as it is sent to this model: without a system message where its template has none.
    Raises ConfigError for a strategy that does not exist or asks several times, and for a tokenizer without a chat
    template."""
    strategy = Strategy.load(name, system_role=_has_system_role(tokenizer))
    _refuse_several(strategy)
    return strategy


def check_strategy(strategy: Strategy, item: Item) -> None:
    """Raise ConfigError for a strategy that asks several times, or whose reply to the item does not begin with the
    answer; no tokenizer is needed."""
    _refuse_several(strategy)
    _replies(strategy.turn(item), item, strategy)


def _refuse_several(strategy: Strategy) -> None:
    if strategy.is_multi_turn:
        raise ConfigError(
            f"strategy {strategy.name}: asks in several turns or by a program, and only the state before an answer "
            "that comes at once is measured; use a strategy of one turn, such as vanilla"
        )


def _has_system_role(tokenizer: Tokenizer) -> bool:
    """Whether the chat template shows a system message (some refuse it, and some drop it without a word)."""
    mark = "sentinel-of-the-system"
    chat = [{"role": "system", "content": mark}, {"role": "user", "content": "Hello."}]
    _refuse_bare(tokenizer)
    try:
        return mark in str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
    except (jinja2.TemplateError, ValueError):
        return False


def _refuse_bare(tokenizer: Tokenizer) -> None:
    if not tokenizer.chat_template:
        raise ConfigError(
            "the model's tokenizer has no chat template, so that nothing tells how it is asked; take a model that was "
            "trained to answer (often called -Instruct or -it), or put a chat_template.jinja into the model's folder"
        )


def render_chat(messages: Sequence[Message], tokenizer: Tokenizer) -> str:
    """The chat in the model's own format, up to where its reply begins, with thinking switched off.

    A template takes no notice of a switch that it does not know. Raises ConfigError where there is no template, it
    cannot show the messages, or it opens a thought.
    """
    _refuse_bare(tokenizer)
    try:
        text = tokenizer.apply_chat_template(
            [*messages], tokenize=False, add_generation_prompt=True, **dict.fromkeys(SWITCHES, False)
        )
    except (jinja2.TemplateError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"the model's chat template cannot show the strategy's messages ({reason}); use another strategy, or mend "
            "chat_template.jinja in the model's folder"
        ) from None
    if opens_thoughts(str(text)):
        raise ConfigError(
            "the model's chat template opens a thought before every reply and has no switch for it, so that no answer "
            "follows the prompt; take a model that answers at once, or whose thinking can be switched off"
        )
    return str(text)


def _replies(turn: Turn, shown: Item, strategy: Strategy) -> dict[str, str] | str:
    """The reply that answers each of the choices, as the model would write it up to what follows the answer: JSON by
    the turn's schema without spaces, as the servers that tomserve starts make it (disable_any_whitespace).

    What follows is part of it, since a choice may be the beginning of another one, which is then told apart by its end.
    """
    properties = (turn.schema or {}).get("properties") or {}
    values = properties["answer"].get("enum") if next(iter(properties), None) == "answer" else None
    if not values or not all(isinstance(value, str) for value in values):
        raise ConfigError(
            f"strategy {strategy.name}: its reply has to begin with the answer, in JSON with a list of the labels that "
            "can be answered, and does not; use a strategy such as vanilla"
        )
    if set(values) <= set(shown.choices):
        written = {value: value for value in values}
    else:  # letters, one for each of the choices that are shown
        offered = [choice for choice in shown.choices if choice != UNKNOWN or len(values) == len(shown.choices)]
        if not strategy.lettered or len(offered) != len(values):
            return NOT_OFFERED
        written = dict(zip(offered, values, strict=True))
    if written.keys() != set(shown.choices):
        return NOT_OFFERED
    rest = "}" if len(properties) == 1 else f',"{[*properties][1]}":'
    return {choice: f'{{"answer":{orjson.dumps(value).decode()}{rest}' for choice, value in written.items()}


def _split_prompt(asked: str, replies: Sequence[str], tokenizer: Tokenizer) -> Prompt | str:
    """The tokens up to where the replies part, and the token with which each goes on; or why they cannot be told apart.

    asked: the chat up to the reply. Its own tokens stay as they are, because a server hands the model these and no
    others: where a tokenizer would merge its end with the reply, the replies are tokenised alone.
    """
    before = tokenizer.encode(asked, add_special_tokens=False)
    wholes = [tokenizer.encode(asked + reply, add_special_tokens=False) for reply in replies]
    if any(whole[: len(before)] != before for whole in wholes):
        wholes = [before + tokenizer.encode(reply, add_special_tokens=False) for reply in replies]
    shortest = min(len(whole) for whole in wholes)
    place = next((n for n in range(shortest) if len({whole[n] for whole in wholes}) > 1), shortest)
    if place == shortest:
        return SAME_TOKEN
    choices = tuple(whole[place] for whole in wholes)
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in choices:
        return NO_TOKEN
    if len(set(choices)) < len(choices):
        return SAME_TOKEN
    return Prompt(tuple(wholes[0][:place]), choices)


@dataclass(frozen=True)
class PromptSet:
    """The cases that can be asked, with their prompts."""

    cases: tuple[Case, ...]  # [n]
    prompts: tuple[Prompt, ...]  # of all cases
    places: Ints  # [n, tellings, orders], where in `prompts` a telling (of TOLD) stands; -1 where a case has none
    left_out: Counter[str]  # how many cases cannot be asked, by the reason

    @classmethod
    def of(cls, cases: Iterable[Case], prompts_of: Callable[[Case], CasePrompts | str]) -> PromptSet:
        """The prompts of the cases. prompts_of: gives those of one case, or why there are none."""
        kept: list[Case] = []
        prompts: list[Prompt] = []
        places: list[list[list[int]]] = []
        left_out: Counter[str] = Counter()
        for case in cases:
            made = prompts_of(case)
            if isinstance(made, str):
                left_out[made] += 1
                continue
            of_case = [[-1] * len(ORDERS) for _ in TOLD]
            for (told, order), prompt in made.prompts.items():
                of_case[TOLD.index(told)][order] = len(prompts)
                prompts.append(prompt)
            kept.append(case)
            places.append(of_case)
        shape = (len(kept), len(TOLD), len(ORDERS))
        return cls(tuple(kept), tuple(prompts), np.asarray(places, np.int64).reshape(shape), left_out)

    @property
    def clusters(self) -> Ints:
        """The scenario of each case, as a number: int64 [n], in the order of the scenarios' names."""
        names = [case.scenario for case in self.cases]
        return np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)[1].astype(np.int64)

    @property
    def choices(self) -> int:
        return max((len(prompt.choices) for prompt in self.prompts), default=0)

    @property
    def mean_tokens(self) -> float:
        return sum(len(prompt.tokens) for prompt in self.prompts) / max(1, len(self.prompts))

    @property
    def digest(self) -> str:
        """A digest of all prompts, which tells whether states are of these."""
        return content.digest(*(orjson.dumps([prompt.tokens, prompt.choices]) for prompt in self.prompts))

    def mean(self, states: Floats, told: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """The states of one telling averaged over both orders, as float64 [n, width]; NaN for cases without it."""
        places = self.places[:, TOLD.index(told)]
        found = np.full((len(self.cases), states.shape[1]), np.nan)
        there = (places >= 0).all(axis=1)
        found[there] = np.mean([states[places[there, order]].astype(np.float64) for order in ORDERS], axis=0)
        return found

    def place(self, case: int, order: int, told: str = FALSE) -> int:
        """Where in `prompts` a telling of a case stands; -1 where there is none."""
        return int(self.places[case, TOLD.index(told), order])


@dataclass(frozen=True, slots=True)
class AnswerRoles:
    """What n answers mean."""

    role: np.ndarray[tuple[int], np.dtype[np.int8]]  # the place in ROLES of what is answered
    strict: np.ndarray[tuple[int], np.dtype[np.bool_]]  # whether the likeliest token of all begins a choice
    gap: Floats  # the logit of the true-belief choice minus that of the false-belief choice


def read_answers(case: Case, prompt: Prompt, answers: Answers) -> AnswerRoles:
    """What the answers to one prompt of a case mean; one whose logits are not all finite, as of a model that a step has
    broken, is no choice. answers: any number of them."""
    logits = answers.logits[:, : len(prompt.choices)]
    finite = np.isfinite(logits).all(axis=1)
    chosen = np.where(finite, logits.argmax(axis=1), -1)
    false, true = case.false_choice, case.true_choice
    role = np.full(len(chosen), ROLES.index("other"), np.int8)
    role[chosen == false], role[chosen == true] = ROLES.index("false"), ROLES.index("true")
    strict = np.isin(answers.top, np.asarray(prompt.choices, np.int64)) & finite
    return AnswerRoles(role, strict, (logits[:, true] - logits[:, false]).astype(np.float32))


def find_eligible(asked: PromptSet, answers: Answers) -> Sequence[bool]:
    """For each case whether the false-belief item is answered, strictly read, by the false-belief choice in both
    orders."""
    both = ([read_baseline(asked, answers, number, order) for order in ORDERS] for number in range(len(asked.cases)))
    return [all(bool(one.strict[0]) and ROLES[one.role[0]] == "false" for one in orders) for orders in both]


def read_baseline(asked: PromptSet, answers: Answers, number: int, order: int, told: str = FALSE) -> AnswerRoles:
    """What one telling of a case, which it has to have, was answered by before any intervention. answers: to all
    prompts."""
    place = asked.place(number, order, told)
    one = Answers(answers.logits[place : place + 1], answers.top[place : place + 1])
    return read_answers(asked.cases[number], asked.prompts[place], one)
