"""What prompts share in the order of requests, stickiness of replicas, and prompts that a server cuts off without a word."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from tests.conftest import Endpoint, completion, fill, make_item
from tomserve.benchmarks import get
from tomserve.engine.endpoints import EndpointPool
from tomserve.engine.prompt_tokens import PrefixMeter, Truncation, common_length
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.transport import Reply
from tomserve.items import write_items
from tomserve.prompting.strategy import Strategy


def build(strategy: Strategy, item) -> Request:
    identity = Identity(item.id, strategy.name, 0)
    return Request.build(identity, strategy.turn(item), model="tiny", revision=None, sampling=Sampling())


def trie(texts: list[bytes]) -> int:
    """Nodes of the radix tree, one a byte: what a cache that forgets nothing would compute."""
    nodes = set()
    for text in texts:
        nodes.update(text[:end] for end in range(1, len(text) + 1))
    return len(nodes)


@pytest.fixture(scope="module")
def items():
    return list(get("perturbed").items())


@pytest.mark.parametrize("name", ["vanilla", "cot", "vanilla_1", "cot_1"])
def test_in_order_every_prompt_shares_with_the_one_before_all_that_it_shares_with_any(name: str, items) -> None:
    strategy = Strategy.load(name)
    chosen = random.Random(1).sample(items, 60) + items[:32]
    ordered = [build(strategy, item) for item in sorted({i.id: i for i in chosen}.values(), key=strategy.order)]
    prompts = [request.body[: request.prompt] for request in ordered]
    computed = sum(
        len(prompt) - common_length(before, prompt) for before, prompt in zip([b"", *prompts], prompts, strict=False)
    )
    assert computed == trie(prompts)


def test_the_meter_tells_the_cached_share_beside_the_bound() -> None:
    meter = PrefixMeter()
    first = Request(Identity("a", "s", 0), "k", b"0123456789rest", 10)
    second = Request(Identity("b", "s", 0), "l", b"01234567xx-rest", 10)
    for request, cached in ((first, 0), (second, 60)):
        meter.note_answer(meter.share(request), request.prefix, {"prompt": 100, "completion": 1, "cached": cached})
    assert (meter.prompt, meter.cached, meter.shareable) == (200, 60, 80)
    assert meter.cached_share == 0.3
    assert meter.bound == 0.4
    meter.block = 16
    meter.note_answer(80, b" " * 100, {"prompt": 100, "cached": 80})
    assert meter.shareable == 80 + 80
    meter.note_answer(100, b" " * 100, {"prompt": 32, "cached": 16})  # the last token is always computed
    assert meter.shareable == 160 + 16


def ask(number: int, story: str) -> Request:
    body = f"{story}: question {number}".encode()
    return Request(Identity(str(number), "s", 0), str(number), body, len(body))


def send(pool: EndpointPool, request: Request) -> str:
    endpoint = pool.pick(request)
    pool.note_sent(endpoint, request.identity)
    return endpoint


def test_what_shares_a_prefix_sticks_to_a_replica_until_it_is_too_full() -> None:
    pool = EndpointPool(["a", "b"], 60, concurrency=40)
    first = [send(pool, ask(number, "story one")) for number in range(5)]
    assert set(first) == {"a"}
    second = [send(pool, ask(10 + number, "other story")) for number in range(10)]
    assert "b" in second
    begun = second.index("b")
    assert set(second[begun:]) == {"b"}
    assert send(pool, ask(20, "story one")) == "a"
    rest = [send(pool, ask(30 + number, "story one")) for number in range(19)]
    assert {"a", "b"} <= set(rest)
    assert abs(len(pool.out["a"]) - len(pool.out["b"])) <= 6


def test_a_replica_with_more_room_gets_more() -> None:
    pool = EndpointPool(["small", "large"], 60)
    pool.limits["small"]._level, pool.limits["large"]._level = 10.0, 30.0
    assert pool.capacity == 40
    for number in range(40):
        send(pool, ask(number, f"story {number}"))
    assert len(pool.out["small"]) == pytest.approx(10, abs=3)


def test_a_replica_that_asks_for_a_pause_gets_nothing_meanwhile() -> None:
    now = [0.0]
    pool = EndpointPool(["a", "b"], 60, clock=lambda: now[0], concurrency=8)
    one = Identity("x", "s", 0)
    pool.note_sent("a", one)
    pool.note_reply("a", Reply("http_503", retry_after=5.0), one, pool.note_return("a", one))
    assert {send(pool, ask(number, "story")) for number in range(6)} == {"b"}
    assert pool.pause <= 0
    now[0] = 6.0
    assert "a" in {send(pool, ask(10 + number, "tale")) for number in range(6)}


@pytest.mark.parametrize(
    ("prompts", "cut"),
    [
        (((26_000, 2050), (56_000, 2050)), 2),  # too many characters a token
        (((9_000, 2050), (10_000, 2050), (12_000, 2050), (8_000, 1_900)), 3),  # plausible, but the same for all
        (((9_000, 2050), (9_100, 2050), (9_200, 2050)), 0),  # by accident
        (((9_000, 2050), (12_000, 2050), (12_100, 2051)), 0),
        (((3_000, 10), (2_000, 10), (1_000, 10)), 0),  # too short for any context
        (((26_000, None), (56_000, 0)), 0),
    ],
)
def test_what_the_numbers_of_tokens_show(prompts: Sequence[tuple[int, int | None]], cut: int) -> None:
    seen = Truncation()
    for size, tokens in prompts:
        seen.add("a" * size, tokens)
    assert (seen.summarize() or {"prompts": 0})["prompts"] == cut


def test_doubts_are_said_before_the_run_at_its_end_and_later(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    long = ["It rains and the neighbours talk about the harbour." for _ in range(400)]
    write_items(tmp_path / "items.jsonl", [make_item(n, story=[*long, f"{n} falls."], gold=None) for n in range(3)])
    endpoint.max_model_len = None

    def script(body: dict, number: int) -> web.Response:
        text = fill(body["response_format"]["json_schema"]["schema"]) if "response_format" in body else "Hi"
        return web.json_response(completion(text, body["model"], finish="budget"))

    endpoint.script = script
    done = cli(
        "eval", "--base-url", endpoint.url, "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--run", "r"
    )
    cut, strange = "the server cuts prompts off: it counted 10 tokens in", "ended for a reason that is not known"
    assert f"warning: {cut} 1 prompt of 2" in done.err + done.out
    for said in (done.err, cli("analyze", "r").err):
        assert strange in said
        assert cut in said
