"""The audit: on the small file by hand, on the released one against the known figures."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT, Outcome, data_file
from tomserve import benchmarks
from tomserve.benchmarks.hitom import auditing
from tomserve.benchmarks.hitom.audit import Audit
from tomserve.benchmarks.hitom.reader import read_records

SMALL = ROOT / "tests/data/hitom_small.json"


@pytest.fixture(scope="module")
def small() -> Audit:
    return Audit(read_records(SMALL))


@pytest.fixture(scope="module")
def official() -> Audit:
    return Audit(read_records(data_file("Hi-ToM_data.json")))


def column(frame: pl.DataFrame, name: str) -> list[object]:
    return frame[name].to_list()


def test_findings_name_cause_and_deciding_sentences(small: Audit) -> None:
    found = [(f.cause, f.record.half, f.record.order, f.record.length) for f in small.findings()]
    assert found == [
        ("stale half", "VP", 2, 1),
        ("stale half", "VP", 4, 3),
        ("room re-entry", "CoTP", 3, 3),
        ("room re-entry", "VP", 3, 3),
        ("semantics", "CoTP", 2, 1),
        ("semantics", "CoTP", 4, 3),
    ]
    texts = [f.text() for f in small.findings()]
    assert texts[2] == (
        "data[13] CoTP sample 13: Milo > Otto > Kai > violin: label iron_chest, released slate_bucket, "
        "common_knowledge slate_bucket; slate_bucket by 12 'Kai, Milo and Otto entered the mill.'; label iron_chest "
        "last in 11 'Lena publicly claimed that violin is in the iron_chest.'"
    )
    assert "amber_crock by 16 'Gil privately told Jun" in texts[4]
    assert "coral_bin by 5 'Gil moved" in texts[4]


def test_tables_of_the_small_file(small: Audit) -> None:
    totals = small.agreement().filter(pl.col("order") == "all")
    assert column(totals, "agree") == [14, 12, 12, 11]
    assert column(small.pairs(), "differ") == [0, 0, 1, 0, 1]
    assert column(small.causes(), "count") == [1, 1, 2, 1, 1]
    assert column(small.baselines(), "joint_witness") == [3, 3, 2, 2, 3]
    assert column(small.baselines(), "first_order") == [3, 3, 1, 0, 0]
    assert column(small.baselines(), "reality") == [3, 2, 1, 0, 0]
    assert small.baselines()["chance"][0] == pytest.approx((1 / 5 + 1 / 4 + 1 / 5) / 3)


def test_the_command(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    done = cli("dataset", "audit", "hitom", "--path", SMALL)
    assert done.code == 1  # labels are wrong in it
    assert "30 labels of 3 stories: 26 are the tracker's (released), 4 are not" in done.out
    assert "stale half" in done.out
    assert "data[17] VP sample 17: Bela > Cleo > compass" in done.out
    assert cli("dataset", "audit", "hitom").err.startswith("tomserve: the audit of 'hitom' needs the official file")
    assert "unknown benchmark 'hitomm'" in cli("dataset", "audit", "hitomm").err
    *some, last = [name for name in benchmarks.names() if benchmarks.get(name).validate]
    assert f"only the {', '.join(some)} and {last} benchmarks" in cli("dataset", "validate", "hitom").err


def test_a_file_without_a_fault_passes(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    rows = json.loads(SMALL.read_text())["data"]
    path = tmp_path / "good.json"
    path.write_text(json.dumps({"data": rows[:5]}))  # one half of one story, without tells
    done = cli("dataset", "audit", "hitom", "--path", path)
    assert done.code == 0
    assert "5 labels of 1 stories: 5 are the tracker's" in done.out


def test_agreement_of_the_official_file(official: Audit) -> None:
    found = {(row["half"], row["semantics"], row["order"]): row["agree"] for row in official.agreement().to_dicts()}
    assert [found["CoTP", "released", str(order)] for order in range(5)] == [120, 120, 115, 115, 113]
    assert found["CoTP", "released", "all"] == 583
    assert found["CoTP", "common_knowledge", "all"] == 545
    assert found["VP", "released", "all"] == 470


def test_stale_pairs_of_the_official_file(official: Audit) -> None:
    pairs = official.pairs()
    assert column(pairs, "pairs") == [120] * 5
    assert column(pairs, "differ") == [0, 0, 35, 48, 55]  # 138 of the 360 pairs of orders 2 to 4


def test_causes_in_the_official_file(official: Audit) -> None:
    found = list(official.findings())
    corrected = [f for f in found if f.record.half == "CoTP" and f.cause != "semantics"]
    assert len(corrected) == 17
    assert {f.cause for f in corrected} == {"room re-entry"}
    assert Counter(f.cause for f in found) == {"stale half": 126, "room re-entry": 21, "semantics": 39}
    # In five of them the label is a container in which the object never was, nor was said to be.
    assert sum("in no sentence" in f.text() for f in corrected) == 5


def test_semantics_in_the_official_file(official: Audit) -> None:
    semantics = official.semantics()
    assert semantics.filter(~pl.col("deception"))["differ"].sum() == 0
    deceptive = semantics.filter(pl.col("deception"))
    assert column(deceptive, "differ") == [0, 0, 17, 11, 11]  # 39 of the 180 of orders 2 to 4
    assert deceptive.filter(pl.col("order") >= 2)["questions"].sum() == 180


def test_baselines_of_the_official_file(official: Audit) -> None:
    baselines = official.baselines()
    assert column(baselines, "questions") == [120] * 5
    assert column(baselines, "first_order")[2:] == [58, 46, 41]  # .48, .38, .34
    assert column(baselines, "reality")[2:] == [35, 39, 36]  # .29, .33, .30
    assert column(baselines, "joint_witness") == [120, 108, 105, 115, 113]
    assert baselines["mentioned"][0] == pytest.approx(5.7)
    assert baselines["chance"][0] == pytest.approx(0.2247, abs=5e-4)


def test_every_table_is_shown(official: Audit) -> None:
    shown = auditing.tables(official)
    assert len(shown) == 5
    assert shown["baselines against the corrected half"]["reality"].to_list()[2] == "35/120 0.292"
