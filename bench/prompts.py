"""Measures what each choice in the prompts of `vanilla` and `cot` does to a model's answers, one choice at a time.

    python bench/prompts.py [--base-url URL --model NAME] [--benchmark perturbed-2] [--limit 400] [--run prompts]

The same questions are asked with the shipped strategy and with copies of it in which one choice is taken back. Without
--base-url the embedded model answers. What was answered stays in the run's folder, so that the same command goes on
where it was interrupted.

    demonstration        without any
    rotation             the same demonstration for all stories, the first of the six
    its content          the demonstration of tomserve 0.4: a person who misses a move and is told of it
    advice               with "keep track of what each person sees, hears and is told"
    ground of "unknown"  "unknown" by the ground that the story gives, and not the person who is asked about
    chain form           (cot) a belief after every sentence
    all                  the strategy of tomserve 0.4, `vanilla_1` or `cot_1`

An effect is the share of right answers of the shipped strategy less that of the copy, paired by question, with a 95%
interval over stages, or over tasks where the questions have no stages; a failure counts as wrong. False beliefs,
reality, and questions whose right answer is "unknown" have lines of their own. Of chains the means are shown.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from _figures import figure, need

import tomserve
from tomserve import content
from tomserve.items import UNKNOWN
from tomserve.studies.answer_rows import REQUIRED, prepare_rows
from tomserve.studies.contrasts import Record, contrast, pair_rows

STRATEGIES = ("vanilla", "cot")
FORMER_GROUND = '"unknown" is the right label when the story so far gives no ground for any other.'
GROUND = (
    '"unknown" is the right label where a question asks what somebody believes and that person has no ground for any '
    "other label, and where it asks what is really so and the story does not tell."
)
ADVICE = (
    "Read the story sentence by sentence and keep track of what each person sees, hears and is told.",
    "You answer questions about short stories.",
)
FORMER_DEMONSTRATION = {"file": "../practice.yaml", "item": "practice/none/informed_protagonist/belief/original"}
CHAIN = ("chain_proper", "chain_lcs", "chain_sentence_accuracy", "chain_change_f1", "chain_length")

Edit = Callable[[Path], None]


def settings(**changes: Any) -> Edit:
    """The edit that changes fields of strategy.yaml; None takes a field away."""

    def edit(folder: Path) -> None:
        file = folder / "strategy.yaml"
        data = {**yaml.safe_load(file.read_text("utf-8")), **changes}
        file.write_text(yaml.safe_dump({name: value for name, value in data.items() if value is not None}), "utf-8")

    return edit


def undemonstrated(folder: Path) -> None:
    """Take the demonstrations away, and the template that only they need."""
    settings(demonstrations=None, rotate=None)(folder)
    (folder / "reply.j2").unlink()


def fixed(folder: Path) -> None:
    """Show all stories the first of the demonstrations."""
    first = yaml.safe_load((folder / "strategy.yaml").read_text("utf-8"))["demonstrations"][:1]
    settings(demonstrations=first, rotate=None)(folder)


def said(old: str, new: str) -> Edit:
    """The edit that replaces a sentence of the system text. Raises SystemExit where it is not there exactly once."""

    def edit(folder: Path) -> None:
        file = folder / "system.j2"
        text = file.read_text("utf-8")
        if text.count(old) != 1:
            raise SystemExit(f"{file}: holds {text.count(old)} times, and not once: {old}")
        file.write_text(text.replace(old, new), "utf-8")

    return edit


CHANGES: dict[str, tuple[str, Edit]] = {
    "demonstration": ("undemonstrated", undemonstrated),
    "rotation": ("fixed", fixed),
    "its content": ("informed", settings(demonstrations=[FORMER_DEMONSTRATION], rotate=None)),
    "advice": ("advised", said(ADVICE[1], f"{ADVICE[1]} {ADVICE[0]}")),
    'ground of "unknown"': ("ground_of_story", said(GROUND, FORMER_GROUND)),
}
"""What is taken back, by the name of the choice: the end of the copy's name, and how it is made."""


def copies(scratch: Path) -> dict[tuple[str, str], str]:
    """The changed strategies, by the shipped one and the choice: their names or folders."""
    found: dict[tuple[str, str], str] = {}
    prompts = content.names("prompts", "/strategy.yaml")["vanilla"].parents[1]
    for name in ("practice.yaml", "demonstrations.yaml"):
        shutil.copy(prompts / name, scratch)
    for strategy in STRATEGIES:
        for choice, (ending, edit) in CHANGES.items():
            folder = scratch / f"{strategy}_{ending}"
            shutil.copytree(prompts / strategy, folder)
            edit(folder)
            found[strategy, choice] = str(folder)
        if strategy == "cot":
            found[strategy, "chain form"] = "cot_every_sentence"
        found[strategy, "all"] = f"{strategy}_1"
    return found


def subsets(rows: pl.DataFrame) -> dict[str, pl.Expr]:
    """The groups of questions that get a line of their own, by name, of those that the rows have."""
    groups = {"all": pl.lit(True)}
    if {"scenario", "question_kind"} <= set(rows.columns):
        false = (pl.col("scenario") == "false_belief") & (pl.col("question_kind") == "belief")
        groups |= {"false belief": false, "reality": pl.col("question_kind") == "reality"}
    groups["unknown is right"] = pl.col("right") == UNKNOWN
    return {name: group for name, group in groups.items() if rows.filter(group).height}


def line(choice: str, group: str, found: Record) -> str:
    """An effect as a line of the table."""
    low, high = found["rd_low"], found["rd_high"]
    interval = "[        ,        ]" if low is None or low != low else f"[{low:+.3f}, {high:+.3f}]"
    p = "" if found["p"] is None or found["p"] != found["p"] else f"{found['p']:.3f}"
    shares = f"{found['share_treated']:.3f} {found['share_control']:>8.3f}"
    return f"  {choice:<20} {group:<17} {found['n']:>6} {shares} {found['risk_difference']:>+8.3f} {interval} {p:>6}"


def show(scores: pl.DataFrame, right: dict[str, str], changed: dict[tuple[str, str], str]) -> None:
    """Print the effects of every choice, then the chains. right: the right answers by item."""
    kept = [name for name in ("stage", "scenario", "question_kind") if name in scores.columns]
    rows = prepare_rows(scores.lazy(), (*REQUIRED, *kept)).collect()
    rows = rows.with_columns(pl.col("item").replace_strict(right).alias("right"))
    stratum = "stage" if "stage" in rows.columns and rows["stage"].n_unique() > 1 else None
    head = f"  {'choice':<20} {'questions':<17} {'n':>6} shipped  changed  effect 95% interval         p"
    for strategy in STRATEGIES:
        print(f"\n{strategy}: what each choice gives\n{head}", flush=True)
        shipped = rows.filter(strategy=strategy)
        for (whose, choice), copy in changed.items():
            other = rows.filter(strategy=Path(copy).name)
            for group, only in subsets(rows).items() if whose == strategy else ():
                found = contrast(pair_rows(shipped.filter(only), other.filter(only)), stratum)
                print(line(choice, group, found))
                if group in ("all", "unknown is right"):
                    rd, n = found["risk_difference"], found["n"]
                    figure(f"{strategy}, {group}: {choice}", rd, found["rd_low"], found["rd_high"], rounds=n)
    chains = scores.filter(pl.col("chain_length").is_not_null())
    print(f"\nchains, means\n  {'strategy':<22} {'n':>6} " + " ".join(f"{name[6:]:>17}" for name in CHAIN))
    for part in chains.partition_by("strategy", maintain_order=True):
        means = part.select(pl.col(CHAIN).cast(pl.Float64).mean().fill_null(float("nan"))).row(0)
        print(f"  {part['strategy'].item(0):<22} {part.height:>6} " + " ".join(f"{mean:>17.3f}" for mean in means))


def main() -> int:
    """Ask, and print the effects; returns 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", help="the address of an endpoint; without it the embedded model answers")
    parser.add_argument("--model", help="the name of the model there")
    parser.add_argument("--benchmark", default="perturbed-2", help="a benchmark, or a JSONL file of items")
    parser.add_argument("--limit", type=int, help="how many questions, drawn with a fixed seed; all by default")
    parser.add_argument("--run", default="prompts", help="the name of the run")
    chosen = parser.parse_args()
    if not chosen.base_url:
        need("vllm")
    items = (
        list(tomserve.read_items(Path(chosen.benchmark)))
        if chosen.benchmark.endswith(".jsonl")
        else tomserve.load(chosen.benchmark)
    )
    with tempfile.TemporaryDirectory() as scratch:
        changed = copies(Path(scratch))
        asked = [*STRATEGIES, *changed.values()]
        where = {"base_url": chosen.base_url} if chosen.base_url else {}
        run = tomserve.ask(items, asked, model=chosen.model, run=chosen.run, limit=chosen.limit, **where)
        print(f"{run}: {len(asked)} strategies; failures: {run.failures or 'none'}", flush=True)
        show(run.scores(), {item.id: item.answer for item in items}, changed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
