"""What a measurement takes, by arithmetic; what somebody may choose of it, and what is refused."""

from dataclasses import replace

import pytest

from tomserve.causal import checkpoints
from tomserve.causal.experiment import (
    FITTING,
    FITTING_ALPHA,
    Hardware,
    Machine,
    Workload,
    describe_machine,
    estimate_cost,
)
from tomserve.causal.settings import Settings, alphas_of, layers_of
from tomserve.content.text import format_bytes
from tomserve.errors import ConfigError
from tomserve.runs.cost import Figure
from tomserve.serving import sizing

WORK = Workload(cases=200, tokens=400, layers=80, alphas=9, other_families=0)
GPUS = Machine(rate=8e14, memory=10**12, device="8 GPUs", weight=2, processor=1e12)


def llama_70b() -> checkpoints.Checkpoint:
    """The sizes of Llama-3.1-70B, of which no file is needed."""
    found = checkpoints.resolve_model("reference")
    sizes = {"layers": 80, "width": 8192, "vocabulary": 128256, "dtype": "bfloat16"}
    count = 70_553_706_496
    return replace(found, **sizes, parameters=count, active=count, cache_numbers=80 * 2 * 8 * 128)


def figures(machine: Machine) -> dict[str, Figure]:
    return {one.name: one for one in estimate_cost(llama_70b(), WORK, machine)}


def test_the_reruns_are_those_that_the_sentence_multiplies() -> None:
    assert WORK.cells == 2 * (9 * 10 + 5 * 3) + 5
    assert WORK.reruns == 200 * 2 * 80 * WORK.cells
    assert Workload(200, 400, 80, 9, other_families=1).cells == WORK.cells + 2 * 9 * 3


def test_a_model_of_70_billion_parameters_takes_hours_and_says_how_many() -> None:
    found = figures(GPUS)
    prefixes = (WORK.prompts + 400 + 80 * 40) * 400 * 2 * llama_70b().active
    reruns = WORK.reruns * (2 * llama_70b().active + 4 * 80 * 8192 * 400)
    maps = 80 * 200**2 * 8192 * (FITTING + 9 * FITTING_ALPHA) / 1e12
    assert found["time"].value == pytest.approx(((prefixes + reruns) / 8e14 + maps) / 3600)
    assert "of that this CPU fits maps for about 30 s" in found["time"].why
    assert "6,880,000 re-runs" in found["re-runs"].text
    assert "weights 141 GB" in found["memory"].text
    assert "states 4.2 GB" in found["disk"].text


def test_steps_that_do_not_fit_are_taken_in_groups_of_layers() -> None:
    one = WORK.cells * 200 * 8192 * 4
    small = replace(GPUS, memory=int(one * 10 / 0.25) + 1000)
    found = figures(small)
    assert "which makes 8 groups of layers" in found["memory"].why
    assert f"steps {format_bytes(10 * one)}" in found["memory"].text
    assert found["time"].value > figures(replace(GPUS, memory=10**15))["time"].value


def test_a_cpu_that_multiplies_bfloat16_by_itself_runs_models_that_are_stored_so_in_it(tmp_path, monkeypatch) -> None:
    told, other = llama_70b(), replace(llama_70b(), dtype="float32")
    cpu = tmp_path / "cpuinfo"
    monkeypatch.setattr(sizing, "CPU", cpu)
    for text, found in (("flags : avx512_bf16", "bfloat16"), ("flags : avx512f", "float32")):
        cpu.write_text(text)
        assert checkpoints.default_dtype(told, "cpu") == found
        assert checkpoints.default_dtype(other, "cpu") == "float32"
        on = describe_machine(Hardware(device="cpu"), told)
        assert (on.weight, round(on.rate / on.processor)) == ((2, 2) if found == "bfloat16" else (4, 1))
    cpu.unlink()
    assert checkpoints.default_dtype(told, "cpu") == "float32"


# What somebody may choose, and what is refused


@pytest.mark.parametrize("text", ["", "a", "0", "3-1", "1,,2", "-1"])
def test_other_layers_are_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--layers .*(1,4-6|numbered from 1)"):
        layers_of(text)


def test_a_layer_that_the_model_lacks_is_refused() -> None:
    assert Settings(layers=(3, 1)).selected_layers(3) == (1, 3)
    assert Settings().selected_layers(3) == (1, 2, 3)
    with pytest.raises(ConfigError, match="layer 4 is none of this model's; it has layers 1 to 3"):
        Settings(layers=(4,)).selected_layers(3)


def test_strengths_are_numbers_above_zero_each_once() -> None:
    assert (layers_of("3, 1-2,3"), alphas_of("1e-3, 0.01")) == ((3, 1, 2), (0.001, 0.01))
    with pytest.raises(ConfigError, match="expected numbers such as"):
        alphas_of("small")
    for wrong in ((), (0.0,), (-1.0,), (float("nan"),), (0.1, 0.1)):
        with pytest.raises(ConfigError, match="alphas are"):
            Settings(alphas=wrong)


@pytest.mark.parametrize(("field", "value"), [("folds", 1), ("fewest", 1), ("limit", 0)])
def test_numbers_that_make_no_sense_are_refused(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{field} is {value}; expected"):
        Settings(**{field: value})  # type: ignore[arg-type]
