"""Causal language models run by transformers: the only modules of tomserve that import torch.

Import what lies here only where a model is about to be loaded, and after `tomserve.causal.checkpoints.require_extra`,
which tells in one line how to install what is missing.
"""
