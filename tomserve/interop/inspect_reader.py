"""Reads the logs of Inspect: ``.eval`` (a zip file with a member for each sample) and ``.json``, of every version.

Samples are read one at a time and within bounds. A log that was cut off, because the evaluation was killed, is read
as far as it goes. Inspect writes a score that is no number as ``NaN``, which JSON does not know; here it becomes
null. Nothing is written to disk, so that the names of members can lead nowhere.

>>> parse_json(b'{"value": NaN, "text": "NaN"}')
{'value': None, 'text': 'NaN'}
"""

import contextlib
import copy
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import orjson
import zstandard

from tomserve.content import digest, files
from tomserve.engine.redact import redact_settings
from tomserve.errors import ConfigError
from tomserve.interop.samples import (
    GRADES_PER_REPLY,
    TOO_MANY_GRADES,
    Grade,
    Sample,
    Source,
    SourceAbout,
    as_text,
    facts_of,
    open_source,
    parse_grade,
)
from tomserve.status import LENGTH, MALFORMED, REFUSAL, TIMEOUT, finished

_ATTACHMENT = "attachment://"
_LIMITS = {"token": LENGTH, "context": LENGTH, "time": TIMEOUT, "working": TIMEOUT}
"""What Inspect's limits of a sample come to; a reply that came before another limit is whole."""

_LONGEST = 2000
"""Most characters of an error that are kept."""


class LeftOutError(ValueError):
    """A sample is not read; the text says why, as it is counted."""


class Attachments:
    """The attachments of a sample, which its texts name in their place. One may be named a million times: together
    the texts have at most as many characters as a line of a run. Raises LeftOutError for more."""

    def __init__(self, held: Mapping[str, Any]) -> None:
        self._held, self._left = held, files.LONGEST_LINE

    def resolve(self, text: str) -> str:
        """The text, or what it stands for where it names an attachment."""
        found = self._held.get(text.removeprefix(_ATTACHMENT)) if text.startswith(_ATTACHMENT) else None
        if not isinstance(found, str):
            return text
        self._left -= len(found)
        if self._left < 0:
            raise LeftOutError(f"would have more than {files.LONGEST_LINE >> 20} MB with its attachments")
        return found


WRONG_TYPE = (TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError, OverflowError)
"""What `read_sample` raises where a field is of another type than Inspect writes."""


def read_sample(data: Mapping[str, Any], head: Mapping[str, Any], place: str) -> Sample:
    """The reply of one sample. data: the sample. head: of the log. place: where it stands. Raises WRONG_TYPE where a
    field is of another type."""
    attached = Attachments(data.get("attachments") or {})
    output = data.get("output") or {}
    choices = output.get("choices") or []
    message = choices[0]["message"] if choices else None
    text, reasoning = _content(message.get("content") if message else None, attached)
    reason = choices[0].get("stop_reason") if choices else None
    metadata = data.get("metadata") or {}
    own = metadata.get("tomserve")
    ours: Mapping[str, Any] = own if isinstance(own, dict) else {}
    grades = _grades(data.get("scores") or {})
    status, error = _reply_end(data, ours, finished(as_text(reason)) if message is not None else MALFORMED)
    if status == REFUSAL and not ours.get("status") and error is None and reason:
        error = f"held back by the server (finish_reason {as_text(reason)!r})"
    seconds = output.get("time")
    epoch = data.get("epoch", 1)
    item = str(ours["item"]) if ours.get("item") else None
    return Sample(
        id=item or str(data["id"]),
        task=str(head["eval"]["task"]).rpartition("/")[2],
        model=str(ours.get("model") or head["eval"]["model"]),
        asked=_prompt_text(data, attached),
        text=text if message is not None else None,
        target=_target(data.get("target")),
        choices=tuple(map(str, data.get("choices") or ())),
        given=_input_text(data.get("input"), attached),
        repeat=ours["sample"] if isinstance(ours.get("sample"), int) else int(epoch) - 1,
        strategy=str(ours["strategy"]) if ours.get("strategy") else _solvers(head.get("plan")),
        item=item,
        ours=item is not None,
        unread=ours["unread"] if isinstance(ours.get("unread"), str) else None,
        status=status,
        error=error,
        reasoning=reasoning,
        finish=as_text(reason),
        usage=_usage(output.get("usage") or {}),
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        grade=next(iter(grades.values()), None),
        grades=grades,
        facts=facts_of(metadata, ours.get("factors")),
        cluster=str(ours["cluster"]) if ours.get("cluster") else None,
        place=place,
    )


def _reply_end(data: Mapping[str, Any], ours: Mapping[str, Any], status: str) -> tuple[str, str | None]:
    """How a reply ended, and its error. status: what the server's reason for its end makes of it."""
    kept = as_text(ours.get("status"))
    if kept is not None:  # an export of ours tells how each reply ended
        return kept, _message(ours.get("error"))
    limit, error = data.get("limit"), data.get("error")
    if isinstance(limit, dict) and limit.get("type") in _LIMITS:
        status = _LIMITS[limit["type"]]
    elif error:
        status = MALFORMED
    return status, _message(error)


def _content(content: Any, attached: Attachments) -> tuple[str | None, str | None]:
    """The text of a message and, where it holds some, what the model thought before."""
    if content is None or isinstance(content, str):
        return None if content is None else attached.resolve(content), None
    texts, thoughts = [], []
    for part in content:
        if isinstance(part, str):
            texts.append(attached.resolve(part))
        elif part.get("type") == "reasoning":
            thoughts.append(attached.resolve(part.get("reasoning") or part.get("summary") or ""))
        elif part.get("type") == "text":
            texts.append(attached.resolve(part.get("text") or ""))
    return "\n".join(texts), "\n".join(thoughts) or None


def _prompt_text(data: Mapping[str, Any], attached: Attachments) -> str:
    """All that the model was shown before its last reply; the sample's input where the log holds no messages. What an
    assistant says in the input, as in a demonstration, is no reply."""
    messages: Sequence[Any] = data.get("messages") or ()
    first = len(given) if isinstance(given := data.get("input"), list) else 0
    said = (place for place, one in enumerate(messages) if place >= first and one.get("role") == "assistant")
    last = max(said, default=len(messages))
    shown = [_content(one.get("content"), attached)[0] for one in messages[:last]]
    return "\n\n".join(one for one in shown if one) or _input_text(data.get("input"), attached)


def _input_text(given: Any, attached: Attachments) -> str:
    """The input of a sample: a text, or messages."""
    messages = given if isinstance(given, list) else [{"content": given}]
    shown = [_content(one.get("content"), attached)[0] for one in messages]
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
    """All grades by scorer (``scorer/key`` where one gives several values). Raises LeftOutError."""
    found: dict[str, Grade] = {}
    for name, score in scores.items():
        value, answer = score.get("value"), score.get("answer")
        answer = answer if isinstance(answer, str) else None
        if len(found) + (len(value) if isinstance(value, dict) else 1) > GRADES_PER_REPLY:
            raise LeftOutError(TOO_MANY_GRADES)
        if isinstance(value, dict):
            found |= {f"{name}/{key}": parse_grade(f"{name}/{key}", one, answer) for key, one in value.items()}
        else:
            found[name] = parse_grade(name, value, answer)
    return found


def _solvers(plan: Any) -> str | None:
    """The way of asking, as the names of the solvers."""
    steps = plan.get("steps") if isinstance(plan, dict) else None
    names = [str(one.get("solver", "")).rpartition("/")[2] for one in steps or () if isinstance(one, dict)]
    return "+".join(name for name in names if name)[:100] or None


def _message(error: Any) -> str | None:
    text = error.get("message") if isinstance(error, dict) else error
    return str(text)[:_LONGEST] if text else None


LARGEST = 1 << 27
"""The most bytes of one part that is held in memory. A sample with all its events has rarely more than a few
megabytes."""

_BLOCK = 1 << 16
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(
    parse_constant=lambda name: None,
    parse_int=lambda text: int(text) if len(text) < 21 and -(2**63) <= int(text) < 2**63 else float(text),
)
"""Reads JSON also where Inspect wrote NaN or Infinity, which become null, or a number of more than 64 bits."""


def parse_json(data: bytes) -> Any:
    """What JSON holds, also where Inspect wrote a number that JSON has no name for. Raises ValueError."""
    try:
        return files.load_json(data)
    except orjson.JSONDecodeError as error:
        try:
            return files.load_json(data.decode(), _DECODER.decode)
        except (ValueError, RecursionError):
            raise ValueError(f"is no JSON that can be read ({error.msg})") from None


def _give(value: Any, _text: str) -> Any:
    return value


class _JsonStream:
    """A large file of JSON, of which one value after the other is read. What it does not hold raises ValueError."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = io.TextIOWrapper(file, "utf-8")
        self._text, self._at = "", 0

    def _read_more(self) -> bool:
        if (left := len(self._text) - self._at) > LARGEST:
            raise ValueError(f"has more than {LARGEST >> 20:,} MB in one part")
        block = self._file.read(max(_BLOCK, left))
        self._text, self._at = self._text[self._at :] + block, 0
        return bool(block)

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found is not None else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more():
                return ""

    def take(self, expected: str) -> str:
        """The next character, which has to be one of these."""
        if not (found := self.peek()) or found not in expected:
            raise ValueError(f"expected {expected[0]!r}, found {found!r}" if found else "is cut off")
        self._at += 1
        return found

    def value(self) -> Any:
        """The next value."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise ValueError("has values that lie too deep in each other") from None
            except json.JSONDecodeError as error:
                if not self._read_more():
                    raise ValueError(f"{error.msg}, or is cut off") from None
                continue
            if end < len(self._text) or not self._read_more():  # else a number may go on
                text, self._at = self._text[self._at : end], end
                return files.load_json(text, partial(_give, value))  # within the same bounds as any JSON

    def elements(self, opening: str, closing: str) -> Iterator[None]:
        """Steps to each element of a list, or each field of an object, whose value has to be read then."""
        self.take(opening)
        if self.peek() == closing:
            self.take(closing)
            return
        yield
        while self.take(f",{closing}") == ",":
            yield


def read_fields(path: Path) -> Iterator[tuple[str, Any]]:
    """The fields of the object in a large file of JSON, one after the other; of `samples` each sample by itself.

    Raises ConfigError where the file cannot be opened, and ValueError, after the values that stand before it, where it
    is no JSON, or a value is longer than LARGEST.
    """
    with open_source(path) as file:
        stream = _JsonStream(file)
        if stream.peek() != "{":
            return
        for _ in stream.elements("{", "}"):
            name = stream.value()
            stream.take(":")
            if name == "samples" and stream.peek() == "[":
                yield from ((name, stream.value()) for _ in stream.elements("[", "]"))
            else:
                yield name, stream.value()


ZSTANDARD = 93
"""The number of the method in zip files."""

RATIO, SMALL = 1000, 1 << 24
"""A member above SMALL bytes that is packed more tightly than this was made to fill somebody's memory."""

TOTAL, TIGHTEST = 1 << 28, 100
"""A log of more bytes in all is refused where it is packed more tightly than this: one is packed ten times or less."""

MEMBERS = 2_000_000
"""The most members of a log."""


@contextlib.contextmanager
def open_members(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip file. Raises ConfigError where it is none, is torn off, has too many members or would fill the disk."""
    with open_source(path) as file:
        try:
            members = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError) as error:
            if path.suffix != ".eval":
                raise ConfigError(
                    f"{path}: no log of Inspect, which ends in .eval or .json; give one, or read spreadsheets by "
                    "`tomserve import csv`, JSON lines by `jsonl`, and samples of lm-eval by `lm-eval`"
                ) from None
            raise ConfigError(
                f"{path}: no whole zip file ({error}); expected a log of Inspect (.eval) whose copying was not broken "
                "off; copy it again, or convert it by `inspect log convert --to json`"
            ) from None
        if len(members.filelist) > MEMBERS:
            raise ConfigError(f"{path}: has {len(members.filelist):,} members; expected at most {MEMBERS:,}")
        sizes = (one.file_size for one in members.filelist if one.file_size <= LARGEST)  # of those that are unpacked
        size, packed = sum(sizes), path.stat().st_size
        if size > max(TOTAL, TIGHTEST * packed):
            raise ConfigError(f"{path}: would have {size >> 20:,} MB in all, unpacked from {packed >> 10:,} kB")
        yield members


def read_member(members: zipfile.ZipFile, name: str) -> Any:
    """What a member holds as JSON; of two of one name the later counts, as in Inspect. Raises ValueError that says what
    is wrong with it."""
    member = members.getinfo(name)
    if member.flag_bits & 1:
        raise ValueError("is encrypted")
    size, packed = member.file_size, member.compress_size
    if max(size, packed) > LARGEST or (size > SMALL and size > RATIO * max(packed, 1)):
        raise ValueError(f"would have {size >> 20:,} MB, unpacked from {packed >> 10:,} kB")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTANDARD):
        raise ValueError(f"is packed by a method that is not known (number {member.compress_type})")
    try:
        if member.compress_type != ZSTANDARD:
            with members.open(member) as file:  # which unpacks no more than is asked for, whatever the member holds
                return parse_json(file.read(size))
        stored = copy.copy(member)  # so that the zip file hands out the bytes as they are
        stored.compress_type, stored.file_size = zipfile.ZIP_STORED, packed
        del stored.CRC
        with members.open(stored) as file:
            text = unpack_zstandard(file, size)
    except (zipfile.BadZipFile, zlib.error, zstandard.ZstdError, EOFError, NotImplementedError) as error:
        raise ValueError(f"cannot be unpacked ({error})") from None
    if len(text) != size or zlib.crc32(text) != member.CRC:
        raise ValueError("does not have the length and checksum that the list of members says")
    return parse_json(text)


def unpack_zstandard(file: IO[bytes], size: int) -> bytes:
    """What a file holds that is packed so, of which no more than one byte above the promised size is unpacked."""
    found = bytearray()
    with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, read_across_frames=True) as unpacked:
        while len(found) <= size and (block := unpacked.read(min(1 << 20, size + 1 - len(found)))):
            found += block
    return bytes(found)


HEADS = ("header.json", "_journal/start.json")
"""Members that say what was evaluated; the second alone where the evaluation was killed."""

_RECORDED = ("task_args", "model_args", "model_generate_config", "config", "dataset", "revision")
"""What a log says of how the model was asked."""

_KEPT_OF_DATASET = ("name", "location", "samples", "shuffled")


class InspectLog(Source):
    """The replies of one log. path: the file, which ends in .eval or .json."""

    _head: dict[str, Any] | None = None

    def about(self) -> SourceAbout:
        """What the log says of itself. Raises ConfigError where it is no log of Inspect."""
        head = self._read_head()
        asked = head["eval"]
        packages = asked.get("packages")
        settings = {name: asked[name] for name in _RECORDED if asked.get(name)}
        if isinstance(dataset := settings.get("dataset"), dict):
            settings["dataset"] = {name: dataset.get(name) for name in _KEPT_OF_DATASET}
        status = {"status": head["status"]} if isinstance(head.get("status"), str) else {}
        steps = head["plan"].get("steps") if isinstance(head.get("plan"), dict) else None
        if isinstance(steps, list) and any(isinstance(one, dict) and one.get("params") for one in steps):
            with contextlib.suppress(TypeError):  # where they nest too deeply
                settings["steps"] = digest(orjson.dumps(steps, option=orjson.OPT_SORT_KEYS))  # prompts may be long
        return SourceAbout(
            "inspect",
            as_text(packages.get("inspect_ai")) if isinstance(packages, dict) else None,
            as_text(asked.get("created")),
            redact_settings({**status, **settings}),
        )

    def _read_head(self) -> dict[str, Any]:
        if self._head is None:
            head = self._json_head() if self.path.suffix == ".json" else self._zip_head()
            asked = head.get("eval") if isinstance(head, dict) else None
            if not isinstance(asked, dict) or not isinstance(asked.get("model"), str) or not asked.get("task"):
                raise ConfigError(
                    f"{self.path}: no log of Inspect, which names its task and model in `eval`; expected a file that "
                    "`inspect eval` wrote (.eval or .json)"
                )
            self._head = head
        return self._head

    def _zip_head(self) -> Any:
        with open_members(self.path) as members:
            try:
                return next((read_member(members, name) for name in HEADS if name in members.namelist()), None)
            except ValueError as error:
                raise ConfigError(
                    f"{self.path}: its head {error}; run the evaluation again or restore the file"
                ) from None

    def _json_head(self) -> Any:
        found: dict[str, Any] = {}
        try:
            for name, value in read_fields(self.path):
                if name in ("status", "eval", "plan"):
                    found[name] = value
                if len(found) == 3 or (name == "samples" and "eval" in found):
                    break
        except ValueError as error:
            if "eval" not in found:
                raise ConfigError(f"{self.path}: not JSON ({error}); restore the file") from None
        return found

    def samples(self) -> Iterator[Sample]:
        """The replies, one for each sample and epoch, in the order of the log. Raises ConfigError as `about` does."""
        head = self._read_head()
        count = 0
        for place, data in self._json_samples() if self.path.suffix == ".json" else self._zip_samples():
            if not isinstance(data, dict) or "id" not in data:
                self.leave("is no sample of Inspect", place)
                continue
            try:
                sample = read_sample(data, head, f"{self.path.name}, {place}")
            except LeftOutError as error:
                self.leave(str(error), place)
                continue
            except WRONG_TYPE:
                self.leave("has fields of other types than Inspect writes", place)
                continue
            count += 1
            yield sample
        self._note_missing(head, count)

    def _note_missing(self, head: dict[str, Any], count: int) -> None:
        """Count the samples that a log without success should hold besides those that it holds."""
        status = head.get("status") or "started"
        if status == "success":
            return
        dataset, config = head["eval"].get("dataset"), head["eval"].get("config")
        names = dataset.get("sample_ids") if isinstance(dataset, dict) else None
        epochs = config.get("epochs") if isinstance(config, dict) else None
        wanted = (len(names) if isinstance(names, list) else 0) * (epochs if type(epochs) is int else 1)
        missing = wanted - count - sum(number for number, _ in self.left_out.values())
        if missing > 0:
            reason = f"is not in the log, because the evaluation did not end (status {str(status)[:20]!r})"
            self.left_out[reason] = (missing, self.path.name)

    def _zip_samples(self) -> Iterator[tuple[str, Any]]:
        with open_members(self.path) as members:
            for name in dict.fromkeys(members.namelist()):
                if name.startswith("samples/") and name.endswith(".json"):
                    try:
                        data = read_member(members, name)
                    except ValueError as error:
                        self.leave(str(error), name)
                    else:
                        yield name, data

    def _json_samples(self) -> Iterator[tuple[str, Any]]:
        number = 0
        try:
            for name, data in read_fields(self.path):
                if name == "samples":
                    number += 1
                    yield f"sample {number}", data
        except ValueError as error:
            self.leave(f"cannot be read, nor what follows ({error})", f"sample {number + 1}")
