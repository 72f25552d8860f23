"""Reads the logs of Inspect: ``.eval`` (a zip file with a member for each sample) and ``.json``, of every version.

Samples are read one at a time and within bounds. A log that was cut off, because the evaluation was killed, is read
as far as it goes. Inspect writes a score that is no number as ``NaN``, which JSON does not know; here it becomes
null. Nothing is written to disk, so that the names of members can lead nowhere.

>>> parse_json(b'{"value": NaN, "text": "NaN"}')
{'value': None, 'text': 'NaN'}
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import ijson
import orjson
import zstandard

from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.interop.samples import Grade, LeftOut, Origin, Sample, SourceAbout, parse_grade, redact_settings
from tomserve.items.item import Factor
from tomserve.status import LENGTH, MALFORMED, TIMEOUT, finished

_ATTACHMENT = "attachment://"
_LIMITS = {"token": LENGTH, "context": LENGTH, "time": TIMEOUT, "working": TIMEOUT}
"""What Inspect's limits of a sample come to; a reply that came before another limit is whole."""

_LONGEST = 2000
"""Most characters of an error that are kept."""

WRONG_TYPE = (TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError, OverflowError)
"""What `read_sample` raises where a field is of another type than Inspect writes."""


def read_sample(data: Mapping[str, Any], head: Mapping[str, Any], place: str) -> Sample:
    """The reply of one sample. data: the sample. head: of the log. place: where it stands. Raises WRONG_TYPE where a
    field is of another type."""
    attached = data.get("attachments") or {}
    output = data.get("output") or {}
    choices = output.get("choices") or []
    message = choices[0]["message"] if choices else None
    text, reasoning = _content(message.get("content") if message else None, attached)
    reason = choices[0].get("stop_reason") if choices else None
    metadata = data.get("metadata") or {}
    own = metadata.get("tomserve")
    ours: Mapping[str, Any] = own if isinstance(own, dict) else {}
    grades = _grades(data.get("scores") or {})
    status, error = _reply_end(data, ours, finished(_text(reason)) if message is not None else MALFORMED)
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


def _reply_end(data: Mapping[str, Any], ours: Mapping[str, Any], status: str) -> tuple[str, str | None]:
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
        return _resolve_attachment(content, attached), None
    texts, thoughts = [], []
    for part in content:
        if isinstance(part, str):
            texts.append(_resolve_attachment(part, attached) or "")
        elif part.get("type") == "reasoning":
            thoughts.append(_resolve_attachment(part.get("reasoning") or part.get("summary") or "", attached) or "")
        elif part.get("type") == "text":
            texts.append(_resolve_attachment(part.get("text") or "", attached) or "")
    return "\n".join(texts), "\n".join(thoughts) or None


def _resolve_attachment(text: str | None, attached: Mapping[str, Any]) -> str | None:
    """The text, or what it stands for where it names an attachment of the sample."""
    if text is not None and text.startswith(_ATTACHMENT):
        found = attached.get(text.removeprefix(_ATTACHMENT))
        return found if isinstance(found, str) else text
    return text


def _prompt_text(data: Mapping[str, Any], attached: Mapping[str, Any]) -> str:
    """All that the model was shown before its last reply; the sample's input where the log holds no messages. What an
    assistant says in the input, as in a demonstration, is no reply."""
    messages: Sequence[Any] = data.get("messages") or ()
    first = len(given) if isinstance(given := data.get("input"), list) else 0
    said = (place for place, one in enumerate(messages) if place >= first and one.get("role") == "assistant")
    last = max(said, default=len(messages))
    shown = [_content(one.get("content"), attached)[0] for one in messages[:last]]
    return "\n\n".join(one for one in shown if one) or _input_text(data.get("input"), attached)


def _input_text(given: Any, attached: Mapping[str, Any]) -> str:
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
    """All grades by scorer (``scorer/key`` where one gives several values)."""
    found: dict[str, Grade] = {}
    for name, score in scores.items():
        value, answer = score.get("value"), score.get("answer")
        answer = answer if isinstance(answer, str) else None
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


def _facts(metadata: Mapping[str, Any], factors: Any) -> dict[str, Factor]:
    """What the metadata tell in single values. factors: the names of those that are factors, where a log of ours lists
    them; the others only serve Inspect."""
    listed = factors if isinstance(factors, list) else metadata
    return {
        name: value
        for name, value in metadata.items()
        if name in listed and isinstance(value, str | bool | int | float)
    }


LARGEST = 1 << 27
"""The most bytes of one part that is held in memory. A sample with all its events has rarely more than a few
megabytes."""

DEEPEST = 1000
"""How deeply values may lie in each other. ijson names each by the names of all around it, so that a small file of
nothing but brackets would take all memory."""

_BLOCK, _MORE = 1 << 16, 1 << 12
"""How many bytes a block has, and how many more so that it does not end in the middle of a number."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.S)
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)|-?(?:NaN|Infinity)|(?<![\d.])\d{19,}(?![\d.eE])', re.S)
_ODD = re.compile(rb"[NI]|\d{19}")
"""What is in a block, outside of texts, only where it holds a number that is none, or one of more than 64 bits."""

_SPLIT = frozenset(b"NaInfity-\\0123456789.")
"""Bytes at which a block does not end, since what follows may belong to them."""

_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def parse_json(data: bytes) -> Any:
    """What JSON holds, also where Inspect wrote a number that JSON has no name for. Raises ValueError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if b"NaN" not in data and b"Infinity" not in data:
            raise ValueError("is no JSON") from None
    try:
        return orjson.loads(_TOKEN.sub(_null, data))
    except orjson.JSONDecodeError:
        raise ValueError("is no JSON") from None


def _null(found: re.Match[bytes]) -> bytes:
    text = found[0]
    if text.startswith(b'"'):
        return text
    if not text.isdigit():
        return b"null"
    return text if len(text) < 20 and int(text) < 2**63 else text + b".0"


def open_json(path: Path) -> IO[bytes]:
    """The file, opened. Raises ConfigError where it cannot be, or is no regular file."""
    files.refuse_hole(path)
    try:
        return files.open_for_reading(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def stream_values(path: Path, place: str) -> Iterator[Any]:
    """The values at a place of a large file of JSON, such as ``samples.item``, one at a time.

    Raises ConfigError where the file cannot be opened, and ValueError, after the values that stand before it, where it
    is no JSON, or a value is longer than LARGEST or deeper than DEEPEST.
    """
    with open_json(path) as file:
        source = _Blocks(file)
        try:
            for value in ijson.items(source, place, use_float=True):
                source.held = 0
                yield value
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise ValueError(" ".join(str(error).split("(right here)")[0].split())[:100]) from None


class _Blocks:
    """A file as ijson reads it, in blocks. held: how many bytes were read since the last value was complete."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._inside, self._depth = file, False, 0
        self.held = 0

    def read(self, size: int = -1) -> bytes:
        """The next block, with null for numbers that JSON has no name for. Raises ValueError where a value is too long
        or too deep."""
        if size == 0:  # asked first, to see what kind of file it is
            return b""
        block = bytearray(self._file.read(_BLOCK))
        while block and block[-1] in _SPLIT and len(block) < _BLOCK + _MORE and (more := self._file.read(1)):
            block += more
        if not block:
            return b""
        self.held += len(block)
        if self.held > LARGEST:
            raise ValueError(f"has more than {LARGEST >> 20:,} MB in one part")
        starts_inside = self._inside
        text = b'"' + block if starts_inside else bytes(block)
        plain = _STRING.sub(b"", text)  # all but texts
        self._inside = (at := plain.find(b'"')) >= 0
        plain = plain[:at] if self._inside else plain
        self._go_deeper(plain)
        if _ODD.search(plain):
            text = _TOKEN.sub(_null, text)
        return text[1:] if starts_inside else text

    def _go_deeper(self, plain: bytes) -> None:
        depths = list(accumulate(map(_STEPS.__getitem__, plain.translate(None, _NO_BRACKETS)), initial=self._depth))
        if max(depths) > DEEPEST:
            raise ValueError(f"has values that lie more than {DEEPEST:,} deep in each other")
        self._depth = depths[-1]


def digest_origin(path: Path, file: IO[bytes]) -> Origin:
    """An open file with the digest of its content."""
    file.seek(0)
    sha, size = hashlib.sha256(), 0
    for block in iter(lambda: file.read(1 << 20), b""):
        sha.update(block)
        size += len(block)
    return Origin(path.name, size, f"sha256:{sha.hexdigest()}")


ZSTANDARD = 93
"""The number of the method in zip files."""

RATIO, SMALL = 1000, 1 << 24
"""A member above SMALL bytes that is packed more tightly than this was made to fill somebody's memory."""

MEMBERS = 2_000_000
"""The most members of a log."""

_LOCAL = struct.Struct("<4s5H3L2H")
_ZIP_BLOCK = 1 << 20


class Members:
    """The members of a zip file, each of which is read as a whole when it is asked for.

    path: the file. Raises ConfigError where it is no zip file, is torn off or has too many members.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] = open_json(path)
        try:
            listed = zipfile.ZipFile(self._file).infolist()
        except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError, UnicodeDecodeError) as error:
            self._file.close()
            if path.suffix != ".eval":
                raise ConfigError(
                    f"{path}: no log of Inspect, which ends in .eval or .json; give one, or read spreadsheets by "
                    "`tomserve import csv`, JSON lines by `jsonl`, and samples of lm-eval by `lm-eval`"
                ) from None
            raise ConfigError(
                f"{path}: no whole zip file ({error}); expected a log of Inspect (.eval) whose copying was not broken "
                "off; copy it again, or convert it by `inspect log convert --to json`"
            ) from None
        if len(listed) > MEMBERS:
            raise ConfigError(f"{path}: has {len(listed):,} members; expected at most {MEMBERS:,}")
        self._members = {one.filename: one for one in listed}  # of two of one name the later counts, as in Inspect

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def names(self) -> list[str]:
        """The names of the members in the order of the file."""
        return list(self._members)

    def json(self, name: str) -> Any:
        """What a member holds as JSON. Raises ValueError that says what is wrong with it."""
        return parse_json(self._unpack(self._members[name]))

    def _unpack(self, member: zipfile.ZipInfo) -> bytes:
        if member.flag_bits & 1:
            raise ValueError("is encrypted")
        size, packed = member.file_size, member.compress_size
        if max(size, packed) > LARGEST or (size > SMALL and size > RATIO * max(packed, 1)):
            raise ValueError(f"would have {size >> 20:,} MB, unpacked from {packed >> 10:,} kB")
        self._file.seek(member.header_offset)
        head = self._file.read(_LOCAL.size)
        if len(head) < _LOCAL.size or not head.startswith(b"PK\3\4"):
            raise ValueError("does not lie where the list of members says")
        *_, name_length, extra_length = _LOCAL.unpack(head)
        self._file.seek(name_length + extra_length, io.SEEK_CUR)
        data = self._file.read(packed)
        if len(data) < packed:
            raise ValueError("is torn off")
        text = _plain(data, member.compress_type, size)
        if len(text) != size or zlib.crc32(text) != member.CRC:
            raise ValueError("does not have the length and checksum that the list of members says")
        return text

    def origin(self) -> Origin:
        """The file with the digest of its content."""
        return digest_origin(self.path, self._file)

    def samples(self) -> Iterator[str]:
        """The names of the members that hold samples."""
        return (name for name in self._members if name.startswith("samples/") and name.endswith(".json"))


def _plain(data: bytes, method: int, size: int) -> bytes:
    """The bytes of a member, of which no more than one above the promised size are unpacked."""
    try:
        if method == zipfile.ZIP_STORED:
            return data
        if method == zipfile.ZIP_DEFLATED:
            return zlib.decompressobj(-15).decompress(data, size + 1)
        if method == ZSTANDARD:
            with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
                data, read_across_frames=True
            ) as file:
                found = bytearray()
                while len(found) <= size and (block := file.read(min(_ZIP_BLOCK, size + 1 - len(found)))):
                    found += block
                return bytes(found)
    except (zlib.error, zstandard.ZstdError) as error:
        raise ValueError(f"cannot be unpacked ({error})") from None
    raise ValueError(f"is packed by a method that is not known (number {method})")


HEADS = ("header.json", "_journal/start.json")
"""Members that say what was evaluated; the second alone where the evaluation was killed."""

_RECORDED = ("task_args", "model_args", "model_generate_config", "config", "dataset", "revision")
"""What a log says of how the model was asked."""

_KEPT_OF_DATASET = ("name", "location", "samples", "shuffled")


class InspectLog:
    """The replies of one log. path: the file, which ends in .eval or .json."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._head: dict[str, Any] | None = None
        self.left_out = LeftOut()
        self._origin: Origin | None = None

    @property
    def _zipped(self) -> bool:
        return self.path.suffix != ".json"

    def origins(self) -> tuple[Origin, ...]:
        """The file with its digest, after all samples were read."""
        return (self._origin,) if self._origin is not None else ()

    def about(self) -> SourceAbout:
        """What the log says of itself. Raises ConfigError where it is no log of Inspect."""
        head = self._read_head()
        asked = head["eval"]
        packages = asked.get("packages")
        version = packages.get("inspect_ai") if isinstance(packages, dict) else None
        settings = {name: asked[name] for name in _RECORDED if asked.get(name)}
        if isinstance(dataset := settings.get("dataset"), dict):
            settings["dataset"] = {name: dataset.get(name) for name in _KEPT_OF_DATASET}
        status = {"status": head["status"]} if isinstance(head.get("status"), str) else {}
        created = asked.get("created")
        return SourceAbout(
            "inspect",
            version if isinstance(version, str) else None,
            created if isinstance(created, str) else None,
            redact_settings({**status, **settings}),
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
            for name in HEADS:
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
            try:
                found[name] = next(stream_values(self.path, name), None)
            except ValueError as error:
                raise ConfigError(f"{self.path}: not JSON ({error}); restore the file") from None
            if name == "eval" and found[name] is None:  # another file of JSON, which need not be read once more
                break
        return found

    def samples(self) -> Iterator[Sample]:
        """The replies, one for each sample and epoch, in the order of the log. Raises ConfigError as `about` does."""
        head = self._read_head()
        count = 0
        for place, data in self._zip_samples() if self._zipped else self._json_samples():
            if not isinstance(data, dict) or "id" not in data:
                self._leave("is no sample of Inspect", place)
                continue
            try:
                sample = read_sample(data, head, f"{self.path.name}, {place}")
            except WRONG_TYPE:
                self._leave("has fields of other types than Inspect writes", place)
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

    def _leave(self, reason: str, place: str) -> None:
        self.left_out.count(reason, f"{self.path.name}, {place}")

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
        try:
            for number, data in enumerate(stream_values(self.path, "samples.item"), 1):
                yield f"sample {number}", data
        except ValueError as error:
            self._leave(f"cannot be read, nor what follows ({error})", f"sample {number + 1}")
        with open_json(self.path) as file:
            self._origin = digest_origin(self.path, file)
