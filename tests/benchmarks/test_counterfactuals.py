"""Cases: false-belief items with the other tellings of their stories, read from items and written as items."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tomserve import benchmarks
from tomserve.benchmarks.counterfactuals import (
    Case,
    NoCase,
    draw_cases,
    find_cases,
    find_problem,
    items_of,
    read_cases,
)
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, write_items
from tomserve.items.draw import WHOLE_CLUSTERS

LABELS = {"protagonist": "tea", "other": "salt", "reality": "salt", "protagonist_in_twin": "salt"}
FIRST = ("I believe it is tea", "I believe it is salt")


def made(name: str = "jar", /, **changed: Mapping[str, Any]) -> list[Item]:
    """A complete case as items: f, p, p~ and the twin. changed: other fields of one of these."""
    told = {"question": "What does Ann believe is in the jar?", "choices": ("tea", "salt"), "cluster": name}
    own = {"question": "What do you believe is in the jar?", "choices": FIRST, "meanings": ("tea", "salt")}
    factors = {"family": "contents", **LABELS}
    tellings: dict[str, dict[str, Any]] = {
        "f": {"id": name, "story": ["Ann has missed it."], "answer": "tea", "factors": factors},
        "ppt_p": {"story": ["You put tea in."], "answer": FIRST[0], **own},
        "ppt_p_twin": {"story": ["You notice."], "answer": FIRST[1], **own},
        "ppt_twin": {"story": ["Ann notices."], "answer": "salt"},
    }
    items = []
    for kind, fields in tellings.items():
        version = {"id": f"{name}/{kind}", "base": name, "factors": {"variant": kind}} if kind != "f" else {}
        items.append(Item(**{**told, **version, **fields, **changed.get(kind, {})}))
    return items


def cases(items: Iterable[Item]) -> list[Case]:
    return [found for found in find_cases(items) if isinstance(found, Case)]


def reasons(items: Iterable[Item]) -> Counter[str]:
    return Counter(found.reason for found in find_cases(items) if isinstance(found, NoCase))


def test_a_complete_group_is_a_case_whatever_the_order_of_its_items() -> None:
    items = made()
    (case,) = cases(items[::-1])
    assert (case.f, case.own, case.own_twin, case.twin) == tuple(items)
    assert (case.family, case.scenario, case.false_choice, case.true_choice) == ("contents", "jar", 0, 1)
    assert case.holders == {**LABELS, "other_in_twin": None, "reality_in_twin": None}
    assert case.factors is case.f.factors


def test_items_of_a_case_are_read_back_as_the_same_case() -> None:
    found = cases([*made("jar", f={"factors": {}}), *made("tin")[:3]])
    assert [(case.twin is None, case.family) for case in found] == [(False, "all"), (True, "contents")]
    assert [len(items_of(case)) for case in found] == [4, 3]
    again = cases(item for case in found for item in items_of(case))
    assert (again[0], again[1].holders) == (found[0], found[1].holders)


def test_choices_in_another_order_are_put_into_that_of_f() -> None:
    turned = {"choices": FIRST[::-1], "meanings": ("salt", "tea")}
    (case,) = cases(made(ppt_p=turned, ppt_twin={"choices": ("salt", "tea")}))
    assert case.own.choices == FIRST
    assert case.own.meanings == case.f.choices
    assert case.twin is not None
    assert (case.twin.choices, case.twin.meanings) == (case.f.choices, None)
    assert find_problem(case) is None


def test_what_is_incomplete_is_counted_with_its_reason() -> None:
    f, p, p_twin, twin = made()
    assert reasons([f, p, twin]) == {"it has no version ppt_p_twin": 1}
    assert reasons([f]) == {"it has no version ppt_p and none ppt_p_twin": 1}
    assert reasons([p, p_twin]) == {"the item that it is a version of is not there": 1}
    other = f.model_copy(update={"id": "jar/person", "base": "jar", "factors": {"variant": "person"}})
    assert not reasons([f, other, p, p_twin])


WRONG = [
    ({"ppt_p": {"cluster": "tin"}}, "'jar/ppt_p': its cluster is 'tin'; expected that of 'jar': 'jar'"),
    ({"ppt_p": {"meanings": None}}, "'jar/ppt_p': its choices do not stand for those of 'jar'; say by `meanings`"),
    (
        {"ppt_p_twin": {"answer": FIRST[0]}},
        "'jar/ppt_p_twin': its answer means that of 'jar', 'tea'; expected another one",
    ),
    ({"ppt_twin": {"answer": "tea"}}, "'jar/ppt_twin': its answer is 'tea'; expected 'salt', as of 'jar/ppt_p_twin'"),
]


@pytest.mark.parametrize(("changed", "expected"), WRONG)
def test_a_telling_that_does_not_fit_is_refused_by_file_and_line(changed: dict, expected: str, tmp_path: Path) -> None:
    items = made(**changed)
    with pytest.raises(ConfigError, match=re.escape(f"item {expected}")):
        list(find_cases(items))
    write_items(path := tmp_path / "own.jsonl", [*made("tin"), *items])
    line = 5 + [item.id for item in items].index(expected.split("'")[1])
    with pytest.raises(ContentError, match=re.escape(f"own.jsonl:{line}: item {expected}")):
        list(read_cases(path))


def test_a_telling_twice_and_files_without_cases_are_refused(tmp_path: Path) -> None:
    f, p, p_twin, _ = made()
    again = p.model_copy(update={"id": "jar/again"})
    with pytest.raises(ConfigError, match="item 'jar/again': 'jar' has a version ppt_p already: 'jar/ppt_p'"):
        list(find_cases([f, p, p_twin, again]))
    for items, said in ([f], "holds no cases; expected items"), ([f, p], "no question makes a case"):
        write_items(path := tmp_path / "own.jsonl", items)
        with pytest.raises(ConfigError, match=said):
            list(benchmarks.get("items").found_cases(path))


def test_conditions_choose_among_the_items_and_what_makes_no_case_is_counted(tmp_path: Path) -> None:
    transfer = {"factors": {"family": "transfer"}}
    write_items(path := tmp_path / "own.jsonl", [*made("a"), *made("b", f=transfer), *made("c", f=transfer)[:2]])
    asked = benchmarks.get("items")
    left_out: Counter[str] = Counter()
    assert [case.f.id for case in asked.found_cases(path, ["family=transfer"], left_out)] == ["b"]
    assert left_out == {"it has no version ppt_p_twin": 1}
    assert [case.f.id for case in asked.found_cases(path, ["all"])] == ["a", "b"]
    shared = {kind: {"cluster": "both"} for kind in ("f", "ppt_p", "ppt_p_twin", "ppt_twin")}
    every = cases([*made("a", **shared), *made("b", **shared), *made("c")])
    assert {case.f.id for case in draw_cases(every, 2, WHOLE_CLUSTERS)} in ({"a", "b"}, {"c"})
    with pytest.raises(
        ConfigError, match=r"benchmark 'perturbed' has no cases.* those that have: bigtom, perturbed-2, worlds"
    ):
        benchmarks.require_cases(benchmarks.get("perturbed"))
