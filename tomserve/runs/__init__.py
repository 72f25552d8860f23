"""Runs: the run folder, its journal and manifest, and one evaluation with its phases."""
