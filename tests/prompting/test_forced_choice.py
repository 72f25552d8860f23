"""Forced choice: what is sent for each option, how its tokens are weighed, and what is said where they are missing."""

from collections.abc import Sequence

import orjson
import pytest

from tests.conftest import make_item
from tomserve.engine.prompt_tokens import KEPT, read_prompt_logprobs
from tomserve.engine.records import build_row
from tomserve.engine.replies import read_reply
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import ConfigError, ServerError
from tomserve.prompting.conversation import Reply
from tomserve.prompting.strategy import Strategy

Tokens = Sequence[tuple[str, float | None]]
START: Tokens = [("", None), ("Question", -3.0), ("?", -1.0), ("\n", -0.5)]


def concluded(options: Sequence[Tokens], skipped: Sequence[int] = (), choices: Sequence[str] = ()) -> str:
    """The label that the program concludes from these tokens of the options' prompts."""
    item = make_item(choices=tuple(choices) or ("tea", "salt", "unknown"), answer=(*choices, "tea")[0], gold=None)
    conversation = Strategy.load("forced_choice").conversation(item)
    cut = skipped or [0] * len(options)
    for number, tokens in enumerate(options):
        assert conversation.conclusion is None
        conversation.reply(number, Reply("x", tokens=tokens, skipped=cut[number]))
    assert conversation.ended
    answer: str = orjson.loads(conversation.conclusion or "")["answer"]
    return answer


def after(*tokens: tuple[str, float]) -> Tokens:
    return [*START, *tokens]


def test_one_request_an_option_with_the_option_as_the_models_own_beginning() -> None:
    item = make_item()
    turns = Strategy.load("forced_choice", max_tokens=500).conversation(item).open
    for option, turn in zip(("tea", "salt", "unknown"), turns, strict=True):
        of = Identity(item.id, "forced_choice", turn.number)
        body = orjson.loads(Request.build(of, turn, model="m", revision=None, sampling=Sampling()).body)
        *question, begun = body.pop("messages")
        assert begun == {"role": "assistant", "content": option}
        assert [message["role"] for message in question] == ["system", "user"]
        assert 'Labels: ["tea","salt","unknown"]' in question[1]["content"]
        assert body == {
            **{"model": "m", "temperature": 0.0, "seed": 0, "prompt_logprobs": 0, "max_tokens": 1},
            **{"continue_final_message": True, "add_generation_prompt": False},
        }


def test_the_likeliest_option_is_the_answer_and_length_alone_decides_nothing() -> None:
    one, two, three = after(("tea", -1.0)), after(("sa", -1.0), ("lt", -0.5)), after(("unknown", -2.0))
    assert concluded([one, two, three]) == "salt"  # the mean, -.75, not the sum, -1.5
    assert concluded([after(("tea", -0.7)), two, three]) == "tea"
    assert concluded([after(("tea", -1.0)), after(("salt", -1.0)), three]) == "tea"  # of equals the first


def test_tokens_that_all_options_share_are_not_weighed() -> None:
    """Otherwise an unlikely common beginning would blur every option."""
    red = after(("box", -9.0), ("_red", -1.0))
    blue = after(("box", -9.0), ("_blue", -0.9), ("ish", -0.9))
    assert concluded([red, blue], choices=("box_red", "box_blueish")) == "box_blueish"


def test_a_token_that_merges_with_what_stands_before_it_counts() -> None:
    merged = [*START[:-1], ("\ntea", -0.2)]
    assert concluded([merged, after(("salt", -0.3)), after(("unknown", -5.0))]) == "tea"


def test_an_option_that_begins_another_one_has_its_last_token_weighed() -> None:
    tea, leaves = after(("tea", -1.0)), after(("tea", -1.0), ("_leaves", -0.1))
    assert concluded([tea, leaves], choices=("tea", "tea_leaves")) == "tea_leaves"
    assert concluded([tea, after(("tea", -1.0), ("_leaves", -4.0))], choices=("tea", "tea_leaves")) == "tea"


def test_places_are_counted_from_the_beginning_of_the_prompt_where_tokens_were_cut() -> None:
    short, long = after(("tea", -2.0)), [*START[1:], ("sa", -1.0), ("lt", -1.0)]
    assert concluded([short, long, after(("unknown", -3.0))], skipped=[0, 1, 0]) == "salt"
    with pytest.raises(ConfigError, match="more tokens than the reply keeps"):
        concluded([[("tea", -1.0)], [("salt", -1.0)], [("unknown", -1.0)]], skipped=[4, 4, 4])


def test_a_server_without_log_probabilities_is_named() -> None:
    item = make_item()
    conversation = Strategy.load("forced_choice").conversation(item)
    conversation.reply(0, Reply("a", tokens=after(("tea", -1.0))))
    conversation.reply(1, Reply("a"))
    with pytest.raises(ServerError, match="no log-probabilities of the prompt"):
        conversation.reply(2, Reply("a"))
    with pytest.raises(ServerError, match="left out the log-probability"):
        concluded([after(("tea", -1.0)), after(("salt", -1.0)), [*START, ("unknown", None)]])


def logprob(text: str, value: object) -> dict[str, object]:
    return {"logprob": value, "rank": 1, "decoded_token": text}


def test_the_tokens_of_the_prompt_are_kept_in_the_reply_and_its_row() -> None:
    entries = [None, {"7": logprob("Is", -1.5)}, {"8": logprob(" tea", -0.25), "9": logprob(" salt", -0.1)}]
    message = {"message": {"content": "x"}, "finish_reason": "length"}
    reply = read_reply(200, orjson.dumps({"choices": [message], "prompt_logprobs": entries}))
    assert reply.tokens == [("", None), ("Is", -1.5), (" tea", -0.25)]
    request = Request(Identity("i", "forced_choice", 2), "k", b"")
    row = orjson.loads(orjson.dumps(build_row(request, reply, "http://e/v1", 1)))
    assert (row["tokens"], row["tokens_skipped"]) == ([["", None], ["Is", -1.5], [" tea", -0.25]], 0)
    plain = read_reply(200, orjson.dumps({"choices": [message], "prompt_logprobs": None}))
    assert "tokens" not in build_row(request, plain, "http://e/v1", 1)


def test_only_the_last_tokens_are_kept() -> None:
    tokens, skipped = read_prompt_logprobs([None, *({str(n): logprob(str(n), -1)} for n in range(KEPT + 9))])
    assert (len(tokens or ()), skipped) == (KEPT, 10)
    assert (tokens or [])[0] == ("9", -1.0)
