"""Tasks of lm-evaluation-harness with our questions and our scorer: give this folder by ``--include_path``."""
