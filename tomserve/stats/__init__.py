"""Estimators only: numbers or Polars in, numbers or Polars out; no files, no printing."""
