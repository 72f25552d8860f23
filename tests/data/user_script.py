"""What a user may write with the whole public surface. `make lint` has mypy --strict read it, as it does tomserve."""

import asyncio
from pathlib import Path

import polars as pl

import tomserve

item = tomserve.Item(
    id="q1",
    story=("Ann puts tea in the jar.",),
    question="What is in the jar?",
    choices=("tea", "salt"),
    answer="tea",
    gold=tomserve.Gold(sets=(("tea",),)),
)
items: list[tomserve.Item] = [*tomserve.load("perturbed"), *tomserve.read_items("mine.jsonl"), item]
strategy: tomserve.Strategy = tomserve.Strategy.load("cot")


def use_a_benchmark(benchmark: tomserve.Benchmark, study: tomserve.Study, scores: pl.DataFrame) -> None:
    """Annotations by the public types."""
    draw: tomserve.Draw = benchmark.draw
    print(draw.over, tomserve.analyze(scores, study))


async def several() -> list[tomserve.Run]:
    """Two models at a time."""
    urls = ("http://a:8000/v1", "http://b:8000/v1")
    return list(await asyncio.gather(*(tomserve.aask(items, strategy, base_url=url) for url in urls)))


def main() -> None:
    """One run from questions to tables."""
    try:
        run = tomserve.ask(items, ["vanilla", "cot"], base_url="http://a:8000/v1", run=Path("runs/mine"), limit=8)
    except tomserve.errors.ServerLostError as error:
        print(error)
        raise
    except tomserve.TomserveError:
        return
    failed: int = run.failures.get("timeout", 0)
    turns: int = run.manifest.turns("cot")
    page: Path = run.report("report.html")
    tables: dict[str, pl.DataFrame] = tomserve.analyze(run.scores(), "accuracy")
    foreign: pl.DataFrame = tomserve.score([{"item": "q1", "text": "tea"}], [item], model="theirs")
    flips: pl.DataFrame = tomserve.compare(run, tomserve.Run.open("example"), common=True).flips
    inside: tomserve.Run = tomserve.examine("reference", "worlds", limit=200, layers=[4], run=Path("runs/inside"))
    edited: tomserve.Run = tomserve.intervene(run, edits="gold", limit=50, predictor="http://b:8000/v1", new="edited")
    layers: dict[str, pl.DataFrame] = dict(
        tomserve.functional("mine", weights=Path("mine"), formula=[0.4, 0.4, 0.2]).tables
    )
    weak: tomserve.Run = tomserve.search("mine", "hitom", budget=600, export=Path("hard.jsonl"))
    print(
        weak,
        inside,
        edited,
        layers,
        failed,
        turns,
        page,
        tables,
        foreign,
        flips,
        tomserve.load_scores(run),
        asyncio.run(several()),
    )


def be_mistaken() -> None:
    """What mypy has to find: an error that it does not find makes its comment an error (--warn-unused-ignores)."""
    tomserve.ask("perturbed", limit="many")  # type: ignore[arg-type]
    tomserve.nothing  # type: ignore[attr-defined]  # noqa: B018


main()
