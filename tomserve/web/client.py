"""A workbench from Python: start experiments, follow them, and fetch what they found out.

    from tomserve.web.client import Workbench

    bench = Workbench("http://127.0.0.1:8321/?token=...")        # the address that `tomserve web` prints
    name = bench.start(model="llama3-70b", benchmark="perturbed-2", strategy=["vanilla", "cot"], limit=200)
    bench.wait(name)
    print(bench.scores(name).group_by("strategy").len())

It speaks to ``/api/v1`` of the workbench, whose OpenAPI document is at ``/api/openapi.json``. Every error is a
TomserveError with the sentence that the workbench gave; the token stands in none of them.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import orjson

from tomserve import errors
from tomserve.content import files
from tomserve.engine.network import is_loopback
from tomserve.engine.redact import Redactor, clean_text

if TYPE_CHECKING:
    import polars as pl

    from tomserve.workflows.evaluate import Experiment

    Asked = Experiment | Mapping[str, Any] | None

Facts = dict[str, Any]  # what the workbench tells of something, as the OpenAPI document describes it

ERRORS: Mapping[int, type[errors.TomserveError]] = {
    401: errors.NotAllowedError,
    403: errors.NotAllowedError,
    404: errors.NoSuchRunError,
    409: errors.ConflictError,
}
PATIENCE = 600.0  # seconds for which something is waited for that the workbench computes beside
LOST = 300.0  # seconds for which a workbench that does not answer is tried again while a run is followed
LONGEST = 2000  # characters of a sentence that a server may say
MOST = 1 << 29  # bytes of an answer
MOST_EVENT = 1 << 22  # characters of an event


class Workbench:
    """A workbench that runs somewhere.

    url: where; the printed address with its token, or without where `token` is given. token: that of the printed
    address, or where people sign in, one that was made for a program. timeout: seconds for one request.

    >>> Workbench("http://127.0.0.1:8321/?token=secret")
    Workbench('http://127.0.0.1:8321')
    """

    def __init__(self, url: str = "http://127.0.0.1:8321", token: str | None = None, *, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise errors.ConfigError("the address of a workbench: expected one such as http://127.0.0.1:8321")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        token = token or parse_qs(parts.query).get("token", [""])[0]
        self._mask = Redactor(token)
        self._client = httpx.Client(
            base_url=f"{self.url}/api/v1/",
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=timeout,
            trust_env=not is_loopback(parts.hostname),  # a workbench of this machine is never asked through a proxy
        )

    def __repr__(self) -> str:
        return f"Workbench({self.url!r})"

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the workbench."""
        self._client.close()

    def start(self, experiment: Asked = None, *, private: bool = False, **fields: Any) -> str:
        """Put an experiment into the queue and return the name of its run.

        experiment: an Experiment or its fields. fields: more of them, which win; they are called as the options of
        `tomserve eval`, with _ for -. private: whether nobody else sees it, where people sign in. Raises ConfigError
        for what is wrong in it, ConflictError where its name is taken, NotAllowedError for a reader.

        >>> bench.start(model="yi-34b", benchmark="hitom", limit=100, noise_check=0.05)           # doctest: +SKIP
        'hitom-yi-34b'
        """
        body = {**_fields(experiment, fields), "private": private}
        return str(self._json("POST", "experiments", json=body)["name"])

    def plan(self, experiment: Asked = None, **fields: Any) -> Facts:
        """What an experiment would cost, and the smallest effect that it could find. Takes and raises what `start`
        does."""
        return self._json_when_ready("POST", "experiments/plan", json=_fields(experiment, fields))

    def runs(self, **filters: str) -> list[Facts]:
        """All runs that one may see, the newest first.

        filters: text, model, benchmark, tag, state, kind.

        >>> [run["name"] for run in bench.runs(benchmark="hitom", state="complete")]              # doctest: +SKIP
        ['hitom-yi-34b']
        """
        found: list[Facts] = []
        for page in range(1, 100_000):
            told = self._json("GET", "runs", params={**filters, "page": page, "size": 500})
            found += told["runs"]
            if page >= told["pages"]:
                break
        return found

    def run(self, name: str) -> Facts:
        """One run, with its manifest. Raises NoSuchRunError."""
        return self._json("GET", f"runs/{_path(name)}")

    def change(
        self, name: str, *, notes: str | None = None, tags: Sequence[str] | None = None, private: bool | None = None
    ) -> Facts:
        """Change notes and tags of a run, and whether only its owner sees it; what is None stays."""
        wanted = {"notes": notes, "tags": None if tags is None else list(tags), "private": private}
        return self._json("PATCH", f"runs/{_path(name)}", json={k: v for k, v in wanted.items() if v is not None})

    def progress(self, name: str) -> Facts:
        """How far a run is. Raises NoSuchRunError."""
        return self._json("GET", f"progress/{_path(name)}")

    def follow(self, name: str) -> Iterator[Facts]:
        """How far a run is, again whenever that has changed, until it has ended.

        A connection that is lost is made again, for up to five minutes. Raises NoSuchRunError, and ServerLostError
        where the workbench does not come back.

        >>> for seen in bench.follow("hitom-yi-34b"):                                             # doctest: +SKIP
        ...     print(seen["state"], seen["done"], seen["total"])
        """
        lost: float | None = None
        before: Facts | None = None
        while True:
            try:
                for told in self._events(f"events/{_path(name)}"):
                    lost = None
                    if told is None:
                        return
                    if told != before:
                        before = told
                        yield told
            except (httpx.TransportError, errors.ServerError) as error:
                lost = lost or time.monotonic()
                if time.monotonic() - lost > LOST:
                    raise errors.ServerLostError(
                        f"{self.url} does not answer any more ({type(error).__name__})"
                    ) from None
            time.sleep(1.0)

    def wait(self, name: str, told: Callable[[Facts], object] | None = None) -> Facts:
        """Wait until a run has ended, and return what `run` tells of it then. told: called with how far it is, whenever
        that changes. Raises what `follow` raises, and ServerError where the run failed."""
        for seen in self.follow(name):
            if told is not None:
                told(seen)
        ended = self.run(name)
        job = ended["job"] or {}
        if job.get("state") == "failed":
            raise errors.ServerError(f"the run {name} failed: {clean_text(str(job.get('said')), LONGEST)}")
        return ended

    def scores(self, name: str) -> pl.DataFrame:
        """The scores of a run, a row for each item and strategy, with the columns of `tomserve.load_scores`. Waits
        while they are computed. Raises NoSuchRunError, and ConfigError for a run without answers."""
        answer = self._answer_when_ready("GET", f"scores/{_path(name)}", params={"form": "parquet"})
        return files.read_foreign_parquet(Path(name), answer.content)

    def tables(self, name: str, study: str | None = None) -> dict[str, pl.DataFrame]:
        """The tables of a study of a run, by their names; study: that of the run's benchmark where it is left out.
        Waits while they are computed. Raises NoSuchRunError, and ConfigError for an unknown study."""
        import polars as pl

        asked = {"study": study} if study else {}
        told = self._json_when_ready("GET", f"tables/{_path(name)}", params=asked)
        return {one["name"]: pl.read_csv(io.StringIO(one["csv"]), infer_schema_length=None) for one in told["tables"]}

    def queue(self) -> list[Facts]:
        """The runs that wait or run, in their order, and those that have ended."""
        told: list[Facts] = self._json("GET", "queue")["runs"]
        return told

    def pause(self, name: str) -> Facts:
        """Have a run wait until `resume`; one that runs stops where it is. Raises ConflictError where it has ended."""
        return self._act("pause", name)

    def resume(self, name: str) -> Facts:
        """Have a paused run go on. Raises ConflictError where it is not paused."""
        return self._act("resume", name)

    def cancel(self, name: str) -> Facts:
        """End a run; what was answered stays, and `retry` goes on with it. Raises ConflictError where it has ended."""
        return self._act("cancel", name)

    def retry(self, name: str) -> Facts:
        """Put a run that has failed or was cancelled into the queue again. Raises ConflictError for any other."""
        return self._act("retry", name)

    def move(self, name: str, where: Literal["first", "up", "down", "last"]) -> Facts:
        """Change the place of a run that waits. Raises ConflictError where it does not wait."""
        return self._act("move", name, where=where)

    def _act(self, action: str, name: str, **asked: str) -> Facts:
        return self._json("POST", f"queue/{action}/{_path(name)}", params=asked)

    def _json(self, method: str, path: str, **sent: Any) -> Facts:
        return _object(self._answer(method, path, **sent))

    def _json_when_ready(self, method: str, path: str, **sent: Any) -> Facts:
        return _object(self._answer_when_ready(method, path, **sent))

    def _answer_when_ready(self, method: str, path: str, **sent: Any) -> httpx.Response:
        until = time.monotonic() + PATIENCE
        while (answer := self._answer(method, path, **sent)).status_code == 202:
            if time.monotonic() > until:
                raise errors.ServerError(
                    f"{self.url}: this is still being computed after {PATIENCE:.0f} s; ask again later"
                )
            time.sleep(0.5)
        return answer

    def _answer(self, method: str, path: str, **sent: Any) -> httpx.Response:
        try:
            with self._client.stream(method, path, **sent) as coming:
                answer = _whole(coming)
        except httpx.HTTPError as error:
            raise errors.ServerError(f"{self.url}: no workbench answers there ({type(error).__name__})") from None
        return self._check(answer)

    def _check(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_success:
            return answer
        try:
            said = str(files.load_json(answer.content)["error"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            said = f"{self.url}: answered with status {answer.status_code}; is a workbench there?"
        kind = ERRORS.get(answer.status_code, errors.ServerError if answer.status_code >= 500 else errors.ConfigError)
        raise kind(clean_text(self._mask(said), LONGEST))

    def _events(self, path: str) -> Iterator[Facts | None]:
        """What a stream of events tells; None at its end. Raises what `_check` raises, and httpx.TransportError."""
        with self._client.stream("GET", path, headers={"Accept": "text/event-stream"}) as answer:
            self._check(answer if answer.is_success else _whole(answer))
            event, data = "", list[str]()
            for line in _lines(answer):
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "event":
                    event = value
                elif name == "data":
                    data.append(value)
                elif not line and (event or data):
                    if event == "end":
                        yield None
                        return
                    yield dict(files.load_json("\n".join(data)))
                    event, data = "", []


def _whole(coming: httpx.Response) -> httpx.Response:
    """An answer with all that it holds. Raises ServerError where that is more than MOST bytes, and
    httpx.TransportError."""
    pieces, size = list[bytes](), 0
    for piece in coming.iter_bytes():
        pieces.append(piece)
        if (size := size + len(piece)) > MOST:
            raise errors.ServerError(f"{coming.url.host}: sends more than {MOST >> 20} MB; is a workbench there?")
    return httpx.Response(coming.status_code, content=b"".join(pieces))


def _lines(coming: httpx.Response) -> Iterator[str]:
    """The lines of a stream. Raises ServerError where there is no end to an event, and httpx.TransportError."""
    begun, size = "", 0  # of a line, and of the event that it belongs to
    for piece in coming.iter_text():
        *lines, begun = (begun + piece).split("\n")
        for line in lines:
            yield line.removesuffix("\r")
            size = size + len(line) if line.strip("\r") else 0
        if size + len(begun) > MOST_EVENT:
            raise errors.ServerError(f"{coming.url.host}: sends an event without an end; is a workbench there?")
    if begun:
        yield begun


def _fields(experiment: Asked, fields: Mapping[str, Any]) -> Facts:
    own: Mapping[str, Any] = {}
    if isinstance(experiment, Mapping):
        own = experiment
    elif experiment is not None:
        own = experiment.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {name.replace("_", "-"): value for name, value in {**own, **fields}.items() if value is not None}


def _path(name: str) -> str:
    return quote(name, safe="/")


def _object(answer: httpx.Response) -> Facts:
    try:
        found = files.load_json(answer.content)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise errors.ServerError("what answers there is no workbench: it sent something else than a JSON object")
    return found
