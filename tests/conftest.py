"""Shared parts: items, a real HTTP endpoint that behaves as scripted, and a command line in this process."""

import asyncio
import contextlib
import functools
import itertools
import os
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from hypothesis import settings

from tests import durations
from tomserve.content.paths import cache_root
from tomserve.items import Item

# A busy machine is no failure. `make test` tries the same examples every time; `make test-random` looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("same")

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("TOMSERVE_DATA") or ROOT.parent / "shared/data")
"""Data of others, never committed; read before the tests get surroundings of their own."""


@pytest.fixture(autouse=True, scope="session")
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests share is made before a test has surroundings of its own, and keeps out of the user's state, too."""
    with pytest.MonkeyPatch.context() as patched:
        # Weights and what vLLM knows of a model's class take long to find out, and are those of the user.
        patched.setenv("HF_HOME", os.environ.get("HF_HOME") or str(cache_root() / "huggingface"))
        patched.setenv("VLLM_CACHE_ROOT", os.environ.get("VLLM_CACHE_ROOT") or str(cache_root() / "vllm"))
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _stages_are_read_once() -> Iterator[None]:
    """A stage file of the dataset is read and checked once in a session: this was most of the time of many commands."""
    from tomserve.benchmarks.perturbed import stages

    with pytest.MonkeyPatch.context() as patched:
        read = functools.cache(lambda path, edition, content, load=stages.load_stage: load(path, edition))
        patched.setattr(
            stages, "load_stage", lambda path, edition=stages.SECOND: read(path, edition, path.read_bytes())
        )
        yield


@pytest.fixture(scope="session")
def _folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders, one for each test. pytest's own numbering reads through all that there are each time, which takes
    longer than most tests once there are thousands."""
    base = tmp_path_factory.getbasetemp()
    return (base / f"test-{number}" for number in itertools.count())


@pytest.fixture
def tmp_path(_folders: Iterator[Path]) -> Path:
    """An empty folder of the test's own."""
    folder = next(_folders)
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads or writes the checkout's runs, the user's keys or state, or a content folder of the shell."""
    for name in list(os.environ):
        if name.startswith("TOMSERVE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm")  # what a terminal shows does not depend on that of the tests
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    state = tmp_path.with_name(f"state-of-{tmp_path.name}")
    state.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    for name in ("TOMSERVE_CONTENT", "TOMSERVE_HEADERS"):  # so that what --content and --header set is undone
        monkeypatch.setenv(name, "")


@pytest.fixture
def small_files(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No file may grow beyond some hundred bytes. Python would keep half of a compiled module, too, and never say so."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def pytest_configure() -> None:
    """A suite that was started in the background or by nohup ignores Ctrl-C or SIGHUP, and would hand that on to every
    process it starts."""
    # Commands that tests run in processes of their own keep their compiled modules; each would compile them anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if threading.current_thread() is threading.main_thread():
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
            if signal.getsignal(number) == signal.SIG_IGN:
                signal.signal(number, usual)


LONGEST = (
    *("tests/test_main_job.py", "tests/serving/test_serving", "tests/serving/test_presets.py", "tests/test_docs.py"),
    "tests/distributed/test_ray.py",
    *("tests/bench/test_benches.py", "tests/web/test_browser.py", "tests/test_project.py"),
    *("tests/serving/test_reference.py", "tests/reporting/", "tests/cli/test_cli.py", "tests/studies/test_study.py"),
    *("tests/cli/test_functional.py", "tests/distributed/test_slurm.py"),
    *("tests/interop/", "tests/web/test_worker.py", "tests/web/test_hostile_pages.py"),
    *("tests/engine/test_concurrency.py", "tests/docs/", "tests/web/", "tests/serving/", "tests/studies/"),
    "tests/runs/",
)
"""Where the tests that take long are, the longest first. They begin, so that the processes that share the tests end
together."""


TIERS = ("system", "long")
"""Marks of the tests that run only where `-m` names them; all others are what `make test` runs. See tests/README.md."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Three of four files have no test of a tier that is asked for by name: they need not be imported."""
    tier = config.option.markexpr
    if tier in TIERS and collection_path.match("test_*.py"):
        return f"mark.{tier}" not in collection_path.read_text("utf-8") or None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tiers that were not asked for, and begin with the files that take long."""
    places = [*enumerate(LONGEST), (len(LONGEST), "")]
    items.sort(key=lambda item: next(place for place, name in places if item.nodeid.startswith(name)))
    left_out = [tier for tier in TIERS if tier not in (config.option.markexpr or "")]
    others = {item for item in items if any(map(item.get_closest_marker, left_out))}
    if others:
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A run that writes a JUnit file shows where its time went."""
    if file := getattr(config.option, "xmlpath", None):
        terminalreporter.write_line(durations.tables(durations.read([Path(file)])))


def data_file(name: str) -> Path:
    """A file of DATA; the test is skipped where it is not there."""
    if not (DATA / name).is_file():
        pytest.skip(f"needs {name} in TOMSERVE_DATA")
    return DATA / name


def make_item(number: int = 1, **changes: Any) -> Item:
    """A small valid item; `changes` replace fields."""
    fields: dict[str, Any] = {
        "id": f"demo/{number}",
        "benchmark": "demo",
        "story": ["The jar stands on the shelf.", f"Jar number {number} holds tea.", "Ada looks into it."],
        "question": "What does Ada believe is in the jar?",
        "choices": ["tea", "salt", "unknown"],
        "answer": "tea",
        "gold": {"sets": [["unknown"], ["unknown"], ["tea"]]},
        "factors": {"perturbation": "none"},
        "cluster": f"demo/{number}",
    }
    return Item.model_validate({**fields, **changes})


@pytest.fixture
def items_file(tmp_path: Path) -> Path:
    """Twenty items as JSONL."""
    path = tmp_path / "items.jsonl"
    path.write_bytes(b"".join(make_item(n).to_json() + b"\n" for n in range(1, 21)))
    return path


Answer = Callable[[dict[str, Any], int], "web.StreamResponse | dict[str, Any] | None"]


@dataclass
class Endpoint:
    """A real HTTP server with vLLM's paths. `script(body, n)` may answer the n-th chat request (from 1) in its own
    way; None gives a well-formed completion that takes the first allowed label everywhere. A request waits for as long as
    `hold(body)` says. `first(request, body)` may answer any request, whatever its method and path, before all else."""

    models: list[str] = field(default_factory=lambda: ["tiny"])
    max_model_len: int | None = 4096
    root: str | None = None
    version: str | None = "0.0.test"
    key: str | None = None
    script: Answer = lambda body, n: None
    drop: Callable[[dict[str, Any]], bool] = lambda body: False
    delay: float = 0.0
    hold: Callable[[dict[str, Any]], bool] = lambda body: False
    first: Callable[[web.Request, bytes], web.StreamResponse | None] = lambda request, body: None
    requests: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0
    peak: int = 0
    _active: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._first_of_all()])
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    def _first_of_all(self) -> Any:
        @web.middleware
        async def answer(request: web.Request, handler: Any) -> web.StreamResponse:
            own = self.first(request, await request.read())
            return own if own is not None else await handler(request)

        return answer

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": self.version}) if self.version else web.Response(status=404)

    def _refused(self, request: web.Request) -> web.Response | None:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        return None

    async def _models(self, request: web.Request) -> web.Response:
        if (refused := self._refused(request)) is not None:
            return refused
        told = {"max_model_len": self.max_model_len, **({"root": self.root} if self.root else {})}
        data = [{"id": name, "object": "model", **told} for name in self.models]
        return web.json_response({"object": "list", "data": data})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        length = len(body["prompt"]) if "prompt" in body else sum(len(m["content"]) for m in body["messages"])
        return web.json_response({"count": length // 4})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if (refused := self._refused(request)) is not None:
            return refused
        body = await request.json()
        if any(one["content"] in ("Hello.", "hi") for one in body["messages"]):  # the preflight's own
            own = self.script({**body, "preflight": True}, 0)
            return own if isinstance(own, web.StreamResponse) else web.json_response(free(body) if own is None else own)
        self.requests.append(body)
        if self.drop(body):
            assert request.transport is not None
            request.transport.abort()
        number = len(self.requests)
        self._active += 1
        self.peak = max(self.peak, self._active)
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            while self.hold(body):  # noqa: ASYNC110 - the test that lets it go is in another thread
                await asyncio.sleep(0.02)
            answer = self.script(body, number)
        finally:
            self._active -= 1
        if isinstance(answer, web.StreamResponse):
            return answer
        if answer is None and "response_format" not in body:
            answer = free(body)
        elif answer is None:
            answer = completion(fill(body["response_format"]["json_schema"]["schema"]), body["model"])
        return web.json_response(answer)


def completion(text: str | None, model: str = "tiny", finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion as vLLM shapes it."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
    }


def free(body: dict[str, Any]) -> dict[str, Any]:
    """The completion of a request without a schema: the first of options called a), b), ..., [[A]] where a letter is
    asked for in this form, else a label that most items have; where the request asks for the tokens of its prompt, with the last one."""
    last = {"0": {"logprob": -1.0, "decoded_token": body["messages"][-1]["content"]}}
    told = {"prompt_logprobs": [None, last]} if "prompt_logprobs" in body else {}
    lettered = any("\na)" in message["content"] for message in body["messages"])
    marked = any("[[A]]" in message["content"] for message in body["messages"])
    text = "Answer: a)" if lettered else "[[A]]" if marked else "unknown"
    return {**completion(text, body["model"]), **told}


def fill(schema: dict[str, Any]) -> str:
    """The first valid instance of one of our schemas, as JSON text."""

    def one(part: dict[str, Any]) -> Any:
        if "const" in part:
            return part["const"]
        if "enum" in part:
            return part["enum"][0]
        if "prefixItems" in part:
            return [one(entry) for entry in part["prefixItems"]]
        if part["type"] == "string":
            return "As told."
        if part["type"] == "boolean":
            return True
        if part["type"] == "array":
            return [one(part["items"])] * part.get("minItems", 1)
        return {name: one(inner) for name, inner in part["properties"].items()}

    return orjson.dumps(one(schema)).decode()


@contextlib.contextmanager
def running(port: int = 0) -> Iterator[Endpoint]:
    """A running Endpoint on that port, or a free one; change its fields before (or while) it is asked."""
    server = Endpoint()
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(server.app(), shutdown_timeout=0.1)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        server.port = runner.addresses[0][1]

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield server
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """See `running`."""
    with running() as server:
        yield server


@pytest.fixture
def asking(endpoint: Endpoint, items_file: Path) -> tuple[object, ...]:
    """A command that asks the twenty items of that endpoint, in the run r."""
    common = ("eval", "--base-url", endpoint.url, "--benchmark", "items", "--path", items_file)
    return (*common, "--strategy", "vanilla", "--run", "r")


@dataclass
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]
"""What the fixture `cli` gives: it takes the arguments of a command."""


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """Run ``tomserve ARGS`` in this process."""
    import signal

    from tomserve.cli import main

    monkeypatch.setattr(sys.modules["__main__"], "__package__", "")  # else help names the module that pytest began by

    def run(*arguments: object) -> Outcome:
        # The report has its own tests; here it would cost every run some seconds.
        plain = ["--no-report"] if arguments[:1] == ("eval",) and "--report" not in arguments else []
        # The paper's design has a sixth of the questions of the default; test_project.py and test_docs.py ask that one.
        if arguments[:1] == ("eval",) and "--benchmark" not in arguments:
            plain += ["--benchmark", "perturbed"]
        monkeypatch.setattr(sys, "argv", ["tomserve", *map(str, arguments), *plain])
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        out, err = capfd.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 1, out, err)

    return run


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One headless chromium for the whole module."""
    path = shutil.which("chromium")
    if path is None:
        reason = "chromium is not installed (Debian: apt-get install chromium)"
        if os.environ.get("NEED_CHROMIUM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        # As root (containers, CI) chromium starts only without its sandbox; the pages are our own.
        found = player.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.getuid() == 0 else [])
        yield found
        found.close()
