"""How edited chains are shown for every kind of strategy, and how the answers to them are read."""

from typing import Any

import orjson
import polars as pl
import pytest

import tomserve
from tests.conftest import Endpoint, completion, make_item
from tests.helpers.answerers import guess
from tests.helpers.asking import FAST
from tomserve.faithfulness.measurement import measure
from tomserve.faithfulness.settings import Connection, Settings
from tomserve.items import Item

ITEMS = [make_item(number, factors={"perturbation": "none"}) for number in range(1, 7)]
PROSE = "The jar holds tea. Ada looks into the jar. So Ada believes that it holds {}."


class Reasoner:
    """A model that reasons in any form that it is asked for, and answers by the last label of its reasoning."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def __call__(self, body: dict[str, Any], number: int) -> Any:
        messages = body["messages"]
        begun = bool(body.get("continue_final_message"))
        tokens = sum(len(message["content"]) for message in messages) // 4 + (0 if begun else 6)
        if any(one["content"] == "Hello." for one in messages):
            text = body.get("structured_outputs", {}).get("choice", ["Hello"])[0]
        else:
            self.seen.append(body)
            text = self.said(body, messages, begun)
        made = completion(text)
        made["usage"] = {"prompt_tokens": tokens, "completion_tokens": 3}
        return made

    def said(self, body: dict[str, Any], messages: list[dict[str, str]], begun: bool) -> str:
        chains = [message["content"] for message in messages if message["role"] == "assistant"]
        item = next(one for one in ITEMS if any(one.story[1] in message["content"] for message in messages))
        answer = last_label(chains[-1], item) if chains else item.answer
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        if begun:
            offered = body.get("structured_outputs", {}).get("choice")
            texts = [one[: -len('"}')] for one in offered] if offered else schema["enum"]
            picked = pick(answer, texts, item)
            return f'{picked}"}}' if offered else orjson.dumps(picked).decode()
        if not chains and not schema:
            return PROSE.format(answer) + ("\nAnswer: a)tea" if "<option>" in str(messages) else "")
        if "explanation" in schema.get("properties", {}):
            return orjson.dumps(
                {"explanation": PROSE.format(answer), "answer": self.choice(schema, answer, item)}
            ).decode()
        if not schema:  # BigToM's own second turn
            letter = "abc"[list(item.choices).index(answer)]
            return f"{letter}) {answer}"
        return orjson.dumps({"answer": self.choice(schema, answer, item)}).decode()

    def choice(self, schema: dict[str, Any], answer: str, item: Item) -> str:
        return pick(answer, schema["properties"]["answer"]["enum"], item)


def pick(answer: str, offered: list[str], item: Item) -> str:
    if answer in offered:
        return answer
    place = list(item.choices).index(answer)
    return offered[place] if place < len(offered) and len(offered[place]) == 1 else offered[0]


def last_label(text: str, item: Item) -> str:
    named = [choice for choice in item.choices if choice in text]
    return max(named, key=text.rfind) if named else guess(item)


def measured(endpoint: Endpoint, strategy: str, shown: str, run: str = "edited") -> pl.DataFrame:
    endpoint.script = Reasoner()
    source = tomserve.ask(ITEMS, strategy, base_url=endpoint.url, run="source")
    settings = Settings(run=source.folder, where=("all",), probes=("edits",), shown=shown)
    found = measure(settings, Connection(base_urls=(endpoint.url,), policy=FAST), run)
    return pl.read_parquet(found.folder / "scores.parquet")


@pytest.mark.parametrize(
    ("strategy", "shown"),
    [("cot_free", "both"), ("letters_cot", "both"), ("bigtom_cot", "auto"), ("hitom_cot_reason_first", "both")],
)
def test_every_kind_of_marked_strategy_is_followed_through_its_edits(
    endpoint: Endpoint, strategy: str, shown: str
) -> None:
    frame = measured(endpoint, strategy, shown)
    assert set(frame["form"].drop_nulls()) == {"text"}
    asked = frame.filter(outcome="ok")
    assert set(asked["shown"]) == ({"prefill", "call"} if shown == "both" else {"call"})
    whole = asked.filter(condition="full")
    assert whole.height == len(ITEMS) * whole["shown"].n_unique()
    assert whole.filter(pl.col("answer") != pl.col("own")).is_empty()
    replaced = asked.filter(condition="last_corrupted")
    assert replaced.height == whole.height
    assert replaced.filter(pl.col("answer") != pl.col("implied")).is_empty()
    sent = [body["messages"] for body in endpoint.script.seen]  # type: ignore[attr-defined]
    if strategy == "hitom_cot_reason_first":  # a field of JSON is escaped where it is shown
        begun = [m[-1]["content"] for m in sent if m[-1]["role"] == "assistant"]
        assert begun
        assert all(orjson.loads(text + 'tea"}').keys() == {"explanation", "answer"} for text in begun)
    if strategy == "cot_free":  # the second call of a strategy of turns is its own next turn
        second = [m for m in sent if m[-1]["content"].startswith("Which of the labels is the answer, by what you have")]
        assert {tuple(message["role"] for message in m) for m in second} == {("system", "user", "assistant", "user")}
