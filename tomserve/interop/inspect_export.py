"""Writes a run as logs of Inspect, one for each strategy: version 2, a zip file with a member for each sample.

Inspect's own functions, its viewer and ``inspect score`` read them. No package of Inspect is needed; the zip file is
written member by member, so that a run of any length takes no more memory than its summaries. The same run gives the
same bytes.

A question is a sample, a further reply to it an epoch. A failure (no reply, or none that can be read) is a sample with
the score I, wrong, as it is in all tables of tomserve; Inspect itself would leave out what failed.
"""

from __future__ import annotations

import hashlib
import math
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import orjson

from tomserve.content import outputs
from tomserve.interop.answered import Answered, Replies
from tomserve.interop.withheld import settings_of
from tomserve.runs.listening import Listener
from tomserve.status import ANSWERS, LENGTH, OK, REFUSAL
from tomserve.studies import summed

SCORER = "tomserve"
"""What the scorer is called in a log."""

_ENDS = {OK: "stop", LENGTH: "max_tokens", REFUSAL: "content_filter"}
"""Inspect's reason for the end of a reply, by our status."""

EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every member, so that the same run gives the same bytes."""

TELL_EVERY = 20_000


def export(replies: Replies, strategy: str, path: Path, listener: Listener) -> int:
    """Write the log of one strategy. replies: of the run. path: the file to write. Returns how many samples it holds.
    Raises ConfigError as `outputs.writing` does, OSError where the file cannot be written."""
    log = _Log(replies, strategy)
    with outputs.writing(path, replies.folder) as file:
        log.write(file, listener)
    return log.count


class _Log:
    """A log that is written. count: how many samples were. summaries: what is kept of each."""

    def __init__(self, replies: Replies, strategy: str) -> None:
        self.replies, self.strategy, self.count = replies, strategy, 0
        self.summaries: list[dict[str, Any]] = []
        self.ids: dict[str, None] = {}
        self.right: dict[tuple[str, str], list[float]] = {}
        self.usage: Counter[str] = Counter()
        self._digits = len(str(len(replies)))

    def write(self, file: IO[bytes], listener: Listener) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made:
            members = set[str]()
            for one in self.replies.of(self.strategy):
                sample = self._sample(one)
                self._put(made, self._member(sample, members), sample)
                self._note(one, sample)
                if self.count % TELL_EVERY == 0:
                    listener.message(f"{self.count:,} samples written so far")
            head = self._head()
            start = {name: head[name] for name in ("version", "eval", "plan")}
            self._put(made, "_journal/start.json", start)
            self._put(made, "_journal/summaries/1.json", self.summaries)
            self._put(made, "summaries.json", self.summaries)
            self._put(made, "header.json", head)

    def _put(self, made: zipfile.ZipFile, name: str, data: Any) -> None:
        member = zipfile.ZipInfo(name, EARLIEST)
        member.compress_type = zipfile.ZIP_DEFLATED
        member.external_attr = 0o644 << 16
        made.writestr(member, orjson.dumps(data))

    def _member(self, sample: Mapping[str, Any], members: set[str]) -> str:
        """The name of a sample's member, as Inspect names it; with a digest where two ids would have the same name."""
        own = re.sub(r"[^\w.+-]+", "_", sample["id"])[:180]
        name = f"samples/{own}_epoch_{sample['epoch']}.json"
        if name in members:
            digest = hashlib.sha256(sample["id"].encode()).hexdigest()[:12]
            name = f"samples/{own}_{digest}_epoch_{sample['epoch']}.json"
        members.add(name)
        return name

    def _note(self, one: Answered, sample: Mapping[str, Any]) -> None:
        self.count += 1
        self.ids[one.item.id] = None
        self.right.setdefault((one.item.id, one.item.cluster), []).append(float(one.score["correct"]))
        self.usage.update(sample["model_usage"].get(self.model, {}))
        kept = ("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "total_time", "uuid")
        summary = {name: sample[name] for name in kept if name in sample}
        summary["input"] = str(summary["input"][-1]["content"])[:200]
        self.summaries.append(
            {**summary, "completed": True, **({"error": sample["error"]["message"]} if "error" in sample else {})}
        )

    @property
    def model(self) -> str:
        """The model as Inspect names it: after its provider."""
        return f"tomserve/{self.replies.manifest.model}"

    def _sample(self, one: Answered) -> dict[str, Any]:
        row, item = one.row, one.item
        shown = [_message(place, message) for place, message in enumerate(one.messages)]
        reply = self._reply(one)
        usage = tokens(row.get("usage"))
        failed = row["status"] not in ANSWERS and row["status"] != REFUSAL
        identity = f"{self.replies.manifest.run}\n{one.strategy}\n{item.id}\n{one.sample}"
        sample: dict[str, Any] = {
            "id": item.id,
            "epoch": one.sample + 1,
            "input": shown,
            **({"choices": list(item.choices)} if item.choices else {}),
            "target": item.answer,
            "messages": [*shown, reply] if reply is not None else shown,
            "output": self._output(one, reply, usage),
            "scores": {SCORER: _score(one)},
            "metadata": _metadata(one, self.replies.manifest.run),
            "store": {},
            "events": [],
            "model_usage": self._used(usage),
            "uuid": hashlib.sha256(identity.encode()).hexdigest()[:22],
            "attachments": {},
        }
        if (seconds := (row.get("timings") or {}).get("total_s")) is not None:
            sample["total_time"] = sample["working_time"] = seconds
        if failed:
            said = f"{row['status']}: {row.get('error') or 'no reply'}"
            sample["error"] = {"message": said, "traceback": "", "traceback_ansi": ""}
        return sample

    def _reply(self, one: Answered) -> dict[str, Any] | None:
        text, thoughts = one.row.get("text"), one.row.get("reasoning")
        if text is None and thoughts is None:
            return None
        content: Any = text or ""
        if thoughts:
            content = [{"type": "reasoning", "reasoning": thoughts}, {"type": "text", "text": text or ""}]
        identity = f"reply-{hashlib.sha256(f'{one.item.id}{one.sample}'.encode()).hexdigest()[:16]}"
        return {"id": identity, "role": "assistant", "content": content, "source": "generate", "model": self.model}

    def _output(self, one: Answered, reply: dict[str, Any] | None, usage: dict[str, int]) -> dict[str, Any]:
        reason = _ENDS.get(one.row["status"], "unknown")
        choices = [{"message": reply, "stop_reason": reason}] if reply is not None else []
        told = {"usage": usage} if usage else {}
        return {"model": self.model, "choices": choices, "completion": one.row.get("text") or "", **told}

    def _head(self) -> dict[str, Any]:
        manifest = self.replies.manifest
        created = manifest.created or "1970-01-01T00:00:00Z"
        identity = hashlib.sha256(f"{manifest.run}\n{self.strategy}\n{created}".encode()).hexdigest()
        repeats = max((len(found) for found in self.right.values()), default=1)
        dataset = {
            "name": manifest.benchmark,
            "samples": len(self.ids),
            "sample_ids": list(self.ids),
            "shuffled": False,
        }
        sampling: dict[str, Any] = {}
        for name in ("temperature", "seed"):
            if name in manifest.sampling:
                sampling[name] = manifest.sampling[name]
        most = manifest.strategies[self.strategy].max_tokens
        config: dict[str, Any] = {**sampling, **({"max_tokens": most} if most else {})}
        asked = {
            "eval_id": identity[:22],
            "run_id": identity[22:44],
            "created": created,
            "task": manifest.benchmark,
            "task_id": identity[42:64],
            "task_version": 0,
            "task_attribs": {},
            "task_args": {"strategy": self.strategy},
            "solver": self.strategy,
            "solver_args": {},
            "dataset": dataset,
            "model": self.model,
            "model_generate_config": config,
            "model_args": {},
            "config": {"epochs": repeats},
            "packages": {"tomserve": manifest.tomserve or "unknown"},
            "metadata": {"tomserve": settings_of(_provenance(manifest))},
            "scorers": [
                {"name": SCORER, "options": {}, "metrics": [{"name": name, "options": {}} for name in _METRICS]}
            ],
        }
        return {
            "version": 2,
            "status": "success",
            "eval": asked,
            "plan": {"name": "plan", "steps": [{"solver": self.strategy, "params": {}}], "config": config},
            "results": self._results(),
            "stats": {"started_at": created, "completed_at": created, "model_usage": self._total()},
        }

    def _used(self, usage: Mapping[str, int]) -> dict[str, dict[str, int]]:
        return {self.model: dict(usage)} if usage else {}

    def _total(self) -> dict[str, Any]:
        return {self.model: dict(self.usage)} if self.usage else {}

    def _results(self) -> dict[str, Any]:
        """Accuracy with Inspect's own standard errors (of questions; of clusters), and our interval over clusters."""
        means = {key: sum(found) / len(found) for key, found in self.right.items()}
        found = dict(zip(_METRICS, _errors(means), strict=True))
        metrics = {name: {"name": name, "value": value, "params": {}} for name, value in found.items()}
        score = {"name": SCORER, "scorer": SCORER, "scored_samples": len(means), "unscored_samples": 0, "params": {}}
        return {
            "total_samples": self.count,
            "completed_samples": self.count,
            "scores": [{**score, "metrics": metrics}],
        }


_METRICS = ("accuracy", "stderr", "stderr_clustered", "ci_low", "ci_high")
"""The metrics of a log: the mean over questions, its standard error with questions taken as independent (Inspect's
`stderr`), the same over clusters (Inspect's `stderr(cluster=...)`), and the ends of the 95% interval of `tomserve
analyze`, Wilson's for the number of clusters."""


def _errors(means: Mapping[tuple[str, str], float]) -> Iterator[float]:
    """The values of _METRICS. means: the share right of each question, by its id and cluster."""
    values = list(means.values())
    n = len(values)
    mean = sum(values) / n if n else 0.0
    yield mean
    yield math.sqrt(sum((one - mean) ** 2 for one in values) / (n - 1) / n) if n > 1 else 0.0
    clusters: dict[str, float] = {}
    for (_, cluster), value in means.items():
        clusters[cluster] = clusters.get(cluster, 0.0) + value - mean
    yield math.sqrt(sum(one * one for one in clusters.values())) / n if n else 0.0
    counted = summed.share_of({"answers": n, "right": sum(values), "failed": 0, "clusters": len(clusters)})
    yield counted["ci_low"]
    yield counted["ci_high"]


def _message(place: int, message: Mapping[str, str]) -> dict[str, Any]:
    return {"id": f"input-{place}", "role": message["role"], "content": message["content"], "source": "input"}


def tokens(usage: Any) -> dict[str, int]:
    """Numbers of tokens by Inspect's names."""
    if not isinstance(usage, Mapping):
        return {}
    asked, said = usage.get("prompt"), usage.get("completion")
    if not isinstance(asked, int) or not isinstance(said, int):
        return {}
    return {"input_tokens": asked, "output_tokens": said, "total_tokens": asked + said}


def _score(one: Answered) -> dict[str, Any]:
    """The score of a reply: C or I, what was read, why nothing was, and the chain metrics."""
    score = one.score
    more = {name: value for name, value in score.items() if value is not None and name.startswith(("chain", "metric_"))}
    more |= {name: score[name] for name in ("status", "parse") if score.get(name) is not None}
    return {
        "value": "C" if score["correct"] else "I",
        "answer": score["answer"],
        "explanation": score["reason"] or one.row.get("text"),
        "metadata": more,
    }


def _metadata(one: Answered, run: str | None) -> dict[str, Any]:
    """The factors of a question, and what an import needs to find it again."""
    ours = {
        "item": one.item.id,
        "strategy": one.strategy,
        "sample": one.sample,
        "run": run,
        "benchmark": one.item.benchmark,
        "cluster": one.item.cluster,
        "status": one.row["status"],
        "model": one.row["model"],
    }
    canary = {"canary": one.item.canary} if one.item.canary else {}
    return {**{f"{name}": value for name, value in one.item.factors.items()}, **canary, "tomserve": ours}


def _provenance(manifest: Any) -> dict[str, Any]:
    told = ("run", "benchmark", "benchmark_digest", "benchmark_items", "revision", "preset", "tomserve", "limit")
    found = {name: getattr(manifest, name) for name in told}
    digests = {name: one.digest for name, one in manifest.strategies.items()}
    return {**found, "prompts": digests, **({"collected_by": manifest.foreign.tool} if manifest.foreign else {})}
