"""The replies of conversations, as the report reads them from a run's journal."""

from pathlib import Path

import orjson

from tomserve.reporting.html import transcripts


def test_of_very_many_replies_those_of_the_scored_sample_stay(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    samples, calls = 10, 64
    with path.open("wb") as file:
        for sample in range(samples):
            for turn in range(calls):
                row = {"item": "a", "strategy": "s", "status": "ok", "turn": turn, "text": f"{sample}/{turn}"}
                row |= {"sample": sample or None} | ({"closes": calls} if turn == calls - 1 else {})
                file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    found = transcripts.Conversations(path, "m", {"s"}).of("a", "s", "m", scored=7)
    assert len(found) == transcripts.MOST
    own = [row["text"] for row in found if row["sample"] == 7]
    assert own == [f"7/{turn}" for turn in range(calls)]
    assert {"closes" in row for row in found if row["turn"] == calls - 1} == {True}
    places = [(row["sample"], row["turn"]) for row in found]
    assert places == sorted(places)
