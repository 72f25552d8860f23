"""Mistakes in files are named in words that need neither Python nor pydantic: presets, prompts and items."""

from pathlib import Path

import orjson
import pytest
import yaml

from tests.conftest import ROOT, make_item
from tomserve.errors import ContentError
from tomserve.items import read_items
from tomserve.prompting.strategy import Strategy
from tomserve.serving.presets import Preset

PRESET = yaml.safe_load((ROOT / "launch/models/qwen3-8b.yaml").read_text())
ITEM = orjson.loads(make_item(1).to_json())
ABSENT = object()
VERSION = "is missing; write `schema: 1`, which says of which form this file is"


def changed(data: dict, field: str, value: object) -> dict:
    """A copy in which the field, a path with dots, has that value or is absent."""
    copy = orjson.loads(orjson.dumps(data))
    *parents, last = field.split(".")
    place = copy
    for name in parents:
        place = place[int(name) if name.isdigit() else name]
    if value is ABSENT:
        del place[last]
    else:
        place[last] = value
    return copy


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("schema", ABSENT, f"schema: {VERSION}"),
        ("schema", 2, "schema: expected 1; found 2"),
        ("model", 7, "model: expected a text; found 7"),
        ("modle", "x", "modle: unknown key; did you mean 'model'? Known: "),
        ("name", "Big Model", "name: expected small letters, digits, '.', '_' and '-', beginning with a letter or digit; "),
        ("weights_gb", 0, "weights_gb: expected a number above 0; found 0"),
        ("shape.heads", ABSENT, "shape.heads: is missing; expected a whole number"),
        ("flags", ["a"], "flags: expected a mapping of keys to values; found ['a']"),
        ("flags", {"a": None}, "flags.a: expected a text or a whole number or a number or true or false; found nothing"),
        ("verified", "documentd", "verified: expected one of yes, documented, unverified; found 'documentd'; did you mean"),
    ],
)  # fmt: skip
def test_a_preset(tmp_path: Path, field: str, value: object, said: str) -> None:
    path = tmp_path / f"{PRESET['name']}.yaml"
    path.write_text(yaml.safe_dump(changed(PRESET, field, value)))
    with pytest.raises(ContentError) as caught:
        Preset.load(str(path))
    assert_plain(str(caught.value), said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("description: d\nmax_tokens: 9\n", f"strategy.yaml: schema: {VERSION}"),
        ("schema: 1\ndescription: d\nmax_tokens: 0\n", "strategy.yaml:3: max_tokens: expected a whole number above 0; found 0"),
        ("- schema: 1\n", "strategy.yaml: expected a mapping with the keys temperature, "),
        (
            "schema: 1\ndescription: d\nmax_tokens: 9\ndemonstrations: [{file: x, itm: y}]\n",
            "strategy.yaml:4: demonstrations.0.itm: unknown key; did you mean 'item'? Known: file, item",
        ),
    ],
)  # fmt: skip
def test_a_strategy(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "strategy.yaml").write_text(text)
    with pytest.raises(ContentError) as caught:
        Strategy(tmp_path)
    assert_plain(str(caught.value), said)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("id", ABSENT, "id: is missing; expected a text"),
        ("id", "a\tb", "id: expected a text on one line, without tabs and other control characters, and not empty; found"),
        ("story", ["Tea.", 3], "story.1: expected a text; found 3"),
        ("choices", ["tea"], "choices: expected at least two labels, or none for an open question; found ['tea']"),
        ("answer", "coffee", "answer 'coffee' is not among the choices"),
        ("factors", {"a": [1]}, "factors.a: expected a text or true or false or a whole number or a number; found [1]"),
        ("gold", {"edges": [[1, "a"]], "sets": [["tea"]]}, "gold.edges.0.2: is missing; expected a text"),
        ("gold", {"policy": "stay", "sets": [["tea"]]}, "gold.policy: expected one of persist, free; found 'stay'"),
        ("chocies", [], "chocies: unknown key; did you mean 'choices'?"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["jsonl", "yaml"])
def test_an_item(tmp_path: Path, form: str, field: str, value: object, said: str) -> None:
    item = changed(ITEM, field, value)
    path = tmp_path / f"items.{form}"
    if form == "jsonl":
        path.write_bytes(orjson.dumps(item))
    else:
        del item["schema"]
        path.write_text(yaml.safe_dump({"schema": 1, "items": [item]}))
    with pytest.raises(ContentError) as caught:
        list(read_items(path))
    assert_plain(str(caught.value), said)
    assert f"{path}:" in str(caught.value)


def assert_plain(text: str, said: str) -> None:
    """One line that says this, in words of the project."""
    assert said in text
    assert "\n" not in text
    for leak in ("nput should", "valid ", "tuple", "dict", "str]", "pydantic", "Value error", "None"):
        assert leak not in text
