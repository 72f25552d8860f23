"""Writes a run in the form of Every Eval Ever, a schema that leaderboards share (version 0.3.0).

A strategy is an evaluation: a JSON file with its accuracy and the uncertainty, and a file of JSON lines with every
reply beside it, in the folders ``data/<benchmark>/<developer>/<model>/`` that the schema's own checks ask for.
Variants of the questions are results of their own. What failed has no text, an error, and the score 0. The same run
gives the same bytes: the time of a record is that of the newest reply, or of the import.
"""

import hashlib
import math
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tomserve._version import __version__
from tomserve.content import output_path
from tomserve.content.paths import run_place
from tomserve.errors import ConfigError, TomserveError
from tomserve.interop.inspect_export import parse_time, token_counts
from tomserve.interop.scored_replies import RightReplies, ScoredReplies, ScoredReply, Transcript, Transcripts
from tomserve.runs.progress import Listener
from tomserve.serving.presets import Preset
from tomserve.status import OK

SCHEMA = "0.3.0"
UNKNOWN = "unknown"

_UNPORTABLE = re.compile(r'[<>:"/\\|?*]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.I)
_LONGEST = 120


def path_component(name: str) -> str:
    """A name as that of a folder which every system can have.

    >>> path_component("azure/gpt-4o:free"), path_component("data"), path_component("..")
    ('azure_gpt-4o_free', 'data_', 'unknown')
    """
    component = "".join(one if one.isprintable() else "_" for one in _UNPORTABLE.sub("_", name.strip())).rstrip(". ")
    if len(component.encode()) > _LONGEST:
        component = (
            component.encode()[:_LONGEST].decode(errors="ignore") + hashlib.sha256(name.encode()).hexdigest()[:12]
        )
    if not component:
        return UNKNOWN
    return f"{component}_" if component == "data" else f"_{component}" if _RESERVED.fullmatch(component) else component


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


def make_sample(one: ScoredReply, repeated: Mapping[str, str], transcript: Transcript | None) -> dict[str, Any]:
    """A reply as the schema has it. repeated: what it repeats of its evaluation. transcript: the whole conversation of
    a strategy that asks several times, else None."""
    sentences = () if one.item.story == (one.item.question,) else one.item.story  # a question that stands alone
    raw = "\n".join((*sentences, one.item.question))
    score, row = one.score, one.row
    rows = list(transcript.rows.values()) if transcript is not None else [row]
    replies = sum(message.turn is not None for message in transcript.messages) if transcript is not None else 0
    thoughts = row.get("reasoning")
    return {
        "schema_version": SCHEMA,
        **repeated,
        "sample_id": one.item.id,
        "sample_hash": hashlib.sha256((raw + one.item.answer).encode()).hexdigest(),
        "interaction_type": "single_turn" if transcript is None else "multi_turn",
        "input": {
            "raw": raw,
            "formatted": "\n\n".join(message["content"] for message in one.messages) if transcript is None else None,
            "reference": [one.item.answer],
            "choices": list(one.item.choices) or None,
        },
        "output": {"raw": [row.get("text") or ""], "reasoning_trace": [thoughts] if thoughts else None}
        if transcript is None
        else None,
        "messages": None if transcript is None else _messages(transcript),
        "answer_attribution": _read(one, transcript),
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


def _messages(transcript: Transcript) -> list[dict[str, Any]]:
    return [
        {"turn_idx": place, "role": message.role, "content": message.content, "reasoning_trace": message.reasoning}
        for place, message in enumerate(transcript.messages)
    ]


def _read(one: ScoredReply, transcript: Transcript | None) -> list[dict[str, Any]]:
    """Where the answer stands, and how it was read; nothing where none was."""
    if one.score["answer"] is None:
        return []
    place, source = 0, "output.raw"
    if transcript is not None:
        text = one.row.get("text")
        found = [
            at for at, message in enumerate(transcript.messages) if message.turn is not None and message.content == text
        ]
        place = found[-1] if found else max(len(transcript.messages) - 1, 0)
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
    counts = Counter[str]()
    for row in rows:
        used = token_counts(row.get("usage"))
        if not used or any(type(count) is not int or count < 0 for count in used.values()):
            return None
        counts.update(used)
        cached = row["usage"].get("cached")
        if type(cached) is int and cached > 0:
            counts["input_tokens_cache_read"] += cached
    return dict(counts) or None


def _performance(rows: Iterable[Mapping[str, Any]]) -> dict[str, float] | None:
    """How long all requests together took; None where that was not measured of one of them."""
    seconds = [(row.get("timings") or {}).get("total_s") for row in rows]
    known = [one for one in seconds if isinstance(one, int | float) and math.isfinite(one) and one >= 0]
    return {"latency_ms": round(1000 * sum(known), 3)} if known and len(known) == len(seconds) else None


def _metadata(one: ScoredReply) -> dict[str, str]:
    """The factors of a question and what belongs to the reply, all as texts, as the schema asks for."""
    ours: Mapping[str, Any] = {
        "cluster": one.item.cluster,
        "strategy": one.strategy,
        "sample": one.sample,
        "base": one.item.base,
        "canary": one.item.canary or None,
    }
    factors = {f"factor_{name}" if name in ours else name: value for name, value in one.item.factors.items()}
    metadata = {name: value for name, value in (*factors.items(), *ours.items()) if value is not None}
    return {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in metadata.items()}


RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
"""How who evaluates may stand to who made the model."""

TELL_EVERY = 20_000


@dataclass
class _ResultCounts(RightReplies):
    """The replies that one result counts. failed: those without an answer."""

    failed: int = 0

    def details(self) -> dict[str, Any]:
        """The share of right answers and its uncertainty."""
        shares, by_cluster = self.shares, self.by_cluster()
        mean = math.fsum(shares) / len(shares)
        low, high, method = self.interval()
        uncertainty: dict[str, Any] = {"num_samples": len(shares)}
        if len(by_cluster) > 1:  # one cluster says nothing of how clusters differ
            error = math.sqrt(sum(sum(one - mean for one in values) ** 2 for values in by_cluster.values()))
            robust = f"analytic, robust to {len(by_cluster)} clusters of questions"
            uncertainty["standard_error"] = {"value": error / len(shares), "method": robust}
        if math.isfinite(low) and math.isfinite(high):
            between = {"lower": low, "upper": high, "confidence_level": 0.95, "method": method}
            uncertainty["confidence_interval"] = between
        counts = {
            "questions": len(shares),
            "replies": sum(map(len, self.right.values())),
            "failed": self.failed,
            "clusters": len(by_cluster),
        }
        details = {name: str(count) for name, count in counts.items()}
        return {"score": mean, "details": details, "uncertainty": uncertainty}


class Evaluation:
    """One strategy of a run as an evaluation.

    organization: who evaluates. relationship: one of RELATIONSHIPS. developer: who made the model, where its name does
    not say so. Raises ConfigError where nothing says when the run was asked.
    """

    def __init__(
        self, replies: ScoredReplies, strategy: str, organization: str, relationship: str, developer: str | None = None
    ) -> None:
        self._replies, self._strategy = replies, strategy
        self._organization, self._relationship, self._developer = organization, relationship, developer
        manifest = replies.manifest
        self.model = model_id(_hub_name(manifest.preset) or manifest.model, developer)
        asked = manifest.foreign.created if manifest.foreign is not None else manifest.created
        self._asked, self._made = to_epoch(asked), to_epoch(manifest.created)
        newest = replies.newest(strategy) if manifest.foreign is None else None
        seconds = max(one for one in (to_epoch(newest), self._made, -1) if one is not None)
        if seconds < 0:
            raise ConfigError(
                f"{replies.folder / 'manifest.json'}: created: found {manifest.created!r:.60}; expected a time such as "
                "2026-11-22T12:14:01Z, because the schema of Every Eval Ever asks when a run was made"
            )
        self._retrieved = str(seconds)
        names = (manifest.benchmark, *self.model.split("/", 1))
        self.folder = Path("data", *map(path_component, names))
        self.id = f"{manifest.benchmark}-{strategy}/{self.model.replace('/', '_')}/{seconds}"
        identity = f"{run_place(replies.folder)}\n{strategy}\n{self.id}".encode()
        self.uuid = str(uuid.UUID(bytes=hashlib.sha256(identity).digest()[:16], version=4))
        self._counted: dict[str, _ResultCounts] = {}

    def write(self, out: Path, listener: Listener) -> tuple[Path, Path] | None:
        """Write both files below a folder. Returns their paths; None where that strategy has no reply. Raises
        ConfigError as `open_output` does, OSError where they cannot be written."""
        if next(self._replies.of(self._strategy), None) is None:
            return None
        samples = out / self.folder / f"{self.uuid}_samples.jsonl"
        samples.parent.mkdir(parents=True, exist_ok=True)
        sha, rows = hashlib.sha256(), 0
        turns = self._replies.manifest.strategies[self._strategy].turns
        transcripts = Transcripts(self._replies, self._strategy) if turns != 1 else None
        with output_path.open_output(samples, self._replies.folder) as file:
            for one in self._replies.of(self._strategy):
                transcript = transcripts.of(one) if transcripts is not None else None
                line = orjson.dumps(make_sample(one, self._count(one), transcript)) + b"\n"
                sha.update(line)
                file.write(line)
                rows += 1
                if rows % TELL_EVERY == 0:
                    listener.message(f"{rows:,} samples written so far")
        path = out / self.folder / f"{self.uuid}.json"
        with output_path.open_output(path, self._replies.folder) as file:
            record = self._record((self.folder / samples.name).as_posix(), sha.hexdigest(), rows)
            file.write(orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")
        return path, samples

    def _count(self, one: ScoredReply) -> dict[str, str]:
        """Count a reply in its result; returns what joins both."""
        variant = str(one.item.factors.get("variant") or "") if one.item.base is not None else ""
        counts = self._counted.setdefault(variant, _ResultCounts())
        counts.add(one)
        counts.failed += one.score["answer"] is None and not one.score["correct"]
        return {
            "evaluation_id": self.id,
            "model_id": self.model,
            **self._names(variant),
        }

    def _names(self, variant: str) -> dict[str, str]:
        benchmark, of = self._replies.manifest.benchmark, f"/{variant}" if variant else ""
        result = f"{benchmark}/{self._strategy}{of}/accuracy"
        return {"evaluation_result_id": result, "evaluation_name": f"{benchmark}{of}"}

    def _record(self, samples: str, checksum: str, rows: int) -> dict[str, Any]:
        manifest = self._replies.manifest
        library: dict[str, Any] = {"name": "tomserve", "version": manifest.tomserve or UNKNOWN}
        if manifest.foreign is not None:
            library = {"name": manifest.foreign.tool, "version": manifest.foreign.version or UNKNOWN}
        return {
            "schema_version": SCHEMA,
            "evaluation_id": self.id,
            **self._times(),
            "retrieved_timestamp": self._retrieved,
            "source_metadata": {
                "source_name": library["name"],
                "source_type": "evaluation_run",
                "source_organization_name": self._organization,
                "evaluator_relationship": self._relationship,
            },
            "eval_library": {**library, "additional_details": {"scored_by": f"tomserve {__version__}"}},
            "model_info": self._model_info(),
            "evaluation_results": [self._results(variant) for variant in sorted(self._counted)],
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": samples,
                "hash_algorithm": "sha256",
                "checksum": checksum,
                "total_rows": rows,
            },
        }

    def _times(self) -> dict[str, str]:
        """When it was asked, where that is known: of another tool's replies it is when that tool says it asked."""
        return {} if self._asked is None else {"evaluation_timestamp": str(self._asked)}

    def _model_info(self) -> dict[str, Any]:
        manifest = self._replies.manifest
        version, engine = (manifest.server.get(name) for name in ("engine_version", "engine"))
        name = re.sub(rf"\s+v?{re.escape(str(version))}$", "", engine) if isinstance(engine, str) else "vllm"
        named = {"name": name, "version": str(version)} if version else None
        return {
            "name": manifest.model,
            "id": self.model,
            **({"developer": self._developer} if self._developer else {}),
            **({"inference_engine": named} if named else {}),
            "additional_details": {
                "deployment_type": "self_deployed" if manifest.server.get("command") else UNKNOWN,
                "model_availability": UNKNOWN,
                **({"revision": manifest.revision} if manifest.revision else {}),
            },
        }

    def _results(self, variant: str) -> dict[str, Any]:
        manifest, counts = self._replies.manifest, self._counted[variant]
        asked = manifest.strategies[self._strategy]
        temperature = manifest.sampling.get("temperature")
        several = f", the mean over {counts.repeats} replies to each question" if counts.repeats > 1 else ""
        of = f" Only the variants {variant!r} of the questions count." if variant else ""
        arguments: dict[str, Any] = {} if temperature is None else {"temperature": temperature}
        if type(asked.max_tokens) is int and asked.max_tokens > 0:
            arguments["max_tokens"] = asked.max_tokens
        if asked.chain:
            arguments["reasoning"] = True
        return {
            **self._names(variant),
            "source_data": {
                "dataset_name": manifest.benchmark,
                "source_type": "other",
                "additional_details": {
                    "digest": str(manifest.benchmark_digest),
                    "items": str(manifest.benchmark_items),
                },
            },
            **self._times(),
            "metric_config": {
                "evaluation_description": f"Share of questions answered right{several}; a failure counts as wrong.{of}",
                "metric_id": "accuracy",
                "metric_name": "Accuracy",
                "metric_kind": "accuracy",
                "metric_unit": "proportion",
                "lower_is_better": False,
                "score_type": "continuous",
                "min_score": 0.0,
                "max_score": 1.0,
            },
            "score_details": counts.details(),
            "generation_config": {
                "generation_args": arguments,
                "additional_details": {
                    "strategy": self._strategy,
                    **({"prompts_digest": asked.digest} if asked.digest else {}),
                },
            },
        }


def _hub_name(preset: str | None) -> str | None:
    """The name on the hub of the model that a preset serves; None where there is no such preset, or it has none."""
    try:
        found = Preset.lookup(preset)
    except TomserveError:
        return None
    return found.model if found is not None and re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", found.model) else None


def to_epoch(time: str | None) -> int | None:
    """A time as seconds since 1970, in UTC where it names no zone; None where it is not known.

    >>> to_epoch("2026-11-22T12:14:01Z"), to_epoch("yesterday")
    (1795349641, None)
    """
    found = parse_time(time)
    return None if found is None else int(found.timestamp())
