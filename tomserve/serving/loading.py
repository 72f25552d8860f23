"""Waits for a server that `tomserve serve` has recorded and that is not ready yet, instead of starting another one.

vLLM needs minutes to load a large model. Until then its record says "loading", and nothing is asked at its address.
"""

from __future__ import annotations

from collections.abc import Sequence

from tomserve.errors import ConfigError, ServerError
from tomserve.serving import failures, records
from tomserve.serving.records import Record, Seen
from tomserve.serving.waiting import LOADING, Waiting

LOOK_EVERY = 0.5
"""Seconds between two looks at the records."""


def ready(model: str | None, waiting: Waiting) -> list[Record]:
    """The records of servers that are ready, once those that `model` has to wait for are.

    model: the wanted model; None for whichever is served. A server that loads is waited for unless one that is ready
    serves the model; one that was ready and does not answer is waited for in any case. Raises ServerError where a
    server ends meanwhile or the patience does, ConfigError where several models load and none is wanted by name.
    """
    known = records.seen()
    fitting = [one for one in known if model in (None, one.record.model, asked_for(one.record))]
    served = any(one.state == "ready" for one in fitting)
    wanted = [one for one in fitting if one.state == "silent" or (one.state == "loading" and not served)]
    names = sorted({one.record.model for one in wanted})
    if len(names) > 1:
        raise ConfigError(f"several models are being loaded; name one by --model (MODEL=): {', '.join(names)}")
    if wanted:
        known = _wait(wanted, waiting)
    return [one.record for one in known if one.state == "ready"]


def asked_for(record: Record) -> str | None:
    """The model as vLLM's command line names it: a hub id, or a folder."""
    words = record.command
    return words[words.index("serve") + 1] if "serve" in words[:-1] else None


def wait_at(urls: Sequence[str], waiting: Waiting) -> None:
    """Wait for the servers at these addresses whose records say that they load. Raises as `ready` does."""
    loading = [one for one in records.seen(urls) if one.state == "loading"]
    if loading:
        _wait(loading, waiting, urls)


def _wait(wanted: Sequence[Seen], waiting: Waiting, urls: Sequence[str] | None = None) -> list[Seen]:
    """Look at the records until all of `wanted` are ready, and return all that is then known."""
    began = waiting.clock()
    while True:
        known = records.seen(urls)
        now = {(one.path, one.record.pid): one for one in known}
        left = []
        for before in wanted:
            one = now.get((before.path, before.record.pid))
            if one is None:
                raise ServerError(_ended(before))
            if one.state != "ready":
                left.append(one)
        if not left:
            return known
        passed, one = waiting.clock() - began, left[0]
        most = waiting.allowed(LOADING if one.state == "loading" else waiting.policy.lost_after)
        if passed >= most:
            raise ServerError(_given_up(one, passed))
        waiting.speak(_said(one, passed, most))
        waiting.rest(min(LOOK_EVERY, most - passed))


def _said(one: Seen, passed: float, most: float) -> str:
    if one.state == "silent":
        return f"{one.silence}; waiting for it ... {passed:.0f} s of at most {most:.0f}"
    return f"waiting for {one.named} to load ... {passed:.0f} s of at most {most:.0f}{one.said()}"


def _given_up(one: Seen, passed: float) -> str:
    if one.state == "silent":
        return f"{one.silence} for {passed:.0f} s; stop it, or give --base-url ({one.path} records it)"
    return (
        f"{one.named} is still loading after {passed:.0f} s{one.said()}; repeat the command later, give it more time "
        f"by --patience SECONDS, or stop it (pid {one.record.pid})"
    )


def _ended(before: Seen) -> str:
    """What to tell where a server that was waited for has ended: why, as far as its log tells, and what to do."""
    text = before.log()
    words = failures.explain(text) or " | ".join(failures.last_words(text))
    why = f" ({words})" if words else ""
    return (
        f"{before.named} (pid {before.record.pid}) has ended while it was waited for{why}; its log is "
        f"{before.path.with_suffix('.log')}: mend what it says and start it again by `tomserve serve` (make serve), "
        "give another server by --base-url, or repeat the command to do without it"
    )
