"""The plugin that lets vLLM load DBRX: repairs names only where vLLM's own loader misses them, never in anybody's way."""

import tomllib
from collections.abc import Iterable
from importlib.metadata import EntryPoint

import pytest

from tests.conftest import ROOT
from tomserve.serving import dbrx

OLD = "transformer.blocks.{}.ffn.experts.w13_weight"
NEW = "transformer.blocks.{}.ffn.experts.routed_experts.w13_weight"
PLAIN = "transformer.wte.weight"


class Upstream:
    """A loader like vLLM's for expert weights named "…experts.mlp.w1", which remembers the names it was given, by call.

    parameters: names that the model has. mapped: what it puts in place of ".experts.". elsewhere: blocks that belong to
    another process."""

    def __init__(self, parameters: set[str], mapped: str = ".experts.", elsewhere: Iterable[int] = ()) -> None:
        self.parameters, self.mapped = parameters, mapped
        self.elsewhere = tuple(f".blocks.{n}." for n in elsewhere)
        self.calls: list[list[str]] = []

    def __call__(self, weights: dbrx.Weights) -> set[str]:
        self.calls.append([])
        found = set()
        for name, _ in weights:
            self.calls[-1].append(name)
            if any(block in name for block in self.elsewhere):
                continue
            name = name.replace("mlp.w1", "w13_weight").replace(".experts.w13", f"{self.mapped}w13")
            if name not in self.parameters:
                raise KeyError(name.removeprefix("transformer."))
            found.add(name)
        return found


def weights(blocks: int = 2) -> list[tuple[str, int]]:
    names = [PLAIN]
    for block in range(blocks):
        names += [f"transformer.blocks.{block}.ffn.experts.mlp.w1", f"transformer.blocks.{block}.norm.weight"]
    return [(name, number) for number, name in enumerate(names)]


def parameters(pattern: str, blocks: Iterable[int] = (0, 1)) -> set[str]:
    named = {name for block in blocks for name in (pattern.format(block), f"transformer.blocks.{block}.norm.weight")}
    return {PLAIN, *named}


GIVEN = [name for name, _ in weights()]


@pytest.mark.parametrize(
    ("upstream", "last"),
    [
        (
            Upstream(parameters(NEW)),
            [dbrx.rename_weight(name) for name in GIVEN][2:],
        ),  # experts that were moved are found
        (Upstream(parameters(OLD)), GIVEN),  # nothing was moved: upstream gets everything in one call
        (Upstream(parameters(NEW), mapped=dbrx.MOVED), GIVEN[2:]),  # upstream finds them: names are left alone
        (Upstream(parameters(NEW, [1]), elsewhere=[0]), None),  # experts of another process decide nothing
    ],
    ids=["moved", "not moved", "repaired", "elsewhere"],
)
def test_names_are_repaired_only_where_upstream_misses_them(upstream: Upstream, last: list[str] | None) -> None:
    assert dbrx.load(upstream, iter(weights()), upstream.parameters) == upstream.parameters
    if last is not None:
        assert upstream.calls[-1] == last


@pytest.mark.parametrize("missing", [PLAIN, NEW.format(0), NEW.format(1)])
def test_other_missing_names_stay_errors(missing: str) -> None:
    upstream = Upstream(parameters(NEW) - {missing})
    with pytest.raises(KeyError):
        dbrx.load(upstream, iter(weights()), upstream.parameters)


def test_the_plugin_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["vllm.general_plugins"]
    point = EntryPoint("tomserve_dbrx", declared["tomserve_dbrx"], "vllm.general_plugins")
    assert point.load() is dbrx.register
