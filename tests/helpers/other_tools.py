"""Small files of other tools, for a reader of the documentation: a log of Inspect, and samples of lm-eval."""

import json
import zipfile
from pathlib import Path
from typing import Any

DATE = "2026-11-24T12-00-00.000000"


def write_all(folder: Path) -> None:
    """Write the folders logs and samples, of eight sums each, of which two were answered wrongly."""
    _log(folder / "logs/2026-11-24T12-00-00+00-00_sums_8charsid.eval")
    _samples(folder / "samples")


def _asked(number: int) -> tuple[str, str, bool]:
    """The text of a question, its right answer, and whether the reply is right."""
    return f"What is {number} + {number}?", str(2 * number), number % 4 != 3


def _log(path: Path) -> None:
    path.parent.mkdir(parents=True)
    head: dict[str, Any] = {
        "version": 2,
        "status": "success",
        "eval": {"task": "sums", "model": "mockllm/model", "created": "2026-11-24T12:00:00+00:00", "packages": {}},
        "plan": {"steps": [{"solver": "generate", "params": {}}]},
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("header.json", json.dumps(head))
        for number in range(8):
            asked, target, right = _asked(number)
            text = f"It is {target}." if right else "It is 1."
            reply = {"role": "assistant", "content": text}
            sample = {
                "id": number + 1,
                "epoch": 1,
                "input": asked,
                "target": target,
                "messages": [{"role": "user", "content": asked}, reply],
                "output": {"choices": [{"message": reply, "stop_reason": "stop"}]},
                "scores": {"match": {"value": "C" if right else "I", "answer": text.split()[-1].rstrip(".")}},
                "metadata": {"parity": "odd" if number % 2 else "even"},
            }
            made.writestr(f"samples/{number + 1}_epoch_1.json", json.dumps(sample))


def _samples(folder: Path) -> None:
    folder.mkdir()
    results = {"model_name": "my-model", "config": {"model": "local-chat-completions"}, "lm_eval_version": "0.4.13"}
    (folder / f"results_{DATE}.json").write_text(json.dumps(results))
    with (folder / f"samples_arithmetic_{DATE}.jsonl").open("w", encoding="utf-8") as file:
        for number in range(8):
            asked, target, right = _asked(number)
            line = {
                "doc_id": number,
                "doc": {"question": asked, "parity": "odd" if number % 2 else "even"},
                "target": target,
                "arguments": {"gen_args_0": {"arg_0": asked, "arg_1": {"until": []}}},
                "resps": [[target if right else "1"]],
                "filtered_resps": [target if right else "1"],
                "filter": "none",
                "metrics": ["exact_match"],
                "exact_match": float(right),
            }
            file.write(json.dumps(line) + "\n")
