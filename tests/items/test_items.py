"""Items: the data contract and its refusals.
Gold automata against listed paths."""

import functools
from pathlib import Path

import pytest
from hypothesis import given

from tests.conftest import make_item
from tests.helpers.rationales import listed, rationales
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, items_digest, read_items, where, write_items
from tomserve.items.rationale import compile_chains, compile_sets
from tomserve.scoring.responses import ItemFile


def test_a_line_is_read_back_as_it_was_with_normalised_text(tmp_path: Path) -> None:
    chains = make_item(3, gold={"chains": [["unknown", "tea", "tea"], ["unknown", "salt", "tea"]]})
    items = [make_item(0), make_item(1, question="Cafe\u0301?"), chains]
    write_items(tmp_path / "i.jsonl", items)
    assert list(read_items(tmp_path / "i.jsonl")) == items
    assert (tmp_path / "i.jsonl").read_bytes().startswith(b'{"schema":1,"id":"demo/0"')
    assert (items[1].question, len(list(chains.gold.automaton().chains()))) == ("Caf\u00e9?", 2)


def test_the_digest_ignores_order_but_not_content() -> None:
    one, two = make_item(1), make_item(2)
    assert items_digest([one, two]) == items_digest([two, one])
    assert items_digest([one, two]) != items_digest([one, make_item(2, question="Else?")])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"choices": ["tea", "Tea", "salt"]}, "not distinct"),
        ({"gold": {"sets": [["tea"]]}}, "gold has 1 layers for 3 sentences"),
        ({"gold": {"sets": [["tea"], ["milk"], ["tea"]]}}, "gold of sentence 2 has 'milk'"),
        ({"gold": {"chains": [["tea"] * 3], "edges": [[1, "tea", "tea"]]}}, "'edges' belong to 'sets'"),
        (
            {"gold": {"sets": [["tea"], ["salt", "tea"], ["salt"]], "edges": [[1, "tea", "tea"], [2, "salt", "salt"]]}},
            "no path",
        ),
        ({"choices": ["tea", *map(str, range(500))]}, "choices: 501 of 1,393 characters; expected at most 500"),
        ({"story": ["x"] * 100_001, "gold": None}, "story has 100,001 sentences; expected at most 100,000"),
        ({"world": functools.reduce(lambda inner, _: {"a": inner}, range(300), {})}, "world holds values within more"),
        ({"benchmark": "../up"}, "benchmark"),
    ],
)
def test_mistakes_are_refused(change: dict, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make_item(**change)


def test_a_choice_may_be_several_sentences_but_no_page() -> None:
    long = "Ida saw it. " * 166 + "So say I"
    assert len(long) == 2000
    assert make_item(choices=["tea", "salt", long], answer=long, gold=None).answer == long
    with pytest.raises(ValueError, match="at most 2000"):
        make_item(choices=["tea", "salt", f"{long}."], gold=None)


def test_an_item_may_say_what_it_is_a_version_of_and_which_world_it_was_made_from() -> None:
    told = make_item(base="demo/1", world={"name": "demo", "people": {"P": {"name": "Ann", "age": 7}}, "scenes": []})
    assert Item.from_json(told.to_json()) == told
    assert b'"base":"demo/1","world":{"name":"demo"' in told.to_json()
    assert b'"base"' not in make_item().to_json()
    assert b'"world"' not in make_item().to_json()
    assert items_digest([told]) != items_digest([make_item()])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{not json\n", r"i.jsonl:2: not JSON"),
        (make_item(1).to_json() + b"\n", r"i.jsonl:2: id: 'demo/1' was already given in line 1"),
        (make_item(2).to_json().replace(b'"schema":1', b'"schema":9'), r"i.jsonl:2: schema is not 1"),
        (b"[1]\n", r"i.jsonl:2: expected a mapping with the keys id, benchmark, story, .*; found \[1\]$"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "i.jsonl"
    path.write_bytes(make_item(1).to_json() + b"\n" + line)
    with pytest.raises(ContentError, match=message):
        list(read_items(path))


def test_items_of_more_factors_than_a_table_can_hold_are_refused(tmp_path: Path, monkeypatch) -> None:
    write_items(tmp_path / "i.jsonl", [make_item(n, factors={f"f{n}": n}) for n in range(1002)])
    for read in (lambda path: list(read_items(path)), ItemFile):
        with pytest.raises(ContentError, match=r"i.jsonl:1001: factors: .* at most 1,000 in a file"):
            read(tmp_path / "i.jsonl")
    monkeypatch.setattr("tomserve.items.files.MOST_CELLS", 15_000)
    with pytest.raises(ContentError, match=r"i.jsonl:123: factors: with this item there are 123 factors"):
        list(read_items(tmp_path / "i.jsonl"))


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match="cannot be read"):
        list(read_items(tmp_path / "none.jsonl"))
    (tmp_path / "e.jsonl").touch()
    with pytest.raises(ContentError, match="holds no items"):
        list(read_items(tmp_path / "e.jsonl"))


ITEMS = [make_item(n, factors={"swapped": n == 1, "k": "a"}) for n in (1, 2)]
MANY = [make_item(number, factors={"n": number, "odd": number % 2 == 1}) for number in range(40)]
NONE = [
    (ITEMS, ["k=c,d"], r"no item has k=c,d; k is a$"),
    (ITEMS, ["swaped=true"], "unknown factor 'swaped'; did you mean 'swapped'"),
    (ITEMS, ["swapped=true", "k=b"], r"no item has k=b; k is a$"),
    (ITEMS, ["swapped=true", "swapped=false"], r"no item meets all conditions at once: swapped=true and swapped=false$"),
    (MANY, ["n=77"], r"no item has n=77; n is 0, 1, 10, 11, 12, 2, .*, 8, \.\.\.$"),
    (ITEMS, ["k"], "expected factor=value"),
]  # fmt: skip


def test_where_filters_by_factor() -> None:
    assert [item.id for item in where(ITEMS, ["swapped=false", "k=a"])] == ["demo/2"]
    assert list(where(ITEMS, ["swapped=true,false"])) == ITEMS
    assert [item.id for item in where(ITEMS, ["swapped=nothing,false"])] == ["demo/2"]
    towns = [make_item(number, factors={"town": town}) for number, town in enumerate(("A", "A, B", "A,B", "B"))]
    assert [item.factors["town"] for item in where(towns, ["town=A, B"])] == ["A, B"]
    assert [item.factors["town"] for item in where(towns, ["town=A,B"])] == ["A", "A,B", "B"]
    for items, conditions, said in NONE:
        with pytest.raises(ConfigError, match=said):
            list(where(items, conditions))


YAML = """schema: 1
items:
  - id: a
    story: [The jar holds tea.]
    question: What is in the jar?
    choices: [tea, salt]
    answer: tea
    gold: {sets: [[tea]]}
  - id: b
    story: [The jar holds salt.]
    question: What is in the jar?
    choices: [tea, salt]
    answer: salt
"""


def test_items_may_be_written_in_yaml(cli, tmp_path: Path) -> None:
    (tmp_path / "i.yaml").write_text(YAML)
    found = list(read_items(tmp_path / "i.yaml"))
    assert [(item.id, item.answer, item.cluster) for item in found] == [("a", "tea", "a"), ("b", "salt", "b")]
    assert found[0].gold is not None
    done = cli("items", "items", "--path", tmp_path / "i.yaml")
    assert done.code == 0, done.err
    assert done.out.encode() == b"".join(item.to_json() + b"\n" for item in found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    answer: salt\n", "", r"i\.yaml:9: items\.1\.answer: is missing"),
        ("id: b", "id: a", r"i\.yaml:9: id: 'a' was already given in line 3"),
        ("question: What is in the jar?\n    choices: [tea, salt]\n    answer: salt", "qestion: What?", r":11: .*qestion"),
        (YAML[YAML.index("items:") :], "items: []\n", r"i\.yaml: holds no items"),
    ],
)  # fmt: skip
def test_a_mistake_in_yaml_is_named_with_its_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in YAML
    (tmp_path / "i.yaml").write_text(YAML.replace(old, new))
    with pytest.raises(ContentError, match=message):
        list(read_items(tmp_path / "i.yaml"))


@given(rationales())
def test_paths_are_those_of_the_definition(rationale: tuple) -> None:
    automaton = compile_sets(*rationale)
    paths = listed(*rationale)
    assert set(automaton.chains()) == paths
    # trimmed: every label that is left lies on a path
    assert [set(layer) for layer in automaton.labels] == [set(column) for column in zip(*paths, strict=True)]


def test_persist_keeps_a_belief_where_the_set_stays() -> None:
    assert set(compile_sets([["x", "y"], ["y", "x"]]).chains()) == {("x", "x"), ("y", "y")}
    assert len(list(compile_sets([["x", "y"], ["x", "y"]], policy="free").chains())) == 4


def test_no_path_leaves_an_empty_automaton() -> None:
    automaton = compile_sets([["x"], ["x", "y"], ["y"]], [(1, "x", "x"), (2, "y", "y")])
    assert automaton.labels == ()
    assert list(automaton.chains()) == []


def test_explicit_chains_do_not_mix() -> None:
    chains = [("u", "x", "x"), ("u", "y", "x")]
    assert sorted(compile_chains(chains).chains()) == chains


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: compile_sets([["x"], []]), "set of sentence 2 is empty"),
        (lambda: compile_sets([["x"], ["y"]], [(2, "x", "y")]), "t must be 1 to 1"),
        (lambda: compile_sets([["x"], ["y"]], [(1, "y", "y")]), "not from the set of sentence 1"),
        (lambda: compile_sets([["x"]], policy="drift"), "unknown policy 'drift'"),
        (lambda: compile_chains([("x",), ("x", "y")]), "of equal length"),
        (lambda: compile_sets([list(map(str, range(150)))] * 2), "have 22,500 pairs of beliefs in turn"),
        (lambda: compile_chains([(str(number),) for number in range(2001)]), "2,001 explicit chains; expected at most"),
        (lambda: compile_chains([("x",) * 200_001]), "has 200,001 labels; expected at most 200,000"),
        (lambda: compile_chains([("x",) * 1000, ("y",) * 1000]), "takes 2,000,000 steps; expected at most 1,000,000"),
        (lambda: compile_sets([["x"], ["x", "y"]] * 501, policy="free"), "takes 2,006,004 steps"),
    ],
)
def test_bad_rationales_are_refused(call: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        call()
