"""Run folders to make reports of, hostile ones too, and reading what a page holds."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson

from tests.conftest import ROOT, make_item
from tomserve import benchmarks, variants
from tomserve.benchmarks.hitom.baselines import places
from tomserve.items import Item, write_items

PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    '"><svg/onload=alert(4)>',
    "' onmouseover='alert(5)",
    "[click](javascript:alert(6))",
    "javascript:alert(7)",
    "{{ 7*7 }}{% raw %}",
    "datum.x && (window.hacked=1)",
    "${window.hacked=1}",
    '=HYPERLINK("http://evil.example/","x")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    r"\input{/etc/passwd}$\write18{id}$ % & # _",
    "<!-- <style>*{display:none}</style>",
    "]]><![CDATA[",
    "\u2028alert(8)\u2029",
    '<a href="http://evil.example/">x</a>',
    "&lt;b&gt;&#x27;",
    "url(http://evil.example/x)",
]


def run_folder(
    folder: Path, answers: dict[str, dict[str, Any]], items: list[Item], model: str = "tiny", **more: Any
) -> Path:
    """A run folder of these items; answers: strategy -> item id -> fields of the response."""
    folder.mkdir(parents=True)
    write_items(folder / "items.jsonl", items)
    with (folder / "responses.jsonl").open("wb") as journal:
        for strategy, given in answers.items():
            for item, fields in given.items():
                row = {"schema": 1, "item": item, "strategy": strategy, "turn": 0, "key": "k", "status": "ok"}
                journal.write(orjson.dumps({**row, "reasoning": None, **fields}) + b"\n")
    strategies = {name: {"digest": "sha256:0", "chain": name == "cot"} for name in answers}
    manifest = {"schema": 1, "run": folder.name, "model": model, "benchmark": items[0].benchmark, "complete": True}
    (folder / "manifest.json").write_bytes(orjson.dumps({**manifest, "strategies": strategies, **more}))
    return folder


def hitom_run(folder: Path) -> Path:
    """A run of the small Hi-ToM file: vanilla always answers the first container that the story mentions, the chain
    strategy is right and states the gold chain."""
    items = list(benchmarks.load("hitom", ROOT / "tests/data/hitom_small.json"))
    vanilla, chain = {}, {}
    for item in items:
        first = str(places(item)["places_mentioned"]).split()[0]
        vanilla[item.id] = {"text": json.dumps({"answer": first})}
        gold = item.gold.chains[0] if item.gold and item.gold.chains else ["unknown"] * len(item.story)
        beliefs = [{"sentence": number, "belief": label} for number, label in enumerate(gold, 1)]
        chain[item.id] = {"text": json.dumps({"beliefs": beliefs, "answer": item.answer})}
    return run_folder(folder, {"hitom_vanilla": vanilla, "hitom_chain": chain}, items)


def varied_run(folder: Path) -> Path:
    """A run of some questions of a stage and their variants, to which the model always names the first choice."""
    found = benchmarks.get("perturbed")
    items = [item for item in found.items() if item.cluster == "C1/none"]
    told = variants.make_variants(
        items, variants.parse_kinds(["person,condensed,choices"]), benchmarks.retelling(found)
    )
    every = [*items, *(one for one in told if isinstance(one, Item))]
    answers = {one.id: {"text": json.dumps({"answer": one.choices[0]})} for one in every}
    return run_folder(folder, {"vanilla": answers}, every)


def hostile_run(tmp_path: Path, model: str = "<b>m</b>") -> Path:
    """A run in which everything that others write is a payload: stories, labels, factors, ids, texts, manifest."""
    items, vanilla = [], {}
    cot: dict[str, dict[str, str | None]] = {}
    for number, payload in enumerate(PAYLOADS):
        choices = [f"{payload} a".strip(), f"{payload} b".strip(), "unknown"]
        item = Item(
            id=f"{number}/{payload}",
            story=[payload, f"Then {payload}", "Ada leaves."],
            question=payload,
            choices=choices,
            answer=choices[0],
            gold={
                "sets": [["unknown"], [choices[0], choices[1]], [choices[0]]],
                "edges": [[2, choices[1], choices[0]]],
            },
            factors={"perturbation": payload, "evil": payload, "stage": payload},
            cluster=payload,
            canary=payload,
        )
        items.append(item)
        beliefs = [{"sentence": place, "belief": choices[0]} for place in (1, 2, 3)]
        vanilla[item.id] = {"text": json.dumps({"answer": choices[number % 3]}), "reasoning": payload}
        cot[item.id] = {"text": f"{payload} " + json.dumps({"beliefs": beliefs, "answer": choices[0]})}
    cot[items[0].id] = {"text": None, "status": "http_500", "error": PAYLOADS[0]}
    server = {"command": ["vllm", PAYLOADS[0], "--api-key", "sk-verysecret"], "<b>": PAYLOADS[2]}
    return run_folder(tmp_path / "hostile", {"vanilla": vanilla, "cot": cot}, items, model, server=server)


def talking_run(folder: Path) -> Path:
    """A run with a strategy of two turns and one whose program asks for five replies at once, as `eval` writes it.

    Of the second item the first strategy lacks its last turn and the second one ends by a refusal; every text of the
    fan-out is a payload."""
    items = [make_item(number) for number in (1, 2)]
    run_folder(folder, {"two": {}, "fan": {}}, items)
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    manifest["strategies"]["two"]["turns"], manifest["strategies"]["fan"]["turns"] = 2, 0
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    answer = '{"answer": "tea"}'
    long = " ".join(["A long thought."] * 100)
    rows: list[dict[str, Any]] = [
        {"item": "demo/1", "strategy": "two", "text": None, "status": "timeout"},
        {"item": "demo/1", "strategy": "two", "text": f"Ada saw it. {long}", "reasoning": "Whom do they ask about?"},
        {"item": "demo/2", "strategy": "two", "text": f"Ada saw it. {long}", "reused": True},
        {"item": "demo/1", "strategy": "two", "turn": 1, "text": answer, "closes": 2},
        *({"item": "demo/1", "strategy": "fan", "turn": turn, "text": PAYLOADS[turn]} for turn in (3, 0, 1, 4)),
        {"item": "demo/1", "strategy": "fan", "turn": 2, "text": PAYLOADS[2], "closes": 5, "conclusion": answer},
        {"item": "demo/2", "strategy": "fan", "text": PAYLOADS[10], "status": "length"},
        {"item": "demo/2", "strategy": "fan", "turn": 1, "text": PAYLOADS[11], "status": "refusal", "closes": 2},
    ]
    with (folder / "responses.jsonl").open("ab") as journal:
        for row in rows:
            whole = {"schema": 1, "turn": 0, "key": "k", "status": "ok", "reasoning": None, "reused": False, **row}
            journal.write(orjson.dumps(whole) + b"\n")
    return folder


def sampled_run(folder: Path) -> Path:
    """A run of three samples of two questions: the majority of the first is the second sample's answer, and the first
    sample of the second question failed."""
    texts = {
        "demo/1": ('{"answer": "salt"}', '{"answer": "tea"}', '{"answer": "tea"}'),
        "demo/2": (None, '{"answer": "salt"}', "hm"),
    }
    run_folder(folder, {"vanilla": {}}, [make_item(1), make_item(2)], sampling={"temperature": 0.7, "repeats": 3})
    with (folder / "responses.jsonl").open("ab") as journal:
        for item, samples in texts.items():
            for sample, text in enumerate(samples):
                row = {"item": item, "strategy": "vanilla", "turn": 0, "key": f"{item}{sample}", "text": text}
                more = {"status": "ok" if text else "timeout", **({"sample": sample} if sample else {})}
                journal.write(orjson.dumps({"schema": 1, **row, **more}) + b"\n")
    return folder


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of each kind."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        self._open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.found if name == tag]


def data_of(text: str) -> dict[str, Any]:
    """What the item browser unpacks."""
    (packed,) = re.findall(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', text)
    found: dict[str, Any] = orjson.loads(gzip.decompress(base64.b64decode(packed)))
    return found
