"""Think about lettered options in free text, then pick a letter; what the letter stands for is the answer."""

import json
import string

from tomserve.errors import ConfigError


def program(item, ask):
    options = [one for one in item.choices if one != "unknown" or item.benchmark != "hitom"]  # those that are shown
    if len(options) > len(string.ascii_uppercase):
        raise ConfigError(f"options: found {len(options)}; letters stand for at most 26, so ask with another strategy")
    letters = list(string.ascii_uppercase[: len(options)])
    thinking = ask("think", letters=letters, options=options)
    thoughts = yield thinking
    reply = yield ask("answer", after=(thinking, thoughts), letters=letters, cut=thoughts.cut)
    try:
        return json.dumps({"answer": options[letters.index(json.loads(reply.text)["answer"])]}, ensure_ascii=False)
    except (ValueError, KeyError, TypeError):
        return reply.text
