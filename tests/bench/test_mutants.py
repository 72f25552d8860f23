"""Each fault of the list can still be planted, and names tests that are there."""

import yaml

from tests.conftest import ROOT


def test_every_fault_can_be_planted_and_is_looked_for() -> None:
    faults = yaml.safe_load((ROOT / "bench/mutants.yaml").read_text("utf-8"))
    assert len({fault["name"] for fault in faults}) == len(faults)
    for fault in faults:
        text = (ROOT / fault["file"]).read_text("utf-8")
        assert text.count(fault["old"]) == 1, f"bench/mutants.yaml: {fault['name']}: the text has moved; mend the list"
        assert fault["new"] != fault["old"], fault["name"]
        assert any((ROOT / test).exists() for test in fault["tests"]), f"{fault['name']}: no test is there any more"
