"""Writes a run as lm-evaluation-harness does by ``--log_samples``: samples and results, as version 0.4.13 has them.

Each strategy is a task of its own, ``<benchmark>_<strategy>``. A question is a document; the samples of a question are
its repeats. A failure is an empty reply, and wrong. The same run gives the same bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import outputs
from tomserve.interop.answered import Answered, Replies
from tomserve.runs.listening import Listener

TELL_EVERY = 20_000


def export(replies: Replies, out: Path, listener: Listener) -> list[Path]:
    """Write the run into a folder. Returns the files. Raises ConfigError and OSError where they cannot be written."""
    manifest = replies.manifest
    date = re.sub(r"[^\dT-]", "-", (manifest.created or "1970-01-01T00-00-00").rstrip("Z")) + ".000000"
    out.mkdir(parents=True, exist_ok=True)
    written, results, configs, counts = [], {}, {}, {}
    for strategy in replies.strategies:
        task = re.sub(r"[^A-Za-z0-9_-]+", "_", f"{manifest.benchmark}_{strategy}")
        path = out / f"samples_{task}_{date}.jsonl"
        right, number = [], 0
        with outputs.writing(path, replies.folder) as file:
            for number, (document, share) in enumerate(_documents(replies, strategy)):
                file.write(orjson.dumps({"doc_id": number, **document}) + b"\n")
                right.append(share)
                if number and number % TELL_EVERY == 0:
                    listener.message(f"{number:,} documents written so far")
        if not right:
            path.unlink(missing_ok=True)
            continue
        written.append(path)
        mean, n = sum(right) / len(right), len(right)
        spread = sum((one - mean) ** 2 for one in right) / (n - 1) if n > 1 else 0.0
        results[task] = {"alias": task, "exact_match,none": mean, "exact_match_stderr,none": (spread / n) ** 0.5}
        most = manifest.strategies[strategy].max_tokens
        kwargs = {"temperature": manifest.sampling.get("temperature", 0.0), **({"max_gen_toks": most} if most else {})}
        configs[task] = {
            "task": task,
            "output_type": "generate_until",
            "repeats": manifest.repeats,
            "generation_kwargs": kwargs,
            "metadata": {"version": 1.0, "tomserve": manifest.tomserve, "digest": manifest.benchmark_digest},
        }
        counts[task] = {"original": manifest.benchmark_items or n, "effective": n}
    told = {
        "results": results,
        "configs": configs,
        "versions": dict.fromkeys(results, 1.0),
        "n-shot": dict.fromkeys(results, 0),
        "n-samples": counts,
        "config": {"model": manifest.model, "model_args": "", "batch_size": None, "limit": manifest.limit},
        "date": 0.0,
        "model_source": "tomserve",
        "model_name": manifest.model,
        "model_name_sanitized": re.sub(r"[^A-Za-z0-9._-]+", "__", manifest.model),
    }
    path = out / f"results_{date}.json"
    with outputs.writing(path, replies.folder) as file:
        file.write(orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n")
    return [*written, path]


def _documents(replies: Replies, strategy: str) -> Iterator[tuple[dict[str, Any], float]]:
    """Each question with all its samples, and the share of these that are right."""
    for _, several in groupby(replies.of(strategy), key=lambda one: one.item.id):
        found = list(several)
        yield _document(found), sum(bool(one.score["correct"]) for one in found) / len(found)


def _document(samples: list[Answered]) -> dict[str, Any]:
    one = samples[0]
    messages = orjson.dumps(list(one.messages)).decode()
    doc = {
        "id": one.item.id,
        "story": list(one.item.story),
        "question": one.item.question,
        "choices": list(one.item.choices),
        "answer": one.item.answer,
        **one.item.factors,
        **({"canary": one.item.canary} if one.item.canary else {}),
        "tomserve": {"item": one.item.id, "strategy": one.strategy, "cluster": one.item.cluster},
    }
    texts = [sample.row.get("text") or "" for sample in samples]
    return {
        "doc": doc,
        "target": one.item.answer,
        "arguments": {"gen_args_0": {"arg_0": messages, "arg_1": {"until": []}}},
        "resps": [texts],
        "filtered_resps": [sample.score["answer"] or "" for sample in samples],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": _hash(orjson.dumps(doc).decode()),
        "prompt_hash": _hash(messages),
        "target_hash": _hash(one.item.answer),
        "exact_match": float(samples[0].score["correct"]),
        "tomserve_status": [sample.row["status"] for sample in samples],
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
