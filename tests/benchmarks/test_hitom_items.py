"""The official file: its form, its artefacts, its items, and one clear line for whatever is wrong with it."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli, data_file
from tests.helpers.outcomes import passes, refuses
from tomserve.benchmarks import hitom
from tomserve.benchmarks.hitom.items import read_records
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item

SMALL = ROOT / "tests/data/hitom_small.json"


def items(gold: str = "corrected", path: Path = SMALL) -> dict[tuple[object, ...], Item]:
    """Items by deception, length and order (and half, where there are both)."""
    found = {}
    for item in hitom.load(path, gold):
        key = tuple(item.factors.get(name) for name in ("deception", "length", "order", "prompting_type"))
        found[key if key[3] else key[:3]] = item
    return found


def test_each_gold_is_its_own() -> None:
    corrected, tracked, released = items(), items("tracked"), items("released")
    assert (len(corrected), len({item.id for item in released.values()})) == (15, 30)
    assert corrected[False, 1, 2].answer == "ochre_urn"  # the other half says plum_locker
    assert corrected[True, 3, 3].answer == "iron_chest"  # the label of the file, which is not the tracker's
    assert corrected[True, 3, 3].gold is None
    assert [key for key, item in corrected.items() if not item.factors["label_agrees"]] == [(True, 3, 3)]
    assert tracked[True, 3, 3].answer == "slate_bucket"
    vp, cotp = (released[False, 1, 2, half] for half in ("VP", "CoTP"))
    assert (vp.answer, cotp.answer) == ("plum_locker", "ochre_urn")
    assert (vp.story, vp.cluster) == (cotp.story, cotp.cluster)
    assert cotp.cluster == corrected[False, 1, 2].cluster
    for gold in hitom.BENCHMARK.golds:
        assert {item.factors["gold"] for item in items(gold).values()} == {gold}
    with pytest.raises(ConfigError, match="only the official file has several sets of answers"):
        list(hitom.load(None, "released"))


def test_an_item_whose_id_its_content_gives(tmp_path: Path) -> None:
    item = items()[True, 1, 2]
    assert item.id == f"{item.cluster}/lantern/Gil/Jun"
    assert item.choices.index("unknown") == 15
    assert item.gold.chains == (("unknown", *["amber_crock"] * 3, *["coral_bin"] * 11, "amber_crock"),)

    def moved(rows: list[dict[str, Any]]) -> None:
        rows[:] = [{**row, "sample_id": row["sample_id"] + 7} for row in reversed(rows)]

    assert {item.id for item in hitom.load(damaged(tmp_path, moved))} == {item.id for item in hitom.load(SMALL)}


def damaged(tmp_path: Path, change: Callable[[list[dict[str, Any]]], object]) -> Path:
    data = json.loads(SMALL.read_text())
    change(data["data"])
    (tmp_path / "damaged.json").write_text(json.dumps(data))
    return tmp_path / "damaged.json"


def put(index: int, field: str, value: object) -> Callable[[list[dict[str, Any]]], object]:
    return lambda rows: rows[index].__setitem__(field, value)


def swap(index: int, field: str, old: str, new: str) -> Callable[[list[dict[str, Any]]], object]:
    return lambda rows: rows[index].__setitem__(field, rows[index][field].replace(old, new))


MISTAKES = [
    (swap(3, "story", "exited the", "left the"), "data[3].story: sentence 5: unknown sentence 'Ada left the"),
    (swap(3, "story", "5 Ada", "6 Ada"), "data[3].story: line 5 is '6 Ada exited"),
    (put(1, "question", "Who has it?"), "data[1].question: unknown question 'Who has it?'; expected"),
    (swap(2, "question", "Bela", "Cleo"), "data[2].question: asks about Cleo twice; name every agent once"),
    (put(2, "question_order", 3), "data[2].question_order: is 3, but the question names 2 agents"),
    (put(0, "choices", "red, blue"), "data[0].choices: are 'red, blue'; expected 'A. <container>"),
    (put(4, "sample_id", 2), "data[4].sample_id: 2 is already in data[2]; leave one of them out"),
    (put(0, "anwser", "x"), "data[0].anwser: unknown key; did you mean 'answer'?"),
    (lambda rows: rows.__setitem__(2, "x"), "data[2]: expected a mapping with the keys prompting_type, deception"),
    (lambda rows: rows.append({**rows[3], "sample_id": 99}), "the same story is already in data[3]"),
    (lambda rows: rows.__delitem__(2), "data[16].prompting_type: no CoTP record asks this"),
]  # fmt: skip
TEXTS = [
    ("{", "not JSON"),
    ('{"rows": []}', "holds an object with ['rows']; expected the official file"),
]


@pytest.mark.parametrize(("change", "said"), [*MISTAKES, *TEXTS])
def test_mistakes_are_named_with_record_and_field(tmp_path: Path, change: Any, said: str) -> None:
    path = tmp_path / "damaged.json"
    path.write_text(change) if isinstance(change, str) else damaged(tmp_path, change)
    with pytest.raises(ContentError) as caught:
        list(hitom.load(path))
    assert str(caught.value).startswith(f"{path}:")
    assert said in str(caught.value)
    if "no CoTP record" in said:
        assert len(list(hitom.load(path, "tracked"))) == 15


def test_runs_and_foreign_responses_keep_their_gold(cli: Cli, endpoint: Any, tmp_path: Path) -> None:
    ask = ("eval", "--benchmark", "hitom", "--path", SMALL, "--base-url", endpoint.url, "--strategy", "vanilla")
    assert cli(*ask, "--gold", "tracked", "--run", "r").code == 0
    manifest = json.loads((tmp_path / "runs/r/manifest.json").read_text())
    assert (manifest["benchmark"], manifest["benchmark_gold"], manifest["benchmark_items"]) == ("hitom", "tracked", 15)
    refuses(cli(*ask, "--run", "r"), "benchmark_digest")
    now = passes(cli("score", "r", "--gold", "current", "--out", tmp_path / "now.csv"))
    assert "the same" in now.out  # scored against the tracked answers again, not the default ones
    path = tmp_path / "theirs.jsonl"
    rows = [{"item": item.id, "text": item.answer} for item in hitom.load(SMALL, "tracked")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    score = ("score", "--responses", path, "--benchmark", "hitom", "--path", SMALL, "--out", tmp_path / "s.csv")
    assert "15 answers scored, 14 correct" in cli(*score).out
    assert "15 answers scored, 15 correct" in cli(*score, "--gold", "tracked").out


def test_all_of_the_official_file_is_read() -> None:
    path = data_file("Hi-ToM_data.json")
    records, raw = read_records(path), json.loads(path.read_text())["data"]
    assert (len(records), len({record.story_id for record in records})) == (1200, 120)
    for record, row in zip(records, raw, strict=True):
        lines = [line for line in row["story"].split("\n") if line[:1].isdigit()]
        assert [f"{n} {s}" for n, s in enumerate(record.story.sentences(), 1)] == lines
        kept = (record.order, record.answer, record.deception)
        assert kept == (row["question_order"], row["answer"], row["deception"])
        assert record.object == record.story.objects[0]
    found = list(hitom.load(path))
    assert len({item.id for item in found}) == len(found) == 600
    assert [item.answer for item in found] == [r.answer for r in records if r.half == "CoTP"]
    assert sum(item.gold is None for item in found) == 17
    # What tells can change as released: orders 1 and 2 alone.
    relevant = Counter(item.factors["order"] for item in found if item.factors["tell_relevant"])
    assert relevant == {1: 12, 2: 10}
    assert not any(item.factors["tell_relevant"] for item in found if not item.factors["deception"])
