"""Makes the Inspect log of the study "Error bars for a log": Inspect itself evaluates replies that are drawn at random.

    python docs/gallery/make_log.py FOLDER

The questions are sums of make_exam.py. The model is Inspect's own stand-in for one, mockllm, which says what it is
given: replies that are drawn at random as in make_exam.py, twice for each question (two epochs). So the log is what
Inspect writes of any evaluation, but for its list of events, which is left out to keep the file small; and the truth is
known all the same: over all questions of this kind the examinee is right with chance .70. It needs the package
inspect-ai.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from make_exam import Question, difficulties, offset, questions, said

SHEETS, EPOCHS, SHARE, SEED = 15, 2, 0.70, 20261126


def replies() -> list[tuple[Question, list[int]]]:
    """The questions of the first sheets, each with the numbers that the examinee replies, one for each epoch."""
    chance = random.Random(SEED)
    asked = questions(chance)[: 4 * SHEETS]
    easy, level = difficulties(chance, asked), offset(SHARE)
    return [(one, [said(chance, one, level + easy[one.id])[0] for _ in range(EPOCHS)]) for one in asked]


def write(folder: Path) -> None:
    """Write exam.eval into the folder."""
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.log import read_eval_log, write_eval_log
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match

    told = replies()
    samples = [
        Sample(id=one.id, input=one.text, target=str(one.target), metadata={"sheet": one.sheet, "subject": one.subject})
        for one, _ in told
    ]
    left = {one.text: iter(numbers) for one, numbers in told}

    def answer(messages: Any, *_: Any) -> Any:
        number = next(left[messages[-1].text])
        output = ModelOutput.from_content("mockllm/model", f"Let me see. The answer is {number}.")
        output.usage = ModelUsage(input_tokens=30, output_tokens=9, total_tokens=39)  # else it is counted, online
        return output

    task = inspect_ai.Task(dataset=samples, scorer=match(numeric=True), epochs=EPOCHS, name="exam")
    with tempfile.TemporaryDirectory() as logs:
        (log,) = inspect_ai.eval(
            task,
            model=get_model("mockllm/model", custom_outputs=answer),
            max_samples=1,
            max_connections=1,
            log_dir=logs,
            log_format="eval",
            display="none",
        )
        if log.status != "success":
            raise SystemExit(f"Inspect ended with {log.status}: {log.error}")
        whole = read_eval_log(log.location)
    for sample in whole.samples or []:
        sample.events = []
    write_eval_log(whole, str(folder / "exam.eval"))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
