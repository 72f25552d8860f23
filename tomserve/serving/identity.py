"""Whether the server that is to answer is the one that answered before: what stands in the sessions of a manifest.

Compared is what a server says of itself (served model, root, version, context) and, of servers that we start, also its
revision, template and flags. Only what is known of both counts. A folder of our own may have moved: where the revision
of both is known, that decides and not the path.

>>> changes({"root": "/a", "engine_version": None}, {"root": "/b", "engine_version": "0.32.0"})
[{'what': 'root', 'before': '/a', 'now': '/b'}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tomserve.errors import RunMismatchError

COMPARED = (
    *("model", "root", "engine", "engine_version", "max_model_len", "revision", "dtype", "quantization"),
    *("tensor_parallel", "pipeline_parallel", "template", "batch_invariant"),
)
"""Fields of a session that tell one server from another."""

NEUTRAL = frozenset(
    (
        *("host", "port", "enable-prompt-tokens-details", "max-num-queued-reqs", "disable-log-requests"),
        *("max-num-seqs", "max-num-batched-tokens", "gpu-memory-utilization", "uvicorn-log-level"),
        *("served-model-name", "revision", "max-model-len", "dtype", "quantization", "q", "chat-template"),
        *("tensor-parallel-size", "tp", "pipeline-parallel-size", "pp"),
    )
)
"""Flags that are not compared: where a server listens, what it logs and how much it takes at a time, which differs
between machines; and those that are compared as fields of their own."""

Session = Mapping[str, Any]
Change = dict[str, Any]


def changes(before: Session, now: Session) -> list[Change]:
    """What is known of both servers and differs: `what`, `before`, `now`, one entry a field or flag.

    A field that holds a list tells of several replicas; there only what nobody of them was before is a change.
    """
    ours = all(session.get("command") and session.get("revision") for session in (before, now))
    found = []
    for name in COMPARED:
        old, new = before.get(name), now.get(name)
        if name == "template":
            old, new = _digest(old), _digest(new)
        if old is None or new is None or (name == "root" and ours):
            continue
        known = old if isinstance(old, list) else [old]
        if any(value not in known for value in (new if isinstance(new, list) else [new])):
            found.append({"what": name, "before": old, "now": new})
    return found + list(_flag_changes(before.get("command"), now.get("command")))


def both(before: Any, now: Any) -> list[Any]:
    """What two values of a field say together: of a session in which both servers answered."""
    parts = [value if isinstance(value, list) else [value] for value in (before, now)]
    return list(dict.fromkeys([*parts[0], *parts[1]]))


def _digest(template: Any) -> Any:
    return template.get("digest") if isinstance(template, Mapping) else None


def _flag_changes(before: Any, now: Any) -> Iterator[Change]:
    if not before or not now:
        return
    old, new = flags(before), flags(now)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield {"what": f"flag --{name}", "before": old.get(name, "not given"), "now": new.get(name, "not given")}


def flags(command: Sequence[str]) -> dict[str, str]:
    """The flags of a vLLM command line that may change what is answered, of files only their names; the last counts.

    >>> flags(["python", "serve", "m", "--port", "1", "--seed=2", "--enforce-eager", "--x_y", "/tmp/a/b.json"])
    {'seed': '2', 'enforce-eager': 'given', 'x-y': 'b.json'}
    """
    return {name: value for name, value in every_flag(command).items() if name not in NEUTRAL}


def every_flag(command: Sequence[str]) -> dict[str, str]:
    """All flags of a vLLM command line with their values, of files only their names; of several the last counts.

    >>> every_flag(["python", "-m", "vllm", "serve", "m", "--port", "1", "--enforce-eager"])
    {'port': '1', 'enforce-eager': 'given'}
    """
    found: dict[str, str] = {}
    words = [word for word in command if isinstance(word, str)]
    for place, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = words[place + 1] if place + 1 < len(words) else "-"
            value = "given" if value.startswith("-") else value
        if (name := name.replace("_", "-")) != "m":  # python -m
            found[name] = Path(value).name if value.startswith(("/", "./", "~/")) else value
    return found


def previous(sessions: Any) -> Session | None:
    """The last session that has answers, or may have (one that was killed does not say); None where there is none."""
    return next(reversed(_answered(sessions)), None)


def _answered(sessions: Any) -> list[Session]:
    every = [session for session in sessions if isinstance(session, Mapping)] if isinstance(sessions, list) else []
    return [session for session in every if session.get("asked", True) and session.get("answers") != 0]


def check(folder: Path, sessions: Any, now: Session, *, accepted: bool) -> list[Change]:
    """What has changed since the last session with answers, if that is accepted; none where all is as it was.

    Raises RunMismatchError naming everything that changed where it is not accepted.
    """
    before = previous(sessions) or {}
    found = changes(before, now)
    if found and not accepted:
        told = "; ".join(map(said, found))
        raise RunMismatchError(
            f"{folder}: another server would answer than in the session of {_short(before.get('time'))}: {told}; "
            "use --run NEW for a new run (make: RUN=NEW), or go on in this one by --accept-change, which the manifest "
            "records"
        )
    return found


def said(change: Mapping[str, Any]) -> str:
    """A change in words, fit to be shown whatever the manifest holds."""
    return f"{_short(change.get('what'))} was {_short(change.get('before'))}, now it is {_short(change.get('now'))}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 80 else text[:77] + "..."


def history(sessions: Any) -> list[str]:
    """Every change of the server or of the model that answered during a run, a sentence each, in order."""
    told = []
    answered = _answered(sessions)
    for before, now in zip([None, *answered], answered, strict=False):
        found = changes(before, now) if before is not None else []
        noted = now.get("changes")
        found += [
            dict(change)
            for change in (noted if isinstance(noted, list) else [])
            if isinstance(change, Mapping) and not any(change.get("what") == other["what"] for other in found)
        ]
        told += [f"{_short(change.get('time', now.get('time')))}: {said(change)}" for change in found]
    return told
