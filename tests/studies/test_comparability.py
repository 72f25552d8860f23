"""Which results may stand side by side, and what is said of those that may not."""

from dataclasses import fields, replace
from typing import Any

import pytest

from tomserve.studies.comparability import (
    AnswerConditions,
    Conditions,
    MeasurementConditions,
    describe_difference,
    group_comparable,
)

ANSWERS = AnswerConditions(benchmark="worlds", strategy="vanilla", count=60)
INSIDE = MeasurementConditions(benchmark="worlds", cases=100)
BASE = Conditions((ANSWERS,), INSIDE)
OTHERWISE: dict[str, Any] = {"int": 7, "float": 0.7, "int | None": 7, "str": "other", "tuple[float, ...]": (0.1,)}


@pytest.mark.parametrize(
    ("part", "name", "kind"), [(part, one.name, one.type) for part in (ANSWERS, INSIDE) for one in fields(part)]
)
def test_each_condition_that_differs_is_said(part: Any, name: str, kind: str) -> None:
    changed = replace(part, **{name: OTHERWISE.get(kind, ("other",))})
    other = Conditions((changed,), INSIDE) if part is ANSWERS else Conditions((ANSWERS,), changed)
    said = describe_difference(other, BASE)
    assert said.startswith("was ")
    assert ";" not in said
    assert group_comparable({"a": BASE, "b": other, "c": BASE}) == (("a", "c"), {"b": said}, False)


def test_of_groups_of_one_size_that_with_most_questions_is_the_largest() -> None:
    more = replace(BASE, answers=(replace(ANSWERS, count=90),))
    assert group_comparable({"a": BASE, "b": more})[::2] == (("b",), True)
    assert group_comparable({"b": BASE, "a": replace(BASE, answers=())}).largest == ("b",)
    assert group_comparable({}) == ((), {}, False)


def test_the_measurement_counts_only_where_the_score_has_it() -> None:
    alone = replace(BASE, measurement=None)
    assert describe_difference(alone, BASE) == "was not measured inside (--weights)"
    assert group_comparable({"a": BASE, "b": alone}, measured=False).largest == ("a", "b")


def test_of_several_benchmarks_it_is_said_which_one_differs() -> None:
    both = replace(BASE, answers=(replace(ANSWERS, benchmark="bigtom"), ANSWERS))
    said = "was asked bigtom, worlds instead of worlds: repeat with the same --benchmark"
    assert describe_difference(both, BASE) == said
    other = replace(both, answers=(both.answers[0], replace(ANSWERS, strategy="letters")))
    assert describe_difference(other, both).startswith("worlds: was asked by letters instead of vanilla")
