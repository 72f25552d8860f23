"""Writes a run as logs of Inspect, one for each strategy: version 2, a zip file with a member for each sample.

Inspect's own functions, its viewer and ``inspect score`` read them. No package of Inspect is needed; samples are
written one by one and their summaries wait on disk, so that a run of any length takes no more memory than the ids of
its questions. The same run gives the same bytes.

A question is a sample, a further reply to it an epoch. A failure (no reply, or none that can be read) is a sample with
the score I, wrong, as it is in all tables of tomserve; Inspect itself would leave out what failed.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import orjson

from tomserve.content import output_path, temporary
from tomserve.errors import ConfigError
from tomserve.interop.answered import Answered, Replies
from tomserve.interop.inspect_sample import SCORER, Sample, Samples, failed, moment, summary_of
from tomserve.interop.transcripts import Transcripts
from tomserve.interop.withheld import settings_of
from tomserve.interop.zipping import member
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Listener
from tomserve.studies import contrasts

TELL_EVERY = 20_000

UNKNOWN_TIME = "1970-01-01T00:00:00+00:00"
"""When a run was made whose manifest does not say it."""

_RECOMPUTED: tuple[tuple[str, dict[str, str]], ...] = (
    ("accuracy", {}),
    ("stderr", {}),
    ("stderr", {"cluster": "cluster"}),
)
"""Inspect's own metrics, by name and options, which it can compute again from the samples."""

_METRICS = ("accuracy", "stderr", "stderr2", "ci_low", "ci_high")
"""The metrics of a log. The first three are those of _RECOMPUTED, as Inspect names them: the mean over questions, its
standard error with questions taken as independent, and the same over clusters (which Inspect calls stderr2, as it is
the second of that name). The others are the ends of the 95% interval of `tomserve analyze`, Wilson's for the number of
clusters."""

_PROVENANCE = ("run", "benchmark", "benchmark_digest", "benchmark_items", "revision", "preset", "tomserve", "limit")
"""What a log keeps of a run's manifest: nothing of servers, addresses, machines or commands."""


def export(replies: Replies, strategy: str, path: Path, listener: Listener) -> int:
    """Write the log of one strategy. replies: of the run. path: the file to write. Returns how many samples it holds.
    Raises ConfigError as `outputs.writing` does and where there is no sample, OSError where the file cannot be
    written."""
    log = _Log(replies, strategy)
    with output_path.open_output(path, replies.folder) as file, temporary.folder() as scratch:
        log.write(file, scratch / "summaries", listener)
    return log.count


class _Log:
    """A log that is written. count: how many samples were; failures: how many of them have no reply."""

    def __init__(self, replies: Replies, strategy: str) -> None:
        self.manifest, self.strategy, self.replies = replies.manifest, strategy, replies
        self.model = f"tomserve/{replies.manifest.model}"  # as Inspect names a model, after its provider
        self.count = self.failures = self.epochs = 0
        self.right: dict[str, tuple[str, int, int]] = {}  # of each question: its cluster, replies, and right ones
        self.usage: Counter[str] = Counter()
        self.last = ""

    def write(self, file: IO[bytes], scratch: Path, listener: Listener) -> None:
        """Write the log. scratch: a file that can be made, for the summaries."""
        several = self.manifest.turns(self.strategy) != 1
        talks = Transcripts(self.replies, self.strategy) if several else None
        samples = Samples(self.manifest.run, self.model, talks)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made:
            with scratch.open("xb") as waiting:
                for one in self.replies.of(self.strategy):
                    sample = samples.of(one)
                    # Inspect finds a sample by this very name, slashes and all; nothing is ever unpacked by it.
                    _put(made, f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
                    self._note(one, sample)
                    waiting.write((b"," if self.count > 1 else b"[") + orjson.dumps(summary_of(sample)))
                    if self.count % TELL_EVERY == 0:
                        listener.message(f"{self.count:,} samples written so far")
                waiting.write(b"]")
            if not self.count:
                raise ConfigError(f"{self.replies.folder}: nobody has answered a question by {self.strategy!r:.80}")
            head = self._head()
            _put(made, "_journal/start.json", {name: head[name] for name in ("version", "eval", "plan")})
            with scratch.open("rb") as waiting, made.open(member("summaries.json"), "w", force_zip64=True) as kept:
                shutil.copyfileobj(waiting, kept, 1 << 20)
            _put(made, "header.json", head)

    def _note(self, one: Answered, sample: Sample) -> None:
        self.count += 1
        self.failures += failed(one)
        self.epochs = max(self.epochs, sample["epoch"])
        cluster, replies, right = self.right.get(one.item.id, (one.item.cluster, 0, 0))
        self.right[one.item.id] = (cluster, replies + 1, right + bool(one.score["correct"]))
        self.usage.update(sample["model_usage"].get(self.model, {}))
        self.last = max(self.last, sample.get("completed_at", ""))

    def _head(self) -> dict[str, Any]:
        created, config = moment(self.manifest.created) or UNKNOWN_TIME, self._config()
        used = {self.model: dict(self.usage)} if self.usage else {}
        return {
            "version": 2,
            "status": "success",
            "eval": self._asked(created, config),
            "plan": {"name": "plan", "steps": [{"solver": self.strategy, "params": {}}], "config": config},
            "results": self._results(),
            "stats": {"started_at": created, "completed_at": max(self.last, created), "model_usage": used},
        }

    def _config(self) -> dict[str, Any]:
        """How the model was asked."""
        sampling = {name: self.manifest.sampling.get(name) for name in ("temperature", "seed")}
        most = self.manifest.strategies[self.strategy].max_tokens
        return {name: value for name, value in {**sampling, "max_tokens": most or None}.items() if value is not None}

    def _asked(self, created: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """What was evaluated: the table `eval` of the head."""
        manifest = self.manifest
        identity = hashlib.sha256(f"{manifest.run}\n{self.strategy}\n{created}".encode()).hexdigest()
        metrics = [{"name": f"inspect_ai/{name}", "options": options} for name, options in _RECOMPUTED]
        return {
            "eval_id": identity[:22],
            "run_id": identity[20:42],
            "created": created,
            "task": manifest.benchmark,
            "task_id": identity[42:64],
            "task_version": 0,
            "task_display_name": manifest.benchmark,
            "task_attribs": {},
            "task_args": {"strategy": self.strategy},
            "task_args_passed": {},
            "solver": self.strategy,
            "solver_args": {},
            "dataset": {
                "name": manifest.benchmark,
                "samples": max(manifest.benchmark_items or 0, len(self.right)),
                "sample_ids": list(self.right),
                "shuffled": False,
            },
            "model": self.model,
            "model_generate_config": dict(config),
            "model_args": {},
            "config": {
                "epochs": self.epochs,
                "fail_on_error": False,
                "continue_on_fail": True,
                "score_on_error": True,
                "log_samples": True,
            },
            "packages": {"tomserve": manifest.tomserve or "unknown"},
            "metadata": {"tomserve": settings_of(provenance(manifest))},
            "scorers": [{"name": SCORER, "options": {}, "metrics": metrics, "metadata": {}}],
        }

    def _results(self) -> dict[str, Any]:
        """Accuracy with Inspect's own standard errors (of questions; of clusters), and our interval over clusters."""
        values = dict(zip(_METRICS, _errors(self.right), strict=True))
        metrics = {name: {"name": name, "value": value, "params": {}} for name, value in values.items()}
        metrics["stderr2"] |= {"name": "stderr", "params": {"cluster": "cluster"}}
        counts = {"scored_samples": len(self.right), "unscored_samples": 0}
        return {
            "total_samples": self.count,
            "completed_samples": self.count - self.failures,
            "scores": [{"name": SCORER, "scorer": SCORER, **counts, "params": {}, "metrics": metrics}],
            "headline": {"scorer": SCORER, "score": SCORER, "metric": "accuracy"},
        }


def _put(made: zipfile.ZipFile, name: str, data: Any) -> None:
    made.writestr(member(name), orjson.dumps(data))


def _errors(right: Mapping[str, tuple[str, int, int]]) -> Iterator[float]:
    """The values of _METRICS. right: of each question its cluster, how many replies there are, and how many are right.

    A question with several replies counts by the share of these that is right, as Inspect's epochs do."""
    values = [good / replies for _, replies, good in right.values()]
    n, mean = len(values), math.fsum(values) / len(values)
    yield mean
    yield math.sqrt(math.fsum((one - mean) ** 2 for one in values) / (n - 1) / n) if n > 1 else 0.0
    sums: dict[str, float] = {}
    for (cluster, _, _), value in zip(right.values(), values, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + value - mean
    many = len(sums)
    yield math.sqrt(math.fsum(one * one for one in sums.values()) * many / (many - 1)) / n if many > 1 else 0.0
    counted = contrasts.share_of_counts({"answers": n, "right": math.fsum(values), "failed": 0, "clusters": many})
    yield counted["ci_low"]
    yield counted["ci_high"]


def provenance(manifest: Manifest) -> dict[str, Any]:
    """What an export tells of where a run comes from: digests and versions, and which tool asked."""
    found = {name: value for name, value in manifest.to_dict().items() if name in _PROVENANCE}
    digests = {name: one.digest for name, one in manifest.strategies.items()}
    found["complete"] = manifest.complete
    return {**found, "prompts": digests, **({"collected_by": manifest.foreign.tool} if manifest.foreign else {})}
