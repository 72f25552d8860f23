"""A vLLM plugin that lets DBRX load: vLLM 0.24 to 0.32 look for its expert weights under a name they no longer have.

The parameters moved from ``...ffn.experts.w13_weight`` to ``...ffn.experts.routed_experts.w13_weight``, but the
model's own loader still builds the old name and ends with ``KeyError: 'blocks.0.ffn.experts.w13_weight'``. Put where
the parameters are, the checkpoint's names come out right, since that loader only replaces their last part.

vLLM calls `register` in each of its processes, for every model (entry point group ``vllm.general_plugins``), so it
only leaves a name behind; `tomserve.serving.dbrx_model` is imported when a DBRX is really loaded. What is repaired is
decided by trying vLLM's own loader, not by a version: where that works, it alone is used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

ARCHITECTURE = "DbrxForCausalLM"
UPSTREAM = "vllm.model_executor.models.dbrx"
REPAIRED = "tomserve.serving.dbrx_model:DbrxForCausalLM"
MOVED = ".experts.routed_experts."
"""How the names of expert parameters go on where they were moved."""

Weights = Iterable[tuple[str, Any]]
Loader = Callable[[Weights], set[str]]


def register() -> None:
    """Have vLLM load DBRX through `load`, unless somebody else has taken that model over. Never raises."""
    try:
        from vllm import ModelRegistry  # type: ignore[import-not-found, import-untyped, unused-ignore]

        known = ModelRegistry.models.get(ARCHITECTURE)
        if getattr(known, "module_name", None) == UPSTREAM:
            ModelRegistry.register_model(ARCHITECTURE, REPAIRED)
    except Exception:  # other models are served by this process, too: they must not suffer
        logging.getLogger(__name__).warning("tomserve's repair of DBRX could not be registered", exc_info=True)


def load(upstream: Loader, weights: Weights, parameters: Collection[str]) -> set[str]:
    """Load `weights` through `upstream`, repairing the names of experts only if `upstream` does not know them.

    parameters: names that the model really has. Names are passed on one at a time until an expert of this process has
    shown whether upstream finds it (with pipeline parallelism those of other processes are skipped silently); the
    rest goes in one call. Returns the names of what was loaded. Raises what upstream raises.
    """
    if not any(MOVED in name for name in parameters):
        return upstream(weights)
    loaded: set[str] = set()
    rest = iter(weights)
    for name, weight in rest:
        try:
            found = upstream([(name, weight)])
        except KeyError as error:
            if moved(name) == name or not _moved_away(error, parameters):
                raise
            found = upstream([(moved(name), weight)])
            return loaded | found | upstream((moved(later), value) for later, value in rest)
        loaded |= found
        if found and moved(name) != name:
            break
    return loaded | upstream(rest)


def moved(name: str) -> str:
    """The name of a weight with its experts where the parameters are: ``experts.mlp.w1`` is an expert's.

    >>> moved("transformer.blocks.0.ffn.experts.mlp.w1")
    'transformer.blocks.0.ffn.experts.routed_experts.mlp.w1'
    """
    return name.replace(".experts.mlp.", f"{MOVED}mlp.")


def _moved_away(error: KeyError, parameters: Collection[str]) -> bool:
    """Whether the parameter that upstream missed is there under its new name."""
    missed = str(error.args[0]) if error.args else ""
    return any(name.endswith(missed.replace(".experts.", MOVED)) for name in parameters) if missed else False
