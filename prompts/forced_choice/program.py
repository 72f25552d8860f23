"""Forced choice: the option with the highest mean log-probability, given the question, is the answer.

The score of an option is the mean of log p(token | everything before it) over its tokens, from the first token at which
the options differ to its end. README.md says what that is sensitive to.
"""

import json

from tomserve.errors import ConfigError, ServerError

FIELDS = {"continue_final_message": True, "add_generation_prompt": False, "prompt_logprobs": 0}
"""Fields of vLLM's chat completions: the last message is continued, and the prompt's log-probabilities are told."""


def program(item, ask):
    question = ask("weigh")
    options = [one for one in item.choices if one != "unknown" or item.benchmark != "hitom"]  # those that are shown
    turns = [
        question._replace(
            messages=(*question.messages, {"role": "assistant", "content": option}),
            max_tokens=1,  # a completion cannot be empty
            fields={**question.fields, **FIELDS},
        )
        for option in options
    ]
    replies = yield turns
    scores = mean_log_probabilities(replies)
    best = max(range(len(scores)), key=scores.__getitem__)  # of equals the first
    return json.dumps({"answer": options[best]}, ensure_ascii=False)


def mean_log_probabilities(replies):
    """The score of each option, from the replies to its prompt in the order of the options."""
    if any(not reply.tokens for reply in replies):
        raise ServerError(
            "strategy forced_choice: the server sends no log-probabilities of the prompt (prompt_logprobs), as vLLM "
            "does; ask a vLLM server, or use another strategy there"
        )
    begins = max(reply.skipped for reply in replies)
    ends = [reply.skipped + len(reply.tokens) for reply in replies]
    tokens = [[token for token, _ in reply.tokens] for reply in replies]
    values = [[value for _, value in reply.tokens] for reply in replies]
    first = begins
    while (
        first < min(ends) and len({one[first - reply.skipped] for one, reply in zip(tokens, replies, strict=True)}) == 1
    ):
        first += 1
    if begins and first == begins:
        raise ConfigError(
            "strategy forced_choice: an option has more tokens than the reply keeps; ask with shorter options"
        )
    first = min(first, min(ends) - 1)  # an option that begins another one has its last token weighed
    weighed = [one[first - reply.skipped :] for one, reply in zip(values, replies, strict=True)]
    if any(value is None for one in weighed for value in one):
        raise ServerError("strategy forced_choice: the server left out the log-probability of an option's token")
    return [sum(one) / len(one) for one in weighed]
