"""Writes a run in the form of Every Eval Ever, a schema that leaderboards share (version 0.3.0).

A strategy is an evaluation: a JSON file with its accuracy and the uncertainty, and a file of JSON lines with every
reply beside it, in the folders ``data/<benchmark>/<developer>/<model>/`` that the schema's own checks ask for. The same
run gives the same bytes.
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import outputs
from tomserve.interop.answered import Answered, Replies
from tomserve.interop.inspect_export import tokens
from tomserve.runs.listening import Listener
from tomserve.studies import summed

SCHEMA = "0.3.0"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
"""How who evaluates may stand to who made the model."""

TELL_EVERY = 20_000


class Evaluation:
    """One strategy of a run as an evaluation. replies: of the run. strategy: the way of asking. organization: who
    evaluates. relationship: one of RELATIONSHIPS."""

    def __init__(self, replies: Replies, strategy: str, organization: str, relationship: str) -> None:
        self._replies, self._strategy = replies, strategy
        self._organization, self._relationship = organization, relationship
        manifest = replies.manifest
        self.model = manifest.model if "/" in manifest.model else f"unknown/{manifest.model}"
        self.created = _epoch(manifest.created)
        self.id = f"{manifest.benchmark}/{self.model.replace('/', '_')}/{strategy}/{self.created}"
        developer, _, name = self.model.partition("/")
        self.folder = Path("data", *map(_safe, (manifest.benchmark, developer, name)))
        self.uuid = str(uuid.UUID(bytes=hashlib.sha256(f"{manifest.run}\n{self.id}".encode()).digest()[:16], version=4))
        self.right: dict[tuple[str, str], list[float]] = {}

    def write(self, out: Path, listener: Listener) -> tuple[Path, Path]:
        """Write both files below a folder. Returns their paths. Raises OSError where they cannot be written."""
        samples = out / self.folder / f"{self.uuid}_samples.jsonl"
        samples.parent.mkdir(parents=True, exist_ok=True)
        sha, rows = hashlib.sha256(), 0
        with outputs.writing(samples, self._replies.folder) as file:
            for one in self._replies.of(self._strategy):
                line = orjson.dumps(self._sample(one)) + b"\n"
                sha.update(line)
                file.write(line)
                rows += 1
                self.right.setdefault((one.item.id, one.item.cluster), []).append(float(one.score["correct"]))
                if rows % TELL_EVERY == 0:
                    listener.message(f"{rows:,} samples written so far")
        whole = out / self.folder / f"{self.uuid}.json"
        with outputs.writing(whole, self._replies.folder) as file:
            told = self._whole((self.folder / samples.name).as_posix(), sha.hexdigest(), rows)
            file.write(orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n")
        return whole, samples

    @property
    def _result(self) -> str:
        return f"{self._replies.manifest.benchmark}/{self._strategy}/accuracy"

    def _whole(self, samples: str, checksum: str, rows: int) -> dict[str, Any]:
        manifest = self._replies.manifest
        library = {"name": "tomserve", "version": manifest.tomserve or "unknown"}
        if manifest.foreign is not None:
            library = {"name": manifest.foreign.tool, "version": manifest.foreign.version or "unknown"}
        return {
            "schema_version": SCHEMA,
            "evaluation_id": self.id,
            "evaluation_timestamp": str(self.created),
            "retrieved_timestamp": str(self.created),
            "source_metadata": {
                "source_name": "tomserve",
                "source_type": "evaluation_run",
                "source_organization_name": self._organization,
                "evaluator_relationship": self._relationship,
            },
            "eval_library": library,
            "model_info": self._model_info(),
            "evaluation_results": [self._results()],
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": samples,
                "hash_algorithm": "sha256",
                "checksum": checksum,
                "total_rows": rows,
            },
        }

    def _model_info(self) -> dict[str, Any]:
        manifest = self._replies.manifest
        version = manifest.server.get("engine_version")
        engine = manifest.server.get("engine")
        named = {"name": engine if isinstance(engine, str) else "vllm", "version": str(version)} if version else None
        return {
            "name": manifest.model,
            "id": self.model,
            **({"inference_engine": named} if named else {}),
            "additional_details": {
                "deployment_type": "self_deployed" if version else "unknown",
                "model_availability": "unknown",
                **({"revision": manifest.revision} if manifest.revision else {}),
            },
        }

    def _results(self) -> dict[str, Any]:
        manifest = self._replies.manifest
        means = [sum(found) / len(found) for found in self.right.values()]
        n, mean = len(means), sum(means) / len(means) if means else 0.0
        clusters: dict[str, float] = {}
        for (_, cluster), value in zip(self.right, means, strict=True):
            clusters[cluster] = clusters.get(cluster, 0.0) + value - mean
        error = math.sqrt(sum(one * one for one in clusters.values())) / n if n else 0.0
        found = summed.share_of({"answers": n, "right": sum(means), "failed": 0, "clusters": len(clusters)})
        sampling = {name: manifest.sampling[name] for name in ("temperature",) if name in manifest.sampling}
        most = manifest.strategies[self._strategy].max_tokens
        return {
            "evaluation_result_id": self._result,
            "evaluation_name": manifest.benchmark,
            "source_data": {
                "dataset_name": manifest.benchmark,
                "source_type": "other",
                "additional_details": {
                    "digest": str(manifest.benchmark_digest),
                    "items": str(manifest.benchmark_items),
                },
            },
            "evaluation_timestamp": str(self.created),
            "metric_config": {
                "evaluation_description": "Share of questions answered right; a failure counts as wrong.",
                "metric_id": "accuracy",
                "metric_name": "Accuracy",
                "metric_kind": "accuracy",
                "metric_unit": "proportion",
                "lower_is_better": False,
                "score_type": "continuous",
                "min_score": 0.0,
                "max_score": 1.0,
            },
            "score_details": {
                "score": mean,
                "uncertainty": {
                    "standard_error": {"value": error, "method": f"analytic, over {len(clusters)} clusters"},
                    "confidence_interval": {
                        "lower": found["ci_low"],
                        "upper": found["ci_high"],
                        "confidence_level": 0.95,
                        "method": found["method"],
                    },
                    "num_samples": n,
                },
            },
            "generation_config": {
                "generation_args": {**sampling, **({"max_tokens": most} if most else {})},
                "additional_details": {"strategy": self._strategy},
            },
        }

    def _sample(self, one: Answered) -> dict[str, Any]:
        """A reply; what failed has an empty reply, an error, and the score 0."""
        shown = "\n\n".join(message["content"] for message in one.messages)
        raw = "\n".join((*one.item.story, one.item.question))
        reference = [one.item.answer]
        score, row = one.score, one.row
        usage = tokens(row.get("usage"))
        thoughts = row.get("reasoning")
        seconds = (row.get("timings") or {}).get("total_s")
        read = []
        if score["answer"] is not None:
            read.append(
                {
                    "turn_idx": 0,
                    "source": "output.raw",
                    "extracted_value": score["answer"],
                    "extraction_method": f"tomserve:{score['parse']}",
                    "is_terminal": True,
                }
            )
        return {
            "schema_version": SCHEMA,
            "evaluation_id": self.id,
            "model_id": self.model,
            "evaluation_name": one.item.benchmark,
            "evaluation_result_id": self._result,
            "sample_id": one.item.id,
            "sample_hash": hashlib.sha256((raw + "".join(reference)).encode()).hexdigest(),
            "interaction_type": "single_turn",
            "input": {
                "raw": raw,
                "formatted": shown,
                "reference": reference,
                "choices": list(one.item.choices) or None,
            },
            "output": {"raw": [row.get("text") or ""], "reasoning_trace": [thoughts] if thoughts else None},
            "messages": None,
            "answer_attribution": read,
            "evaluation": {"score": float(score["correct"]), "is_correct": bool(score["correct"])},
            "token_usage": usage or None,
            "performance": {"latency_ms": 1000 * seconds} if isinstance(seconds, int | float) else None,
            "error": None if score["status"] == "ok" else f"{score['status']}: {score['reason'] or 'no reply'}",
            "metadata": _metadata(one),
        }


def _metadata(one: Answered) -> dict[str, str]:
    """The factors of a question and what an import needs, all as texts, as the schema asks for."""
    told: Mapping[str, Any] = {
        **one.item.factors,
        "cluster": one.item.cluster,
        "strategy": one.strategy,
        "sample": one.sample,
        **({"canary": one.item.canary} if one.item.canary else {}),
    }
    return {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in told.items()}


def _epoch(created: str | None) -> int:
    """A time as seconds since 1970; 0 where it is not known."""
    try:
        return int(datetime.fromisoformat(created or "").timestamp())
    except ValueError:
        return 0


def _safe(name: str) -> str:
    """A name as that of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "unknown"
