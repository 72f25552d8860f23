"""The prompts of all cases of a measurement, and what an answer to one of them means.

Every case is asked in up to four tellings, each in both orders of its choices; see tomserve.causal.table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from tomserve import content
from tomserve.benchmarks.counterfactuals import Case
from tomserve.causal.backend import Answers, Floats, Ints, Prompt
from tomserve.causal.table import FALSE, ROLES, TOLD
from tomserve.causal.tokens import ORDERS, CasePrompts


@dataclass(frozen=True)
class Asked:
    """The cases that can be asked, with their prompts.

    cases: n of them. prompts: of all cases. places: int64 [n, tellings, orders], where in `prompts` a telling stands
    (tellings as in TOLD); -1 where a case has none. left_out: how many cases cannot be asked, by the reason.
    """

    cases: tuple[Case, ...]
    prompts: tuple[Prompt, ...]
    places: Ints
    left_out: Counter[str]

    @classmethod
    def of(cls, cases: Iterable[Case], prompts_of: Callable[[Case], CasePrompts | str]) -> Asked:
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
        """The largest number of choices that a prompt has."""
        return max((len(prompt.choices) for prompt in self.prompts), default=0)

    @property
    def mean_tokens(self) -> float:
        """How many tokens a prompt has on average."""
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
class Said:
    """What n answers mean. role: int8 [n], the place in ROLES of what is answered. strict: bool [n], whether the
    likeliest token of all begins a choice. gap: float32 [n], the logit of the true-belief choice minus that of the
    false-belief choice."""

    role: np.ndarray[tuple[int], np.dtype[np.int8]]
    strict: np.ndarray[tuple[int], np.dtype[np.bool_]]
    gap: Floats


def said(case: Case, prompt: Prompt, answers: Answers) -> Said:
    """What the answers to one prompt of a case mean; one whose logits are not all finite, as of a model that a step has
    broken, is no choice. answers: any number of them."""
    logits = answers.logits[:, : len(prompt.choices)]
    finite = np.isfinite(logits).all(axis=1)
    chosen = np.where(finite, logits.argmax(axis=1), -1)
    false, true = case.false_choice, case.true_choice
    role = np.full(len(chosen), ROLES.index("other"), np.int8)
    role[chosen == false], role[chosen == true] = ROLES.index("false"), ROLES.index("true")
    strict = np.isin(answers.top, np.asarray(prompt.choices, np.int64)) & finite
    return Said(role, strict, (logits[:, true] - logits[:, false]).astype(np.float32))


def eligible(asked: Asked, answers: Answers) -> Sequence[bool]:
    """For each case whether the false-belief item is answered, strictly read, by the false-belief choice in both
    orders."""
    found = []
    for number, case in enumerate(asked.cases):
        both = []
        for order in ORDERS:
            place = asked.place(number, order)
            one = said(case, asked.prompts[place], one_of(answers, place))
            both.append(bool(one.strict[0]) and ROLES[one.role[0]] == "false")
        found.append(all(both))
    return found


def one_of(answers: Answers, place: int) -> Answers:
    """The answer at one place, as answers of their own."""
    return Answers(answers.logits[place : place + 1], answers.top[place : place + 1])
