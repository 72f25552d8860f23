"""Reads the logs of Inspect: ``.eval`` (a zip file with a member for each sample) and ``.json``, of every version.

Samples are read one at a time. A log that was cut off, because the evaluation was killed, is read as far as it goes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ijson

from tomserve.content import bounded, files
from tomserve.errors import ConfigError
from tomserve.interop.foreign import About, Grade, Origin, Sample
from tomserve.interop.grading import grade
from tomserve.interop.inspect_zip import Members
from tomserve.interop.withheld import settings_of
from tomserve.items.item import Factor
from tomserve.status import LENGTH, MALFORMED, TIMEOUT, finished

_ATTACHMENT = "attachment://"
_LIMITS = {"token": LENGTH, "context": LENGTH, "time": TIMEOUT, "working": TIMEOUT}
"""What Inspect's limits of a sample come to; others are broken-off replies."""


class InspectLog:
    """The replies of one log. path: the file, which ends in .eval or .json."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._head: dict[str, Any] | None = None
        self._left: dict[str, list[Any]] = {}
        self._origin: Origin | None = None

    @property
    def _zipped(self) -> bool:
        return self.path.suffix != ".json"

    def origins(self) -> tuple[Origin, ...]:
        """The file with its digest, after all samples were read."""
        return (self._origin,) if self._origin is not None else ()

    @property
    def left_out(self) -> dict[str, tuple[int, str]]:
        """For each reason how many samples were not read, and where the first stands."""
        return {reason: (count, place) for reason, (count, place) in self._left.items()}

    def about(self) -> About:
        """What the log says of itself. Raises ConfigError where it is no log of Inspect."""
        head = self._read_head()
        asked = head["eval"]
        packages = asked.get("packages")
        version = packages.get("inspect_ai") if isinstance(packages, dict) else None
        names = ("task_args", "model_args", "model_generate_config", "config", "dataset", "revision")
        settings = {name: asked[name] for name in names if asked.get(name)}
        if isinstance(dataset := settings.get("dataset"), dict):
            settings["dataset"] = {name: value for name, value in dataset.items() if name != "sample_ids"}
        status = {"status": head["status"]} if isinstance(head.get("status"), str) else {}
        created = asked.get("created")
        return About(
            "inspect",
            version if isinstance(version, str) else None,
            created if isinstance(created, str) else None,
            settings_of({**status, **settings}),
        )

    def _read_head(self) -> dict[str, Any]:
        if self._head is None:
            head = self._zip_head() if self._zipped else self._json_head()
            asked = head.get("eval") if isinstance(head, dict) else None
            if not isinstance(asked, dict) or not isinstance(asked.get("model"), str) or not asked.get("task"):
                raise ConfigError(
                    f"{self.path}: no log of Inspect, which names its task and model in `eval`; expected a file that "
                    "`inspect eval` wrote (.eval or .json)"
                )
            self._head = head
        return self._head

    def _zip_head(self) -> Any:
        members = Members(self.path)
        try:
            for name in ("header.json", "_journal/start.json"):  # without the first the evaluation was broken off
                if name in members.names:
                    return members.json(name)
        except ValueError as error:
            raise ConfigError(f"{self.path}: its head {error}; run the evaluation again or restore the file") from None
        finally:
            members.close()
        return None

    def _json_head(self) -> Any:
        found: dict[str, Any] = {}
        for name in ("status", "eval", "plan"):
            with self._opened() as file:
                try:
                    found[name] = next(ijson.items(file, name, use_float=True), None)
                except ijson.JSONError as error:
                    raise ConfigError(f"{self.path}: not JSON ({_said(error)}); restore the file") from None
        return found

    def _opened(self) -> Any:
        bounded.refuse_hole(self.path)
        try:
            return files.reading(self.path)
        except FileNotFoundError:
            raise ConfigError(f"{self.path}: no such file") from None
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read ({error.strerror})") from None

    def samples(self) -> Iterator[Sample]:
        """The replies, one for each sample and epoch, in the order of the log. Raises ConfigError as `about` does."""
        head = self._read_head()
        for place, data in self._zip_samples() if self._zipped else self._json_samples():
            if not isinstance(data, dict) or "id" not in data:
                self._leave("is no sample of Inspect", place)
                continue
            try:
                yield _sample(data, head, f"{self.path.name}, {place}")
            except (TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError):
                self._leave("has fields of other types than Inspect writes", place)

    def _leave(self, reason: str, place: str) -> None:
        self._left.setdefault(reason, [0, f"{self.path.name}, {place}"])[0] += 1

    def _zip_samples(self) -> Iterator[tuple[str, Any]]:
        members = Members(self.path)
        try:
            for name in members.samples():
                try:
                    data = members.json(name)
                except ValueError as error:
                    self._leave(str(error), name)
                    continue
                yield name, data
            self._origin = members.origin()
        finally:
            members.close()

    def _json_samples(self) -> Iterator[tuple[str, Any]]:
        number = 0
        with self._opened() as file:
            try:
                for number, data in enumerate(ijson.items(file, "samples.item", use_float=True), 1):
                    yield f"sample {number}", data
            except ijson.JSONError as error:
                self._leave(f"cannot be read, nor what follows ({_said(error)})", f"sample {number + 1}")
            file.seek(0)
            sha, size = hashlib.sha256(), 0
            for block in iter(lambda: file.read(1 << 20), b""):
                sha.update(block)
                size += len(block)
            self._origin = Origin(self.path.name, size, f"sha256:{sha.hexdigest()}")


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:100]


def _sample(data: Mapping[str, Any], head: Mapping[str, Any], place: str) -> Sample:
    """The reply of one sample. Raises TypeError and the like where a field is of another type."""
    attached = data.get("attachments") or {}
    output = data.get("output") or {}
    choices = output.get("choices") or []
    message = choices[0]["message"] if choices else None
    text, reasoning = _content(message.get("content") if message else None, attached)
    reason = choices[0].get("stop_reason") if choices else None
    metadata = data.get("metadata") or {}
    told = metadata.get("tomserve")
    ours: Mapping[str, Any] = told if isinstance(told, dict) else {}
    grades, primary = _grades(data.get("scores") or {})
    limit, error = data.get("limit"), data.get("error")
    status = finished(reason) if message is not None else MALFORMED
    if isinstance(limit, dict) and limit.get("type") in _LIMITS:
        status = _LIMITS[limit["type"]]
    elif error:
        status = str(ours.get("status") or MALFORMED)
    usage = output.get("usage") or {}
    epoch = data.get("epoch", 1)
    seconds = output.get("time")
    return Sample(
        id=str(data["id"]),
        task=str(head["eval"]["task"]).rpartition("/")[2],
        model=str(ours.get("model") or head["eval"]["model"]),
        asked=_asked(data, attached),
        text=text if message is not None else None,
        target=_target(data.get("target"), data.get("choices")),
        choices=tuple(map(str, data.get("choices") or ())),
        repeat=ours["sample"] if isinstance(ours.get("sample"), int) else int(epoch) - 1,
        strategy=str(ours["strategy"]) if ours.get("strategy") else _solvers(head.get("plan")),
        item=str(ours["item"]) if ours.get("item") else None,
        status=status,
        error=_message(error),
        reasoning=reasoning,
        finish=reason if isinstance(reason, str) else None,
        usage={
            name: usage[theirs]
            for name, theirs in (("prompt", "input_tokens"), ("completion", "output_tokens"))
            if isinstance(usage.get(theirs), int)
        },
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        grade=grades.get(primary) if primary is not None else None,
        grades=grades,
        facts=_facts(metadata),
        cluster=str(ours["cluster"]) if ours.get("cluster") else None,
        place=place,
    )


def _content(content: Any, attached: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The text of a message and, where it holds some, what the model thought before."""
    if content is None or isinstance(content, str):
        return _resolved(content, attached), None
    texts, thoughts = [], []
    for part in content:
        if isinstance(part, str):
            texts.append(_resolved(part, attached) or "")
        elif part.get("type") == "reasoning":
            thoughts.append(_resolved(part.get("reasoning") or "", attached) or "")
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
    """All that the model was shown before its last reply; the sample's input where the log holds no messages."""
    messages: Sequence[Any] = data.get("messages") or ()
    last = max((place for place, one in enumerate(messages) if one.get("role") == "assistant"), default=len(messages))
    shown = [_content(one.get("content"), attached)[0] for one in messages[:last]]
    if not any(shown):
        given = data.get("input")
        told = given if isinstance(given, list) else [{"content": given}]
        shown = [_content(one.get("content"), attached)[0] for one in told]
    return "\n\n".join(one for one in shown if one)


def _target(target: Any, choices: Any) -> str | None:
    """The right answer; where Inspect names several, the first."""
    if isinstance(target, list):
        target = target[0] if target else None
    del choices  # a letter is resolved where the item is made
    return None if target is None else str(target)


def _grades(scores: Mapping[str, Any]) -> tuple[dict[str, Grade], str | None]:
    """All grades by scorer (``scorer/key`` where one gives several values), and the name of the first."""
    found: dict[str, Grade] = {}
    for name, score in scores.items():
        value, answer = score.get("value"), score.get("answer")
        answer = answer if isinstance(answer, str) else None
        if isinstance(value, dict):
            found |= {f"{name}/{key}": grade(f"{name}/{key}", one, answer) for key, one in value.items()}
        else:
            found[name] = grade(name, value, answer)
    return found, next(iter(found), None)


def _solvers(plan: Any) -> str | None:
    """The way of asking, as the names of the solvers."""
    steps = plan.get("steps") if isinstance(plan, dict) else None
    names = [str(one.get("solver", "")).rpartition("/")[2] for one in steps or () if isinstance(one, dict)]
    text = "+".join(name for name in names if name).replace("/", "-")
    return text[:100] or None


def _message(error: Any) -> str | None:
    text = error.get("message") if isinstance(error, dict) else error
    return str(text)[:2000] if text else None


def _facts(metadata: Mapping[str, Any]) -> dict[str, Factor]:
    """What the metadata tell in single values, and in one table of them, such as `factors`."""
    found: dict[str, Factor] = {}
    for name, value in metadata.items():
        if isinstance(value, str | bool | int | float):
            found[name] = value
    return found
