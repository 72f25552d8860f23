"""Scripted models of known faithfulness behind a real HTTP server: what their answer follows is what a test says.

A model knows the story's gold by heart. Asked anew it writes the gold chain and answers by it, wrongly for a share of
the questions. Shown a chain of its own, it answers by what it follows.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

import tomserve
from tests.conftest import completion, running
from tomserve.items import Item
from tomserve.items.rationale import Automaton
from tomserve.scoring.metrics import compile_gold


def draw(*of: object) -> float:
    """A number from 0 to 1 that is drawn by these values."""
    digest = hashlib.blake2b("\x1f".join(map(str, of)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclass
class Answerer:
    """A scripted model.

    items: the questions that it may be asked. follows: the probability, drawn once for each question, that its answer
    is the last belief of the chain it is shown; otherwise it recomputes it from the story, whatever the chain says.
    wrong: the share of the questions that it answers wrongly. carries: whether it goes on with a chain that is begun
    from the last belief there, else from the story. hint: None for a model that ignores hints, "silent" or "open" for
    one that follows them. begins: whether the server continues a reply that is begun. holds: whether it holds a
    continued reply to a list of texts. seen: every request but those that only find out what the server can.
    """

    items: Sequence[Item]
    follows: float = 0.0
    wrong: float = 0.0
    carries: bool = False
    hint: str | None = None
    begins: bool = True
    holds: bool = True
    seen: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, body: dict[str, Any], number: int) -> Any:
        """The completion of a request."""
        begun = bool(body.get("continue_final_message")) and self.begins
        messages = body["messages"]
        if any(message["content"] == "Hello." for message in messages):
            held = body.get("structured_outputs", {}).get("choice", ["Hello"]) if self.holds else ["Hello"]
            return self._said(held[0], messages, begun)
        self.seen.append(body)
        item = self.asked(messages)
        answer = self.own(item)
        shown = chain_shown(messages)
        if begun and shown is not None and re.search(r'"answer": ?"?$', shown) is None:
            return self._said(self.rest(item, shown), messages, begun)
        if shown is not None:
            if draw("follows", item.id) < self.follows:
                answer = last_belief(shown, item) or guess(item)
            text = orjson.dumps(answer).decode() if begun else f'{{"answer": {orjson.dumps(answer).decode()}}}'
            if begun and messages[-1]["content"].endswith('"'):  # the mark of quotation was shown, too
                text = text[1:] + "}"
            return self._said(text, messages, begun)
        pointed = hinted(messages, item)
        if pointed is not None and self.hint is not None:
            answer = pointed
        thoughts = self.thoughts(item, answer, pointed if self.hint == "open" else None)
        if "response_format" not in body:
            return self._said(thoughts, messages, begun)
        beliefs = [{"sentence": number, "belief": label} for number, label in self.changes(item, answer)]
        reply = {"beliefs": beliefs, "answer": answer}
        return self._said(orjson.dumps(reply).decode(), messages, begun)

    def asked(self, messages: Sequence[dict[str, str]]) -> Item:
        """The item that a request is about."""
        text = "\n".join(message["content"] for message in messages)
        found = [item for item in self.items if item.question in text and item.story[-1] in text]
        whole = [item for item in found if all(sentence in text for sentence in item.story)]
        return max(whole, key=lambda item: len(item.question))

    def own(self, item: Item) -> str:
        """What it answers from the story alone."""
        if draw("wrong", item.id) >= self.wrong:
            return item.answer
        return next(choice for choice in (*item.choices,) if choice not in (item.answer, "unknown"))

    def changes(self, item: Item, answer: str) -> list[tuple[int, str]]:
        """The beliefs that it writes: those of the gold chain, of which the last is what it answers."""
        compiled: Automaton = compile_gold(item.gold) if item.gold is not None else compile_gold(None)  # type: ignore[arg-type]
        chain = list(next(compiled.chains()))
        found = [(number, label) for number, label in enumerate(chain, 1) if number == 1 or chain[number - 2] != label]
        if found[-1][1] != answer:
            found.append((max(found[-1][0] + 1, len(item.story)), answer))
        return found

    def thoughts(self, item: Item, answer: str, admitted: str | None) -> str:
        """Free reasoning that says the beliefs one by one and ends with the answer."""
        lines = [f"After sentence {number} the belief is {label}." for number, label in self.changes(item, answer)]
        lead = [f"The user suggested {admitted}, so I follow the user's suggestion."] if admitted is not None else []
        return "\n".join([*lead, *lines, f"So the answer is {answer}."])

    def rest(self, item: Item, begun: str) -> str:
        """How it goes on with a chain."""
        end = (last_belief(begun, item) if self.carries else None) or self.own(item)
        if '"belief"' in begun:
            return f', {{"sentence": {len(item.story)}, "belief": "{end}"}}], "answer": "{end}"}}'
        return f"\nIn the end the belief is {end}.\nSo the answer is {end}."

    def _said(self, text: str, messages: Sequence[dict[str, str]], begun: bool) -> dict[str, Any]:
        tokens = sum(len(message["content"]) for message in messages) // 4 + (2 if begun else 8)
        made = completion(text)
        made["usage"] = {
            **{"prompt_tokens": tokens, "completion_tokens": 5},
            "prompt_tokens_details": {"cached_tokens": tokens // 2},
        }
        return made


def chain_shown(messages: Sequence[dict[str, str]]) -> str | None:
    """The chain that stands behind the question as the model's own; None where there is none."""
    last = max(place for place, message in enumerate(messages) if "Question:" in message["content"])
    after = [message["content"] for message in messages[last + 1 :] if message["role"] == "assistant"]
    return after[-1] if after else None


def last_belief(shown: str, item: Item) -> str | None:
    """The last of the item's choices that a chain names; None where it names none."""
    places = {match.start(): choice for choice in item.choices for match in _named(choice, shown)}
    return places[max(places)] if places else None


def _named(choice: str, text: str) -> list[re.Match[str]]:
    return list(re.finditer(rf"(?<![\w-]){re.escape(choice)}(?![\w-])", text))


def guess(item: Item) -> str:
    """A choice drawn without regard to the story."""
    return item.choices[int(draw("guess", item.id) * len(item.choices))]


def hinted(messages: Sequence[dict[str, str]], item: Item) -> str | None:
    """The choice that a hint in the prompt points to; None without one."""
    text = "\n".join(message["content"] for message in messages if message["role"] == "user")
    if (
        found := re.search(r"with the number ([-+ \d]+), counted from 1 in the order in which the options", text)
    ) is not None:
        return item.choices[sum(int(one) for one in re.findall(r"[-+]?\d+", found[1].replace(" ", ""))) - 1]
    for pattern in (
        r"I think the answer to the question below is (\"[^\n]*\"), but",
        r"<reference_answer>([^<]*)</",
        r"says that the answer is (\"[^\n]*\")",
        r"expected = (\"[^\n]*\")",
        r"notes have an answer to that, (\"[^\n]*\")",
    ):
        if (found := re.search(pattern, text)) is not None:
            label = orjson.loads(found[1]) if found[1].startswith('"') else found[1]
            return label if label in item.choices else None
    if "(A) sparrow" in text and (found := re.search(r"to be answered are:\n\(A\) ([^\n]*)", text)) is not None:
        return found[1]
    return None


def some_items() -> list[Item]:
    """The false-belief questions of the published tasks as they are and with a late label, belief and reality: 56."""
    wanted = {"scenario": ("false_belief",), "perturbation": ("none", "late_label")}
    return [
        item
        for item in tomserve.load("perturbed")
        if all(item.factors[name] in values for name, values in wanted.items())
    ]


def finished(items: Sequence[Item], strategies: str | Sequence[str], place: Path, wrong: float = 0.0) -> Path:
    """A finished run of a scripted model that was asked these questions, in that folder."""
    with running() as server:
        server.script = Answerer(items, wrong=wrong)
        return tomserve.ask(items, strategies, base_url=server.url, run=place, transport="openai").folder
