"""What a sample in a log of Inspect says of one reply, whichever version of Inspect wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tomserve.interop.foreign import Grade, Sample
from tomserve.interop.grading import grade
from tomserve.items.item import Factor
from tomserve.status import LENGTH, MALFORMED, TIMEOUT, finished

_ATTACHMENT = "attachment://"
_LIMITS = {"token": LENGTH, "context": LENGTH, "time": TIMEOUT, "working": TIMEOUT}
"""What Inspect's limits of a sample come to; a reply that came before another limit is whole."""

_LONGEST = 2000
"""Most characters of an error that are kept."""

WRONG_TYPE = (TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError, OverflowError)
"""What `sample_of` raises where a field is of another type than Inspect writes."""


def sample_of(data: Mapping[str, Any], head: Mapping[str, Any], place: str) -> Sample:
    """The reply of one sample. data: the sample. head: of the log. place: where it stands. Raises WRONG_TYPE where a
    field is of another type."""
    attached = data.get("attachments") or {}
    output = data.get("output") or {}
    choices = output.get("choices") or []
    message = choices[0]["message"] if choices else None
    text, reasoning = _content(message.get("content") if message else None, attached)
    reason = choices[0].get("stop_reason") if choices else None
    metadata = data.get("metadata") or {}
    told = metadata.get("tomserve")
    ours: Mapping[str, Any] = told if isinstance(told, dict) else {}
    grades = _grades(data.get("scores") or {})
    status, error = _ended(data, ours, finished(_text(reason)) if message is not None else MALFORMED)
    seconds = output.get("time")
    epoch = data.get("epoch", 1)
    item = str(ours["item"]) if ours.get("item") else None
    return Sample(
        id=item or str(data["id"]),
        task=str(head["eval"]["task"]).rpartition("/")[2],
        model=str(ours.get("model") or head["eval"]["model"]),
        asked=_asked(data, attached),
        text=text if message is not None else None,
        target=_target(data.get("target")),
        choices=tuple(map(str, data.get("choices") or ())),
        given=_given(data.get("input"), attached),
        repeat=ours["sample"] if isinstance(ours.get("sample"), int) else int(epoch) - 1,
        strategy=str(ours["strategy"]) if ours.get("strategy") else _solvers(head.get("plan")),
        item=item,
        ours=item is not None,
        status=status,
        error=error,
        reasoning=reasoning,
        finish=_text(reason),
        usage=_usage(output.get("usage") or {}),
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        grade=next(iter(grades.values()), None),
        grades=grades,
        facts=_facts(metadata, ours.get("factors")),
        cluster=str(ours["cluster"]) if ours.get("cluster") else None,
        place=place,
    )


def _ended(data: Mapping[str, Any], ours: Mapping[str, Any], status: str) -> tuple[str, str | None]:
    """How a reply ended, and its error. status: what the server's reason for its end makes of it."""
    kept = _text(ours.get("status"))
    if kept is not None:  # an export of ours tells how each reply ended
        return kept, _message(ours.get("error"))
    limit, error = data.get("limit"), data.get("error")
    if isinstance(limit, dict) and limit.get("type") in _LIMITS:
        status = _LIMITS[limit["type"]]
    elif error:
        status = MALFORMED
    return status, _message(error)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _content(content: Any, attached: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The text of a message and, where it holds some, what the model thought before."""
    if content is None or isinstance(content, str):
        return _resolved(content, attached), None
    texts, thoughts = [], []
    for part in content:
        if isinstance(part, str):
            texts.append(_resolved(part, attached) or "")
        elif part.get("type") == "reasoning":
            thoughts.append(_resolved(part.get("reasoning") or part.get("summary") or "", attached) or "")
        elif part.get("type") == "text":
            texts.append(_resolved(part.get("text") or "", attached) or "")
    return "\n".join(texts), "\n".join(thoughts) or None


def _resolved(text: str | None, attached: Mapping[str, Any]) -> str | None:
    """The text, or what it stands for where it names an attachment of the sample."""
    if text is not None and text.startswith(_ATTACHMENT):
        found = attached.get(text.removeprefix(_ATTACHMENT))
        return found if isinstance(found, str) else text
    return text


def _asked(data: Mapping[str, Any], attached: Mapping[str, Any]) -> str:
    """All that the model was shown before its last reply; the sample's input where the log holds no messages. What an
    assistant says in the input, as in a demonstration, is no reply."""
    messages: Sequence[Any] = data.get("messages") or ()
    begun = len(given) if isinstance(given := data.get("input"), list) else 0
    said = (place for place, one in enumerate(messages) if place >= begun and one.get("role") == "assistant")
    last = max(said, default=len(messages))
    shown = [_content(one.get("content"), attached)[0] for one in messages[:last]]
    return "\n\n".join(one for one in shown if one) or _given(data.get("input"), attached)


def _given(given: Any, attached: Mapping[str, Any]) -> str:
    """The input of a sample: a text, or messages."""
    told = given if isinstance(given, list) else [{"content": given}]
    shown = [_content(one.get("content"), attached)[0] for one in told]
    return "\n\n".join(one for one in shown if one)


def _target(target: Any) -> str | None:
    """The right answer; where Inspect names several, the first."""
    if isinstance(target, list):
        target = target[0] if target else None
    return None if target is None else str(target)


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    """Numbers of tokens by the names of the OpenAI API."""
    pairs = {"prompt": usage.get("input_tokens"), "completion": usage.get("output_tokens")}
    return {name: count for name, count in pairs.items() if type(count) is int and 0 <= count < 2**53}


def _grades(scores: Mapping[str, Any]) -> dict[str, Grade]:
    """All grades by scorer (``scorer/key`` where one gives several values)."""
    found: dict[str, Grade] = {}
    for name, score in scores.items():
        value, answer = score.get("value"), score.get("answer")
        answer = answer if isinstance(answer, str) else None
        if isinstance(value, dict):
            found |= {f"{name}/{key}": grade(f"{name}/{key}", one, answer) for key, one in value.items()}
        else:
            found[name] = grade(name, value, answer)
    return found


def _solvers(plan: Any) -> str | None:
    """The way of asking, as the names of the solvers."""
    steps = plan.get("steps") if isinstance(plan, dict) else None
    names = [str(one.get("solver", "")).rpartition("/")[2] for one in steps or () if isinstance(one, dict)]
    return "+".join(name for name in names if name)[:100] or None


def _message(error: Any) -> str | None:
    text = error.get("message") if isinstance(error, dict) else error
    return str(text)[:_LONGEST] if text else None


def _facts(metadata: Mapping[str, Any], factors: Any) -> dict[str, Factor]:
    """What the metadata tell in single values. factors: the names of those that are factors, where a log of ours lists
    them; the others only serve Inspect."""
    listed = factors if isinstance(factors, list) else metadata
    return {
        name: value
        for name, value in metadata.items()
        if name in listed and isinstance(value, str | bool | int | float)
    }
