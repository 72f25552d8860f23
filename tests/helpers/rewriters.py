"""A scripted model that rewrites one story, and answers questions about it."""

from collections.abc import Callable
from typing import Any

import orjson

from tests.conftest import completion
from tomserve.items import Item

STORY = (
    "Noor is a cook in a small town in Peru.",
    "Noor wants to bake 3 loaves of rye bread for the market.",
    "The oven was hot when Noor looked into it in the morning.",
    "A storm cuts the power and the oven cools down.",
    "Noor does not notice that the power is off.",
)
PARAPHRASED = (
    "In a small town in Peru, Noor works as a cook.",
    "For the market, Noor would like to make 3 loaves of rye bread.",
    "When Noor looked into it in the morning, the oven was hot.",
    "The power fails in a storm, and the oven loses its heat.",
    "That the power is off is not seen by Noor.",
)
CONDENSED = (
    "Noor, a cook, wants to bake 3 loaves of rye bread.",
    "The oven was hot when Noor looked into it.",
    "A storm cuts the power and the oven cools.",
    "Noor does not notice.",
)
HOT, COLD = ("Noor believes that it is hot", "Noor believes that it is cold")
QUESTION = "What does Noor believe of the oven?"
ITEM = Item(id="own/1", story=STORY, question=QUESTION, choices=[HOT, COLD], answer=HOT, cluster="own")
BOTH = [ITEM, ITEM.model_copy(update={"id": "own/2", "question": "Does Noor believe that the oven is hot?"})]
Script = Callable[[dict[str, Any], int], Any]


def asked(body: dict[str, Any]) -> Any:
    return body["response_format"]["json_schema"]["schema"]["properties"]


def reply(value: Any) -> dict[str, Any]:
    return completion(orjson.dumps(value).decode())


def asking(script: Script) -> Script:
    """The script for all requests but those that only find out whether the server can chat."""
    return lambda body, n: None if body.get("preflight") else script(body, n)


def rewriter(*stories: tuple[str, ...], answer: Callable[[list[str]], str] = min) -> Script:
    """One that gives these stories for paraphrase and condensed, and answers by `answer` (of the choices)."""

    def script(body: dict[str, Any], n: int) -> Any:
        properties = asked(body)
        if "answer" in properties:
            return reply({"answer": answer(properties["answer"]["enum"])})
        return reply({"story": stories[-1 if properties["story"]["minItems"] == 1 else 0]})

    return asking(script)
