"""Plans of experiments: as `tomserve eval` would ask, computed by another process, and refused in words."""

from collections.abc import Iterator

import pytest

from tomserve.errors import ConfigError
from tomserve.runs import planning as asking
from tomserve.runs.planning import EvalOptions
from tomserve.serving.endpoint import Target
from tomserve.web.planning import Planner, plan_experiment
from tomserve.workflows.evaluate import Experiment


@pytest.fixture
def planner() -> Iterator[Planner]:
    made = Planner()
    yield made
    made.close()


def _asked(options: EvalOptions, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """How many questions, variants and repeated questions the evaluation itself plans, without asking a server."""
    monkeypatch.setattr(asking.endpoint, "choose_target", lambda *given, **more: Target("m", None, None))
    made = asking.make_plan(options)
    return len(made.varied.originals), len(made.varied.variants), len(made.again.items)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"limit": 30, "strategy": ("vanilla",)},
        {"limit": 40, "noise_check": 0.25, "where": ("perturbation=none",)},
        {"limit": 8, "variants": ("all",)},
        {"limit": 20, "repeats": 3, "temperature": 0.7, "strategy": ("vanilla", "cot")},
    ],
)
def test_plan_counts_what_an_evaluation_asks(fields: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment.model_validate({"benchmark": "perturbed", **fields})
    plan = plan_experiment(experiment)
    questions, variants, again = _asked(experiment.options(), monkeypatch)
    assert (plan.questions, plan.variants, plan.again) == (questions, variants, again)
    assert not plan.about
    assert plan.requests == (questions + variants + again) * len(plan.strategies) * experiment.repeats
    assert plan.prompt_tokens > 100 * plan.requests / 2
    assert plan.comparisons
    assert f"{plan.requests:,} requests" in plan.sentence()
    assert bool(plan.drawn) == (questions < plan.every)


def test_variants_of_many_questions_are_estimated_from_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tomserve.web.planning.VARIED", 100)
    experiment = Experiment(benchmark="perturbed", variants=("choices", "order"), limit=300)
    plan = plan_experiment(experiment)
    _, variants, _ = _asked(experiment.options(), monkeypatch)
    assert plan.about
    assert abs(plan.variants - variants) < 0.05 * variants
    assert "about" in plan.sentence()


@pytest.mark.system
def test_another_process_gives_the_same_plan_and_keeps_it(planner: Planner) -> None:
    experiment = Experiment(benchmark="perturbed", limit=24)
    assert planner.foresee(experiment, 0) is None  # what takes longer is there later
    plan = planner.foresee(experiment)
    assert plan == plan_experiment(experiment)
    with pytest.raises(ConfigError, match="did you mean"):
        planner.foresee(Experiment(benchmark="pertrubed"))
    assert planner.foresee(experiment, 0) is plan


def test_a_plan_is_kept_for_all_that_does_not_bear_on_it(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(1, 9))
    monkeypatch.setattr(Planner, "_compute", lambda self, wish: f"plan {next(numbers)}")
    experiment = Experiment(benchmark="perturbed", limit=24)
    steps = (({}, 1), ({"run": "other", "concurrency": 9}, 1), ({"limit": 25}, 2), ({"seed": 3}, 3), ({}, 1))
    for kept, fields, said in (*((256, *one) for one in steps), (1, {"limit": 26}, 4), (1, {}, 5)):
        monkeypatch.setattr("tomserve.web.planning.KEPT", kept)
        with pytest.raises(ConfigError, match=f"plan {said}"):
            planner.foresee(experiment.model_copy(update=fields))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"benchmark": "pertrubed"}, "did you mean"),
        ({"benchmark": "perturbed", "where": ("perturbation=nothing",)}, "perturbation"),
        ({"benchmark": "perturbed", "variants": ("all", "x")}, "--variants"),
        ({"benchmark": "perturbed", "repeats": 3}, "--repeats 3"),
        ({"benchmark": "items", "path": "nowhere.jsonl"}, "nowhere.jsonl"),
        ({"benchmark": "perturbed", "gold": "x"}, "--gold"),
    ],
)
def test_errors_are_those_of_the_command_line(fields: dict[str, object], said: str, planner: Planner) -> None:
    with pytest.raises(ConfigError, match=said):
        planner.foresee(Experiment.model_validate(fields))
