"""A vLLM plugin that repairs the loading of DBRX, whose expert weights vLLM 0.24 to 0.32 look for under an old name.

vLLM moved ``...ffn.experts.w13_weight`` to ``...ffn.experts.routed_experts.w13_weight``, but the model's own loader
still builds the old name and ends with a KeyError. vLLM calls `register` in each of its processes, whatever the model
(entry point group ``vllm.general_plugins``). Whether names are repaired is decided by trying vLLM's own loader, not by
its version.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

ARCHITECTURE = "DbrxForCausalLM"
UPSTREAM = "vllm.model_executor.models.dbrx"
REPAIRED = "tomserve.serving.dbrx_model:DbrxForCausalLM"
MOVED = ".experts.routed_experts."  # the part of an expert parameter's name that shows it is under its new name
Weights = Iterable[tuple[str, Any]]
Loader = Callable[[Weights], set[str]]


def register() -> None:
    """Have vLLM load DBRX through `load`, unless another plugin has already replaced that model. Never raises."""
    try:
        from vllm import ModelRegistry  # type: ignore[import-not-found, import-untyped, unused-ignore]

        registered = ModelRegistry.models.get(ARCHITECTURE)
        if getattr(registered, "module_name", None) == UPSTREAM:
            ModelRegistry.register_model(ARCHITECTURE, REPAIRED)
    except Exception:  # the plugin runs for every model; its failure must not stop the others
        logging.getLogger(__name__).warning(
            "tomserve's repair of the loading of DBRX could not be registered", exc_info=True
        )


def load(upstream: Loader, weights: Weights, parameters: Collection[str]) -> set[str]:
    """Load the weights through vLLM's own loader, and rename expert weights only if that loader fails on them.

    upstream: vLLM's loader, which returns the names of the parameters that it loaded. weights: pairs of a name in the
    checkpoint and its tensor. parameters: the names that the model really has. Weights are passed on one at a time
    until the loader has either loaded or missed an expert weight of this process (with pipeline parallelism it silently
    skips the weights of other processes); the rest goes in one call.
    """
    if not any(MOVED in name for name in parameters):
        return upstream(weights)
    loaded: set[str] = set()
    rest = iter(weights)
    for name, weight in rest:
        try:
            names = upstream([(name, weight)])
        except KeyError as error:
            if rename_weight(name) == name or not _is_moved(error, parameters):
                raise
            names = upstream([(rename_weight(name), weight)])
            return loaded | names | upstream((rename_weight(later), value) for later, value in rest)
        loaded |= names
        if names and rename_weight(name) != name:
            break
    return loaded | upstream(rest)


def rename_weight(name: str) -> str:
    """The name of a checkpoint's weight, with an expert weight's name changed to where vLLM now keeps its parameter.

    >>> rename_weight("transformer.blocks.0.ffn.experts.mlp.w1")
    'transformer.blocks.0.ffn.experts.routed_experts.mlp.w1'
    """
    return name.replace(".experts.mlp.", f"{MOVED}mlp.")


def _is_moved(error: KeyError, parameters: Collection[str]) -> bool:
    missed = str(error.args[0]) if error.args else ""
    return any(name.endswith(missed.replace(".experts.", MOVED)) for name in parameters) if missed else False
