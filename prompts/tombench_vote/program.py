"""ToMBench's vote: the question five times with its options in five orders, and the answer that most replies choose."""

import json

from tomserve.benchmarks.published.tombench import LETTERS, MARKED, letter_of, majority, orders
from tomserve.scoring.answers import read_reply
from tomserve.scoring.labels import LetteredChoices


def program(item, ask):
    """Ask in all five orders at once; conclude with the votes as tomserve and as the official scorer read them."""
    shown = orders(item.id, item.choices)
    replies = yield [ask("ask", choices=choices) for choices in shown]
    votes = [
        read_reply(reply.text, LetteredChoices(choices), len(item.story), item.question, not reply.cut).answer
        for reply, choices in zip(replies, shown, strict=True)
    ]
    found = [letter_of(reply.text) for reply in replies]
    official = [
        choices[LETTERS.index(letter)] if LETTERS.index(letter) < len(choices) else None
        for (letter, _), choices in zip(found, shown, strict=True)
    ]
    account = {"votes": votes, "official": official, "fallbacks": sum(how != MARKED for _, how in found)}
    answer = majority(votes)
    return json.dumps(account if answer is None else {"answer": answer, **account}, ensure_ascii=False)
