"""Plans of experiments: as `tomserve eval` would ask, computed by another process, and refused in words."""

from pathlib import Path

import pytest

from tomserve.errors import ConfigError
from tomserve.runs import planning as asking
from tomserve.runs.planning import EvalOptions
from tomserve.serving.endpoint import Target
from tomserve.web import background
from tomserve.web.planning import find_plan, plan_experiment
from tomserve.workflows.evaluate import Experiment


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


def test_a_plan_is_made_once_for_all_that_bears_on_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    experiment = Experiment(benchmark="perturbed", limit=24)
    assert find_plan(experiment) == plan_experiment(experiment)
    numbers = iter(range(1, 9))
    monkeypatch.setattr(background, "do_work", lambda asked: {"error": f"plan {next(numbers)}"})
    assert find_plan(experiment.model_copy(update={"run": "other", "concurrency": 9})) == find_plan(experiment)
    for fields, said in (({"limit": 25}, 1), ({"seed": 3}, 2), ({"limit": 25, "run": "third"}, 1)):
        with pytest.raises(ConfigError, match=f"plan {said}"):
            find_plan(experiment.model_copy(update=fields))
    for said in (3, 4):  # what is read lies behind a link, in a folder
        (tmp_path / "told").mkdir(exist_ok=True)
        (tmp_path / "told/some.jsonl").write_text("x" * said)
        (tmp_path / "link").symlink_to("told") if said == 3 else None
        with pytest.raises(ConfigError, match=f"plan {said}"):
            find_plan(experiment.model_copy(update={"path": str(tmp_path / "link")}))
    monkeypatch.setattr(background, "_IMMEDIATE", [])
    assert find_plan(Experiment(benchmark="hitom"), 0) is None  # what takes longer is there later


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
def test_errors_are_those_of_the_command_line(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        find_plan(Experiment.model_validate(fields))
