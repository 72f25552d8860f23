"""What a server reports of its own load: the few of vLLM's Prometheus metrics that steer the adaptive limit.

>>> text = b'vllm:num_requests_running{engine="0"} 3.0\\nvllm:num_requests_waiting{engine="0"} 2.0\\n'
>>> read_load(text)
Load(running=3, waiting=2, kv=0.0, preemptions=0, queried=0, hit=0, block=None)
>>> read_load(b"go_threads 7") is None
True
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NAMES = (
    b"num_requests_running|num_requests_waiting|kv_cache_usage_perc|num_preemptions_total|"
    b"prefix_cache_queries_total|prefix_cache_hits_total"
)
"""The metrics that are read, without their prefix ``vllm:``, as a regular expression."""

LARGEST = 2.0**53
"""A value above this is ignored: a float cannot hold every whole number beyond it, so it counts nothing exactly."""

_SAMPLE = re.compile(rb"^vllm:(" + _NAMES + rb")(?:\{[^}\n]*\})? ([0-9.eE+-]+)\s*$", re.MULTILINE)
_BLOCK = re.compile(rb'^vllm:cache_config_info\{[^}\n]*\bblock_size="([1-9]\d{0,8})"', re.MULTILINE)


class Load(NamedTuple):
    """The load of one server, summed over its engines.

    running: requests that are being computed.
    waiting: requests in the server's queue.
    kv: the used share of the KV cache, from 0 to 1; of several engines that of the fullest.
    preemptions: how many requests were preempted since the server started.
    queried: how many prompt tokens were looked up in the prefix cache since the server started.
    hit: how many of those were found in the prefix cache.
    block: tokens of one block of the cache; None where the server does not report it.
    """

    running: int
    waiting: int
    kv: float
    preemptions: int
    queried: int
    hit: int
    block: int | None


def read_load(metrics: bytes) -> Load | None:
    """The load that a page of Prometheus metrics reports; None where the page is not one of vLLM."""
    sums: dict[bytes, float] = {}
    for name, value in _SAMPLE.findall(metrics):
        try:
            number = float(value)
        except ValueError:
            continue
        if not 0 <= number <= LARGEST:  # this leaves out NaN and infinity as well
            continue
        sums[name] = max(sums.get(name, 0), number) if name == b"kv_cache_usage_perc" else sums.get(name, 0) + number
    if b"num_requests_running" not in sums or b"num_requests_waiting" not in sums:
        return None
    block = _BLOCK.search(metrics)

    def count(name: bytes) -> int:
        return int(sums.get(name, 0))

    return Load(
        count(b"num_requests_running"),
        count(b"num_requests_waiting"),
        sums.get(b"kv_cache_usage_perc", 0.0),
        count(b"num_preemptions_total"),
        count(b"prefix_cache_queries_total"),
        count(b"prefix_cache_hits_total"),
        int(block[1]) if block else None,
    )
