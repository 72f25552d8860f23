"""Has the real Inspect and the real lm-eval write what lies in tests/data/other_tools.

    python bench/_other_tools.py FOLDER

What is committed are its logs, of those in JSON without their events, and lm-eval's files, without what they tell of a
machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LOGS = """
import asyncio, os, signal, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatCompletionChoice, ChatMessageAssistant, ContentReasoning, ContentText, ModelOutput, ModelUsage, get_model
)
from inspect_ai.scorer import Score, choice, includes, match, mean, scorer
from inspect_ai.solver import generate, multiple_choice, solver, system_message

folder = sys.argv[1]

def reply(content, stop="stop"):
    message = ChatMessageAssistant(content=content)
    said = ModelOutput(model="mockllm/model", choices=[ChatCompletionChoice(message=message, stop_reason=stop)])
    said.usage = ModelUsage(input_tokens=9, output_tokens=5, total_tokens=14)  # else tokens are counted by a download
    return said

def evaluate(task, said, folder, form="eval", **options):
    model = get_model("mockllm/model", custom_outputs=list(said), api_key="sk-a1b2c3d4e5f6")
    done = eval(
        task, model=model, max_connections=1, max_samples=1, log_dir=folder, log_format=form, display="none", **options
    )
    return done[0]

@solver
def dying():
    async def solve(state, generate):
        if state.sample_id == "k5":
            os.kill(os.getpid(), signal.SIGKILL)
        return await generate(state)
    return solve

@scorer(metrics=[mean()])
def closeness():
    async def score(state, target):
        return Score(value=float("nan") if state.sample_id == "m1" else 0.25, answer="about", metadata={"text": "NaN"})
    return score

@solver
def failing():
    async def solve(state, generate):
        if state.sample_id == "f1":
            raise ValueError("refused: sent Authorization: Bearer abcdef123456 to https://me:pass@host/v1?key=1")
        return await generate(state)
    return solve

if (child := os.fork()) == 0:
    asked = [Sample(id=f"k{i}", input=f"Q{i}?", target="R") for i in range(8)]
    task = Task(MemoryDataset(asked, name="killed"), solver=[dying()], scorer=includes(), name="killed")
    evaluate(task, [reply(f"R{i}") for i in range(8)], f"{folder}/killed", log_buffer=2)
os.waitpid(child, 0)

asked = [
    Sample(id=f"q{i}", input=f"What is {i} + {i}?", target=str(2 * i),
           metadata={"subject": "ab"[i % 2], "long": "x" * 300})
    for i in range(4)
]
said = [reply(f"The answer is {2 * (i % 4) + (i == 3)}") for i in range(8)]
for form in ("eval", "json"):
    task = Task(
        MemoryDataset(asked, name="sums"), solver=generate(), scorer=[match(numeric=True), includes()], name="sums"
    )
    done = evaluate(task, said, f"{folder}/{form}", form, epochs=2)
    assert done.status == "success", done.error

told = "Ann hides it. " * 300  # so long that the log keeps it apart
asked = [
    Sample(id=f"m{i}", input=f"{told}\\n\\nWhere is {i}?", choices=["box", "bag", "jar"], target="ABC"[i],
           metadata={"k": i})
    for i in range(3)
]
thoughts = [ContentReasoning(reasoning="Hm. " * 200)]
said = [
    reply([*thoughts, ContentText(text=f"ANSWER: {letter}")], "max_tokens" if letter == "C" else "stop")
    for letter in "ABC"
]
for form in ("eval", "json"):
    task = Task(
        MemoryDataset(asked, name="places"),
        solver=[system_message("Be kind."), multiple_choice()],
        scorer=[choice(), closeness()],
        name="places",
    )
    done = evaluate(task, said, f"{folder}/places-{form}", form)
    assert done.status == "success", done.error

asked = [Sample(id=f"f{i}", input=f"Q{i}?", target="R") for i in range(3)]
task = Task(MemoryDataset(asked, name="failing"), solver=[failing()], scorer=includes(), name="failing")
done = evaluate(task, [reply("R") for _ in range(3)], f"{folder}/failing", fail_on_error=False)
assert done.status == "success", done.error
"""

_TASKS: dict[str, dict[str, Any]] = {
    "sums": {
        "output_type": "generate_until",
        "doc_to_text": "Q: {{question}}\nA:",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n"]},
        "filter_list": [
            {"name": "strict", "filter": [{"function": "take_first"}]},
            {
                "name": "letters",
                "filter": [{"function": "regex", "regex_pattern": "([a-z])"}, {"function": "take_first"}],
            },
        ],
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    },
    "places": {
        "output_type": "multiple_choice",
        "num_fewshot": 1,
        "doc_to_text": "{{question}}\nA:",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "label",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    },
    "surprise": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{question}}",
        "metric_list": [{"metric": "word_perplexity"}],
    },
}
"""Tasks for the real lm-eval, one of every form of request."""


def real_logs(folder: Path) -> Path:
    """Have the real Inspect write logs; returns the folder.

    eval, json: the same evaluation in both forms, with epochs and two scorers. places-eval, places-json: choices by
    letter, thoughts, long texts, a score that is no number. killed: the process was killed in mid-work. failing: one of
    three samples ended in an error that tells secrets.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("INSPECT_", "TOMSERVE_"))}
    _run([sys.executable, "-c", _LOGS, str(folder)], folder, environment)
    return folder


def real_samples(folder: Path) -> Path:
    """Have the real lm-eval ask its model `dummy`, which answers at random, the tasks sums (texts, two filters),
    twice (the same, two replies a question), places (choices) and surprise (no grade); returns the folder of the files.
    """
    documents = [
        {
            "question": f"Which is {number}?",
            "answer": "lol" if number % 2 else "x",
            "choices": ["box", "bag", "jar"],
            "label": number % 3,
            "subject": "ab"[number % 2],
        }
        for number in range(6)
    ]
    (folder / "documents.json").write_text(json.dumps(documents))
    for name, task in {**_TASKS, "twice": {**_TASKS["sums"], "repeats": 2}}.items():
        source = {"dataset_path": "json", "dataset_kwargs": {"data_files": str(folder / "documents.json")}}
        (folder / f"{name}.yaml").write_text(json.dumps({"task": name, **source, "test_split": "train", **task}))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "cache")}
    program = "from lm_eval.__main__ import cli_evaluate; cli_evaluate()"
    asked = ["--model", "dummy", "--tasks", "sums,twice,places,surprise", "--include_path", str(folder)]
    _run([sys.executable, "-c", program, *asked, "--log_samples", "--output_path", "out"], folder, environment)
    (found,) = (folder / "out").iterdir()
    return found


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


if __name__ == "__main__":
    for make in (real_logs, real_samples):
        (place := Path(sys.argv[1]) / make.__name__).mkdir(parents=True)
        print(make(place))
