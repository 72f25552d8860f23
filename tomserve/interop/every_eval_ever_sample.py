"""A reply in the form of Every Eval Ever's instance-level schema, and the names that the schema's folders ask for.

A strategy that asks once gives a single turn; a conversation gives all of its messages. What failed has no text, an
error, and the score 0.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tomserve.interop.answered import Answered
from tomserve.interop.inspect_sample import tokens
from tomserve.interop.transcripts import Transcript
from tomserve.status import OK

SCHEMA = "0.3.0"
UNKNOWN = "unknown"

_UNPORTABLE = re.compile(r'[<>:"/\\|?*]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.I)
_LONGEST = 120


@dataclass(frozen=True)
class Joined:
    """What a sample repeats of its evaluation. evaluation: its id. result: the id of the result that it counts in.
    name: what that result is called. model: the id of the model."""

    evaluation: str
    result: str
    name: str
    model: str


def component(name: str) -> str:
    """A name as that of a folder which every system can have, as the schema's own checks ask for.

    >>> component("azure/gpt-4o:free"), component("data"), component("..")
    ('azure_gpt-4o_free', 'data_', 'unknown')
    """
    made = "".join(one if one.isprintable() else "_" for one in _UNPORTABLE.sub("_", name.strip())).rstrip(". ")
    if len(made.encode()) > _LONGEST:
        made = made.encode()[:_LONGEST].decode(errors="ignore") + hashlib.sha256(name.encode()).hexdigest()[:12]
    if not made:
        return UNKNOWN
    return f"{made}_" if made == "data" else f"_{made}" if _RESERVED.fullmatch(made) else made


def model_id(name: str, developer: str | None) -> str:
    """The model's id as developer/model. name: as the server names the model; of a path only the last part counts.
    developer: who made it, where the name does not say so.

    >>> model_id("/data/models/yi", None), model_id("openai/azure/gpt-4o", None), model_id("gpt-4o", "openai")
    ('unknown/yi', 'openai/azure/gpt-4o', 'openai/gpt-4o')
    """
    parts = [one for one in name.split("/") if one.strip() not in ("", ".", "..")]
    if name.startswith(("/", "./", "../", "~")):
        parts = parts[-1:]
    return "/".join(parts) if len(parts) > 1 else f"{developer or UNKNOWN}/{parts[0] if parts else UNKNOWN}"


def sample(one: Answered, joined: Joined, talk: Transcript | None) -> dict[str, Any]:
    """A reply as the schema has it. joined: what it repeats of its evaluation. talk: the whole conversation of a
    strategy that asks several times, else None."""
    told = () if one.item.story == (one.item.question,) else one.item.story  # a question that stands alone
    raw = "\n".join((*told, one.item.question))
    reference = [one.item.answer]
    score, row = one.score, one.row
    rows = list(talk.rows.values()) if talk is not None else [row]
    replies = sum(said.turn is not None for said in talk.messages) if talk is not None else 0
    return {
        "schema_version": SCHEMA,
        "evaluation_id": joined.evaluation,
        "model_id": joined.model,
        "evaluation_name": joined.name,
        "evaluation_result_id": joined.result,
        "sample_id": one.item.id,
        "sample_hash": hashlib.sha256((raw + "".join(reference)).encode()).hexdigest(),
        "interaction_type": "single_turn" if talk is None else "multi_turn",
        "input": {
            "raw": raw,
            "formatted": "\n\n".join(message["content"] for message in one.messages) if talk is None else None,
            "reference": reference,
            "choices": list(one.item.choices) or None,
        },
        "output": _output(row) if talk is None else None,
        "messages": None if talk is None else _messages(talk),
        "answer_attribution": _read(one, talk),
        "evaluation": {
            "score": float(score["correct"]),
            "is_correct": bool(score["correct"]),
            **({"num_turns": replies} if replies else {}),
        },
        "token_usage": _usage(rows),
        "performance": _performance(rows),
        "error": None if score["status"] == OK else f"{score['status']}: {score['reason'] or 'no reply'}",
        "metadata": _metadata(one),
    }


def _output(row: Mapping[str, Any]) -> dict[str, Any]:
    thoughts = row.get("reasoning")
    return {"raw": [row.get("text") or ""], "reasoning_trace": [thoughts] if thoughts else None}


def _messages(talk: Transcript) -> list[dict[str, Any]]:
    return [
        {"turn_idx": place, "role": said.role, "content": said.content, "reasoning_trace": said.reasoning}
        for place, said in enumerate(talk.messages)
    ]


def _read(one: Answered, talk: Transcript | None) -> list[dict[str, Any]]:
    """Where the answer stands, and how it was read; nothing where none was."""
    if one.score["answer"] is None:
        return []
    place, source = 0, "output.raw"
    if talk is not None:
        text = one.row.get("text")
        found = [at for at, said in enumerate(talk.messages) if said.turn is not None and said.content == text]
        place = found[-1] if found else max(len(talk.messages) - 1, 0)
        source = "messages[turn_idx].content" if found else "the text that the strategy's program concluded with"
    return [
        {
            "turn_idx": place,
            "source": source,
            "extracted_value": str(one.score["answer"]),
            "extraction_method": f"tomserve:{one.score['parse']}",
            "is_terminal": True,
        }
    ]


def _usage(rows: Iterable[Mapping[str, Any]]) -> dict[str, int] | None:
    """Tokens of all requests together; None where the server did not count those of one of them."""
    whole = Counter[str]()
    for row in rows:
        used = tokens(row.get("usage"))
        if not used or any(type(count) is not int or count < 0 for count in used.values()):
            return None
        whole.update(used)
        cached = row["usage"].get("cached")
        if type(cached) is int and cached > 0:
            whole["input_tokens_cache_read"] += cached
    return dict(whole) or None


def _performance(rows: Iterable[Mapping[str, Any]]) -> dict[str, float] | None:
    """How long all requests together took; None where that was not measured of one of them."""
    seconds = [(row.get("timings") or {}).get("total_s") for row in rows]
    known = [one for one in seconds if isinstance(one, int | float) and math.isfinite(one) and one >= 0]
    return {"latency_ms": round(1000 * sum(known), 3)} if known and len(known) == len(seconds) else None


def _metadata(one: Answered) -> dict[str, str]:
    """The factors of a question and what belongs to the reply, all as texts, as the schema asks for."""
    ours: Mapping[str, Any] = {
        "cluster": one.item.cluster,
        "strategy": one.strategy,
        "sample": one.sample,
        "base": one.item.base,
        "canary": one.item.canary or None,
    }
    factors = {f"factor_{name}" if name in ours else name: value for name, value in one.item.factors.items()}
    told = {name: value for name, value in (*factors.items(), *ours.items()) if value is not None}
    return {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in told.items()}
