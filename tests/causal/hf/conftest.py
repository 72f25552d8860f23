"""What needs torch is left out where the extra `causal` is not installed."""

import importlib.util

collect_ignore_glob = (
    [] if all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers")) else ["test_*.py"]
)
