"""Chains are read out of replies: their places in the raw text, their beliefs, the answer after them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.written_chains import TIN
from tomserve.faithfulness import chains
from tomserve.faithfulness.chains import (
    StatedBelief,
    WrittenChain,
    field_of,
    labels_of,
    thinking_of,
    turn_of,
    write_beginning,
)
from tomserve.faithfulness.table import LABELS, TEXT, THINKING

LIST = '[{"sentence":1,"belief":"unknown"},{"sentence":3,"belief":"acorns"}]'
ENTRIES = (StatedBelief(1, "unknown"), StatedBelief(3, "acorns"))


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ('{"beliefs":%s,"answer":"acorns"}', '{"beliefs":', ',"answer":'),
        ('{ "beliefs" :\n %s ,\n\t"answer" :   "acorns" }\n', '{ "beliefs" :\n ', ' ,\n\t"answer" :'),
        ('```json\n{"beliefs": %s, "answer": "acorns"}\n```', '```json\n{"beliefs": ', ', "answer":'),
        (
            '<think>{"beliefs": []} {"answer": "beads"}</think>{"beliefs": %s, "answer": "acorns"}',
            '<think>{"beliefs": []} {"answer": "beads"}</think>{"beliefs": ',
            ', "answer":',
        ),
        ('Here {it} is: {"beliefs": %s, "answer": "acorns"}', 'Here {it} is: {"beliefs": ', ', "answer":'),
        ('{"Beliefs": %s, "Answer": "acorns"}', '{"Beliefs": ', ', "Answer":'),
        (
            '{"narrator": [{"sentence": 1, "state": "beads"}], "beliefs": %s, "sure": {"answer": 1}, "answer": "Acorns."}',
            '{"narrator": [{"sentence": 1, "state": "beads"}], "beliefs": ',
            ', "sure": {"answer": 1}, "answer":',
        ),
        ('{"beliefs": %s, "answer": "acorns"', '{"beliefs": ', ', "answer":'),  # cut off behind its answer
    ],
)
def test_a_list_of_beliefs_is_found_with_its_places(text: str, before: str, after: str) -> None:
    found = labels_of(TIN, text % LIST)
    assert found == WrittenChain(LABELS, LIST, ENTRIES, False, before, after, "acorns")
    assert isinstance(found, WrittenChain)
    assert (text % LIST).startswith(write_beginning(found, found.text))


@pytest.mark.parametrize(
    ("beliefs", "answer", "entries", "own"),
    [
        ('["unknown", "Unknown", "acorns"]', "beads", ((1, "unknown"), (2, "unknown"), (3, "acorns")), "beads"),
        ('[{"sentence": 1, "belief": "beads"}, {"sentence": 1, "belief": "acorns"}]', "acorns",
         ((1, "beads"), (1, "acorns")), "acorns"),
        (LIST, "cashews", ENTRIES, None),
    ],
    ids=["bare labels stand for sentences in order", "a sentence twice", "an answer that is no label"],
)  # fmt: skip
def test_entries_of_a_list(beliefs: str, answer: str, entries: tuple[tuple[int, str], ...], own: str | None) -> None:
    found = labels_of(TIN, f'{{"beliefs": {beliefs}, "answer": "{answer}"}}')
    assert isinstance(found, WrittenChain)
    assert (found.entries, found.model_answer) == (tuple(StatedBelief(*one) for one in entries), own)
    assert found.plain is beliefs.startswith('["')


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"answer": "acorns", "beliefs": %s}', chains.ANSWER_FIRST),
        ('{"answer": "acorns"}', chains.NO_CHAIN),
        ("acorns", chains.NO_CHAIN),
        ("", chains.NO_CHAIN),
        ('{"beliefs": [], "answer": "acorns"}', chains.FAULTY),
        ('{"beliefs": ["cashews"], "answer": "acorns"}', chains.FAULTY),
        ('{"beliefs": [{"sentence": 9, "belief": "acorns"}], "answer": "acorns"}', chains.FAULTY),
        ('{"beliefs": "acorns", "answer": "acorns"}', chains.FAULTY),
        (
            '{"beliefs": [{"sentence": 3, "belief": "acorns"}, {"sentence": 1, "belief": "unknown"}], "answer": "acorns"}',
            chains.UNSORTED,
        ),
        ('{"beliefs": ["unknown", {"sentence": 2, "belief": "acorns"}], "answer": "acorns"}', chains.MIXED),
        ('{"beliefs": [{"sentence": 1, "belief": "acorns", "why": "so"}], "answer": "acorns"}', chains.MIXED),
        ("{'beliefs': %s, 'answer': 'acorns'}", chains.NOT_STRICT),
    ],
)
def test_a_list_that_cannot_be_edited_says_why(text: str, reason: str) -> None:
    assert labels_of(TIN, text.replace("%s", LIST)) == reason


def test_a_field_is_decoded_and_written_back_byte_for_byte() -> None:
    text = '{"note": 1, "explanation":  "She read \\"acorns\\".\\nSo: acorns – é.", "answer": "acorns"}'
    found = field_of(text, "explanation")
    assert isinstance(found, WrittenChain)
    assert (found.form, found.text) == (TEXT, 'She read "acorns".\nSo: acorns – é.')
    assert write_beginning(found, found.text) == text[: text.index("answer") + len('answer":')]
    changed = json.loads(write_beginning(found, 'A "quote"\n\\ here') + ' "acorns"}')
    assert changed == {"note": 1, "explanation": 'A "quote"\n\\ here', "answer": "acorns"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"answer": "acorns", "explanation": "so it is"}', chains.NO_FIELD),
        ('{"explanation": 7, "answer": "acorns"}', chains.NO_FIELD),
        ('{"explanation": "...", "answer": "acorns"}', chains.NO_PROSE),
        ('{"explanation": "caf\\u00e9", "answer": "acorns"}', chains.ESCAPED),
        ("no object", chains.NOT_STRICT),
    ],
)
def test_a_field_that_cannot_be_edited_says_why(text: str, reason: str) -> None:
    assert field_of(text, "explanation") == reason


def test_an_earlier_turn_is_the_chain_and_the_last_one_answers() -> None:
    assert turn_of("She read acorns.") == WrittenChain(TEXT, "She read acorns.")
    assert turn_of(" 1. ... ") == chains.NO_PROSE


def test_thinking_is_found_apart_from_the_reply_or_in_it() -> None:
    apart = thinking_of('{"answer": "acorns"}', " She read acorns.\n")
    assert apart == WrittenChain(THINKING, "She read acorns.", before="<think>\n", after='\n</think>\n\n{"answer":')
    assert thinking_of('<think>\nShe read acorns.</think>\n{"answer": "acorns"}', None) == apart
    assert thinking_of('She read acorns.\n</think>{"answer": "acorns"}', "") == apart
    marked = thinking_of('[She read acorns.] {"answer": "acorns"}', None, marks=("[", "]"))
    assert isinstance(marked, WrittenChain)
    assert write_beginning(marked, marked.text) == '[\nShe read acorns.\n]\n\n{"answer":'
    theirs = thinking_of('[THINK]She read acorns.[/THINK]{"answer": "acorns"}', None)
    assert isinstance(theirs, WrittenChain)
    assert write_beginning(theirs, "She read tea.") == '[THINK]\nShe read tea.\n[/THINK]\n\n{"answer":'
    assert thinking_of("<think>She read", None) == chains.CUT
    assert thinking_of('{"answer": "acorns"}', None) == chains.NO_THINKING
    assert thinking_of('<think>\n\n</think>\n\n{"answer": "acorns"}', None) == chains.NO_PROSE


blanks = st.text(" \n\t", max_size=3)
labels = st.sampled_from(TIN.choices)


@given(st.lists(labels, min_size=1, max_size=4), labels, st.lists(blanks, min_size=6, max_size=6), st.booleans())
def test_what_is_shown_is_the_beginning_of_the_reply(
    beliefs: list[str], answer: str, gaps: list[str], plain: bool
) -> None:
    entries = [
        json.dumps(belief) if plain else f'{{"sentence":{gaps[0]}{place},{gaps[1]}"belief":{json.dumps(belief)}}}'
        for place, belief in enumerate(beliefs, 1)
    ]
    listed = f"[{gaps[2]}" + f",{gaps[3]}".join(entries) + "]"
    text = f'{{"beliefs":{gaps[4]}{listed},"answer":{gaps[5]}{json.dumps(answer)}}}'
    found = labels_of(TIN, text)
    assert isinstance(found, WrittenChain)
    assert [entry.label for entry in found.entries] == beliefs
    assert (found.text, found.model_answer, found.plain) == (listed, answer, plain)
    assert text.startswith(write_beginning(found, found.text))
    assert write_beginning(found, found.text).endswith('"answer":')


pieces = st.sampled_from(
    [
        '{"beliefs": ', LIST, '["acorns"]', ', "answer": ', '"acorns"', "}", "<think>", "</think>", "[THINK]",
        "[/THINK]", "\n", "{", "[", '"',
    ]
)  # fmt: skip


@given(st.lists(st.one_of(pieces, st.text(max_size=6)), max_size=14).map("".join))
def test_no_reply_breaks_a_reader(text: str) -> None:
    for found in (labels_of(TIN, text), field_of(text, "beliefs")):
        assert isinstance(found, str) or text.startswith(write_beginning(found, found.text))
    turn = turn_of(text)
    assert isinstance(turn, str) or turn.text == text
    thought = thinking_of(text, None)
    assert isinstance(thought, str) or thought.text in text
