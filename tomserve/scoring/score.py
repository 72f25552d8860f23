"""A run folder's journal as a score table: one row an identity, always re-creatable from the folder alone.

>>> table = score_run(Path("runs/perturbed-reference"))            # doctest: +SKIP
>>> table.select("strategy", "correct").head()                     # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve.engine.journal import identity_of, read_rows
from tomserve.engine.request import Identity
from tomserve.engine.runfolder import existing_run, read_manifest
from tomserve.errors import ConfigError
from tomserve.items import Item, read_items
from tomserve.scoring.answers import Reading, read
from tomserve.scoring.chains import ChainScore, score_chain

READABLE = ("ok", "length")
"""Statuses whose text is read; a complete answer in a text that was cut off counts."""

TABLES = (".parquet", ".jsonl", ".csv")
"""Suffixes of score tables."""

COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "run": pl.String,
    "model": pl.String,
    "benchmark": pl.String,
    "item": pl.String,
    "cluster": pl.String,
    "strategy": pl.String,
    "status": pl.String,
    "parse": pl.String,
    "reason": pl.String,
    "answer": pl.String,
    "correct": pl.Boolean,
    "chain": pl.List(pl.String),
    "chain_reason": pl.String,
    "chain_proper": pl.Boolean,
    "chain_lcs": pl.Float64,
    "chain_lcps": pl.Float64,
    "chain_transitions": pl.Float64,
}


def score_run(folder: Path) -> pl.DataFrame:
    """Score every identity that has a row. Raises ConfigError where the folder is no run or its files are broken."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise ConfigError(f"{folder}: no run there (manifest.json is missing)")
    items = {item.id: item for item in read_items(folder / "items.jsonl")}
    rows: dict[Identity, dict[str, Any]] = {}
    for _, row in read_rows(folder / "responses.jsonl"):
        identity = identity_of(row)
        rows.pop(identity, None)  # the later row of an identity wins
        rows[identity] = row
    strange = next((identity.item for identity in rows if identity.item not in items), None)
    if strange is not None:
        raise ConfigError(f"{folder}/responses.jsonl: item {strange!r} is not in items.jsonl; was one of them edited?")
    chains = {name for name, spec in manifest["strategies"].items() if spec.get("chain")}
    name, model = folder.resolve().name, manifest["model"]
    return table(name, model, ((items[identity.item], row) for identity, row in sorted(rows.items())), chains)


def table(
    run: str, model: str, answered: Iterable[tuple[Item, Mapping[str, Any]]], chains: Collection[str] = ()
) -> pl.DataFrame:
    """Score table of (item, response row) pairs; every factor of the items is a column.

    chains: strategies whose replies are to hold a belief chain; there a missing chain scores 0, elsewhere it is null.
    """
    records: list[dict[str, Any]] = []
    factors: dict[str, None] = {}
    for item, row in answered:
        factors.update(dict.fromkeys(item.factors))
        records.append({**item.factors, **score_row(run, model, item, row, row["strategy"] in chains)})
    order = [*COLUMNS, *factors]
    frame = pl.DataFrame(records, schema_overrides=COLUMNS, infer_schema_length=None, strict=False)
    missing = [name for name in order if name not in frame.columns]
    return frame.with_columns(pl.lit(None).alias(name) for name in missing).select(order)


def score_row(run: str, model: str, item: Item, row: Mapping[str, Any], chain_asked: bool = False) -> dict[str, Any]:
    """The score of one response (data contract: Score)."""
    status = row["status"]
    reading = Reading(None, None)
    if status in READABLE:
        reading = read(row.get("text") or "", item.choices, len(item.story))
        if reading.answer is None and status == "ok":
            status = "invalid"
    chain = [label for _, label in reading.chain] if reading.chain else None
    metrics: ChainScore | None = None
    if item.gold is not None and (chain_asked or reading.chain is not None or reading.chain_reason is not None):
        metrics = score_chain(item.gold, chain or [])
    return {
        "run": run,
        "model": model,
        "benchmark": item.benchmark,
        "item": item.id,
        "cluster": item.cluster,
        "strategy": row["strategy"],
        "status": status,
        "parse": reading.parse,
        "reason": reading.reason or row.get("error"),
        "answer": reading.answer,
        "correct": reading.answer == item.answer,
        "chain": chain,
        "chain_reason": reading.chain_reason,
        "chain_proper": metrics.proper if metrics else None,
        "chain_lcs": metrics.lcs if metrics else None,
        "chain_lcps": metrics.lcps if metrics else None,
        "chain_transitions": metrics.transitions if metrics else None,
    }


def scores_of(folder: Path, *, fresh: bool = False) -> pl.DataFrame:
    """The run's scores: ``scores.parquet`` where it is newer than what it was made from, else made again."""
    path = folder / "scores.parquet"
    sources = [folder / name for name in ("responses.jsonl", "items.jsonl", "manifest.json")]
    if not fresh and path.exists():
        made = path.stat().st_mtime_ns
        if all(source.exists() and source.stat().st_mtime_ns < made for source in sources):
            with contextlib.suppress(OSError, pl.exceptions.PolarsError):  # a broken table is made again
                return pl.read_parquet(path)
    scores = score_run(folder)
    partial = path.with_suffix(".part")
    try:
        scores.write_parquet(partial)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)  # a read-only folder can still be looked at
    return scores


def load_scores(source: str | None) -> pl.DataFrame:
    """Scores of a run (name, path, or None for the newest), or a score table (.parquet, .jsonl, .csv)."""
    if source is None or not source.endswith(TABLES):
        return scores_of(existing_run(source))
    path = Path(source).expanduser()
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        if path.suffix == ".jsonl":
            frame = pl.read_ndjson(path, infer_schema_length=None)
        else:
            frame = pl.read_csv(path, infer_schema_length=None, schema_overrides={**COLUMNS, "chain": pl.String})
            if "chain" in frame.columns:
                frame = frame.with_columns(pl.col("chain").str.json_decode(pl.List(pl.String)))
        return frame.cast({name: COLUMNS[name] for name in frame.columns if name in COLUMNS})
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ConfigError(f"{path}: not a {path.suffix[1:]} table ({' '.join(str(error).split())[:200]})") from None


def write_scores(scores: pl.DataFrame, path: Path) -> None:
    """Write a score table by its suffix: .parquet, .jsonl or .csv (chains as JSON text). Raises ConfigError."""
    lists = [name for name, kind in scores.schema.items() if kind == pl.List(pl.String)]
    as_text = (
        pl.col(name).map_elements(lambda chain: orjson.dumps(chain.to_list()).decode(), pl.String) for name in lists
    )
    try:
        if path.suffix == ".parquet":
            scores.write_parquet(path)
        elif path.suffix == ".jsonl":
            scores.write_ndjson(path)
        elif path.suffix == ".csv":
            # An interface, not a sheet to look at: nothing is escaped, so that it reads back as it was.
            scores.with_columns(as_text).write_csv(path)
        else:
            raise ConfigError(f"{path}: unknown kind of table; known: {', '.join(TABLES)}")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from None
