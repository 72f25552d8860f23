"""What a measurement takes, by arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tomserve.causal import checkpoints
from tomserve.causal.estimate import FITTING, FITTING_ALPHA, Machine, Work, estimate

WORK = Work(cases=200, tokens=400, layers=80, alphas=9, others=0)
GPUS = Machine(rate=8e14, memory=10**12, device="8 GPUs", weight=2, processor=1e12)


def llama_70b() -> checkpoints.Checkpoint:
    """The sizes of Llama-3.1-70B, of which no file is needed."""
    found = checkpoints.resolve("reference")
    sizes = {"layers": 80, "width": 8192, "heads": 64, "kv_heads": 8, "vocabulary": 128256, "dtype": "bfloat16"}
    count = 70_553_706_496
    return replace(found, **sizes, parameters=count, active=count, cache_numbers=80 * 2 * 8 * 128)


def test_the_reruns_are_those_that_the_sentence_multiplies() -> None:
    assert WORK.cells == 2 * 9 * 11 + 5
    assert WORK.reruns == 200 * 2 * 80 * WORK.cells
    assert Work(200, 400, 80, 9, others=1).cells == WORK.cells + 2 * 9 * 3


def test_a_model_of_70_billion_parameters_takes_hours_and_says_how_many() -> None:
    found = estimate(llama_70b(), WORK, GPUS)
    prefixes = (WORK.prompts + found.groups * 400) * 400 * 2 * llama_70b().active
    reruns = WORK.reruns * (2 * llama_70b().active + 4 * 80 * 8192 * 400)
    maps = 80 * 200**2 * 8192 * (FITTING + 9 * FITTING_ALPHA) / 1e12
    assert (found.seconds, found.fitting) == (pytest.approx((prefixes + reruns) / 8e14 + maps), pytest.approx(maps))
    assert found.weights == 2 * llama_70b().parameters
    assert found.states == 1600 * 80 * 8192 * 4
    told = " ".join(found.lines())
    assert "6,496,000 re-runs" in told
    assert "weights 141 GB" in told
    assert "disk: states 4.19 GB" in told
    assert "of which this CPU fits maps for about 30 s" in told


def test_steps_that_do_not_fit_are_taken_in_groups_of_layers() -> None:
    one = WORK.cells * 200 * 8192 * 4
    small = replace(GPUS, memory=int(one * 10 / 0.25) + 1000)
    found = estimate(llama_70b(), WORK, small)
    assert (found.groups, found.steps) == (8, 10 * one)
    assert "layers in 8 groups" in " ".join(found.lines())
    assert found.seconds > estimate(llama_70b(), WORK, replace(GPUS, memory=10**15)).seconds


def test_this_machine_has_a_rate_and_a_memory() -> None:
    here, one, eight = Machine.here("cpu", 0), Machine.here("cuda", 1), Machine.here("cuda", 8)
    assert min(here.rate, here.memory, one.processor) > 1e8, "maps are fitted by the CPU there, too"
    assert here.processor == here.rate
    assert one.rate == eight.rate, "a model that is spread over GPUs block by block is computed by one at a time"
    assert "one computes at a time" in eight.device
