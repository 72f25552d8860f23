"""Adaptive concurrency: the whole engine against a simulated server, in virtual time."""

import asyncio
import importlib
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.helpers.virtual import VirtualLoop, VirtualRunner
from tomserve.engine.concurrency import AdaptiveLimit, LoadShedding, ServerLoad, read_load
from tomserve.engine.request import Identity, Request
from tomserve.engine.runner import RunStatus, SilentObserver
from tomserve.engine.transport import Reply
from tomserve.runs.journal import Journal

FAR = 0.001


class Simulated:
    """A transport to a batcher on the same clock; each way to it takes FAR seconds."""

    def __init__(self, batcher: Any, metrics: bool, broken: bytes) -> None:
        self.batcher, self.shown, self.broken, self.refused = batcher, metrics, broken, 0

    async def send(self, endpoint: str, body: bytes) -> Reply:
        await asyncio.sleep(FAR)
        if body == self.broken:
            return Reply("http_500", error="this one never works")
        job = self.batcher.enter()
        if isinstance(job, int):
            self.refused += 1
            after = self.batcher.settings.retry_after
            return Reply(f"http_{job}", error="busy", retry_after=after if after >= 0 else None)
        try:
            await job.done
        finally:
            self.batcher.leave(job)
        return Reply("ok", '{"answer": "tea"}', usage={"prompt": 300, "completion": round(job.work), "cached": 200})

    async def metrics(self, endpoint: str) -> bytes | None:
        await asyncio.sleep(FAR)
        if not self.shown:
            return None
        self.batcher.advance()
        settings = self.batcher.settings
        full = settings.knee and self.batcher.running > settings.knee
        use = 0.99 if full else self.batcher.running / (settings.knee or settings.slots) * 0.9
        return (
            f"vllm:num_requests_running {self.batcher.running}\nvllm:num_requests_waiting {self.batcher.waiting}\n"
            f"vllm:num_preemptions_total {int(self.batcher.preemptions)}\nvllm:kv_cache_usage_perc {use}\n"
        ).encode()

    async def alive(self, endpoint: str) -> bool:
        return True

    async def close(self) -> None:
        pass


@dataclass
class Outcome(SilentObserver):
    """The figures of a run under load. answers: the seconds at which they came. limits: pairs of the second and the
    concurrency limit at that time."""

    answers: list[float] = field(default_factory=list)
    lost: int = 0
    error: BaseException | None = None
    refused: int = 0
    limits: list[tuple[float, int]] = field(default_factory=list)
    clock: Callable[[], float] = lambda: 0.0

    def row(self, row: dict[str, Any]) -> None:
        if row["status"] == "ok":
            self.answers.append(self.clock())
        else:
            self.lost += 1

    def status(self, status: RunStatus) -> None:
        self.limits.append((self.clock(), status.limit))

    def rate(self, begin: float, end: float) -> float:
        """How many answers came a second."""
        return sum(begin <= at < end for at in self.answers) / (end - begin)


def endless() -> Iterator[Request]:
    number = 0
    while True:
        yield Request(Identity(f"q{number}", "s", 0), f"{number:032x}", b"%d" % number, 1)
        number += 1


def under_load(
    settings: dict[str, Any],
    schedule: Sequence[tuple[float, dict[str, Any]]] = (),
    *,
    seconds: float = 20.0,
    metrics: bool = True,
    concurrency: int | None = None,
    most: int = 1024,
    broken: bytes = b"none",
) -> Outcome:
    """Run the engine against the batcher of bench/_batcher.py for so many seconds of virtual time, which take a moment and
    come out the same each time. broken: the question that always fails."""
    outcome = Outcome()
    random.seed(0)  # by which waits are drawn, so that a run comes out the same each time

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        simulated = importlib.import_module("_batcher")

    async def go() -> None:
        loop = asyncio.get_running_loop()
        outcome.clock = loop.time
        batcher = simulated.Batcher(simulated.Settings(**settings), list(schedule), clock=loop.time)
        transport = Simulated(batcher, metrics, broken)
        with tempfile.TemporaryDirectory() as scratch, Journal(Path(scratch) / "responses.jsonl") as journal:
            runner = VirtualRunner(
                ["http://simulated/v1"], transport, journal,
                concurrency=concurrency, most=most, observer=outcome, clock=loop.time,
            )  # fmt: skip
            asking = asyncio.create_task(runner.run(endless()))
            await asyncio.wait([asking], timeout=seconds)
            asking.cancel()
            (error,) = await asyncio.gather(asking, return_exceptions=True)
            outcome.error = error if isinstance(error, Exception) else None
        outcome.refused = transport.refused

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(go())
    return outcome


FLAT = {"base": 0.006, "slope": 0.00002}
PHASE = 20.0
SCENARIOS = [  # settings, a change after PHASE seconds, answers a second of the best fixed setting, metrics in `make test`
    ("room for 48, the rest waits", {"slots": 48}, {}, 220.4, True),
    ("throughput falls beyond 32", {"slots": 256, "knee": 32}, {}, 171.8, False),
    ("throughput falls beyond 10", {"slots": 256, "knee": 10}, {}, 70.6, True),
    ("room for 16, then 64", {"slots": 16, **FLAT}, {"slots": 64}, 140.4, True),
    ("room for 64, then 16", {"slots": 64, **FLAT}, {"slots": 16}, 141.3, False),
    ("falls beyond 64, then 16", {"slots": 256, "knee": 64, **FLAT}, {"knee": 16}, 121.2, False),
    ("429 above 100 a second", {"rate": 100.0}, {}, 97.5, True),
    ("503 above 40 in all", {"slots": 32, "bound": 40}, {}, 172.5, False),
    ("one at a time", {"slots": 1}, {}, 8.0, True),
]
AT_RANDOM = [
    ("three in ten, wait a second", {"flaky": 0.3, "retry_after": 1.0}, {}, 176.6, True),
    ("three in ten, wait none", {"flaky": 0.3, "retry_after": 0.0}, {}, 220.4, True),
    ("three in ten, throughput falls beyond 32", {"flaky": 0.3, "slots": 256, "knee": 32}, {}, 128.7, False),
    ("one in fifty, wait five seconds", {"flaky": 0.02, "retry_after": 5.0}, {}, 50.2, True),
]


def each(scenarios: list[Any]) -> pytest.MarkDecorator:
    """Each scenario with the server's metrics and without: one in `make test`, the other before a release."""
    cases = [
        pytest.param(
            *(settings, change, best, metrics),
            id=f"{name}, {'metrics' if metrics else 'no metrics'}",
            marks=() if metrics == first else pytest.mark.long,
        )
        for name, settings, change, best, first in scenarios
        for metrics in (True, False)
    ]
    return pytest.mark.parametrize(("settings", "change", "best", "metrics"), cases)


@each(SCENARIOS)
def test_adaptive_is_close_to_the_best_fixed_setting_its_ramp_included(
    settings: dict[str, Any], change: dict[str, Any], best: float, metrics: bool
) -> None:
    seconds = PHASE * (2 if change else 1)
    outcome = under_load(settings, [(PHASE, change)] if change else (), seconds=seconds, metrics=metrics)
    assert outcome.rate(0, seconds) >= 0.87 * best
    assert outcome.lost == 0
    assert outcome.refused < 0.05 * len(outcome.answers), "refusals are rare once the limit is known"


@each(AT_RANDOM)
def test_refusals_at_random_do_not_drive_the_limit_down(
    settings: dict[str, Any], change: dict[str, Any], best: float, metrics: bool
) -> None:
    outcome = under_load(settings, seconds=PHASE, metrics=metrics)
    assert outcome.rate(0, PHASE) >= 0.7 * best
    assert outcome.limits[-1][1] >= 16
    assert outcome.lost == 0


def test_a_bad_question_does_not_hold_up_the_others_at_a_low_limit() -> None:
    whole = under_load({"slots": 1}, seconds=10, most=1)
    outcome = under_load({"slots": 1}, seconds=10, most=1, broken=b"0")
    assert len(whole.answers) > 50
    assert len(outcome.answers) > 0.9 * len(whole.answers)


@pytest.mark.parametrize(("bound", "metrics"), [(1, False), (2, True), (4, False)])
def test_a_server_that_takes_few_at_once_loses_no_rows(bound: int, metrics: bool) -> None:
    settings = {"slots": bound, "bound": bound, "refuse": 429, "work": 50}
    best = under_load(settings, seconds=60, concurrency=bound)
    outcome = under_load(settings, seconds=60, metrics=metrics)
    assert outcome.lost == 0
    assert len(outcome.answers) > 0.7 * len(best.answers)


@pytest.mark.parametrize("metrics", [False, pytest.param(True, marks=pytest.mark.long)])
def test_after_a_storm_of_refusals_the_limit_recovers(metrics: bool) -> None:
    calm = {"slots": 64, "base": 0.02, "slope": 0.00001, "work": 100}
    storm = [(15.0, {"rate": 0.001, "burst": 0.0}), (35.0, {"rate": 0.0})]
    outcome = under_load(calm, storm, seconds=70, metrics=metrics)
    assert outcome.lost == 0
    assert outcome.rate(50, 70) > 0.5 * outcome.rate(5, 15)


def test_a_server_that_only_refuses_ends_the_run_with_a_diagnosis() -> None:
    outcome = under_load({"rate": 1e-9, "burst": 0.0}, seconds=300)
    assert "only refusals" in str(outcome.error)
    assert outcome.lost == 0
    assert outcome.limits[-1][0] < 100


def test_a_pause_that_was_announced_is_waited_for() -> None:
    quota = [(10.0, {"rate": 1e-9, "burst": 0.0}), (90.0, {"rate": 0.0})]
    outcome = under_load({"retry_after": 100.0, "slots": 4}, quota, seconds=200)
    assert outcome.error is None
    assert outcome.lost == 0
    assert outcome.rate(150, 200) > 10


def test_what_is_left_at_the_end_of_a_run_tells_nothing_of_the_limit() -> None:
    now = [0.0]
    limit = AdaptiveLimit(start=32, clock=lambda: now[0])
    for _ in range(32):
        limit.note_answer(began=0.0, seconds=1.0, done=1.0, out=32)
    held = limit.limit
    now[0] = 600.0
    limit.tick(out=1)
    assert limit.limit == held
    assert limit.found


def test_more_waits_for_a_queue_to_go_away() -> None:
    limit = AdaptiveLimit(start=32, clock=lambda: 0.0)

    def after(running: int, waiting: int, out: int) -> float:
        limit.note_load(ServerLoad(running, waiting, 0.1, 0, 0, 0, None), out=out)
        return limit.limit

    assert after(32, 0, out=32) == 64
    held = after(40, 24, out=64)  # room for 40
    assert 40 <= held <= 46
    assert after(40, 24, out=64) == held, "nothing has come back yet: no reason for less"
    assert after(40, 4, out=44) == held
    assert after(44, 0, out=44) > held, "it takes more now"


def test_a_full_cache_stops_growth_and_preemptions_cut() -> None:
    limit = AdaptiveLimit(start=32, clock=lambda: 0.0)
    limit.note_load(ServerLoad(32, 0, 0.9, 0, 0, 0, None), out=32)
    assert limit.limit == 32
    limit.note_load(ServerLoad(32, 0, 0.9, 1, 0, 0, None), out=32)
    assert limit.limit == 22


def test_refusals_of_what_was_out_together_lower_the_limit_once() -> None:
    now = [10.0]
    limit = AdaptiveLimit(start=100, clock=lambda: now[0])
    assert [limit.note_refusal(began=10.0) for _ in range(3)] == [False, True, False]
    for _ in range(20):
        limit.note_refusal(began=10.0)
    assert limit.limit == 100, "nothing was answered, so that nobody knows what the limit is worth"
    limit.note_answer(began=10.0, seconds=0.5, done=1.0, out=100)
    now[0] = 11.0
    limit.note_refusal(began=10.0)
    assert limit.limit == 70
    for _ in range(50):
        limit.note_refusal(began=10.0)
    assert limit.limit == 70, "what was sent under the higher limit says nothing of the lower one"
    limit.note_answer(began=11.0, seconds=0.5, done=1.0, out=70)
    for _ in range(20):
        limit.note_refusal(began=11.0)
    assert limit.limit == 49, "nearly everything is refused under the lower limit as well"


def test_slow_answers_do_not_hide_that_refusals_come_at_random() -> None:
    """Hardly any answer has come when the limit is decided upon; that all requests allowed are in flight tells."""
    slow = {"base": 0.02, "work": 100.0, "slots": 256, "flaky": 0.3}
    assert under_load(slow, seconds=30).rate(0, 30) >= 0.7 * 68.0, "what a fixed 256 reaches"


def test_refusals_by_load_are_still_told_among_refusals_at_random() -> None:
    both = {"slots": 32, "bound": 40, "flaky": 0.2}
    outcome = under_load(both, seconds=PHASE)
    assert outcome.rate(0, PHASE) >= 0.87 * 142.5, "what the best fixed setting reaches"
    assert outcome.limits[-1][1] <= 64


def test_refusals_that_are_over_are_forgotten() -> None:
    """A share that was borne once must not hide an overload for ever."""
    trial = LoadShedding()
    trial.borne = 0.3
    for _ in range(40):
        for _ in range(100):
            trial.note_sent()
            trial.note_answer(1.0, 1.0, 16)
        trial.settle()
    assert trial.borne == 0.0
    trial.begin()
    assert [trial.note_refusal(), trial.note_refusal()] == [False, True]


METRICS = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_running{engine="1",model_name="tiny"} 4.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 100.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.5
vllm:num_preemptions_total{engine="0"} 1.0
vllm:num_preemptions_created{engine="0"} 1.7e+09
vllm:request_num_preemptions_sum{engine="0"} 77.0
vllm:prefix_cache_queries_total{engine="0"} 1.5e+06
vllm:external_prefix_cache_queries_total{engine="0"} 9.0
vllm:prefix_cache_hits_total{engine="0"} 1e+06
vllm:cache_config_info{block_size="128",engine="0"} 1.0
"""


def test_the_load_is_read_from_vllms_metrics_and_nothing_else() -> None:
    assert read_load(METRICS) == ServerLoad(7, 2, 0.5, 1, 1_500_000, 1_000_000, 128)
    assert read_load(b"<html>not found</html>") is None
    assert read_load(b"vllm:num_requests_running 1.0\n") is None
    assert read_load(METRICS.replace(b"3.0", b"e+e")).running == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("lie", [b"NaN", b"+Inf", b"1e999", b"-5", b"1e300", b"9" * 5000])
def test_numbers_that_are_no_counts_are_left_out(lie: bytes) -> None:
    load = read_load(METRICS.replace(b"3.0", lie).replace(b'"128"', b'"' + b"9" * 5000 + b'"'))
    assert (load.running, load.block) == (4, None)
