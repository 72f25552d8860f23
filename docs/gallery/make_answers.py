"""Makes the answers of two studies of the gallery from runs of the model that comes with tomserve.

    python docs/gallery/make_answers.py FOLDER

The runs are made by the following commands, which need no GPU and take about a quarter of an hour on two cores. Each
server is ended before the next one is started. The number of requests that are out at once decides how many the server
computes together, which is the only thing that the run `bfloat16-again` changes.

    tomserve serve reference
    tomserve eval --benchmark worlds --strategy vanilla --limit 1500 --concurrency 64 --run float32
    tomserve eval --benchmark hitom --strategy vanilla --strategy cot --run hitom

    tomserve serve reference -- --dtype bfloat16
    tomserve eval --benchmark worlds --strategy vanilla --limit 1500 --concurrency 64 --run bfloat16
    tomserve eval --benchmark worlds --strategy vanilla --limit 1500 --concurrency 7 --run bfloat16-again

Of the first three runs a spreadsheet is written, with a row for each question and the columns that the study needs; of
the last one the replies as they came.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl

import tomserve

PRECISIONS = {"float32": "float32", "bfloat16": "bfloat16", "bfloat16-again": "bfloat16 again"}
"""The runs that differ in how numbers are kept, and what they are called in the spreadsheets."""

COLUMNS = ("model", "strategy", "item", "cluster", "family", "order", "status", "answer", "correct")


def write(folder: Path) -> None:
    """Write float32.csv, bfloat16.csv, bfloat16-again.csv and hitom.jsonl into the folder."""
    for run, name in PRECISIONS.items():
        scores = tomserve.load_scores(run).sort("item")
        named = scores.with_columns(model=pl.lit("reference"), strategy=pl.lit(name))
        named.select(COLUMNS).write_csv(folder / f"{run}.csv")
    replies = tomserve.Run.open("hitom").folder / "responses.jsonl"
    with (folder / "hitom.jsonl").open("w", encoding="utf-8") as file:
        rows = map(json.loads, replies.read_text(encoding="utf-8").splitlines())
        for row in sorted(rows, key=lambda row: (row["strategy"] == "cot", row["item"])):
            kept = {name: row[name] for name in ("item", "strategy")} | {"model": "reference", "text": row["text"]}
            file.write(json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
