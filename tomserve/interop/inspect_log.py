"""Reads the logs of Inspect: ``.eval`` (a zip file with a member for each sample) and ``.json``, of every version.

Samples are read one at a time. A log that was cut off, because the evaluation was killed, is read as far as it goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tomserve.errors import ConfigError
from tomserve.interop import inspect_json
from tomserve.interop.foreign import About, Origin, Sample
from tomserve.interop.inspect_reply import WRONG_TYPE, sample_of
from tomserve.interop.inspect_zip import Members
from tomserve.interop.withheld import settings_of

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
        settings = {name: asked[name] for name in _RECORDED if asked.get(name)}
        if isinstance(dataset := settings.get("dataset"), dict):
            settings["dataset"] = {name: dataset.get(name) for name in _KEPT_OF_DATASET}
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
                found[name] = next(inspect_json.parts(self.path, name), None)
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
                sample = sample_of(data, head, f"{self.path.name}, {place}")
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
        missing = wanted - count - sum(number for number, _ in self._left.values())
        if missing > 0:
            reason = f"is not in the log, because the evaluation did not end (status {str(status)[:20]!r})"
            self._left[reason] = [missing, self.path.name]

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
        try:
            for number, data in enumerate(inspect_json.parts(self.path, "samples.item"), 1):
                yield f"sample {number}", data
        except ValueError as error:
            self._leave(f"cannot be read, nor what follows ({error})", f"sample {number + 1}")
        with inspect_json.opened(self.path) as file:
            self._origin = inspect_json.origin(self.path, file)
