"""One scored reply as a sample of an Inspect log, and its summary, which the log keeps apart.

The fields are those of Inspect's own ``EvalSample`` and ``EvalSampleSummary``, written without any package of Inspect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from tomserve.interop.answered import Answered
from tomserve.interop.transcripts import Said, Transcripts
from tomserve.interop.withheld import settings_of
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
    """Makes samples of the replies to one way of asking.

    run: the name of the run. model: what the log calls the model. talks: the conversations, for a strategy of several
    turns; None for one that asks once.
    """

    def __init__(self, run: str | None, model: str, talks: Transcripts | None) -> None:
        self._run, self._model, self._talks = run, model, talks

    def of(self, one: Answered) -> Sample:
        """The sample of a reply."""
        identity = _digest(f"{self._run}\n{one.strategy}\n{one.item.id}\n{one.sample}")
        shown = [_asked(identity, place, message) for place, message in enumerate(one.messages)]
        reply = self._reply(identity, "reply", one.row.get("text"), one.row.get("reasoning"))
        messages, turns = self._said(one, identity)
        if not turns:
            messages, turns = [*shown, *([reply] if reply["content"] else [])], 1
        usage = tokens(one.row.get("usage"))
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
        if (answered := moment(one.row.get("time"))) is not None:
            sample["completed_at"] = answered
        if (seconds := seconds_of(one.row)) is not None:
            sample["total_time"] = sample["working_time"] = seconds
        if failed(one):
            sample["error"] = {"message": error_of(one), "traceback": "", "traceback_ansi": ""}
        return sample

    def _said(self, one: Answered, identity: str) -> tuple[list[Sample], int]:
        """The messages of a conversation of several turns, and how many turns it had; none for one turn."""
        if self._talks is None:
            return [], 0
        talk = self._talks.of(one)
        return [self._message(identity, place, said) for place, said in enumerate(talk.messages)], len(talk.rows)

    def _message(self, identity: str, place: int, said: Said) -> Sample:
        if said.turn is None:
            return _asked(identity, place, {"role": said.role, "content": said.content or ""})
        return self._reply(identity, f"message-{place}", said.content, said.reasoning)

    def _reply(self, identity: str, name: str, text: str | None, thoughts: str | None) -> Sample:
        content: Any = text or ""
        if thoughts:
            content = [{"type": "reasoning", "reasoning": thoughts}, {"type": "text", "text": text or ""}]
        own = f"{name}-{identity[:16]}"
        return {"id": own, "role": "assistant", "content": content, "source": "generate", "model": self._model}

    def _output(self, one: Answered, reply: Sample, usage: Mapping[str, int]) -> dict[str, Any]:
        """What Inspect takes for the reply that is scored: of a conversation, what it came to."""
        reason = _ENDS.get(one.row["status"], "unknown")
        there = not failed(one) or bool(reply["content"])
        seconds = seconds_of(one.row)
        return {
            "model": self._model,
            "choices": [{"message": reply, "stop_reason": reason}] if there else [],
            "completion": one.row.get("text") or "",
            **({"usage": dict(usage)} if usage else {}),
            **({"time": seconds} if seconds is not None else {}),
            **({"error": error_of(one)} if failed(one) else {}),
        }


def failed(one: Answered) -> bool:
    """Whether the request failed, so that the model said nothing of its own."""
    return one.row["status"] not in ANSWERS and one.row["status"] != REFUSAL


def summary_of(sample: Sample) -> dict[str, Any]:
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


def tokens(usage: Any) -> dict[str, int]:
    """Numbers of tokens by Inspect's names; none where the server did not count them."""
    if not isinstance(usage, Mapping):
        return {}
    asked, said = usage.get("prompt"), usage.get("completion")
    if type(asked) is not int or type(said) is not int:
        return {}
    return {"input_tokens": asked, "output_tokens": said, "total_tokens": asked + said}


def moment(time: Any) -> str | None:
    """A time as Inspect writes it, in UTC and to the second; None for what is none, as files may come from anybody.

    >>> moment("2026-11-22T12:14:04Z"), moment("yesterday")
    ('2026-11-22T12:14:04+00:00', None)
    """
    try:
        found = datetime.fromisoformat(time)
        found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return found.astimezone(UTC).isoformat(timespec="seconds")
    except (TypeError, ValueError, OverflowError):
        return None


def seconds_of(row: Mapping[str, Any]) -> float | None:
    """How long a reply took, as the journal says it; None where it does not."""
    timings = row.get("timings")
    found = timings.get("total_s") if isinstance(timings, Mapping) else None
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _asked(identity: str, place: int, message: Mapping[str, str]) -> Sample:
    own = f"input-{place}-{identity[:16]}"
    return {"id": own, "role": message["role"], "content": message["content"], "source": "input"}


def error_of(one: Answered) -> str:
    """What is said of a failure: the reason that the journal keeps, without addresses' passwords; else the status."""
    reason = settings_of(str(one.row["error"])) if one.row.get("error") else ""
    return str(reason or one.row["status"])


def _score(one: Answered) -> dict[str, Any]:
    """The score of a reply: C or I, what was read, why nothing was, and the chain metrics."""
    score = one.score
    more = {name: value for name, value in score.items() if value is not None and name.startswith(("chain", "metric_"))}
    more |= {name: score[name] for name in ("answer_matches_last", "status", "parse") if score.get(name) is not None}
    return {
        "value": "C" if score["correct"] else "I",
        "answer": score["answer"],
        "explanation": error_of(one) if one.row.get("error") else score["reason"] or one.row.get("text"),
        **({"reason": reason} if (reason := _reason(one)) is not None else {}),
        "metadata": more,
    }


def _reason(one: Answered) -> str | None:
    """Inspect's word for what was wrong with a reply in which no answer was read; None where one was."""
    if one.score["answer"] is not None or one.score["correct"] or not one.score["reason"]:
        return None
    if one.row["status"] == REFUSAL:
        return "refusal"
    return "invalid_response_format" if one.row.get("text") and not failed(one) else "no_response"


def _metadata(one: Answered, run: str | None) -> dict[str, Any]:
    """The factors of a question, and what an import needs to find it again.

    The cluster stands apart, so that Inspect's `stderr(cluster="cluster")` finds it."""
    ours = {
        "item": one.item.id,
        "strategy": one.strategy,
        "sample": one.sample,
        "run": run,
        "benchmark": one.item.benchmark,
        "cluster": one.item.cluster,
        "status": one.row["status"],
        "model": one.row["model"],
        "factors": sorted(one.item.factors),
        **({"error": error_of(one)} if one.row.get("error") else {}),
    }
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
