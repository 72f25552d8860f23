"""Writes a run as logs of Inspect, one for each strategy: version 2, a zip file with a member for each sample.

Inspect's own functions, its viewer and ``inspect score`` read them; no package of Inspect is needed. The same run
gives the same bytes, in little memory. A question is a sample, a further reply to it an epoch. A failure (no reply,
or none that can be read) is a sample with the score I, wrong, as it is in all tables of tomserve; Inspect itself
would leave out what failed.
"""

import hashlib
import math
import shutil
import zipfile
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import orjson

from tomserve.content import files, output_path
from tomserve.content.paths import run_place
from tomserve.engine.redact import redact_settings
from tomserve.errors import ConfigError
from tomserve.interop.samples import sample_record
from tomserve.interop.scored_replies import (
    Message,
    RightReplies,
    ScoredReplies,
    ScoredReply,
    Transcripts,
    mean_and_error,
)
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Listener
from tomserve.status import ANSWERS, LENGTH, OK, REFUSAL

SCORER = "tomserve"
"""What the scorer is called in a log."""

_ENDS = {OK: "stop", LENGTH: "max_tokens", REFUSAL: "content_filter"}
"""Inspect's reason for the end of a reply, by our status."""

_MOST = 1000
"""Most characters of a text, and of a value of metadata as JSON, that a summary keeps, as in Inspect's own."""

_LEFT_OUT = "(left out of the summary)"

_SUMMARY = (
    *("id", "epoch", "choices", "target", "model_usage", "completed_at", "total_time", "working_time", "uuid"),
    "turn_count",
)
"""The fields of a sample that its summary repeats."""

Sample = dict[str, Any]


class Samples:
    """Makes samples of the replies to one way of asking. run: the name of the run. place: what tells it from all
    others. model: what the log calls the model. transcripts: the conversations, for a strategy of several turns; None
    for one that asks once."""

    def __init__(self, run: str | None, place: str, model: str, transcripts: Transcripts | None) -> None:
        self._run, self._place, self._model, self._transcripts = run, place, model, transcripts

    def of(self, one: ScoredReply) -> Sample:
        """The sample of a reply."""
        identity = sha256_of(f"{self._place}\n{one.strategy}\n{one.item.id}\n{one.sample}")
        shown = [_input_message(identity, place, message) for place, message in enumerate(one.messages)]
        reply = self._reply(identity, "reply", one.row.get("text"), one.row.get("reasoning"))
        messages, turns = [*shown, *([reply] if reply["content"] else [])], 1
        if self._transcripts is not None and (found := self._transcripts.of(one)).rows:
            messages = [self._message(identity, place, message) for place, message in enumerate(found.messages)]
            turns = len(found.rows)
        usage = token_counts(one.row.get("usage"))
        sample: Sample = {
            "id": one.item.id,
            "epoch": one.sample + 1,
            "input": shown,
            **({"choices": list(one.item.choices)} if one.item.choices else {}),
            "target": one.item.answer,
            "messages": messages,
            "output": self._output(one, reply, usage),
            "scores": {SCORER: _score(one)},
            "metadata": _metadata(one, self._run),
            "store": {},
            "events": [],
            "model_usage": {self._model: usage} if usage else {},
            "uuid": identity[:22],
            "turn_count": turns,
            "attachments": {},
        }
        if (answered := format_time(one.row.get("time"))) is not None:
            sample["completed_at"] = answered
        if (seconds := reply_seconds(one.row)) is not None:
            sample["total_time"] = sample["working_time"] = seconds
        if has_failed(one):
            sample["error"] = {"message": error_text(one), "traceback": "", "traceback_ansi": ""}
        return sample

    def _message(self, identity: str, place: int, message: Message) -> Sample:
        if message.turn is None:
            return _input_message(identity, place, {"role": message.role, "content": message.content or ""})
        return self._reply(identity, f"message-{place}", message.content, message.reasoning)

    def _reply(self, identity: str, name: str, text: str | None, thoughts: str | None) -> Sample:
        content: Any = text or ""
        if thoughts:
            content = [{"type": "reasoning", "reasoning": thoughts}, {"type": "text", "text": text or ""}]
        own = f"{name}-{identity[:16]}"
        return {"id": own, "role": "assistant", "content": content, "source": "generate", "model": self._model}

    def _output(self, one: ScoredReply, reply: Sample, usage: Mapping[str, int]) -> dict[str, Any]:
        """What Inspect takes for the reply that is scored: of a conversation, what it came to."""
        reason = _ENDS.get(one.row["status"], "unknown")
        there = not has_failed(one) or bool(reply["content"])
        seconds = reply_seconds(one.row)
        return {
            "model": self._model,
            "choices": [{"message": reply, "stop_reason": reason}] if there else [],
            "completion": one.row.get("text") or "",
            **({"usage": dict(usage)} if usage else {}),
            **({"time": seconds} if seconds is not None else {}),
            **({"error": error_text(one)} if has_failed(one) else {}),
        }


def has_failed(one: ScoredReply) -> bool:
    """Whether the request failed, so that the model said nothing of its own."""
    return one.row["status"] not in ANSWERS and one.row["status"] != REFUSAL


def summarize(sample: Sample) -> dict[str, Any]:
    """The summary of a sample. Long texts and lists are cut, so that a viewer can hold the summaries of all samples."""
    found = {name: sample[name] for name in _SUMMARY if name in sample}
    asked = next((one for one in reversed(sample["input"]) if one["role"] == "user"), {"content": ""})
    found["input"] = _cut(asked["content"])
    found["target"] = _cut(sample["target"])
    found["metadata"] = _thin(sample["metadata"])
    found["scores"] = {
        name: {
            **score,
            "explanation": None if score["explanation"] is None else _cut(score["explanation"]),
            "metadata": _thin(score["metadata"]),
        }
        for name, score in sample["scores"].items()
    }
    error = {"error": _cut(sample["error"]["message"])} if "error" in sample else {}
    return {**found, **error, "completed": True, "message_count": len(sample["messages"])}


def token_counts(usage: Any) -> dict[str, int]:
    """Numbers of tokens by Inspect's names; none where the server did not count them."""
    if not isinstance(usage, Mapping):
        return {}
    prompt, reply = usage.get("prompt"), usage.get("completion")
    if type(prompt) is not int or type(reply) is not int:
        return {}
    return {"input_tokens": prompt, "output_tokens": reply, "total_tokens": prompt + reply}


def format_time(time: Any) -> str | None:
    """A time as Inspect writes it, in UTC and to the second; None for what is none, as files may come from anybody.

    >>> format_time("2026-11-22T12:14:04Z"), format_time("yesterday")
    ('2026-11-22T12:14:04+00:00', None)
    """
    found = parse_time(time)
    return None if found is None else found.isoformat(timespec="seconds")


def parse_time(time: Any) -> datetime | None:
    """A time in UTC, in which one without a zone is taken to be; None for what is none."""
    try:
        found = datetime.fromisoformat(time)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def reply_seconds(row: Mapping[str, Any]) -> float | None:
    """How long a reply took, as the journal says it; None where it does not."""
    timings = row.get("timings")
    found = timings.get("total_s") if isinstance(timings, Mapping) else None
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _input_message(identity: str, place: int, message: Mapping[str, str]) -> Sample:
    own = f"input-{place}-{identity[:16]}"
    return {"id": own, "role": message["role"], "content": message["content"], "source": "input"}


def error_text(one: ScoredReply) -> str:
    """What is said of a failure: the reason that the journal keeps, without addresses' passwords; else the status."""
    reason = redact_settings(str(one.row["error"])) if one.row.get("error") else ""
    return str(reason or one.row["status"])


def _score(one: ScoredReply) -> dict[str, Any]:
    """The score of a reply: C or I, what was read, why nothing was, and the chain metrics."""
    score = one.score
    return {
        "value": "C" if score["correct"] else "I",
        "answer": score["answer"],
        "explanation": error_text(one) if one.row.get("error") else score["reason"] or one.row.get("text"),
        **({"reason": reason} if (reason := _reason(one)) is not None else {}),
        "metadata": score_metadata(score),
    }


def score_metadata(score: Mapping[str, Any]) -> dict[str, Any]:
    """What of a score Inspect keeps as metadata: the chain metrics and those of the benchmark, and how it was read."""
    more = ("answer_matches_last", "status", "parse")
    kept = {name: one for name, one in score.items() if name.startswith(("chain", "metric_")) or name in more}
    return {name: one for name, one in kept.items() if one is not None}


def _reason(one: ScoredReply) -> str | None:
    """Inspect's word for what was wrong with a reply in which no answer was read; None where one was."""
    if one.score["answer"] is not None or one.score["correct"] or not one.score["reason"]:
        return None
    if one.row["status"] == REFUSAL:
        return "refusal"
    return "invalid_response_format" if one.row.get("text") and not has_failed(one) else "no_response"


def _metadata(one: ScoredReply, run: str | None) -> dict[str, Any]:
    """The factors of a question, and what an import needs to find it again."""
    ours = sample_record(
        one.item,
        one.strategy,
        sample=one.sample,
        run=run,
        benchmark=one.item.benchmark,
        status=one.row["status"],
        unread=one.unread,
        model=one.row["model"],
        **({"error": error_text(one)} if one.row.get("error") else {}),
    )
    canary = {"canary": one.item.canary} if one.item.canary else {}
    return {**one.item.factors, **canary, "cluster": one.item.cluster, "tomserve": ours}


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."


def _thin(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _cut(value)
        if isinstance(value, str)
        else value
        if isinstance(value, bool | int | float | None) or len(orjson.dumps(value)) <= _MOST
        else _LEFT_OUT
        for name, value in metadata.items()
    }


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every member, the first that a zip file can tell."""


def stable_zip_member(name: str) -> zipfile.ZipInfo:
    """A compressed file that its owner may write and everybody may read. name: its path in the zip file."""
    found = zipfile.ZipInfo(name, EARLIEST)
    found.compress_type = zipfile.ZIP_DEFLATED
    found.external_attr = 0o644 << 16
    return found


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


def export_log(replies: ScoredReplies, strategy: str, path: Path, listener: Listener) -> int:
    """Write the log of one strategy. replies: of the run. path: the file to write. Returns how many samples it holds.
    Raises ConfigError as `open_output` does and where there is no sample, OSError where the file cannot be written."""
    log = _Log(replies, strategy)
    with output_path.open_output(path, replies.folder) as file, files.temporary_folder() as scratch:
        log.write(file, scratch / "summaries", listener)
    return log.count


class _Log:
    """A log that is written. count: how many samples were; failures: how many of them have no reply."""

    def __init__(self, replies: ScoredReplies, strategy: str) -> None:
        self.manifest, self.strategy, self.replies = replies.manifest, strategy, replies
        self.model = f"tomserve/{replies.manifest.model}"  # as Inspect names a model, after its provider
        self.count = self.failures = self.epochs = 0
        self.right, self.of_variants = RightReplies(), RightReplies()
        self.usage: Counter[str] = Counter()
        self.last = ""

    def write(self, file: IO[bytes], scratch: Path, listener: Listener) -> None:
        """Write the log. scratch: a file that can be made, for the summaries."""
        several = self.manifest.turns(self.strategy) != 1
        transcripts = Transcripts(self.replies, self.strategy) if several else None
        samples = Samples(self.manifest.run, run_place(self.replies.folder), self.model, transcripts)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made:
            with scratch.open("xb") as waiting:
                for one in self.replies.of(self.strategy):
                    sample = samples.of(one)
                    # Inspect finds a sample by this very name, slashes and all; nothing is ever unpacked by it.
                    _put(made, f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
                    self._note(one, sample)
                    waiting.write((b"," if self.count > 1 else b"[") + orjson.dumps(summarize(sample)))
                    if self.count % TELL_EVERY == 0:
                        listener.message(f"{self.count:,} samples written so far")
                waiting.write(b"]")
            if not self.count:
                raise ConfigError(f"{self.replies.folder}: nobody has answered a question by {self.strategy!r:.80}")
            head = self._head()
            _put(made, "_journal/start.json", {name: head[name] for name in ("version", "eval", "plan")})
            with (
                files.open_for_reading(scratch) as waiting,
                made.open(stable_zip_member("summaries.json"), "w", force_zip64=True) as kept,
            ):
                shutil.copyfileobj(waiting, kept, 1 << 20)
            _put(made, "header.json", head)

    def _note(self, one: ScoredReply, sample: Sample) -> None:
        self.count += 1
        self.failures += has_failed(one)
        self.epochs = max(self.epochs, sample["epoch"])
        (self.right if one.item.base is None else self.of_variants).add(one)
        self.usage.update(sample["model_usage"].get(self.model, {}))
        self.last = max(self.last, sample.get("completed_at", ""))

    def _head(self) -> dict[str, Any]:
        created, config = format_time(self.manifest.created) or UNKNOWN_TIME, self._config()
        used = {self.model: dict(self.usage)} if self.usage else {}
        return {
            "version": 2,
            "status": "success",
            "eval": self._eval_section(created, config),
            "plan": {"name": "plan", "steps": [{"solver": self.strategy, "params": {}}], "config": config},
            "results": self._results(),
            "stats": {"started_at": created, "completed_at": max(self.last, created), "model_usage": used},
        }

    def _config(self) -> dict[str, Any]:
        """How the model was asked."""
        sampling = {name: self.manifest.sampling.get(name) for name in ("temperature", "seed")}
        most = self.manifest.strategies[self.strategy].max_tokens
        return {name: value for name, value in {**sampling, "max_tokens": most or None}.items() if value is not None}

    def _eval_section(self, created: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """What was evaluated: the table `eval` of the head."""
        manifest = self.manifest
        identity = sha256_of(f"{run_place(self.replies.folder)}\n{self.strategy}\n{created}")
        metrics = [{"name": f"inspect_ai/{name}", "options": options} for name, options in _RECOMPUTED]
        ids = [*self.right.right, *self.of_variants.right]
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
                "samples": max(manifest.benchmark_items or 0, len(ids)),
                "sample_ids": ids,
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
            "metadata": {"tomserve": redact_settings(provenance(manifest))},
            "scorers": [{"name": SCORER, "options": {}, "metrics": metrics, "metadata": {}}],
        }

    def _results(self) -> dict[str, Any]:
        """Accuracy with Inspect's own standard errors (of questions; of clusters), and our interval over clusters. As
        everywhere, variants of questions count only where there is nothing else."""
        right = self.right if self.right.right else self.of_variants
        values = dict(zip(_METRICS, _errors(right), strict=True))
        metrics = {name: {"name": name, "value": value, "params": {}} for name, value in values.items()}
        metrics["stderr2"] |= {"name": "stderr", "params": {"cluster": "cluster"}}
        counts = {"scored_samples": len(right.right), "unscored_samples": 0}
        return {
            "total_samples": self.count,
            "completed_samples": self.count - self.failures,
            "scores": [{"name": SCORER, "scorer": SCORER, **counts, "params": {}, "metrics": metrics}],
            "headline": {"scorer": SCORER, "score": SCORER, "metric": "accuracy"},
        }


def _put(made: zipfile.ZipFile, name: str, data: Any) -> None:
    made.writestr(stable_zip_member(name), orjson.dumps(data))


def _errors(right: RightReplies) -> tuple[float, ...]:
    """The values of _METRICS."""
    shares, by_cluster = right.shares, right.by_cluster()
    mean, error = mean_and_error(shares)
    many, robust = len(by_cluster), 0.0
    if many > 1:
        sums = (sum(one - mean for one in values) for values in by_cluster.values())
        robust = math.sqrt(math.fsum(one * one for one in sums) * many / (many - 1)) / len(shares)
    return mean, error, robust, *right.interval()[:2]


def provenance(manifest: Manifest) -> dict[str, Any]:
    """What an export tells of where a run comes from: digests and versions, and which tool asked."""
    found = {name: value for name, value in manifest.to_dict().items() if name in _PROVENANCE}
    digests = {name: one.digest for name, one in manifest.strategies.items()}
    found["complete"] = manifest.complete
    return {**found, "prompts": digests, **({"collected_by": manifest.foreign.tool} if manifest.foreign else {})}
