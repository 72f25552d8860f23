"""What the three layers of a model would take, before anything is asked or measured.

for line in foreseen(Wish(asking=EvalOptions(model="reference"))):
    print(line)
"""

from __future__ import annotations

from collections.abc import Iterator

from tomserve import benchmarks
from tomserve.api.layering import NO_WEIGHTS, VARIANTS, Wish, check, chosen_for
from tomserve.causal.experiment import plan_experiment, tokens_of
from tomserve.errors import TomserveError
from tomserve.runs.planning import Plan, make_plan

SAMPLE = 100
"""From so many questions, evenly over all of them, the length of the prompts is estimated."""


def foreseen(wish: Wish, gpus: int | None = None) -> Iterator[str]:
    """Whole sentences: what each part asks or measures, and its estimated cost.

    gpus: estimate the mechanism for a machine with so many; None for this one. Raises as `carry_out` does before it
    asks anything. Weights that nobody named, and that are not on this machine yet, are said to be unknown.
    """
    check(wish)
    chosen = chosen_for(wish, lambda text: None)
    where = f"a server of {chosen.starts}, which is started" if chosen.embedded else ", ".join(chosen.endpoints)
    yield f"asked: {chosen.model}, at {where}"
    for name, path in wish.asked.items():
        yield f"answers to {benchmarks.get(name).name}: {_asked(make_plan(wish.asking_of(name, path, None)))}"
    weights = wish.weights_of(chosen)
    if weights is None:
        why = "by --weights none" if wish.weights == NO_WEIGHTS else "without --weights"
        yield f"no mechanism is measured, {why}; the score is FToM_BS"
        return
    try:
        lines = plan_experiment(wish.measuring(weights), wish.on, gpus).lines()
    except TomserveError as error:
        if wish.weights is not None:
            raise
        lines = [f"cannot be estimated before they are on this machine ({error})"]
    yield f"a measurement inside {weights}: {lines[0]}"
    yield from (f"  {line}" for line in lines[1:])


def _asked(made: Plan) -> str:
    """How many questions that is, and about how many tokens."""
    questions = made.questions
    every = len(questions.items) * len(questions.strategies)
    originals, variants = len(made.varied.originals), len(questions.items) - len(made.varied.originals)
    again = len(made.again.items) * len(questions.strategies)
    sample = [questions.items[place] for place in range(0, len(questions.items), 1 + len(questions.items) // SAMPLE)]
    prompts, replies = 0.0, 0
    for strategy in questions.strategies:
        for item in sample:
            turn = strategy.turn(item)
            prompts += tokens_of(turn)
            replies += turn.max_tokens
    share = (every + again) / max(1, len(sample) * len(questions.strategies))
    return (
        f"{originals:,} questions with {variants:,} variants ({', '.join(VARIANTS)}), by "
        f"{' and '.join(strategy.name for strategy in questions.strategies)}: {every + again:,} requests, with about "
        f"{prompts * share / 1e6:.1f} million tokens of prompts and at most {replies * share / 1e6:.1f} "
        "million of replies"
    )
