"""Why an experiment whose turn has come has to wait: mostly because its server does not answer yet."""

from __future__ import annotations

from pathlib import Path

from tomserve.engine.sync_http import SyncClient
from tomserve.errors import ConfigError, ServerError
from tomserve.runs.progress import lock_holder
from tomserve.serving import registry
from tomserve.serving.endpoint import REFERENCE, normalize_url, redact_url
from tomserve.workflows.evaluate import Experiment

SECONDS = 5.0
"""How long a server may take to answer anything."""

LOADS = (502, 503, 504)
"""What a server answers that loads a model, or a proxy in front of it."""


def reason(experiment: Experiment, folder: Path) -> str:
    """Why the experiment cannot begin now, in one sentence; "" where it can. No key is sent to any server."""
    pid = lock_holder(folder)
    if pid is not None:
        return f"another process{f' ({pid})' if pid else ''} works on this run; it goes on once that has ended"
    if not experiment.base_url:
        return _here(experiment.model, start=experiment.start)
    urls = [normalize_url(url) for url in experiment.base_url]
    for one in registry.believed_records(urls):
        if one.state == "loading":
            return f"the server at {redact_url(one.record.url)} is loading its model"
    return next((why for url in urls if (why := _there(url))), "")


def _there(url: str) -> str:
    """Why nothing can be asked at an address now; "" where something answers there, whatever it says."""
    try:
        with SyncClient(seconds=SECONDS) as exchange:
            status = exchange.ask("GET", f"{url}/models").status_code
    except (ServerError, ConfigError):
        return f"no server answers at {redact_url(url)} yet"
    return f"the server at {redact_url(url)} is busy, or still loads" if status in LOADS else ""


def _here(model: str | None, *, start: bool) -> str:
    """Why no server of this machine can be asked now; "" where one can, or where one is started."""
    fitting = [
        one
        for one in registry.believed_records()
        if model in (None, one.record.model, registry.model_argument(one.record))
    ]
    if any(one.state == "ready" for one in fitting):
        return ""
    if fitting:
        doing = "is loading its model" if fitting[0].state == "loading" else "does not answer now"
        return f"the server of {fitting[0].record.model} {doing}"
    if start or model in (None, REFERENCE):
        return ""
    return f"no server of {model} runs; start one with `tomserve serve {model}`"
