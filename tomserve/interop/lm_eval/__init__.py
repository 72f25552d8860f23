"""Tasks of lm-evaluation-harness with our questions and our scorer: give this folder by ``--include_path``.

    lm_eval --include_path "$(python -m tomserve.interop.lm_eval)" --tasks tomserve_worlds_vanilla \\
        --model local-chat-completions --model_args model=NAME,base_url=http://localhost:8000/v1/chat/completions \\
        --apply_chat_template --metadata '{"schema": true}'

With a chat template and the schema, what is asked and how it is read is the same as in `tomserve eval`, but that
lm-eval does not tell of a reply that it was cut off. Without the schema a model may write what our rules cannot read;
without a chat template the messages of a strategy stand below each other in one text, each under its role. The task
files are those of the benchmarks that come with tomserve, for the strategies `vanilla` and `cot`; ``--metadata`` may
ask `most` questions, those that meet conditions (`where`, with ; between them), or name another `strategy` of one turn,
whose number of tokens ``--gen_kwargs max_gen_toks=N`` says.

>>> from tomserve.interop.lm_eval import FOLDER
>>> (FOLDER / "functions.py").is_file()
True
"""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent
"""The folder of the task files."""
