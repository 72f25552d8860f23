"""Looks inside a model: whether a map from another's perspective to one's own exists, and whether it causes the answer.

The method is that of Aoki and Kawahara (2025) with the controls without which its measure is no evidence; see
docs/explanation/causal.md. Only the modules below `tomserve.causal.hf` import torch and transformers.
"""
